//! The Newton direction of the entropic dual in g alone, with f eliminated:
//!
//! $$\bigl(\mathrm{diag}(c) - \gamma^\top \mathrm{diag}(1/a)\thinspace \gamma\bigr)\thinspace \Delta = b - c, \qquad c = \gamma^\top 1.$$
//!
//! Sinkhorn's update is the step with the diagonal alone. Conjugate gradients on the whole matrix need about the
//! square root of its iterations, and no exponentials.

use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, Axis};

use super::sinkhorn::BLOCKS;
use crate::interrupt::Interrupt;
use crate::kernels::{add_scaled, dot};

/// Products after which an inexact direction is good enough.
const MAX_PRODUCTS: usize = 300;
/// Curvature below this part of the diagonal's is rounding.
const ROUNDING: f64 = 1e-14;

/// Solves by conjugate gradients, scaled by diag(c), to a relative residual; also returns the products it took.
/// Columns without mass stay where they are. An interrupt ends it with what it has.
pub(super) fn direction(
    plan: &Array2<f64>,
    a: &Array1<f64>,
    b: &Array1<f64>,
    columns: &Array1<f64>,
    tolerance: f64,
    interrupt: &Interrupt,
) -> (Array1<f64>, usize) {
    let scaled = |x: &Array1<f64>| -> Array1<f64> {
        x.iter().zip(columns).map(|(x, c)| if *c > 0.0 { x / c } else { 0.0 }).collect()
    };
    let mut direction = Array1::zeros(b.len());
    let mut residual = b - columns;
    let mut preconditioned = scaled(&residual);
    let mut search = preconditioned.clone();
    let mut size = residual.dot(&preconditioned);
    let enough = tolerance * tolerance * size;
    for products in 0..MAX_PRODUCTS {
        if size <= enough || interrupt.is_raised() {
            return (centred(direction, columns), products);
        }
        let image = columns * &search - twice(plan, a, &search);
        // Constants are in the null space: along them the curvature is rounding, and so would be the step.
        let bend = search.dot(&image);
        if bend <= ROUNDING * search.iter().zip(columns).map(|(x, c)| c * x * x).sum::<f64>() {
            return (centred(direction, columns), products);
        }
        let step = size / bend;
        direction.scaled_add(step, &search);
        residual.scaled_add(-step, &image);
        preconditioned = scaled(&residual);
        let next = residual.dot(&preconditioned);
        search = &preconditioned + &(search * (next / size));
        size = next;
    }
    (centred(direction, columns), MAX_PRODUCTS)
}

/// Without the constant part, which moves no mass and only costs digits.
fn centred(direction: Array1<f64>, columns: &Array1<f64>) -> Array1<f64> {
    let mean = direction.dot(columns) / columns.sum();
    direction - mean
}

/// γᵀ diag(1/a) γ x, in blocks of rows whose sums are added in order.
fn twice(plan: &Array2<f64>, a: &Array1<f64>, x: &Array1<f64>) -> Array1<f64> {
    let x = x.as_slice().expect("vectors are contiguous");
    let rows = plan.nrows().div_ceil(BLOCKS);
    let partial: Vec<Vec<f64>> = plan
        .axis_chunks_iter(Axis(0), rows)
        .into_par_iter()
        .enumerate()
        .map(|(block, plan)| {
            let mut sum = vec![0.0; x.len()];
            for (offset, row) in plan.rows().into_iter().enumerate() {
                let weight = a[block * rows + offset];
                if weight > 0.0 {
                    let row = row.to_slice().expect("plans are row-major");
                    add_scaled(&mut sum, dot(row, x) / weight, row);
                }
            }
            sum
        })
        .collect();
    let mut total = Array1::zeros(x.len());
    for part in partial {
        total.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    total
}
