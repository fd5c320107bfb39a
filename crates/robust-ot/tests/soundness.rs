//! Random problems over all sets, scales, ties and weights, each solved in several ways: the brackets of one problem
//! intersect, plans are feasible, metrics lie in their sets, and no plan beats a lower bound.

mod common;
mod soak;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{assert_in_set, normal};
use ndarray::{Array1, Array2, Axis};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::sets::Displacements;
use robust_ot::solve::StepRule;
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Solution, Status};
use soak::{draw_set, soak};

/// Number of problems in a test without a stated time.
const PROBLEMS: u64 = 400;
/// How far, relative to the largest cost or the value, recomputed sums may differ.
const CLOSE: f64 = 1e-10;

struct Case {
    source: Measure,
    target: Measure,
    grouping: Grouping,
    set: MetricSet,
    entropy: f64,
    /// The largest cost of any pair, as a scale for rounding.
    largest: f64,
}

#[derive(Default)]
struct Counts {
    solves: AtomicUsize,
    converged: AtomicUsize,
    stalled: AtomicUsize,
    refused: AtomicUsize,
}

fn cloud(n: usize, d: usize, rng: &mut ChaCha8Rng) -> Array2<f64> {
    let mut points = normal(n, d, rng);
    match rng.random_range(0..4) {
        // Ties.
        0 => points.mapv_inplace(f64::round),
        // Two far clusters.
        1 => points.slice_mut(ndarray::s![..n / 2, ..]).mapv_inplace(|x| x + 1e3),
        _ => {}
    }
    points
}

fn weights(n: usize, rng: &mut ChaCha8Rng) -> Array1<f64> {
    let kind = rng.random_range(0..4);
    let mut weights = Array1::from_shape_simple_fn(n, || match kind {
        0 => 1.0,
        1 => rng.random_range(0.1..1.0),
        2 if rng.random_bool(0.3) => 0.0,
        2 => f64::from(rng.random_range(1..4)),
        _ => 10f64.powf(rng.random_range(-17.0..0.0)),
    });
    weights[rng.random_range(0..n)] = 1.0;
    weights
}

fn draw(seed: u64) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rng = &mut rng;
    let largest_count = if rng.random_bool(0.1) { 60 } else { 14 };
    let (m, n) = (rng.random_range(1..largest_count), rng.random_range(1..largest_count));
    let d = rng.random_range(1..6);
    let scale = 10f64.powf(rng.random_range(-4.0..4.0));
    let points = cloud(m, d, rng) * scale;
    let others = match rng.random_range(0..6) {
        0 => points.clone(),
        1 => &points + scale * 1e-6,
        _ => cloud(n, d, rng) * scale,
    };
    let (source_weights, target_weights) = (weights(m, rng), weights(others.nrows(), rng));
    let (source, target) =
        (Measure::new(points, source_weights).unwrap(), Measure::new(others, target_weights).unwrap());
    let grouping = if d > 1 && rng.random_bool(0.3) {
        Grouping::contiguous(d, d.div_ceil(2)).unwrap()
    } else {
        Grouping::none(d)
    };
    let maps = Displacements::new(&source, &target, &grouping).unwrap();
    let r = maps.size();
    let typical = maps.independent_moment().diag().sum().max(f64::MIN_POSITIVE);
    let lambda = typical * 10f64.powf(rng.random_range(-1.5..1.0));
    let set = draw_set(r, lambda, rng);
    let cost = maps.cost(&Array2::eye(r)).unwrap();
    let largest = cost.fold(0.0_f64, |top, c| top.max(*c));
    let mut sorted = cost.into_raw_vec_and_offset().0;
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let entropy = if rng.random_bool(0.4) { 0.0 } else { median * 10f64.powf(rng.random_range(-6.0..0.0)) };
    Case { source, target, grouping, set, entropy, largest }
}

/// The same problem by different ways.
fn ways(case: &Case) -> Vec<(&'static str, robust_ot::Result<Solution>)> {
    let Case { source, target, grouping, set, entropy, .. } = case;
    let solve = |source: &Measure, target: &Measure, settings: &Settings| {
        Problem::grouped(source, target, set.clone(), grouping)?.with_entropy(*entropy)?.solve(settings)
    };
    let usual = Settings::default();
    let turned = |measure: &Measure| {
        let back: Vec<usize> = (0..measure.len()).rev().collect();
        let points = measure.points().select(Axis(0), &back);
        Measure::new(points, measure.weights().select(Axis(0), &back)).unwrap()
    };
    let rule = |rule, most| usual.with_step_rule(rule).with_max_iterations(most);
    vec![
        ("as usual", solve(source, target, &usual)),
        ("streamed", solve(source, target, &usual.with_memory(0))),
        ("to eight digits", solve(source, target, &usual.with_tolerance(1e-8).with_max_iterations(200))),
        ("backwards", solve(target, source, &usual)),
        ("in another order", solve(&turned(source), &turned(target), &usual)),
        ("in two steps", solve(source, target, &usual.with_max_iterations(2))),
        ("by classic steps", solve(source, target, &rule(StepRule::Classic, 12))),
        ("by line search", solve(source, target, &rule(StepRule::LineSearch, 40))),
    ]
}

fn powers(plan: &Array2<f64>) -> f64 {
    plan.iter().filter(|mass| **mass > 0.0).map(|mass| mass * mass.ln()).sum()
}

fn try_one(seed: u64, counts: &Counts) {
    let case = draw(seed);
    let Case { source, target, grouping, set, entropy, largest } = &case;
    let maps = Displacements::new(source, target, grouping).unwrap();
    let mut brackets: Vec<(&str, f64, f64)> = Vec::new();
    let mut objectives: Vec<(&str, f64)> = Vec::new();
    for (way, found) in ways(&case) {
        counts.solves.fetch_add(1, Ordering::Relaxed);
        let Ok(found) = found else {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let what = format!(
            "seed {seed}, {set}, {} × {}, entropy {entropy:e}, {way}: {found}",
            source.len(),
            target.len()
        );
        match found.status {
            Status::Converged => counts.converged.fetch_add(1, Ordering::Relaxed),
            Status::Stalled => counts.stalled.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        assert!(found.lower_bound <= found.value && found.value.is_finite(), "{what}");
        let apart = (found.gap - (found.value - found.lower_bound)).abs();
        assert!(apart <= CLOSE * found.gap, "{what}: gap {}", found.gap);
        assert_in_set(set, &found.metric, &what);
        brackets.push((way, found.lower_bound, found.value));
        // The other ways permute the points.
        if !matches!(way, "backwards" | "in another order") {
            let plan = found.dense_plan();
            assert!(plan.iter().all(|mass| *mass >= 0.0), "{what}");
            let off = (plan.sum_axis(Axis(1)) - source.weights()).mapv(f64::abs).sum()
                + (plan.sum_axis(Axis(0)) - target.weights()).mapv(f64::abs).sum();
            assert!(off <= 1e-12, "{what}: marginals are off by {off:e}");
            let moment = maps.moment(&plan).unwrap();
            // A moment from products; a plan that moves little loses digits in it, and where all points coincide nothing
            // but the rounding of their squares is left.
            let apart = (&moment - &found.moment).fold(0.0_f64, |top, x| top.max(x.abs()));
            let coordinates = source.points().iter().chain(target.points());
            let squares = coordinates.fold(0.0_f64, |top, x| top.max(x * x));
            assert!(
                apart <= CLOSE * largest + f64::EPSILON * squares,
                "{what}: the plan's moment is off by {apart:e}"
            );
            if let Ok(worst) = set.worst_case(&found.moment) {
                objectives.push((way, worst.value + entropy * powers(&plan)));
            }
        }
    }
    for (first, lower, _) in &brackets {
        for (second, _, upper) in &brackets {
            assert!(
                lower <= upper,
                "seed {seed}, {set}, entropy {entropy:e}: {first} has the lower bound {lower:e}, {second} the value {upper:e}"
            );
        }
        for (second, value) in &objectives {
            assert!(
                *lower <= value + CLOSE * (value.abs() + largest),
                "seed {seed}, {set}, entropy {entropy:e}: {first} has the lower bound {lower:e}, a plan found {second} costs {value:e}"
            );
        }
    }
}

#[test]
fn brackets_of_one_problem_intersect() {
    let counts = Counts::default();
    soak("brackets", PROBLEMS, |seed| try_one(seed, &counts));
    let [solves, converged, stalled, refused] =
        [&counts.solves, &counts.converged, &counts.stalled, &counts.refused]
            .map(|count| count.load(Ordering::Relaxed));
    println!("{solves} solves: {converged} converged, {stalled} stalled, {refused} refused");
}
