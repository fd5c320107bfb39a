//! The Newton direction of the entropic dual in g alone, with f eliminated:
//!
//! $$\bigl(\mathrm{diag}(c) - P^\top \mathrm{diag}(a)\thinspace P\bigr)\thinspace \Delta = b - c, \qquad
//!   \gamma = \mathrm{diag}(a)\thinspace P,\quad c = \gamma^\top 1.$$
//!
//! Sinkhorn's update is the step with the diagonal alone. Conjugate gradients on the whole matrix need about the
//! square root of its iterations, and no exponentials.

use ndarray::Array2;

use super::held_kernel::HeldKernel;
use crate::interrupt::Interrupt;
use crate::kernels::Real;
use crate::linalg::{product, solve_positive};

/// Keeps a factorisation going where parts of the plan hang together by less than rounding.
const RIDGE: f64 = 1e-13;
/// Curvature below this part of the diagonal's is rounding.
const ROUNDING: f64 = 1e-14;

/// Conjugate gradients with their vectors.
#[derive(Debug, Clone, Default)]
pub(super) struct Newton {
    pub(super) direction: Vec<f64>,
    residual: Vec<f64>,
    search: Vec<f64>,
    image: Vec<f64>,
}

impl Newton {
    /// Solves for the direction by conjugate gradients, scaled by diag(c), to a relative residual or a
    /// limit of products; returns how many it took. Columns without mass stay where they are. An interrupt ends it with what it has.
    pub(super) fn solve<H: Real>(
        &mut self,
        kernel: &mut HeldKernel<H>,
        a: &[f64],
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
                centre(direction, columns);
                return products;
            }
            for j in 0..n {
                search[j] = scaled(residual[j], columns[j]) + turn * search[j];
            }
            kernel.twice(search, |i, inner| a[i] * inner, image);
            image.iter_mut().zip(&*search).zip(columns).for_each(|((y, x), c)| *y = c * x - *y);
            // Constants are in the null space: along them the curvature is rounding, and so would be the step.
            let bend: f64 = search.iter().zip(&*image).map(|(x, y)| x * y).sum();
            if bend <= ROUNDING * search.iter().zip(columns).map(|(x, c)| c * x * x).sum::<f64>() {
                centre(direction, columns);
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
        centre(direction, columns);
        limit
    }
}

impl Newton {
    /// The same direction by a Cholesky factorisation, for small problems whose plan is nearly decoupled: there conjugate
    /// gradients take forever. With B = diag(√a) P diag(1/√c) the matrix is I − BᵀB in the scaled unknowns √c Δ, and u uᵀ
    /// with u = √c fills its null space. Returns whether that worked.
    pub(super) fn factorise(
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
        centre(&mut self.direction, columns);
        true
    }
}

/// Takes the constant part away, which moves no mass and only costs digits.
fn centre(direction: &mut [f64], columns: &[f64]) {
    let total: f64 = columns.iter().sum();
    let mean = direction.iter().zip(columns).map(|(x, c)| x * c).sum::<f64>() / total;
    direction.iter_mut().for_each(|x| *x -= mean);
}
