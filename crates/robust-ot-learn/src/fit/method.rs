//! Whether weights are found over all rows at once or in steps over batches.

use std::fmt;

use robust_ot::{Error, Result};

use super::loss_choice::LossName;
use super::prior_choice::PriorChoice;
use super::settings::FitSettings;
use super::training_choice::TrainingChoice;
use crate::data::Features;
use crate::dataset::Dataset;
use crate::full_batch::MOST_FEATURES;
use crate::optimizer::Schedule;

/// What options of the prior go with.
const OF_PRIORS: &str = "go with the optimizer lbfgs or a hidden layer";
/// Numbers per weight that L-BFGS holds: the last steps, their changes of the gradient, and buffers.
const COPIES: usize = 32;
/// With more products of a row, a feature and a label than this, a search on two cores would take an hour.
const MOST_WORK: f64 = 1e12;

/// How weights are found.
///
/// ```
/// use robust_ot_learn::{FitSettings, LossName, Method};
///
/// let settings = FitSettings::default();
/// assert_eq!(settings.method(), Method::FullBatch);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Over all rows at once, to the optimum; loss, scaling, prior and L2 are chosen on held-out rows unless they are given.
    FullBatch,
    /// In steps over batches, by [`Optimizer`](crate::Optimizer).
    Stochastic,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FullBatch => "lbfgs",
            Self::Stochastic => "stochastic",
        })
    }
}

impl FitSettings {
    /// How weights are found with these settings: over all rows at once unless the loss includes transport, a protocol
    /// applies, or an option of stochastic steps is given.
    pub fn method(&self) -> Method {
        if let Some(method) = self.training.method {
            return method;
        }
        let Self { loss, protocol, prior, .. } = self;
        let transport = loss.name.is_some_and(|name| name.family().is_some()) || loss.states_transport();
        let stepwise = transport || loss.is_asymmetric();
        if protocol.is_some()
            || self.first_of_steps().is_some()
            || (stepwise && *prior == PriorChoice::default())
        {
            Method::Stochastic
        } else {
            Method::FullBatch
        }
    }

    /// Refuses settings that the method has no use for.
    pub(super) fn check_method(&self) -> Result<()> {
        let conflict =
            |name, rule: &str, found: String| Err(Error::Conflict { name, rule: rule.into(), found });
        match self.method() {
            Method::FullBatch => {
                if let Some(protocol) = self.protocol {
                    return conflict(
                        "method",
                        "be stochastic with a protocol",
                        format!("the protocol is {protocol}"),
                    );
                }
                if self.loss.is_asymmetric() {
                    return conflict(
                        "loss",
                        "be convex for the optimizer lbfgs, and for a prior or L2 over all rows",
                        "asl is not, and takes steps (adam or sgd)".into(),
                    );
                }
                match self.first_of_steps() {
                    Some(name) => {
                        conflict(name, "go with the optimizer adam, adamw or sgd", "it is lbfgs".into())
                    }
                    None => Ok(()),
                }
            }
            Method::Stochastic if self.loss.name == Some(LossName::Square) => {
                conflict("loss", "be another than square with stochastic steps", "it is square".into())
            }
            Method::Stochastic if self.training.hidden.units.is_some() => match self.prior.l2 {
                Some(l2) => conflict(
                    "l2",
                    "be auto with a hidden layer, whose prior has the strength weight_decay",
                    format!("is {l2}"),
                ),
                None => Ok(()),
            },
            Method::Stochastic if self.prior != PriorChoice::default() => {
                let name = if self.prior.geometry.is_some() { "label_prior" } else { "l2" };
                let name = if self.prior.free.is_some() { "prior_free" } else { name };
                let name = if self.prior.temperature.is_some() { "prior_temperature" } else { name };
                let rule = if name == "l2" { "go with the optimizer lbfgs" } else { OF_PRIORS };
                conflict(name, rule, "training takes stochastic steps".into())
            }
            Method::Stochastic => Ok(()),
        }
    }

    /// The first setting of stochastic steps that is given.
    fn first_of_steps(&self) -> Option<&'static str> {
        let TrainingChoice { optimizer, momentum, learning_rate, batch, epochs, .. } = self.training;
        let TrainingChoice { weight_decay, start, reduction, patience, schedule, hidden, .. } = self.training;
        let given = [
            ("hidden", hidden.units.is_some()),
            ("dropout", hidden.dropout.is_some()),
            ("input_dropout", hidden.input_dropout.is_some()),
            ("optimizer", optimizer.is_some()),
            ("momentum", momentum.is_some()),
            ("learning_rate", learning_rate.is_some()),
            ("schedule", schedule != Schedule::Constant),
            ("batch", batch.is_some()),
            ("epochs", epochs.is_some()),
            ("weight_decay", weight_decay.is_some()),
            ("start", start.is_some()),
            ("reduction", reduction.is_some()),
            ("patience", patience.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// [`FitSettings::method`], unless these rows are too many for a search that nobody asked for. Returns the reason with
    /// the method then.
    pub fn method_for(&self, train: &Dataset) -> (Method, Option<String>) {
        let method = self.method();
        let asked = self.training.method.is_some() || self.prior != PriorChoice::default();
        if method == Method::Stochastic || asked {
            return (method, None);
        }
        let (features, labels) = (train.features().columns(), train.targets().labels());
        let bytes = full_batch_bytes(features, labels);
        let work = work_of(train);
        if bytes <= self.memory.0 && work <= MOST_WORK {
            return (method, None);
        }
        let reason = format!(
            "{} rows, {features} features and {labels} labels are too many to choose loss, prior and L2 on held-out \
             rows; training takes stochastic steps",
            train.rows()
        );
        (Method::Stochastic, Some(reason))
    }
}

/// The memory that L-BFGS needs for a model of this size.
pub(super) fn full_batch_bytes(features: usize, labels: usize) -> usize {
    [features, labels, COPIES, size_of::<f32>()].into_iter().fold(1, usize::saturating_mul)
}

/// Products of a row, a nonzero feature and a label.
pub(crate) fn work_of(train: &Dataset) -> f64 {
    let numbers = match train.features() {
        Features::Dense(all) => all.len(),
        Features::Sparse(all) => (0..all.rows()).map(|row| all.row(row).0.len()).sum(),
    };
    numbers as f64 * train.targets().labels() as f64
}

/// About as many products as decomposing the moments of the features takes, where it is done.
pub(crate) fn decomposition_of(train: &Dataset) -> f64 {
    let columns = train.features().columns();
    if columns > MOST_FEATURES { 0.0 } else { 0.25 * (columns as f64).powi(3) }
}
