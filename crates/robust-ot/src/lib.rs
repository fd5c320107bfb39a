//! Robust optimal transport: compare two distributions when the ground metric itself is uncertain.
#![warn(missing_docs)]

pub mod data;
mod displacement;
mod error;
mod grouping;
mod interrupt;
mod kernels;
mod linalg;
mod measure;
mod metric;
mod robust;
#[cfg(test)]
mod testing;
pub mod transport;

pub use crate::displacement::Displacements;
pub use crate::error::{Error, Result};
pub use crate::grouping::Grouping;
pub use crate::interrupt::Interrupt;
pub use crate::measure::Measure;
pub use crate::metric::{MetricSet, Prior, WorstCase};
pub use crate::robust::{Oracle, Problem, Settings, Solution, Solver, Status, Step};
pub use crate::transport::PlanEntry;
