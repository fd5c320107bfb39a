//! The energy distance of many arrangements of the same rows: the limit of debiased entropic transport with Euclidean costs
//! as the entropy grows,
//!
//! $$E = 2\thinspace\mathrm{E}\lVert X - Y\rVert - \mathrm{E}\lVert X - X'\rVert - \mathrm{E}\lVert Y - Y'\rVert
//!   = -\sum_{kl} w_k w_l \lVert z_k - z_l\rVert,\qquad w = \pm 1 / m.$$

use ndarray::{Array2, ArrayView2, s};
use robust_ot::linalg::product;
use robust_ot::solve::Interrupt;

use super::arrangements::Arrangements;

/// The rows whose distances to all others are held at once.
const ROWS: usize = 512;
/// The arrangements whose weights are held at once.
const ARRANGEMENTS: usize = 1024;

/// E of every arrangement; less than all once interrupted.
pub(super) fn energies(
    values: ArrayView2<f64>,
    arrangements: &Arrangements,
    interrupt: &Interrupt,
) -> Vec<f64> {
    let norms: Vec<f64> = values.rows().into_iter().map(|row| row.dot(&row)).collect();
    let mut found = Vec::with_capacity(arrangements.len());
    for first in (0..arrangements.len()).step_by(ARRANGEMENTS) {
        let chunk = first..(first + ARRANGEMENTS).min(arrangements.len());
        let weights = arrangements.signed_weights(chunk);
        let mut sums = vec![0.0; weights.nrows()];
        for start in (0..values.nrows()).step_by(ROWS) {
            if interrupt.is_raised() {
                return found;
            }
            let end = (start + ROWS).min(values.nrows());
            let distances = distances(values, &norms, start..end);
            let part = weights.slice(s![.., start..end]);
            let moved = product(weights.view(), distances.t());
            for ((sum, moved), part) in sums.iter_mut().zip(moved.rows()).zip(part.rows()) {
                *sum -= moved.dot(&part);
            }
        }
        found.extend(sums);
    }
    found
}

/// Euclidean distances between some rows and all.
fn distances(values: ArrayView2<f64>, norms: &[f64], some: std::ops::Range<usize>) -> Array2<f64> {
    let rows = values.slice(s![some.clone(), ..]);
    let mut distances = product(rows, values.t());
    for ((k, mut row), norm) in some.clone().zip(distances.rows_mut()).zip(&norms[some]) {
        for (l, (entry, other)) in row.iter_mut().zip(norms).enumerate() {
            *entry = if k == l { 0.0 } else { (norm + other - 2.0 * *entry).max(0.0).sqrt() };
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use ndarray::Axis;
    use rand::RngExt;

    use super::*;
    use crate::compare::Exchange;
    use crate::testing::rng;

    #[test]
    fn the_energy_is_the_sum_over_all_pairs() {
        let mut rng = rng(9);
        let values = Array2::from_shape_fn((600, 3), |_| rng.random::<f64>());
        let arrangements = Arrangements::new((200, 400), &Exchange::Free, 3, 1).unwrap();
        let found = energies(values.view(), &arrangements, &Interrupt::default());
        let mean = |x: &Array2<f64>, y: &Array2<f64>| {
            let pairs = x.rows().into_iter().flat_map(|x| y.rows().into_iter().map(move |y| (x, y)));
            let sum: f64 = pairs.map(|(x, y)| (&x - &y).mapv(|d| d * d).sum().sqrt()).sum();
            sum / (x.nrows() * y.nrows()) as f64
        };
        for (b, found) in found.iter().enumerate() {
            let rows = |which| (0..600).filter(|&row| arrangements.side(b)[row] == which).collect::<Vec<_>>();
            let (x, y) = (values.select(Axis(0), &rows(true)), values.select(Axis(0), &rows(false)));
            let expected = 2.0 * mean(&x, &y) - mean(&x, &x) - mean(&y, &y);
            assert_relative_eq!(*found, expected, epsilon = 1e-10);
        }
    }
}
