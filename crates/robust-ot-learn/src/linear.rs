//! The products of a linear model, $Z = X W + b$ and $\nabla W = X^\top G$, for dense and for sparse features.

use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};
use rayon::prelude::*;
use robust_ot::Kernels;
use robust_ot::linalg::{flat, flat_mut, product_blocks, product_into};

use crate::data::{Features, Sparse};

/// Features whose weights one task updates, few enough that their gradient stays in cache.
const FEATURES_PER_BLOCK: usize = 128;

/// The rows of one batch, laid out for products.
#[derive(Debug)]
pub(super) enum Batch {
    /// X itself.
    Dense(Array2<f32>),
    /// X by columns: feature f has the entries `starts[f]..starts[f + 1]` of `rows` and `values`.
    Sparse { starts: Vec<usize>, rows: Vec<u32>, values: Vec<f32> },
}

impl Batch {
    /// Allocates buffers for batches of these features.
    pub(super) fn workspace(features: &Features) -> Self {
        match features {
            Features::Dense(_) => Self::Dense(Array2::zeros((0, features.columns()))),
            Features::Sparse(_) => Self::Sparse { starts: Vec::new(), rows: Vec::new(), values: Vec::new() },
        }
    }

    /// Gathers the chosen rows and writes X W + b to the logits.
    pub(super) fn forward(
        &mut self,
        features: &Features,
        chosen: &[usize],
        weights: ArrayView2<f32>,
        bias: Option<&[f32]>,
        mut logits: ArrayViewMut2<f32>,
    ) {
        match (self, features) {
            (Self::Dense(batch), Features::Dense(all)) => {
                let mut numbers = std::mem::take(batch).into_raw_vec_and_offset().0;
                let width = all.ncols();
                numbers.resize(chosen.len() * width, 0.0);
                numbers.par_chunks_mut(width.max(1)).zip(chosen).for_each(|(out, &row)| {
                    out.copy_from_slice(&flat(all)[row * width..][..width]);
                });
                *batch = Array2::from_shape_vec((chosen.len(), width), numbers).expect("whole rows");
                product_blocks(logits.view_mut(), batch.view(), weights);
            }
            (Self::Sparse { starts, rows, values }, Features::Sparse(all)) => {
                transpose(all, chosen, starts, rows, values);
                let outs = logits.outer_iter_mut().into_par_iter().zip(chosen);
                outs.for_each(|(mut out, &row)| {
                    out.fill(0.0);
                    let out = out.as_slice_mut().expect("rows are contiguous");
                    let (features, values) = all.row(row);
                    for (&feature, &value) in features.iter().zip(values) {
                        let weights = weights.row(feature as usize).to_slice().expect("rows are contiguous");
                        f32::add_own(out, value, weights);
                    }
                });
            }
            _ => unreachable!("a batch is made for its features"),
        }
        if let Some(bias) = bias {
            for mut row in logits.outer_iter_mut() {
                row.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
            }
        }
    }

    /// ∇W = Xᵀ G for the features of one block, from the rows of the last batch.
    pub(super) fn gradient(&self, block: usize, logit_gradients: &Array2<f32>, out: &mut [f32]) {
        let width = logit_gradients.ncols();
        let first = block * FEATURES_PER_BLOCK;
        match self {
            Self::Dense(batch) => {
                let count = out.len() / width;
                let columns = batch.slice(s![.., first..first + count]);
                let out = ArrayViewMut2::from_shape((count, width), out).expect("whole rows");
                product_into(out, columns.t(), logit_gradients.view());
            }
            Self::Sparse { starts, rows, values } => {
                for (feature, out) in (first..).zip(out.chunks_exact_mut(width)) {
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

/// The number of weights of one block of features.
pub(super) fn block_len(labels: usize) -> usize {
    FEATURES_PER_BLOCK * labels
}

/// Stores the chosen rows by columns, with a counting sort.
fn transpose(
    all: &Sparse,
    chosen: &[usize],
    starts: &mut Vec<usize>,
    rows: &mut Vec<u32>,
    values: &mut Vec<f32>,
) {
    starts.clear();
    starts.resize(all.columns() + 1, 0);
    for &row in chosen {
        all.row(row).0.iter().for_each(|&feature| starts[feature as usize] += 1);
    }
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
    for (at, &row) in chosen.iter().enumerate().rev() {
        let (features, of_row) = all.row(row);
        for (&feature, &value) in features.iter().zip(of_row).rev() {
            let place = &mut starts[feature as usize];
            *place -= 1;
            rows[*place] = at as u32;
            values[*place] = value;
        }
    }
}

/// Computes X W + b for all rows.
pub(super) fn logits(features: &Features, weights: ArrayView2<f32>, bias: Option<&[f32]>) -> Array2<f32> {
    /// Rows per product, so that their copies stay small.
    const ROWS: usize = 512;
    let mut out = Array2::zeros((features.rows(), weights.ncols()));
    let mut batch = Batch::workspace(features);
    let all: Vec<usize> = (0..features.rows()).collect();
    let width = weights.ncols();
    let chunks = flat_mut(&mut out).chunks_mut((ROWS * width).max(1)).zip(all.chunks(ROWS));
    for (out, chosen) in chunks {
        let out = ArrayViewMut2::from_shape((chosen.len(), width), out).expect("whole rows");
        batch.forward(features, chosen, weights, bias, out);
    }
    out
}
