//! Successive halving: candidates share the time of a rung, the best third goes on to the next, which takes as long.

use std::path::Path;

use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::candidate::{Candidate, Steps};
use super::clock::Clock;
use super::contender::{Contender, Judge, prepare, state_files};
use super::journal::{Journal, Record};
use super::standing::order;
use super::trial::Trial;
use super::tuner::TuneEvent;
use crate::criterion::HeldScores;
use crate::fit::{FitRun, FitSettings, Samples};

/// The part of the candidates that goes on to the next rung is one of so many.
pub(super) const KEPT: usize = 3;

/// What every bracket of a run shares.
pub(super) struct Arena<'a> {
    pub(super) folds: &'a [Samples],
    pub(super) base: &'a FitSettings,
    pub(super) judge: &'a Judge,
    pub(super) clock: &'a Clock,
    pub(super) folder: Option<&'a Path>,
    /// The rows of the final fit over those of all folds.
    pub(super) ratio: f64,
    pub(super) interrupt: &'a Interrupt,
}

/// The number of rungs that so many candidates need until one is left.
pub(super) fn rungs(candidates: usize) -> usize {
    let (mut left, mut rungs) = (candidates, 1);
    while left > 1 {
        left = left.div_ceil(KEPT);
        rungs += 1;
    }
    rungs
}

/// The longest refit of the survivor over the time of its bracket: it is trained in every rung, among fewer and fewer.
pub(super) fn refit_share(candidates: usize, ratio: f64) -> f64 {
    let (mut left, mut share) = (candidates, 0.0);
    for _ in 0..rungs(candidates) {
        share += 1.0 / left as f64;
        left = left.div_ceil(KEPT);
    }
    ratio * share / rungs(candidates) as f64
}

/// What earlier sessions did of a bracket: the rung and place of each candidate that was scored, and its trial unless it failed.
pub(super) type Past = Vec<(usize, usize, Option<Trial>)>;

impl Arena<'_> {
    /// Lets candidates compete until one is left and does not get better, or the time is up. `reserve` seconds stay for
    /// the final fit of the best trial of before. Returns what was found of each candidate, or `None` once interrupted.
    pub(super) fn compete(
        &self,
        number: usize,
        candidates: &[Steps],
        (past, reserve): (&Past, f64),
        journal: &mut Journal,
        notes: &mut Vec<String>,
        tell: &mut dyn FnMut(TuneEvent),
    ) -> Result<Option<Vec<Trial>>> {
        let runs: Vec<Vec<FitRun>> = candidates
            .iter()
            .map(|steps| prepare(steps, self.folds, self.base, self.judge.select))
            .collect::<Result<_>>()?;
        let files = |place| state_files(self.folder, number, place, self.folds.len());
        let mut alive: Vec<(usize, Contender)> = Vec::new();
        for (place, runs) in runs.iter().enumerate() {
            let of_place = |record: &&(usize, usize, Option<Trial>)| record.1 == place;
            match past.iter().rev().find(of_place) {
                Some((.., None)) => {}
                found => {
                    let trial = found.and_then(|(.., trial)| trial.clone());
                    alive.push((place, Contender::new(candidates[place], runs, &files(place), trial)?));
                }
            }
        }
        let mut found: Vec<Trial> = Vec::new();
        let all = rungs(candidates.len());
        let mut kept = candidates.len();
        for rung in 0..all {
            let mut waiting = alive.len();
            let mut next: Vec<(usize, Contender)> = Vec::new();
            for (place, mut contender) in alive {
                waiting -= 1;
                if past.iter().any(|(done, at, _)| (*done, *at) == (rung, place)) {
                    next.push((place, contender));
                    continue;
                }
                let left = self.clock.left() - reserve;
                let of_bracket = left / (1.0 + refit_share(candidates.len(), self.ratio));
                let seconds = of_bracket / (all - rung) as f64 / (waiting + 1) as f64;
                // The last candidate may take what is left beside its own refit.
                let seconds = if rung + 1 == all { left } else { seconds };
                let deadline = self.interrupt.until(Clock::after(left));
                let mut on_epoch = |epoch: &crate::trainer::Epoch| {
                    tell(TuneEvent::Epoch { candidate: Candidate::Steps(candidates[place]), epoch });
                };
                match contender.train(seconds, (left, self.ratio), &deadline, &mut on_epoch) {
                    Ok(true) => {}
                    Ok(false) if self.interrupt.is_raised() => return Ok(None),
                    // An epoch that the time does not suffice for.
                    Ok(false) => {
                        found.extend(contender.trial);
                        continue;
                    }
                    Err(error @ Error::Diverged { .. }) => {
                        notes.push(format!("{}: {error}", candidates[place]));
                        let elapsed = self.clock.elapsed();
                        journal.write(&Record::Scored { rung, place, trial: None, elapsed })?;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
                let elapsed = self.clock.elapsed();
                let trial = contender.score(self.judge, elapsed, &files(place))?.clone();
                journal.write(&Record::Scored { rung, place, trial: Some(trial.clone()), elapsed })?;
                tell(TuneEvent::Scored(&trial));
                next.push((place, contender));
            }
            let scores: Vec<HeldScores> =
                next.iter().filter_map(|(_, contender)| Some(contender.trial.as_ref()?.scores)).collect();
            let mut ranks = vec![0; next.len()];
            order(&scores, self.judge.select).into_iter().enumerate().for_each(|(rank, at)| ranks[at] = rank);
            let mut ranked: Vec<_> = ranks.into_iter().zip(next).collect();
            ranked.sort_by_key(|(rank, _)| *rank);
            let mut next: Vec<(usize, Contender)> = ranked.into_iter().map(|(_, one)| one).collect();
            kept = kept.div_ceil(KEPT);
            let last = rung + 1 == all;
            let out = next.split_off(if last { 0 } else { kept.min(next.len()) });
            found.extend(out.into_iter().filter_map(|(_, contender)| contender.trial));
            alive = next;
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_goes_on_until_one_is_left() {
        assert_eq!([1, 2, 3, 4, 9, 10].map(rungs), [1, 2, 2, 3, 3, 4]);
        // Nine candidates: a third of the time for nine, three and one; a refit to as many rows takes what the survivor took.
        assert!((refit_share(9, 1.0) - (1.0 / 9.0 + 1.0 / 3.0 + 1.0) / 3.0).abs() < 1e-15);
        assert!((refit_share(1, 2.0) - 2.0).abs() < 1e-15);
    }
}
