//! `--checkpoint` and `--resume`: a run that can be interrupted.

use std::path::{Path, PathBuf};

use robust_ot_learn::Trainer;

use crate::failure::Failure;
use crate::output::{folder_failure, make_folder, write_failure};

/// The name of the checkpoint file within its folder.
const CHECKPOINT: &str = "checkpoint.safetensors";

/// The file of a run's checkpoint.
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// The file within a folder.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(CHECKPOINT)
    }

    /// Opens the folder. A resumed run continues from the checkpoint in it.
    pub fn open(folder: &Path, resume: bool, trainer: &mut Trainer) -> Result<Self, Failure> {
        make_folder("--checkpoint", folder)?;
        let found = Self { folder: folder.to_owned() };
        let path = Self::file(folder);
        let place = path.display();
        match (resume, path.exists()) {
            (true, true) => {
                if let Some(note) = trainer.restore(&path)?.note() {
                    say!("rot: note: {place}: {note}");
                }
                say!("rot: note: {place}: continuing after epoch {}", trainer.history().len());
                return Ok(found);
            }
            (true, false) => {
                say!("rot: note: {place}: there is no checkpoint yet; training starts from the beginning");
            }
            (false, true) => {
                say!(
                    "rot: note: {place}: is replaced by the checkpoint of this run; --resume continues from it instead"
                );
            }
            (false, false) => {}
        }
        // A folder that cannot be written fails now, not after the first epoch.
        trainer.save(&path).map_err(|error| folder_failure("--checkpoint", folder, &error))?;
        Ok(found)
    }

    /// Writes the state of a run.
    pub fn save(&self, trainer: &mut Trainer) -> Result<(), Failure> {
        trainer.save(&Self::file(&self.folder)).map_err(write_failure)
    }
}
