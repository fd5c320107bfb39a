//! Random clouds shared by the integration tests.

use ndarray::Array2;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::sets::Prior;
use robust_ot::{Measure, MetricSet};

/// Standard normal numbers.
pub fn normal(rows: usize, columns: usize, rng: &mut impl Rng) -> Array2<f64> {
    Array2::from_shape_simple_fn((rows, columns), || StandardNormal.sample(rng))
}

/// A standard normal cloud, and one that is stretched at random and shifted in a tenth of its features.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn stretched_clouds(n: usize, d: usize, seed: u64) -> (Measure, Measure) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let source = normal(n, d, &mut rng);
    let stretch = Array2::<f64>::eye(d) + normal(d, d, &mut rng) * 0.2;
    let mut target = normal(n, d, &mut rng).dot(&stretch);
    target.slice_mut(ndarray::s![.., ..d / 10]).mapv_inplace(|x| x + 0.5);
    (Measure::uniform(source).unwrap(), Measure::uniform(target).unwrap())
}

/// A random measure in [−1, 1]^d with uneven weights, some of them zero.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn measure(n: usize, d: usize, seed: u64) -> Measure {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let points = Array2::from_shape_simple_fn((n, d), || rng.random_range(-1.0..1.0));
    let weights =
        (0..n).map(|i| if i > 0 && rng.random_bool(0.2) { 0.0 } else { rng.random_range(0.1..1.0) });
    Measure::new(points, weights.collect()).unwrap()
}

/// Metric sets of every kind.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn sets(size: usize) -> Vec<MetricSet> {
    vec![
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::P { k: 2 },
        MetricSet::PPower { k: 1 },
        MetricSet::Kl { lambda: 1.0, prior: Prior::Eye },
        MetricSet::Kl { lambda: 1.5, prior: Prior::Ones },
        MetricSet::Ds { lambda: 0.5, prior: Prior::Ones },
        MetricSet::Features { lambda: 0.3 },
        MetricSet::Srw { k: size.div_ceil(2) },
        MetricSet::Rkp { rho: 1.5 },
        MetricSet::Rkp { rho: f64::INFINITY },
    ]
}
