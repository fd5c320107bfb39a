//! robust-ot on NVIDIA GPUs.
//!
//! Nothing of CUDA is needed to build this crate or to run it where there is no card: the driver, cuBLAS and the compiler NVRTC are
//! looked for when a [`Device`] is opened, and kernels are compiled for the card that is there.
//!
//! [`Training`] makes the steps of [`robust_ot_learn::Trainer`] on the device; [`Streamed`] solves the plain entropic problems of
//! [`robust_ot::Problem::solve_on`] there, and [`Pairs`] those of [`robust_ot::solve_pairs`], many at a time. [`BatchLoss`] is the
//! robust loss for predictions that another library has on the device.

mod arguments;
mod batch_loss;
mod blas;
mod choice;
mod compile;
mod device;
mod fit_device;
mod label_loss;
mod launch;
mod linear;
mod pairs;
mod rows;
mod side;
mod streamed;
mod sweeps;
mod training;
mod training_room;

pub use crate::batch_loss::{BatchAddresses, BatchLoss};
pub use crate::blas::Precision;
pub use crate::choice::{DeviceChoice, Work, cache_folder};
pub use crate::compile::{Source, compile};
pub use crate::device::Device;
pub use crate::fit_device::FitDevice;
pub use crate::linear::{logits, product_rounding};
pub use crate::pairs::Pairs;
pub use crate::streamed::Streamed;
pub use crate::training::Training;
