//! A fit whose rows arrive in parts.

use ndarray::Array2;
use robust_ot::sets::MetricFamily;
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::geometry::Geometry;
use super::loss_choice::LossName;
use super::method::Method;
use super::objective::FitObjective;
use super::preparation::Columns;
use super::prior_choice::PriorChoice;
use super::samples::Samples;
use super::settings::FitSettings;
use crate::dataset::Dataset;
use crate::file_header::Integrity;
use crate::gradient::Gradient;
use crate::learner::Learner;
use crate::model::{About, Model};
use crate::preprocessing::Preprocessing;
use crate::row_length::RowLength;
use crate::threshold::answer_threshold;
use crate::trainer::Epoch;

/// A model that learns from rows as they arrive, one pass over each part, in the geometry of its label vectors.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, FitSettings, Samples, StreamingFit};
///
/// let part = Dataset::new(Features::Dense(array![[-2.0], [2.0]]), Targets::new(2, [[0], [1]])?)?;
/// let samples = Samples::new(part.clone(), vec!["left".into(), "right".into()]);
/// let mut fit = StreamingFit::new(&FitSettings::default(), samples)?;
/// for _ in 0..3 {
///     fit.learn(part.clone(), &Interrupt::default())?;
/// }
/// assert_eq!(fit.model()?.about.epochs, 3);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamingFit {
    learner: Learner,
    label_names: Vec<String>,
    label_vectors: Option<Array2<f64>>,
    geometry: Option<Array2<f64>>,
    preprocessing: Preprocessing,
    about: About,
    /// The threshold from which a label is predicted, where rows may have several.
    threshold: Option<f64>,
}

impl StreamingFit {
    /// Starts a fit. The first rows determine the number of features; the model does not learn from them yet.
    ///
    /// # Errors
    /// When a setting does not fit, or needs all rows at once.
    pub fn new(settings: &FitSettings, samples: Samples) -> Result<Self> {
        settings.check()?;
        check_streams(settings)?;
        let Samples { mut train, label_names, label_vectors, .. } = samples;
        let preprocessing = settings.preparation.of(&train);
        train.preprocess(&preprocessing)?;
        let training = settings.training.settings(usize::MAX, false, settings.protocol, settings.seed)?;
        let FitObjective { objective, about, geometry } =
            FitObjective::new(settings, Some(training.clone()), &train, label_vectors.as_ref())?;
        let about = About { rows: 0, ..about };
        let learner = Learner::new(train.features().columns(), objective, training)?;
        Ok(Self { learner, label_names, label_vectors, geometry, preprocessing, about, threshold: None })
    }

    /// Allows several labels per row; [`StreamingFit::choose_threshold`] chooses which labels are predicted.
    #[must_use]
    pub fn with_several_labels(mut self) -> Self {
        // Until rows with several labels arrive, only the most probable label is predicted.
        self.threshold = Some(1.0);
        self
    }

    /// Continues from the [`StreamingFit::state`] of another fit, and returns how far the state could be checked.
    ///
    /// # Errors
    /// When the state comes from a fit of another size, or is damaged.
    pub fn restore(&mut self, state: &[u8]) -> Result<Integrity> {
        self.learner.restore(state)
    }

    /// Continues from the weights of a model.
    ///
    /// # Errors
    /// When the features, labels or scaling of the model differ.
    pub fn start_from(&mut self, model: &Model) -> Result<()> {
        self.check_row_length(model)?;
        self.learner.start_from(model)
    }

    /// Refuses a model that scales rows to another length.
    ///
    /// # Errors
    /// When the lengths differ.
    pub fn check_row_length(&self, model: &Model) -> Result<()> {
        let (known, found) = (model.preprocessing.row_length, self.preprocessing.row_length);
        if known == found {
            return Ok(());
        }
        let shown = |length: Option<RowLength>| length.map_or("none".to_owned(), |length| length.to_string());
        let rule = format!("that of the fitted model, {}", shown(known));
        Err(Error::parameter("row_length", rule, shown(found)))
    }

    /// Makes one pass over some rows; returns `None` if it was interrupted.
    ///
    /// # Errors
    /// When the rows do not fit, or training diverges.
    pub fn learn(&mut self, rows: Dataset, interrupt: &Interrupt) -> Result<Option<Epoch>> {
        let rows = self.scaled(rows)?;
        let epoch = self.learner.learn(&rows, interrupt)?;
        self.choose_scaled(&rows)?;
        Ok(epoch)
    }

    /// The gradient summed over some rows, at the current weights.
    ///
    /// # Errors
    /// When the rows do not fit.
    pub fn gradient(&self, rows: Dataset) -> Result<Gradient> {
        self.learner.gradient(&self.scaled(rows)?)
    }

    /// Makes one step along a gradient.
    ///
    /// # Errors
    /// When the gradient has another size, or is not finite.
    pub fn step(&mut self, gradient: &Gradient) -> Result<()> {
        self.learner.step(gradient)
    }

    /// Ends a pass that was made step by step.
    pub fn end_pass(&mut self, loss: f64, seconds: f64) {
        self.learner.end_pass(loss, seconds);
    }

    /// Chooses the prediction threshold on some rows, if rows may have several labels.
    ///
    /// # Errors
    /// When the rows do not fit.
    pub fn choose_threshold(&mut self, rows: Dataset) -> Result<()> {
        let rows = self.scaled(rows)?;
        self.choose_scaled(&rows)
    }

    /// Number of weights, without biases.
    pub fn weight_count(&self) -> usize {
        self.learner.weight_count()
    }

    /// Every pass so far.
    pub fn history(&self) -> &[Epoch] {
        self.learner.history()
    }

    /// The current model.
    ///
    /// # Errors
    /// When a weight is not finite.
    pub fn model(&self) -> Result<Model> {
        let mut model = self.learner.model(self.label_names.clone())?;
        model.label_vectors.clone_from(&self.label_vectors);
        model.geometry.clone_from(&self.geometry);
        model.preprocessing = self.preprocessing.clone();
        let (epochs, threshold) = (self.history().len(), self.threshold);
        model.about = About { epochs, threshold, ..self.about.clone() };
        Ok(model)
    }

    /// Everything that another fit needs to continue.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn state(&self) -> Result<Vec<u8>> {
        self.learner.to_bytes()
    }

    fn scaled(&self, mut rows: Dataset) -> Result<Dataset> {
        rows.preprocess(&self.preprocessing)?;
        Ok(rows)
    }

    fn choose_scaled(&mut self, rows: &Dataset) -> Result<()> {
        if self.threshold.is_some() {
            self.threshold = answer_threshold(&self.model()?, rows)?.or(self.threshold);
        }
        Ok(())
    }
}

/// Refuses settings that need all rows at once.
fn check_streams(settings: &FitSettings) -> Result<()> {
    let refuse = |name, rule: &str, value: &str| Err(Error::parameter(name, rule, value));
    if settings.training.method == Some(Method::FullBatch) {
        return refuse("optimizer", "adam or sgd where rows arrive in parts", "lbfgs");
    }
    if let Some(units) = settings.training.hidden.units {
        let rule = "absent where rows arrive in parts";
        return Err(Error::parameter("hidden", rule, units));
    }
    if settings.prior != PriorChoice::default() {
        let found = "given; they need all rows at once".into();
        return Err(Error::Conflict {
            name: "label_prior and l2",
            rule: "be auto where rows arrive in parts".into(),
            found,
        });
    }
    if settings.loss.name == Some(LossName::Square) {
        return refuse("loss", "another than square where rows arrive in parts", "square");
    }
    if settings.preparation.columns == Columns::Standardize {
        return refuse("standardize", "off where rows arrive in parts", "on");
    }
    if settings.loss.geometry == Geometry::Rows {
        return refuse("geometry", "names where rows arrive in parts", "rows");
    }
    if settings.targets.transport > 0.0 && settings.targets.metric != MetricFamily::W2 {
        return refuse("target_metric", "w2 where rows arrive in parts", settings.targets.metric.name());
    }
    if settings.targets.geometry == Some(Geometry::Rows) {
        return refuse("target_geometry", "names where rows arrive in parts", "rows");
    }
    Ok(())
}
