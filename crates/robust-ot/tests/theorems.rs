//! Properties that must hold for any input: coincidences between sets, symmetries, scalings, degenerate clouds.

mod common;

use approx::{assert_abs_diff_eq, assert_relative_eq};
use common::{measure, sets};
use ndarray::{Array1, Array2, Axis, array, concatenate};
use proptest::prelude::*;
use robust_ot::sets::Prior;
use robust_ot::{Error, Grouping, Measure, MetricSet, Problem, Settings, Solution, Status};

/// The relative gap of all solves.
const TOL: f64 = 1e-6;

fn solve_grouped(source: &Measure, target: &Measure, set: MetricSet, grouping: &Grouping) -> Solution {
    let settings = Settings::default().with_tolerance(TOL);
    Problem::grouped(source, target, set, grouping).unwrap().solve(&settings).unwrap()
}

fn solve(source: &Measure, target: &Measure, set: MetricSet) -> Solution {
    solve_grouped(source, target, set, &Grouping::none(source.dim()))
}

/// Asserts that two narrow brackets of the same number overlap.
fn assert_same(left: &Solution, right: &Solution) {
    assert_eq!((left.status, right.status), (Status::Converged, Status::Converged));
    let slack = 1e-10 * (1.0 + left.value.abs());
    assert!(
        left.lower_bound <= right.value + slack && right.lower_bound <= left.value + slack,
        "[{}, {}] and [{}, {}]",
        left.lower_bound,
        left.value,
        right.lower_bound,
        right.value
    );
}

fn chosen(measure: &Measure, rows: &[usize], columns: &[usize]) -> Measure {
    let points = measure.points().select(Axis(0), rows).select(Axis(1), columns);
    Measure::new(points, measure.weights().select(Axis(0), rows)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sets_coincide_where_they_must((m, n, d) in (1usize..8, 1usize..8, 1usize..6), seed in 0u64..10_000) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let w2 = solve(&source, &target, MetricSet::W2);
        assert_same(&w2, &solve(&source, &target, MetricSet::Rkp { rho: 1.0 }));
        assert_same(&w2, &solve(&source, &target, MetricSet::Srw { k: d }));
        assert_same(&w2, &solve(&source, &target, MetricSet::Ds { lambda: 1.0, prior: Prior::Eye }));
        let p = solve(&source, &target, MetricSet::P { k: 1 });
        assert_same(&p, &solve(&source, &target, MetricSet::Rkp { rho: 2.0 }));
        let power = solve(&source, &target, MetricSet::PPower { k: 1 });
        assert_relative_eq!(power.value, p.value * p.value, max_relative = 1e-4, epsilon = 1e-10);
        let top = solve(&source, &target, MetricSet::Srw { k: 1 });
        assert_same(&top, &solve(&source, &target, MetricSet::Rkp { rho: f64::INFINITY }));
    }

    #[test]
    fn features_and_kl_with_the_identity_share_their_plan((m, n, d) in (1usize..8, 1usize..8, 1usize..6), seed in 0u64..10_000) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let features = MetricSet::Features { lambda: 0.7 };
        let selected = solve(&source, &target, features.clone());
        let kl = solve(&source, &target, MetricSet::Kl { lambda: 0.7, prior: Prior::Eye });
        // The plan that is optimal for one set is optimal for the other.
        let crossed = features.worst_case(&kl.moment).unwrap().value;
        prop_assert!((crossed - selected.value).abs() <= 1e-4 * (1.0 + selected.value.abs()));
    }

    #[test]
    fn one_group_a_feature_is_no_grouping((m, n, d) in (1usize..8, 1usize..8, 1usize..6), seed in 0u64..10_000) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        for set in sets(d) {
            let grouped = solve_grouped(&source, &target, set.clone(), &Grouping::contiguous(d, d).unwrap());
            assert_same(&grouped, &solve(&source, &target, set));
        }
    }

    #[test]
    fn permuting_points_and_features_permutes_the_answer((m, n, d) in (2usize..8, 2usize..8, 2usize..6), seed in 0u64..10_000) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let (rows, columns): (Vec<_>, Vec<_>) = ((0..m).rev().collect(), (0..d).rev().collect());
        let back: Vec<_> = (0..n).collect();
        for set in sets(d) {
            let plain = solve(&source, &target, set.clone());
            let mixed = solve(&chosen(&source, &rows, &columns), &chosen(&target, &back, &columns), set.clone());
            assert_same(&plain, &mixed);
            if !matches!(set, MetricSet::Srw { .. } | MetricSet::Rkp { .. }) {
                // Where the worst metric is unique, it is permuted too.
                let back = mixed.metric.select(Axis(0), &columns).select(Axis(1), &columns);
                let size = plain.metric.iter().fold(1e-3_f64, |top, x| top.max(x.abs()));
                assert_abs_diff_eq!(plain.metric / size, back / size, epsilon = 0.02);
            }
        }
    }

    #[test]
    fn a_permuted_prior_goes_with_permuted_features((m, n, d) in (2usize..8, 2usize..8, 2usize..5), seed in 0u64..10_000) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let columns: Vec<_> = (0..d).rev().collect();
        // Positive semidefinite, without negative entries, different for every feature.
        let prior = Array2::from_shape_fn((d, d), |(a, b)| if a == b { 2.0 + a as f64 } else { 1.0 / (1 + a + b) as f64 });
        let turned = prior.select(Axis(0), &columns).select(Axis(1), &columns);
        let points = |measure: &Measure| (0..measure.len()).collect::<Vec<_>>();
        let turn = |measure: &Measure| chosen(measure, &points(measure), &columns);
        for set in [
            |prior| MetricSet::Kl { lambda: 1.0, prior },
            |prior| MetricSet::Ds { lambda: 0.5, prior },
        ] {
            let plain = solve(&source, &target, set(Prior::Matrix(prior.clone())));
            let mixed = solve(&turn(&source), &turn(&target), set(Prior::Matrix(turned.clone())));
            assert_same(&plain, &mixed);
        }
    }

    #[test]
    fn swapping_shifting_and_scaling_do_what_they_should(
        (m, n, d) in (1usize..8, 1usize..8, 1usize..5), scale in -2.0..2.0f64, shift in -1e6..1e6f64, seed in 0u64..10_000,
    ) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let scale = 10f64.powf(scale);
        let moved = |measure: &Measure, scale: f64, shift: f64| {
            Measure::new(measure.points() * scale + shift, measure.weights().clone()).unwrap()
        };
        for set in sets(d) {
            let plain = solve(&source, &target, set.clone());
            assert_same(&plain, &solve(&target, &source, set.clone()));
            let shifted = solve(&moved(&source, 1.0, shift), &moved(&target, 1.0, shift), set.clone());
            assert_abs_diff_eq!(plain.value, shifted.value, epsilon = 1e-5 * (1.0 + plain.value.abs()));
            let degree = match set {
                MetricSet::W2 | MetricSet::P { .. } | MetricSet::Srw { .. } | MetricSet::Rkp { .. } => 2,
                MetricSet::PPower { k } => 4 * k as i32,
                _ => continue,
            };
            let scaled = solve(&moved(&source, scale, 0.0), &moved(&target, scale, 0.0), set);
            assert_relative_eq!(plain.value * scale.powi(degree), scaled.value, max_relative = 1e-5, epsilon = 1e-300);
        }
    }

    #[test]
    fn splitting_a_point_or_adding_weightless_ones_changes_nothing((m, n, d) in (1usize..7, 1usize..7, 1usize..5), seed in 0u64..10_000) {
        let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
        let mut weights = source.weights().to_vec();
        let half = weights[0] / 2.0;
        weights[0] = half;
        weights.extend([half, 0.0]);
        let twin = source.points().row(0).insert_axis(Axis(0)).to_owned();
        let far = Array2::from_elem((1, d), 50.0);
        let points = concatenate![Axis(0), source.points().view(), twin, far];
        let split = Measure::new(points, Array1::from_vec(weights)).unwrap();
        for set in sets(d) {
            assert_same(&solve(&source, &target, set.clone()), &solve(&split, &target, set));
        }
    }

    #[test]
    fn nothing_moves_between_equal_measures((m, d) in (1usize..10, 1usize..6), seed in 0u64..10_000) {
        let cloud = measure(m, d, seed);
        for set in sets(d) {
            let solution = solve(&cloud, &cloud, set.clone());
            let nothing = set.worst_case(&Array2::zeros((d, d))).unwrap().value;
            prop_assert_eq!(solution.status, Status::Converged);
            // h(0) is bracketed by its own rounding: for doubly stochastic metrics, that of their row sums.
            prop_assert!(solution.lower_bound <= nothing && nothing <= solution.value);
            assert_abs_diff_eq!(solution.gap, 0.0, epsilon = 1e-10 * (1.0 + nothing.abs()));
            assert_abs_diff_eq!(solution.excess(), 0.0, epsilon = 0.0);
            assert_abs_diff_eq!(solution.moment, Array2::zeros((d, d)));
        }
    }

    #[test]
    fn one_point_each_has_its_closed_form(d in 1usize..7, seed in 0u64..10_000) {
        let (source, target) = (measure(1, d, seed), measure(1, d, seed + 1));
        let difference = source.points() - target.points();
        let length = difference.mapv(|x| x * x).sum();
        for set in [MetricSet::W2, MetricSet::P { k: 1 }, MetricSet::Srw { k: 1 }, MetricSet::Rkp { rho: 3.0 }] {
            assert_relative_eq!(solve(&source, &target, set).value, length, max_relative = 1e-12);
        }
    }

    #[test]
    fn spectral_sets_see_few_points_in_many_dimensions_from_their_span(
        (m, n) in (1usize..4, 1usize..4), extra in 1usize..20, k in 1usize..9, seed in 0u64..10_000,
    ) {
        // Rotate a low-dimensional problem into many dimensions by repeating features: lengths grow by a factor.
        let low = m + n;
        let d = low * (extra + 1);
        let (source, target) = (measure(m, low, seed), measure(n, low, seed + 1));
        let spread = |cloud: &Measure| {
            let columns: Vec<_> = (0..d).map(|f| f % low).collect();
            chosen(cloud, &(0..cloud.len()).collect::<Vec<_>>(), &columns)
        };
        let factor = (extra + 1) as f64;
        for (small, large) in [
            (MetricSet::Srw { k: k.min(low) }, MetricSet::Srw { k: k.min(d) }),
            (MetricSet::Rkp { rho: 3.0 }, MetricSet::Rkp { rho: 3.0 }),
        ] {
            let (near, far) = (solve(&source, &target, small), solve(&spread(&source), &spread(&target), large.clone()));
            assert_relative_eq!(near.value * factor, far.value, max_relative = 1e-5, epsilon = 1e-12);
            prop_assert_eq!(far.metric.dim(), (d, d));
            if let MetricSet::Srw { k } = large {
                assert_abs_diff_eq!(far.metric.diag().sum(), k as f64, epsilon = 1e-8);
            }
        }
    }
}

#[test]
fn extreme_scales_are_harmless() {
    let (source, target) = (measure(6, 3, 1), measure(5, 3, 2));
    let scaled = |measure: &Measure, scale: f64| {
        Measure::new(measure.points() * scale, measure.weights().clone()).unwrap()
    };
    let plain = solve(&source, &target, MetricSet::P { k: 2 }).value;
    for scale in [1e-70, 1e-30, 1e30, 1e70] {
        let far = solve(&scaled(&source, scale), &scaled(&target, scale), MetricSet::P { k: 2 });
        assert_relative_eq!(far.value / scale / scale, plain, max_relative = 1e-5);
    }
}

#[test]
fn the_plan_of_a_line_is_the_one_of_its_quantiles() {
    // One feature: every set orders plans by V alone, so all agree with the 1-D closed form.
    let source = Measure::uniform(array![[0.0], [1.0], [5.0]]).unwrap();
    let target = Measure::uniform(array![[6.0], [0.5], [2.0]]).unwrap();
    let expected = (0.25 + 1.0 + 1.0) / 3.0;
    for set in [MetricSet::W2, MetricSet::P { k: 3 }, MetricSet::Srw { k: 1 }, MetricSet::Rkp { rho: 2.5 }] {
        assert_relative_eq!(solve(&source, &target, set).value, expected, max_relative = 1e-12);
    }
}

#[test]
fn overflow_names_a_lambda_that_works() {
    let source = measure(6, 3, 1);
    let target = Measure::new(source.points() * 40.0 + 3.0, source.weights().clone()).unwrap();
    for prior in [Prior::Eye, Prior::Ones] {
        let set = |lambda: f64| MetricSet::Kl { lambda, prior: prior.clone() };
        let refused = Problem::new(&source, &target, set(1e-3)).unwrap().solve(&Settings::default());
        let Err(Error::Overflow { safe, .. }) = refused else { panic!("λ = 1e-3 should overflow") };
        let solution =
            Problem::new(&source, &target, set(safe)).unwrap().solve(&Settings::default()).unwrap();
        assert!(solution.value.is_finite());
    }
}

#[test]
fn a_problem_refuses_what_does_not_fit() {
    let (flat, deep) = (measure(3, 2, 1), measure(3, 4, 1));
    assert!(matches!(Problem::new(&flat, &deep, MetricSet::W2), Err(Error::Dimension { .. })));
    let grouping = Grouping::contiguous(4, 2).unwrap();
    let refused = Problem::grouped(&flat, &flat, MetricSet::W2, &grouping);
    assert!(matches!(refused, Err(Error::Grouping { .. })));
    assert!(matches!(Problem::new(&flat, &flat, MetricSet::Srw { k: 3 }), Err(Error::Parameter { .. })));
}
