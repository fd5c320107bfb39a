//! `--checkpoint` and `--resume`: a run that can be interrupted.

use std::fs::File;
use std::path::{Path, PathBuf};

use fs4::TryLockError;
use robust_ot_learn::Trainer;
use robust_ot_learn::data::remove_leftovers;

use crate::failure::Failure;
use crate::output::{folder_failure, make_folder, write_failure};

/// The name of the checkpoint file within its folder.
const CHECKPOINT: &str = "checkpoint.safetensors";

/// The name of the file that a run locks, so that no other run uses the folder.
const LOCK: &str = ".lock";

/// The file of a run's checkpoint, in a folder that is locked.
pub struct Checkpoints {
    folder: PathBuf,
    /// The system unlocks the folder when this is closed, also if the run is killed.
    _lock: File,
}

impl Checkpoints {
    /// The file within a folder.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(CHECKPOINT)
    }

    /// Opens the folder. A resumed run continues from the checkpoint in it.
    pub fn open(folder: &Path, resume: bool, trainer: &mut Trainer) -> Result<Self, Failure> {
        let found = Self { folder: folder.to_owned(), _lock: lock_folder(folder)? };
        let path = Self::file(folder);
        remove_leftovers(&path).map_err(|error| folder_failure("--checkpoint", folder, &error))?;
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

/// Creates a folder if it does not exist, and locks it for one run.
pub fn lock_folder(folder: &Path) -> Result<File, Failure> {
    make_folder("--checkpoint", folder)?;
    let path = folder.join(LOCK);
    let opened = File::options().write(true).create(true).truncate(false).open(&path);
    let file = opened.map_err(|error| folder_failure("--checkpoint", folder, &error))?;
    match fs4::FileExt::try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let folder = folder.display();
            return Err(Failure::Input(format!(
                "--checkpoint must be a folder that no other run uses, but {folder} is in use"
            )));
        }
        // Some network file systems have no locks.
        Err(TryLockError::Error(error)) => {
            say!(
                "rot: note: {}: cannot be locked ({error}); no other run may use the folder",
                path.display()
            );
        }
    }
    Ok(file)
}
