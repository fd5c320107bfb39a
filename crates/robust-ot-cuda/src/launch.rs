//! Launching kernels.

use cudarc::driver::LaunchConfig;

/// So many threads a block where a kernel has one block a row.
pub(crate) const THREADS: u32 = 256;

/// A grid of so many blocks, one dimension or two.
pub(crate) fn grid(blocks: (usize, usize), threads: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.0 as u32, blocks.1 as u32, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: shared as u32,
    }
}

/// One block a row.
pub(crate) fn rows(count: usize) -> LaunchConfig {
    grid((count, 1), THREADS, 0)
}

/// `launch!(device, stream, kernel, config, arguments…)`: the arguments must be those of the kernel, in its order and of its types, and
/// buffers as long as it reads and writes.
macro_rules! launch {
    ($device:expr, $stream:expr, $kernel:expr, $config:expr, $($argument:expr),+ $(,)?) => {{
        use ::cudarc::driver::PushKernelArg as _;
        // SAFETY: each use keeps what is asked for above, next to the signature in kernels/.
        #[allow(unsafe_code)]
        let launched = unsafe { $stream.launch_builder($kernel)$(.arg(&$argument))+.launch($config) };
        launched.map(|_| ()).map_err(|error| $device.failed("launching a kernel", error))
    }};
}

pub(crate) use launch;
