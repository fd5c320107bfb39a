//! The GPU of the tests, and random data.

use ndarray::{Array1, Array2};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::Measure;
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

/// Points of which every other one is the farther the less it weighs, w ‖x‖² being at most about one.
#[allow(dead_code)]
pub fn with_far_points(count: usize, dim: usize, seed: u64) -> Measure {
    let mut points = matrix(count, dim, seed);
    let mut rng = rng(seed + 1);
    let mut weights: Array1<f64> = (0..count).map(|_| rng.random_range(0.1..1.0)).collect();
    for at in (0..count).step_by(2) {
        let power = rng.random_range(8..=16);
        weights[at] *= 10f64.powi(-power);
        points.row_mut(at).mapv_inplace(|x| x * 10f64.powi((power / 2).min(6)));
    }
    Measure::new(points, weights).unwrap()
}
