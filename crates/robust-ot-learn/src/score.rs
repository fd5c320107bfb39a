//! Scores of predictions: by rank, by the top labels, and by how close mistakes are to the truth.

mod f1;
mod gain;

use std::cmp::Ordering;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;
use robust_ot::linalg::product;
use robust_ot::loss::Targets;
use robust_ot::{Error, LARGEST_COORDINATE, Result};

pub use self::f1::F1;
pub use self::gain::{ndcg_at, propensities, propensity_scored_precision_at};
use crate::data::to_length_one;

/// Ranking scores, averaged over the labels that have both positive and negative rows.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::score::rank;
///
/// let scores = array![[0.9, 0.1, 0.0], [0.4, 0.6, 0.0], [0.8, 0.7, 0.0]];
/// let found = rank(scores.view(), &Targets::new(3, [[0], [1], [1]])?)?;
/// assert_eq!(found.auc, 1.0);
/// assert_eq!((found.counted, found.excluded), (2, 1)); // the third label is never true
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranking {
    /// Area under the ROC curve, one label against the rest; ties count one half.
    pub auc: f64,
    /// Average precision, Σ (R_n − R_{n−1}) P_n over distinct thresholds.
    pub average_precision: f64,
    /// Number of labels averaged over.
    pub counted: usize,
    /// Number of labels without a positive or without a negative row.
    pub excluded: usize,
}

/// Computes macro AUC and mean average precision, which are NaN if no label can be counted.
///
/// # Errors
/// When shapes differ or a score is not finite.
pub fn rank(scores: ArrayView2<f64>, truth: &Targets) -> Result<Ranking> {
    let found = rank_each(scores, truth)?;
    let counted = found.iter().flatten().count();
    let mean = |pick: fn(&(f64, f64)) -> f64| found.iter().flatten().map(pick).sum::<f64>() / counted as f64;
    Ok(Ranking {
        auc: mean(|pair| pair.0),
        average_precision: mean(|pair| pair.1),
        counted,
        excluded: truth.labels() - counted,
    })
}

/// AUC and average precision of every label that has both positive and negative rows.
pub(crate) fn rank_each(scores: ArrayView2<f64>, truth: &Targets) -> Result<Vec<Option<(f64, f64)>>> {
    check(scores, truth)?;
    let mut positive = vec![Vec::new(); truth.labels()];
    for row in 0..truth.rows() {
        truth.row(row).iter().for_each(|&label| positive[label].push(row));
    }
    let rows = truth.rows();
    let found = positive.par_iter().enumerate().map_init(Vec::new, |order, (label, positive)| {
        let possible = !positive.is_empty() && positive.len() < rows;
        possible.then(|| rank_one(scores.column(label), positive, order))
    });
    Ok(found.collect())
}

/// AUC and average precision of one label. `order` is a buffer for the rows by score.
fn rank_one(scores: ArrayView1<f64>, positive: &[usize], order: &mut Vec<(f64, bool)>) -> (f64, f64) {
    order.clear();
    order.extend(scores.iter().map(|score| (*score, false)));
    positive.iter().for_each(|&row| order[row].1 = true);
    order.sort_unstable_by(|x, y| y.0.total_cmp(&x.0));
    let (of_positive, of_negative) = (positive.len() as f64, (order.len() - positive.len()) as f64);
    // Pairs in the right order, ties counting half, and the precision at every threshold where recall grows.
    let (mut above, mut seen, mut pairs, mut precision) = (0.0, 0.0, 0.0, 0.0);
    // Equal scores are ties, including −0 and 0.
    for tied in order.chunk_by(|x, y| x.0 >= y.0 && y.0 >= x.0) {
        let here = tied.iter().filter(|row| row.1).count() as f64;
        let wrong = tied.len() as f64 - here;
        pairs += wrong * (above + 0.5 * here);
        above += here;
        seen += tied.len() as f64;
        precision += here * above / seen;
    }
    (pairs / (of_positive * of_negative), precision / of_positive)
}

/// The fraction of rows whose top label is true; ties go to the first label.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// let truth = Targets::new(2, [[0], [0]])?;
/// assert_eq!(robust_ot_learn::score::accuracy(array![[0.9, 0.1], [0.2, 0.8]].view(), &truth)?, 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ or a score is not finite.
pub fn accuracy(scores: ArrayView2<f64>, truth: &Targets) -> Result<f64> {
    precision_at(scores, truth, 1)
}

/// The fraction of the k top labels of a row that are true, averaged over rows; ties go to the first labels.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// let truth = Targets::new(3, [[0, 2]])?;
/// assert_eq!(robust_ot_learn::score::precision_at(array![[0.5, 0.2, 0.3]].view(), &truth, 2)?, 1.0);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ, a score is not finite, or k is not between 1 and the number of labels.
pub fn precision_at(scores: ArrayView2<f64>, truth: &Targets, k: usize) -> Result<f64> {
    check(scores, truth)?;
    check_k(k, truth.labels())?;
    let of_row = |row: usize| {
        let best = best_labels(scores.row(row), k);
        best.iter().filter(|label| truth.row(row).binary_search(label).is_ok()).count() as f64 / k as f64
    };
    Ok(mean(truth.rows(), of_row))
}

/// The cost of the whole prediction: Σ_p h_p min over true labels c of ‖l_p − l_c‖², averaged over rows, with h scaled to sum to
/// one, which the probabilities of a sigmoid do not. Where all of them are zero, every label counts alike.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// let (vectors, truth) = (array![[0.0], [1.0], [3.0]], Targets::new(3, [[0]])?);
/// let cost = robust_ot_learn::score::expected_cost(array![[0.5, 0.25, 0.25]].view(), &truth, vectors.view())?;
/// assert!((cost - (0.25 + 0.25 * 9.0)).abs() < 1e-12);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ or a probability is not finite.
pub fn expected_cost(
    probabilities: ArrayView2<f64>,
    truth: &Targets,
    vectors: ArrayView2<f64>,
) -> Result<f64> {
    check(probabilities, truth)?;
    check_vectors(vectors, truth.labels())?;
    let squares: Vec<f64> = vectors.rows().into_iter().map(|l| l.dot(&l)).collect();
    let products = product(vectors, vectors.t());
    let apart = |p: usize, c: usize| (squares[p] + squares[c] - 2.0 * products[[p, c]]).max(0.0);
    let of_row = |row: usize| {
        let nearest = |p: usize| truth.row(row).iter().map(|&c| apart(p, c)).fold(f64::INFINITY, f64::min);
        let h = probabilities.row(row);
        let total = h.sum();
        if total > 0.0 {
            h.iter().enumerate().map(|(p, h)| h * nearest(p)).sum::<f64>() / total
        } else {
            (0..h.len()).map(nearest).sum::<f64>() / h.len() as f64
        }
    };
    Ok(mean(truth.rows(), of_row))
}

/// The cost of the top labels: 1 − the largest cosine to a true label, averaged over the k top labels of every row.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// let (vectors, truth) = (array![[1.0, 0.0], [0.0, 2.0]], Targets::new(2, [[0]])?);
/// let cost = robust_ot_learn::score::top_cost(array![[0.1, 0.9]].view(), &truth, vectors.view(), 1)?;
/// assert_eq!(cost, 1.0);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ, a score is not finite, or k is not between 1 and the number of labels.
pub fn top_cost(scores: ArrayView2<f64>, truth: &Targets, vectors: ArrayView2<f64>, k: usize) -> Result<f64> {
    check(scores, truth)?;
    check_k(k, truth.labels())?;
    let rows = scores.axis_iter(Axis(0)).into_par_iter();
    let answers: Vec<Vec<usize>> = rows.map(|row| best_labels(row, k)).collect();
    answer_cost(&answers, truth, vectors)
}

/// The cost of answers: 1 − the largest cosine to a true label, averaged over the answers of a row and over the rows that
/// have some.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// let (vectors, truth) = (array![[1.0, 0.0], [0.0, 2.0]], Targets::new(2, [[0]])?);
/// assert_eq!(robust_ot_learn::score::answer_cost(&[vec![0, 1]], &truth, vectors.view())?, 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the numbers of rows or labels differ, or an answer is no label.
pub fn answer_cost(answers: &[Vec<usize>], truth: &Targets, vectors: ArrayView2<f64>) -> Result<f64> {
    check_vectors(vectors, truth.labels())?;
    check_answers(answers, truth)?;
    let unit = unit_rows(vectors);
    let answered: Vec<usize> = (0..truth.rows()).filter(|&row| !answers[row].is_empty()).collect();
    let of_row = |place: usize| {
        let row = answered[place];
        let costs = answers[row].iter().map(|&p| {
            let cosines = truth.row(row).iter().map(|&c| unit.row(p).dot(&unit.row(c)));
            1.0 - cosines.fold(f64::NEG_INFINITY, f64::max)
        });
        costs.sum::<f64>() / answers[row].len() as f64
    };
    Ok(mean(answered.len(), of_row))
}

/// Scales rows to length one; zero rows stay zero.
pub(crate) fn unit_rows(vectors: ArrayView2<f64>) -> Array2<f64> {
    let mut unit = vectors.to_owned();
    to_length_one(&mut unit);
    unit
}

/// The k labels with the largest scores, in descending order; ties go to the first labels.
///
/// ```
/// use ndarray::array;
/// assert_eq!(robust_ot_learn::score::best_labels(array![0.1, 0.5, 0.4].view(), 2), [1, 2]);
/// ```
pub fn best_labels(scores: ArrayView1<f64>, k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // Scores are finite, and −0 ties with 0.
    let order_of = |x: usize, y: usize| scores[y].partial_cmp(&scores[x]).unwrap_or(Ordering::Equal);
    let better = |x: &usize, y: &usize| order_of(*x, *y).then(x.cmp(y));
    if k == 0 {
        return Vec::new();
    }
    if k < order.len() {
        order.select_nth_unstable_by(k - 1, better);
        order.truncate(k);
    }
    order.sort_unstable_by(better);
    order
}

fn mean(rows: usize, of_row: impl Fn(usize) -> f64 + Send + Sync) -> f64 {
    let values: Vec<f64> = (0..rows).into_par_iter().map(of_row).collect();
    values.iter().sum::<f64>() / rows as f64
}

pub(crate) fn check(scores: ArrayView2<f64>, truth: &Targets) -> Result<()> {
    if scores.dim() != (truth.rows(), truth.labels()) {
        return Err(Error::Shape {
            name: "the scores",
            expected: format!("{} × {}, rows × labels", truth.rows(), truth.labels()),
            found: format!("{} × {}", scores.nrows(), scores.ncols()),
        });
    }
    match scores.indexed_iter().find(|(_, score)| !score.is_finite()) {
        Some(((row, column), &value)) => Err(Error::NotFinite { name: "scores", row, column, value }),
        None => Ok(()),
    }
}

pub(crate) fn check_vectors(vectors: ArrayView2<f64>, labels: usize) -> Result<()> {
    if vectors.nrows() != labels {
        return Err(Error::Shape {
            name: "the label vectors",
            expected: format!("{labels} rows, one per label"),
            found: format!("{} rows", vectors.nrows()),
        });
    }
    match vectors.indexed_iter().find(|(_, x)| !x.is_finite() || x.abs() > LARGEST_COORDINATE) {
        Some(((row, column), &value)) if value.is_finite() => {
            let found = format!("{value:e} in row {}, column {}", row + 1, column + 1);
            Err(Error::parameter("label_vectors", "of numbers below 1e150, whose squares are finite", found))
        }
        Some(((row, column), &value)) => Err(Error::NotFinite { name: "label vectors", row, column, value }),
        None => Ok(()),
    }
}

/// Whether every row has answers among the labels, or none.
pub(crate) fn check_answers(answers: &[Vec<usize>], truth: &Targets) -> Result<()> {
    if answers.len() != truth.rows() {
        return Err(Error::Shape {
            name: "the answers",
            expected: format!("{} rows, as the truth", truth.rows()),
            found: format!("{} rows", answers.len()),
        });
    }
    let labels = truth.labels();
    for (row, of_row) in answers.iter().enumerate() {
        if let Some(label) = of_row.iter().find(|label| **label >= labels) {
            let (rule, found) = (format!("have answers below {labels}"), format!("one is {label}"));
            return Err(Error::Label { row, rule, found });
        }
    }
    Ok(())
}

pub(crate) fn check_k(k: usize, labels: usize) -> Result<()> {
    if (1..=labels).contains(&k) {
        return Ok(());
    }
    Err(Error::parameter("k", format!("between 1 and the {labels} labels"), k))
}
