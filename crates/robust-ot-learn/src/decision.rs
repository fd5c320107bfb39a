//! Which labels to answer where mistakes have costs: those of least expected cost, not the most probable ones.
//!
//! The cost of an answer q is 1 − the largest cosine between the vectors of q and of a true label. Any model's probabilities
//! will do, so a low cost of its answers is the model's merit only as far as it is below that of another model *after* this.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;
use robust_ot::linalg::product;
use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::model::Model;
use crate::objective::Output;
use crate::score::{best_labels, check_k, check_vectors, unit_rows};

/// Once the labels nearest to an answer leave this probability that none of them is true, the others do not matter.
const NEGLIGIBLE: f64 = 1e-12;

/// What the probabilities of a row say about its true labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelLaw {
    /// One label, drawn with probabilities proportional to them.
    One,
    /// Every label is true with its probability, independently of the others.
    Independent,
}

impl LabelLaw {
    /// The law of a model's probabilities: independent labels if it is a sigmoid trained on rows with several.
    pub fn of(model: &Model) -> Self {
        match model.output() {
            Output::Sigmoid if model.about.threshold.is_some() => Self::Independent,
            _ => Self::One,
        }
    }
}

/// The k labels of least expected cost of every row, the least first; ties go to the first labels.
///
/// With one true label p, the expected cost of q is 1 − Σ_p h_p cos(p, q). With independent labels, sorted by their cosine
/// to q, it is $1 - \sum_p \cos(p, q)\, h_p \prod_{p' < p} (1 - h_{p'})$, but for a constant: the cost of rows without labels.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::{LabelLaw, least_cost_labels};
///
/// // Two names for nearly the same share their probability; a third label is more probable than each of them.
/// let (probabilities, vectors) = (array![[0.3, 0.3, 0.4]], array![[1.0, 0.1], [1.0, -0.1], [0.0, 1.0]]);
/// let found = least_cost_labels(probabilities.view(), vectors.view(), LabelLaw::One, 1)?;
/// assert_eq!(found, [[0]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When shapes differ, a probability is not between 0 and 1, a vector is not finite, or k is not between 1 and the number of labels.
pub fn least_cost_labels(
    probabilities: ArrayView2<f64>,
    vectors: ArrayView2<f64>,
    law: LabelLaw,
    k: usize,
) -> Result<Vec<Vec<usize>>> {
    let labels = probabilities.ncols();
    check_vectors(vectors, labels)?;
    check_k(k, labels)?;
    let outside = |p: &f64| !(0.0..=1.0).contains(p);
    if let Some(((row, column), p)) = probabilities.indexed_iter().find(|(_, p)| outside(p)) {
        let found = format!("{p} in row {}, column {}", row + 1, column + 1);
        return Err(Error::parameter("probabilities", "between 0 and 1", found));
    }
    let unit = unit_rows(vectors);
    let rows = probabilities.axis_iter(Axis(0)).into_par_iter();
    let nearness = product(unit.view(), unit.t());
    match law {
        LabelLaw::One => Ok(rows.map(|row| best_labels(nearness.dot(&row).view(), k)).collect()),
        LabelLaw::Independent => {
            let near = Neighbors::of(&nearness);
            Ok(rows.map(|row| best_labels(near.expected(row).view(), k)).collect())
        }
    }
}

/// All labels by their cosine to every label, the nearest first.
struct Neighbors(Vec<Vec<(usize, f64)>>);

impl Neighbors {
    fn of(nearness: &Array2<f64>) -> Self {
        let rows = nearness.axis_iter(Axis(0)).into_par_iter();
        let sorted = rows.map(|row| {
            let mut order: Vec<(usize, f64)> = row.iter().copied().enumerate().collect();
            order.sort_unstable_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
            order
        });
        Self(sorted.collect())
    }

    /// The expected largest cosine of every label to a true one.
    fn expected(&self, row: ArrayView1<f64>) -> ndarray::Array1<f64> {
        let of_label = |order: &Vec<(usize, f64)>| {
            let (mut none, mut sum) = (1.0, 0.0);
            for &(label, cosine) in order {
                let p = row[label];
                sum += cosine * p * none;
                none *= 1.0 - p;
                if none < NEGLIGIBLE {
                    break;
                }
            }
            sum
        };
        self.0.iter().map(of_label).collect()
    }
}
