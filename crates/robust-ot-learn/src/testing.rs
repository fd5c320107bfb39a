//! Random numbers for unit tests.

use ndarray::Array2;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seeded generator.
pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Uniform numbers in [−1, 1).
pub(crate) fn matrix(rows: usize, columns: usize, rng: &mut impl Rng) -> Array2<f64> {
    Array2::from_shape_simple_fn((rows, columns), || rng.random_range(-1.0..1.0))
}
