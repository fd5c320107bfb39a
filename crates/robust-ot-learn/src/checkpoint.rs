//! Checkpoints: files with everything that the rest of a training run depends on.

use std::path::Path;

use robust_ot::Result;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::optimizer::{Parameters, Schedule};
use crate::settings::TrainSettings;
use crate::state::{Progress, State};
use crate::tensors::{self, Contents, Kind, Tensor};
use crate::trainer::Trainer;

/// The JSON document of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    /// Identifies the run: a checkpoint resumes no other.
    run: Run,
    progress: Progress,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    settings: TrainSettings,
    /// A hash of the loss.
    objective: String,
    /// A hash of the features and labels of the training and validation rows.
    data: String,
}

impl Trainer<'_> {
    /// Writes everything that the rest of the run depends on, atomically.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&mut self, path: &Path) -> Result<()> {
        self.fetch()?;
        let document = Document { run: self.run(), progress: self.state.progress.clone() };
        tensors::write(path, Kind::Checkpoint, &document, &self.state.tensors())
    }

    /// Resumes from a checkpoint of the same run.
    ///
    /// # Errors
    /// When the file cannot be read, is not a robust-ot checkpoint, or is of another run.
    pub fn restore(&mut self, path: &Path) -> Result<()> {
        let file = tensors::read::<Document>(path, Kind::Checkpoint)?;
        let (Document { run, progress }, own) = (&file.document, self.run());
        let other = |what: &str| Err(file.refuse(format!("must be of this run, but is of one with {what}")));
        if run.data != own.data {
            return other("other data");
        }
        if run.objective != own.objective {
            return other("another loss");
        }
        if run.settings != own.settings {
            return other("other settings of the optimizer, batches, seed or epochs");
        }
        self.check_progress(progress).map_err(|found| file.refuse(found))?;
        let mut state = self.state.clone();
        state.fill(&file, progress.best.is_some())?;
        state.progress = progress.clone();
        self.state = state;
        self.hand_over()
    }

    /// Checks that this progress is possible for the run.
    fn check_progress(&self, progress: &Progress) -> std::result::Result<(), String> {
        let done = progress.epochs.len();
        if done > self.settings.epochs {
            let wanted = self.settings.epochs;
            return Err(format!("must be of a run of at most {wanted} epochs, but has completed {done}"));
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
        Err(format!("must record {done} epochs in {steps} steps and the best of them, but does not"))
    }

    fn run(&self) -> Run {
        let mut settings = self.settings.clone();
        if settings.schedule == Schedule::Constant {
            // With a constant learning rate, earlier epochs do not depend on the number of epochs, so a run may be extended.
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
    /// The learned parameters and the optimizer state.
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

    /// Loads tensors of the same shapes from a file.
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
