//! Checks of whole files, for readers that do not need their contents.

use std::path::Path;

use robust_ot::Result;

use crate::checkpoint::check_checkpoint;
use crate::file_header::{Integrity, Kind, kind_of};
use crate::learner::check_learner;
use crate::model::Model;
use crate::tensors::read_whole;

/// Reads a model, a checkpoint or a learner whole, and returns which it is and how far it could be checked.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use ndarray::array;
/// use robust_ot_learn::{Integrity, Kind, Model, Output, verify};
///
/// let model = Model::new(array![[-1.0, 1.0]], None, Output::Softmax, vec!["a".into(), "b".into()])?;
/// let path = dir.path().join("model.safetensors");
/// model.save(&path)?;
/// assert_eq!(verify(&path)?, (Kind::Model, Integrity::Checked));
///
/// let mut bytes = std::fs::read(&path).unwrap();
/// *bytes.last_mut().unwrap() ^= 1;
/// std::fs::write(&path, bytes).unwrap();
/// assert!(verify(&path).unwrap_err().to_string().contains("its checksum is not that of its contents"));
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, is none of these, is damaged, or is of a newer format version.
pub fn verify(path: &Path) -> Result<(Kind, Integrity)> {
    let bytes = read_whole(path)?;
    let kind = kind_of(path, &bytes)?;
    let integrity = match kind {
        Kind::Model => Model::parse(path, &bytes)?.1,
        Kind::Checkpoint => check_checkpoint(path, &bytes)?,
        Kind::Learner => check_learner(path, &bytes)?,
    };
    Ok((kind, integrity))
}
