//! Where h has corners, the optimum lies at one: many metrics and plans meet there, and a solver must distinguish them.

mod common;

use common::normal;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use robust_ot::{Measure, MetricSet, Problem, Settings, Solution, Status};

/// Two clouds of 80 points in 8 dimensions that differ little, rounded to hundredths like measurements.
fn clouds(seed: u64) -> (Measure, Measure) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let source = normal(80, 8, &mut rng);
    let shuffled = normal(80, 8, &mut rng);
    let target = if seed.is_multiple_of(2) { &source + &(shuffled * 0.3) } else { shuffled };
    let rounded = |points: ndarray::Array2<f64>| {
        Measure::uniform(points.mapv(|x| (100.0 * x).round() / 100.0)).unwrap()
    };
    (rounded(source), rounded(target))
}

fn solve(problem: &Problem, tol_gap_rel: f64) -> Solution {
    problem.solve(&Settings::default().with_tolerance(tol_gap_rel)).unwrap()
}

#[test]
fn exact_plans_converge_for_every_number_of_directions() {
    for seed in 0..6 {
        let (source, target) = clouds(seed);
        for set in (1..8).map(|k| MetricSet::Srw { k }).chain([MetricSet::Rkp { rho: f64::INFINITY }]) {
            let problem = Problem::new(&source, &target, set.clone()).unwrap();
            let (fine, rough) = (solve(&problem, 1e-6), solve(&problem, 1e-4));
            for solution in [&fine, &rough] {
                let Solution { status, relative_gap, oracle_calls, .. } = solution;
                assert_eq!(*status, Status::Converged, "seed {seed}, {set}: {relative_gap:e}");
                // A metric has 36 free entries; as many plans meet at the optimum.
                assert!(*oracle_calls <= 250, "seed {seed}, {set}: {oracle_calls} calls");
            }
            assert!(rough.lower_bound <= fine.value && fine.lower_bound <= rough.value);
        }
    }
}

#[test]
fn sets_next_to_one_with_corners_converge_on_points_with_ties() {
    let sets = [3e-3, 1e-3, 1e-4, 1e-5, 1e-6].map(|lambda| MetricSet::Features { lambda });
    let sets: Vec<_> =
        sets.into_iter().chain([MetricSet::P { k: 1000 }, MetricSet::Rkp { rho: 1e4 }]).collect();
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut grid = || Measure::uniform(normal(20, 6, &mut rng).mapv(f64::round)).unwrap();
        let (source, target) = (grid(), grid());
        for set in &sets {
            let problem = Problem::new(&source, &target, set.clone()).unwrap();
            let Solution { status, relative_gap, .. } = solve(&problem, 1e-4);
            assert_eq!(status, Status::Converged, "seed {seed}, {set}: {relative_gap:e}");
        }
    }
}

#[test]
fn entropic_plans_converge_from_strong_to_weak_entropy() {
    let (source, target) = clouds(0);
    for entropy in [1.0, 0.1, 0.01] {
        for k in [1, 3] {
            let problem = Problem::new(&source, &target, MetricSet::Srw { k }).unwrap();
            let solution = solve(&problem.with_entropy(entropy).unwrap(), 1e-4);
            let gap = solution.relative_gap;
            assert_eq!(solution.status, Status::Converged, "λ = {entropy}, k = {k}: {gap:e}");
        }
    }
}
