//! The products of a linear model, $Z = X W + b$ and $\nabla W = X^\top G$, for dense and for sparse features.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use rayon::prelude::*;
use robust_ot::Kernels;
use robust_ot::linalg::{flat, flat_mut, product_blocks, product_of_columns};

use crate::data::{Features, Sparse};
use crate::dropout::Dropout;

/// Features whose weights one task updates, few enough that their gradient stays in cache.
const FEATURES_PER_BLOCK: usize = 128;

/// The rows of one batch, laid out for products.
#[derive(Debug)]
pub(super) enum Batch {
    /// X itself.
    Dense(Array2<f32>),
    /// X by rows, and by columns.
    Sparse(SparseBatch),
}

/// Nonzero numbers: those of row i are `ends[i - 1]..ends[i]` of `places` and `numbers`, and those of feature f
/// `starts[f]..starts[f + 1]` of `rows` and `values`.
#[derive(Debug, Default)]
pub(super) struct SparseBatch {
    ends: Vec<usize>,
    places: Vec<u32>,
    numbers: Vec<f32>,
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f32>,
}

impl Batch {
    /// Allocates buffers for batches of these features.
    pub(super) fn workspace(features: &Features) -> Self {
        match features {
            Features::Dense(_) => Self::Dense(Array2::zeros((0, features.columns()))),
            Features::Sparse(_) => Self::Sparse(SparseBatch::default()),
        }
    }

    /// Gathers the chosen rows, less what is dropped.
    pub(super) fn gather(&mut self, features: &Features, chosen: &[usize], dropout: Option<Dropout>) {
        match (self, features) {
            (Self::Dense(batch), Features::Dense(all)) => {
                let width = all.ncols();
                resize_rows(batch, chosen.len());
                let rows = flat_mut(batch).par_chunks_mut(width.max(1)).zip(chosen).enumerate();
                rows.for_each(|(at, (out, &row))| {
                    out.copy_from_slice(&flat(all)[row * width..][..width]);
                    if let Some(dropout) = dropout {
                        dropout.apply(at, out);
                    }
                });
            }
            (Self::Sparse(batch), Features::Sparse(all)) => batch.gather(all, chosen, dropout),
            _ => unreachable!("a batch is made for its features"),
        }
    }

    /// Writes X W + b.
    pub(super) fn forward(
        &self,
        weights: ArrayView2<f32>,
        bias: Option<&[f32]>,
        mut logits: ArrayViewMut2<f32>,
    ) {
        match self {
            Self::Dense(batch) => product_blocks(logits.view_mut(), batch.view(), weights),
            Self::Sparse(batch) => {
                let outs = logits.outer_iter_mut().into_par_iter().enumerate();
                outs.for_each(|(row, mut out)| {
                    out.fill(0.0);
                    let out = out.as_slice_mut().expect("rows are contiguous");
                    let (features, values) = batch.row(row);
                    for (&feature, &value) in features.iter().zip(values) {
                        let weights = weights.row(feature as usize).to_slice().expect("rows are contiguous");
                        f32::add_own(out, value, weights);
                    }
                });
            }
        }
        add_bias(logits, bias);
    }

    /// ∇W = Xᵀ G for the features of one block.
    pub(super) fn gradient(&self, block: usize, logit_gradients: &Array2<f32>, out: &mut [f32]) {
        match self {
            Self::Dense(batch) => gradient_block(batch, block, logit_gradients, out),
            Self::Sparse(SparseBatch { starts, rows, values, .. }) => {
                let width = logit_gradients.ncols();
                for (feature, out) in (block * FEATURES_PER_BLOCK..).zip(out.chunks_exact_mut(width)) {
                    out.fill(0.0);
                    for place in starts[feature]..starts[feature + 1] {
                        let row = &flat(logit_gradients)[rows[place] as usize * width..][..width];
                        f32::add_own(out, values[place], row);
                    }
                }
            }
        }
    }
}

/// Xᵀ G for the columns of X in one block.
pub(super) fn gradient_block(x: &Array2<f32>, block: usize, g: &Array2<f32>, out: &mut [f32]) {
    let first = block * FEATURES_PER_BLOCK;
    let (width, count) = (g.ncols(), out.len() / g.ncols());
    let out = ArrayViewMut2::from_shape((count, width), out).expect("whole rows");
    product_of_columns(out, x, first..first + count, g);
}

/// The number of weights of one block of features.
pub(super) fn block_len(labels: usize) -> usize {
    FEATURES_PER_BLOCK * labels
}

/// Changes the number of rows of a buffer, which keeps its memory.
pub(super) fn resize_rows(buffer: &mut Array2<f32>, rows: usize) {
    let width = buffer.ncols();
    if buffer.nrows() != rows {
        let mut numbers = std::mem::take(buffer).into_raw_vec_and_offset().0;
        numbers.resize(rows * width, 0.0);
        *buffer = Array2::from_shape_vec((rows, width), numbers).expect("whole rows");
    }
}

/// Adds b to every row.
pub(super) fn add_bias(mut logits: ArrayViewMut2<f32>, bias: Option<&[f32]>) {
    let Some(bias) = bias else { return };
    for mut row in logits.outer_iter_mut() {
        row.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
    }
}

impl SparseBatch {
    fn gather(&mut self, all: &Sparse, chosen: &[usize], dropout: Option<Dropout>) {
        let Self { ends, places, numbers, .. } = self;
        ends.clear();
        places.clear();
        numbers.clear();
        for (at, &row) in chosen.iter().enumerate() {
            let (features, values) = all.row(row);
            places.extend_from_slice(features);
            numbers.extend_from_slice(values);
            ends.push(places.len());
            if let Some(dropout) = dropout {
                let first = places.len() - features.len();
                dropout.apply_sparse(at, features, &mut numbers[first..]);
            }
        }
        self.transpose(all.columns());
    }

    fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let range = if row == 0 { 0 } else { self.ends[row - 1] }..self.ends[row];
        (&self.places[range.clone()], &self.numbers[range])
    }

    /// Stores the rows by columns, with a counting sort.
    fn transpose(&mut self, columns: usize) {
        let Self { ends, places, numbers, starts, rows, values } = self;
        starts.clear();
        starts.resize(columns + 1, 0);
        places.iter().for_each(|&feature| starts[feature as usize] += 1);
        let mut total = 0;
        for start in starts.iter_mut() {
            total += *start;
            *start = total;
        }
        rows.clear();
        rows.resize(total, 0);
        values.clear();
        values.resize(total, 0.0);
        // Filled from the back, so that each start ends up in place and rows ascend.
        for at in (0..ends.len()).rev() {
            let first = if at == 0 { 0 } else { ends[at - 1] };
            for (&feature, &value) in places[first..ends[at]].iter().zip(&numbers[first..ends[at]]).rev() {
                let place = &mut starts[feature as usize];
                *place -= 1;
                rows[*place] = at as u32;
                values[*place] = value;
            }
        }
    }
}

/// All rows, a few hundred at a time, so that their copies stay small.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    features: &'a Features,
    batch: Batch,
    chosen: Vec<usize>,
    done: usize,
}

impl<'a> Chunks<'a> {
    /// Rows of one chunk.
    const ROWS: usize = 512;

    pub(super) fn of(features: &'a Features) -> Self {
        Self { features, batch: Batch::workspace(features), chosen: Vec::new(), done: 0 }
    }

    /// The next rows, and which they are.
    pub(super) fn next(&mut self) -> Option<(&Batch, Range<usize>)> {
        let range = self.done..(self.done + Self::ROWS).min(self.features.rows());
        self.chosen.clear();
        self.chosen.extend(range.clone());
        self.done = range.end;
        self.batch.gather(self.features, &self.chosen, None);
        (!range.is_empty()).then_some((&self.batch, range))
    }
}
