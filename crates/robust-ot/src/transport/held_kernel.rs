//! The plan of one pair of potentials, held in memory: iterations that stay close to it need no exponentials.

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::sweep::{BLOCKS, rows_per_block};
use crate::kernels::Real;

/// p_ij = γ_ij / a_i, whose rows sum to one. Single precision changes the costs by at most λ · 6e-8, and halves the
/// memory that every product has to read.
#[derive(Debug, Clone)]
pub(crate) struct HeldKernel<H> {
    columns: usize,
    entries: Vec<H>,
    /// Σ_i w_i p_ij over each block of rows.
    partial: Vec<H>,
    /// The vector of a product, in the precision of the entries.
    vector: Vec<H>,
}

impl<H> Default for HeldKernel<H> {
    fn default() -> Self {
        Self { columns: 0, entries: Vec::new(), partial: Vec::new(), vector: Vec::new() }
    }
}

impl<H: Real> HeldKernel<H> {
    /// The buffer for m × n entries, in blocks of rows.
    pub(super) fn blocks_mut(
        &mut self,
        m: usize,
        n: usize,
        rows_per_block: usize,
    ) -> rayon::slice::ChunksMut<'_, H> {
        self.columns = n;
        // Fresh pages are first touched by the sweep that fills them, on all threads.
        if self.entries.capacity() < m * n {
            self.entries = vec![H::default(); m * n];
        }
        self.entries.resize(m * n, H::default());
        self.partial.resize(BLOCKS * n, H::default());
        self.vector.resize(n, H::default());
        self.entries.par_chunks_mut(rows_per_block * n)
    }

    /// P, row by row.
    pub(super) fn entries(&self) -> ArrayView2<'_, H> {
        let shape = (self.entries.len() / self.columns, self.columns);
        ArrayView2::from_shape(shape, &self.entries).expect("the entries form whole rows")
    }

    /// out ← Pᵀ w with w_i = weight(i, ⟨p_i, x⟩): one pass over P does both products.
    pub(super) fn twice(&mut self, x: &[f64], weight: impl Fn(usize, f64) -> f64 + Sync, out: &mut [f64]) {
        let n = self.columns;
        let rows = rows_per_block(self.entries.len() / n);
        self.vector.iter_mut().zip(x).for_each(|(own, x)| *own = H::nearest(*x));
        let x = &self.vector;
        let blocks = self.entries.par_chunks(rows * n).zip(self.partial.par_chunks_mut(n));
        blocks.enumerate().for_each(|(block, (entries, sum))| {
            sum.fill(H::default());
            for (offset, row) in entries.chunks_exact(n).enumerate() {
                let weight = weight(block * rows + offset, H::dot(row, x));
                H::add_own(sum, H::nearest(weight), row);
            }
        });
        let blocks = self.entries.len().div_ceil(rows * n);
        out.fill(0.0);
        for sum in self.partial.chunks_exact(n).take(blocks) {
            H::add_scaled(out, 1.0, sum);
        }
    }
}
