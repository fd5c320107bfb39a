//! Probabilities from logits, fitted to held-out rows as by Platt: $p = \sigma(a z + b)$, with one a and one b for all
//! labels, so that no ranking changes.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};
use rayon::prelude::*;
use robust_ot::loss::Targets;
use serde::{Deserialize, Serialize};

/// The most Newton steps.
const STEPS: usize = 50;
/// A step below this length is the last.
const SMALL: f64 = 1e-9;
/// With fewer true labels than this, the logits of [`calibrate_beside`] keep their scale.
const FEWEST_POSITIVES: f64 = 30.0;
/// The largest scale of these logits, and the relative accuracy of the scale.
const LARGEST_SLOPE: f64 = 1e3;
const SLOPE_ACCURACY: f64 = 1e-3;

/// a and b of p = σ(a z + b).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// a.
    pub slope: f64,
    /// b.
    pub offset: f64,
}

impl Calibration {
    /// Minimizes Σ ln(1 + e^(az + b)) − t (az + b) by damped Newton steps, over the labels that have logits; others are
    /// ignored. `None` if the logits say nothing: a ≤ 0.
    pub(crate) fn of(logits: ArrayView2<f64>, truth: &Targets) -> Option<Self> {
        let count = logits.len() as f64;
        let targets = targets_of(truth, logits.ncols());
        let rate = positives(truth, logits.ncols()) / count;
        let mean = logits.sum() / count;
        let spread = (logits.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / count).sqrt();
        if !(spread > 0.0 && rate < 1.0) {
            return None;
        }
        // In units of the spread, so that the steps do not depend on the scale of the logits.
        let (mut a, mut b) = (0.0, (rate / (1.0 - rate)).ln());
        let mut value = Sums::at(&logits, (truth, targets), (mean, spread), (a, b));
        for _ in 0..STEPS {
            let Sums { g, h, .. } = value;
            let determinant = h[0] * h[2] - h[1] * h[1];
            let (da, db) =
                ((h[2] * g[0] - h[1] * g[1]) / determinant, (h[0] * g[1] - h[1] * g[0]) / determinant);
            if !(da.is_finite() && db.is_finite()) {
                return None;
            }
            let mut step = 1.0;
            loop {
                let next =
                    Sums::at(&logits, (truth, targets), (mean, spread), (a - step * da, b - step * db));
                if next.loss <= value.loss || step < SMALL {
                    (a, b, value) = (a - step * da, b - step * db, next);
                    break;
                }
                step *= 0.5;
            }
            if step * da.hypot(db) < SMALL {
                break;
            }
        }
        let (slope, offset) = (a / spread, b - a * mean / spread);
        (slope > 0.0 && slope.is_finite() && offset.is_finite()).then_some(Self { slope, offset })
    }
}

/// The b with Σ σ(z + b) = Σ t, which makes the mean probability of all labels that of the rows; labels without logits are
/// ignored. By bisection: the sum grows with b.
pub(crate) fn offset_of(logits: ArrayView2<f64>, truth: &Targets) -> f64 {
    shift(logits.iter(), positives(truth, logits.ncols()).max(0.5))
}

/// The logits a z + b of some labels in one softmax with those of `others`: the a and b of largest likelihood, and the
/// logarithms of their probabilities. With `b` these labels have as much probability in all rows as they are true.
///
/// The likelihood is concave in both, so its slope in a, where b is best for a, falls with a.
pub(crate) fn calibrate_beside(
    logits: ArrayView2<f64>,
    others: ArrayView2<f64>,
    truth: &Targets,
) -> (Calibration, Array2<f64>) {
    let rest = others.outer_iter().map(log_total).collect::<Array1<f64>>();
    let of_truth: f64 = (0..truth.rows())
        .flat_map(|row| truth.row(row).iter().map(move |&label| (row, label)))
        .filter(|(_, label)| *label < logits.ncols())
        .map(|place| logits[place])
        .sum();
    let gain = |slope: f64| {
        let (_, found) = beside(&logits, &rest, slope, truth);
        of_truth - logits.iter().zip(&found).map(|(z, log)| z * log.exp()).sum::<f64>()
    };
    let mut slope = 1.0;
    // Too few rows say too little; and labels that are less likely the larger their logit are left as they are.
    if positives(truth, logits.ncols()) >= FEWEST_POSITIVES && gain(0.0) > 0.0 {
        let (mut low, mut high) = (0.0, 1.0);
        while gain(high) > 0.0 && high < LARGEST_SLOPE {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > SLOPE_ACCURACY * high {
            let middle = 0.5 * (low + high);
            if gain(middle) > 0.0 { low = middle } else { high = middle }
        }
        slope = 0.5 * (low + high);
    }
    let (offset, found) = beside(&logits, &rest, slope, truth);
    (Calibration { slope, offset }, found)
}

/// The best b for a slope a, and the logarithms of the probabilities, beside labels with these ln Σ e^z.
fn beside(logits: &ArrayView2<f64>, rest: &Array1<f64>, slope: f64, truth: &Targets) -> (f64, Array2<f64>) {
    let mut found = logits * slope;
    let own = found.outer_iter().map(log_total).collect::<Array1<f64>>();
    let most = truth.rows() as f64 - 0.5;
    let offset = shift((&own - rest).iter(), positives(truth, logits.ncols()).clamp(0.5, most));
    found += offset;
    for ((mut row, own), rest) in found.outer_iter_mut().zip(&own).zip(rest) {
        let (more, less) = if own + offset > *rest { (own + offset, *rest) } else { (*rest, own + offset) };
        row -= more + (less - more).exp().ln_1p();
    }
    (offset, found)
}

/// ln Σ e^z.
fn log_total(logits: ArrayView1<f64>) -> f64 {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + logits.iter().map(|z| (z - top).exp()).sum::<f64>().ln()
}

/// The b with Σ σ(z + b) = `wanted`.
fn shift<'a>(logits: impl Iterator<Item = &'a f64> + Clone, wanted: f64) -> f64 {
    let sum = |b: f64| logits.clone().map(|z| 1.0 / (1.0 + (-(z + b)).exp())).sum::<f64>();
    let (mut low, mut high) = (-1e3, 1e3);
    while high - low > SMALL {
        let middle = 0.5 * (low + high);
        if sum(middle) < wanted { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The number of true labels below `labels`.
fn positives(truth: &Targets, labels: usize) -> f64 {
    (0..truth.rows()).map(|row| truth.row(row).iter().filter(|label| **label < labels).count()).sum::<usize>()
        as f64
}

/// Platt's targets of true and of other labels, (P + 1) / (P + 2) and 1 / (N + 2), which keep a finite where one a
/// separates all labels.
fn targets_of(truth: &Targets, labels: usize) -> (f64, f64) {
    let positive = positives(truth, labels);
    let negative = (truth.rows() * labels) as f64 - positive;
    ((positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
}

/// The loss with its gradient and its second derivatives aa, ab, bb.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    loss: f64,
    g: [f64; 2],
    h: [f64; 3],
}

impl Sums {
    fn at(
        logits: &ArrayView2<f64>,
        (truth, targets): (&Targets, (f64, f64)),
        (mean, spread): (f64, f64),
        (a, b): (f64, f64),
    ) -> Self {
        let rows: Vec<Self> = (0..truth.rows())
            .into_par_iter()
            .map(|row| {
                let mut sums = Self::default();
                for (label, z) in logits.row(row).iter().enumerate() {
                    let z = (z - mean) / spread;
                    let t = if truth.row(row).binary_search(&label).is_ok() { targets.0 } else { targets.1 };
                    let x = a * z + b;
                    let power = (-x.abs()).exp();
                    let p = if x >= 0.0 { 1.0 / (1.0 + power) } else { power / (1.0 + power) };
                    sums.loss += x.max(0.0) + power.ln_1p() - t * x;
                    let (g, w) = (p - t, p * (1.0 - p));
                    sums.g = [sums.g[0] + g * z, sums.g[1] + g];
                    sums.h = [sums.h[0] + w * z * z, sums.h[1] + w * z, sums.h[2] + w];
                }
                sums
            })
            .collect();
        rows.iter().fold(Self::default(), |all, row| Self {
            loss: all.loss + row.loss,
            g: [0, 1].map(|k| all.g[k] + row.g[k]),
            h: [0, 1, 2].map(|k| all.h[k] + row.h[k]),
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::testing;

    #[test]
    fn the_odds_that_drew_the_labels_are_found_again() {
        let mut rng = testing::rng(11);
        let logits = testing::matrix(4000, 5, &mut rng).mapv(|x| 0.3 + 0.2 * x);
        let (slope, offset) = (12.0, -4.0);
        let rows: Vec<Vec<usize>> = logits
            .outer_iter()
            .map(|row| {
                let drawn = row
                    .iter()
                    .enumerate()
                    .filter(|(_, z)| rng.random::<f64>() < 1.0 / (1.0 + (-(slope * **z + offset)).exp()));
                drawn.map(|(label, _)| label).collect()
            })
            .collect();
        let kept: Vec<usize> = (0..rows.len()).filter(|row| !rows[*row].is_empty()).collect();
        let logits = logits.select(ndarray::Axis(0), &kept);
        let truth = Targets::new(5, kept.iter().map(|row| &rows[*row])).unwrap();
        let found = Calibration::of(logits.view(), &truth).unwrap();
        // Rows without a label are left out, which moves the offset; the stationary point is exact all the same.
        assert!((found.slope - slope).abs() < 1.5, "{found:?}");
        let sums = Sums::at(
            &logits.view(),
            (&truth, targets_of(&truth, 5)),
            (0.0, 1.0),
            (found.slope, found.offset),
        );
        assert!(sums.g.iter().all(|g| g.abs() < 1e-5), "{sums:?}");
        // Where the labels are separated, the odds stay finite.
        let apart = ndarray::array![[5.0, -5.0], [-5.0, 5.0]];
        let found = Calibration::of(apart.view(), &Targets::new(2, [[0], [1]]).unwrap()).unwrap();
        assert!((found.slope * 5.0 - 3.0_f64.ln()).abs() < 1e-6 && found.offset.abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn offsets_make_labels_as_probable_as_they_are_true() {
        let mut rng = testing::rng(12);
        let (own, others) = (testing::matrix(50, 3, &mut rng), testing::matrix(50, 6, &mut rng));
        let truth = Targets::new(4, (0..50).map(|row| [if row < 8 { row % 3 } else { 3 }])).unwrap();
        let (Calibration { slope, offset }, logs) = calibrate_beside(own.view(), others.view(), &truth);
        assert!((slope - 1.0).abs() < 1e-15); // Eight rows are too few.
        assert!((logs.mapv(f64::exp).sum() - 8.0).abs() < 1e-6);
        for (row, logs) in logs.outer_iter().enumerate() {
            let total: f64 = own.row(row).iter().map(|z| (z + offset).exp()).sum::<f64>()
                + others.row(row).iter().map(|z| z.exp()).sum::<f64>();
            for (z, log) in own.row(row).iter().zip(&logs) {
                assert!(((z + offset).exp() / total - log.exp()).abs() < 1e-12);
            }
        }
        // Separate odds sum to the number of true labels as well.
        let offset = offset_of(own.view(), &truth);
        let sum: f64 = own.iter().map(|z| 1.0 / (1.0 + (-(z + offset)).exp())).sum();
        assert!((sum - 8.0).abs() < 1e-6);
    }

    #[test]
    fn the_scale_that_shrank_the_logits_is_found_again() {
        let mut rng = testing::rng(13);
        let (count, labels) = (3000, 4);
        let (own, others) = (testing::matrix(count, labels, &mut rng), testing::matrix(count, 6, &mut rng));
        let truth = (0..count).map(|row| {
            let all: Vec<f64> = own.row(row).iter().map(|z| (z - 0.5).exp()).collect();
            let rest: f64 = others.row(row).iter().map(|z| z.exp()).sum();
            let mut left = rng.random::<f64>() * (all.iter().sum::<f64>() + rest);
            let drawn = all.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            [drawn.unwrap_or(labels)]
        });
        let truth = Targets::new(labels + 1, truth.collect::<Vec<_>>()).unwrap();
        let shrunk = &own / 8.0;
        let (Calibration { slope, offset }, logs) = calibrate_beside(shrunk.view(), others.view(), &truth);
        assert!((slope - 8.0).abs() < 1.0 && (offset + 0.5).abs() < 0.15, "{slope} {offset}");
        // The likelihood is largest there.
        let rest = others.outer_iter().map(log_total).collect::<Array1<f64>>();
        let likelihood = |logs: &Array2<f64>| {
            let of_row = |row: usize| match truth.row(row)[0] {
                label if label < labels => logs[[row, label]],
                _ => (1.0 - logs.row(row).iter().map(|log| log.exp()).sum::<f64>()).ln(),
            };
            (0..count).map(of_row).sum::<f64>()
        };
        let top = likelihood(&logs);
        for other in [0.9 * slope, 1.1 * slope] {
            assert!(likelihood(&beside(&shrunk.view(), &rest, other, &truth).1) < top);
        }
    }

    #[test]
    fn logits_that_say_nothing_are_left_as_they_are() {
        let truth = Targets::new(2, [[0], [1]]).unwrap();
        assert_eq!(Calibration::of(Array2::zeros((2, 2)).view(), &truth), None);
        let wrong = ndarray::array![[0.0, 1.0], [1.0, 0.0]];
        assert_eq!(Calibration::of(wrong.view(), &truth), None);
    }
}
