//! What to tune, for how long, on which held-out rows; and the outcome.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};
use serde_json::Value;

use super::candidate::{Candidate, StepLoss, Steps, TuneScaling};
use super::clock::Clock;
use super::contender::{Judge, prepare};
use super::journal::{Journal, Record};
use super::run::Run;
use super::space::Space;
use super::trial::Trial;
use crate::criterion::Criterion;
use crate::fingerprint::Fingerprint;
use crate::fit::{FitRun, FitSettings, Fitted, Samples, decomposition_of, too_few_to_choose, work_of};
use crate::label_kernel::PriorGeometry;
use crate::selection::{HeldOut, Split, Tried};
use crate::trainer::Epoch;

/// The part of the budget that measuring an epoch may take, and the most seconds.
const OF_PROBE: (f64, f64) = (0.02, 1.0);
/// The most folds for models that are trained in steps.
const MOST_FOLDS: usize = 5;
/// Rows are held out in turn if the budget has room for so many epochs of all folds, else once.
const EPOCHS_OF_FOLDS: f64 = 300.0;
/// The fraction that is held out once.
const HELD_OUT: f64 = 0.2;

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
        let mut run = Run::new(self, settings, samples, (folds, judge), (clock, interrupt));
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
        let limit = probe_seconds(self.budget.as_secs_f64());
        let seconds = self.seconds_per_epoch(&usual, &folds, limit, interrupt)?;
        Ok((EPOCHS_OF_FOLDS * seconds > self.budget.as_secs_f64()).then_some(HELD_OUT))
    }

    /// Seconds of an epoch of this candidate over all folds, measured for a moment.
    pub(super) fn seconds_per_epoch(
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
        let limit = probe_seconds(budget);
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

/// How long an epoch may be measured within so many seconds.
pub(super) fn probe_seconds(budget: f64) -> f64 {
    (OF_PROBE.0 * budget).min(OF_PROBE.1)
}
