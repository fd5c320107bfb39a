//! The interface to devices other than the CPU that run training steps.

use std::fmt;

use ndarray::Array2;
use robust_ot::Result;
use robust_ot::solve::Interrupt;

use crate::data::Features;
use crate::optimizer::{Parameters, Step};

/// Runs training steps on another device, which keeps the weights from epoch to epoch. An engine is built for the same data,
/// objective and settings as the [`Trainer`](super::Trainer) that uses it.
pub trait Engine: fmt::Debug + Send {
    /// Copies weights and biases to the device, with their optimizer state.
    ///
    /// # Errors
    /// When the device fails.
    fn upload(&mut self, weights: &Parameters, bias: Option<&Parameters>) -> Result<()>;

    /// Copies them back from the device.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&mut self, weights: &mut Parameters, bias: Option<&mut Parameters>) -> Result<()>;

    /// Runs the steps of one epoch. Returns the loss of every row, in the order of the epoch, or `None` if interrupted.
    ///
    /// # Errors
    /// When training diverges, the metric is not representable or the device fails.
    fn epoch(&mut self, work: EpochWork<'_>) -> Result<Option<Vec<f64>>>;

    /// Computes X W + b.
    ///
    /// # Errors
    /// When the device fails.
    fn logits(&mut self, features: &Features) -> Result<Array2<f32>>;
}

/// The work of one epoch.
pub struct EpochWork<'a> {
    /// The epoch, counted from 1.
    pub number: usize,
    /// The rows, in the order of the epoch.
    pub order: &'a [usize],
    /// The optimizer step of each batch.
    pub steps: &'a [Step],
    /// Ends the epoch once raised.
    pub interrupt: &'a Interrupt,
    /// Called with the number of batches done and the total.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

impl fmt::Debug for EpochWork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochWork")
            .field("number", &self.number)
            .field("rows", &self.order.len())
            .finish_non_exhaustive()
    }
}
