//! Clouds that coincide: with entropy, V is rounding alone, and no metric may be made of it.

mod common;

use common::{assert_in_set, normal, sets};
use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use robust_ot::{Measure, Problem, Settings};

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
