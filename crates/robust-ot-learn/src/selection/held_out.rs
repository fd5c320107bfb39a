//! The scores of held-out rows over all folds.

use ndarray::{Array2, s};
use robust_ot::Result;
use robust_ot::loss::Targets;

use super::folds::counts;
use crate::criterion::{HeldScores, semantic_cost};
use crate::dataset::Dataset;
use crate::score::{accuracy, rank_each};

/// The true labels of the held-out rows, one fold after the other.
#[derive(Debug)]
pub(crate) struct HeldOut {
    truth: Targets,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    truth: Targets,
    /// Whether the training part has rows with each label.
    trained: Vec<bool>,
}

impl HeldOut {
    /// That of folds, each with its rows to train on and those held out.
    pub(crate) fn of<'a>(folds: impl Iterator<Item = (&'a Dataset, &'a Dataset)>) -> Self {
        let parts = folds.map(|(train, held)| Part {
            truth: held.targets().clone(),
            trained: counts(train.targets()).into_iter().map(|count| count > 0).collect(),
        });
        let parts: Vec<Part> = parts.collect();
        let mut truth = parts[0].truth.clone();
        parts[1..].iter().for_each(|part| truth.append(&part.truth));
        Self { truth, parts }
    }

    /// The true labels of all held-out rows.
    pub(crate) fn truth(&self) -> &Targets {
        &self.truth
    }

    /// The scores of these predictions, with the semantic cost if `vectors` are those of the labels.
    ///
    /// AUC is the mean over folds, because each fold's model scales its logits in its own way; precision, which the few
    /// positive rows of a fold would overstate, is that of all rows. Both weigh a label by the number of folds that train
    /// with it and hold rows with and without it: as often as test rows would count it.
    pub(crate) fn scores(&self, scores: &Array2<f64>, vectors: Option<&Array2<f64>>) -> Result<HeldScores> {
        let (mut auc, mut folds, mut first) = (0.0, vec![0_u32; self.truth.labels()], 0);
        for Part { truth, trained } in &self.parts {
            let of_fold = scores.slice(s![first..first + truth.rows(), ..]);
            first += truth.rows();
            for (label, pair) in rank_each(of_fold, truth)?.into_iter().enumerate() {
                let Some((found, _)) = pair.filter(|_| trained[label]) else { continue };
                auc += found;
                folds[label] += 1;
            }
        }
        let pairs = f64::from(folds.iter().sum::<u32>()).max(1.0);
        let each = rank_each(scores.view(), &self.truth)?;
        let weighed =
            each.iter().zip(&folds).filter_map(|(pair, folds)| Some(pair.as_ref()?.1 * f64::from(*folds)));
        Ok(HeldScores {
            auc: auc / pairs,
            map: weighed.sum::<f64>() / pairs,
            precision_at_1: accuracy(scores.view(), &self.truth)?,
            semantic_cost: vectors.map(|all| semantic_cost(scores.view(), &self.truth, all)).transpose()?,
        })
    }
}
