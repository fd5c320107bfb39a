//! Fitting a model to samples that are in memory: what `rot train` does once it has read its files, and what the Python
//! package does with its arrays.

use clap::{Args, Parser};
use ndarray::Array2;
use robust_ot::loss::LossSettings;
use robust_ot::{Interrupt, MetricSet};
use robust_ot_cuda::{Device, Training, product_rounding};
use robust_ot_learn::{
    About, Dataset, Epoch, Model, Objective, Optimizer, Preprocessing, RowLength, Standardization,
    TrainSettings, Trainer, threshold,
};

use crate::device::{DeviceChoice, Work, device_name};
use crate::failure::Failure;
use crate::loss_options::{LossOptions, Trained};
use crate::memory::Memory;
use crate::metric_options::SetOptions;
use crate::training_data::Samples;
use crate::training_options::{PrecisionName, TrainingOptions};

/// Rows that the threshold of many labels is chosen by, evenly drawn.
const THRESHOLD_ROWS: usize = 1000;

/// Loss, metric set and training: the options of `rot train` but for data and outputs.
#[derive(Debug, Clone, Args)]
pub struct FitOptions {
    #[command(flatten)]
    loss: LossOptions,
    #[command(flatten)]
    sets: SetOptions,
    #[command(flatten)]
    training: TrainingOptions,
}

/// What features go through first: columns, then rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preparation {
    /// What is done to columns.
    pub columns: Columns,
    /// The length that rows are scaled to.
    pub row_length: Option<RowLength>,
}

/// What is done to columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Columns {
    /// Nothing.
    AsTheyAre,
    /// A factor for all.
    Factor(f32),
    /// Mean zero and variance one; sparse ones are scaled only.
    Standardize,
}

impl Preparation {
    fn of(self, train: &Dataset) -> Preprocessing {
        let standardization = match self.columns {
            Columns::AsTheyAre => None,
            Columns::Factor(factor) => Some(Standardization::factor(train.features().columns(), factor)),
            Columns::Standardize => Some(Standardization::of(train.features())),
        };
        Preprocessing { standardization, row_length: self.row_length }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// Epoch by epoch.
    pub history: Vec<Epoch>,
    /// What the user should hear of.
    pub notes: Vec<String>,
}

/// Who is told how a run goes.
pub trait Watch {
    /// Before the first epoch.
    ///
    /// # Errors
    /// When the run cannot go on.
    fn begin(&mut self, _trainer: &mut Trainer) -> Result<(), Failure> {
        Ok(())
    }

    /// Of the batches of an epoch, so many are done.
    fn batch(&mut self, _done: usize, _all: usize) {}

    /// An epoch is done, of so many.
    ///
    /// # Errors
    /// When the run cannot go on.
    fn epoch(&mut self, _trainer: &mut Trainer, _epoch: &Epoch, _epochs: usize) -> Result<(), Failure> {
        Ok(())
    }

    /// What to say when it was interrupted.
    fn interrupted(&self, done: usize, epochs: usize) -> Failure {
        Failure::Interrupted(format!("interrupted after {done} of {epochs} epochs"))
    }
}

/// Options as words.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(flatten)]
    fit: FitOptions,
}

impl FitOptions {
    /// From words as on the command line.
    ///
    /// # Errors
    /// When one is no option, or its value is none it takes.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        Ok(Words::try_parse_from(words)?.fit)
    }

    /// Refuses what is out of range whatever the data.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.training.settings(usize::MAX, true).map(|_| ())
    }

    /// Of samples, of random groups and of the order of rows.
    pub(crate) fn seed(&self) -> u64 {
        self.training.seed
    }

    /// Whether the paper's protocol was asked for.
    pub(crate) fn follows_the_paper(&self) -> bool {
        self.training.protocol.is_some()
    }

    /// Holds rows out where that is asked for, prepares features, trains.
    ///
    /// # Errors
    /// When an option does not fit the data, training diverges or is interrupted.
    pub fn fit(
        &self,
        samples: Samples,
        preparation: Preparation,
        interrupt: &Interrupt,
        watch: &mut (dyn Watch + Send),
    ) -> Result<Fitted, Failure> {
        let mut notes = Vec::new();
        let Samples { train, validation, label_names, label_vectors, dropped_labels, first_index, .. } =
            samples;
        let (mut train, mut validation) = match validation {
            Some(validation) => (train, Some(validation)),
            None => self.hold_out(train, &mut notes)?,
        };
        let settings = self.training.settings(train.rows(), validation.is_some())?;
        check_memory(&train, &settings)?;
        let preprocessing = preparation.of(&train);
        let zero_rows = train.preprocess(&preprocessing)?;
        notes.extend(zero_rows_note(zero_rows, train.rows(), "training rows"));
        if let Some(validation) = &mut validation {
            let zero_rows = validation.preprocess(&preprocessing)?;
            notes.extend(zero_rows_note(zero_rows, validation.rows(), "validation rows"));
        }
        let Trained { objective, about, geometry } = self.trained(&train, label_vectors.as_ref())?;
        let (epochs, rows, version) = (settings.epochs, train.rows(), env!("CARGO_PKG_VERSION").into());
        let training = Some(settings.clone());
        let about = About { training, rows, dropped_labels, first_index, version, ..about };
        let device = self.device(&train, &objective, &settings)?;
        let mut trainer = Trainer::new(&train, validation.as_ref(), &objective, settings.clone())?;
        if let Some(device) = &device {
            let precision = self.training.precision.into();
            let engine = Training::new(device, &train, &objective, &settings, precision)?;
            if engine.is_streamed() {
                notes.push("the training set does not fit on the card, and is streamed to it".to_owned());
            }
            trainer = trainer.with_engine(Box::new(engine))?;
        }
        watch.begin(&mut trainer)?;
        train_all(&mut trainer, epochs, interrupt, watch)?;
        let (history, best_epoch) = (trainer.history().to_vec(), trainer.best_epoch());
        let mut model = trainer.into_model(label_names)?;
        let threshold = answer_threshold(&model, &train)?;
        let product_rounding = match &device {
            Some(device) if self.training.precision == PrecisionName::Tf32 => {
                let rounding = product_rounding(device, train.features(), model.weights())?;
                notes.push(format!("tf32 moves logits of training rows by {rounding:.1e} of their size"));
                Some(rounding)
            }
            _ => None,
        };
        let device = device_name(device.as_ref());
        model.preprocessing = preprocessing;
        model.label_vectors = label_vectors;
        model.geometry = geometry;
        model.about =
            About { epochs: history.len(), best_epoch, threshold, device, product_rounding, ..about };
        Ok(Fitted { model, history, notes })
    }

    /// What is minimised for these rows, and what a model keeps of it.
    ///
    /// # Errors
    /// When an option does not fit the data.
    pub fn trained(&self, train: &Dataset, label_vectors: Option<&Array2<f64>>) -> Result<Trained, Failure> {
        let TrainingOptions { protocol, seed, .. } = self.training;
        self.loss.read(&self.sets, protocol, seed, train, label_vectors)
    }

    /// How it is minimised where no rows are held out and no one knows how many there will be.
    ///
    /// # Errors
    /// When an option is out of range.
    pub fn settings(&self) -> Result<TrainSettings, Failure> {
        self.training.settings(usize::MAX, false)
    }

    /// The card to train on, if it is to be one.
    fn device(
        &self,
        train: &Dataset,
        objective: &Objective,
        settings: &TrainSettings,
    ) -> Result<Option<Device>, Failure> {
        let unfit = objective.transport().and_then(|(_, robust)| {
            let LossSettings { set, frank_wolfe, .. } = robust.settings();
            match set {
                MetricSet::Srw { .. } | MetricSet::Rkp { .. } => {
                    Some(format!("the loss {} is computed on the processor only", set.name()))
                }
                _ if *frank_wolfe > 1 => {
                    let rule = "--fw-iterations must be 1 there";
                    Some(format!("{rule}, but is {frank_wolfe}; more are for the processor"))
                }
                _ => None,
            }
        });
        let (rows, features, labels) = (train.rows(), train.features().columns(), objective.labels());
        let work = Work(rows as f64 * features as f64 * labels as f64 * settings.epochs as f64);
        self.training.device.open(work, unfit)
    }

    /// Trains on this device, whatever the options say.
    pub(crate) fn set_device(&mut self, device: DeviceChoice) {
        self.training.device = device;
    }

    /// The rows to train on, and those held out.
    fn hold_out(
        &self,
        train: Dataset,
        notes: &mut Vec<String>,
    ) -> Result<(Dataset, Option<Dataset>), Failure> {
        let Some(part) = self.training.held_out(train.rows()) else { return Ok((train, None)) };
        let (kept, held) = train.split(part, self.training.seed)?;
        let targets = held.targets();
        let mut counts = vec![0; targets.labels()];
        (0..held.rows()).for_each(|row| targets.row(row).iter().for_each(|&label| counts[label] += 1));
        if counts.iter().any(|count| (1..held.rows()).contains(count)) {
            return Ok((kept, Some(held)));
        }
        let what =
            format!("among {} rows held out no label has both positive and negative ones", held.rows());
        if self.training.validation.is_some() {
            return Err(Failure::Input(format!(
                "--validation must leave enough to compare, but {what}: {part}"
            )));
        }
        notes.push(format!("{what}; nothing is held out"));
        Ok((train, None))
    }
}

/// What to say of rows that were to be scaled to a length but are zero.
pub fn zero_rows_note(zero: usize, all: usize, what: &str) -> Option<String> {
    (zero > 0)
        .then(|| format!("{zero} of {all} {what} are zero and cannot be scaled to a length; they stay zero"))
}

fn train_all(
    trainer: &mut Trainer,
    epochs: usize,
    interrupt: &Interrupt,
    watch: &mut (dyn Watch + Send),
) -> Result<(), Failure> {
    // On a thread of the pool, work is handed out without a trip through its queue.
    rayon::scope(|_| {
        while !trainer.finished() {
            let done = trainer.history().len();
            let Some(epoch) = trainer.epoch(interrupt, |batch, batches| watch.batch(batch, batches))? else {
                return Err(watch.interrupted(done, epochs));
            };
            watch.epoch(trainer, &epoch, epochs)?;
        }
        Ok(())
    })
}

/// Where rows have several labels: what counts as an answer, by rows that have gone through the model's preparation.
///
/// # Errors
/// When the rows are not those of the model.
pub fn answer_threshold(model: &Model, train: &Dataset) -> Result<Option<f64>, Failure> {
    let rows = train.rows();
    if (0..rows).all(|row| train.targets().row(row).len() == 1) {
        return Ok(None);
    }
    let count = rows.min(THRESHOLD_ROWS);
    let drawn = train.select(&(0..count).map(|at| at * rows / count).collect::<Vec<_>>());
    let probabilities = model.probabilities_of_preprocessed(drawn.features())?;
    Ok(Some(threshold(probabilities.view(), model.output(), drawn.targets())?))
}

/// Refuses a model that cannot be held: weights, gradient, what the optimiser remembers, and the best so far.
fn check_memory(train: &Dataset, settings: &TrainSettings) -> Result<(), Failure> {
    let copies = if settings.optimizer == Optimizer::Adam { 5 } else { 4 };
    let (features, labels) = (train.features().columns(), train.targets().labels());
    let bytes = [features, labels, copies, size_of::<f32>()].into_iter().fold(1, usize::saturating_mul);
    let free = Memory(Memory::of_this_machine().0.saturating_mul(2));
    if bytes <= free.0 {
        return Ok(());
    }
    let needed = Memory(bytes);
    Err(Failure::Input(format!(
        "a model of {features} features and {labels} labels must fit into memory, but takes {needed} of {free}"
    )))
}
