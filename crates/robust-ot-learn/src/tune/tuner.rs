//! Tuning: a linear model over all rows, then brackets of candidates that are trained in steps, then the final fit.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};
use serde_json::{Value, json};

use super::bracket::{Arena, Past, refit_share, rungs};
use super::candidate::{Candidate, StepLoss, Steps, TuneScaling};
use super::clock::Clock;
use super::contender::{Judge, prepare};
use super::journal::{Journal, Record};
use super::space::Space;
use super::standing::order;
use super::trial::Trial;
use crate::criterion::{Criterion, HeldScores};
use crate::data::Features;
use crate::dataset::Dataset;
use crate::fingerprint::Fingerprint;
use crate::fit::{
    FitEvent, FitRun, FitSettings, Fitted, FullFit, Method, Samples, decomposition_of, too_few_to_choose,
    work_of,
};
use crate::label_kernel::PriorGeometry;
use crate::model::Model;
use crate::selection::{HeldOut, Split, Tried};
use crate::trainer::Epoch;

/// The part of the budget that the linear model may take.
const OF_LINEAR: f64 = 0.5;
/// The part of the budget that measuring an epoch may take, and the most seconds.
const OF_PROBE: (f64, f64) = (0.02, 1.0);
/// The most candidates of a bracket.
const MOST: usize = 9;
/// The epochs that the first rung of a bracket should have room for: with fewer, slow learners seem to be bad ones.
const FIRST_EPOCHS: f64 = 6.0;
/// The most folds for models that are trained in steps.
const MOST_FOLDS: usize = 5;
/// Rows are held out in turn if the budget has room for so many epochs of all folds, else once.
const EPOCHS_OF_FOLDS: f64 = 300.0;
/// The fraction that is held out once.
const HELD_OUT: f64 = 0.2;
/// The file of the linear model.
const LINEAR: &str = "linear.safetensors";

/// What to tune, and for how long.
///
/// ```
/// use std::time::Duration;
///
/// use ndarray::Array2;
/// use robust_ot::loss::Targets;
/// use robust_ot::solve::Interrupt;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Criterion, Dataset, FitSettings, Samples, Tuning};
///
/// let rows = Array2::from_shape_fn((90, 2), |(row, column)| (row % (column + 2)) as f32);
/// let train = Dataset::new(Features::Dense(rows), Targets::new(2, (0..90).map(|row| [row % 2]))?)?;
/// let samples = Samples::new(train, vec!["even".into(), "odd".into()]);
/// let tuning = Tuning::new(FitSettings::default(), Duration::from_secs(2), Criterion::Auc);
/// let tuned = tuning.run(samples, &Interrupt::default(), &mut |_| ())?.expect("nothing interrupts it");
/// assert_eq!(tuned.trials[0].scores.auc, 1.0); // the best comes first
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tuning {
    /// What candidates do not choose: the scaling if it is stated, the seed, the rows to hold out, the memory.
    pub settings: FitSettings,
    /// The time for everything, with the final fit.
    pub budget: Duration,
    /// What candidates are compared by.
    pub select: Criterion,
    /// The folder that keeps what is found, so that a killed run can go on.
    pub folder: Option<PathBuf>,
    /// Whether to go on with what is in the folder.
    pub resume: bool,
}

/// What happens while models are tuned.
#[derive(Debug)]
#[non_exhaustive]
pub enum TuneEvent<'a> {
    /// A linear model was scored on the held-out rows.
    Tried(&'a Tried),
    /// An epoch of a candidate ended.
    Epoch {
        /// The candidate.
        candidate: Candidate,
        /// The epoch.
        epoch: &'a Epoch,
    },
    /// A candidate was scored.
    Scored(&'a Trial),
    /// The final fit begins.
    Refit {
        /// The winner.
        candidate: Candidate,
        /// Its number of epochs.
        epochs: usize,
    },
    /// An epoch of the final fit ended.
    Refitted(&'a Epoch),
}

/// The outcome of tuning.
#[derive(Debug)]
pub struct Tuned {
    /// The winner, fitted to all rows.
    pub fitted: Fitted,
    /// Every candidate that was scored, the best first.
    pub trials: Vec<Trial>,
    /// The options of `rot train` that fit the winner again, beside the seed and those of the data.
    pub options: Vec<(&'static str, Value)>,
    /// Seconds in all.
    pub seconds: f64,
    /// Seconds spent on fits: on epochs with their validation, on linear models, and on the final fit.
    pub fitting_seconds: f64,
    /// The number of parts in which rows were held out in turn.
    pub folds: usize,
}

impl Tuning {
    /// Settings without a folder.
    pub fn new(settings: FitSettings, budget: Duration, select: Criterion) -> Self {
        Self { settings, budget, select, folder: None, resume: false }
    }

    /// Tries candidates until the budget is spent, and fits the best one to all rows. Returns `None` once interrupted.
    ///
    /// # Errors
    /// When a setting does not fit the data, the budget is too small for one model, or a file cannot be written.
    pub fn run(
        &self,
        samples: Samples,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(TuneEvent),
    ) -> Result<Option<Tuned>> {
        self.settings.check()?;
        self.select.check(samples.label_vectors.is_some())?;
        let mut journal = Journal::open(self.folder.as_deref(), self.resume, &self.fingerprint(&samples))?;
        let clock = Clock::new(self.budget, journal.elapsed());
        if journal.past.is_empty() {
            self.check_budget(&samples, &clock, interrupt)?;
        }
        let validation = if let Some(Record::Validation { part }) = journal.past.get(1) {
            *part
        } else {
            let part = self.part_held_out(&samples, interrupt)?;
            journal.write(&Record::Validation { part })?;
            part
        };
        let mut settings = self.settings.clone();
        settings.validation = validation;
        let folds = self.folds(&samples, validation)?;
        let judge = Judge {
            held: HeldOut::of(folds.iter().filter_map(|fold| Some((&fold.train, fold.validation.as_ref()?)))),
            select: self.select,
            vectors: samples.label_vectors.clone().filter(|_| self.select == Criterion::Semantic),
        };
        let mut run = Run {
            tuning: self,
            settings,
            samples,
            folds,
            judge,
            clock,
            interrupt,
            notes: Vec::new(),
            linear: None,
            trials: Vec::new(),
            fitting: 0.0,
        };
        let past = std::mem::take(&mut journal.past);
        if !run.fit_linear(&past, &mut journal, tell)? || !run.brackets(&past, &mut journal, tell)? {
            return Ok(None);
        }
        run.finish(tell)
    }

    /// A hash of everything that a journal depends on.
    fn fingerprint(&self, samples: &Samples) -> String {
        let mut hash = Fingerprint::default();
        hash.add_dataset(&samples.train);
        samples.validation.iter().for_each(|rows| hash.add_dataset(rows));
        samples.label_vectors.iter().flatten().for_each(|x| hash.add(x.to_bits()));
        let FitSettings { preparation, validation, seed, .. } = &self.settings;
        hash.add_text(&format!("{preparation:?} {validation:?} {seed} {}", self.select));
        hash.hex()
    }

    /// The rows to train on and those held out, as `rot train` holds them out.
    fn folds(&self, samples: &Samples, part: Option<f64>) -> Result<Vec<Samples>> {
        let Samples { train, validation, .. } = samples;
        if validation.is_some() {
            if self.settings.validation.is_some() {
                return Err(Error::Conflict {
                    name: "validation",
                    rule: "go without validation rows of their own".into(),
                    found: "both are given".into(),
                });
            }
            return Ok(vec![samples.clone()]);
        }
        if self.settings.validation == Some(0.0) {
            return Err(Error::parameter("validation", "above 0, since held-out rows choose", 0.0));
        }
        let work = work_of(train) + decomposition_of(train);
        let splits = Split::all(train.targets(), part, work, self.settings.seed);
        if splits.is_empty() {
            let found = format!("there are {} rows", train.rows());
            let rule = "leave rows on both sides, two of some label at least".into();
            return Err(Error::Conflict { name: "validation", rule, found });
        }
        Ok(splits
            .iter()
            .take(MOST_FOLDS)
            .map(|split| Samples {
                train: train.select(&split.train),
                validation: Some(train.select(&split.held)),
                ..samples.clone()
            })
            .collect())
    }

    /// The part of the rows to hold out: what is given, or every row in turn if the budget has room for it. With few rows per
    /// label, a linear model would choose nothing unless a part is given.
    fn part_held_out(&self, samples: &Samples, interrupt: &Interrupt) -> Result<Option<f64>> {
        let given = samples.validation.is_some() || self.settings.validation.is_some();
        if !given && too_few_to_choose(&samples.train) {
            return Ok(Some(HELD_OUT));
        }
        let folds = self.folds(samples, self.settings.validation)?;
        if folds.len() == 1 {
            return Ok(self.settings.validation);
        }
        let space = Space::of(samples, &self.settings, None);
        let Some(usual) = space.candidates(0).next() else { return Ok(None) };
        let limit = (OF_PROBE.0 * self.budget.as_secs_f64()).min(OF_PROBE.1);
        let seconds = self.seconds_per_epoch(&usual, &folds, limit, interrupt)?;
        Ok((EPOCHS_OF_FOLDS * seconds > self.budget.as_secs_f64()).then_some(HELD_OUT))
    }

    /// Seconds of an epoch of this candidate over all folds, measured for a moment.
    fn seconds_per_epoch(
        &self,
        steps: &Steps,
        folds: &[Samples],
        limit: f64,
        interrupt: &Interrupt,
    ) -> Result<f64> {
        let runs = prepare(steps, &folds[..1], &self.settings, self.select)?;
        let mut trainer = runs[0].trainer()?;
        let (start, mut done) = (Instant::now(), (0, 1));
        trainer.epoch(&interrupt.until(Clock::after(limit)), |batch, batches| done = (batch, batches))?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(seconds * done.1 as f64 / done.0.max(1) as f64 * folds.len() as f64)
    }

    /// Refuses a budget that does not suffice for one epoch of a linear model and another one in the end.
    fn check_budget(&self, samples: &Samples, clock: &Clock, interrupt: &Interrupt) -> Result<()> {
        let Self { settings, select, .. } = self;
        let budget = self.budget.as_secs_f64();
        let cheapest = Steps {
            loss: StepLoss::Bce,
            hidden: None,
            scaling: TuneScaling::Given,
            prior: PriorGeometry::None,
            learning_rate: 1e-3,
            weight_decay: 0.0,
        };
        let start = Instant::now();
        let settings = Candidate::Steps(cheapest).settings(settings, *select);
        let plain = Samples { validation: None, ..samples.clone() };
        let mut settings = FitSettings { validation: Some(0.0), select: None, ..settings };
        settings.training.patience = None;
        let run = FitRun::new(&settings, plain)?;
        let mut trainer = run.trainer()?;
        let limit = (OF_PROBE.0 * budget).min(OF_PROBE.1);
        let (begun, mut done) = (Instant::now(), (0, 1));
        let until = interrupt.until(Clock::after(limit));
        trainer.epoch(&until, |batch, batches| done = (batch, batches))?;
        let part = done.0.max(1) as f64 / done.1 as f64;
        let seconds = start.elapsed().as_secs_f64() + 2.0 * begun.elapsed().as_secs_f64() / part;
        if clock.left() >= seconds {
            return Ok(());
        }
        let rule = format!("long enough for one model, about {seconds:.2} s with one epoch of the simplest");
        Err(Error::parameter("budget", rule, format!("{budget} s")))
    }
}

/// A run in progress.
struct Run<'a> {
    tuning: &'a Tuning,
    /// Those of the tuning, with the part that is held out.
    settings: FitSettings,
    samples: Samples,
    folds: Vec<Samples>,
    judge: Judge,
    clock: Clock,
    interrupt: &'a Interrupt,
    notes: Vec<String>,
    /// The fit over all rows, if there is one.
    linear: Option<Fitted>,
    trials: Vec<Trial>,
    /// Seconds spent on fits.
    fitting: f64,
}

impl Run<'_> {
    /// The rows of the final fit over those of all folds.
    fn ratio(&self) -> f64 {
        let of_folds: usize = self.folds.iter().map(|fold| fold.train.rows()).sum();
        self.samples.train.rows() as f64 / of_folds as f64
    }

    /// Fits a linear model over all rows, unless they are too many or its time is up. Returns whether nothing interrupted it.
    fn fit_linear(
        &mut self,
        past: &[Record],
        journal: &mut Journal,
        tell: &mut dyn FnMut(TuneEvent),
    ) -> Result<bool> {
        let file = self.tuning.folder.as_deref().map(|folder| folder.join(LINEAR));
        if let Some((trial, file)) = past.iter().find_map(|record| match record {
            Record::Linear { trial, .. } => Some((trial, &file)),
            _ => None,
        }) {
            let (Some(trial), Some(file)) = (trial, file) else { return Ok(true) };
            self.fitting += trial.seconds;
            self.trials.push(trial.clone());
            let model = Model::load(file)?;
            self.linear = Some(Fitted { model, history: Vec::new(), notes: Vec::new() });
            return Ok(true);
        }
        let settings = Candidate::Linear.settings(&self.settings, self.tuning.select);
        let (method, why) = self.tuning.settings.method_for(&self.samples.train);
        if method == Method::Stochastic {
            self.notes.extend(why);
            return Ok(true);
        }
        let start = Instant::now();
        let until = self.interrupt.until(Clock::after(OF_LINEAR * self.clock.left()));
        let mut on_event = |event: FitEvent| {
            if let FitEvent::Tried(tried) = event {
                tell(TuneEvent::Tried(tried));
            }
        };
        let fitted = FullFit::new(&settings, self.samples.clone())?.run(&until, &mut on_event)?;
        let seconds = start.elapsed().as_secs_f64();
        self.fitting += seconds;
        if self.interrupt.is_raised() {
            return Ok(false);
        }
        let fitted = fitted.filter(|fitted| !fitted.model.about.interrupted);
        let elapsed = self.clock.elapsed();
        let select = self.tuning.select;
        let better = |x: &&Tried, y: &&Tried| select.of(&x.scores()).total_cmp(&select.of(&y.scores()));
        let best = fitted.as_ref().and_then(|fitted| fitted.model.about.tried.iter().max_by(better));
        let trial = best.map(|tried| {
            let scores = tried.scores();
            let path = vec![(elapsed, scores)];
            Trial { candidate: Candidate::Linear, scores, epochs: 0, best_epoch: 0, seconds, path }
        });
        match (&fitted, &trial) {
            (None, _) => self.notes.push(format!(
                "a linear model over all rows took more than {:.0} % of the budget and was left out",
                100.0 * OF_LINEAR
            )),
            // Nothing was compared, so that it has no score beside the others.
            (Some(_), None) => {}
            (Some(fitted), Some(trial)) => {
                if let Some(file) = &file {
                    fitted.model.save(file)?;
                }
                tell(TuneEvent::Scored(trial));
            }
        }
        journal.write(&Record::Linear { trial: trial.clone(), elapsed })?;
        self.linear = fitted.filter(|_| trial.is_some());
        self.trials.extend(trial);
        Ok(true)
    }

    /// Lets candidates compete, bracket after bracket, until the time is up. Returns whether nothing interrupted it.
    fn brackets(
        &mut self,
        past: &[Record],
        journal: &mut Journal,
        tell: &mut dyn FnMut(TuneEvent),
    ) -> Result<bool> {
        let linear = self.linear.as_ref().map(|fitted| &fitted.model);
        let space = Space::of(&self.samples, &self.tuning.settings, linear);
        let mut candidates = space.candidates(self.tuning.settings.seed);
        let mut past = brackets_of(past).into_iter();
        let mut epoch_seconds: Option<f64> = None;
        for number in 0.. {
            let reserve = self.reserve();
            let (chosen, done) = if let Some((chosen, done)) = past.next() {
                candidates.by_ref().take(chosen.len()).for_each(|_| ());
                (chosen, done)
            } else {
                let Some(first) = candidates.next() else { break };
                let seconds = if let Some(seconds) = epoch_seconds {
                    seconds
                } else {
                    let limit = (OF_PROBE.0 * self.clock.left()).min(OF_PROBE.1);
                    self.tuning.seconds_per_epoch(&first, &self.folds, limit, self.interrupt)?
                };
                let Some(count) = self.room(seconds, reserve) else { break };
                let others = candidates.by_ref().take(count - 1);
                let chosen: Vec<Steps> = std::iter::once(first).chain(others).collect();
                let elapsed = self.clock.elapsed();
                journal.write(&Record::Bracket { candidates: chosen.clone(), elapsed })?;
                (chosen, Past::new())
            };
            let arena = Arena {
                folds: &self.folds,
                base: &self.tuning.settings,
                judge: &self.judge,
                clock: &self.clock,
                folder: self.tuning.folder.as_deref(),
                ratio: self.ratio(),
                interrupt: self.interrupt,
            };
            let found = arena.compete(number, &chosen, (&done, reserve), journal, &mut self.notes, tell)?;
            let Some(found) = found else { return Ok(false) };
            if found.is_empty() {
                break;
            }
            let passes: usize = found.iter().map(|trial| trial.epochs).sum();
            let seconds: f64 = found.iter().map(|trial| trial.seconds).sum();
            epoch_seconds = Some(seconds / passes.max(1) as f64);
            self.fitting += seconds;
            self.trials.extend(found);
        }
        Ok(true)
    }

    /// Seconds that the final fit of the best trial so far would take.
    fn reserve(&self) -> f64 {
        let best = self.best();
        best.map_or(0.0, |trial| {
            trial.best_epoch as f64 * trial.seconds / trial.epochs.max(1) as f64 * self.ratio()
        })
    }

    /// The number of candidates that the time and the memory left have room for.
    fn room(&self, epoch_seconds: f64, reserve: f64) -> Option<usize> {
        let left = self.clock.left() - reserve;
        let bytes = bytes_of(&self.samples.train) * self.folds.len();
        let most = (self.tuning.settings.memory.0 / 2 / bytes.max(1)).clamp(1, MOST);
        let fits = |count: &usize| {
            let of_bracket = left / (1.0 + refit_share(*count, self.ratio()));
            of_bracket / rungs(*count) as f64 >= FIRST_EPOCHS * epoch_seconds * *count as f64
        };
        // A single candidate needs time for two epochs and their refit.
        (1..=most).rev().find(fits).filter(|count| *count > 1 || left > 4.0 * epoch_seconds)
    }

    /// The best trial.
    fn best(&self) -> Option<&Trial> {
        let scores: Vec<HeldScores> = self.trials.iter().map(|trial| trial.scores).collect();
        order(&scores, self.tuning.select).first().map(|&place| &self.trials[place])
    }

    /// Fits the winner to all rows.
    fn finish(mut self, tell: &mut dyn FnMut(TuneEvent)) -> Result<Option<Tuned>> {
        let Some(best) = self.best().cloned() else {
            let budget = self.tuning.budget.as_secs_f64();
            let rule = "long enough for one epoch of a model and its final fit";
            return Err(Error::parameter("budget", rule, format!("{budget} s")));
        };
        let select = self.tuning.select;
        let mut options = best.candidate.options(select);
        let linear = self.linear.take().filter(|_| best.candidate == Candidate::Linear);
        let fitted = if let Some(fitted) = linear {
            let part = self.settings.validation;
            options.extend(part.map(|part| ("validation", json!(part))));
            fitted
        } else {
            let epochs = best.best_epoch.max(1);
            options.extend([("epochs", json!(epochs)), ("validation", json!(0))]);
            tell(TuneEvent::Refit { candidate: best.candidate, epochs });
            let start = Instant::now();
            let Some(fitted) = self.refit(&best.candidate, epochs, tell)? else { return Ok(None) };
            self.fitting += start.elapsed().as_secs_f64();
            fitted
        };
        let Fitted { model, history, notes } = fitted;
        self.notes.extend(notes);
        let scores: Vec<HeldScores> = self.trials.iter().map(|trial| trial.scores).collect();
        let trials = order(&scores, select).into_iter().map(|place| self.trials[place].clone()).collect();
        Ok(Some(Tuned {
            fitted: Fitted { model, history, notes: self.notes },
            trials,
            options,
            seconds: self.clock.elapsed(),
            fitting_seconds: self.fitting,
            folds: self.folds.len(),
        }))
    }

    fn refit(
        &self,
        candidate: &Candidate,
        epochs: usize,
        tell: &mut dyn FnMut(TuneEvent),
    ) -> Result<Option<Fitted>> {
        let mut settings = candidate.settings(&self.tuning.settings, self.tuning.select);
        (settings.training.epochs, settings.training.patience) = (Some(epochs), None);
        (settings.validation, settings.select) = (Some(0.0), None);
        let run = FitRun::new(&settings, Samples { validation: None, ..self.samples.clone() })?;
        let mut trainer = run.trainer()?;
        while let Some(epoch) = trainer.epoch(self.interrupt, |_, _| ())? {
            tell(TuneEvent::Refitted(&epoch));
        }
        if !trainer.finished() {
            return Ok(None);
        }
        run.finish(trainer).map(Some)
    }
}

/// The brackets of earlier sessions: their candidates, and what was scored of them.
fn brackets_of(past: &[Record]) -> Vec<(Vec<Steps>, Past)> {
    let mut brackets: Vec<(Vec<Steps>, Past)> = Vec::new();
    for record in past {
        match record {
            Record::Bracket { candidates, .. } => brackets.push((candidates.clone(), Past::new())),
            Record::Scored { rung, place, trial, .. } => {
                if let Some((_, done)) = brackets.last_mut() {
                    done.push((*rung, *place, trial.clone()));
                }
            }
            Record::Start { .. } | Record::Validation { .. } | Record::Linear { .. } => {}
        }
    }
    brackets
}

/// The memory that the rows of a fold take.
fn bytes_of(train: &Dataset) -> usize {
    match train.features() {
        Features::Dense(all) => all.len() * size_of::<f32>(),
        Features::Sparse(all) => {
            (0..all.rows()).map(|row| all.row(row).0.len()).sum::<usize>() * 2 * size_of::<f32>()
        }
    }
}
