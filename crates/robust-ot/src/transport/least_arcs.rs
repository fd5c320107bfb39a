//! The arcs of least slack $C_{ij} - f_i - g_j$ of every row and every column, in one pass over the costs.
//!
//! Of a block of costs, vector kernels find the least slack, so that only the blocks with an arc to keep are looked at one
//! by one.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::cost_rows::{CostRows, ROWS_PER_TILE};
use super::sweep::rows_per_block;
use crate::interrupt::Interrupt;
use crate::kernels::{MINIMA_BLOCK, block_minima, two_smallest_differences};

/// Number of arcs of a column expected below its first threshold, in units of the number to keep.
const EXPECTED: usize = 5;

/// An arc between a row and a column of the costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Arc {
    pub(super) row: u32,
    pub(super) column: u32,
    pub(super) cost: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    pub(super) slack: f64,
    pub(super) arc: Arc,
}

impl Found {
    /// By slack; ties by place.
    fn order(&self, other: &Self) -> Ordering {
        let place = |found: &Self| (found.arc.row, found.arc.column);
        self.slack.total_cmp(&other.slack).then_with(|| place(self).cmp(&place(other)))
    }
}

/// Keeps the least of what it is given, in a buffer of twice the number to keep.
struct Least<'a> {
    buffer: &'a mut [Found],
    count: &'a mut usize,
}

impl Least<'_> {
    /// Adds an arc; returns the slack to stay below from now on, if it has changed.
    fn push(&mut self, found: Found) -> Option<f64> {
        self.buffer[*self.count] = found;
        *self.count += 1;
        (*self.count == self.buffer.len()).then(|| self.shrink())
    }

    /// Drops all but the least half of the buffer; returns the largest slack left.
    fn shrink(&mut self) -> f64 {
        let keep = self.buffer.len() / 2;
        let (_, last, _) = self.buffer[..*self.count].select_nth_unstable_by(keep - 1, Found::order);
        *self.count = keep;
        last.slack
    }

    /// The least, in no order.
    fn kept(&mut self) -> &[Found] {
        if *self.count > self.buffer.len() / 2 {
            self.shrink();
        }
        &self.buffer[..*self.count]
    }
}

/// The least arcs of the rows of one block, and of every column within it.
struct OfBlock {
    rows: Vec<Found>,
    columns: Vec<Found>,
}

/// The `keep` arcs of least slack of every row, and most of those of every column, among arcs with a slack below `below`;
/// sorted by row and column. An interrupt leaves out rows that were not reached.
pub(super) fn least_arcs(
    costs: &CostRows,
    (f, g): (&[f64], &[f64]),
    keep: usize,
    below: f64,
    interrupt: &Interrupt,
) -> Vec<Found> {
    let (m, n) = costs.dim();
    let thresholds = if below < f64::INFINITY {
        vec![below; n]
    } else {
        column_thresholds(costs, (f, g), m.div_ceil(EXPECTED * keep))
    };
    let rows = rows_per_block(m);
    let blocks = f.par_chunks(rows).enumerate();
    let blocks: Vec<OfBlock> = blocks
        .map(|(block, f)| of_block(costs, (block * rows, f), g, keep, (below, thresholds.clone()), interrupt))
        .collect();
    let mut columns: Vec<Found> = blocks.iter().flat_map(|block| &block.columns).copied().collect();
    columns.par_sort_unstable_by(|x, y| x.arc.column.cmp(&y.arc.column).then_with(|| x.order(y)));
    let mut arcs: Vec<Found> = blocks.into_iter().flat_map(|block| block.rows).collect();
    for column in columns.chunk_by(|x, y| x.arc.column == y.arc.column) {
        arcs.extend(&column[..keep.min(column.len())]);
    }
    arcs.par_sort_unstable_by_key(|found| (found.arc.row, found.arc.column));
    arcs.dedup_by_key(|found| (found.arc.row, found.arc.column));
    arcs
}

fn of_block(
    costs: &CostRows,
    (start, f): (usize, &[f64]),
    g: &[f64],
    keep: usize,
    (below, mut thresholds): (f64, Vec<f64>),
    interrupt: &Interrupt,
) -> OfBlock {
    let n = g.len();
    let width = 2 * keep;
    let (mut tile, mut minima) = (Vec::new(), vec![(0.0, 0.0); n.div_ceil(MINIMA_BLOCK)]);
    let (mut of_columns, mut counts) = (vec![Found::default(); width * n], vec![0; n]);
    let mut of_row = vec![Found::default(); width];
    let mut rows = Vec::new();
    for (index, f) in f.chunks(ROWS_PER_TILE).enumerate().take_while(|_| !interrupt.is_raised()) {
        let first = start + index * ROWS_PER_TILE;
        let costs = costs.rows(first..first + f.len(), &mut tile);
        for (i, (&f, row)) in f.iter().zip(costs.chunks_exact(n)).enumerate() {
            block_minima(row, g, &thresholds, &mut minima);
            let (mut count, mut threshold) = (0, below);
            let mut least = Least { buffer: &mut of_row, count: &mut count };
            for (at, &(slack, beyond)) in minima.iter().enumerate() {
                if slack - f >= threshold && beyond >= f {
                    continue;
                }
                let from = at * MINIMA_BLOCK;
                for j in from..n.min(from + MINIMA_BLOCK) {
                    let slack = row[j] - g[j] - f;
                    let arc = Arc { row: (first + i) as u32, column: j as u32, cost: row[j] };
                    if slack < threshold {
                        threshold = least.push(Found { slack, arc }).unwrap_or(threshold);
                    }
                    if slack < thresholds[j] {
                        let buffer = &mut of_columns[width * j..][..width];
                        let mut least = Least { buffer, count: &mut counts[j] };
                        thresholds[j] = least.push(Found { slack, arc }).unwrap_or(thresholds[j]);
                    }
                }
            }
            rows.extend_from_slice(least.kept());
        }
    }
    let mut columns = Vec::new();
    for (buffer, count) in of_columns.chunks_exact_mut(width).zip(&mut counts) {
        columns.extend_from_slice(Least { buffer, count }.kept());
    }
    OfBlock { rows, columns }
}

/// The second least slack of every column in a sample of about 2 `sampled` rows. In all m rows, some m / `sampled` slacks are
/// below it.
fn column_thresholds(costs: &CostRows, (f, g): (&[f64], &[f64]), sampled: usize) -> Vec<f64> {
    let (m, n) = costs.dim();
    let tiles = m.div_ceil(ROWS_PER_TILE);
    let wanted = (2 * sampled).div_ceil(ROWS_PER_TILE).clamp(1, tiles);
    let (mut first, mut second) = (vec![f64::INFINITY; n], vec![f64::INFINITY; n]);
    let mut tile = Vec::new();
    for start in (0..wanted).map(|k| k * tiles / wanted * ROWS_PER_TILE) {
        let end = m.min(start + ROWS_PER_TILE);
        let costs = costs.rows(start..end, &mut tile);
        for (f, row) in f[start..end].iter().zip(costs.chunks_exact(n)) {
            two_smallest_differences(&mut first, &mut second, row, g, *f);
        }
    }
    second
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::testing::{matrix, rng};

    #[test]
    fn every_row_keeps_its_least_arcs_and_a_bound_keeps_all_below_it() {
        for (m, n, keep) in [(1, 1, 3), (5, 70, 4), (70, 5, 4), (150, 90, 6)] {
            let mut rng = rng((m * n) as u64);
            let cost = matrix(m, n, &mut rng);
            let (f, g) = (matrix(1, m, &mut rng), matrix(1, n, &mut rng));
            let (f, g) = (f.as_slice().unwrap(), g.as_slice().unwrap());
            let slack = Array2::from_shape_fn((m, n), |(i, j)| cost[[i, j]] - g[j] - f[i]);
            let found =
                least_arcs(&CostRows::from(&cost), (f, g), keep, f64::INFINITY, &Interrupt::default());
            let listed =
                |i: usize, j: usize| found.iter().any(|x| (x.arc.row, x.arc.column) == (i as u32, j as u32));
            for i in 0..m {
                let mut order: Vec<usize> = (0..n).collect();
                order.sort_by(|&x, &y| slack[[i, x]].total_cmp(&slack[[i, y]]));
                assert!(order[..keep.min(n)].iter().all(|&j| listed(i, j)));
            }
            for j in 0..n {
                let best = (0..m).min_by(|&x, &y| slack[[x, j]].total_cmp(&slack[[y, j]])).unwrap();
                assert!(m == 1 || listed(best, j));
            }
            assert!(found.len() <= keep * (m + n));
            let cost_at = |arc: &Arc| cost[[arc.row as usize, arc.column as usize]];
            assert!(found.iter().all(|x| x.arc.cost.to_bits() == cost_at(&x.arc).to_bits()));
            // With room for all, the arcs below a bound are exactly those.
            let bounded = least_arcs(&CostRows::from(&cost), (f, g), m.max(n), -0.5, &Interrupt::default());
            assert_eq!(bounded.len(), slack.iter().filter(|slack| **slack < -0.5).count());
            assert!(bounded.iter().all(|x| x.slack < -0.5));
        }
    }
}
