//! One fit, step by step.

use ndarray::Array2;
use robust_ot::{Error, Result};

use super::hidden_choice::last_layer_prior;
use super::objective::FitObjective;
use super::samples::Samples;
use super::settings::FitSettings;
use crate::dataset::Dataset;
use crate::hidden_settings::HiddenSettings;
use crate::memory::Memory;
use crate::model::{About, Model};
use crate::objective::Objective;
use crate::optimizer::Optimizer;
use crate::preprocessing::Preprocessing;
use crate::settings::TrainSettings;
use crate::threshold::answer_threshold;
use crate::trainer::{Epoch, Trainer};

/// A model and how it was fitted.
#[derive(Debug)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// Every epoch; over all rows, every iteration, of one part of a sum after the other.
    pub history: Vec<Epoch>,
    /// What the user should know about the run.
    pub notes: Vec<String>,
}

/// A prepared fit: rows are held out, features are scaled, the objective is built.
///
/// ```
/// use ndarray::Array2;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, FitRun, FitSettings, Samples};
///
/// let rows = Array2::from_shape_fn((60, 1), |(row, _)| if row % 2 == 0 { -1.0 } else { 1.0 });
/// let train = Dataset::new(Features::Dense(rows), Targets::new(2, (0..60).map(|row| [row % 2]))?)?;
/// let samples = Samples::new(train, vec!["left".into(), "right".into()]);
/// let run = FitRun::new(&FitSettings::default(), samples)?;
/// let mut trainer = run.trainer()?;
/// while let Some(epoch) = trainer.epoch(&Interrupt::default(), |_, _| ())? {
///     println!("{}: {}", epoch.epoch, epoch.loss);
/// }
/// let fitted = run.finish(trainer)?;
/// assert_eq!(fitted.history.len(), fitted.model.about.epochs);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct FitRun {
    train: Dataset,
    validation: Option<Dataset>,
    objective: Objective,
    settings: TrainSettings,
    preprocessing: Preprocessing,
    label_names: Vec<String>,
    label_vectors: Option<Array2<f64>>,
    geometry: Option<Array2<f64>>,
    about: About,
    notes: Vec<String>,
}

impl FitRun {
    /// Prepares the data.
    ///
    /// # Errors
    /// When a setting does not fit the data.
    pub fn new(settings: &FitSettings, samples: Samples) -> Result<Self> {
        settings.check()?;
        let mut notes = Vec::new();
        let Samples { train, validation, label_names, label_vectors, dropped_labels, first_index } = samples;
        let (mut train, mut validation) = match validation {
            Some(validation) => (train, Some(validation)),
            None => hold_out(settings, train, &mut notes)?,
        };
        let mut training = settings.training.settings(
            train.rows(),
            validation.is_some(),
            settings.protocol,
            settings.seed,
        )?;
        training.select = settings.select.unwrap_or_default();
        training.select.check(label_vectors.is_some())?;
        check_memory(&train, &training, settings.memory)?;
        let preprocessing = settings.preparation.of(&train);
        let zero_rows = train.preprocess(&preprocessing)?;
        notes.extend(zero_rows_note(zero_rows, train.rows(), "training rows"));
        if let Some(validation) = &mut validation {
            let zero_rows = validation.preprocess(&preprocessing)?;
            notes.extend(zero_rows_note(zero_rows, validation.rows(), "validation rows"));
        }
        let FitObjective { objective, about, geometry } =
            FitObjective::new(settings, Some(training.clone()), &train, label_vectors.as_ref())?;
        let select = validation.is_some().then_some(training.select);
        if let (Some(select), None) = (settings.select, &validation) {
            notes.push(format!("no rows are held out, so nothing is chosen by {select}"));
        }
        let mut about = About { select, dropped_labels, first_index, ..about };
        let mut root = None;
        if training.hidden.is_some() {
            let (prior, found) = last_layer_prior(&settings.prior, &train, label_vectors.as_ref())?;
            (about.prior, root) = (Some(prior), found);
        }
        let objective = objective.with_label_root(root);
        Ok(Self {
            train,
            validation,
            objective,
            settings: training,
            preprocessing,
            label_names,
            label_vectors,
            geometry,
            about,
            notes,
        })
    }

    /// The rows to train on, scaled.
    pub fn train(&self) -> &Dataset {
        &self.train
    }

    /// What is minimized.
    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// How it is minimized.
    pub fn settings(&self) -> &TrainSettings {
        &self.settings
    }

    /// Starts training.
    ///
    /// # Errors
    /// When data and objective do not fit.
    pub fn trainer(&self) -> Result<Trainer<'_>> {
        let (validation, settings) = (self.validation.as_ref(), self.settings.clone());
        let trainer = Trainer::new(&self.train, validation, &self.objective, settings)?;
        Ok(trainer.with_label_vectors(self.label_vectors.as_ref()))
    }

    /// The model of a trainer that [`FitRun::trainer`] started, with the CPU as its device. A trainer that has epochs left was
    /// interrupted, as the model's `about` then says.
    ///
    /// # Errors
    /// When a weight is not finite.
    pub fn finish(&self, trainer: Trainer<'_>) -> Result<Fitted> {
        let (history, best_epoch) = (trainer.history().to_vec(), trainer.best_epoch());
        let interrupted = !trainer.finished();
        let mut model = trainer.into_model(self.label_names.clone())?;
        let threshold = answer_threshold(&model, &self.train)?;
        model.preprocessing = self.preprocessing.clone();
        model.label_vectors.clone_from(&self.label_vectors);
        model.geometry.clone_from(&self.geometry);
        let (epochs, device) = (history.len(), About::CPU.to_owned());
        model.about = About { epochs, interrupted, best_epoch, threshold, device, ..self.about.clone() };
        Ok(Fitted { model, history, notes: self.notes.clone() })
    }
}

/// The rows to train on, and those held out.
fn hold_out(
    settings: &FitSettings,
    train: Dataset,
    notes: &mut Vec<String>,
) -> Result<(Dataset, Option<Dataset>)> {
    let Some(part) = settings.held_out(train.rows()) else { return Ok((train, None)) };
    let (kept, held) = train.split(part, settings.seed)?;
    let targets = held.targets();
    let mut counts = vec![0; targets.labels()];
    (0..held.rows()).for_each(|row| targets.row(row).iter().for_each(|&label| counts[label] += 1));
    if counts.iter().any(|count| (1..held.rows()).contains(count)) {
        return Ok((kept, Some(held)));
    }
    let found = format!("no label has both positive and negative rows among the {} held out", held.rows());
    if settings.validation.is_some() {
        let rule = "leave enough rows to compare".into();
        return Err(Error::Conflict { name: "validation", rule, found });
    }
    notes.push(format!("{found}; no rows are held out"));
    Ok((train, None))
}

/// The note about zero rows, which cannot be scaled to a length.
///
/// ```
/// assert!(robust_ot_learn::zero_rows_note(0, 10, "rows").is_none());
/// ```
pub fn zero_rows_note(zero: usize, all: usize, what: &str) -> Option<String> {
    (zero > 0)
        .then(|| format!("{zero} of {all} {what} are zero and cannot be scaled to a length; they stay zero"))
}

/// Refuses a model that memory cannot hold: weights, gradient, the optimizer's state and the best weights so far.
fn check_memory(train: &Dataset, settings: &TrainSettings, memory: Memory) -> Result<()> {
    let copies = if matches!(settings.optimizer, Optimizer::Sgd { .. }) { 4 } else { 5 };
    let (features, labels) = (train.features().columns(), train.targets().labels());
    let numbers = match settings.hidden {
        None => features.saturating_mul(labels),
        Some(hidden) => features.saturating_add(labels).saturating_mul(hidden.units),
    };
    let bytes = numbers.saturating_mul(copies * size_of::<f32>());
    if bytes <= memory.0 {
        return Ok(());
    }
    Err(Error::Shape {
        name: "a model",
        expected: format!("small enough for {memory} of memory"),
        found: match settings.hidden {
            None => format!("{features} features × {labels} labels, which take {}", Memory(bytes)),
            Some(HiddenSettings { units, .. }) => {
                format!(
                    "{features} features × {units} hidden units × {labels} labels, which take {}",
                    Memory(bytes)
                )
            }
        },
    })
}
