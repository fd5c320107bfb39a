//! What tuning found of a candidate.

use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use crate::criterion::HeldScores;

/// A candidate, its scores of the held-out rows, and what it took.
///
/// ```
/// use robust_ot_learn::{Candidate, HeldScores, Trial};
///
/// let scores = HeldScores { auc: 0.9, map: 0.4, precision_at_1: 0.6, semantic_cost: None };
/// let trial = Trial { candidate: Candidate::Linear, scores, epochs: 0, best_epoch: 0, seconds: 2.0, path: vec![(2.0, scores)] };
/// assert_eq!(trial.scores.auc, 0.9);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The candidate.
    pub candidate: Candidate,
    /// Its scores: those of the best epoch.
    pub scores: HeldScores,
    /// Passes over the data so far, 0 for a fit over all rows at once.
    pub epochs: usize,
    /// The epoch with the best score, the mean over folds.
    pub best_epoch: usize,
    /// Seconds spent on it.
    pub seconds: f64,
    /// When it was scored, in seconds from the start, and its scores then.
    pub path: Vec<(f64, HeldScores)>,
}
