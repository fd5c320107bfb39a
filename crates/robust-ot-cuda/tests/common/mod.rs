//! The GPU of the tests, and random data.

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot_cuda::Device;

/// The first GPU; without one, prints that the test is skipped.
pub fn device(test: &str) -> Option<Device> {
    match Device::open(0, None) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("{test}: skipped: {error}");
            None
        }
    }
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Uniform numbers in [−1, 1).
pub fn matrix(rows: usize, columns: usize, seed: u64) -> Array2<f64> {
    let mut rng = rng(seed);
    Array2::from_shape_fn((rows, columns), |_| rng.random_range(-1.0..1.0))
}
