//! One candidate and its scores on held-out rows.

use serde::{Deserialize, Serialize};

use crate::criterion::HeldScores;
use crate::label_kernel::Prior;
use crate::row_length::RowLength;

/// A candidate of a fit and its scores on the held-out rows.
///
/// ```
/// use robust_ot_learn::{Prior, RowLength, Tried};
/// let tried = Tried {
///     loss: "bce".into(), columns: "as-given".into(), row_length: Some(RowLength::new(1.0)?), prior: Prior::NONE, l2: 0.5,
///     auc: 0.8, map: 0.2, precision_at_1: 0.5, semantic_cost: None,
/// };
/// assert_eq!(tried.scores().auc, 0.8);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The loss.
    pub loss: String,
    /// The scaling of columns: `as-given`, `factor` or `standardize`.
    pub columns: String,
    /// The length of the rows, if they are scaled.
    pub row_length: Option<RowLength>,
    /// The prior.
    pub prior: Prior,
    /// λ.
    pub l2: f64,
    /// Macro AUC.
    pub auc: f64,
    /// Mean average precision.
    pub map: f64,
    /// The fraction of rows whose top label is true.
    pub precision_at_1: f64,
    /// The semantic cost of the top labels, if it chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic_cost: Option<f64>,
}

impl Tried {
    /// Its scores.
    pub fn scores(&self) -> HeldScores {
        let Self { auc, map, precision_at_1, semantic_cost, .. } = *self;
        HeldScores { auc, map, precision_at_1, semantic_cost }
    }
}
