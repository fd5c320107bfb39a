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

/// Asserts that a metric lies in its set, up to nine digits.
#[allow(dead_code, reason = "not every test binary uses every helper")]
pub fn assert_in_set(set: &MetricSet, metric: &Array2<f64>, what: &str) {
    const CLOSE: f64 = 1e-9;
    let size = metric.nrows();
    let largest = metric.fold(0.0_f64, |top, m| top.max(m.abs()));
    assert!(largest.is_finite(), "{what}: {metric}");
    let spectrum = eigenvalues(metric);
    let (least, most) =
        spectrum.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, top), w| (low.min(*w), top.max(*w)));
    assert!(least >= -CLOSE * largest, "{what}: an eigenvalue is {least:e} for entries up to {largest:e}");
    let trace: f64 = metric.diag().sum();
    let norm = |numbers: &mut dyn Iterator<Item = f64>, p: f64| -> f64 {
        if p.is_infinite() {
            numbers.fold(0.0, f64::max)
        } else {
            numbers.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p)
        }
    };
    match set {
        MetricSet::W2 => assert_eq!(metric, Array2::<f64>::eye(size), "{what}"),
        MetricSet::P { k } => {
            let p = f64::from(2 * k) / f64::from(2 * k - 1);
            let norm = norm(&mut metric.iter().map(|m| m.abs()), p);
            assert!(norm <= 1.0 + CLOSE, "{what}: norm {norm}");
        }
        MetricSet::Ds { .. } => {
            assert!(metric.iter().all(|m| *m >= 0.0), "{what}: {metric}");
            metric
                .rows()
                .into_iter()
                .for_each(|row| assert!((row.sum() - 1.0).abs() <= CLOSE, "{what}: {row}"));
        }
        MetricSet::Kl { .. } => assert!(metric.iter().all(|m| *m >= 0.0), "{what}: {metric}"),
        MetricSet::Features { .. } => {
            assert!((trace - 1.0).abs() <= CLOSE, "{what}: trace {trace}");
            assert!(
                metric.indexed_iter().all(|((a, b), m)| *m >= 0.0 && (a == b || *m == 0.0)),
                "{what}: {metric}"
            );
        }
        MetricSet::Srw { k } => {
            assert!(
                (trace - *k as f64).abs() <= CLOSE && most <= 1.0 + CLOSE,
                "{what}: trace {trace}, up to {most}"
            );
        }
        MetricSet::Rkp { rho } => {
            let dual = if rho.is_infinite() {
                1.0
            } else if *rho > 1.0 {
                rho / (rho - 1.0)
            } else {
                f64::INFINITY
            };
            let norm = norm(&mut spectrum.iter().map(|w| w.max(0.0)), dual);
            assert!(norm <= 1.0 + CLOSE, "{what}: norm {norm}");
        }
        _ => {}
    }
}

/// Eigenvalues of a symmetric matrix by Jacobi's rotations.
fn eigenvalues(matrix: &Array2<f64>) -> Vec<f64> {
    let (n, mut a) = (matrix.nrows(), matrix.clone());
    let scale = a.fold(0.0_f64, |top, x| top.max(x.abs()));
    for _ in 0..60 {
        let mut largest = 0.0_f64;
        for (p, q) in (0..n).flat_map(|p| (p + 1..n).map(move |q| (p, q))) {
            largest = largest.max(a[[p, q]].abs());
            if a[[p, q]].abs() <= 1e-15 * scale {
                continue;
            }
            let angle = 0.5 * (2.0 * a[[p, q]]).atan2(a[[q, q]] - a[[p, p]]);
            let (sin, cos) = angle.sin_cos();
            for i in 0..n {
                let (x, y) = (a[[i, p]], a[[i, q]]);
                (a[[i, p]], a[[i, q]]) = (cos * x - sin * y, sin * x + cos * y);
            }
            for i in 0..n {
                let (x, y) = (a[[p, i]], a[[q, i]]);
                (a[[p, i]], a[[q, i]]) = (cos * x - sin * y, sin * x + cos * y);
            }
        }
        if largest <= 1e-15 * scale {
            break;
        }
    }
    a.diag().to_vec()
}
