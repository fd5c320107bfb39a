//! Clouds that coincide: with entropy, V is rounding alone, and no metric may be made of it.

mod common;

use common::{assert_in_set, normal, sets};
use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use robust_ot::{Measure, MetricSet, Problem, Settings};

/// Points with one digit after the decimal point, far apart.
fn cloud(n: usize, d: usize, seed: u64) -> Array2<f64> {
    (normal(n, d, &mut ChaCha8Rng::seed_from_u64(seed)) * 1e4).mapv(f64::round) / 10.0
}

#[test]
fn metrics_of_coincident_clouds_lie_in_their_sets() {
    for (n, d) in [(1, 1), (6, 2), (9, 4), (30, 3)] {
        for seed in 0..4 {
            let points = cloud(n, d, seed);
            let here = Measure::uniform(points.clone()).unwrap();
            // Moved by less than rounding of V, and by about as much.
            for shift in [0.0, 1e-9, 1e-6, 1e-5, 1e-4] {
                let there = Measure::uniform(&points + shift).unwrap();
                for set in sets(d) {
                    for entropy in [0.0, 1e-3, 0.1, 10.0] {
                        let problem = Problem::new(&here, &there, set.clone()).unwrap();
                        let problem = problem.with_entropy(entropy).unwrap();
                        // p-power may be too small to represent.
                        let Ok(solution) = problem.solve(&Settings::default()) else { continue };
                        let what = format!("{set}, {n} × {d}, shift {shift}, entropy {entropy}");
                        assert_in_set(&set, &solution.metric, &what);
                        assert!(solution.lower_bound <= solution.value, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_moves_and_the_norm_sets_have_no_worst_metric() {
    let here = Measure::uniform(cloud(6, 2, 0)).unwrap();
    let still = Array2::<f64>::zeros((2, 2));
    for set in sets(2) {
        let problem = Problem::new(&here, &here, set.clone()).unwrap().with_entropy(0.1).unwrap();
        // The first metric of p-power is too large for this entropy.
        let Ok(solution) = problem.solve(&Settings::default()) else { continue };
        assert_eq!(solution.moment, still, "{set}");
        assert_eq!(solution.metric.dim(), (2, 2));
        let nothing = set.worst_case(&still).unwrap();
        assert_eq!(solution.unregularized_value.to_bits(), nothing.value.to_bits(), "{set}");
    }
}

#[test]
fn brackets_hold_where_weights_are_lost_in_rounding() {
    // One point, and two at the same place with shares 1 − x and x: W = λ ((1 − x) ln(1 − x) + x ln x).
    let point = Measure::uniform(Array2::zeros((1, 1))).unwrap();
    for step in 0..400 {
        let (one, other) =
            (0.3 + 0.001 * f64::from(step), 1.687 * 10f64.powf(-17.0 + 0.04 * f64::from(step)));
        let pair = Measure::new(Array2::zeros((2, 1)), vec![one, other].into()).unwrap();
        let x = other / (one + other);
        let truth = (1.0 - x) * (-x).ln_1p() + x * x.ln();
        let of_truth = 8.0 * f64::EPSILON * truth.abs();
        for set in [MetricSet::W2, MetricSet::P { k: 1 }, MetricSet::Srw { k: 1 }] {
            for (source, target) in [(&point, &pair), (&pair, &point)] {
                let problem = Problem::new(source, target, set.clone()).unwrap().with_entropy(1.0).unwrap();
                let found = problem.solve(&Settings::default()).unwrap();
                let what = format!("{set}, weights {one} and {other:e}: {found}, truth {truth}");
                assert!(found.lower_bound <= truth + of_truth, "{what}");
                assert!(found.value >= truth - of_truth, "{what}");
            }
        }
    }
}
