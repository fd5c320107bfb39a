//! A candidate that is trained in steps, on every fold.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ndarray::{Array2, s};
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::candidate::{Candidate, Steps};
use super::trial::Trial;
use crate::criterion::{Criterion, HeldScores};
use crate::fit::{FitRun, FitSettings, Samples};
use crate::selection::HeldOut;
use crate::trainer::{Epoch, Trainer};

/// What contenders are scored by.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) held: HeldOut,
    pub(super) select: Criterion,
    /// The label vectors, if there are some.
    pub(super) vectors: Option<Array2<f64>>,
}

/// A candidate in training.
pub(super) struct Contender<'a> {
    pub(super) steps: Steps,
    trainers: Vec<Trainer<'a>>,
    /// Seconds spent on epochs.
    seconds: f64,
    pub(super) trial: Option<Trial>,
}

/// Prepares the folds for a candidate.
pub(super) fn prepare(
    steps: &Steps,
    folds: &[Samples],
    base: &FitSettings,
    select: Criterion,
) -> Result<Vec<FitRun>> {
    let settings = Candidate::Steps(*steps).settings(base, select);
    let settings = FitSettings { validation: None, ..settings };
    folds.iter().map(|fold| FitRun::new(&settings, fold.clone())).collect()
}

impl<'a> Contender<'a> {
    /// Begins, or goes on from the checkpoints in `files`, as far as there are some.
    pub(super) fn new(
        steps: Steps,
        runs: &'a [FitRun],
        files: &[PathBuf],
        trial: Option<Trial>,
    ) -> Result<Self> {
        let mut trainers: Vec<Trainer> = runs.iter().map(FitRun::trainer).collect::<Result<_>>()?;
        if trial.is_some() {
            for (trainer, file) in trainers.iter_mut().zip(files) {
                trainer.restore(file)?;
            }
        }
        let seconds = trial.as_ref().map_or(0.0, |trial| trial.seconds);
        Ok(Self { steps, trainers, seconds, trial })
    }

    /// Passes over all folds so far.
    pub(super) fn epochs(&self) -> usize {
        self.trainers[0].history().len()
    }

    /// Whether no fold gets better.
    pub(super) fn finished(&self) -> bool {
        self.trainers.iter().all(Trainer::finished)
    }

    /// Seconds of a pass over all folds.
    pub(super) fn seconds_per_epoch(&self) -> f64 {
        let passes = self.trainers.iter().map(|trainer| trainer.history().len()).sum::<usize>() as f64
            / self.trainers.len() as f64;
        self.seconds / passes.max(1.0)
    }

    /// Trains for about so many seconds, but at least one epoch, and never so long that less than a refit is left of
    /// `left`. Returns whether it came to an epoch's end.
    pub(super) fn train(
        &mut self,
        seconds: f64,
        (left, ratio): (f64, f64),
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&Epoch),
    ) -> Result<bool> {
        let start = Instant::now();
        loop {
            let pass = Instant::now();
            for trainer in &mut self.trainers {
                if trainer.finished() {
                    continue;
                }
                let Some(epoch) = trainer.epoch(interrupt, |_, _| ())? else {
                    self.seconds += pass.elapsed().as_secs_f64();
                    return Ok(false);
                };
                tell(&epoch);
            }
            self.seconds += pass.elapsed().as_secs_f64();
            let (spent, next) = (start.elapsed().as_secs_f64(), self.seconds_per_epoch());
            let refit = self.best_epoch() as f64 * next * ratio;
            if self.finished() || spent + next > seconds || spent + next + refit > left {
                return Ok(true);
            }
        }
    }

    /// The epoch with the best score, the mean over folds.
    fn best_epoch(&self) -> usize {
        let best = self.trainers.iter().filter_map(Trainer::best_epoch).sum::<usize>() as f64;
        ((best / self.trainers.len() as f64).round() as usize).max(1)
    }

    /// Scores the best epoch of every fold, and saves the state of every fold in `files`.
    pub(super) fn score(&mut self, judge: &Judge, elapsed: f64, files: &[PathBuf]) -> Result<&Trial> {
        for (trainer, file) in self.trainers.iter_mut().zip(files) {
            trainer.save(file)?;
        }
        let truth = judge.held.truth();
        let (mut all, mut first) = (Array2::zeros((truth.rows(), truth.labels())), 0);
        for trainer in &self.trainers {
            let of_fold = trainer
                .best_probabilities()
                .ok_or_else(|| Error::parameter("validation", "scored before it is compared", "no epoch"))?;
            all.slice_mut(s![first..first + of_fold.nrows(), ..]).assign(&of_fold);
            first += of_fold.nrows();
        }
        let scores = judge.held.scores(&all, judge.vectors.as_ref())?;
        let mut path: Vec<(f64, HeldScores)> = self.trial.take().map(|trial| trial.path).unwrap_or_default();
        path.push((elapsed, scores));
        let (epochs, best_epoch) = (self.epochs(), self.best_epoch());
        let candidate = Candidate::Steps(self.steps);
        Ok(self.trial.insert(Trial { candidate, scores, epochs, best_epoch, seconds: self.seconds, path }))
    }
}

/// The files with the states of a candidate's folds.
pub(super) fn state_files(folder: Option<&Path>, bracket: usize, place: usize, folds: usize) -> Vec<PathBuf> {
    let Some(folder) = folder else { return Vec::new() };
    (0..folds).map(|fold| folder.join(format!("bracket-{bracket}-{place}-{fold}.safetensors"))).collect()
}
