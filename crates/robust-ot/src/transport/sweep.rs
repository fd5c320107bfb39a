//! One pass over the costs in the log domain: new f, and the column sums of the plan.

use rayon::prelude::*;

use super::cost_rows::{CostRows, ROWS_A_TILE};
use super::sinkhorn::{Sinkhorn, slice};
use crate::kernels::Real;
use crate::kernels::sealed::Kernels;

/// The most row blocks a sweep is cut into; fixed, so that sums do not depend on the number of threads.
pub(super) const BLOCKS: usize = 16;
/// A column sum below this part of its weight has lost digits to underflow, here or in a held plan.
pub(super) const SMALLEST_COLUMN: f64 = 1e-20;

/// Row sums that are neither too small nor too large to have kept all digits.
const MODERATE: std::ops::Range<f64> = 1e-6..1e6;

/// Rows of a block: whole tiles.
pub(super) fn rows_a_block(m: usize) -> usize {
    m.div_ceil(BLOCKS).next_multiple_of(ROWS_A_TILE)
}

/// What a sweep leaves in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Nothing,
    Single,
    Double,
}

/// What a block of rows needs to sweep.
#[derive(Debug, Clone)]
pub(super) struct Work<T> {
    columns: Vec<f64>,
    powers: Vec<T>,
    tile: Vec<T>,
}

impl<T: Real> Sinkhorn<T> {
    /// What sweeps leave behind: as much as the memory given allows.
    pub(super) fn hold(&self) -> Hold {
        let fits =
            |each: usize| self.a.len().saturating_mul(self.b.len()).saturating_mul(each) <= self.memory;
        if self.precise && fits(size_of::<f64>() + size_of::<f32>()) {
            Hold::Double
        } else if fits(size_of::<f32>()) {
            Hold::Single
        } else {
            Hold::Nothing
        }
    }

    /// f_i = −ε ln Σ_j b_j e^{(g_j − C_ij)/ε}, and the column sums of the plan that results: one exponential an
    /// entry for a whole iteration. Holds the plan if asked to.
    pub(super) fn sweep(&mut self, cost: &CostRows<T>, epsilon: f64, hold: Hold) {
        let (m, n) = (self.a.len(), self.b.len());
        let rows = rows_a_block(m);
        for j in 0..n {
            self.shifted[j] = T::nearest(self.log_b[j] + self.g[j] / epsilon);
        }
        let (a, shifted) = (slice(&self.a), &self.shifted);
        let f = self.f.as_slice_mut().expect("vectors are contiguous");
        let blocks = f.par_chunks_mut(rows).zip(a.par_chunks(rows)).zip(&mut self.work).enumerate();
        let place = |block: usize| (cost, block * rows, epsilon, shifted.as_slice());
        match hold {
            Hold::Nothing => {
                blocks.for_each(|(block, (rows, work))| work.sweep(place(block), rows, |_, _, _| ()));
            }
            Hold::Single => {
                let held = self.single.blocks_mut(m, n, rows);
                blocks.zip(held).for_each(|((block, (rows, work)), held)| {
                    work.sweep(place(block), rows, |row, powers, scale| {
                        T::hold_single(&mut held[row * n..][..n], powers, scale);
                    });
                });
            }
            Hold::Double => {
                let held = self.double.blocks_mut(m, n, rows);
                blocks.zip(held).for_each(|((block, (rows, work)), held)| {
                    work.sweep(place(block), rows, |row, powers, scale| {
                        T::hold_double(&mut held[row * n..][..n], powers, scale);
                    });
                });
            }
        }
        self.columns.fill(0.0);
        let columns = self.columns.as_slice_mut().expect("vectors are contiguous");
        for work in self.work.iter().take(m.div_ceil(rows)) {
            f64::add_scaled(columns, 1.0, &work.columns);
        }
    }

    /// g_j ← g_j + ε ln(b_j / column sum_j), with momentum; from scratch where the column sum has underflowed.
    pub(super) fn update_target(&mut self, cost: &CostRows<T>, epsilon: f64) {
        for j in (0..self.b.len()).filter(|&j| self.b[j] > 0.0) {
            if self.columns[j] > SMALLEST_COLUMN * self.b[j] {
                self.g[j] += epsilon * self.momentum.extend(j, (self.b[j] / self.columns[j]).ln());
                continue;
            }
            let exponents: Vec<f64> = (0..self.a.len())
                .map(|i| self.a[i].ln() + (self.f[i] - cost.entry(i, j)) / epsilon)
                .collect();
            let largest = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = exponents.iter().map(|x| (x - largest).exp()).sum();
            self.g[j] = -epsilon * (largest + sum.ln());
        }
    }
}

impl<T: Real> Work<T> {
    /// For n columns.
    pub(super) fn new(n: usize) -> Self {
        Self { columns: vec![0.0; n], powers: vec![T::default(); n], tile: Vec::new() }
    }

    /// The rows of one block: potentials, sums of the plan's columns; `hold` is handed every row of the plan over a: its
    /// place in the block, powers and their scale.
    fn sweep(
        &mut self,
        (cost, first, epsilon, shifted): (&CostRows<T>, usize, f64, &[T]),
        (f, a): (&mut [f64], &[f64]),
        mut hold: impl FnMut(usize, &[T], f64),
    ) {
        let n = shifted.len();
        let inverse = T::nearest(1.0 / epsilon);
        self.columns.fill(0.0);
        for (tile, (f, a)) in f.chunks_mut(ROWS_A_TILE).zip(a.chunks(ROWS_A_TILE)).enumerate() {
            let start = first + tile * ROWS_A_TILE;
            let costs = cost.rows(start..start + f.len(), &mut self.tile);
            for (row, ((f, &a), costs)) in f.iter_mut().zip(a).zip(costs.chunks_exact(n)).enumerate() {
                // Close to the last potential its own exponent will do for the largest one, and saves a pass.
                let mut shift = T::nearest(-*f / epsilon);
                let mut sum = T::exp_exponents(&mut self.powers, shifted, costs, inverse, shift);
                if !MODERATE.contains(&sum) {
                    shift = T::exponents(&mut self.powers, shifted, costs, inverse);
                    sum = T::exp_shifted(&mut self.powers, shift);
                }
                *f = -epsilon * (shift.into() + sum.ln());
                T::add_scaled(&mut self.columns, a / sum, &self.powers);
                hold(tile * ROWS_A_TILE + row, &self.powers, 1.0 / sum);
            }
        }
    }
}
