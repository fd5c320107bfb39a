//! Gradients in points and weights, against central differences of the value. The tests take a part of the thousand cases;
//! `cargo test --release -p robust-ot --test gradients -- --ignored --nocapture` takes all.

mod common;

use std::ops::Range;

use ndarray::{Array1, Array2, array};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::solve::{Gradient, Interrupt};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Solution};

/// The step of the differences.
const STEP: f64 = 2e-5;
/// The largest error, relative to the size of the slope or of its terms.
const CLOSE: f64 = 1e-5;
/// Cases whose bracket stays wider than this, relative to the cost, say nothing about five digits of a gradient.
const SOLVED: f64 = 1e-10;
/// A second difference above this times the scale and the step is a corner: another plan or another metric takes over
/// between the three points, and there is no gradient to compare with.
const CORNER: f64 = 1e-3;

/// Points and weights of both sides, as free variables.
#[derive(Clone)]
struct Place {
    x: Array2<f64>,
    y: Array2<f64>,
    a: Array1<f64>,
    b: Array1<f64>,
}

impl Place {
    fn random(m: usize, n: usize, d: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let x = common::normal(m, d, &mut rng);
        let y = common::normal(n, d, &mut rng) * 0.7 + 0.5;
        let mut weights = |n| Array1::from_shape_simple_fn(n, || rng.random_range(0.2..1.0));
        let (a, b) = (weights(m), weights(n));
        Self { x, y, a: &a / a.sum(), b: &b / b.sum() }
    }

    fn problem(&self, set: &MetricSet, grouping: &Grouping, entropy: f64) -> Problem {
        let source = Measure::new(self.x.clone(), self.a.clone()).unwrap();
        let target = Measure::new(self.y.clone(), self.b.clone()).unwrap();
        Problem::grouped(&source, &target, set.clone(), grouping).unwrap().with_entropy(entropy).unwrap()
    }
}

fn settings() -> Settings {
    Settings::default().with_tolerance(1e-13).with_max_iterations(3000)
}

fn solve(problem: &Problem) -> Solution {
    problem.solve(&settings()).unwrap()
}

/// The value, if its bracket is narrow enough.
fn closely(solution: &Solution) -> Option<f64> {
    (solution.relative_gap <= SOLVED).then_some(solution.value)
}

/// How a case ended.
#[derive(Debug, PartialEq)]
enum Outcome {
    Equal,
    Corner,
    /// A value beside the place is not known closely enough for a difference.
    Open,
    Wrong(String),
}

/// Compares the slope in one direction for each of the four arguments.
fn compare(
    at: &Place,
    gradient: &Gradient,
    middle: f64,
    value: &dyn Fn(&Place) -> Option<f64>,
    seed: u64,
) -> [Outcome; 4] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let (u, v) = (
        common::normal(at.x.nrows(), at.x.ncols(), &mut rng),
        common::normal(at.y.nrows(), at.y.ncols(), &mut rng),
    );
    let mut relative = |weights: &Array1<f64>| weights.mapv(|w| w * rng.random_range(-1.0..1.0));
    let (p, q) = (relative(&at.a), relative(&at.b));
    let moved = |t: f64, which: usize| {
        let mut place = at.clone();
        match which {
            0 => place.x.scaled_add(t, &u),
            1 => place.y.scaled_add(t, &v),
            2 => place.a.scaled_add(t, &p),
            _ => place.b.scaled_add(t, &q),
        }
        value(&place)
    };
    let terms: [Vec<f64>; 4] = [
        (&gradient.source_points * &u).into_raw_vec_and_offset().0,
        (&gradient.target_points * &v).into_raw_vec_and_offset().0,
        (&gradient.source_weights * &p).to_vec(),
        (&gradient.target_weights * &q).to_vec(),
    ];
    std::array::from_fn(|which| {
        let (Some(up), Some(down)) = (moved(STEP, which), moved(-STEP, which)) else { return Outcome::Open };
        let expected = (up - down) / (2.0 * STEP);
        let found: f64 = terms[which].iter().sum();
        let scale = terms[which].iter().map(|x| x.abs()).sum::<f64>().max(middle.abs());
        if (found - expected).abs() <= CLOSE * scale {
            Outcome::Equal
        } else if (up - 2.0 * middle + down).abs() > CORNER * scale * STEP {
            Outcome::Corner
        } else {
            Outcome::Wrong(format!(
                "argument {which}: {found} where differences give {expected}, scale {scale}"
            ))
        }
    })
}

/// How many cases were not solved closely enough, and how many comparisons of the others met a corner or an open bracket.
struct Count {
    unsolved: usize,
    corners: usize,
    open: usize,
    compared: usize,
    wrong: Vec<String>,
}

/// The given number of cases, over sets, groups, sizes and entropies.
fn run(cases: Range<u64>) -> Count {
    let mut count = Count { unsolved: 0, corners: 0, open: 0, compared: 0, wrong: Vec::new() };
    for case in cases {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        let (m, n, d) = (rng.random_range(3..9), rng.random_range(3..9), rng.random_range(2..7));
        let groups = if case % 3 == 0 { rng.random_range(2..=d) } else { d };
        let grouping = Grouping::random(d, groups, case).unwrap();
        let sets = common::sets(groups);
        let set = &sets[case as usize % sets.len()];
        let entropy = if case % 2 == 0 { 0.0 } else { rng.random_range(0.05..1.0) };
        let place = Place::random(m, n, d, case + 1000);
        let solution = solve(&place.problem(set, &grouping, entropy));
        if closely(&solution).is_none() {
            count.unsolved += 1;
            continue;
        }
        let value = |place: &Place| closely(&solve(&place.problem(set, &grouping, entropy)));
        for outcome in compare(&place, &solution.gradient(), solution.value, &value, case) {
            count.compared += 1;
            match outcome {
                Outcome::Equal => {}
                Outcome::Corner => count.corners += 1,
                Outcome::Open => count.open += 1,
                Outcome::Wrong(what) => count.wrong.push(format!(
                    "case {case}, {set:?}, {m} × {n} × {d}, {groups} groups, entropy {entropy}, gap {:e}: {what}",
                    solution.relative_gap
                )),
            }
        }
    }
    count
}

#[test]
fn gradients_are_the_slopes_of_the_value() {
    let Count { unsolved, corners, open, compared, wrong } = run(0..66);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        unsolved <= 6 && (corners + open) * 20 <= compared,
        "{unsolved} unsolved, {corners} corners and {open} open in {compared}"
    );
}

#[test]
fn gradients_are_the_slopes_of_the_value_in_a_thousand_cases() {
    // The bracket of some cases stays open: so many more make a thousand.
    let Count { unsolved, corners, open, compared, wrong } = run(0..1100);
    println!(
        "{} cases, {compared} comparisons, {corners} at a corner, {open} open; {unsolved} further cases unsolved",
        1100 - unsolved
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(unsolved <= 100 && (corners + open) * 20 <= compared);
}

/// The divergence under a fixed metric is that of W2 between points times its square root, whose gradient is complete.
#[test]
fn the_divergence_of_w2_has_its_whole_gradient() {
    let place = Place::random(5, 6, 3, 7);
    let find = |place: &Place| {
        let problem = place.problem(&MetricSet::W2, &Grouping::none(3), 0.4);
        problem.divergence(&settings(), &Interrupt::default()).unwrap()
    };
    let found = find(&place);
    for outcome in compare(&place, &found.gradient(), found.value, &|place| Some(find(place).value), 3) {
        assert_eq!(outcome, Outcome::Equal);
    }
}

/// (±1, 0) against (0, ±1): with a metric of its own for each term this would be negative. All plans are symmetric, so each term
/// has a closed form: −λ ln 4 + √2 across, and −λ ln(2 (1 + e^{−c/λ})) within, where c = 2√2 lies between the two points.
#[test]
fn a_common_metric_keeps_the_divergence_positive() {
    let (a, b) = (array![[1.0, 0.0], [-1.0, 0.0]], array![[0.0, 1.0], [0.0, -1.0]]);
    let measure = |points| Measure::uniform(points).unwrap();
    let entropy = 10.0;
    let problem = Problem::new(&measure(a), &measure(b), MetricSet::P { k: 1 }).unwrap();
    let problem = problem.with_entropy(entropy).unwrap();
    let found = problem.divergence(&settings(), &Interrupt::default()).unwrap();
    let within = -entropy * (2.0 * (1.0 + (-8.0_f64.sqrt() / entropy).exp())).ln();
    let expected = 2.0_f64.sqrt() - entropy * 4.0_f64.ln() - within;
    assert!(expected > 0.0);
    assert!(
        (found.value - expected).abs() < 1e-9 && (found.lower_bound - expected).abs() < 1e-9,
        "{found:?}"
    );
}

#[test]
fn divergences_are_not_negative_and_zero_between_equal_measures() {
    for (at, set) in common::sets(4).into_iter().enumerate() {
        let place = Place::random(6, 5, 4, at as u64);
        let equal = Place { y: place.x.clone(), b: place.a.clone(), ..place.clone() };
        let find = |place: &Place| {
            let problem = place.problem(&set, &Grouping::none(4), 0.7);
            problem.divergence(&settings().with_tolerance(1e-10), &Interrupt::default()).unwrap()
        };
        let apart = find(&place);
        assert!(0.0 <= apart.lower_bound && apart.lower_bound <= apart.value, "{set:?}");
        assert!(apart.value > 1e-6, "{set:?}: {}", apart.value);
        let zero = find(&equal);
        assert!(zero.lower_bound == 0.0 && zero.value < 1e-7, "{set:?}: {}", zero.value);
    }
}

/// Far more features than points: metrics of spectral sets are found in the span of the points.
#[test]
fn gradients_leave_the_span() {
    for set in [MetricSet::Srw { k: 2 }, MetricSet::Rkp { rho: 2.0 }] {
        let place = Place::random(3, 4, 20, 5);
        let solution = solve(&place.problem(&set, &Grouping::none(20), 0.0));
        let value = |place: &Place| closely(&solve(&place.problem(&set, &Grouping::none(20), 0.0)));
        for outcome in compare(&place, &solution.gradient(), solution.value, &value, 9) {
            assert_eq!(outcome, Outcome::Equal, "{set:?}");
        }
    }
}

/// Translating both clouds changes nothing, so the forces of both sides cancel; and Euler's theorem for h of degree one.
#[test]
fn forces_cancel_and_euler_holds() {
    for set in [MetricSet::W2, MetricSet::P { k: 2 }, MetricSet::Srw { k: 1 }, MetricSet::Rkp { rho: 1.5 }] {
        let place = Place::random(7, 5, 4, 11);
        let solution = solve(&place.problem(&set, &Grouping::none(4), 0.0));
        let Gradient { source_points, target_points, .. } = solution.gradient();
        let total = source_points.sum_axis(ndarray::Axis(0)) + target_points.sum_axis(ndarray::Axis(0));
        assert!(total.iter().all(|x| x.abs() < 1e-12), "{set:?}: {total}");
        let along = (&source_points * &place.x).sum() + (&target_points * &place.y).sum();
        assert!((along - 2.0 * solution.transport_cost).abs() < 1e-11 * along, "{set:?}");
    }
}

#[test]
fn points_without_weight_have_no_force() {
    let mut place = Place::random(5, 4, 3, 2);
    place.a[2] = 0.0;
    for entropy in [0.0, 0.5] {
        let solution = solve(&place.problem(&MetricSet::P { k: 1 }, &Grouping::none(3), entropy));
        let gradient = solution.gradient();
        assert!(gradient.source_points.row(2).iter().all(|g| *g == 0.0));
        assert!(gradient.source_points.iter().all(|g| g.is_finite()));
        let slope = gradient.source_weights[2];
        if entropy > 0.0 {
            assert!(slope.is_infinite() && slope < 0.0);
            continue;
        }
        // What a little weight there costs.
        let mut more = place.clone();
        more.a[2] = 1e-6;
        let gained =
            solve(&more.problem(&MetricSet::P { k: 1 }, &Grouping::none(3), 0.0)).value - solution.value;
        assert!((gained / 1e-6 - slope).abs() < 1e-4 * slope.abs().max(1.0), "{gained} {slope}");
    }
}

#[test]
fn images_are_barycentric_projections() {
    let place = Place::random(6, 7, 4, 3);
    let grouping = Grouping::random(4, 2, 1).unwrap();
    for entropy in [0.0, 0.3] {
        let solution = solve(&place.problem(&MetricSet::P { k: 1 }, &grouping, entropy));
        let expected = solution.dense_plan().dot(&place.y) / place.a.view().insert_axis(ndarray::Axis(1));
        let close = |found: &Array2<f64>, limit: f64| (found - &expected).iter().all(|x| x.abs() < limit);
        assert!(close(&solution.images(), 1e-12));
        // Source points, given as new ones, go where they went.
        assert!(close(&solution.transport(&place.x).unwrap(), if entropy > 0.0 { 1e-7 } else { 1e-12 }));
        assert!(solution.transport(&Array2::zeros((2, 3))).is_err());
        assert!(solution.transport(&array![[0.0, f64::NAN, 0.0, 0.0]]).is_err());
    }
}
