//! Where a run stands, in a file: everything that the rest of it depends on.

use std::path::Path;

use robust_ot::Result;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::optimizer::{Parameters, Schedule};
use crate::settings::TrainSettings;
use crate::state::{Progress, State};
use crate::tensors::{self, Contents, Kind, Tensor};
use crate::trainer::Trainer;

/// What a checkpoint says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    /// What the run is of: a checkpoint goes on with nothing else.
    run: Run,
    progress: Progress,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    settings: TrainSettings,
    /// A hash of the loss.
    objective: String,
    /// A hash of features and labels, of training and validation.
    data: String,
}

impl Trainer<'_> {
    /// Writes everything that the rest of the run depends on, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&mut self, path: &Path) -> Result<()> {
        self.fetch()?;
        let document = Document { run: self.run(), progress: self.state.progress.clone() };
        tensors::write(path, Kind::Checkpoint, &document, &self.state.tensors())
    }

    /// Goes on where a checkpoint of the same run was written.
    ///
    /// # Errors
    /// When the file cannot be read, is not a checkpoint of ours, or is of other data or settings.
    pub fn restore(&mut self, path: &Path) -> Result<()> {
        let file = tensors::read::<Document>(path, Kind::Checkpoint)?;
        let (Document { run, progress }, own) = (&file.document, self.run());
        let other = |what: &str| Err(file.refuse(format!("must be of this run, but is one with {what}")));
        if run.data != own.data {
            return other("other data");
        }
        if run.objective != own.objective {
            return other("another loss");
        }
        if run.settings != own.settings {
            return other("other settings of the optimiser, batches, seed or epochs");
        }
        self.check_progress(progress).map_err(|found| file.refuse(found))?;
        let mut state = self.state.clone();
        state.fill(&file, progress.best.is_some())?;
        state.progress = progress.clone();
        self.state = state;
        self.hand_over()
    }

    /// Whether this can be how far the run is.
    fn check_progress(&self, progress: &Progress) -> std::result::Result<(), String> {
        let done = progress.epochs.len();
        if done > self.settings.epochs {
            let wanted = self.settings.epochs;
            return Err(format!("must be of a run of at most {wanted} epochs, but has {done} behind it"));
        }
        let steps = done as u64 * self.train.rows().div_ceil(self.settings.batch) as u64;
        let numbered = progress.epochs.iter().enumerate().all(|(at, epoch)| epoch.epoch == at + 1);
        let best = match progress.best {
            None => self.validation.is_none() || done == 0,
            Some((epoch, auc)) => self.validation.is_some() && (1..=done).contains(&epoch) && auc.is_finite(),
        };
        if numbered && progress.steps == steps && best {
            return Ok(());
        }
        Err(format!("must tell of {done} epochs in {steps} steps and the best of them, but does not"))
    }

    fn run(&self) -> Run {
        let mut settings = self.settings.clone();
        if settings.schedule == Schedule::Constant {
            // Nothing before the last epoch depends on which one is last, so a run may be made longer.
            settings.epochs = 0;
        }
        let mut data = Fingerprint::default();
        for part in [Some(self.train), self.validation].into_iter().flatten() {
            data.add_dataset(part);
        }
        Run { settings, objective: self.objective.fingerprint().hex(), data: data.hex() }
    }
}

impl State {
    /// Everything that is learnt, and what the optimiser remembers.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let Self { weights, bias, best, .. } = self;
        let mut tensors = Vec::new();
        let mut put =
            |name: &str, numbers: &[f32]| tensors.push(Tensor::single(name, &[numbers.len()], numbers));
        for (name, parameters) in [("weights", Some(weights)), ("bias", bias.as_ref())] {
            let Some(Parameters { values, first, second, .. }) = parameters else { continue };
            put(name, values);
            put(&format!("{name}.first"), first);
            put(&format!("{name}.second"), second);
        }
        if let Some((weights, bias)) = best {
            put("best.weights", weights);
            put("best.bias", bias);
        }
        tensors
    }

    /// Takes numbers of the same shapes from a file.
    pub(super) fn fill<D>(&mut self, file: &Contents<D>, with_best: bool) -> Result<()> {
        let fill = |name: &str, numbers: &mut Vec<f32>| {
            *numbers = file.single(name, &[numbers.len()])?;
            if numbers.iter().all(|x| x.is_finite() && (*x >= 0.0 || !name.ends_with("second"))) {
                return Ok(());
            }
            Err(file
                .refuse(format!("'{name}' must be finite, and squares not negative, but a number is not")))
        };
        for (name, parameters) in [("weights", Some(&mut self.weights)), ("bias", self.bias.as_mut())] {
            let Some(Parameters { values, first, second, .. }) = parameters else { continue };
            fill(name, values)?;
            fill(&format!("{name}.first"), first)?;
            fill(&format!("{name}.second"), second)?;
        }
        if with_best {
            let mut best =
                (self.weights.values.clone(), self.bias.as_ref().map_or(Vec::new(), |b| b.values.clone()));
            fill("best.weights", &mut best.0)?;
            fill("best.bias", &mut best.1)?;
            self.best = Some(best);
        }
        Ok(())
    }
}
