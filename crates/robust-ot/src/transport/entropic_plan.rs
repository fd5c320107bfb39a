//! The plan of an entropic problem, stored as potentials and rounded to the exact marginals (Altschuler, Weed, Rigollet
//! 2017): the missing mass is distributed over the rows and columns that are too light.

use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, Axis, s};
use rayon::prelude::*;

use super::cost_rows::{CostRows, ROWS_PER_TILE};
use super::entropic_oracle::EntropicAnswer;
use super::sinkhorn::slice;
use crate::kernels::scale_and_add;
use crate::kernels::sealed::Kernels;
use crate::linalg::product_into;

/// A feasible entropic plan that is never stored: its rows are computed from potentials and costs,
/// γ_ij = a_i y_j p_ij + e_i e'_j with p_ij ∝ e^{target_j − C_ij/λ} summing to one over j.
#[derive(Debug, Clone)]
pub(crate) struct EntropicPlan {
    pub(super) a: Array1<f64>,
    /// ln b_j + g_j/λ.
    pub(super) target: Vec<f64>,
    /// y, the factor that keeps column j within b_j.
    pub(super) column_scale: Vec<f64>,
    pub(super) regularization: f64,
    pub(super) deficits: Deficits,
}

/// The mass e e′ᵀ that completes a plan to the marginals, and what it cannot complete.
///
/// Rows and columns lack the same mass but for rounding, which is absolute: for a row or column of little weight it may be
/// much. What is not placed is therefore kept, since far points of little weight may have a large part in V.
#[derive(Debug, Clone)]
pub(crate) struct Deficits {
    /// e, the mass that each row lacks.
    pub(crate) rows: Array1<f64>,
    /// e′, the share of it that each column takes.
    pub(crate) columns: Array1<f64>,
    /// How far the sums of rows may be from a, and those of columns from b, beyond relative rounding.
    pub(crate) unplaced: (Array1<f64>, Array1<f64>),
}

impl Deficits {
    /// Those of a plan with these sums of rows and columns, none above its weight but for rounding.
    pub(super) fn new(
        (a, b): (&Array1<f64>, &Array1<f64>),
        rows: &Array1<f64>,
        columns: &Array1<f64>,
    ) -> Self {
        let lack = |weights: &Array1<f64>, sums: &Array1<f64>| (weights - sums).mapv(|x| x.max(0.0));
        let (rows, columns) = (lack(a, rows), lack(b, columns));
        let missing = columns.sum();
        if missing > 0.0 {
            let shares = columns / missing;
            let unplaced = (Array1::zeros(a.len()), &shares * (rows.sum() - missing).abs());
            Self { rows, columns: shares, unplaced }
        } else {
            let none = |weights: &Array1<f64>| Array1::zeros(weights.len());
            Self { rows: none(a), columns: none(b), unplaced: (rows, none(b)) }
        }
    }

    /// Those of a plan that lacks nothing.
    pub(super) fn none(m: usize, n: usize) -> Self {
        let unplaced = (Array1::zeros(m), Array1::zeros(n));
        Self { rows: unplaced.0.clone(), columns: unplaced.1.clone(), unplaced }
    }
}

impl EntropicPlan {
    /// The plan found by another device, rounded to the exact marginals.
    pub(crate) fn rounded(
        a: &Array1<f64>,
        b: &Array1<f64>,
        found: &EntropicAnswer,
        regularization: f64,
    ) -> Self {
        let EntropicAnswer { g, columns, row_sums, .. } = found;
        let scale: Array1<f64> =
            columns.iter().zip(b).map(|(sum, b)| if sum > b { b / sum } else { 1.0 }).collect();
        Self {
            a: a.clone(),
            target: (&b.mapv(f64::ln) + &(g / regularization)).to_vec(),
            deficits: Deficits::new((a, b), row_sums, &(columns * &scale)),
            column_scale: scale.to_vec(),
            regularization,
        }
    }

    /// What completes the plan.
    pub(crate) fn deficits(&self) -> &Deficits {
        &self.deficits
    }

    /// Row i of the plan.
    fn fill_row(&self, i: usize, cost: &[f64], masses: &mut [f64]) {
        let largest = f64::exponents(masses, &self.target, cost, 1.0 / self.regularization);
        let scale = self.a[i] / f64::exp_shifted(masses, largest);
        let Deficits { rows, columns, .. } = &self.deficits;
        scale_and_add(masses, (scale, &self.column_scale), (rows[i], slice(columns)));
    }

    pub(super) fn row_sums(&self, cost: &CostRows) -> Array1<f64> {
        let mut sums = Array1::zeros(self.a.len());
        self.map_tiles(cost, sums.as_slice_mut().expect("vectors are contiguous"), 1, |masses, sums| {
            for (masses, sum) in masses.chunks_exact(self.target.len()).zip(sums) {
                *sum = f64::total(masses);
            }
        });
        sums
    }

    /// The whole plan.
    pub(crate) fn dense(&self, cost: &CostRows) -> Array2<f64> {
        let mut plan = Array2::zeros(cost.dim());
        self.fill_rows(0, cost, plan.as_slice_mut().expect("new arrays are row-major"));
        plan
    }

    /// Consecutive rows of the plan, from the beginning of a tile on.
    pub(crate) fn fill_rows(&self, first: usize, cost: &CostRows, out: &mut [f64]) {
        let n = self.target.len();
        let tiles = out.par_chunks_mut(ROWS_PER_TILE * n).enumerate();
        tiles.for_each_init(Vec::new, |tile, (index, masses)| {
            self.fill_tile(first + index * ROWS_PER_TILE, cost, tile, masses);
        });
    }

    /// The rows of one tile.
    fn fill_tile(&self, first: usize, cost: &CostRows, tile: &mut Vec<f64>, masses: &mut [f64]) {
        let n = self.target.len();
        let costs = cost.rows(first..first + masses.len() / n, tile);
        for (offset, (costs, masses)) in costs.chunks_exact(n).zip(masses.chunks_exact_mut(n)).enumerate() {
            self.fill_row(first + offset, costs, masses);
        }
    }

    /// Σ_j p_ij t_j for the costs of any points, with the p_ij of their rows.
    pub(crate) fn means(&self, cost: &CostRows, target: &Array2<f64>) -> Array2<f64> {
        let (rows, n) = cost.dim();
        let mut means = Array2::zeros((rows, target.ncols()));
        let tiles = means.axis_chunks_iter_mut(Axis(0), ROWS_PER_TILE).into_par_iter().enumerate();
        tiles.for_each_init(
            || (Vec::new(), Array2::zeros((ROWS_PER_TILE, n))),
            |(tile, shares), (index, means)| {
                let first = index * ROWS_PER_TILE;
                let costs = cost.rows(first..first + means.nrows(), tile);
                let mut shares = shares.slice_mut(s![..means.nrows(), ..]);
                for (costs, mut shares) in costs.chunks_exact(n).zip(shares.rows_mut()) {
                    let row = shares.as_slice_mut().expect("rows are contiguous");
                    let largest = f64::exponents(row, &self.target, costs, 1.0 / self.regularization);
                    let sum = f64::exp_shifted(row, largest);
                    shares /= sum;
                }
                product_into(means, shares.view(), target.view());
            },
        );
        means
    }

    /// Forms the plan a few rows at a time, in parallel, and passes them to `work` together with their part of `out`,
    /// `width` numbers per row. The results are in row order.
    pub(crate) fn map_tiles<R: Send>(
        &self,
        cost: &CostRows,
        out: &mut [f64],
        width: usize,
        work: impl Fn(&[f64], &mut [f64]) -> R + Sync,
    ) -> Vec<R> {
        let n = self.target.len();
        let workspace = || (Vec::new(), vec![0.0; ROWS_PER_TILE * n]);
        let tiles = out.par_chunks_mut(ROWS_PER_TILE * width).enumerate();
        let results = tiles.map_init(workspace, |(tile, masses), (index, out)| {
            let rows = out.len() / width;
            let first = index * ROWS_PER_TILE;
            let masses = &mut masses[..rows * n];
            self.fill_tile(first, cost, tile, masses);
            work(masses, out)
        });
        results.collect()
    }
}
