//! The losses of a batch and their gradients: $G$ with respect to the logits, then $\nabla W = X^\top G$ and
//! $\nabla b = 1^\top G$.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use robust_ot::linalg::flat;
use robust_ot::loss::Targets;
use robust_ot::{Error, Kernels, Result};

use crate::dataset::Dataset;
use crate::linear::{Batch, block_len};
use crate::objective::{Objective, ObjectiveWorkspace};
use crate::optimizer::{Parameters, Step};
use crate::state::State;

/// Buffers reused from batch to batch, and the gradients of the last batch.
#[derive(Debug)]
pub(super) struct Slopes {
    rows: Batch,
    targets: Targets,
    /// X W + b, or G after [`Slopes::find`].
    logits: Array2<f32>,
    objective: ObjectiveWorkspace,
}

impl Slopes {
    /// Allocates buffers for batches of this dataset.
    pub(super) fn workspace(data: &Dataset) -> Self {
        Self {
            rows: Batch::workspace(data.features()),
            targets: data.targets().select(&[]),
            logits: Array2::zeros((0, data.targets().labels())),
            objective: ObjectiveWorkspace::default(),
        }
    }

    /// Computes the gradients of the summed losses of the chosen rows and returns that sum. Errors name the epoch and the
    /// batch.
    pub(super) fn find(
        &mut self,
        (data, chosen): (&Dataset, &[usize]),
        objective: &Objective,
        state: &State,
        (epoch, batch): (usize, usize),
    ) -> Result<f64> {
        let labels = objective.labels();
        self.targets.gather(data.targets(), chosen);
        if self.logits.nrows() != chosen.len() {
            self.logits = Array2::zeros((chosen.len(), labels));
        }
        let weights =
            ArrayView2::from_shape((state.weights.values.len() / labels, labels), &state.weights.values);
        let bias = state.bias.as_ref().map(|bias| bias.values.as_slice());
        let weights = weights.expect("a row for every feature");
        self.rows.forward(data.features(), chosen, weights, bias, self.logits.view_mut());
        let diverged = |what, value| Error::Diverged { what, value, epoch, batch };
        // NaN if any logit is not finite.
        let (least, _) = f32::extremes(flat(&self.logits));
        if !least.is_finite() {
            let odd = self.logits.iter().find(|z| !z.is_finite()).copied().unwrap_or(f32::NAN);
            return Err(diverged("a logit", f64::from(odd)));
        }
        let loss = objective.evaluate(&mut self.logits, &self.targets, &mut self.objective)?;
        if loss.is_finite() { Ok(loss) } else { Err(diverged("the loss", loss)) }
    }

    /// Multiplies all gradients by a factor.
    pub(super) fn scale(&mut self, factor: f32) {
        self.logits.mapv_inplace(|g| g * factor);
    }

    /// Takes one step along the gradients.
    pub(super) fn descend(&self, step: Step, weights: &mut Parameters, bias: Option<&mut Parameters>) {
        let labels = self.logits.ncols();
        weights.step(step, block_len(labels), |block, out| self.rows.gradient(block, &self.logits, out));
        if let Some(bias) = bias {
            bias.step(Step { decay: 0.0, ..step }, labels, |_, out| self.of_bias(out));
        }
    }

    /// ∇W, features × labels.
    pub(super) fn of_weights(&self, out: &mut [f32]) {
        let blocks = out.par_chunks_mut(block_len(self.logits.ncols()));
        blocks.enumerate().for_each(|(block, out)| self.rows.gradient(block, &self.logits, out));
    }

    /// ∇b.
    pub(super) fn of_bias(&self, out: &mut [f32]) {
        out.fill(0.0);
        flat(&self.logits).chunks_exact(out.len()).for_each(|row| f32::add_own(out, 1.0, row));
    }
}
