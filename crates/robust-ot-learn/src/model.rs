//! A trained model: a map to logits, linear or with a hidden layer, with its labels and a record of its training.

use std::collections::HashSet;

use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView2, Axis};
use robust_ot::loss::LossSettings;
use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::asymmetric::Asymmetric;
use crate::criterion::Criterion;
use crate::data::Features;
use crate::extension::Extension;
use crate::hidden_layer::{HiddenLayer, logits};
use crate::label_kernel::Prior;
use crate::objective::Output;
use crate::preprocessing::Preprocessing;
use crate::scores::Scores;
use crate::selection::{BlendPart, Calibration, Tried};
use crate::settings::TrainSettings;

/// h = softmax (or sigmoid) of X W + b, or of H W + b with a [`HiddenLayer`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Model, Output};
///
/// let names = vec!["small".to_owned(), "large".to_owned()];
/// let model = Model::new(array![[-1.0, 1.0]], None, Output::Softmax, names)?;
/// let path = dir.path().join("model.safetensors");
/// model.save(&path)?;
/// let found = Model::load(&path)?.probabilities(Features::Dense(array![[3.0]]))?;
/// assert!(found[[0, 1]] > 0.99);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub(super) hidden: Option<HiddenLayer>,
    /// W, features × labels, or units × labels.
    pub(super) weights: Array2<f32>,
    pub(super) bias: Option<Vec<f32>>,
    pub(super) output: Output,
    pub(super) label_names: Vec<String>,
    pub(super) feature_names: Option<Vec<String>>,
    /// Transformations applied to the features first.
    pub preprocessing: Preprocessing,
    /// The geometry of the labels, one vector per label.
    pub label_vectors: Option<Array2<f64>>,
    /// The vectors that the loss used, if they differ from `label_vectors`.
    pub geometry: Option<Array2<f64>>,
    /// How it was trained.
    pub about: About,
}

/// How a model was trained, and its results.
///
/// ```
/// assert_eq!(robust_ot_learn::About::default().loss, "");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The name of the loss, or of the losses of a sum with their shares.
    pub loss: String,
    /// The models that it sums, if it is a sum; `prior` and `l2` are then those of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blend: Vec<BlendPart>,
    /// α, the weight of cross-entropy, or of the asymmetric loss in a mix.
    pub mix_ce: f64,
    /// α_ot, the weight of transport.
    pub mix_ot: f64,
    /// The source of the robust loss's label vectors: `names`, `rows` or empty.
    #[serde(default)]
    pub geometry: String,
    /// The same for target transport.
    #[serde(default)]
    pub target_geometry: String,
    /// The settings of the robust loss, if one was used.
    pub robust: Option<LossSettings>,
    /// The parameters of the asymmetric loss, if it is the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asymmetric: Option<Asymmetric>,
    /// The group of each feature of the label vectors.
    pub groups: Option<Vec<usize>>,
    /// β, if targets were transported.
    pub target_transport: f64,
    /// τ, the temperature of target transport.
    pub target_temperature: f64,
    /// The metric set of target transport.
    pub target_metric: String,
    /// The fraction of the targets that is uniform.
    pub label_smoothing: f64,
    /// The prior on the weights of labels, for fits over all rows at once and for models with a hidden layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<Prior>,
    /// λ of the prior.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2: Option<f64>,
    /// ½‖∇f‖² / |f| of the penalized loss f where the iterations ended, an estimate of how far it is above its minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// How logits became odds; the weights and biases include it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// By what held-out rows chose, if they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<Criterion>,
    /// Every candidate that was tried on held-out rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
    /// Number of training rows with each label; empty if they were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub label_rows: Vec<usize>,
    /// How labels without rows get their weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
    /// The optimizer and all other training settings.
    pub training: Option<TrainSettings>,
    /// Number of epochs run.
    pub epochs: usize,
    /// Whether training was interrupted; the weights are those reached by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The epoch that the weights come from, if validation chose one.
    pub best_epoch: Option<usize>,
    /// Number of training rows.
    pub rows: usize,
    /// For multi-label data: a label is predicted if its probability is at least this (sigmoid), or at least this
    /// fraction of the row's largest (softmax).
    #[serde(default)]
    pub threshold: Option<f64>,
    /// NumPy's kind code of the labels if they are not names, such as `i` for integers.
    #[serde(default)]
    pub label_kind: String,
    /// Labels of the training files that were dropped, with their positions; later files are read the same way.
    pub dropped_labels: Vec<(usize, String)>,
    /// The index of the first feature in the svmlight files of training, 0 or 1; later files are read the same way.
    pub first_index: Option<usize>,
    /// Scores on test data.
    pub scores: Option<Scores>,
    /// The training device: `cpu`, or the name of a GPU.
    #[serde(default)]
    pub device: String,
    /// If products were rounded on a GPU: ‖Z' − Z‖ / ‖Z‖ for the logits of some training rows.
    #[serde(default)]
    pub product_rounding: Option<f64>,
    /// The version of the program.
    pub version: String,
}

impl About {
    /// The name of the CPU as a device.
    pub const CPU: &str = "cpu";
}

impl Model {
    /// Builds a model from its weights.
    ///
    /// # Errors
    /// When the number of names or biases differs from the number of labels, two labels have the same name, or a number
    /// is not finite.
    pub fn new(
        weights: Array2<f32>,
        bias: Option<Vec<f32>>,
        output: Output,
        label_names: Vec<String>,
    ) -> Result<Self> {
        Self::with_hidden(None, weights, bias, output, label_names)
    }

    /// [`Model::new`] with a hidden layer.
    pub(super) fn with_hidden(
        hidden: Option<HiddenLayer>,
        weights: Array2<f32>,
        bias: Option<Vec<f32>>,
        output: Output,
        label_names: Vec<String>,
    ) -> Result<Self> {
        let labels = weights.ncols();
        let shape = |name, found: usize| {
            let expected = format!("{labels}, one per label");
            Err(Error::Shape { name, expected, found: found.to_string() })
        };
        if label_names.len() != labels {
            return shape("the label names", label_names.len());
        }
        if let Some(bias) = bias.as_ref().filter(|bias| bias.len() != labels) {
            return shape("the bias", bias.len());
        }
        let of_hidden = hidden.as_ref().map(|layer| &layer.weights);
        for weights in [Some(&weights), of_hidden].into_iter().flatten() {
            if let Some(((row, column), &value)) = weights.indexed_iter().find(|(_, w)| !w.is_finite()) {
                return Err(Error::NotFinite { name: "weights", row, column, value: f64::from(value) });
            }
        }
        let biases = bias.iter().flatten().chain(hidden.iter().flat_map(|layer| &layer.bias));
        if let Some((column, &value)) = biases.enumerate().find(|(_, b)| !b.is_finite()) {
            return Err(Error::NotFinite { name: "biases", row: 0, column, value: f64::from(value) });
        }
        let mut known = HashSet::new();
        if let Some(name) = label_names.iter().find(|name| !known.insert(name.as_str())) {
            return Err(Error::Shape {
                name: "the label names",
                expected: "different from each other".into(),
                found: format!("'{name}' twice"),
            });
        }
        let about = About::default();
        Ok(Self {
            hidden,
            weights,
            bias,
            output,
            label_names,
            feature_names: None,
            preprocessing: Preprocessing::default(),
            label_vectors: None,
            geometry: None,
            about,
        })
    }

    /// Number of features it takes.
    pub fn features(&self) -> usize {
        self.hidden.as_ref().map_or(&self.weights, |layer| &layer.weights).nrows()
    }

    /// The hidden layer, if it has one.
    pub fn hidden(&self) -> Option<&HiddenLayer> {
        self.hidden.as_ref()
    }

    /// The names of its labels.
    pub fn label_names(&self) -> &[String] {
        &self.label_names
    }

    /// W, features × labels; with a hidden layer, units × labels.
    pub fn weights(&self) -> ArrayView2<'_, f32> {
        self.weights.view()
    }

    /// The bias b.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// How its logits become probabilities.
    pub fn output(&self) -> Output {
        self.output
    }

    /// X W + b or H W + b for every row, after [`Model::preprocessing`].
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot_learn::data::Features;
    /// use robust_ot_learn::{Model, Output};
    ///
    /// let model = Model::new(array![[-1.0, 1.0]], None, Output::Softmax, vec!["a".into(), "b".into()])?;
    /// assert_eq!(model.logits(Features::Dense(array![[3.0]]))?, array![[-3.0, 3.0]]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the number of features differs from training's, or a logit is not finite.
    pub fn logits(&self, mut features: Features) -> Result<Array2<f32>> {
        self.check_width(&features)?;
        self.preprocessing.apply(&mut features)?;
        self.logits_of_preprocessed(&features)
    }

    /// The probability of every label for every row.
    ///
    /// # Errors
    /// When the number of features differs from training's.
    pub fn probabilities(&self, features: Features) -> Result<Array2<f64>> {
        Ok(probabilities(&self.logits(features)?, self.output))
    }

    /// [`Model::probabilities_of_preprocessed`] with X W + b computed by `logits`, for the outputs of the hidden layer as X if
    /// there is one.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot_learn::data::Features;
    /// use robust_ot_learn::{Model, Output};
    ///
    /// let model = Model::new(array![[1.0, 1.0]], None, Output::Softmax, vec!["a".into(), "b".into()])?;
    /// let found = model.probabilities_by(&Features::Dense(array![[3.0]]), |_, _, _| Ok(array![[0.0, 0.0]]))?;
    /// assert_eq!(found, array![[0.5, 0.5]]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the number of features differs from training's, a logit is not finite, or `logits` fails.
    pub fn probabilities_by(
        &self,
        features: &Features,
        logits: impl FnOnce(&Features, ArrayView2<f32>, Option<&[f32]>) -> Result<Array2<f32>>,
    ) -> Result<Array2<f64>> {
        self.check_width(features)?;
        let outputs = self.hidden.as_ref().map(|layer| Features::Dense(layer.outputs(features)));
        let logits = logits(outputs.as_ref().unwrap_or(features), self.weights.view(), self.bias())?;
        check_logits(&logits)?;
        Ok(probabilities(&logits, self.output))
    }

    /// [`Model::probabilities`] of features that have already gone through [`Model::preprocessing`].
    ///
    /// # Errors
    /// When the number of features differs from training's.
    pub fn probabilities_of_preprocessed(&self, features: &Features) -> Result<Array2<f64>> {
        Ok(probabilities(&self.logits_of_preprocessed(features)?, self.output))
    }

    fn logits_of_preprocessed(&self, features: &Features) -> Result<Array2<f32>> {
        self.check_width(features)?;
        let hidden = self.hidden.as_ref().map(HiddenLayer::view);
        let logits = logits(features, hidden, self.weights.view(), self.bias());
        check_logits(&logits)?;
        Ok(logits)
    }

    fn check_width(&self, features: &Features) -> Result<()> {
        if features.columns() == self.features() {
            return Ok(());
        }
        Err(Error::Shape {
            name: "the features",
            expected: format!("{} columns wide, as in training", self.features()),
            found: format!("{} wide", features.columns()),
        })
    }
}

fn check_logits(logits: &Array2<f32>) -> Result<()> {
    match logits.indexed_iter().find(|(_, z)| !z.is_finite()) {
        Some(((row, column), &value)) => {
            Err(Error::NotFinite { name: "logits", row, column, value: f64::from(value) })
        }
        None => Ok(()),
    }
}

/// The probabilities of logits, in double precision so that small ones are not tied at zero.
pub(super) fn probabilities(logits: &Array2<f32>, output: Output) -> Array2<f64> {
    let mut out = logits.mapv(f64::from);
    out.axis_iter_mut(Axis(0)).into_par_iter().for_each(|mut row| {
        output.probabilities(row.as_slice_mut().expect("rows are contiguous"));
    });
    out
}
