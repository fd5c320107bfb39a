//! The CPU or a GPU.

use std::env;
use std::path::PathBuf;

use robust_ot_cuda::{Device, cache_folder};
use robust_ot_learn::About;

/// The folder for compiled kernels.
pub fn kernel_cache() -> Option<PathBuf> {
    cache_folder(|name| env::var_os(name))
}

/// The name of the device.
pub fn device_name(device: Option<&Device>) -> String {
    device.map_or_else(|| About::CPU.to_owned(), ToString::to_string)
}
