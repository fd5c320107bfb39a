//! The state of a training run: everything that its remaining epochs depend on.

use ndarray::{Array2, ArrayView2};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::Result;
use robust_ot::linalg::product;
use serde::{Deserialize, Serialize};

use crate::hidden_layer::{HiddenLayer, LayerView};
use crate::model::Model;
use crate::objective::Objective;
use crate::optimizer::Parameters;
use crate::settings::TrainSettings;
use crate::trainer::Epoch;

/// The stream of random numbers of the first weights of a hidden layer; those of the order of rows are the epochs.
const FIRST_WEIGHTS: u64 = u64::MAX;

/// Weights, optimizer state and progress.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) hidden: Option<Layer>,
    /// W, or A where the prior makes the weights W = A R.
    pub(super) weights: Parameters,
    pub(super) bias: Option<Parameters>,
    pub(super) progress: Progress,
    /// The parameters of the best epoch, if there is validation.
    pub(super) best: Option<Best>,
}

/// The parameters of a hidden layer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    /// V, features × units.
    pub(super) weights: Parameters,
    /// c.
    pub(super) bias: Parameters,
}

/// The values of parameters, without an optimizer's state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Best {
    pub(super) weights: Vec<f32>,
    /// Empty without a bias.
    pub(super) bias: Vec<f32>,
    /// V and c.
    pub(super) hidden: Option<(Vec<f32>, Vec<f32>)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) steps: u64,
    pub(super) epochs: Vec<Epoch>,
    /// The epoch with the best validation score, and that score.
    pub(super) best: Option<(usize, f64)>,
}

impl State {
    /// The state before the first step.
    pub(super) fn new(features: usize, labels: usize, settings: &TrainSettings) -> Self {
        let parameters = |values| Parameters::new(values, settings.optimizer);
        let hidden = settings.hidden.map(|hidden| Layer {
            weights: parameters(first_weights(features, hidden.units, settings.seed)),
            bias: parameters(vec![0.0; hidden.units]),
        });
        let inputs = settings.hidden.map_or(features, |hidden| hidden.units);
        let weights = parameters(vec![settings.start; inputs * labels]);
        let bias = settings.bias.then(|| parameters(vec![0.0; labels]));
        Self { hidden, weights, bias, progress: Progress::default(), best: None }
    }

    /// The values of all parameters.
    pub(super) fn values(&self) -> Best {
        Best {
            weights: self.weights.values.clone(),
            bias: self.bias.as_ref().map(|bias| bias.values.clone()).unwrap_or_default(),
            hidden: self
                .hidden
                .as_ref()
                .map(|Layer { weights, bias }| (weights.values.clone(), bias.values.clone())),
        }
    }

    /// The model of the last epoch, or of the best epoch if there is validation.
    pub(super) fn into_model(mut self, objective: &Objective, label_names: Vec<String>) -> Result<Model> {
        let has_bias = self.bias.is_some();
        let Best { weights, bias, hidden } = self.best.take().unwrap_or_else(|| self.values());
        let weights = output_weights(&weights, objective);
        let hidden = hidden.map(|(weights, bias)| {
            let shape = (weights.len() / bias.len(), bias.len());
            let weights = Array2::from_shape_vec(shape, weights).expect("a row for every feature");
            HiddenLayer { weights, bias }
        });
        let bias = has_bias.then_some(bias);
        Model::with_hidden(hidden, weights, bias, objective.output(), label_names)
    }
}

impl Layer {
    pub(super) fn view(&self) -> LayerView<'_> {
        LayerView::new(&self.weights.values, &self.bias.values)
    }
}

/// W, which is A R under a prior.
pub(super) fn output_weights(values: &[f32], objective: &Objective) -> Array2<f32> {
    let labels = objective.labels();
    let own = ArrayView2::from_shape((values.len() / labels, labels), values);
    let own = own.expect("a row for every feature or unit");
    objective.label_root().map_or_else(|| own.to_owned(), |root| product(own, root.view()))
}

/// Uniform within ±√(6 / features): the outputs of ReLU are then as large as its inputs (He et al. 2015).
fn first_weights(features: usize, units: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(FIRST_WEIGHTS);
    let bound = (6.0 / features as f64).sqrt() as f32;
    (0..features * units).map(|_| rng.random_range(-bound..bound)).collect()
}
