//! Scores that weigh the top labels of a row: by their places, and by how rarely a true label is recorded.

use ndarray::ArrayView2;
use robust_ot::loss::Targets;
use robust_ot::{Error, Result};

use super::{best_labels, check, check_k, mean};

/// Normalized discounted cumulative gain of the k top labels, averaged over rows; ties go to the first labels:
/// $$\sum_{j \le k} \frac{[\pi_j \text{ is true}]}{\log_2 (j + 1)} \Big/ \sum_{j \le \min(k, |y|)} \frac{1}{\log_2 (j + 1)}.$$
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// let truth = Targets::new(3, [[2]])?;
/// let found = robust_ot_learn::score::ndcg_at(array![[0.5, 0.2, 0.3]].view(), &truth, 2)?;
/// assert_eq!(found, 1.0 / 3.0_f64.log2());
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ, a score is not finite, or k is not between 1 and the number of labels.
pub fn ndcg_at(scores: ArrayView2<f64>, truth: &Targets, k: usize) -> Result<f64> {
    check(scores, truth)?;
    check_k(k, truth.labels())?;
    let discount = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let of_row = |row: usize| {
        let best = best_labels(scores.row(row), k);
        let true_places =
            best.iter().enumerate().filter(|(_, label)| truth.row(row).binary_search(label).is_ok());
        let found: f64 = true_places.map(|(place, _)| discount(place)).sum();
        found / (0..k.min(truth.row(row).len())).map(discount).sum::<f64>()
    };
    Ok(mean(truth.rows(), of_row))
}

/// The probability that a label is recorded where it is true, by the number n of N training rows that have it:
/// $$p = 1 / (1 + C e^{-A \ln (n + B)}), \quad C = (\ln N - 1)(B + 1)^A, \quad A = 0.55,\ B = 1.5,$$
/// the usual values where a data set has none of its own (Jain, Prabhu & Varma 2016).
///
/// ```
/// let found = robust_ot_learn::score::propensities(&[0, 5, 500], 1000);
/// assert!(found[0] < found[1] && found[1] < found[2] && found[2] < 1.0);
/// ```
pub fn propensities(label_rows: &[usize], rows: usize) -> Vec<f64> {
    const A: f64 = 0.55;
    const B: f64 = 1.5;
    let c = ((rows as f64).ln() - 1.0) * (B + 1.0).powf(A);
    label_rows.iter().map(|&n| 1.0 / (1.0 + c * (n as f64 + B).powf(-A))).collect()
}

/// Propensity-scored precision of the k top labels: Σ 1/p over the true ones among them, of all rows, over the largest
/// such sum that k labels per row have.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::score::propensity_scored_precision_at;
///
/// // Of two true labels, the rarer one counts twice as much.
/// let (scores, truth) = (array![[0.9, 0.5, 0.1]], Targets::new(3, [[0, 1]])?);
/// let found = propensity_scored_precision_at(scores.view(), &truth, 1, &[1.0, 0.5, 1.0])?;
/// assert_eq!(found, 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ, a score is not finite, k is not between 1 and the number of labels, or a propensity is not in (0, 1].
pub fn propensity_scored_precision_at(
    scores: ArrayView2<f64>,
    truth: &Targets,
    k: usize,
    propensities: &[f64],
) -> Result<f64> {
    check(scores, truth)?;
    check_k(k, truth.labels())?;
    if propensities.len() != truth.labels() {
        return Err(Error::Shape {
            name: "the propensities",
            expected: format!("{}, one per label", truth.labels()),
            found: propensities.len().to_string(),
        });
    }
    if let Some((label, p)) = propensities.iter().enumerate().find(|(_, p)| !(**p > 0.0 && **p <= 1.0)) {
        let found = format!("{p} for label {}", label + 1);
        return Err(Error::parameter("propensities", "above 0 and at most 1", found));
    }
    let found = mean(truth.rows(), |row| {
        let best = best_labels(scores.row(row), k).into_iter();
        best.filter(|label| truth.row(row).binary_search(label).is_ok())
            .map(|label| 1.0 / propensities[label])
            .sum()
    });
    let possible = mean(truth.rows(), |row| {
        let mut gains: Vec<f64> = truth.row(row).iter().map(|&label| 1.0 / propensities[label]).collect();
        gains.sort_unstable_by(|x, y| y.total_cmp(x));
        gains.iter().take(k).sum()
    });
    Ok(found / possible)
}
