//! The state of a training run: everything that its remaining epochs depend on.

use ndarray::Array2;
use robust_ot::Result;
use serde::{Deserialize, Serialize};

use crate::model::Model;
use crate::objective::Objective;
use crate::optimizer::Parameters;
use crate::settings::TrainSettings;
use crate::trainer::Epoch;

/// Weights, optimizer state and progress.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) weights: Parameters,
    pub(super) bias: Option<Parameters>,
    pub(super) progress: Progress,
    /// The weights and biases of the best epoch, if there is validation.
    pub(super) best: Option<(Vec<f32>, Vec<f32>)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) steps: u64,
    pub(super) epochs: Vec<Epoch>,
    /// The epoch with the largest validation AUC, and that AUC.
    pub(super) best: Option<(usize, f64)>,
}

impl State {
    /// The state before the first step.
    pub(super) fn new(features: usize, labels: usize, settings: &TrainSettings) -> Self {
        let weights = Parameters::new(vec![settings.start; features * labels], settings.optimizer);
        let bias = settings.bias.then(|| Parameters::new(vec![0.0; labels], settings.optimizer));
        Self { weights, bias, progress: Progress::default(), best: None }
    }

    /// The model of the last epoch, or of the best epoch if there is validation.
    pub(super) fn into_model(self, objective: &Objective, label_names: Vec<String>) -> Result<Model> {
        let Self { weights, bias, best, .. } = self;
        let has_bias = bias.is_some();
        let (weights, bias) =
            best.unwrap_or_else(|| (weights.values, bias.map(|bias| bias.values).unwrap_or_default()));
        let labels = objective.labels();
        let weights = Array2::from_shape_vec((weights.len() / labels, labels), weights)
            .expect("a row for every feature");
        Model::new(weights, has_bias.then_some(bias), objective.output(), label_names)
    }
}
