//! The probability threshold of multi-label predictions.

use ndarray::{ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;
use robust_ot::Result;
use robust_ot::loss::Targets;

use crate::dataset::Dataset;
use crate::model::Model;
use crate::objective::Output;
use crate::score;

/// The maximum number of rows, evenly spaced, that choose the threshold of a model.
const THRESHOLD_ROWS: usize = 1000;

/// The [`threshold`] of a model on preprocessed rows; `None` if every row has exactly one label.
///
/// # Errors
/// When the rows do not fit the model.
pub(crate) fn answer_threshold(model: &Model, train: &Dataset) -> Result<Option<f64>> {
    let rows = train.rows();
    if (0..rows).all(|row| train.targets().row(row).len() == 1) {
        return Ok(None);
    }
    let count = rows.min(THRESHOLD_ROWS);
    let drawn = train.select(&(0..count).map(|at| at * rows / count).collect::<Vec<_>>());
    let probabilities = model.probabilities_of_preprocessed(drawn.features())?;
    Ok(Some(threshold(probabilities.view(), model.output(), drawn.targets())?))
}

/// The labels that a model answers for every row: those with p ≥ t, for the t of [`threshold`]; without one, the top label.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::{Output, answers};
///
/// let probabilities = array![[0.5, 0.4, 0.1]];
/// assert_eq!(answers(probabilities.view(), Output::Softmax, Some(0.8)), [[0, 1]]);
/// assert_eq!(answers(probabilities.view(), Output::Softmax, None), [[0]]);
/// ```
pub fn answers(probabilities: ArrayView2<f64>, output: Output, threshold: Option<f64>) -> Vec<Vec<usize>> {
    let of_row = |row: ArrayView1<f64>| match threshold {
        None => score::best_labels(row, 1),
        Some(threshold) => {
            let unit = unit_of(row, output);
            row.iter().enumerate().filter(|(_, p)| **p / unit >= threshold).map(|(label, _)| label).collect()
        }
    };
    probabilities.axis_iter(Axis(0)).into_par_iter().map(of_row).collect()
}

/// What a threshold is relative to: a softmax's largest probability of the row.
fn unit_of(row: ArrayView1<f64>, output: Output) -> f64 {
    match output {
        Output::Softmax => row.fold(0.0_f64, |top, p| top.max(*p)).max(f64::MIN_POSITIVE),
        Output::Sigmoid => 1.0,
    }
}

/// The t in (0, 1] with the largest micro-averaged F1 when the labels with p ≥ t are a row's answer, where p is a sigmoid's
/// probability, or a softmax's divided by the largest of its row.
///
/// A softmax shares one unit of probability among the labels of a row, so a fixed threshold would depend on how many labels
/// share it. Relative to the row's largest probability it does not.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::{Output, threshold};
/// use robust_ot::loss::Targets;
///
/// let probabilities = array![[0.5, 0.4, 0.1], [0.8, 0.1, 0.1]];
/// let found = threshold(probabilities.view(), Output::Softmax, &Targets::new(3, [vec![0, 1], vec![0]])?)?;
/// assert!(0.1 / 0.5 < found && found <= 0.4 / 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ or a probability is not finite.
pub fn threshold(probabilities: ArrayView2<f64>, output: Output, truth: &Targets) -> Result<f64> {
    score::check(probabilities, truth)?;
    let mut ratios: Vec<(f64, bool)> = Vec::with_capacity(probabilities.len());
    let mut positive = 0;
    for (row, values) in probabilities.rows().into_iter().enumerate() {
        let largest = unit_of(values, output);
        let of_row = truth.row(row);
        positive += of_row.len();
        ratios.extend(
            values.iter().enumerate().map(|(label, p)| (p / largest, of_row.binary_search(&label).is_ok())),
        );
    }
    ratios.sort_unstable_by(|x, y| y.0.total_cmp(&x.0));
    // With the n largest ratios taken, F1 = 2 right / (n + positive); ties are taken together.
    let (mut right, mut best) = (0, (0.0, 1.0));
    for (at, (ratio, is_true)) in ratios.iter().enumerate() {
        right += usize::from(*is_true);
        let tied = ratios.get(at + 1).is_some_and(|next| next.0 >= *ratio);
        let f1 = 2.0 * right as f64 / (at + 1 + positive) as f64;
        if !tied && *ratio > 0.0 && f1 > best.0 {
            best = (f1, *ratio);
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn f1(probabilities: &Array2<f64>, truth: &Targets, threshold: f64) -> f64 {
        let (mut right, mut taken, mut positive) = (0.0, 0.0, 0.0);
        for (row, values) in probabilities.rows().into_iter().enumerate() {
            let largest = values.fold(0.0_f64, |top, p| top.max(*p));
            positive += truth.row(row).len() as f64;
            for (label, p) in values.iter().enumerate().filter(|(_, p)| **p / largest >= threshold) {
                assert!(p.is_finite());
                taken += 1.0;
                right += f64::from(u8::from(truth.row(row).contains(&label)));
            }
        }
        2.0 * right / (taken + positive)
    }

    #[test]
    fn no_other_threshold_is_better() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..20 {
            let probabilities = Array2::from_shape_fn((6, 5), |_| (rng.random::<f64>() * 10.0).round() + 1.0);
            let truth = Targets::new(5, (0..6).map(|row| vec![row % 5, (row + 2) % 5])).unwrap();
            let found = threshold(probabilities.view(), Output::Softmax, &truth).unwrap();
            let best = f1(&probabilities, &truth, found);
            for other in 1..=1000 {
                assert!(f1(&probabilities, &truth, f64::from(other) / 1000.0) <= best + 1e-12);
            }
        }
    }
}
