//! The plan of an entropic problem, kept as potentials and rounded to the exact marginals (Altschuler, Weed, Rigollet
//! 2017): rows that are too light and columns that are too light share what is missing.

use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, Axis};

use super::sinkhorn::BLOCKS;
use crate::kernels::{exp_shifted, exponents};

/// A feasible entropic plan that is never stored: its rows come from potentials and costs,
/// γ_ij = a_i y_j p_ij + e_i e'_j with p_ij ∝ e^{target_j − C_ij/λ} summing to one over j.
#[derive(Debug, Clone)]
pub(crate) struct EntropicPlan {
    pub(super) a: Array1<f64>,
    /// ln b_j + g_j/λ.
    pub(super) target: Vec<f64>,
    /// y, the factor that keeps column j within b_j.
    pub(super) column_scale: Vec<f64>,
    pub(super) regularisation: f64,
    pub(super) row_deficit: Array1<f64>,
    pub(super) column_deficit: Array1<f64>,
}

impl EntropicPlan {
    /// Row i of the plan.
    pub(crate) fn fill_row(&self, i: usize, cost: &[f64], masses: &mut [f64]) {
        let largest = exponents(masses, &self.target, cost, 1.0 / self.regularisation);
        let scale = self.a[i] / exp_shifted(masses, largest);
        let deficit = self.row_deficit[i];
        for ((mass, y), share) in masses.iter_mut().zip(&self.column_scale).zip(&self.column_deficit) {
            *mass = scale * y * *mass + deficit * share;
        }
    }

    pub(super) fn row_sums(&self, cost: &Array2<f64>) -> Array1<f64> {
        let mut sums = Array1::zeros(cost.nrows());
        sums.axis_chunks_iter_mut(Axis(0), cost.nrows().div_ceil(BLOCKS))
            .into_par_iter()
            .enumerate()
            .for_each(|(block, mut sums)| {
                let mut masses = vec![0.0; cost.ncols()];
                for (offset, sum) in sums.iter_mut().enumerate() {
                    let i = block * cost.nrows().div_ceil(BLOCKS) + offset;
                    self.fill_row(i, row(cost, i), &mut masses);
                    *sum = masses.iter().sum();
                }
            });
        sums
    }
}

/// A row of a row-major matrix.
pub(crate) fn row(matrix: &Array2<f64>, i: usize) -> &[f64] {
    let n = matrix.ncols();
    &matrix.as_slice().expect("costs are row-major")[i * n..(i + 1) * n]
}
