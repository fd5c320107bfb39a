//! What is kept in memory changes how a problem is solved, not its answer.

mod common;

use common::{measure, sets, stretched_clouds};
use ndarray::Axis;
use robust_ot::{
    Grouping, Interrupt, Measure, MetricSet, Problem, Settings, Status, Storage, Workspace, solve_all,
};

#[test]
fn every_storage_brackets_the_same_optimum() {
    let (source, target) = (measure(45, 4, 31), measure(38, 4, 32));
    for entropy in [0.0, 0.05] {
        for set in sets(4) {
            let problem = Problem::new(&source, &target, set.clone()).unwrap().with_entropy(entropy).unwrap();
            let solve = |memory| {
                let settings = Settings { tol_gap_rel: 1e-6, memory, ..Settings::default() };
                problem.solve(&settings).unwrap()
            };
            let stored = solve(usize::MAX);
            assert_eq!(stored.storage, Storage::Stored);
            for memory in [45 * 38 * 4, 0] {
                let frugal = solve(memory);
                let plan_fits = memory > 0 && entropy > 0.0;
                assert_eq!(frugal.storage, if plan_fits { Storage::Plan } else { Storage::Streamed });
                assert_eq!(frugal.status, Status::Converged, "{set} {entropy} {memory}");
                assert!(
                    frugal.lower_bound <= stored.value && stored.lower_bound <= frugal.value,
                    "{set} {entropy}"
                );
            }
        }
    }
}

#[test]
fn many_problems_at_once_give_the_answers_of_one_at_a_time() {
    // Sizes go up and down, so that buffers are reused by smaller and by larger problems.
    let sizes = [(12, 9), (3, 4), (30, 25), (1, 1), (8, 40)];
    let problems: Vec<_> = sizes
        .iter()
        .enumerate()
        .flat_map(|(i, &(m, n))| [(i, m, n, 0.0), (i, m, n, 0.02)])
        .map(|(i, m, n, entropy)| {
            let (source, target) = (measure(m, 6, i as u64), measure(n, 6, 100 + i as u64));
            let grouping = Grouping::contiguous(6, 3).unwrap();
            let problem = Problem::grouped(&source, &target, MetricSet::P { k: 1 }, &grouping).unwrap();
            problem.with_entropy(entropy).unwrap()
        })
        .collect();
    let settings = Settings::default();
    let mut room = Workspace::default();
    for (problem, together) in problems.iter().zip(solve_all(&problems, &settings, &Interrupt::default())) {
        let (alone, together) = (problem.solve(&settings).unwrap(), together.unwrap());
        let shared = problem.solve_in(&mut room, &settings, &Interrupt::default()).unwrap();
        assert_eq!(alone.value.to_bits(), together.value.to_bits());
        assert_eq!(alone.value.to_bits(), shared.value.to_bits());
        assert_eq!(alone.plan(), together.plan());
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let (source, target) = stretched_clouds(120, 20, 5);
    let solve = |threads: usize, entropy: f64, memory: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let problem =
            Problem::new(&source, &target, MetricSet::P { k: 1 }).unwrap().with_entropy(entropy).unwrap();
        let settings = Settings { memory, ..Settings::default() };
        let solution = pool.install(|| problem.solve(&settings)).unwrap();
        (solution.value.to_bits(), solution.lower_bound.to_bits())
    };
    for (entropy, memory) in [(0.0, usize::MAX), (0.0, 0), (0.1, usize::MAX), (0.1, 0)] {
        assert_eq!(solve(1, entropy, memory), solve(3, entropy, memory));
    }
}

#[test]
fn far_clusters_keep_their_marginals_however_costs_are_formed() {
    // Costs of 1e12 with λ = 1: a cost that rounds differently the second time it is computed gives another plan.
    let cloud = |seed: u64| {
        let mut points = measure(33, 3, seed).points().clone();
        for (i, mut row) in points.rows_mut().into_iter().enumerate() {
            row += if i % 2 == 0 { 1e6 } else { -1e6 };
        }
        Measure::uniform(points).unwrap()
    };
    let (source, target) = (cloud(1), cloud(2));
    let problem = Problem::new(&source, &target, MetricSet::W2).unwrap().with_entropy(1.0).unwrap();
    let solve =
        |memory| problem.solve(&Settings { tol_gap_rel: 1e-6, memory, ..Settings::default() }).unwrap();
    let stored = solve(usize::MAX);
    for memory in [usize::MAX, 33 * 33 * 4, 0] {
        let solution = solve(memory);
        assert!(solution.lower_bound <= stored.value && stored.lower_bound <= solution.value, "{memory}");
        assert!(solution.unregularised_value >= 0.0);
        let plan = solution.dense_plan();
        for (sums, weights) in [(plan.sum_axis(Axis(1)), &source), (plan.sum_axis(Axis(0)), &target)] {
            sums.iter()
                .zip(weights.weights())
                .for_each(|(sum, w)| assert!((sum - w).abs() < 1e-13, "{sum} {w}"));
        }
    }
}
