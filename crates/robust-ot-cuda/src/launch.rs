//! Launching kernels.

use cudarc::driver::LaunchConfig;

/// Threads per block of kernels with one block per row.
pub(crate) const THREADS: u32 = 256;

/// A grid of blocks in one or two dimensions.
pub(crate) fn grid(blocks: (usize, usize), threads: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.0 as u32, blocks.1 as u32, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: shared as u32,
    }
}

/// A grid with one block per row.
pub(crate) fn rows(count: usize) -> LaunchConfig {
    grid((count, 1), THREADS, 0)
}

/// `launch!(device, stream, kernel, config, arguments…)` launches a kernel. The arguments must match the kernel's
/// parameters in order and type, and buffers must cover what it reads and writes.
macro_rules! launch {
    ($device:expr, $stream:expr, $kernel:expr, $config:expr, $($argument:expr),+ $(,)?) => {{
        use ::cudarc::driver::PushKernelArg as _;
        // SAFETY: each use meets the requirements above, by the signature in kernels/.
        #[allow(unsafe_code)]
        let launched = unsafe { $stream.launch_builder($kernel)$(.arg(&$argument))+.launch($config) };
        launched.map(|_| ()).map_err(|error| $device.failed("launching a kernel", error))
    }};
}

pub(crate) use launch;
