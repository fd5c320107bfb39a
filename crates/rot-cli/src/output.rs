//! Output files. Their paths are tested before the work begins, so that a wrong path wastes no work.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use comfy_table::{LineStyle, TableStyle};
use ndarray::Array2;
use robust_ot_learn::data::{try_beside, write_npy, write_table};

use crate::failure::Failure;

/// Style of terminal tables: rules above the table, under the header and below the table.
pub const TABLE_STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Rejects a path that has an unsupported extension or cannot be written.
pub fn check_writable(option: &str, path: &Path, endings: &[&str]) -> Result<(), Failure> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    if !endings.contains(&ending.as_str()) {
        let rule = endings.iter().map(|e| format!(".{e}")).collect::<Vec<_>>().join(" or ");
        return Err(Failure::Input(format!("{option} must end in {rule}, but is {}", path.display())));
    }
    // Pipes and devices are not tested: opening one may block, and closing it ends the reader.
    if path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        return Ok(());
    }
    // A file that is not there is not created: another process may write it in the meantime.
    let tried = if path.symlink_metadata().is_ok() {
        OpenOptions::new().append(true).create(true).open(path).map(|_| ())
    } else {
        try_beside(path)
    };
    tried.map_err(|error| {
        Failure::Input(format!("{option} must be a writable file, but {}: {error}", path.display()))
    })
}

/// Creates a folder and its parents if they do not exist.
pub fn make_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| folder_failure(option, folder, &error))
}

/// The failure for a folder that cannot be used.
pub fn folder_failure(option: &str, folder: &Path, error: &dyn Display) -> Failure {
    let folder = folder.display();
    Failure::Input(format!("{option} must be a writable folder, but {folder}: {error}"))
}

/// Rejects outputs that would overwrite an input or each other.
pub fn check_distinct(inputs: &[&Path], outputs: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let mut taken: Vec<(&str, PathBuf)> =
        inputs.iter().filter_map(|path| Some(("an input", path.canonicalize().ok()?))).collect();
    for (option, path) in outputs {
        let Some(path) = path else { continue };
        let place = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
            let path = path.display();
            return Err(Failure::Input(format!(
                "{option} must be a separate file, but {path} is also {other}"
            )));
        }
        taken.push((option, place));
    }
    Ok(())
}

/// The file extension in lower case.
pub fn ending(path: &Path) -> String {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_ascii_lowercase()
}

/// Formats a number with six decimals, or with an exponent if it is very small or very large.
pub fn readable(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e9).contains(&size) { format!("{value:.6}") } else { format!("{value:.6e}") }
}

/// A p-value for reading, with at most four digits after the point.
pub fn p_text(p_value: f64) -> String {
    if p_value < 1e-4 {
        return format!("{p_value:.1e}");
    }
    format!("{p_value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A sentence for comparisons that find no difference as a whole, but some in these many columns or pairs: each test is
/// adjusted for what it looks at.
pub fn by_themselves(differs: bool, alpha: f64, columns: usize, pairs: usize) -> Option<String> {
    let what = match (columns, pairs) {
        _ if differs => return None,
        (0, 0) => return None,
        (_, 0) => "Columns",
        (0, _) => "Pairs of columns",
        _ => "Columns and pairs",
    };
    Some(format!(
        "{what} judged by themselves reach {alpha}: their p-values do not pay for the search for changes of other kinds."
    ))
}

/// Writes a matrix as `.npy`, or as `.csv`/`.tsv` with labels of rows and columns if given.
pub fn write_matrix(
    path: &Path,
    matrix: &Array2<f64>,
    labels: Option<(&[String], &[String])>,
) -> Result<(), Failure> {
    if ending(path) == "npy" {
        return write_npy(path, matrix).map_err(write_failure);
    }
    let corner = || std::iter::once(String::new());
    let header =
        labels.map_or_else(Vec::new, |(_, columns)| corner().chain(columns.iter().cloned()).collect());
    let rows = matrix.rows().into_iter().enumerate().map(|(i, row)| {
        let label = labels.map(|(rows, _)| rows[i].clone());
        label.into_iter().chain(row.iter().map(|x| format!("{x:?}"))).collect()
    });
    write_table(path, &header, rows).map_err(write_failure)
}

/// The failure for a write to a path that was writable: a problem of the system, not of the input.
pub fn write_failure(error: robust_ot::Error) -> Failure {
    Failure::Other(error.to_string())
}
