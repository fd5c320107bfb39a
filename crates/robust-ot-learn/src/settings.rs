//! Settings of training.

use std::str::FromStr;

use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::criterion::Criterion;
use crate::hidden_settings::HiddenSettings;
use crate::optimizer::{Optimizer, Schedule};

/// How the losses of a batch are combined.
///
/// ```
/// assert_eq!(robust_ot_learn::Reduction::Mean.factor(4), 0.25);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduction {
    /// Their mean, so that the learning rate does not depend on the batch size.
    Mean,
    /// Their sum, as in the paper.
    Sum,
}

impl FromStr for Reduction {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "mean" => Ok(Self::Mean),
            "sum" => Ok(Self::Sum),
            other => Err(Error::parameter("reduction", "mean or sum", other)),
        }
    }
}

impl Reduction {
    /// The weight of each loss in a batch of `rows` rows.
    pub fn factor(self, rows: usize) -> f64 {
        match self {
            Self::Mean => 1.0 / rows as f64,
            Self::Sum => 1.0,
        }
    }
}

/// Settings for training a model.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `optimizer` | Adam | how gradients become steps | |
/// | `learning_rate` | 0.001 | step size η | (0, ∞) |
/// | `schedule` | constant | how η decays | |
/// | `batch` | 150 | rows per step | [1, ∞) |
/// | `epochs` | 30 | passes over the data | [1, ∞) |
/// | `weight_decay` | 0 | λ in λ‖W‖², added once per batch; with AdamW, weights lose the part η λ per step | [0, ∞) |
/// | `hidden` | none | a hidden layer | |
/// | `bias` | true | whether labels have a bias | |
/// | `start` | 0 | the initial value of all weights | finite |
/// | `reduction` | mean | how the losses of a batch are combined | |
/// | `seed` | 0 | seed of the row order | |
/// | `patience` | none | epochs without a better validation score before training stops | [1, ∞) |
/// | `select` | auc | the score by which held-out rows choose the epoch | |
///
/// ```
/// use robust_ot_learn::TrainSettings;
/// assert!(TrainSettings { batch: 0, ..Default::default() }.check().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainSettings {
    /// How gradients become steps.
    pub optimizer: Optimizer,
    /// The learning rate η.
    pub learning_rate: f64,
    /// How η decays over all steps.
    pub schedule: Schedule,
    /// Rows per step.
    pub batch: usize,
    /// Passes over the data.
    pub epochs: usize,
    /// λ in λ‖W‖², or of AdamW's decay.
    pub weight_decay: f64,
    /// A hidden layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenSettings>,
    /// Whether every label has a bias.
    pub bias: bool,
    /// The initial value of all weights.
    pub start: f32,
    /// How the losses of a batch are combined.
    pub reduction: Reduction,
    /// Seed of the row order.
    pub seed: u64,
    /// Epochs without a better validation score before training stops.
    pub patience: Option<usize>,
    /// The score by which held-out rows choose the epoch.
    #[serde(default, skip_serializing_if = "is_auc")]
    pub select: Criterion,
}

/// Checkpoints of runs that are chosen by AUC are those of before there was a choice.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_auc(select: &Criterion) -> bool {
    *select == Criterion::Auc
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            optimizer: Optimizer::Adam,
            learning_rate: 1e-3,
            schedule: Schedule::Constant,
            batch: 150,
            epochs: 30,
            weight_decay: 0.0,
            hidden: None,
            bias: true,
            start: 0.0,
            reduction: Reduction::Mean,
            seed: 0,
            patience: None,
            select: Criterion::Auc,
        }
    }
}

impl TrainSettings {
    /// Checks the ranges of the table above.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn check(&self) -> Result<()> {
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return Err(Error::parameter("learning_rate", "positive and finite", self.learning_rate));
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return Err(Error::parameter("weight_decay", "finite and not negative", self.weight_decay));
        }
        self.hidden.as_ref().map_or(Ok(()), HiddenSettings::check)?;
        if let Optimizer::Sgd { momentum } = self.optimizer
            && !(0.0..1.0).contains(&momentum)
        {
            return Err(Error::parameter("momentum", "from 0 to less than 1", momentum));
        }
        if !self.start.is_finite() {
            return Err(Error::parameter("start", "finite", self.start));
        }
        let counts =
            [("batch", self.batch), ("epochs", self.epochs), ("patience", self.patience.unwrap_or(1))];
        match counts.into_iter().find(|(_, value)| *value == 0) {
            Some((name, value)) => Err(Error::parameter(name, "at least 1", value)),
            None => Ok(()),
        }
    }
}
