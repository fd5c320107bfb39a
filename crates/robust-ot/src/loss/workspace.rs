//! The workspace for the losses of consecutive batches.

use std::fmt;

use ndarray::{Array1, Array2};

use super::chunk::Chunk;
use crate::kernels::Real;

/// Losses and gradients of the last batch, and the buffers they were computed in. From the second batch of a given size
/// on, nothing of the size of the batch is allocated, and nothing at all where rows have one label or iterations are truncated.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Grouping;
/// use robust_ot::loss::{LossSettings, LossWorkspace, RobustLoss, Targets};
///
/// let loss = RobustLoss::<f32>::new(&array![[0.0], [1.0]], &Grouping::none(1), LossSettings::default())?;
/// let mut workspace = LossWorkspace::default();
/// for prediction in [0.9_f32, 0.5] {
///     let logs = array![[prediction.ln(), (1.0 - prediction).ln()]];
///     loss.loss_gradient_in(logs.view(), &Targets::new(2, [[0]])?, &mut workspace)?;
///     println!("{}", workspace.losses()[0]);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
pub struct LossWorkspace<T: Real = f64> {
    pub(super) losses: Array1<f64>,
    pub(super) errors: Array1<f64>,
    pub(super) gradients: Array2<T>,
    pub(super) chunks: Vec<Chunk<T>>,
}

impl<T: Real> LossWorkspace<T> {
    /// W of every row.
    pub fn losses(&self) -> &Array1<f64> {
        &self.losses
    }

    /// How far each loss may lie above W, as in [`LossGradient::errors`](super::LossGradient::errors).
    pub fn errors(&self) -> &Array1<f64> {
        &self.errors
    }

    /// ∇_h W of every row, along the simplex: each sums to zero.
    pub fn gradients(&self) -> &Array2<T> {
        &self.gradients
    }

    /// Resizes the workspace for a batch, in chunks of the given number of rows.
    pub(super) fn resize(&mut self, rows: usize, labels: usize, rows_per_chunk: usize) {
        if self.gradients.dim() != (rows, labels) {
            // The last batch is often shorter than the others; the memory of the longer ones is kept.
            let gradients = std::mem::take(&mut self.gradients).into_raw_vec_and_offset().0;
            self.gradients = reshaped(gradients, rows, labels);
            for numbers in [&mut self.losses, &mut self.errors] {
                let mut kept = std::mem::take(numbers).into_raw_vec_and_offset().0;
                kept.resize(rows, 0.0);
                *numbers = Array1::from_vec(kept);
            }
        }
        let chunks = rows.div_ceil(rows_per_chunk);
        if self.chunks.len() < chunks {
            self.chunks.resize_with(chunks, Chunk::default);
        }
    }
}

/// A matrix of another shape in the same memory, if that is large enough.
fn reshaped<T: Real>(mut numbers: Vec<T>, rows: usize, columns: usize) -> Array2<T> {
    numbers.resize(rows * columns, T::default());
    Array2::from_shape_vec((rows, columns), numbers).expect("as many numbers as the shape holds")
}

impl<T: Real> Default for LossWorkspace<T> {
    fn default() -> Self {
        Self {
            losses: Array1::default(0),
            errors: Array1::default(0),
            gradients: Array2::default((0, 0)),
            chunks: Vec::new(),
        }
    }
}

impl<T: Real> fmt::Debug for LossWorkspace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossWorkspace").field("rows", &self.losses.len()).finish_non_exhaustive()
    }
}
