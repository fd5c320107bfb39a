//! Learning from streaming data.

use std::path::Path;

use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use crate::checkpoint::check_tensors;
use crate::dataset::Dataset;
use crate::file_header::{Integrity, Kind};
use crate::model::Model;
use crate::objective::Objective;
use crate::optimizer::Schedule;
use crate::settings::TrainSettings;
use crate::state::{Progress, State};
use crate::tensors;
use crate::trainer::{Epoch, Trainer};

/// Checks the bytes of a learner whose size is not known; `place` is for error messages.
pub(super) fn check_learner(place: &Path, bytes: &[u8]) -> Result<Integrity> {
    check_tensors(tensors::from_bytes::<Progress>(place, Kind::Learner, bytes)?.1)
}

/// The place that errors name for a learner that is not in a file.
const IN_MEMORY: &str = "the learner";

/// A model that learns from streaming data: each call of [`Learner::learn`] makes one pass over the given rows, in
/// batches, and keeps the optimizer state of earlier passes.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, Learner, Objective, TrainSettings};
/// use robust_ot::loss::Targets;
///
/// let settings = TrainSettings { learning_rate: 0.1, ..Default::default() };
/// let mut learner = Learner::new(1, Objective::cross_entropy(2), settings)?;
/// for shift in [0.0, 0.1, 0.2] {
///     let rows = Features::Dense(array![[-2.0 + shift], [2.0 + shift]]);
///     learner.learn(&Dataset::new(rows, Targets::new(2, [[0], [1]])?)?, &Interrupt::default())?;
/// }
/// assert_eq!(learner.history().len(), 3);
/// let model = learner.model(vec!["left".into(), "right".into()])?;
/// assert!(model.probabilities(Features::Dense(array![[1.0]]))?[[0, 1]] > 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Learner {
    features: usize,
    pub(super) objective: Objective,
    pub(super) settings: TrainSettings,
    pub(super) state: State,
}

impl Learner {
    /// Creates a learner with initial weights.
    ///
    /// # Errors
    /// When a setting is outside its range, the schedule is not constant, because streaming data has no last step, or there is a
    /// hidden layer, which is trained on all rows.
    pub fn new(features: usize, objective: Objective, settings: TrainSettings) -> Result<Self> {
        settings.check()?;
        if settings.schedule != Schedule::Constant {
            return Err(Error::parameter("schedule", "constant for streaming data", settings.schedule));
        }
        if let Some(hidden) = settings.hidden {
            return Err(Error::parameter("hidden", "absent where rows arrive in parts", hidden.units));
        }
        let state = State::new(features, objective.labels(), &settings);
        Ok(Self { features, objective, settings, state })
    }

    /// Continues from the weights of a model, with a fresh optimizer state.
    ///
    /// If the model scales rows to a length, rows passed to [`Learner::learn`] must already have it.
    ///
    /// # Errors
    /// When the model differs in features, labels or bias, standardizes features, or has a hidden layer.
    pub fn start_from(&mut self, model: &Model) -> Result<()> {
        if model.preprocessing.standardization.is_some() {
            let rule = "without standardization, which needs all rows at once";
            return Err(Error::Shape { name: "the model", expected: rule.into(), found: "with it".into() });
        }
        if let Some(layer) = model.hidden() {
            let found = format!("with one of {} units", layer.bias.len());
            let expected = "without a hidden layer".into();
            return Err(Error::Shape { name: "the model", expected, found });
        }
        let (wanted, found) = ((self.features, self.objective.labels()), model.weights().dim());
        if wanted != found || self.settings.bias != model.bias().is_some() {
            let told = |(features, labels): (usize, usize), bias: bool| {
                format!(
                    "{features} features and {labels} labels wide, {} bias",
                    if bias { "with" } else { "without" }
                )
            };
            return Err(Error::Shape {
                name: "the model",
                expected: told(wanted, self.settings.bias),
                found: told(found, model.bias().is_some()),
            });
        }
        self.state = State::new(self.features, self.objective.labels(), &self.settings);
        self.state.weights.values = model.weights().iter().copied().collect();
        if let (Some(own), Some(bias)) = (&mut self.state.bias, model.bias()) {
            own.values.copy_from_slice(bias);
        }
        Ok(())
    }

    /// Makes one pass over the rows. Returns `None` if interrupted; the steps taken so far stay applied.
    ///
    /// # Errors
    /// When the rows differ in features or labels, or training diverges.
    pub fn learn(&mut self, rows: &Dataset, interrupt: &Interrupt) -> Result<Option<Epoch>> {
        self.check(rows)?;
        let epochs = self.history().len() + 1;
        let settings = TrainSettings { epochs, patience: None, ..self.settings.clone() };
        let before = self.state.clone();
        let mut trainer = Trainer::with_state(rows, None, &self.objective, settings, before);
        let learned = trainer.epoch(interrupt, |_, _| ())?;
        self.state = trainer.state;
        Ok(learned)
    }

    /// Refuses rows that differ in features or labels.
    pub(super) fn check(&self, rows: &Dataset) -> Result<()> {
        let found = (rows.features().columns(), rows.targets().labels());
        if found == (self.features, self.objective.labels()) {
            return Ok(());
        }
        Err(Error::Shape {
            name: "the data",
            expected: format!("{} features and {} labels wide", self.features, self.objective.labels()),
            found: format!("{} features and {} labels wide", found.0, found.1),
        })
    }

    /// The passes so far.
    pub fn history(&self) -> &[Epoch] {
        &self.state.progress.epochs
    }

    /// The current model.
    ///
    /// # Errors
    /// When the number of names differs from the number of labels.
    pub fn model(&self, label_names: Vec<String>) -> Result<Model> {
        self.state.clone().into_model(&self.objective, label_names)
    }

    /// Serializes the learned parameters and the optimizer state.
    ///
    /// # Errors
    /// When the passes so far cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let State { progress, .. } = &self.state;
        tensors::to_bytes(Path::new(IN_MEMORY), Kind::Learner, progress, &self.state.tensors())
    }

    /// Continues from the state of another learner with the same objective and settings, and returns how far the bytes
    /// could be checked.
    ///
    /// # Errors
    /// When the bytes are not those of [`Learner::to_bytes`], are damaged, or are of a model of another size.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<Integrity> {
        let (progress, mut file) =
            tensors::from_bytes::<Progress>(Path::new(IN_MEMORY), Kind::Learner, bytes)?;
        let mut state = State::new(self.features, self.objective.labels(), &self.settings);
        state.fill(&mut file, false)?;
        let integrity = file.finish()?;
        state.progress = progress;
        self.state = state;
        Ok(integrity)
    }
}
