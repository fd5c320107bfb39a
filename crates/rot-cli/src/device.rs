//! `--device`: the CPU or a GPU.

use std::env;
use std::path::PathBuf;

use clap::Args;
use ndarray::Array2;
use robust_ot_cuda::{Device, DeviceChoice, Work, cache_folder, logits};
use robust_ot_learn::data::Features;
use robust_ot_learn::{About, Model, zero_rows_note};

use crate::failure::Failure;
use crate::parse::parsed;

/// Where to compute.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceOptions {
    /// Where to compute: auto, cpu, cuda or cuda:N. auto uses a GPU if one is available and the work is large enough; cuda
    /// fails without a GPU
    #[arg(long, value_name = "WHERE", default_value_t, value_parser = parsed::<DeviceChoice>)]
    pub device: DeviceChoice,
}

impl DeviceOptions {
    /// Opens the GPU to use for entropic plans; `None` means the CPU.
    pub fn open_for_plans(&self, work: Work, entropy: f64) -> Result<Option<Device>, Failure> {
        Ok(self.device.open_for_plans(work, entropy, kernel_cache().as_deref())?)
    }
}

/// The folder for compiled kernels.
pub fn kernel_cache() -> Option<PathBuf> {
    cache_folder(|name| env::var_os(name))
}

/// The name of the device, for users and for JSON.
pub fn device_name(device: Option<&Device>) -> String {
    device.map_or_else(|| About::CPU.to_owned(), ToString::to_string)
}

/// The probabilities of rows, and the device that computed them. Rows that cannot be scaled are noted on standard error.
pub fn probabilities(
    model: &Model,
    mut features: Features,
    choice: DeviceChoice,
) -> Result<(Array2<f64>, String), Failure> {
    let zero_rows = model.preprocessing.apply(&mut features)?;
    if let Some(note) = zero_rows_note(zero_rows, features.rows(), "rows") {
        say!("rot: note: {note}");
    }
    let labels = model.label_names().len();
    let work = Work::of_products(features.rows(), features.columns(), labels, 1);
    let device = choice.open(work, None, kernel_cache().as_deref())?;
    let found = match &device {
        None => model.probabilities_of_preprocessed(&features)?,
        Some(device) => model
            .probabilities_by(&features, |features, weights, bias| logits(device, features, weights, bias))?,
    };
    Ok((found, device_name(device.as_ref())))
}
