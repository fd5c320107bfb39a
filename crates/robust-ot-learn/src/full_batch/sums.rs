//! The loss of all rows and its gradient, $\nabla W = X^\top G$ and $\nabla b = 1^\top G$, a block of rows at a time.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use robust_ot::linalg::flat;
use robust_ot::loss::Targets;
use robust_ot::{Error, Kernels, Result};

use crate::dataset::Dataset;
use crate::linear::{Batch, block_len, resize_rows};
use crate::objective::{Objective, ObjectiveWorkspace};

/// The number of logits computed at a time.
const LOGITS: usize = 1 << 22;

/// Buffers for sums over all rows of a dataset.
#[derive(Debug)]
pub(super) struct Sums<'a> {
    data: &'a Dataset,
    objective: &'a Objective,
    rows: Vec<usize>,
    rows_per_block: usize,
    batch: Batch,
    targets: Targets,
    weights: Vec<f32>,
    logits: Array2<f32>,
    of_block: Vec<f32>,
    workspace: ObjectiveWorkspace,
}

impl<'a> Sums<'a> {
    pub(super) fn new(data: &'a Dataset, objective: &'a Objective) -> Self {
        let labels = objective.labels();
        Self {
            data,
            objective,
            rows: (0..data.rows()).collect(),
            rows_per_block: (LOGITS / labels.max(1)).max(256),
            batch: Batch::workspace(data.features()),
            targets: data.targets().select(&[]),
            weights: Vec::new(),
            logits: Array2::zeros((0, labels)),
            of_block: Vec::new(),
            workspace: ObjectiveWorkspace::default(),
        }
    }

    /// Returns the summed losses at these weights and biases, and writes their gradients.
    pub(super) fn at(
        &mut self,
        weights: ArrayView2<f32>,
        bias: &[f32],
        of_weights: &mut [f32],
        of_bias: &mut [f32],
    ) -> Result<f64> {
        let labels = self.objective.labels();
        of_bias.fill(0.0);
        let mut loss = 0.0;
        for (at, chosen) in self.rows.chunks(self.rows_per_block).enumerate() {
            self.targets.gather(self.data.targets(), chosen);
            resize_rows(&mut self.logits, chosen.len());
            let features = self.data.features();
            self.batch.gather(features, chosen, None);
            self.batch.forward(weights, Some(bias), self.logits.view_mut());
            let weights = self.data.gather_weights(chosen, &mut self.weights);
            loss += self.objective.evaluate(&mut self.logits, &self.targets, weights, &mut self.workspace)?;
            if !loss.is_finite() {
                return Err(Error::NotFinite { name: "the loss", row: 0, column: 0, value: loss });
            }
            let (batch, logits) = (&self.batch, &self.logits);
            let first = at == 0;
            if !first {
                self.of_block.resize(of_weights.len(), 0.0);
            }
            let out = if first { &mut *of_weights } else { &mut self.of_block };
            out.par_chunks_mut(block_len(labels))
                .enumerate()
                .for_each(|(block, out)| batch.gradient(block, logits, out));
            if !first {
                f32::add_own(of_weights, 1.0, &self.of_block);
            }
            flat(logits).chunks_exact(labels).for_each(|row| f32::add_own(of_bias, 1.0, row));
        }
        Ok(loss)
    }
}
