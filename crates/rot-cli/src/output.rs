//! Files that commands write. They are opened before the work begins, so that a wrong path costs nothing.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use comfy_table::{LineStyle, TableStyle};
use ndarray::Array2;
use robust_ot_learn::data::{write_npy, write_table};

use crate::failure::Failure;

/// Tables on the terminal: a line above, below and under the header.
pub const TABLE_STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Refuses a path with an ending we do not write, or that cannot be written.
pub fn check_writable(option: &str, path: &Path, endings: &[&str]) -> Result<(), Failure> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    if !endings.contains(&ending.as_str()) {
        let rule = endings.iter().map(|e| format!(".{e}")).collect::<Vec<_>>().join(" or ");
        return Err(Failure::Input(format!("{option} must end in {rule}, but is {}", path.display())));
    }
    // A pipe or device is not ours to try: opening it may block, and closing it ends the reader.
    if path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        return Ok(());
    }
    let existed = path.symlink_metadata().is_ok();
    OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
        Failure::Input(format!(
            "{option} must be a file that can be written, but {}: {error}",
            path.display()
        ))
    })?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Makes a folder, with those above it, unless it is there.
pub fn make_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| folder_failure(option, folder, &error))
}

/// A folder that cannot be used.
pub fn folder_failure(option: &str, folder: &Path, error: &dyn Display) -> Failure {
    let folder = folder.display();
    Failure::Input(format!("{option} must be a folder that can be written, but {folder}: {error}"))
}

/// Refuses outputs that would overwrite an input or each other.
pub fn check_distinct(inputs: &[&Path], outputs: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let mut taken: Vec<(&str, PathBuf)> =
        inputs.iter().filter_map(|path| Some(("an input", path.canonicalize().ok()?))).collect();
    for (option, path) in outputs {
        let Some(path) = path else { continue };
        let place = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
            let path = path.display();
            return Err(Failure::Input(format!(
                "{option} must be a file of its own, but {path} is {other} too"
            )));
        }
        taken.push((option, place));
    }
    Ok(())
}

/// A number for a person: six digits behind the point, or an exponent where those say nothing.
pub fn readable(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e9).contains(&size) { format!("{value:.6}") } else { format!("{value:.6e}") }
}

/// A matrix as `.npy`, or as `.csv`/`.tsv` with labels on both sides if there are any.
pub fn write_matrix(path: &Path, matrix: &Array2<f64>, labels: Option<&[String]>) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ending == "npy") {
        return write_npy(path, matrix).map_err(write_failure);
    }
    let corner = || std::iter::once(String::new());
    let header = labels.map_or_else(Vec::new, |labels| corner().chain(labels.iter().cloned()).collect());
    let rows = matrix.rows().into_iter().enumerate().map(|(i, row)| {
        let label = labels.map(|labels| labels[i].clone());
        label.into_iter().chain(row.iter().map(|x| format!("{x:?}"))).collect()
    });
    write_table(path, &header, rows).map_err(write_failure)
}

/// A write that fails although the path was fine: the disk, not the user.
pub fn write_failure(error: robust_ot::Error) -> Failure {
    Failure::Other(error.to_string())
}
