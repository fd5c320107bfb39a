//! The training loop: batches of an epoch, epochs of a run, and the state between them.

use std::time::Instant;

use ndarray::Array2;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Kernels, Result};
use serde::{Deserialize, Serialize};

use crate::criterion::{Criterion, HeldScores};
use crate::dataset::Dataset;
use crate::engine::{Engine, EpochWork};
use crate::hidden_layer::{LayerView, logits};
use crate::model::{Model, probabilities};
use crate::objective::Objective;
use crate::optimizer::Step;
use crate::settings::{Reduction, TrainSettings};
use crate::slopes::Slopes;
use crate::state::{Layer, State, output_weights};

/// The result of an epoch.
///
/// ```
/// use robust_ot_learn::Epoch;
/// let epoch = Epoch { epoch: 3, loss: 0.25, seconds: 0.1, validation_auc: None, validation_score: None };
/// assert_eq!(epoch.epoch, 3);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// The mean loss per row while the weights were learned, without weight decay.
    pub loss: f64,
    /// Duration, without validation.
    pub seconds: f64,
    /// AUC on the held-out rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation_auc: Option<f64>,
    /// How good the criterion finds the held-out rows, if it is another than AUC; larger is better.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation_score: Option<f64>,
}

/// A training run.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, Objective, TrainSettings, Trainer};
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
    label_vectors: Option<&'a Array2<f64>>,
    pub(super) settings: TrainSettings,
    /// Out of date between an epoch on the engine and [`Trainer::fetch`].
    pub(super) state: State,
    engine: Option<Box<dyn Engine + 'a>>,
    behind: bool,
    /// The inverse of the mean weight of a row.
    scale: f64,
    /// The rows, in the order of the epoch.
    order: Vec<usize>,
    slopes: Slopes,
}

impl<'a> Trainer<'a> {
    /// Starts a run.
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

    /// Continues from a state of matching sizes.
    pub(super) fn with_state(
        train: &'a Dataset,
        validation: Option<&'a Dataset>,
        objective: &'a Objective,
        settings: TrainSettings,
        state: State,
    ) -> Self {
        let slopes = Slopes::workspace(train, &settings);
        let scale = train.rows() as f64 / train.total_weight();
        let order = Vec::new();
        Self {
            train,
            validation,
            objective,
            label_vectors: None,
            settings,
            state,
            engine: None,
            behind: false,
            scale,
            order,
            slopes,
        }
    }

    /// Gives labels the vectors that the criterion [`Criterion::Semantic`] needs.
    #[must_use]
    pub fn with_label_vectors(mut self, vectors: Option<&'a Array2<f64>>) -> Self {
        self.label_vectors = vectors;
        self
    }

    /// Runs all further steps on another device.
    ///
    /// # Errors
    /// When the model has a hidden layer, which only the CPU trains, or the device fails.
    pub fn with_engine(mut self, engine: Box<dyn Engine + 'a>) -> Result<Self> {
        if let Some(hidden) = self.settings.hidden {
            return Err(Error::parameter("hidden", "absent on devices other than the CPU", hidden.units));
        }
        if self.train.weights().is_some() {
            let rule = "absent on devices other than the CPU";
            return Err(Error::parameter("sample_weights", rule, "given"));
        }
        self.engine = Some(engine);
        self.hand_over()?;
        Ok(self)
    }

    /// Uploads the weights to the engine, if there is one.
    pub(super) fn hand_over(&mut self) -> Result<()> {
        self.behind = false;
        let State { weights, bias, .. } = &self.state;
        self.engine.as_mut().map_or(Ok(()), |engine| engine.upload(weights, bias.as_ref()))
    }

    /// Downloads the weights from the engine, if they are newer.
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

    /// The epoch with the best validation score.
    pub fn best_epoch(&self) -> Option<usize> {
        self.state.progress.best.map(|(epoch, _)| epoch)
    }

    /// The steps so far, with those of an interrupted epoch.
    pub fn steps(&self) -> u64 {
        self.state.progress.steps
    }

    /// Whether all epochs are done, or validation has not improved for `patience` epochs.
    pub fn finished(&self) -> bool {
        let done = self.history().len();
        let impatient = match (self.settings.patience, self.state.progress.best) {
            (Some(patience), Some((best, _))) => done >= best + patience,
            _ => false,
        };
        done >= self.settings.epochs || impatient
    }

    /// Runs one epoch. Returns `None` if the run is finished or interrupted; steps of an interrupted epoch stay applied,
    /// so only a checkpoint holds the state before it. `progress` is called with the number of batches done and the
    /// total.
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
        // Every epoch has its own order, so that a run can resume from any epoch.
        self.order.clear();
        self.order.extend(0..rows);
        let mut rng = ChaCha8Rng::seed_from_u64(self.settings.seed);
        rng.set_stream(epoch as u64);
        self.order.shuffle(&mut rng);
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
            let State { weights, hidden, .. } = &self.state;
            for weights in [Some(weights), hidden.as_ref().map(|layer| &layer.weights)].into_iter().flatten()
            {
                let (least, _) = f32::extremes(&weights.values);
                if !least.is_finite() {
                    return Err(Error::Diverged { what: "a weight", value: least, epoch, batch: batches });
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let scores = self.validate()?;
        let select = self.settings.select;
        let validation_score = scores.filter(|_| select != Criterion::Auc).map(|scores| select.of(&scores));
        let validation_auc = scores.map(|scores| scores.auc);
        let loss = sum / self.train.total_weight();
        let found = Epoch { epoch, loss, seconds, validation_auc, validation_score };
        self.state.progress.epochs.push(found.clone());
        Ok(Some(found))
    }

    /// Runs all steps of an epoch on the engine.
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
        let order = &self.order;
        let losses = engine.epoch(EpochWork { number, order, steps: &steps, interrupt, progress })?;
        self.state.progress.steps += steps.len() as u64;
        Ok(losses)
    }

    /// The optimizer step of this number, counted from 1.
    fn step(&self, number: u64) -> Step {
        let settings = &self.settings;
        let all = settings.epochs as f64 * self.train.rows().div_ceil(settings.batch) as f64;
        let rate = settings.learning_rate * settings.schedule.factor((number - 1) as f64 / all);
        Step { optimizer: settings.optimizer, rate, decay: settings.weight_decay, number }
    }

    /// Takes one step and returns the sum of the losses.
    fn batch(&mut self, chosen: std::ops::Range<usize>, epoch: usize, batch: usize) -> Result<f64> {
        let step = self.step(self.state.progress.steps + 1);
        let Self { train, objective, settings, state, scale, order, slopes, .. } = self;
        let chosen = &order[chosen];
        let loss = slopes.find((train, chosen), objective, state, (epoch, batch))?;
        // A mean does not depend on the scale of the weights.
        let scale = if settings.reduction == Reduction::Mean { *scale } else { 1.0 };
        slopes.scale((scale * settings.reduction.factor(chosen.len())) as f32);
        slopes.descend(step, objective, state);
        state.progress.steps += 1;
        Ok(loss)
    }

    /// Scores the held-out rows and keeps the best weights.
    fn validate(&mut self) -> Result<Option<HeldScores>> {
        let Some(validation) = self.validation else { return Ok(None) };
        let logits = if let Some(engine) = &mut self.engine {
            engine.logits(validation.features())?
        } else {
            let State { hidden, weights, bias, .. } = &self.state;
            let weights = output_weights(&weights.values, self.objective);
            let bias = bias.as_ref().map(|bias| bias.values.as_slice());
            logits(validation.features(), hidden.as_ref().map(Layer::view), weights.view(), bias)
        };
        let progress = &self.state.progress;
        if let Some(odd) = logits.iter().find(|z| !z.is_finite()) {
            let epoch = progress.epochs.len() + 1;
            let what = "a logit of the validation rows";
            return Err(Error::Diverged { what, value: f64::from(*odd), epoch, batch: 0 });
        }
        let select = self.settings.select;
        select.check(self.label_vectors.is_some())?;
        let vectors = self.label_vectors.filter(|_| select == Criterion::Semantic);
        let probabilities = probabilities(&logits, self.objective.output());
        let scores = HeldScores::of(probabilities.view(), validation.targets(), vectors)?;
        if !scores.auc.is_finite() {
            let rule =
                "large enough that some label has both positive and negative rows among those held out";
            return Err(Error::parameter("validation", rule, format!("{} rows", validation.rows())));
        }
        let value = select.of(&scores);
        if progress.best.is_none_or(|(_, best)| value > best) {
            self.fetch()?;
            self.state.progress.best = Some((self.state.progress.epochs.len() + 1, value));
            self.state.best = Some(self.state.values());
        }
        Ok(Some(scores))
    }

    /// The probabilities of the held-out rows by the weights of the best epoch, if there is one.
    pub(super) fn best_probabilities(&self) -> Option<Array2<f64>> {
        let (validation, best) = (self.validation?, self.state.best.as_ref()?);
        let hidden = best.hidden.as_ref().map(|(weights, bias)| LayerView::new(weights, bias));
        let weights = output_weights(&best.weights, self.objective);
        let bias = (!best.bias.is_empty()).then_some(best.bias.as_slice());
        let logits = logits(validation.features(), hidden, weights.view(), bias);
        Some(probabilities(&logits, self.objective.output()))
    }

    /// The model of the last epoch, or of the best epoch if there is validation.
    ///
    /// # Errors
    /// When the number of names differs from the number of labels, or a weight is not finite.
    pub fn into_model(mut self, label_names: Vec<String>) -> Result<Model> {
        self.fetch()?;
        self.state.into_model(self.objective, label_names)
    }
}
