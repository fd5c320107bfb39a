//! Files that commands write. They are opened before the work begins, so that a wrong path costs nothing.

use std::fs::OpenOptions;
use std::path::Path;

use comfy_table::{LineStyle, TableStyle};
use ndarray::Array2;
use robust_ot::data::{write_npy, write_table};

use crate::failure::Failure;

/// Tables on the terminal: a line above, below and under the header.
pub const TABLE_STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Refuses a path with an ending we do not write, or that cannot be written.
pub fn check_writable(option: &str, path: &Path, endings: &[&str]) -> Result<(), Failure> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !endings.contains(&ending) {
        let rule = endings.iter().map(|e| format!(".{e}")).collect::<Vec<_>>().join(" or ");
        return Err(Failure::Input(format!("{option} must end in {rule}, but is {}", path.display())));
    }
    let existed = path.exists();
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
