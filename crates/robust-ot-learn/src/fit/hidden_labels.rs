//! How labels without rows get weights, tried on labels that have rows: a fifth of them is hidden, the others are trained
//! without them, and the prior extends the model to the hidden ones. A fifth of the rows, held out, says how good that is.

use ndarray::{Array2, Axis};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robust_ot::Result;
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;

use super::label_subset::{only, with_rest};
use super::penalized::{Penalized, calibrate};
use crate::extension::{Extension, extended};
use crate::full_batch::{Linear, Stop};
use crate::hidden_layer::logits;
use crate::label_kernel::{PriorGeometry, centered};
use crate::objective::{Objective, Output};
use crate::score::rank;
use crate::selection::{Calibration, Chosen, Part, calibrate_beside, counts, offset_of};

/// Where the minimization without the hidden labels stops.
const ROUGH: Stop = Stop { evaluations: 40, tolerance: 1e-5 };
/// One label in this many is hidden.
const HIDDEN: usize = 5;
/// With fewer labels than this, none are hidden.
const FEWEST_LABELS: usize = 10;
/// The most rows on which hidden labels are compared, and the fraction of all rows that is held out for that, one in this many.
const ROWS: usize = 2000;
const HELD_OUT: usize = 5;
/// The temperatures and free parts that are tried, unless the prior already is one of names.
const KERNELS: [(f64, f64); 6] = [(0.25, 0.1), (0.25, 0.3), (0.5, 0.3), (0.5, 1.0), (1.0, 0.3), (1.0, 1.0)];

/// The kernel and the bias of labels without rows, for a model that `problem` has led to. `vectors` are those of its
/// label names. `None` once interrupted.
pub(super) fn extension_of(
    problem: Penalized,
    vectors: &Array2<f64>,
    chosen: &Chosen,
    linear: &Linear,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Option<Extension>> {
    let Penalized { rows, bases, parts, .. } = problem;
    let prior = parts[0].prior;
    let output = bases[parts[0].base].1.output();
    let known = |label: &usize| vectors.row(*label).iter().any(|x| *x != 0.0);
    let mut order: Vec<usize> = (0..vectors.nrows()).filter(known).collect();
    // New labels are on average as likely as those with rows.
    let offset = linear.bias.iter().map(|b| f64::from(*b)).sum::<f64>() / linear.bias.len() as f64;
    let plain = Extension { temperature: prior.temperature, free: prior.free, slope: 1.0, offset, auc: None };
    if order.len() < FEWEST_LABELS {
        return Ok(Some(plain));
    }
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut hidden = order[..order.len() / HIDDEN].to_vec();
    hidden.sort_unstable();
    let kept: Vec<usize> =
        (0..vectors.nrows()).filter(|label| hidden.binary_search(label).is_err()).collect();
    let of_kept = vectors.select(Axis(0), &kept);
    let places: Vec<usize> = (0..kept.len()).collect();
    let names = centered(&of_kept, &places);
    let held = held_out(rows.targets());
    let trained: Vec<usize> = (0..rows.rows()).filter(|row| held.binary_search(row).is_err()).collect();
    let without = only(&rows.select(&trained), &kept)?;
    let bases: Vec<(&str, Objective)> =
        bases.iter().map(|(name, objective)| (*name, objective_of(objective, kept.len()))).collect();
    let problem = Penalized { rows: &without, bases: &bases, names: Some(&names), ..problem };
    let (mut found, reached) = problem.minimize(ROUGH, interrupt, |_| ())?;
    if reached.interrupted {
        return Ok(None);
    }
    chosen.calibration.iter().for_each(|calibration| calibrate(&mut found, *calibration));

    // Where no row can be held out, those that trained are compared.
    let order = if held.is_empty() { trained } else { held };
    let count = order.len().min(ROWS);
    let drawn: Vec<usize> = (0..count).map(|at| order[at * order.len() / count]).collect();
    let compared = with_rest(&rows.select(&drawn), &hidden)?;
    let all = ndarray::concatenate![Axis(0), of_kept, vectors.select(Axis(0), &hidden)];
    let new: Vec<usize> = (kept.len()..all.nrows()).collect();
    let own = [(prior.temperature, prior.free)];
    let by_names = |part: &Part| part.prior.geometry == PriorGeometry::Names && part.prior == prior;
    let kernels = if parts.iter().all(by_names) { &own[..] } else { &KERNELS };
    let mut best: Option<(f64, Extension)> = None;
    let of_kept = logits(compared.features(), None, found.weights.view(), Some(&found.bias)).mapv(f64::from);
    for &(temperature, free) in kernels {
        let tried = Extension { temperature, free, ..plain };
        let (weights, bias) = extended(&found.weights, Some(&found.bias), &all, (&places, &new), tried)?;
        // The offset is fitted to logits without one.
        let bias: Vec<f32> = bias.iter().map(|b| b - plain.offset as f32).collect();
        let logits = logits(compared.features(), None, weights.view(), Some(&bias)).mapv(f64::from);
        let (Calibration { slope, offset }, scores) = match output {
            Output::Sigmoid => {
                (Calibration { slope: 1.0, offset: offset_of(logits.view(), compared.targets()) }, logits)
            }
            Output::Softmax => calibrate_beside(logits.view(), of_kept.view(), compared.targets()),
        };
        let auc = auc_without_rest(&scores, compared.targets())?;
        if best.as_ref().is_none_or(|best| auc > best.0) {
            best = Some((auc, Extension { slope, offset, ..tried }));
        }
    }
    let Some((auc, extension)) = best else { return Ok(Some(plain)) };
    Ok(Some(Extension { auc: auc.is_finite().then_some(auc), ..extension }))
}

/// One row in five, unless a label would be left without rows.
fn held_out(targets: &Targets) -> Vec<usize> {
    let mut left = counts(targets);
    let fifth = (0..targets.rows()).step_by(HELD_OUT);
    let held = fifth.filter(|&row| {
        let possible = targets.row(row).iter().all(|&label| left[label] > 1);
        if possible {
            targets.row(row).iter().for_each(|&label| left[label] -= 1);
        }
        possible
    });
    held.collect()
}

/// The macro AUC of all labels but the last, which has no logits.
fn auc_without_rest(logits: &Array2<f64>, truth: &Targets) -> Result<f64> {
    let padded = ndarray::concatenate![Axis(1), *logits, Array2::zeros((logits.nrows(), 1))];
    let found = rank(padded.view(), truth)?;
    let rest = counts(truth)[logits.ncols()];
    // Equal scores have an AUC of one half.
    let counted = usize::from((1..truth.rows()).contains(&rest));
    let others = found.counted - counted;
    Ok((found.auc * found.counted as f64 - 0.5 * counted as f64) / others as f64)
}

/// The same base loss for another number of labels, with hard targets.
fn objective_of(objective: &Objective, labels: usize) -> Objective {
    match objective.output() {
        _ if objective.is_square() => Objective::square(labels),
        Output::Softmax => Objective::cross_entropy(labels),
        Output::Sigmoid => Objective::binary(labels),
    }
}
