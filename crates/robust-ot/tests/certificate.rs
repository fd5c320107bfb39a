//! lower_bound ≤ W ≤ value, whatever the solver and the tolerance, and whenever it stops.

mod common;

use approx::assert_abs_diff_eq;
use common::{measure, sets};
use ndarray::{Array2, Axis, array};
use proptest::prelude::*;
use robust_ot::bounds::{Means, Screen};
use robust_ot::device::Corpus;
use robust_ot::sets::Displacements;
use robust_ot::solve::{Interrupt, LinearOracle, SolveOptions, StepRule};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Solution, Status};

fn accurate(problem: &Problem) -> Solution {
    problem.solve(&Settings::default().with_tolerance(1e-7)).unwrap()
}

/// Asserts that the plan is feasible, and that value, moment, metric and costs are those of that plan.
fn assert_consistent(solution: &Solution, source: &Measure, target: &Measure, set: &MetricSet, entropy: f64) {
    let plan = solution.dense_plan();
    assert!(plan.iter().all(|x| *x >= 0.0));
    assert_abs_diff_eq!(plan.sum_axis(Axis(1)), source.weights(), epsilon = 1e-12);
    assert_abs_diff_eq!(plan.sum_axis(Axis(0)), target.weights(), epsilon = 1e-12);
    let sparse = solution.plan();
    assert_abs_diff_eq!(sparse.iter().map(|e| e.mass).sum::<f64>(), 1.0, epsilon = 1e-12);
    sparse.iter().for_each(|e| assert_abs_diff_eq!(plan[[e.row, e.column]], e.mass, epsilon = 1e-15));
    let maps = Displacements::new(source, target, &Grouping::none(source.dim())).unwrap();
    assert_abs_diff_eq!(maps.moment(&plan).unwrap(), solution.moment, epsilon = 1e-10);
    let worst = set.worst_case(&solution.moment).unwrap();
    assert_abs_diff_eq!(
        worst.value,
        solution.unregularized_value,
        epsilon = 1e-8 * (1.0 + worst.value.abs())
    );
    let omega: f64 = plan.iter().filter(|x| **x > 0.0).map(|x| x * x.ln()).sum();
    // Mixing plans only lowers Σ γ ln γ below the reported bound.
    assert!(solution.unregularized_value + entropy * omega <= solution.value + 1e-9);
    let transport = (&maps.cost(&solution.metric).unwrap() * &plan).sum();
    assert_abs_diff_eq!(transport, solution.transport_cost, epsilon = 1e-9 * (1.0 + transport.abs()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_bracket_holds_the_optimum(
        (m, n, d) in (1usize..8, 1usize..8, 1usize..5), entropic in any::<bool>(), seed in 0u64..10_000,
    ) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let entropy = if entropic { 0.1 } else { 0.0 };
        for set in sets(d) {
            let problem = Problem::new(&source, &target, set.clone()).unwrap().with_entropy(entropy).unwrap();
            let best = accurate(&problem);
            for solver in [StepRule::Classic, StepRule::LineSearch, StepRule::Corrective] {
                for max_iterations in [1, 2, 7] {
                    let settings = Settings::default().with_step_rule(solver).with_tolerance(0.0).with_max_iterations(max_iterations);
                    let rough = problem.solve(&settings).unwrap();
                    prop_assert!(rough.iterations <= max_iterations);
                    prop_assert!(rough.lower_bound <= best.value + 1e-11, "{set} {solver}: {} > {}", rough.lower_bound, best.value);
                    prop_assert!(rough.value >= best.lower_bound - 1e-11, "{set} {solver}: {} < {}", rough.value, best.lower_bound);
                    assert_abs_diff_eq!(rough.gap, rough.value - rough.lower_bound);
                    assert_consistent(&rough, &source, &target, &set, entropy);
                }
            }
        }
    }

    #[test]
    fn every_set_converges(
        (m, n, d) in (1usize..9, 1usize..9, 1usize..6), entropy in prop_oneof![Just(0.0), 0.01..1.0f64], seed in 0u64..10_000,
    ) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        for set in sets(d) {
            let problem = Problem::new(&source, &target, set.clone()).unwrap().with_entropy(entropy).unwrap();
            let solution = problem.solve(&Settings::default().with_tolerance(1e-5)).unwrap();
            prop_assert_eq!(solution.status, Status::Converged, "{} gap {}", set, solution.relative_gap);
            prop_assert!(solution.relative_gap <= 1e-5);
        }
    }
}

#[test]
fn the_history_closes_in_on_the_answer() {
    let (source, target) = (measure(20, 4, 1), measure(25, 4, 2));
    let problem = Problem::new(&source, &target, MetricSet::P { k: 1 }).unwrap();
    let solution = problem.solve(&Settings::default().with_tolerance(1e-8)).unwrap();
    assert_eq!(solution.history.len(), solution.iterations);
    for pair in solution.history.windows(2) {
        assert!(pair[1].value <= pair[0].value + 1e-12, "corrective steps never increase the value");
        assert!(pair[1].lower_bound >= pair[0].lower_bound);
    }
    let last = solution.history.last().unwrap();
    assert_eq!((last.value, last.lower_bound), (solution.value, solution.lower_bound));
}

#[test]
fn an_iteration_limit_is_a_status_with_its_gap() {
    let (source, target) = (measure(30, 6, 3), measure(30, 6, 4));
    let problem = Problem::new(&source, &target, MetricSet::P { k: 2 }).unwrap();
    let settings =
        Settings::default().with_step_rule(StepRule::Classic).with_tolerance(1e-12).with_max_iterations(5);
    let solution = problem.solve(&settings).unwrap();
    assert_eq!(solution.status, Status::MaxIterations);
    assert!(solution.gap > 0.0 && solution.oracle_calls == 5);
}

#[test]
fn an_interrupt_leaves_a_sound_bracket() {
    let (source, target) = (measure(60, 5, 5), measure(50, 5, 6));
    let interrupt = Interrupt::default();
    interrupt.raise();
    for entropy in [0.0, 1e-3] {
        let problem =
            Problem::new(&source, &target, MetricSet::P { k: 1 }).unwrap().with_entropy(entropy).unwrap();
        let stopped = problem
            .solve_with(
                &Settings::default(),
                SolveOptions { interrupt: Some(&interrupt), ..Default::default() },
            )
            .unwrap();
        let best = accurate(&problem);
        assert_eq!(stopped.status, Status::Interrupted);
        assert!(stopped.lower_bound <= best.value && stopped.value >= best.lower_bound);
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let cloud = measure(3, 2, 1);
    let problem = Problem::new(&cloud, &cloud, MetricSet::W2).unwrap();
    for settings in [
        Settings::default().with_tolerance(-1.0),
        Settings::default().with_tolerance(f64::NAN),
        Settings::default().with_max_iterations(0),
    ] {
        assert!(problem.solve(&settings).is_err());
    }
    for entropy in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(problem.clone().with_entropy(entropy).is_err());
    }
}

#[test]
fn small_distances_between_far_clusters_are_certified() {
    // Two clusters 2e5 apart; within each, points move by a few tenths. Matrix products alone would
    // lose these moves to rounding.
    let near = measure(8, 3, 11);
    let moved = |shift: f64| {
        let mut points = near.points() * 0.3 + shift;
        points.slice_mut(ndarray::s![..4, ..]).mapv_inplace(|x| x + 2e5);
        Measure::uniform(points).unwrap()
    };
    let (source, target) = (moved(0.0), moved(0.25));
    for set in sets(3) {
        let solution =
            Problem::new(&source, &target, set.clone()).unwrap().solve(&Settings::default()).unwrap();
        assert_eq!(solution.status, Status::Converged, "{set}: {}", solution.relative_gap);
    }
    // A shift is optimally undone point by point: W2² = d · 0.25².
    let w2 = Problem::new(&source, &target, MetricSet::W2).unwrap().solve(&Settings::default()).unwrap();
    assert_abs_diff_eq!(w2.value, 3.0 * 0.0625, epsilon = 1e-6);
}

#[test]
fn entropy_alone_converges_where_nothing_can_move() {
    let here = Measure::uniform(Array2::ones((5, 3))).unwrap();
    let problem = Problem::new(&here, &here, MetricSet::P { k: 1 }).unwrap().with_entropy(0.1).unwrap();
    let solution = problem.solve(&Settings::default()).unwrap();
    assert_eq!(solution.status, Status::Converged);
    // Σ γ ln γ of the independent plan.
    assert_abs_diff_eq!(solution.value, -0.1 * 25f64.ln(), epsilon = 1e-9);
}

#[test]
fn a_far_point_of_little_weight_does_not_blur_the_bound() {
    // All mass must reach the one target, so W2² is known: 0.2² + 1e-12 (1e6 − 0.3)² − ….
    let source = Measure::new(array![[0.1], [1e6]], array![1.0, 1e-12]).unwrap();
    let target = Measure::uniform(array![[0.3]]).unwrap();
    let mass = 1.0 + 1e-12;
    let expected = (0.2_f64.powi(2) + 1e-12 * (1e6 - 0.3_f64).powi(2)) / mass;
    for set in [MetricSet::W2, MetricSet::P { k: 1 }, MetricSet::Srw { k: 1 }] {
        let solution =
            Problem::new(&source, &target, set.clone()).unwrap().solve(&Settings::default()).unwrap();
        assert_eq!(solution.status, Status::Converged, "{set}");
        assert!(
            solution.lower_bound <= expected * (1.0 + 1e-12),
            "{set}: {} > {expected}",
            solution.lower_bound
        );
        assert_abs_diff_eq!(solution.value, expected, epsilon = 1e-9);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A check that does not rely on the solver: h at any feasible plan lies above the lower bound.
    #[test]
    fn no_plan_beats_the_lower_bound(
        (m, n, d) in (1usize..7, 1usize..7, 1usize..5), entropy in prop_oneof![Just(0.0), 0.01..1.0f64], seed in 0u64..10_000,
    ) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let maps = Displacements::new(&source, &target, &Grouping::none(d)).unwrap();
        let mut plans = vec![independent(&source, &target)];
        for turn in 0..6 {
            // Vertices for random costs, and their mixtures with earlier plans.
            let cost = Array2::from_shape_fn((m, n), |(i, j)| ((seed + turn) as f64 + (i * 7 + j * 13) as f64).sin());
            let weights = (source.weights().to_vec(), target.weights().to_vec());
            let mut oracle = LinearOracle::new(&weights.0, &weights.1, 0.0).unwrap();
            let mut plan = Array2::zeros((m, n));
            for e in oracle.solve(&cost, &Interrupt::default()).unwrap() {
                plan[[e.row, e.column]] += e.mass;
            }
            plans.push((&plans[turn as usize] + &plan) * 0.5);
            plans.push(plan);
        }
        for set in sets(d) {
            let problem = Problem::new(&source, &target, set.clone()).unwrap().with_entropy(entropy).unwrap();
            let solution = problem.solve(&Settings::default()).unwrap();
            for plan in &plans {
                let omega: f64 = plan.iter().filter(|x| **x > 0.0).map(|x| x * x.ln()).sum();
                let value = set.worst_case(&maps.moment(plan).unwrap()).unwrap().value + entropy * omega;
                prop_assert!(solution.lower_bound <= value + 1e-12 * (1.0 + value.abs()), "{set}: {} > {value}", solution.lower_bound);
            }
        }
    }
}

fn independent(source: &Measure, target: &Measure) -> Array2<f64> {
    let (a, b) = (source.weights(), target.weights());
    Array2::from_shape_fn((a.len(), b.len()), |(i, j)| a[i] * b[j])
}

#[test]
fn screens_bound_from_below() {
    for seed in 0..20 {
        let (source, target, other) =
            (measure(7, 4, seed), measure(9, 4, seed + 100), measure(5, 4, seed + 200));
        for grouping in [Grouping::none(4), Grouping::contiguous(4, 2).unwrap()] {
            let corpus = Corpus::new(&[&source, &target, &other], &grouping).unwrap();
            for set in sets(grouping.groups()) {
                for entropy in [0.0, 0.3] {
                    let problem = Problem::grouped(&source, &target, set.clone(), &grouping).unwrap();
                    let value = accurate(&problem.with_entropy(entropy).unwrap()).value;
                    let screen = Screen::new(&corpus, 0, &[1, 2], &set, entropy).unwrap();
                    for limit in [f64::INFINITY, value, value + 2.0 * value.abs() + 1.0] {
                        let bound = screen.bound(&corpus, 1, limit).unwrap();
                        assert!(bound <= value, "{set}, entropy {entropy}: {bound} is above {value}");
                    }
                }
            }
        }
    }
}

#[test]
fn means_bound_from_below_and_are_the_distance_of_translates() {
    for seed in 0..10 {
        let (source, other) = (measure(7, 4, seed), measure(9, 4, seed + 100));
        let shift = measure(1, 4, seed + 200).points().clone();
        let moved = Measure::new(source.points() + &shift, source.weights().clone()).unwrap();
        let mean = |measure: &Measure| measure.weights().dot(measure.points());
        let means = ndarray::stack![Axis(0), mean(&source), mean(&other), mean(&moved)];
        for grouping in [Grouping::none(4), Grouping::contiguous(4, 2).unwrap()] {
            for set in sets(grouping.groups()) {
                let bounds = Means::new(&means, &grouping, set.clone()).unwrap();
                for (at, target) in [&other, &moved].into_iter().enumerate() {
                    let problem = Problem::grouped(&source, target, set.clone(), &grouping).unwrap();
                    let value = accurate(&problem).value;
                    let bound = bounds.bound(0, at + 1).unwrap();
                    assert!(bound <= value, "{set}: {bound} is above {value}");
                    if at == 1 {
                        assert_abs_diff_eq!(bound, value, epsilon = 1e-6);
                    }
                }
                assert!(bounds.bound(0, 0).unwrap() <= 1e-12 && bounds.bound(0, 3).is_err(), "{set}");
            }
        }
    }
}

#[test]
fn a_screen_of_one_point_is_the_distance() {
    let (point, other) = (Measure::uniform(array![[2.0, 0.0, 1.0]]).unwrap(), measure(6, 3, 1));
    for set in sets(3) {
        let value = accurate(&Problem::new(&point, &other, set.clone()).unwrap()).value;
        // The independent plan is the only one, and its worst metric is that of the screen.
        let corpus = Corpus::new(&[&point, &other], &Grouping::none(3)).unwrap();
        let screen = Screen::new(&corpus, 0, &[1], &set, 0.0).unwrap();
        assert_abs_diff_eq!(screen.bound(&corpus, 1, f64::INFINITY).unwrap(), value, epsilon = 1e-6);
    }
}
