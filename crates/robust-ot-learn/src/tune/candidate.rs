//! One way to fit a model, among those that tuning compares.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::criterion::Criterion;
use crate::fit::{Columns, FitSettings, HiddenChoice, LossName, Method, Preparation};
use crate::hidden_settings::HiddenSettings;
use crate::label_kernel::PriorGeometry;
use crate::optimizer::Optimizer;
use crate::row_length::RowLength;

/// Passes over the data, if nothing ends a run before.
const MOST_EPOCHS: usize = 1000;
/// Epochs without a better score of the held-out rows before a run ends.
const PATIENCE: usize = 15;

/// A way to fit a model.
///
/// ```
/// use robust_ot_learn::{Candidate, Criterion};
/// assert_eq!(Candidate::Linear.options(Criterion::Auc)[0].0, "select");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidate {
    /// A linear model over all rows at once; held-out rows choose its loss, scaling, prior and L2.
    Linear,
    /// A model that is trained in steps.
    Steps(Steps),
}

/// The choices of a model that is trained in steps.
///
/// ```
/// use robust_ot_learn::{PriorGeometry, StepLoss, Steps, TuneScaling};
///
/// let linear = Steps {
///     loss: StepLoss::Bce, hidden: None, scaling: TuneScaling::UnitRows, prior: PriorGeometry::None,
///     learning_rate: 1e-3, weight_decay: 0.0,
/// };
/// assert_eq!(linear.to_string(), "bce, linear, length 1");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// The loss.
    pub loss: StepLoss,
    /// The hidden layer; without one, the model is linear.
    pub hidden: Option<HiddenSettings>,
    /// The scaling of the features.
    pub scaling: TuneScaling,
    /// The prior on the weights of the labels, with a hidden layer.
    pub prior: PriorGeometry,
    /// η.
    pub learning_rate: f64,
    /// The decay of AdamW.
    pub weight_decay: f64,
}

/// The losses that tuning trains with in steps.
///
/// ```
/// assert_eq!(robust_ot_learn::StepLoss::Asl.name(), "asl");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepLoss {
    /// Cross-entropy.
    Ce,
    /// Binary cross-entropy.
    Bce,
    /// The asymmetric loss.
    Asl,
    /// Cross-entropy plus robust transport.
    Mix,
}

impl StepLoss {
    /// The name on the command line and in Python.
    pub fn name(self) -> &'static str {
        self.loss().name()
    }

    fn loss(self) -> LossName {
        match self {
            Self::Ce => LossName::CrossEntropy,
            Self::Bce => LossName::BinaryCrossEntropy,
            Self::Asl => LossName::Asymmetric,
            Self::Mix => LossName::Mix,
        }
    }
}

/// How tuning scales features.
///
/// ```
/// assert_ne!(robust_ot_learn::TuneScaling::Given, robust_ot_learn::TuneScaling::UnitRows);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneScaling {
    /// As the settings say.
    Given,
    /// Rows of length one.
    UnitRows,
    /// Columns of mean 0 and variance 1.
    Standardized,
}

impl TuneScaling {
    /// The scaling of these settings with this choice.
    fn of(self, base: Preparation) -> Preparation {
        match self {
            Self::Given => base,
            Self::UnitRows => Preparation { row_length: Some(RowLength::ONE), ..base },
            Self::Standardized => Preparation { columns: Columns::Standardize, ..base },
        }
    }
}

impl Candidate {
    /// The settings it stands for; the others are those of `base`.
    pub(super) fn settings(&self, base: &FitSettings, select: Criterion) -> FitSettings {
        let mut settings = FitSettings { select: Some(select), ..base.clone() };
        match self {
            Self::Linear => settings.training.method = Some(Method::FullBatch),
            Self::Steps(steps) => {
                let Steps { loss, hidden, scaling, prior, learning_rate, weight_decay } = *steps;
                settings.loss.name = Some(loss.loss());
                settings.training.method = Some(Method::Stochastic);
                settings.training.optimizer = Some(Optimizer::AdamW);
                settings.training.learning_rate = Some(learning_rate);
                settings.training.weight_decay = Some(weight_decay);
                settings.training.epochs = Some(MOST_EPOCHS);
                settings.training.patience = Some(PATIENCE);
                settings.preparation = scaling.of(base.preparation);
                if let Some(HiddenSettings { units, dropout, input_dropout }) = hidden {
                    settings.training.hidden = HiddenChoice {
                        units: Some(units),
                        dropout: Some(dropout),
                        input_dropout: Some(input_dropout),
                    };
                    settings.prior.geometry = Some(prior);
                }
            }
        }
        settings
    }

    /// The options of `rot train` that fit it again, beside those of the data; the keywords of the Python classifier have
    /// underscores. `true` is a flag.
    pub fn options(&self, select: Criterion) -> Vec<(&'static str, Value)> {
        let Self::Steps(steps) = self else { return vec![("select", json!(select.name()))] };
        let Steps { loss, hidden, scaling, prior, learning_rate, weight_decay } = steps;
        let mut options = vec![("loss", json!(loss.name()))];
        if let Some(HiddenSettings { units, dropout, input_dropout }) = hidden {
            options.push(("hidden", json!(units)));
            options.push(("dropout", json!(dropout)));
            options.push(("input-dropout", json!(input_dropout)));
            options.push(("label-prior", json!(prior.name())));
        }
        match scaling {
            TuneScaling::Given => {}
            TuneScaling::UnitRows => options.push(("row-length", json!(1))),
            TuneScaling::Standardized => options.push(("standardize", json!(true))),
        }
        options.push(("optimizer", json!("adamw")));
        options.push(("lr", json!(learning_rate)));
        options.push(("weight-decay", json!(weight_decay)));
        options
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear => f.write_str("linear, over all rows"),
            Self::Steps(steps) => write!(f, "{steps}"),
        }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.loss.name())?;
        match self.hidden {
            None => f.write_str(", linear")?,
            Some(HiddenSettings { units, dropout, input_dropout }) => {
                write!(f, ", {units} units, dropout {dropout}/{input_dropout}")?;
            }
        }
        match self.scaling {
            TuneScaling::Given => {}
            TuneScaling::UnitRows => f.write_str(", length 1")?,
            TuneScaling::Standardized => f.write_str(", standardized")?,
        }
        if self.prior != PriorGeometry::None {
            write!(f, ", prior by {}", self.prior)?;
        }
        if self.learning_rate.total_cmp(&1e-3).is_ne() {
            write!(f, ", lr {}", self.learning_rate)?;
        }
        if self.hidden.is_some() {
            write!(f, ", decay {}", self.weight_decay)?;
        }
        Ok(())
    }
}
