//! Checkpoints: files with everything that the rest of a training run depends on.

use std::path::Path;

use robust_ot::Result;
use serde::{Deserialize, Serialize};

use crate::file_header::{Integrity, Kind};
use crate::fingerprint::Fingerprint;
use crate::optimizer::{Parameters, Schedule};
use crate::settings::TrainSettings;
use crate::state::{Best, Layer, Progress, State};
use crate::tensors::{self, Contents, Tensor};
use crate::trainer::Trainer;

/// The tensors of a state; those of a bias, of a hidden layer and of the best epoch may be missing.
const TENSORS: [&str; 16] = [
    "weights",
    "weights.first",
    "weights.second",
    "bias",
    "bias.first",
    "bias.second",
    "hidden",
    "hidden.first",
    "hidden.second",
    "hidden.bias",
    "hidden.bias.first",
    "hidden.bias.second",
    "best.weights",
    "best.bias",
    "best.hidden",
    "best.hidden.bias",
];

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

    /// Resumes from a checkpoint of the same run, and returns how far the file could be checked.
    ///
    /// # Errors
    /// When the file cannot be read, is not a robust-ot checkpoint, is damaged, or is of another run.
    pub fn restore(&mut self, path: &Path) -> Result<Integrity> {
        let (document, mut file) = tensors::read::<Document>(path, Kind::Checkpoint)?;
        let (Document { run, progress }, own) = (document, self.run());
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
        self.check_progress(&progress).map_err(|found| file.refuse(found))?;
        let mut state = self.state.clone();
        state.fill(&mut file, progress.best.is_some())?;
        let integrity = file.finish()?;
        state.progress = progress;
        self.state = state;
        self.hand_over()?;
        Ok(integrity)
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

/// Checks the bytes of a checkpoint whose run is not known; `place` is for error messages.
pub(super) fn check_checkpoint(place: &Path, bytes: &[u8]) -> Result<Integrity> {
    check_tensors(tensors::from_bytes::<Document>(place, Kind::Checkpoint, bytes)?.1)
}

/// Checks the tensors of a state of any size.
pub(super) fn check_tensors(mut file: Contents) -> Result<Integrity> {
    for name in TENSORS {
        let count = file.shape(name).map(|shape| shape.iter().product());
        match count {
            Some(count) => check_numbers(&file.single(name, &[count])?, name, &file)?,
            None if name.starts_with("weights") => {
                return Err(file.refuse(format!("must have a tensor '{name}', but has none")));
            }
            None => {}
        }
    }
    file.finish()
}

/// Refuses parameters that are not finite and squares that are negative.
fn check_numbers(numbers: &[f32], name: &str, file: &Contents) -> Result<()> {
    if numbers.iter().all(|x| x.is_finite() && (*x >= 0.0 || !name.ends_with("second"))) {
        return Ok(());
    }
    Err(file.refuse(format!("'{name}' must be finite, and squares not negative, but a number is not")))
}

impl State {
    /// The learned parameters and the optimizer state.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let mut tensors = Vec::new();
        let mut put =
            |name: &str, numbers: &[f32]| tensors.push(Tensor::single(name, &[numbers.len()], numbers));
        let hidden = self.hidden.as_ref();
        for (name, parameters) in [
            ("weights", Some(&self.weights)),
            ("bias", self.bias.as_ref()),
            ("hidden", hidden.map(|layer| &layer.weights)),
            ("hidden.bias", hidden.map(|layer| &layer.bias)),
        ] {
            let Some(Parameters { values, first, second, .. }) = parameters else { continue };
            put(name, values);
            put(&format!("{name}.first"), first);
            put(&format!("{name}.second"), second);
        }
        if let Some(Best { weights, bias, hidden }) = &self.best {
            put("best.weights", weights);
            put("best.bias", bias);
            if let Some((weights, bias)) = hidden {
                put("best.hidden", weights);
                put("best.hidden.bias", bias);
            }
        }
        tensors
    }

    /// Takes tensors of the same shapes from a file.
    pub(super) fn fill(&mut self, file: &mut Contents, with_best: bool) -> Result<()> {
        let mut fill = |name: &str, numbers: &mut Vec<f32>| {
            *numbers = file.single(name, &[numbers.len()])?;
            check_numbers(numbers, name, file)
        };
        let (of_units, of_their_bias) = match &mut self.hidden {
            Some(Layer { weights, bias }) => (Some(weights), Some(bias)),
            None => (None, None),
        };
        for (name, parameters) in [
            ("weights", Some(&mut self.weights)),
            ("bias", self.bias.as_mut()),
            ("hidden", of_units),
            ("hidden.bias", of_their_bias),
        ] {
            let Some(Parameters { values, first, second, .. }) = parameters else { continue };
            fill(name, values)?;
            fill(&format!("{name}.first"), first)?;
            fill(&format!("{name}.second"), second)?;
        }
        if with_best {
            let mut best = self.values();
            fill("best.weights", &mut best.weights)?;
            fill("best.bias", &mut best.bias)?;
            if let Some((weights, bias)) = &mut best.hidden {
                fill("best.hidden", weights)?;
                fill("best.hidden.bias", bias)?;
            }
            self.best = Some(best);
        }
        Ok(())
    }
}
