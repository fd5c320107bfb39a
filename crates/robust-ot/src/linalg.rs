//! Matrix products and symmetric eigendecompositions on `ndarray`, computed by `faer`.
//!
//! Work is split into blocks of a fixed size, each computed on one thread, so that results do not depend on the
//! number of threads.

use std::ops::Range;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{Llt, Solve};
use faer::{Accum, ColMut, MatMut, MatRef, Par, Side};
use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, ArrayBase, ArrayView2, ArrayViewMut2, Axis, Data, Ix2, ShapeBuilder, s};

use crate::error::{Error, Result};
use crate::kernels::Real;

/// Number of rows that one task of a parallel product computes.
const ROWS_PER_BLOCK: usize = 64;

/// AB, row-major.
pub fn product<T: Real>(a: ArrayView2<T>, b: ArrayView2<T>) -> Array2<T> {
    let mut out = Array2::from_elem((a.nrows(), b.ncols()), T::default());
    let blocks = out.axis_chunks_iter_mut(Axis(0), ROWS_PER_BLOCK).into_par_iter();
    blocks.zip(a.axis_chunks_iter(Axis(0), ROWS_PER_BLOCK)).for_each(|(out, a)| product_into(out, a, b));
    out
}

/// Rows and columns of one block of [`product_blocks`].
const BLOCK: (usize, usize) = (80, 128);

/// Computes AB into a row-major matrix, in blocks on all threads. Columns are split too, for products with few long rows.
pub fn product_blocks<T: Real>(mut out: ArrayViewMut2<T>, a: ArrayView2<T>, b: ArrayView2<T>) {
    let (rows, columns) = out.dim();
    let out = out.as_slice_mut().expect("products are written to row-major blocks");
    let out = MatMut::from_row_major_slice_mut(out, rows, columns);
    with_mat(a, |a| with_mat(b, |b| multiply_blocks(out, a, b)));
}

fn multiply_blocks<T: Real>(out: MatMut<T>, a: MatRef<T>, b: MatRef<T>) {
    let (rows, columns) = out.shape();
    if columns > BLOCK.1 {
        let middle = columns.div_ceil(BLOCK.1) / 2 * BLOCK.1;
        let (left, right) = out.split_at_col_mut(middle);
        let (b_left, b_right) = b.split_at_col(middle);
        rayon::join(|| multiply_blocks(left, a, b_left), || multiply_blocks(right, a, b_right));
    } else if rows > BLOCK.0 {
        let middle = rows.div_ceil(BLOCK.0) / 2 * BLOCK.0;
        let (top, bottom) = out.split_at_row_mut(middle);
        let (a_top, a_bottom) = a.split_at_row(middle);
        rayon::join(|| multiply_blocks(top, a_top, b), || multiply_blocks(bottom, a_bottom, b));
    } else {
        matmul(out, Accum::Replace, a, b, T::nearest(1.0), Par::Seq);
    }
}

/// Computes AB into a row-major matrix, on this thread.
pub fn product_into<T: Real>(mut out: ArrayViewMut2<T>, a: ArrayView2<T>, b: ArrayView2<T>) {
    let (rows, columns) = out.dim();
    let out = out.as_slice_mut().expect("products are written to row-major blocks");
    let out = MatMut::from_row_major_slice_mut(out, rows, columns);
    with_mat(a, |a| with_mat(b, |b| matmul(out, Accum::Replace, a, b, T::nearest(1.0), Par::Seq)));
}

/// Computes AᵀB into a row-major matrix, on this thread, for some columns of a row-major A, without a copy of them.
pub fn product_of_columns<T: Real>(
    mut out: ArrayViewMut2<T>,
    a: &Array2<T>,
    columns: Range<usize>,
    b: &Array2<T>,
) {
    let (rows, width) = out.dim();
    let out = out.as_slice_mut().expect("products are written to row-major blocks");
    let out = MatMut::from_row_major_slice_mut(out, rows, width);
    let a = MatRef::from_row_major_slice(flat(a), a.nrows(), a.ncols());
    let b = MatRef::from_row_major_slice(flat(b), b.nrows(), b.ncols());
    let a = a.subcols(columns.start, columns.len()).transpose();
    matmul(out, Accum::Replace, a, b, T::nearest(1.0), Par::Seq);
}

/// Passes a matrix to faer, copying it only when neither its rows nor its columns are contiguous.
fn with_mat<T: Real, R>(a: ArrayView2<T>, f: impl FnOnce(MatRef<'_, T>) -> R) -> R {
    let (rows, columns) = a.dim();
    if let Some(slice) = a.to_slice() {
        f(MatRef::from_row_major_slice(slice, rows, columns))
    } else if let Some(slice) = a.reversed_axes().to_slice() {
        f(MatRef::from_row_major_slice(slice, columns, rows).transpose())
    } else {
        let copy = a.as_standard_layout();
        f(MatRef::from_row_major_slice(copy.as_slice().expect("standard layout"), rows, columns))
    }
}

/// Solves A x = b for a symmetric positive definite A by Cholesky; None if A is not positive definite.
pub(crate) fn solve_positive(a: &Array2<f64>, b: &[f64]) -> Option<Vec<f64>> {
    let right = MatRef::from_column_major_slice(b, b.len(), 1);
    let factor = with_mat(a.view(), |a| Llt::new(a, Side::Lower)).ok()?;
    let solution = factor.solve(right);
    Some((0..b.len()).map(|i| solution[(i, 0)]).collect())
}

/// The entries of a row-major matrix, row by row.
///
/// # Panics
/// When the matrix is not row-major.
pub fn flat<T, S: Data<Elem = T>>(a: &ArrayBase<S, Ix2>) -> &[T] {
    a.as_slice().expect("the matrices of this crate are row-major")
}

/// Row i of a row-major matrix.
pub fn row<T>(a: &Array2<T>, i: usize) -> &[T] {
    &flat(a)[i * a.ncols()..(i + 1) * a.ncols()]
}

/// The entries of a row-major matrix, mutable.
///
/// # Panics
/// When the matrix is not row-major.
pub fn flat_mut<T>(a: &mut Array2<T>) -> &mut [T] {
    a.as_slice_mut().expect("the matrices of this crate are row-major")
}

/// A − B for row-major matrices, in one pass over their entries.
pub(crate) fn difference(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let entries = flat(a).iter().zip(flat(b)).map(|(x, y)| x - y).collect();
    Array2::from_shape_vec(a.dim(), entries).expect("as many entries as A")
}

/// <A, B> = Σ_ab A_ab B_ab, row by row: a term passes through as many roundings as A has rows and columns.
pub fn inner(a: &Array2<f64>, b: &Array2<f64>) -> f64 {
    a.outer_iter().zip(b.outer_iter()).map(|(x, y)| x.dot(&y)).sum()
}

/// Σ_ab f(a, b, A_ab), row by row.
pub(crate) fn sum_over(a: &Array2<f64>, f: impl Fn(usize, usize, f64) -> f64) -> f64 {
    let rows = a.outer_iter().enumerate();
    rows.map(|(i, row)| row.iter().enumerate().map(|(j, x)| f(i, j, *x)).sum::<f64>()).sum()
}

/// A = Q diag(w) Qᵀ with w ascending and the eigenvectors in the columns of Q.
#[derive(Debug, Clone)]
pub struct Eigen {
    /// w.
    pub values: Array1<f64>,
    /// Q, column-major.
    pub vectors: Array2<f64>,
}

/// Reusable workspace for decompositions, of any size.
#[derive(Default)]
pub(crate) struct EigenWorkspace {
    memory: Option<MemBuffer>,
    scaled: Array2<f64>,
}

impl Eigen {
    /// Decomposes a symmetric matrix.
    ///
    /// # Errors
    /// When the decomposition does not converge.
    pub fn new(a: &Array2<f64>) -> Result<Self> {
        let mut eigen = Self::zeros(a.nrows());
        eigen.decompose(a, &mut EigenWorkspace::default())?;
        Ok(eigen)
    }

    /// The decomposition of the zero matrix, with no basis yet.
    pub(crate) fn zeros(n: usize) -> Self {
        Self { values: Array1::zeros(n), vectors: Array2::zeros((n, n).f()) }
    }

    /// Decomposes another symmetric matrix of the same size.
    pub(crate) fn decompose(&mut self, a: &Array2<f64>, workspace: &mut EigenWorkspace) -> Result<()> {
        let n = a.nrows();
        let request =
            self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, faer::Spec::default());
        if workspace.memory.as_ref().is_none_or(|memory| memory.len() < request.size_bytes()) {
            workspace.memory = Some(MemBuffer::new(request));
        }
        let memory = workspace.memory.as_mut().expect("allocated above");
        let values = self.values.as_slice_mut().expect("vectors are contiguous");
        let vectors = self.vectors.as_slice_memory_order_mut().expect("column-major");
        with_mat(a.view(), |a| {
            self_adjoint_evd(
                a,
                ColMut::from_slice_mut(values).as_diagonal_mut(),
                Some(MatMut::from_column_major_slice_mut(vectors, n, n)),
                Par::Seq,
                MemStack::new(memory),
                faer::Spec::default(),
            )
        })
        .map_err(|_| Error::Eigen { size: n })
    }

    /// Computes Q diag(f(i, w_i)) Qᵀ into a matrix.
    pub(crate) fn reassemble_into(
        &self,
        out: &mut Array2<f64>,
        workspace: &mut EigenWorkspace,
        f: impl Fn(usize, f64) -> f64,
    ) {
        if workspace.scaled.dim() != self.vectors.dim() {
            workspace.scaled.clone_from(&self.vectors);
        }
        let columns = workspace.scaled.columns_mut().into_iter().zip(self.vectors.columns());
        for (i, (mut scaled, column)) in columns.enumerate() {
            let factor = f(i, self.values[i]);
            scaled.zip_mut_with(&column, |out, x| *out = x * factor);
        }
        product_into(out.view_mut(), workspace.scaled.view(), self.vectors.t());
    }

    /// Q diag(f(w)) Qᵀ.
    pub(crate) fn reassemble(&self, values: &Array1<f64>) -> Array2<f64> {
        let mut out = Array2::zeros(self.vectors.dim());
        self.reassemble_into(&mut out, &mut EigenWorkspace::default(), |i, _| values[i]);
        out
    }

    /// The rows of Qᵀ A Q from `first` on: a matrix in the eigenbasis.
    pub(crate) fn rotate_from(&self, first: usize, a: &Array2<f64>) -> Array2<f64> {
        let rows = self.vectors.slice(s![.., first..]);
        product(product(rows.t(), a.view()).view(), self.vectors.view())
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;
    use ndarray::array;

    use super::*;

    #[test]
    fn products_of_columns_agree_with_ndarray() {
        let a = Array2::from_shape_fn((70, 9), |(i, j)| ((i * 9 + j) as f64).sin());
        let b = Array2::from_shape_fn((70, 5), |(i, j)| ((i * 5 + j) as f64).cos());
        for columns in [0..9, 0..4, 3..9, 8..9] {
            let mut found = Array2::zeros((columns.len(), 5));
            product_of_columns(found.view_mut(), &a, columns.clone(), &b);
            assert_abs_diff_eq!(found, a.slice(s![.., columns]).t().dot(&b), epsilon = 1e-12);
        }
    }

    #[test]
    fn product_agrees_with_ndarray_for_every_layout() {
        let a = Array2::from_shape_fn((130, 7), |(i, j)| ((i * 7 + j) as f64).sin());
        let b = Array2::from_shape_fn((7, 5), |(i, j)| ((i * 5 + j) as f64).cos());
        assert_abs_diff_eq!(product(a.view(), b.view()), a.dot(&b), epsilon = 1e-12);
        assert_abs_diff_eq!(product(b.t(), a.t()), b.t().dot(&a.t()), epsilon = 1e-12);
        let strided = a.slice(s![..;3, ..]);
        assert_abs_diff_eq!(product(strided, b.view()), strided.dot(&b), epsilon = 1e-12);
    }

    #[test]
    fn positive_systems_are_solved_and_others_refused() {
        let a = array![[2.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 1.0]];
        let x = solve_positive(&a, &[1.0, 2.0, 3.0]).unwrap();
        assert_abs_diff_eq!(a.dot(&Array1::from_vec(x)), array![1.0, 2.0, 3.0], epsilon = 1e-13);
        assert!(solve_positive(&array![[1.0, 2.0], [2.0, 1.0]], &[1.0, 1.0]).is_none());
    }

    #[test]
    fn eigen_reassembles_what_it_took_apart() {
        let a = array![[2.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 1.0]];
        let eigen = Eigen::new(&a).unwrap();
        assert_abs_diff_eq!(eigen.reassemble(&eigen.values), a, epsilon = 1e-13);
        assert!(eigen.values.windows(2).into_iter().all(|w| w[0] <= w[1]));
        let seen = eigen.vectors.t().dot(&a).dot(&eigen.vectors);
        assert_abs_diff_eq!(eigen.rotate_from(1, &a), seen.slice(s![1.., ..]), epsilon = 1e-13);
    }
}
