//! The Newton direction of the entropic dual in g alone, with f eliminated:
//!
//! $$\bigl(\mathrm{diag}(c) - P^\top \mathrm{diag}(a)\thinspace P\bigr)\thinspace \Delta = b - c, \qquad
//!   \gamma = \mathrm{diag}(a)\thinspace P,\quad c = \gamma^\top 1.$$
//!
//! Sinkhorn's update is the step with the diagonal alone. Conjugate gradients on the whole matrix need about the
//! square root of its iterations, and no exponentials.

use super::held_kernel::HeldKernel;
use crate::interrupt::Interrupt;
use crate::kernels::Real;

/// Products after which an inexact direction is good enough.
const MAX_PRODUCTS: usize = 300;
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
    /// Solves for the direction by conjugate gradients, scaled by diag(c), to a relative residual; returns the products
    /// it took. Columns without mass stay where they are. An interrupt ends it with what it has.
    pub(super) fn solve<H: Real>(
        &mut self,
        kernel: &mut HeldKernel<H>,
        a: &[f64],
        b: &[f64],
        columns: &[f64],
        tolerance: f64,
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
        for products in 0..MAX_PRODUCTS {
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
        MAX_PRODUCTS
    }
}

/// Takes the constant part away, which moves no mass and only costs digits.
fn centre(direction: &mut [f64], columns: &[f64]) {
    let total: f64 = columns.iter().sum();
    let mean = direction.iter().zip(columns).map(|(x, c)| x * c).sum::<f64>() / total;
    direction.iter_mut().for_each(|x| *x -= mean);
}
