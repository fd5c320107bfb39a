//! Random problems for unit tests.

use ndarray::{Array1, Array2};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::measure::Measure;

/// A seeded generator.
pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Uniform numbers in [−1, 1).
pub(crate) fn matrix(rows: usize, columns: usize, rng: &mut impl Rng) -> Array2<f64> {
    Array2::from_shape_simple_fn((rows, columns), || rng.random_range(-1.0..1.0))
}

/// A random measure; in a large one, about a fifth of the points have zero weight.
pub(crate) fn measure(n: usize, d: usize, seed: u64) -> Measure {
    let mut rng = rng(seed);
    let points = matrix(n, d, &mut rng);
    let mut weights = Array1::from_shape_simple_fn(n, || {
        let weight: f64 = rng.random_range(0.1..1.0);
        if rng.random_bool(0.2) { 0.0 } else { weight }
    });
    weights[0] = 0.5;
    Measure::new(points, weights).unwrap()
}

/// A random plan between two measures: random moves of mass, and the product plan of the rest.
pub(crate) fn plan(source: &Measure, target: &Measure, seed: u64) -> Array2<f64> {
    let mut rng = rng(seed);
    let (mut rows, mut columns) = (source.weights().clone(), target.weights().clone());
    let mut plan = Array2::zeros((rows.len(), columns.len()));
    for _ in 0..4 * (rows.len() + columns.len()) {
        let (i, j) = (rng.random_range(0..rows.len()), rng.random_range(0..columns.len()));
        let mass = rows[i].min(columns[j]) * rng.random_range(0.0..1.0);
        plan[[i, j]] += mass;
        rows[i] -= mass;
        columns[j] -= mass;
    }
    let left = rows.sum();
    for ((i, j), mass) in plan.indexed_iter_mut() {
        *mass += rows[i] * columns[j] / left;
    }
    plan
}

/// A random symmetric positive semi-definite matrix.
pub(crate) fn metric(size: usize, seed: u64) -> Array2<f64> {
    let factor = matrix(size, size + 1, &mut rng(seed));
    factor.dot(&factor.t())
}
