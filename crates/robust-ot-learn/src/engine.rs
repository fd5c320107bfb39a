//! Where the steps of a run are made, when not on the processor.

use std::fmt;

use ndarray::Array2;
use robust_ot::{Interrupt, Result};

use crate::data::Features;
use crate::optimizer::{Parameters, Step};

/// Makes the steps of training on another device, which keeps the weights from epoch to epoch. It is made for the same data,
/// objective and settings as the [`Trainer`](super::Trainer) that it is given to.
pub trait Engine: fmt::Debug + Send {
    /// Takes weights and biases, with what the optimiser remembers of them.
    ///
    /// # Errors
    /// When the device fails.
    fn upload(&mut self, weights: &Parameters, bias: Option<&Parameters>) -> Result<()>;

    /// Gives them back.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&mut self, weights: &mut Parameters, bias: Option<&mut Parameters>) -> Result<()>;

    /// Makes the steps of one epoch. Returns the loss of every row, in the order they came; none when it was interrupted.
    ///
    /// # Errors
    /// When training diverges, the metric is not representable or the device fails.
    fn epoch(&mut self, work: EpochWork<'_>) -> Result<Option<Vec<f64>>>;

    /// X W + b.
    ///
    /// # Errors
    /// When the device fails.
    fn logits(&mut self, features: &Features) -> Result<Array2<f32>>;
}

/// One epoch.
pub struct EpochWork<'a> {
    /// Counted from 1.
    pub number: usize,
    /// The rows, in the order they come.
    pub order: &'a [usize],
    /// What the optimiser does with the gradient of every batch.
    pub steps: &'a [Step],
    /// Once raised, the epoch ends.
    pub interrupt: &'a Interrupt,
    /// Is told the batches done and all there are.
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
