//! robust-ot on NVIDIA GPUs.
//!
//! CUDA is not needed to build this crate, or to run it on a machine without a GPU: the driver, cuBLAS and the compiler
//! NVRTC are loaded at run time, and kernels are compiled for the GPU of the opened [`Device`].
//!
//! [`Training`] makes the steps of [`robust_ot_learn::Trainer`] on the device; [`Streamed`] solves the plain entropic problems of
//! [`robust_ot::Problem::solve_with`] there, and [`Pairs`] those of [`robust_ot::device::solve_pairs_on`], many at a time. [`BatchLoss`] is the
//! robust loss for predictions that another library has on the device.

mod arguments;
mod batch_loss;
mod blas;
mod choice;
mod clouds;
mod compile;
mod device;
mod fit_device;
mod held;
mod label_loss;
mod launch;
mod linear;
mod memory;
mod pairs;
mod rows;
mod side;
mod streamed;
mod sweeps;
mod training;
mod training_buffers;
mod workspace;

pub use crate::batch_loss::{BatchAddresses, BatchLoss, BatchShape, TargetKind};
pub use crate::blas::Precision;
pub use crate::choice::{DeviceChoice, Work, cache_folder};
pub use crate::clouds::{CloudPoints, CloudSlopes, Clouds};
pub use crate::compile::{Source, compile};
pub use crate::device::Device;
pub use crate::fit_device::FitDevice;
pub use crate::held::Number;
pub use crate::linear::{logits, product_rounding};
pub use crate::pairs::Pairs;
pub use crate::streamed::Streamed;
pub use crate::training::Training;
