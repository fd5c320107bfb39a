//! All scores of a model on one data set.

use ndarray::{Array2, ArrayView2};
use robust_ot::Result;
use robust_ot::loss::Targets;
use serde::{Deserialize, Serialize};

use crate::decision::{LabelLaw, least_cost_labels};
use crate::model::Model;
use crate::score::{
    F1, accuracy, answer_cost, expected_cost, ndcg_at, precision_at, propensities,
    propensity_scored_precision_at, rank, top_cost,
};
use crate::threshold::answers;

/// The number of top labels in `precision_at_5` and `top_5_cost`.
const FEW: usize = 5;
/// With fewer training rows, the propensities of labels have no formula.
const FEWEST_ROWS: usize = 3;

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Normalized discounted cumulative gain of the top three labels, for multi-label data.
    pub ndcg_at_3: Option<f64>,
    /// The same for the top five labels.
    pub ndcg_at_5: Option<f64>,
    /// Propensity-scored precision of the top label, for multi-label data and models that know how many rows their labels had.
    pub propensity_scored_precision_at_1: Option<f64>,
    /// The same for the top three labels.
    pub propensity_scored_precision_at_3: Option<f64>,
    /// The same for the top five labels.
    pub propensity_scored_precision_at_5: Option<f64>,
    /// F1 of the labels that a model answers, counted over all labels at once.
    pub micro_f1: Option<f64>,
    /// The same, averaged over labels.
    pub macro_f1: Option<f64>,
    /// How far mistakes are from the truth: `expected_cost` for single-label data, `top_cost` for multi-label data.
    pub semantic_cost: Option<f64>,
    /// Σ_p h_p min_c ‖l_p − l_c‖².
    pub expected_cost: Option<f64>,
    /// 1 − the largest cosine to a true label, for the top label.
    pub top_1_cost: Option<f64>,
    /// 1 − the largest cosine to a true label, averaged over the top five labels.
    pub top_5_cost: Option<f64>,
    /// The same as `top_1_cost` for the label of least expected cost, [`least_cost_labels`].
    pub least_cost_1: Option<f64>,
    /// The same as `top_5_cost` for the five labels of least expected cost.
    pub least_cost_5: Option<f64>,
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
        let single = has_one_label_per_row(truth);
        let several = |k: usize| !single && k <= truth.labels();
        let few = |k: usize| several(k).then(|| precision_at(probabilities, truth, k)).transpose();
        let gain = |k: usize| several(k).then(|| ndcg_at(probabilities, truth, k)).transpose();
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
            ndcg_at_3: gain(3)?,
            ndcg_at_5: gain(FEW)?,
            semantic_cost: if single { expected } else { top_5_cost.or(top_1_cost) },
            expected_cost: expected,
            top_1_cost,
            top_5_cost,
            rows: truth.rows(),
            labels_counted: ranking.counted,
            labels_excluded: ranking.excluded,
            ..Self::default()
        })
    }

    /// Scores the probabilities of a model with everything it knows: its label vectors, its threshold, and how many
    /// training rows its labels had.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::loss::Targets;
    /// use robust_ot_learn::{Model, Output, Scores};
    ///
    /// let model = Model::new(array![[-1.0, 1.0]], None, Output::Softmax, vec!["a".into(), "b".into()])?;
    /// let truth = Targets::new(2, [[0], [1]])?;
    /// let scores = Scores::of_model(&model, array![[0.9, 0.1], [0.6, 0.4]].view(), &truth)?;
    /// assert_eq!((scores.micro_f1, scores.macro_f1), (Some(0.5), Some(1.0 / 3.0)));
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When shapes differ or a probability is not finite.
    pub fn of_model(model: &Model, probabilities: ArrayView2<f64>, truth: &Targets) -> Result<Self> {
        let scores = Self::of(probabilities, truth, model.label_vectors.as_ref())?;
        let answered = answers(probabilities, model.output(), model.about.threshold);
        let F1 { micro, macro_mean } = F1::of(&answered, truth)?;
        let least = |k: usize| match &model.label_vectors {
            Some(vectors) if k <= truth.labels() => {
                let best = least_cost_labels(probabilities, vectors.view(), LabelLaw::of(model), k)?;
                answer_cost(&best, truth, vectors.view()).map(Some)
            }
            _ => Ok(None),
        };
        let about = &model.about;
        let known = about.label_rows.len() == truth.labels() && about.rows >= FEWEST_ROWS;
        let chances = known.then(|| propensities(&about.label_rows, about.rows));
        let single = has_one_label_per_row(truth);
        let scored = |k: usize| match &chances {
            Some(chances) if !single && k <= truth.labels() => {
                propensity_scored_precision_at(probabilities, truth, k, chances).map(Some)
            }
            _ => Ok(None),
        };
        Ok(Self {
            micro_f1: Some(micro),
            macro_f1: Some(macro_mean),
            least_cost_1: least(1)?,
            least_cost_5: least(FEW)?,
            propensity_scored_precision_at_1: scored(1)?,
            propensity_scored_precision_at_3: scored(3)?,
            propensity_scored_precision_at_5: scored(FEW)?,
            ..scores
        })
    }
}

pub(crate) fn has_one_label_per_row(truth: &Targets) -> bool {
    (0..truth.rows()).all(|row| truth.row(row).len() == 1)
}
