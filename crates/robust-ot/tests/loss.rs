//! Compares the loss with the robust solver, closed forms, finite differences and itself.

mod common;
mod soak;

use std::collections::BTreeSet;

use approx::{assert_abs_diff_eq, assert_relative_eq};
use common::{normal, sets};
use ndarray::{Array1, Array2, Axis, array};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::sets::Displacements;
use robust_ot::{Error, Grouping, Measure, MetricSet, Problem, Settings};
use soak::{draw_set, soak};

/// The number of labels.
const L: usize = 7;
/// The dimension of label vectors.
const D: usize = 4;

/// Random label vectors of length one.
fn vectors(labels: usize, dim: usize, seed: u64) -> Array2<f64> {
    let mut points = normal(labels, dim, &mut ChaCha8Rng::seed_from_u64(seed));
    points.rows_mut().into_iter().for_each(|mut row| row /= row.dot(&row).sqrt());
    points
}

/// Logarithms of softmax predictions.
fn log_predictions(rows: usize, labels: usize, seed: u64) -> Array2<f64> {
    let mut logits = normal(rows, labels, &mut ChaCha8Rng::seed_from_u64(seed));
    for mut row in logits.rows_mut() {
        let total = row.mapv(f64::exp).sum().ln();
        row -= total;
    }
    logits
}

fn converged(set: MetricSet, entropy: f64) -> LossSettings {
    LossSettings {
        set,
        entropy,
        frank_wolfe: 2000,
        sinkhorn: 100_000,
        tolerance: 1e-10,
        ..Default::default()
    }
}

/// W by the solver of single problems: a lower and an upper bound.
fn solved(
    vectors: &Array2<f64>,
    prediction: Array1<f64>,
    labels: &[usize],
    set: &MetricSet,
    entropy: f64,
) -> (f64, f64) {
    let source = Measure::new(vectors.clone(), prediction).unwrap();
    let target = Measure::uniform(vectors.select(Axis(0), labels)).unwrap();
    let problem = Problem::new(&source, &target, set.clone()).unwrap().with_entropy(entropy).unwrap();
    let solution = problem.solve(&Settings::default().with_tolerance(1e-7)).unwrap();
    (solution.lower_bound, solution.value)
}

#[test]
fn the_loss_is_w_where_ten_iterations_are_far_from_it() {
    // A fifth of the mass has to move by 2; ten iterations move almost none of it.
    let vectors = array![[1.0], [-1.0], [1.0], [-1.0]];
    let logs = array![[0.1_f64, 0.6, 0.2, 0.1]].mapv(f64::ln);
    let targets = Targets::new(4, [[0, 1]]).unwrap();
    let settings = LossSettings { set: MetricSet::W2, ..Default::default() };
    let (lower, upper) =
        solved(&vectors, logs.row(0).mapv(f64::exp), &[0, 1], &MetricSet::W2, settings.entropy);
    assert!(lower > 0.769 && upper < 0.771, "{lower} {upper}");
    let loss = |settings| RobustLoss::<f64>::new(&vectors, &Grouping::none(1), settings).unwrap();
    let found = loss(settings.clone()).loss_gradient(logs.view(), &targets).unwrap();
    assert!((found.losses[0] - upper).abs() <= 1e-3 * upper && found.errors[0] <= 1e-3 * 0.8, "{found:?}");
    let truncated = loss(LossSettings { set: MetricSet::W2, ..LossSettings::truncated() });
    let truncated = truncated.loss_gradient(logs.view(), &targets).unwrap();
    assert!(truncated.losses[0] < 0.0 && truncated.errors[0] == f64::INFINITY, "{truncated:?}");
}

#[test]
fn default_losses_bracket_w() {
    let rows = 6;
    for (labels, dim, seed) in [(12, 6, 31), (40, 20, 32)] {
        let (vectors, logs) = (vectors(labels, dim, seed), log_predictions(rows, labels, seed + 1));
        let truth: Vec<Vec<usize>> =
            (0..rows).map(|row| (0..2 + row % 4).map(|q| (row + 5 * q) % labels).collect()).collect();
        let targets = Targets::new(labels, &truth).unwrap();
        for set in [
            MetricSet::P { k: 1 },
            MetricSet::P { k: 2 },
            MetricSet::W2,
            MetricSet::Srw { k: 2 },
            MetricSet::Rkp { rho: 4.0 },
        ] {
            let settings = LossSettings { set: set.clone(), ..Default::default() };
            let tolerance = settings.tolerance;
            let double = RobustLoss::<f64>::new(&vectors, &Grouping::none(dim), settings.clone()).unwrap();
            let double = double.loss_gradient(logs.view(), &targets).unwrap();
            let single = RobustLoss::<f32>::new(&vectors, &Grouping::none(dim), settings).unwrap();
            let single = single.loss_gradient(logs.mapv(|x| x as f32).view(), &targets).unwrap();
            for (row, of_row) in truth.iter().enumerate() {
                let (lower, upper) = solved(&vectors, logs.row(row).mapv(f64::exp), of_row, &set, 0.02);
                for (loss, error, slack) in [
                    (double.losses[row], double.errors[row], 1e-9),
                    (single.losses[row], single.errors[row], 1e-4),
                ] {
                    assert!(
                        loss >= lower - slack && loss - error <= upper + slack,
                        "{set} {row}: {loss} {error} {lower} {upper}"
                    );
                    // The gap is relative to the cost of the plan, from which the entropy takes something away.
                    assert!(error <= tolerance * (upper + 0.1) + slack, "{set} {row}: {error} of {upper}");
                }
            }
        }
    }
}

#[test]
fn converged_losses_are_the_robust_distances() {
    let (vectors, logs) = (vectors(L, D, 1), log_predictions(3, L, 2));
    let truth = [vec![2], vec![0, 4], vec![1, 3, 6]];
    let targets = Targets::new(L, &truth).unwrap();
    for grouping in [Grouping::none(D), Grouping::contiguous(D, 2).unwrap()] {
        for set in sets(grouping.groups()) {
            let loss = RobustLoss::new(&vectors, &grouping, converged(set.clone(), 0.05)).unwrap();
            let found = loss.loss_gradient(logs.view(), &targets).unwrap();
            for (row, labels) in truth.iter().enumerate() {
                let source = Measure::new(vectors.clone(), logs.row(row).mapv(f64::exp)).unwrap();
                let target = Measure::uniform(vectors.select(Axis(0), labels)).unwrap();
                let problem = Problem::grouped(&source, &target, set.clone(), &grouping).unwrap();
                let problem = problem.with_entropy(0.05).unwrap();
                let settings = Settings::default().with_tolerance(1e-7);
                let solution = problem.solve(&settings).unwrap();
                let slack = 1e-5;
                assert!(
                    found.losses[row] >= solution.lower_bound - 1e-6 * (1.0 + solution.value.abs()),
                    "{set}, row {row}: {} is below {}",
                    found.losses[row],
                    solution.lower_bound
                );
                assert!(
                    found.losses[row] <= solution.value + slack * (1.0 + solution.value.abs()),
                    "{set}, row {row}: {} is not {}",
                    found.losses[row],
                    solution.value
                );
            }
        }
    }
}

/// One problem: how mass moved from one label to another changes the loss, by the gradient and by differences.
fn compare_slopes(seed: u64) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let (labels, dim) = (rng.random_range(3..9), rng.random_range(2..6));
    let grouping = if rng.random_bool(0.3) {
        Grouping::contiguous(dim, dim.div_ceil(2)).unwrap()
    } else {
        Grouping::none(dim)
    };
    // Frank-Wolfe converges slowly where e^{V/λ} is steep.
    let set = draw_set(grouping.groups(), 10f64.powf(rng.random_range(-0.5..1.0)), rng);
    // Frank-Wolfe converges slowly to corners, which rows with one label do not need.
    let corners = matches!(set, MetricSet::Srw { .. }) || set == MetricSet::Rkp { rho: f64::INFINITY };
    let count = if corners { 1 } else { rng.random_range(1..4) };
    let truth: Vec<usize> = (0..count).map(|at| (at * 2 + seed as usize) % labels).collect();
    let truth: Vec<usize> = BTreeSet::from_iter(truth).into_iter().collect();
    let (vectors, logs) = (vectors(labels, dim, seed + 1), log_predictions(1, labels, seed + 2));
    let targets = Targets::new(labels, [truth]).unwrap();
    let entropy = 10f64.powf(rng.random_range(-1.5..0.0));
    let loss = RobustLoss::new(&vectors, &grouping, converged(set.clone(), entropy)).unwrap();
    let found = loss.loss_gradient(logs.view(), &targets).unwrap();
    assert!(found.gradients.sum().abs() <= 1e-12 * (1.0 + found.losses[0].abs()), "seed {seed}, {set}");
    // Two of the likeliest labels: the smaller the step, the more the accuracy of the losses matters.
    let mut order: Vec<usize> = (0..labels).collect();
    order.sort_by(|a, b| logs[[0, *b]].total_cmp(&logs[[0, *a]]));
    let (from, to) = (order[rng.random_range(0..2)], order[2]);
    // Mass moves from one label to another, so the prediction stays on the simplex. Two steps remove the error of second
    // order in them.
    let moved = |by: f64| {
        let mut logs = logs.clone();
        logs[[0, from]] = (logs[[0, from]].exp() - by).ln();
        logs[[0, to]] = (logs[[0, to]].exp() + by).ln();
        loss.loss_gradient(logs.view(), &targets).unwrap().losses[0]
    };
    let slope_at = |step: f64| (moved(step) - moved(-step)) / (2.0 * step);
    let expected = found.gradients[[0, to]] - found.gradients[[0, from]];
    // Where the mass of a label is nearly what a true label needs, the slope changes within 1e-5; a tenth of the step sees that.
    let slopes = [2e-5, 2e-6].map(|step| (4.0 * slope_at(0.5 * step) - slope_at(step)) / 3.0);
    assert!(
        slopes.iter().any(|slope| (slope - expected).abs() <= 1e-4 * (1.0 + slope.abs())),
        "seed {seed}, {set}, entropy {entropy}, {count} of {labels} labels: {expected} is not {slopes:?}"
    );
}

#[test]
fn gradients_are_those_of_finite_differences() {
    soak("slopes of the loss", 300, compare_slopes);
}

#[test]
fn gradients_see_labels_that_next_to_nothing_goes_to() {
    // Weak entropy: most shares of a plan are below 1e-10, but their logarithms still enter the gradient.
    let targets = Targets::new(L, [[0, 5]]).unwrap();
    let grouping = Grouping::contiguous(D, 2).unwrap();
    for seed in 0..40 {
        let (vectors, logs) = (vectors(L, D, seed), log_predictions(1, L, seed + 1));
        let settings = LossSettings { tolerance: 1e-8, ..converged(MetricSet::P { k: 1 }, 0.02) };
        let loss = RobustLoss::new(&vectors, &grouping, settings).unwrap();
        let gradient = loss.loss_gradient(logs.view(), &targets).unwrap().gradients;
        for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)] {
            let moved = |by: f64| {
                let mut logs = logs.clone();
                logs[[0, from]] = (logs[[0, from]].exp() - by).ln();
                logs[[0, to]] = (logs[[0, to]].exp() + by).ln();
                loss.loss_gradient(logs.view(), &targets).unwrap().losses[0]
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let expected = gradient[[0, to]] - gradient[[0, from]];
            assert!(
                (slope - expected).abs() <= 2e-3,
                "seed {seed}, {from} to {to}: {expected} is not {slope}"
            );
        }
    }
}

#[test]
fn one_label_has_its_closed_form() {
    let (vectors, logs) = (vectors(L, D, 5), log_predictions(4, L, 6));
    let targets = Targets::new(L, [[0], [3], [3], [6]]).unwrap();
    let entropy = 0.02;
    for set in sets(D) {
        let settings = LossSettings { set: set.clone(), entropy, ..Default::default() };
        let loss = RobustLoss::new(&vectors, &Grouping::none(D), settings).unwrap();
        let found = loss.loss_gradient(logs.view(), &targets).unwrap();
        for row in 0..4 {
            let prediction = logs.row(row).mapv(f64::exp);
            let label = targets.row(row)[0];
            let source = Measure::new(vectors.clone(), prediction.clone()).unwrap();
            let target = Measure::uniform(vectors.select(Axis(0), &[label])).unwrap();
            let maps = Displacements::new(&source, &target, &Grouping::none(D)).unwrap();
            let moment = maps.moment(&prediction.clone().insert_axis(Axis(1))).unwrap();
            let worst = set.worst_case(&moment).unwrap();
            let omega = prediction.dot(&logs.row(row));
            assert_relative_eq!(
                found.losses[row],
                worst.value + entropy * omega,
                epsilon = 1e-9,
                max_relative = 1e-9
            );
            let slopes = maps.cost(&worst.metric).unwrap().column(0).to_owned() + &(&logs.row(row) * entropy);
            let centered = &slopes - slopes.mean().unwrap();
            assert_abs_diff_eq!(found.gradients.row(row).to_owned(), centered, epsilon = 1e-6);
        }
    }
}

#[test]
fn single_precision_agrees_with_double() {
    let (vectors, logs) = (vectors(40, 12, 7), log_predictions(5, 40, 8));
    let targets =
        Targets::new(40, [vec![1], vec![2, 30], vec![5, 6, 7], vec![39], vec![0, 10, 20, 30]]).unwrap();
    let grouping = Grouping::contiguous(12, 4).unwrap();
    for set in sets(4) {
        let settings = LossSettings { set: set.clone(), ..LossSettings::truncated() };
        let double = RobustLoss::<f64>::new(&vectors, &grouping, settings.clone()).unwrap();
        let single = RobustLoss::<f32>::new(&vectors, &grouping, settings).unwrap();
        let double = double.loss_gradient(logs.view(), &targets).unwrap();
        let single = single.loss_gradient(logs.mapv(|x| x as f32).view(), &targets).unwrap();
        for row in 0..5 {
            let scale = 1.0 + double.losses[row].abs();
            assert!((double.losses[row] - single.losses[row]).abs() <= 1e-6 * scale, "{set} {row}");
        }
        let apart =
            (&double.gradients - &single.gradients.mapv(f64::from)).fold(0.0_f64, |top, x| top.max(x.abs()));
        let size = double.gradients.fold(1.0_f64, |top, x| top.max(x.abs()));
        assert!(apart <= 1e-5 * size, "{set}: {apart}");
    }
}

#[test]
fn single_precision_knows_what_little_mass_moves() {
    // Every label is true, and ten iterations leave nearly all mass where it is: V is as small as the mass that moves.
    let (vectors, mut logs) =
        (vectors(3, 4, 11), array![[0.95, 0.015, 0.035], [0.2, 0.2, 0.6], [0.4, 0.1, 0.5]]);
    logs.mapv_inplace(|h: f64| f64::from(h.ln() as f32));
    let targets = Targets::new(3, [[0, 1, 2]; 3]).unwrap();
    for set in sets(4) {
        let settings = LossSettings { set: set.clone(), ..LossSettings::truncated() };
        let double = RobustLoss::<f64>::new(&vectors, &Grouping::none(4), settings.clone()).unwrap();
        let single = RobustLoss::<f32>::new(&vectors, &Grouping::none(4), settings).unwrap();
        let double = double.loss_gradient(logs.view(), &targets).unwrap().gradients;
        let single = single.loss_gradient(logs.mapv(|x| x as f32).view(), &targets).unwrap().gradients;
        let apart = (&double - &single.mapv(f64::from)).fold(0.0_f64, |top, x| top.max(x.abs()));
        let size = double.fold(1.0_f64, |top, x| top.max(x.abs()));
        assert!(apart <= 1e-4 * size, "{set}: {apart}");
    }
}

#[test]
fn powers_that_underflow_are_losses_of_nothing() {
    let (vectors, logs) = (array![[-1.0], [1.0]], array![[-200.0_f64, 0.0]]);
    let targets = Targets::new(2, [[1]]).unwrap();
    let settings = LossSettings { set: MetricSet::PPower { k: 2 }, ..Default::default() };
    let loss = RobustLoss::<f64>::new(&vectors, &Grouping::none(1), settings).unwrap();
    let found = loss.loss_gradient(logs.view(), &targets).unwrap();
    assert!(found.losses[0].abs() < 1e-80 && found.gradients.iter().all(|g| g.is_finite()));
}

#[test]
fn probabilities_that_underflow_do_no_harm() {
    let vectors = vectors(L, D, 9);
    let mut logs = log_predictions(2, L, 10);
    logs.column_mut(1).fill(-5000.0);
    let targets = Targets::new(L, [vec![1], vec![1, 2]]).unwrap();
    for set in sets(D) {
        let settings = LossSettings { set: set.clone(), ..Default::default() };
        let loss = RobustLoss::<f32>::new(&vectors, &Grouping::none(D), settings).unwrap();
        let found = loss.loss_gradient(logs.mapv(|x| x as f32).view(), &targets).unwrap();
        assert!(found.losses.iter().all(|x| x.is_finite()), "{set}: {}", found.losses);
        assert!(found.gradients.iter().all(|x| x.is_finite()), "{set}");
        // The gradient is lowest at the true label, which has no mass.
        assert!(found.gradients.row(0).iter().all(|g| *g >= found.gradients[[0, 1]]), "{set}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn renaming_the_labels_renames_the_gradient(seed in 0u64..1000, shift in 1usize..L) {
        let (vectors, logs) = (vectors(L, D, seed), log_predictions(2, L, seed + 1));
        let renamed = |label: usize| (label + shift) % L;
        let order: Vec<usize> = (0..L).map(|new| (new + L - shift) % L).collect();
        let truth = [vec![1], vec![0, 5]];
        let settings = LossSettings { tolerance: 1e-9, ..Default::default() };
        let solve = |vectors: &Array2<f64>, logs: &Array2<f64>, truth: &[Vec<usize>]| {
            let loss = RobustLoss::new(vectors, &Grouping::contiguous(D, 2).unwrap(), settings.clone()).unwrap();
            loss.loss_gradient(logs.view(), &Targets::new(L, truth).unwrap()).unwrap()
        };
        let before = solve(&vectors, &logs, &truth);
        let names: Vec<Vec<usize>> = truth.iter().map(|row| row.iter().map(|&label| renamed(label)).collect()).collect();
        let after = solve(&vectors.select(Axis(0), &order), &logs.select(Axis(1), &order), &names);
        assert_abs_diff_eq!(before.losses, after.losses, epsilon = 1e-9);
        // A gradient is as accurate as the square root of the gap.
        assert_abs_diff_eq!(before.gradients.select(Axis(1), &order), after.gradients, epsilon = 1e-4);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |rows: &[Vec<usize>]| Targets::new(3, rows).unwrap_err().to_string();
    assert!(refused(&[vec![0], vec![]]).contains("in row 2 it has none"));
    assert!(refused(&[vec![3]]).contains("labels below 3, but in row 1 one is 3"));
    assert!(refused(&[vec![1, 1]]).contains("label 1 appears twice"));
    let loss =
        RobustLoss::<f64>::new(&array![[0.0], [1.0]], &Grouping::none(1), LossSettings::default()).unwrap();
    let targets = Targets::new(2, [[0]]).unwrap();
    assert!(matches!(loss.loss_gradient(array![[0.0, 0.0, 0.0]].view(), &targets), Err(Error::Shape { .. })));
    let nan = array![[f64::NAN, 0.0]];
    assert!(matches!(loss.loss_gradient(nan.view(), &targets), Err(Error::NotFinite { .. })));
    for broken in [
        LossSettings { entropy: 0.0, ..Default::default() },
        LossSettings { oracle_entropy: Some(-1.0), ..Default::default() },
        LossSettings { frank_wolfe: 0, ..Default::default() },
        LossSettings { sinkhorn: 0, ..Default::default() },
        LossSettings { tolerance: f64::NAN, ..Default::default() },
        LossSettings { frank_wolfe: 2, ..LossSettings::truncated() },
    ] {
        assert!(matches!(broken.check(), Err(Error::Parameter { .. })), "{broken:?}");
    }
    let other = LossSettings { oracle_entropy: Some(0.2), ..Default::default() };
    assert!(matches!(other.check(), Err(Error::Conflict { .. })));
    assert!(LossSettings { oracle_entropy: Some(0.2), ..LossSettings::truncated() }.check().is_ok());
    let alone = RobustLoss::<f64>::new(&array![[0.0]], &Grouping::none(1), LossSettings::default());
    assert!(alone.unwrap_err().to_string().contains("2 labels"));
}
