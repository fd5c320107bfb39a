//! What is kept in memory changes how a problem is solved, not its answer.

mod common;

use common::{measure, sets, stretched_clouds};
use ndarray::Axis;
use robust_ot::solve::{Interrupt, PairSettings, SolveOptions, Storage, Workspace, solve_pairs};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Status};

#[test]
fn every_storage_brackets_the_same_optimum() {
    let (source, target) = (measure(45, 4, 31), measure(38, 4, 32));
    for entropy in [0.0, 0.05] {
        for set in sets(4) {
            let problem = Problem::new(&source, &target, set.clone()).unwrap().with_entropy(entropy).unwrap();
            let solve = |memory| {
                let settings = Settings::default().with_tolerance(1e-6).with_memory(memory);
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
    let measures: Vec<Measure> = (sizes.iter().enumerate())
        .flat_map(|(i, &(m, n))| [measure(m, 6, i as u64), measure(n, 6, 100 + i as u64)])
        .collect();
    let measures: Vec<&Measure> = measures.iter().collect();
    let pairs: Vec<(usize, usize)> = (0..sizes.len()).map(|i| (2 * i, 2 * i + 1)).collect();
    let (grouping, set, settings) =
        (Grouping::contiguous(6, 3).unwrap(), MetricSet::P { k: 1 }, Settings::default());
    let mut workspace = Workspace::default();
    for entropy in [0.0, 0.02] {
        let wanted = PairSettings {
            measures: &measures,
            grouping: &grouping,
            set: &set,
            entropy,
            settings: &settings,
        };
        let together = solve_pairs(&pairs, wanted, &Interrupt::default(), &|_| ());
        for (&(i, j), together) in pairs.iter().zip(together) {
            let problem = Problem::grouped(measures[i], measures[j], set.clone(), &grouping).unwrap();
            let problem = problem.with_entropy(entropy).unwrap();
            let (alone, together) = (problem.solve(&settings).unwrap(), together.unwrap());
            let options = SolveOptions { workspace: Some(&mut workspace), ..Default::default() };
            let shared = problem.solve_with(&settings, options).unwrap();
            assert_eq!(alone.value.to_bits(), together.value.to_bits());
            assert_eq!(alone.lower_bound.to_bits(), together.lower_bound.to_bits());
            assert_eq!(alone.value.to_bits(), shared.value.to_bits());
            assert_eq!(alone.plan(), shared.plan());
        }
    }
}

#[test]
fn an_interrupt_leaves_pairs_without_bounds() {
    let (source, target) = (measure(5, 3, 0), measure(4, 3, 1));
    let measures = [&source, &target];
    let (grouping, set, settings) = (Grouping::none(3), MetricSet::W2, Settings::default());
    let wanted = PairSettings {
        measures: &measures,
        grouping: &grouping,
        set: &set,
        entropy: 0.0,
        settings: &settings,
    };
    let interrupt = Interrupt::default();
    interrupt.raise();
    let found = solve_pairs(&[(0, 1)], wanted, &interrupt, &|_| ());
    let found = found[0].as_ref().unwrap();
    assert_eq!(found.status, Status::Interrupted);
    assert_eq!((found.lower_bound, found.value), (f64::NEG_INFINITY, f64::INFINITY));
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let (source, target) = stretched_clouds(120, 20, 5);
    let solve = |threads: usize, entropy: f64, memory: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let problem =
            Problem::new(&source, &target, MetricSet::P { k: 1 }).unwrap().with_entropy(entropy).unwrap();
        let settings = Settings::default().with_memory(memory);
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
        |memory| problem.solve(&Settings::default().with_tolerance(1e-6).with_memory(memory)).unwrap();
    let stored = solve(usize::MAX);
    for memory in [usize::MAX, 33 * 33 * 4, 0] {
        let solution = solve(memory);
        assert!(solution.lower_bound <= stored.value && stored.lower_bound <= solution.value, "{memory}");
        assert!(solution.unregularized_value >= 0.0);
        let plan = solution.dense_plan();
        for (sums, weights) in [(plan.sum_axis(Axis(1)), &source), (plan.sum_axis(Axis(0)), &target)] {
            sums.iter()
                .zip(weights.weights())
                .for_each(|(sum, w)| assert!((sum - w).abs() < 1e-13, "{sum} {w}"));
        }
    }
}
