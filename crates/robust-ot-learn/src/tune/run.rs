//! A tuning run: a linear model over all rows, then brackets of candidates that are trained in steps, then the final fit.

use std::time::Instant;

use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};
use serde_json::json;

use super::bracket::{Arena, Past, refit_share, rungs};
use super::candidate::{Candidate, Steps};
use super::clock::Clock;
use super::contender::Judge;
use super::journal::{Journal, Record};
use super::space::Space;
use super::standing::order;
use super::trial::Trial;
use super::tuner::{TuneEvent, Tuned, Tuning, probe_seconds};
use crate::criterion::HeldScores;
use crate::data::Features;
use crate::dataset::Dataset;
use crate::fit::{FitEvent, FitRun, FitSettings, Fitted, FullFit, Method, Samples};
use crate::model::Model;
use crate::selection::Tried;

/// The part of the budget that the linear model may take.
const OF_LINEAR: f64 = 0.5;
/// The most candidates of a bracket.
const MOST: usize = 9;
/// The epochs that the first rung of a bracket should have room for: with fewer, slow learners seem to be bad ones.
const FIRST_EPOCHS: f64 = 6.0;
/// The file of the linear model.
const LINEAR: &str = "linear.safetensors";

/// A run in progress.
pub(super) struct Run<'a> {
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

impl<'a> Run<'a> {
    pub(super) fn new(
        tuning: &'a Tuning,
        settings: FitSettings,
        samples: Samples,
        (folds, judge): (Vec<Samples>, Judge),
        (clock, interrupt): (Clock, &'a Interrupt),
    ) -> Self {
        let (notes, trials) = (Vec::new(), Vec::new());
        Self {
            tuning,
            settings,
            samples,
            folds,
            judge,
            clock,
            interrupt,
            notes,
            linear: None,
            trials,
            fitting: 0.0,
        }
    }

    /// The rows of the final fit over those of all folds.
    fn ratio(&self) -> f64 {
        let of_folds: usize = self.folds.iter().map(|fold| fold.train.rows()).sum();
        self.samples.train.rows() as f64 / of_folds as f64
    }

    /// Fits a linear model over all rows, unless they are too many or its time is up. Returns whether nothing interrupted it.
    pub(super) fn fit_linear(
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
    pub(super) fn brackets(
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
                    let limit = probe_seconds(self.clock.left());
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
    pub(super) fn finish(mut self, tell: &mut dyn FnMut(TuneEvent)) -> Result<Option<Tuned>> {
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
