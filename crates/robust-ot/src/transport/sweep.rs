//! One pass over the costs in the log domain, which updates f and the column sums of the plan.

use rayon::prelude::*;

use super::cost_rows::{CostRows, ROWS_PER_TILE};
use super::sinkhorn::{Sinkhorn, slice};
use crate::kernels::Real;
use crate::kernels::sealed::Kernels;

/// The largest number of row blocks in a sweep; fixed, so that sums do not depend on the number of threads.
pub(super) const BLOCKS: usize = 16;
/// A column sum below this fraction of its weight has lost digits to underflow, here or in a held plan.
pub(super) const SMALLEST_COLUMN: f64 = 1e-20;

/// The range in which row sums have kept all their digits.
const MODERATE: std::ops::Range<f64> = 1e-6..1e6;

/// Number of rows per block: a multiple of the tile.
pub(super) fn rows_per_block(m: usize) -> usize {
    m.div_ceil(BLOCKS).next_multiple_of(ROWS_PER_TILE)
}

/// The precision of the plan that a sweep holds in memory, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Nothing,
    Single,
    Double,
}

/// Workspace of the sweep over one block of rows.
#[derive(Debug, Clone)]
pub(super) struct Work<T> {
    columns: Vec<f64>,
    powers: Vec<T>,
    tile: Vec<T>,
}

impl<T: Real> Sinkhorn<T> {
    /// What sweeps hold in memory: as much as the limit allows.
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

    /// Computes f_i = −ε ln Σ_j b_j e^{(g_j − C_ij)/ε} and the column sums of the resulting plan: one exponential per
    /// entry for a whole iteration. Holds the plan if requested.
    pub(super) fn sweep(&mut self, cost: &CostRows<T>, epsilon: f64, hold: Hold) {
        let (m, n) = (self.a.len(), self.b.len());
        let rows = rows_per_block(m);
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

    /// g_j ← g_j + ε ln(b_j / column sum_j), with momentum; computed from scratch where the column sum has underflowed.
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

/// out ← Pᵀ diag(a) P x for the plan of the last sweep, p_ij = b_j e^{(f_i + g_j − C_ij)/ε}, which is not held.
pub(super) fn twice<T: Real>(
    work: &mut [Work<T>],
    (cost, epsilon, shifted): (&CostRows<T>, f64, &[T]),
    (f, a): (&[f64], &[f64]),
    x: &[f64],
    out: &mut [f64],
) {
    let rows = rows_per_block(a.len());
    let x: Vec<T> = x.iter().map(|x| T::nearest(*x)).collect();
    let blocks = f.par_chunks(rows).zip(a.par_chunks(rows)).zip(&mut *work).enumerate();
    blocks.for_each(|(block, (part, work))| work.twice((cost, block * rows, epsilon, shifted), part, &x));
    out.fill(0.0);
    for work in work.iter().take(a.len().div_ceil(rows)) {
        f64::add_scaled(out, 1.0, &work.columns);
    }
}

impl<T: Real> Work<T> {
    /// Allocates the workspace for n columns.
    pub(super) fn new(n: usize) -> Self {
        Self { columns: vec![0.0; n], powers: vec![T::default(); n], tile: Vec::new() }
    }

    /// Sweeps the rows of one block: computes potentials and column sums of the plan. Passes each row of γ_ij / a_i to
    /// `hold`: its index in the block, the powers and their scale.
    fn sweep(
        &mut self,
        (cost, first, epsilon, shifted): (&CostRows<T>, usize, f64, &[T]),
        (f, a): (&mut [f64], &[f64]),
        mut hold: impl FnMut(usize, &[T], f64),
    ) {
        let n = shifted.len();
        let inverse = T::nearest(1.0 / epsilon);
        self.columns.fill(0.0);
        for (tile, (f, a)) in f.chunks_mut(ROWS_PER_TILE).zip(a.chunks(ROWS_PER_TILE)).enumerate() {
            let start = first + tile * ROWS_PER_TILE;
            let costs = cost.rows(start..start + f.len(), &mut self.tile);
            for (row, ((f, &a), costs)) in f.iter_mut().zip(a).zip(costs.chunks_exact(n)).enumerate() {
                // If f changes little, its old value can stand in for the largest exponent, which saves a pass.
                let mut shift = T::nearest(-*f / epsilon);
                let mut sum = T::exp_exponents(&mut self.powers, shifted, costs, inverse, shift);
                if !MODERATE.contains(&sum) {
                    shift = T::exponents(&mut self.powers, shifted, costs, inverse);
                    sum = T::exp_shifted(&mut self.powers, shift);
                }
                *f = -epsilon * (shift.into() + sum.ln());
                T::add_scaled(&mut self.columns, a / sum, &self.powers);
                hold(tile * ROWS_PER_TILE + row, &self.powers, 1.0 / sum);
            }
        }
    }

    /// The part of [`twice`] of one block of rows.
    fn twice(
        &mut self,
        (cost, first, epsilon, shifted): (&CostRows<T>, usize, f64, &[T]),
        (f, a): (&[f64], &[f64]),
        x: &[T],
    ) {
        let n = shifted.len();
        let inverse = T::nearest(1.0 / epsilon);
        self.columns.fill(0.0);
        for (tile, (f, a)) in f.chunks(ROWS_PER_TILE).zip(a.chunks(ROWS_PER_TILE)).enumerate() {
            let start = first + tile * ROWS_PER_TILE;
            let costs = cost.rows(start..start + f.len(), &mut self.tile);
            for ((f, a), costs) in f.iter().zip(a).zip(costs.chunks_exact(n)) {
                // f is exact for g, so the powers sum to about one.
                let shift = T::nearest(-f / epsilon);
                let sum = T::exp_exponents(&mut self.powers, shifted, costs, inverse, shift);
                let inner = T::dot(&self.powers, x) / sum;
                T::add_scaled(&mut self.columns, a * inner / sum, &self.powers);
            }
        }
    }
}
