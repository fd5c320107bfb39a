//! The loop: batches of an epoch, epochs of a run, and where it stands between them.

use std::time::Instant;

use ndarray::{Array2, ArrayView2};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::engine::{Engine, EpochWork};
use super::linear::{self, Batch, block_len};
use super::model::{Model, probabilities};
use super::objective::{Objective, ObjectiveRoom};
use super::optimizer::{Parameters, Step};
use super::settings::TrainSettings;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::kernels::sealed::Kernels;
use crate::linalg::flat;
use crate::loss::Targets;
use crate::score::rank;

/// What came of an epoch.
///
/// ```
/// use robust_ot::learn::Epoch;
/// let epoch = Epoch { epoch: 3, loss: 0.25, seconds: 0.1, validation_auc: None };
/// assert_eq!(epoch.epoch, 3);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: usize,
    /// The mean loss of a row while the weights were learnt, without weight decay.
    pub loss: f64,
    /// How long it took, without validation.
    pub seconds: f64,
    /// AUC on the rows held out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation_auc: Option<f64>,
}

/// A run of training.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Interrupt;
/// use robust_ot::data::Features;
/// use robust_ot::learn::{Dataset, Objective, TrainSettings, Trainer};
/// use robust_ot::loss::Targets;
///
/// let features = Features::Dense(array![[-2.0], [-1.0], [1.0], [2.0]]);
/// let data = Dataset::new(features, Targets::new(2, [[0], [0], [1], [1]])?)?;
/// let settings = TrainSettings { learning_rate: 0.1, epochs: 50, ..Default::default() };
/// let objective = Objective::cross_entropy(2);
/// let mut trainer = Trainer::new(&data, None, &objective, settings)?;
/// while let Some(epoch) = trainer.epoch(&Interrupt::default(), |_, _| ())? {
///     println!("{}: {}", epoch.epoch, epoch.loss);
/// }
/// let model = trainer.into_model(vec!["left".into(), "right".into()])?;
/// assert!(model.probabilities(Features::Dense(array![[1.5]]))?[[0, 1]] > 0.9);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct Trainer<'a> {
    pub(super) train: &'a Dataset,
    pub(super) validation: Option<&'a Dataset>,
    pub(super) objective: &'a Objective,
    pub(super) settings: TrainSettings,
    /// Behind that of the engine between an epoch and [`Trainer::fetch`].
    pub(super) state: State,
    engine: Option<Box<dyn Engine + 'a>>,
    behind: bool,
    room: Room,
}

/// Everything that the rest of a run depends on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub(super) weights: Parameters,
    pub(super) bias: Option<Parameters>,
    pub(super) progress: Progress,
    /// The weights and biases of the best epoch, where there is validation.
    pub(super) best: Option<(Vec<f32>, Vec<f32>)>,
}

impl State {
    /// Before the first step.
    pub(super) fn new(features: usize, labels: usize, settings: &TrainSettings) -> Self {
        let weights = Parameters::new(vec![settings.start; features * labels], settings.optimizer);
        let bias = settings.bias.then(|| Parameters::new(vec![0.0; labels], settings.optimizer));
        Self { weights, bias, progress: Progress::default(), best: None }
    }

    /// The weights of the last epoch, or of the best where there is validation.
    pub(super) fn into_model(self, objective: &Objective, label_names: Vec<String>) -> Result<Model> {
        let Self { weights, bias, best, .. } = self;
        let has_bias = bias.is_some();
        let (weights, bias) =
            best.unwrap_or_else(|| (weights.values, bias.map(|bias| bias.values).unwrap_or_default()));
        let weights = as_matrix(weights, objective.labels());
        Model::new(weights, has_bias.then_some(bias), objective.output(), label_names)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) steps: u64,
    pub(super) epochs: Vec<Epoch>,
    /// The epoch with the largest validation AUC, and that AUC.
    pub(super) best: Option<(usize, f64)>,
}

#[derive(Debug)]
struct Room {
    order: Vec<usize>,
    batch: Batch,
    targets: Targets,
    logits: Array2<f32>,
    objective: ObjectiveRoom,
}

impl<'a> Trainer<'a> {
    /// Begins a run.
    ///
    /// # Errors
    /// When a setting is outside its range, or data and objective differ in features or labels.
    pub fn new(
        train: &'a Dataset,
        validation: Option<&'a Dataset>,
        objective: &'a Objective,
        settings: TrainSettings,
    ) -> Result<Self> {
        settings.check()?;
        let (features, labels) = (train.features().columns(), objective.labels());
        for data in [Some(train), validation].into_iter().flatten() {
            let found = (data.features().columns(), data.targets().labels());
            if found != (features, labels) {
                return Err(Error::Shape {
                    name: "the data",
                    expected: format!("{features} features and {labels} labels wide"),
                    found: format!("{} features and {} labels wide", found.0, found.1),
                });
            }
        }
        if settings.patience.is_some() && validation.is_none() {
            return Err(Error::parameter(
                "patience",
                "absent where no rows are held out for validation",
                "set",
            ));
        }
        let state = State::new(features, labels, &settings);
        Ok(Self::with_state(train, validation, objective, settings, state))
    }

    /// Goes on from a state that fits.
    pub(super) fn with_state(
        train: &'a Dataset,
        validation: Option<&'a Dataset>,
        objective: &'a Objective,
        settings: TrainSettings,
        state: State,
    ) -> Self {
        let room = Room {
            order: Vec::new(),
            batch: Batch::room(train.features()),
            targets: train.targets().select(&[]),
            logits: Array2::zeros((0, objective.labels())),
            objective: ObjectiveRoom::default(),
        };
        Self { train, validation, objective, settings, state, engine: None, behind: false, room }
    }

    /// Makes the steps on another device from here on.
    ///
    /// # Errors
    /// When the device fails.
    pub fn with_engine(mut self, engine: Box<dyn Engine + 'a>) -> Result<Self> {
        self.engine = Some(engine);
        self.hand_over()?;
        Ok(self)
    }

    /// Gives the engine, if there is one, the weights that are here.
    pub(super) fn hand_over(&mut self) -> Result<()> {
        self.behind = false;
        let State { weights, bias, .. } = &self.state;
        self.engine.as_mut().map_or(Ok(()), |engine| engine.upload(weights, bias.as_ref()))
    }

    /// Takes the weights of the engine, if it is ahead.
    pub(super) fn fetch(&mut self) -> Result<()> {
        if let Some(engine) = self.engine.as_mut().filter(|_| self.behind) {
            engine.download(&mut self.state.weights, self.state.bias.as_mut())?;
            self.behind = false;
        }
        Ok(())
    }

    /// The epochs so far.
    pub fn history(&self) -> &[Epoch] {
        &self.state.progress.epochs
    }

    /// The epoch with the best validation AUC.
    pub fn best_epoch(&self) -> Option<usize> {
        self.state.progress.best.map(|(epoch, _)| epoch)
    }

    /// Whether all epochs are done, or validation has not improved for as long as patience lasts.
    pub fn finished(&self) -> bool {
        let done = self.history().len();
        let impatient = match (self.settings.patience, self.state.progress.best) {
            (Some(patience), Some((best, _))) => done >= best + patience,
            _ => false,
        };
        done >= self.settings.epochs || impatient
    }

    /// Runs one epoch; none when the run is finished or was interrupted, which leaves it where the epoch began only in a
    /// checkpoint. `progress` is told the batches done and all there are.
    ///
    /// # Errors
    /// When training diverges or the metric is not representable.
    pub fn epoch(
        &mut self,
        interrupt: &Interrupt,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Option<Epoch>> {
        if self.finished() {
            return Ok(None);
        }
        let start = Instant::now();
        let epoch = self.history().len() + 1;
        let rows = self.train.rows();
        // Every epoch has an order of its own, so that a run can go on from any of them.
        self.room.order.clear();
        self.room.order.extend(0..rows);
        let mut rng = ChaCha8Rng::seed_from_u64(self.settings.seed);
        rng.set_stream(epoch as u64);
        self.room.order.shuffle(&mut rng);
        let batches = rows.div_ceil(self.settings.batch);
        let mut sum = 0.0;
        if self.engine.is_some() {
            let Some(losses) = self.epoch_of_engine(epoch, interrupt, &mut progress)? else {
                return Ok(None);
            };
            sum = losses.iter().sum();
        } else {
            for batch in 0..batches {
                if interrupt.is_raised() {
                    return Ok(None);
                }
                let chosen = batch * self.settings.batch..((batch + 1) * self.settings.batch).min(rows);
                sum += self.batch(chosen, epoch, batch + 1)?;
                progress(batch + 1, batches);
            }
            let (least, _) = f32::extremes(&self.state.weights.values);
            if !least.is_finite() {
                return Err(Error::Diverged { what: "a weight", value: least, epoch, batch: batches });
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let validation_auc = self.validate()?;
        let found = Epoch { epoch, loss: sum / rows as f64, seconds, validation_auc };
        self.state.progress.epochs.push(found.clone());
        Ok(Some(found))
    }

    /// All steps of an epoch on the engine.
    fn epoch_of_engine(
        &mut self,
        number: usize,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Option<Vec<f64>>> {
        let done = self.state.progress.steps;
        let steps: Vec<Step> = (1..=self.train.rows().div_ceil(self.settings.batch) as u64)
            .map(|at| self.step(done + at))
            .collect();
        let Some(engine) = &mut self.engine else { return Ok(None) };
        self.behind = true;
        let order = &self.room.order;
        let losses = engine.epoch(EpochWork { number, order, steps: &steps, interrupt, progress })?;
        self.state.progress.steps += steps.len() as u64;
        Ok(losses)
    }

    /// What the optimiser does in the step of this number, counted from 1.
    fn step(&self, number: u64) -> Step {
        let settings = &self.settings;
        let all = settings.epochs as f64 * self.train.rows().div_ceil(settings.batch) as f64;
        let rate = settings.learning_rate * settings.schedule.factor((number - 1) as f64 / all);
        Step { optimizer: settings.optimizer, rate, decay: settings.weight_decay, number }
    }

    /// One step; returns the sum of the losses.
    fn batch(&mut self, chosen: std::ops::Range<usize>, epoch: usize, batch: usize) -> Result<f64> {
        let step = self.step(self.state.progress.steps + 1);
        let Self { train, objective, settings, state, room, .. } = self;
        let Room { order, batch: products, targets, logits, objective: objective_room } = room;
        let chosen = &order[chosen];
        let labels = objective.labels();
        targets.gather(train.targets(), chosen);
        if logits.nrows() != chosen.len() {
            *logits = Array2::zeros((chosen.len(), labels));
        }
        let weights = as_matrix_view(&state.weights.values, labels);
        let bias = state.bias.as_ref().map(|bias| bias.values.as_slice());
        products.forward(train.features(), chosen, weights, bias, logits.view_mut());
        let diverged = |what, value| Error::Diverged { what, value, epoch, batch };
        // NaN when any logit is not finite.
        let (least, _) = f32::extremes(flat(logits));
        if !least.is_finite() {
            let odd = logits.iter().find(|z| !z.is_finite()).copied().unwrap_or(f32::NAN);
            return Err(diverged("a logit", f64::from(odd)));
        }
        let loss = objective.evaluate(logits, targets, objective_room)?;
        if !loss.is_finite() {
            return Err(diverged("the loss", loss));
        }
        let factor = settings.reduction.factor(chosen.len()) as f32;
        logits.mapv_inplace(|g| g * factor);
        state.progress.steps += 1;
        let gradients = &*logits;
        state.weights.step(step, block_len(labels), |block, out| products.gradient(block, gradients, out));
        if let Some(bias) = &mut state.bias {
            bias.step(Step { decay: 0.0, ..step }, labels, |_, out| {
                out.fill(0.0);
                flat(gradients).chunks_exact(labels).for_each(|row| f32::add_own(out, 1.0, row));
            });
        }
        Ok(loss)
    }

    /// AUC on the rows held out; the best weights are kept.
    fn validate(&mut self) -> Result<Option<f64>> {
        let Some(validation) = self.validation else { return Ok(None) };
        let logits = if let Some(engine) = &mut self.engine {
            engine.logits(validation.features())?
        } else {
            let State { weights, bias, .. } = &self.state;
            let view = as_matrix_view(&weights.values, self.objective.labels());
            linear::logits(validation.features(), view, bias.as_ref().map(|bias| bias.values.as_slice()))
        };
        let progress = &self.state.progress;
        if let Some(odd) = logits.iter().find(|z| !z.is_finite()) {
            let epoch = progress.epochs.len() + 1;
            let what = "a logit of the validation rows";
            return Err(Error::Diverged { what, value: f64::from(*odd), epoch, batch: 0 });
        }
        let auc = rank(probabilities(&logits, self.objective.output()).view(), validation.targets())?.auc;
        if !auc.is_finite() {
            let rule =
                "large enough that some label has both positive and negative rows among those held out";
            return Err(Error::parameter("validation", rule, format!("{} rows", validation.rows())));
        }
        if progress.best.is_none_or(|(_, best)| auc > best) {
            self.fetch()?;
            let State { weights, bias, progress, best } = &mut self.state;
            progress.best = Some((progress.epochs.len() + 1, auc));
            let bias = bias.as_ref().map(|bias| bias.values.clone()).unwrap_or_default();
            *best = Some((weights.values.clone(), bias));
        }
        Ok(Some(auc))
    }

    /// The model of the last epoch, or of the best where there is validation.
    ///
    /// # Errors
    /// When names are not as many as labels, or a weight is not finite.
    pub fn into_model(mut self, label_names: Vec<String>) -> Result<Model> {
        self.fetch()?;
        self.state.into_model(self.objective, label_names)
    }
}

/// Features × labels numbers as a matrix.
fn as_matrix(numbers: Vec<f32>, labels: usize) -> Array2<f32> {
    Array2::from_shape_vec((numbers.len() / labels, labels), numbers).expect("whole rows")
}

fn as_matrix_view(numbers: &[f32], labels: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((numbers.len() / labels, labels), numbers).expect("whole rows")
}
