//! The score by which held-out rows choose.

use std::fmt;
use std::str::FromStr;

use ndarray::{Array2, ArrayView2};
use robust_ot::loss::Targets;
use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::score::{accuracy, rank, top_cost};
use crate::scores::has_one_label_per_row;

/// The number of top labels whose cost counts where rows have several labels.
const TOP: usize = 5;

/// What held-out rows choose by.
///
/// ```
/// use robust_ot_learn::{Criterion, HeldScores};
///
/// let scores = HeldScores { auc: 0.8, map: 0.25, precision_at_1: 0.5, semantic_cost: Some(0.3) };
/// assert_eq!("rank".parse::<Criterion>()?.of(&scores), 1.55);
/// assert_eq!("semantic".parse::<Criterion>()?.of(&scores), -0.3);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Criterion {
    /// Macro AUC.
    #[default]
    #[serde(rename = "auc")]
    Auc,
    /// Mean average precision.
    #[serde(rename = "map")]
    AveragePrecision,
    /// The fraction of rows whose top label is true.
    #[serde(rename = "p@1")]
    PrecisionAt1,
    /// The least semantic cost of the top labels.
    #[serde(rename = "semantic")]
    Semantic,
    /// AUC + mean average precision + precision at 1.
    #[serde(rename = "rank")]
    Rank,
}

impl Criterion {
    /// Every criterion.
    pub const ALL: [Self; 5] =
        [Self::Auc, Self::AveragePrecision, Self::PrecisionAt1, Self::Semantic, Self::Rank];

    /// The name in model files, on the command line and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auc => "auc",
            Self::AveragePrecision => "map",
            Self::PrecisionAt1 => "p@1",
            Self::Semantic => "semantic",
            Self::Rank => "rank",
        }
    }

    /// How good these scores are; larger is better. Without a semantic cost, nothing is worse than [`Criterion::Semantic`].
    pub fn of(self, scores: &HeldScores) -> f64 {
        match self {
            Self::Auc => scores.auc,
            Self::AveragePrecision => scores.map,
            Self::PrecisionAt1 => scores.precision_at_1,
            Self::Semantic => scores.semantic_cost.map_or(f64::NEG_INFINITY, |cost| -cost),
            Self::Rank => scores.auc + scores.map + scores.precision_at_1,
        }
    }

    /// Refuses the semantic cost where labels have no vectors.
    pub(crate) fn check(self, has_vectors: bool) -> Result<()> {
        if self != Self::Semantic || has_vectors {
            return Ok(());
        }
        Err(Error::Conflict {
            name: "select",
            rule: "be auc, map, p@1 or rank without label vectors".into(),
            found: "it is semantic".into(),
        })
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Criterion {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|criterion| criterion.name() == name)
            .ok_or_else(|| Error::parameter("select", "auc, map, p@1, semantic or rank", name))
    }
}

/// The scores of held-out rows.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::HeldScores;
///
/// let truth = Targets::new(2, [[0], [1]])?;
/// let scores = HeldScores::of(array![[0.9, 0.1], [0.2, 0.8]].view(), &truth, None)?;
/// assert_eq!((scores.auc, scores.precision_at_1), (1.0, 1.0));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeldScores {
    /// Macro AUC.
    pub auc: f64,
    /// Mean average precision.
    pub map: f64,
    /// The fraction of rows whose top label is true.
    pub precision_at_1: f64,
    /// 1 − the largest cosine to a true label, of the top label or, where rows have several labels, averaged over the top five.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub semantic_cost: Option<f64>,
}

impl HeldScores {
    /// Scores predictions, with their semantic cost if labels have vectors. AUC and average precision are NaN if no label has
    /// rows with and without it.
    ///
    /// # Errors
    /// When shapes differ or a score is not finite.
    pub fn of(scores: ArrayView2<f64>, truth: &Targets, vectors: Option<&Array2<f64>>) -> Result<Self> {
        let ranking = rank(scores, truth)?;
        Ok(Self {
            auc: ranking.auc,
            map: ranking.average_precision,
            precision_at_1: accuracy(scores, truth)?,
            semantic_cost: vectors.map(|vectors| semantic_cost(scores, truth, vectors)).transpose()?,
        })
    }
}

/// The cost of the top label or, where rows have several labels, of the top five.
pub(crate) fn semantic_cost(scores: ArrayView2<f64>, truth: &Targets, vectors: &Array2<f64>) -> Result<f64> {
    let top = if has_one_label_per_row(truth) { 1 } else { TOP.min(truth.labels()) };
    top_cost(scores, truth, vectors.view(), top)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for criterion in Criterion::ALL {
            assert_eq!(criterion.name().parse::<Criterion>().unwrap(), criterion);
            assert_eq!(serde_json::to_string(&criterion).unwrap(), format!("\"{criterion}\""));
        }
        assert!("acc".parse::<Criterion>().unwrap_err().to_string().contains("p@1"));
    }

    #[test]
    fn the_cost_is_that_of_the_top_label_or_of_the_top_five() {
        let vectors = array![[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]];
        let scores = array![[0.1, 0.7, 0.2]];
        let one = Targets::new(3, [vec![0]]).unwrap();
        assert_eq!(HeldScores::of(scores.view(), &one, Some(&vectors)).unwrap().semantic_cost, Some(1.0));
        // Three labels: 0 and 1 are true, and 2 is at cosine 0 from 1.
        let several = Targets::new(3, [vec![0, 1]]).unwrap();
        let found = HeldScores::of(scores.view(), &several, Some(&vectors)).unwrap().semantic_cost.unwrap();
        assert!((found - 1.0 / 3.0).abs() < 1e-15, "{found}");
    }
}
