//! The losses of some rows and their slopes: in the logits first, then $\nabla W = X^\top G$ and $\nabla b = 1^\top G$.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use robust_ot::linalg::flat;
use robust_ot::loss::Targets;
use robust_ot::{Error, Kernels, Result};

use crate::dataset::Dataset;
use crate::linear::{Batch, block_len};
use crate::objective::{Objective, ObjectiveRoom};
use crate::optimizer::{Parameters, Step};
use crate::state::State;

/// Room for one batch after the other, and the slopes of the last.
#[derive(Debug)]
pub(super) struct Slopes {
    rows: Batch,
    targets: Targets,
    /// X W + b, and after [`Slopes::find`] G.
    logits: Array2<f32>,
    objective: ObjectiveRoom,
}

impl Slopes {
    /// Room for batches of such data.
    pub(super) fn room(data: &Dataset) -> Self {
        Self {
            rows: Batch::room(data.features()),
            targets: data.targets().select(&[]),
            logits: Array2::zeros((0, data.targets().labels())),
            objective: ObjectiveRoom::default(),
        }
    }

    /// Finds the slopes of the summed losses of some rows; returns that sum. `place` is the epoch and the batch.
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
        // NaN when any logit is not finite.
        let (least, _) = f32::extremes(flat(&self.logits));
        if !least.is_finite() {
            let odd = self.logits.iter().find(|z| !z.is_finite()).copied().unwrap_or(f32::NAN);
            return Err(diverged("a logit", f64::from(odd)));
        }
        let loss = objective.evaluate(&mut self.logits, &self.targets, &mut self.objective)?;
        if loss.is_finite() { Ok(loss) } else { Err(diverged("the loss", loss)) }
    }

    /// Multiplies all slopes.
    pub(super) fn scale(&mut self, factor: f32) {
        self.logits.mapv_inplace(|g| g * factor);
    }

    /// One step along the slopes.
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
