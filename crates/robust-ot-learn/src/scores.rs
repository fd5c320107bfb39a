//! All scores of a model on one data set.

use ndarray::{Array2, ArrayView2};
use robust_ot::Result;
use robust_ot::loss::Targets;
use serde::{Deserialize, Serialize};

use crate::score::{accuracy, expected_cost, precision_at, rank, top_cost};

/// The number of top labels in `precision_at_5` and `top_5_cost`.
const FEW: usize = 5;

/// Scores of predicted probabilities.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::Scores;
/// use robust_ot::loss::Targets;
///
/// let scores = Scores::of(array![[0.9, 0.1], [0.2, 0.8]].view(), &Targets::new(2, [[0], [1]])?, None)?;
/// assert_eq!((scores.auc, scores.accuracy), (Some(1.0), 1.0));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Macro AUC, one label against the rest; `None` if no label has both positive and negative rows.
    pub auc: Option<f64>,
    /// Mean over labels of average precision.
    pub map: Option<f64>,
    /// The fraction of rows whose top label is true.
    pub accuracy: f64,
    /// The fraction of the top three labels that are true, for multi-label data.
    pub precision_at_3: Option<f64>,
    /// The fraction of the top five labels that are true, for multi-label data.
    pub precision_at_5: Option<f64>,
    /// How far mistakes are from the truth: `expected_cost` for single-label data, `top_cost` for multi-label data.
    pub semantic_cost: Option<f64>,
    /// Σ_p h_p min_c ‖l_p − l_c‖².
    pub expected_cost: Option<f64>,
    /// 1 − the largest cosine to a true label, for the top label.
    pub top_1_cost: Option<f64>,
    /// 1 − the largest cosine to a true label, averaged over the top five labels.
    pub top_5_cost: Option<f64>,
    /// Number of rows scored.
    pub rows: usize,
    /// Number of labels that AUC and mAP average over.
    pub labels_counted: usize,
    /// Number of labels without a positive or without a negative row.
    pub labels_excluded: usize,
}

impl Scores {
    /// Scores probabilities; label vectors, if given, define the semantic costs.
    ///
    /// # Errors
    /// When shapes differ or a probability is not finite.
    pub fn of(
        probabilities: ArrayView2<f64>,
        truth: &Targets,
        vectors: Option<&Array2<f64>>,
    ) -> Result<Self> {
        let ranking = rank(probabilities, truth)?;
        let single = (0..truth.rows()).all(|row| truth.row(row).len() == 1);
        let few = |k: usize| {
            let told = !single && k <= truth.labels();
            told.then(|| precision_at(probabilities, truth, k)).transpose()
        };
        let cost = |k: usize| match vectors {
            Some(vectors) if k <= truth.labels() => {
                top_cost(probabilities, truth, vectors.view(), k).map(Some)
            }
            _ => Ok(None),
        };
        let expected =
            vectors.map(|vectors| expected_cost(probabilities, truth, vectors.view())).transpose()?;
        let (top_1_cost, top_5_cost) = (cost(1)?, cost(FEW)?);
        Ok(Self {
            auc: Some(ranking.auc).filter(|auc| auc.is_finite()),
            map: Some(ranking.average_precision).filter(|map| map.is_finite()),
            accuracy: accuracy(probabilities, truth)?,
            precision_at_3: few(3)?,
            precision_at_5: few(FEW)?,
            semantic_cost: if single { expected } else { top_5_cost.or(top_1_cost) },
            expected_cost: expected,
            top_1_cost,
            top_5_cost,
            rows: truth.rows(),
            labels_counted: ranking.counted,
            labels_excluded: ranking.excluded,
        })
    }
}
