//! Scores by the number of training rows of the labels.

use ndarray::ArrayView2;
use robust_ot::Result;
use robust_ot::loss::Targets;
use serde::{Deserialize, Serialize};

use crate::score::rank_each;

/// The smallest number of training rows of the labels of each group.
const LEAST: [usize; 4] = [0, 1, 5, 20];

/// The scores of the labels with a similar number of training rows.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::label_groups;
///
/// let truth = Targets::new(3, [[0], [1], [2]])?;
/// let found = label_groups(array![[0.9, 0.1, 0.5], [0.2, 0.8, 0.6], [0.1, 0.2, 0.7]].view(), &truth, &[50, 30, 0])?;
/// assert_eq!((found[0].rows.as_str(), found[0].labels, found[0].auc), ("0", 1, Some(1.0)));
/// assert_eq!((found[1].rows.as_str(), found[1].labels), ("20 or more", 2));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelGroup {
    /// The number of training rows of its labels, in words.
    pub rows: String,
    /// Number of labels.
    pub labels: usize,
    /// Number of labels with both positive and negative rows, over which the scores are averaged.
    pub counted: usize,
    /// Macro AUC; `None` if no label is counted.
    pub auc: Option<f64>,
    /// Mean average precision; `None` if no label is counted.
    pub map: Option<f64>,
}

/// Ranking scores by the number of training rows, from labels without rows on; empty groups are left out.
///
/// # Errors
/// When shapes differ or a score is not finite.
pub fn label_groups(
    scores: ArrayView2<f64>,
    truth: &Targets,
    label_rows: &[usize],
) -> Result<Vec<LabelGroup>> {
    let found = rank_each(scores, truth)?;
    let group = |rows: usize| LEAST.iter().rposition(|least| rows >= *least).unwrap_or(0);
    let mut groups = Vec::new();
    for (place, least) in LEAST.iter().enumerate() {
        let members: Vec<_> =
            label_rows.iter().zip(&found).filter(|(rows, _)| group(**rows) == place).collect();
        if members.is_empty() {
            continue;
        }
        let counted: Vec<(f64, f64)> = members.iter().filter_map(|(_, pair)| **pair).collect();
        let mean = |pick: fn(&(f64, f64)) -> f64| {
            (!counted.is_empty()).then(|| counted.iter().map(pick).sum::<f64>() / counted.len() as f64)
        };
        let rows = match LEAST.get(place + 1) {
            Some(next) if next - least == 1 => least.to_string(),
            Some(next) => format!("{least} to {}", next - 1),
            None => format!("{least} or more"),
        };
        groups.push(LabelGroup {
            rows,
            labels: members.len(),
            counted: counted.len(),
            auc: mean(|pair| pair.0),
            map: mean(|pair| pair.1),
        });
    }
    Ok(groups)
}
