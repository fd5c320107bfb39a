//! Problems whose optimal plan is known: one point on a side, points on a line, translated clouds. Their W is known in exact
//! arithmetic on the coordinates and weights as given, and `lower_bound` ≤ W ≤ `value` holds to the last bit.

mod common;
mod exact;
mod soak;

use common::normal;
use exact::{Truth, independent, on_a_line, translated};
use ndarray::{Array1, Array2, array};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::sets::Prior;
use robust_ot::{Measure, MetricSet, Problem, Settings};
use soak::soak;

/// Number of problems of each kind.
const PROBLEMS: u64 = 250;
/// One point on another: h(0) is all that there is to round.
const ONCE_WRONG: [u64; 1] = [758];

fn weights(n: usize, rng: &mut ChaCha8Rng) -> Array1<f64> {
    let kind = rng.random_range(0..5);
    Array1::from_shape_simple_fn(n, || match kind {
        0 => 1.0,
        1 => f64::from(rng.random_range(1..9)),
        2 => 10f64.powf(rng.random_range(-17.0..0.0)),
        _ => rng.random_range(0.1..1.0),
    })
}

/// Scaled normal numbers, sometimes far from the origin or on a grid.
fn cloud(n: usize, d: usize, rng: &mut ChaCha8Rng) -> Array2<f64> {
    let scale = 10f64.powf(rng.random_range(-3.0..3.0));
    let mut points = normal(n, d, rng) * scale;
    match rng.random_range(0..4) {
        0 => points.mapv_inplace(|x| x + 1e4),
        1 => points.mapv_inplace(|x| (16.0 * x).round() / 16.0),
        _ => {}
    }
    points
}

/// The sets whose support function can be compared with a number in exact arithmetic.
fn sets(d: usize, typical: f64) -> Vec<MetricSet> {
    let lambda = typical.max(1e-9);
    let mut sets = vec![
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::P { k: 2 },
        MetricSet::PPower { k: 1 },
        MetricSet::PPower { k: 2 },
        MetricSet::Kl { lambda, prior: Prior::Eye },
        MetricSet::Kl { lambda: 3.0 * lambda, prior: Prior::Ones },
        MetricSet::Features { lambda },
        MetricSet::Srw { k: d },
        MetricSet::Rkp { rho: 1.0 },
        MetricSet::Rkp { rho: 2.0 },
    ];
    if d <= 2 {
        sets.push(MetricSet::Ds { lambda, prior: Prior::Ones });
    }
    if d == 1 {
        sets.push(MetricSet::Rkp { rho: f64::INFINITY });
        sets.push(MetricSet::Rkp { rho: 3.5 });
    }
    sets
}

/// Asserts that every set brackets the truth, from both sides of the problem.
fn assert_bracketed(points: [&Array2<f64>; 2], weights: [&Array1<f64>; 2], truth: &Truth, what: &str) {
    let [source, target] =
        [0, 1].map(|side| Measure::new(points[side].clone(), weights[side].clone()).unwrap());
    for set in sets(source.dim(), truth.trace() / source.dim() as f64) {
        for (from, to) in [(&source, &target), (&target, &source)] {
            let problem = Problem::new(from, to, set.clone()).unwrap();
            for memory in [usize::MAX, 0] {
                // p-power may be too small to represent.
                let Ok(found) = problem.solve(&Settings::default().with_tolerance(1e-9).with_memory(memory))
                else {
                    continue;
                };
                let (low, high) = (truth.compare(&set, found.lower_bound), truth.compare(&set, found.value));
                assert!(
                    low.is_ge(),
                    "{what}, {set}: the lower bound {:e} is above W, near {:e}",
                    found.lower_bound,
                    found.value
                );
                assert!(high.is_le(), "{what}, {set}: the value {:e} is below W", found.value);
            }
        }
    }
}

#[test]
fn brackets_of_one_point_hold_its_only_plan() {
    let try_one = |seed: u64| {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (n, d) = (rng.random_range(1..7), rng.random_range(1..5));
        let (point, others) = (cloud(1, d, rng), cloud(n, d, rng));
        let (one, weights) = (array![rng.random_range(0.1..10.0)], weights(n, rng));
        let truth = Truth::of([&point, &others], &independent(&one, &weights));
        assert_bracketed([&point, &others], [&one, &weights], &truth, &format!("one point, seed {seed}"));
    };
    ONCE_WRONG.into_iter().for_each(try_one);
    soak("one point", PROBLEMS, try_one);
}

#[test]
fn brackets_on_a_line_hold_the_monotone_plan() {
    soak("on a line", PROBLEMS, |seed| {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (m, n) = (rng.random_range(1..12), rng.random_range(1..12));
        let (source, mut target) = (cloud(m, 1, rng), cloud(n, 1, rng));
        if rng.random_bool(0.3) {
            // Small distances between large coordinates.
            target = Array2::from_shape_fn((n, 1), |(j, _)| source[[j % m, 0]] * (1.0 + 1e-6 * j as f64));
        }
        let (a, b) = (weights(m, rng), weights(n, rng));
        let truth = Truth::of([&source, &target], &on_a_line([&source, &target], [&a, &b]));
        assert_bracketed([&source, &target], [&a, &b], &truth, &format!("on a line, seed {seed}"));
    });
}

#[test]
fn brackets_of_translates_hold_the_translation() {
    soak("translates", PROBLEMS, |seed| {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (n, d) = (rng.random_range(1..12), rng.random_range(1..5));
        // On a grid, so that the sums are exact.
        let grid = |points: Array2<f64>| points.mapv(|x| (1024.0 * x).round() / 1024.0);
        let source = grid(normal(n, d, rng) * 100.0);
        let shift = grid(normal(1, d, rng) * 10f64.powi(rng.random_range(-2..3)));
        let (target, a) = (&source + &shift, weights(n, rng));
        let truth = Truth::of([&source, &target], &translated(&a));
        assert_bracketed([&source, &target], [&a, &a], &truth, &format!("translates, seed {seed}"));
    });
}
