//! The losses of a batch and their gradients: $G$ with respect to the logits, then $\nabla W = X^\top G$ and
//! $\nabla b = 1^\top G$; with a hidden layer $H$ in place of $X$, and the gradient through it.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use robust_ot::linalg::{flat, product_blocks};
use robust_ot::loss::Targets;
use robust_ot::{Error, Kernels, Result};

use crate::dataset::Dataset;
use crate::hidden_batch::HiddenBatch;
use crate::linear::{Batch, add_bias, block_len, gradient_block, resize_rows};
use crate::objective::{Objective, ObjectiveWorkspace};
use crate::optimizer::Step;
use crate::settings::TrainSettings;
use crate::state::State;

/// Buffers reused from batch to batch, and the gradients of the last batch.
#[derive(Debug)]
pub(super) struct Slopes {
    rows: Batch,
    hidden: Option<HiddenBatch>,
    targets: Targets,
    weights: Vec<f32>,
    /// Z, or G after [`Slopes::find`].
    logits: Array2<f32>,
    /// Under a prior with W = A R: H A, or G R in [`Slopes::descend`].
    rotated: Array2<f32>,
    objective: ObjectiveWorkspace,
}

impl Slopes {
    /// Allocates buffers for batches of this dataset.
    pub(super) fn workspace(data: &Dataset, settings: &TrainSettings) -> Self {
        let labels = data.targets().labels();
        Self {
            rows: Batch::workspace(data.features()),
            hidden: settings.hidden.map(|hidden| HiddenBatch::workspace(hidden, settings.seed)),
            targets: data.targets().select(&[]),
            weights: Vec::new(),
            logits: Array2::zeros((0, labels)),
            rotated: Array2::zeros((0, labels)),
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
        self.targets.gather(data.targets(), chosen);
        resize_rows(&mut self.logits, chosen.len());
        self.predict((data, chosen), objective, state);
        let diverged = |what, value| Error::Diverged { what, value, epoch, batch };
        // NaN if any logit is not finite.
        let (least, _) = f32::extremes(flat(&self.logits));
        if !least.is_finite() {
            let odd = self.logits.iter().find(|z| !z.is_finite()).copied().unwrap_or(f32::NAN);
            return Err(diverged("a logit", f64::from(odd)));
        }
        let weights = data.gather_weights(chosen, &mut self.weights);
        let loss = objective.evaluate(&mut self.logits, &self.targets, weights, &mut self.objective)?;
        if loss.is_finite() { Ok(loss) } else { Err(diverged("the loss", loss)) }
    }

    /// Z = X W + b; with a hidden layer and dropout, Z = H A R + b.
    fn predict(&mut self, (data, chosen): (&Dataset, &[usize]), objective: &Objective, state: &State) {
        let labels = objective.labels();
        let weights = &state.weights.values;
        let weights = ArrayView2::from_shape((weights.len() / labels, labels), weights);
        let weights = weights.expect("a row for every feature or unit");
        let bias = state.bias.as_ref().map(|bias| bias.values.as_slice());
        let (Some(hidden), Some(layer)) = (&mut self.hidden, &state.hidden) else {
            self.rows.gather(data.features(), chosen, None);
            self.rows.forward(weights, bias, self.logits.view_mut());
            return;
        };
        let step = state.progress.steps;
        self.rows.gather(data.features(), chosen, hidden.input_dropout(step));
        hidden.forward(&self.rows, chosen.len(), layer.view(), step);
        match objective.label_root() {
            None => product_blocks(self.logits.view_mut(), hidden.outputs().view(), weights),
            Some(root) => {
                resize_rows(&mut self.rotated, chosen.len());
                product_blocks(self.rotated.view_mut(), hidden.outputs().view(), weights);
                product_blocks(self.logits.view_mut(), self.rotated.view(), root.view());
            }
        }
        add_bias(self.logits.view_mut(), bias);
    }

    /// Multiplies all gradients by a factor.
    pub(super) fn scale(&mut self, factor: f32) {
        self.logits.mapv_inplace(|g| g * factor);
    }

    /// Takes one step along the gradients.
    pub(super) fn descend(&mut self, step: Step, objective: &Objective, state: &mut State) {
        let labels = self.logits.ncols();
        let (weights, block) = (&mut state.weights, block_len(labels));
        if let (Some(hidden), Some(layer)) = (&mut self.hidden, &mut state.hidden) {
            // ∂/∂(H A), which is G R because R is symmetric.
            let slopes = match objective.label_root() {
                None => &self.logits,
                Some(root) => {
                    product_blocks(self.rotated.view_mut(), self.logits.view(), root.view());
                    &self.rotated
                }
            };
            hidden.back(slopes, &weights.values);
            weights.step(step, block, |at, out| gradient_block(hidden.outputs(), at, slopes, out));
            hidden.descend(&self.rows, step, layer);
        } else {
            weights.step(step, block, |at, out| self.rows.gradient(at, &self.logits, out));
        }
        if let Some(bias) = &mut state.bias {
            bias.step(step.without_decay(), labels, |_, out| column_sums(&self.logits, out));
        }
    }

    /// ∇W of a model without a hidden layer, features × labels.
    pub(super) fn of_weights(&self, out: &mut [f32]) {
        let blocks = out.par_chunks_mut(block_len(self.logits.ncols()));
        blocks.enumerate().for_each(|(block, out)| self.rows.gradient(block, &self.logits, out));
    }

    /// ∇b.
    pub(super) fn of_bias(&self, out: &mut [f32]) {
        column_sums(&self.logits, out);
    }
}

/// 1ᵀ G.
pub(super) fn column_sums(slopes: &Array2<f32>, out: &mut [f32]) {
    out.fill(0.0);
    flat(slopes).chunks_exact(out.len()).for_each(|row| f32::add_own(out, 1.0, row));
}
