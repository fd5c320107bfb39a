//! Model files that commands read.

use std::path::Path;

use robust_ot_learn::Model;

use crate::failure::Failure;

/// Reads a model, with a note if its file has no checksum.
pub fn read_model(path: &Path) -> Result<Model, Failure> {
    let (model, integrity) = Model::load_checked(path)?;
    if let Some(note) = integrity.note() {
        say!("rot: note: {}: {note}", path.display());
    }
    Ok(model)
}
