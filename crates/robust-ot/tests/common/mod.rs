//! Random clouds shared by the integration tests.

use ndarray::Array2;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::Measure;

/// Standard normal numbers.
pub fn normal(rows: usize, columns: usize, rng: &mut impl Rng) -> Array2<f64> {
    Array2::from_shape_simple_fn((rows, columns), || StandardNormal.sample(rng))
}

/// A standard normal cloud, and one that is stretched at random and shifted in a tenth of its features.
pub fn stretched_clouds(n: usize, d: usize, seed: u64) -> (Measure, Measure) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let source = normal(n, d, &mut rng);
    let stretch = Array2::<f64>::eye(d) + normal(d, d, &mut rng) * 0.2;
    let mut target = normal(n, d, &mut rng).dot(&stretch);
    target.slice_mut(ndarray::s![.., ..d / 10]).mapv_inplace(|x| x + 0.5);
    (Measure::uniform(source).unwrap(), Measure::uniform(target).unwrap())
}
