//! The Newton direction of the entropic dual in g alone, with f eliminated:
//!
//! $$\bigl(\mathrm{diag}(c) - P^\top \mathrm{diag}(a)\thinspace P\bigr)\thinspace \Delta = b - c, \qquad
//!   \gamma = \mathrm{diag}(a)\thinspace P,\quad c = \gamma^\top 1.$$
//!
//! Sinkhorn's update is the step with the diagonal alone. Conjugate gradients on the whole matrix need about the
//! square root of its number of iterations, and no exponentials.

use ndarray::Array2;

use super::held_kernel::HeldKernel;
use crate::interrupt::Interrupt;
use crate::linalg::{product, solve_positive};

/// Diagonal shift that keeps a factorization stable where parts of the plan are coupled by less than rounding.
const RIDGE: f64 = 1e-13;
/// Curvature below this fraction of the diagonal's counts as rounding.
const ROUNDING: f64 = 1e-14;

/// The Newton direction, and the vectors of conjugate gradients.
#[derive(Debug, Clone, Default)]
pub(super) struct Newton {
    pub(super) direction: Vec<f64>,
    residual: Vec<f64>,
    search: Vec<f64>,
    image: Vec<f64>,
}

impl Newton {
    /// Solves for the direction by conjugate gradients, preconditioned by diag(c), to a relative residual or a limit on
    /// products; returns the number of products. Columns without mass do not move. An interrupt ends it early, with the
    /// current direction.
    /// `twice` computes out ← Pᵀ diag(a) P x.
    pub(super) fn solve(
        &mut self,
        mut twice: impl FnMut(&[f64], &mut [f64]),
        b: &[f64],
        columns: &[f64],
        (tolerance, limit): (f64, usize),
        interrupt: &Interrupt,
    ) -> usize {
        let n = b.len();
        let Self { direction, residual, search, image } = self;
        for vector in [&mut *direction, &mut *search, &mut *image] {
            vector.clear();
            vector.resize(n, 0.0);
        }
        residual.clear();
        residual.extend(b.iter().zip(columns).map(|(b, c)| b - c));
        let scaled = |r: f64, c: f64| if c > 0.0 { r / c } else { 0.0 };
        let size_of =
            |residual: &[f64]| -> f64 { residual.iter().zip(columns).map(|(&r, &c)| r * scaled(r, c)).sum() };
        let mut size = size_of(residual);
        let enough = tolerance * tolerance * size;
        let mut turn = 0.0;
        for products in 0..limit {
            if size <= enough || interrupt.is_raised() {
                center(direction, columns);
                return products;
            }
            for j in 0..n {
                search[j] = scaled(residual[j], columns[j]) + turn * search[j];
            }
            twice(search, image);
            image.iter_mut().zip(&*search).zip(columns).for_each(|((y, x), c)| *y = c * x - *y);
            // Constants are in the null space: along them the curvature is rounding, and the step would be too.
            let bend: f64 = search.iter().zip(&*image).map(|(x, y)| x * y).sum();
            if bend <= ROUNDING * search.iter().zip(columns).map(|(x, c)| c * x * x).sum::<f64>() {
                center(direction, columns);
                return products;
            }
            let step = size / bend;
            for j in 0..n {
                direction[j] += step * search[j];
                residual[j] -= step * image[j];
            }
            let next = size_of(residual);
            turn = next / size;
            size = next;
        }
        center(direction, columns);
        limit
    }
}

impl Newton {
    /// Solves for the same direction by a Cholesky factorization, for small problems whose plan is nearly decoupled, where
    /// conjugate gradients are too slow. With B = diag(√a) P diag(1/√c) the matrix is I − BᵀB in the scaled unknowns √c Δ,
    /// and u uᵀ with u = √c fills its null space. Returns whether the factorization succeeded.
    pub(super) fn factorize(
        &mut self,
        kernel: &HeldKernel<f64>,
        a: &[f64],
        b: &[f64],
        columns: &[f64],
    ) -> bool {
        let roots: Vec<f64> = columns.iter().map(|c| c.sqrt()).collect();
        let scaled = |x: f64, root: f64| if root > 0.0 { x / root } else { 0.0 };
        let entries = kernel.entries();
        let balanced =
            Array2::from_shape_fn(entries.dim(), |(i, j)| a[i].sqrt() * scaled(entries[[i, j]], roots[j]));
        let mut matrix = product(balanced.t(), balanced.view());
        for ((i, j), entry) in matrix.indexed_iter_mut() {
            *entry = roots[i] * roots[j] - *entry + if i == j { 1.0 + RIDGE } else { 0.0 };
        }
        let right: Vec<f64> = (0..b.len()).map(|j| scaled(b[j] - columns[j], roots[j])).collect();
        let Some(solution) = solve_positive(&matrix, &right) else { return false };
        self.direction.clear();
        self.direction.extend(solution.iter().zip(&roots).map(|(x, root)| scaled(*x, *root)));
        center(&mut self.direction, columns);
        true
    }
}

/// Removes the constant part, which moves no mass and only costs digits.
fn center(direction: &mut [f64], columns: &[f64]) {
    let total: f64 = columns.iter().sum();
    let mean = direction.iter().zip(columns).map(|(x, c)| x * c).sum::<f64>() / total;
    direction.iter_mut().for_each(|x| *x -= mean);
}
