//! Readers and writers of data files: features and labels of samples, tables of numbers, word counts, word vectors.
//!
//! Every error names the file, the line if the file is text, the rule and the value.

mod atomic;
mod columns;
mod compressed;
mod delimited;
mod embeddings;
mod feature_file;
mod features;
mod field;
mod fields;
mod histogram;
mod idx;
mod label_file;
mod label_table;
mod label_vectors;
mod mat;
mod mixed_table;
mod npy;
mod npz;
mod number;
mod parquet;
mod points;
mod room;
mod svmlight;
mod table;
mod table_options;
mod table_writer;
mod tags;
mod variable;

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use ndarray::{Array1, Array2};

pub use self::atomic::{remove_leftovers, try_beside, write_atomic};
pub use self::columns::{ColumnMatch, Matching, match_columns};
pub use self::embeddings::Embeddings;
pub use self::feature_file::{FeatureFile, read_features};
pub use self::features::{Features, Sparse};
pub use self::histogram::{Embedded, Histogram};
pub use self::idx::{Idx, read_idx, read_idx_labels};
pub use self::label_file::{LabelFile, read_label_names, read_labels};
pub use self::label_vectors::{LabelVectors, to_length_one};
pub use self::mixed_table::{Cells, MixedColumn, MixedTable};
pub use self::npy::{read_npy, read_npy_f32, read_npy_integers, write_npy};
pub use self::points::{Points, read_points};
pub use self::room::within;
pub(crate) use self::room::{Room, read_bytes};
pub use self::svmlight::{Labeled, read_labeled};
pub use self::table::{Table, read_table};
pub use self::table_options::{Header, Missing, TableOptions, matches};
pub use self::table_writer::{format_table, write_table};
use robust_ot::{Error, Result};

/// Reads a vector from `.npy` or from text with one number per line.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("weights.txt");
/// std::fs::write(&path, "0.5\n1.5\n").unwrap();
/// assert_eq!(robust_ot_learn::data::read_vector(&path)?, ndarray::array![0.5, 1.5]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read or is not one row or column of numbers.
pub fn read_vector(path: &Path) -> Result<Array1<f64>> {
    let values = if extension(path) == "npy" { read_npy(path)? } else { read_table(path)?.values };
    let (rows, columns) = values.dim();
    if rows != 1 && columns != 1 {
        return Err(format_error(path, format!("must hold one number per row, but is {rows} × {columns}")));
    }
    Ok(values.into_iter().collect())
}

/// Reads a matrix from `.npy`, `.csv`, `.tsv` or any other text with comma-separated rows.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("prior.csv");
/// std::fs::write(&path, "1,0.5\n0.5,1\n").unwrap();
/// assert_eq!(robust_ot_learn::data::read_matrix(&path)?[[0, 1]], 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read or is not a rectangle of numbers.
pub fn read_matrix(path: &Path) -> Result<Array2<f64>> {
    if extension(path) == "npy" { read_npy(path) } else { Ok(read_table(path)?.values) }
}

/// Reads one group index per line, counted from 0.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("groups.txt");
/// std::fs::write(&path, "0\n1\n0\n").unwrap();
/// assert_eq!(robust_ot_learn::data::read_groups(&path)?, [0, 1, 0]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read or a line is not a whole number of at least 0.
pub fn read_groups(path: &Path) -> Result<Vec<usize>> {
    let text = room::read_text(path, &mut room::Room::new())?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            line.trim().parse().map_err(|_| {
                line_error(
                    path,
                    at + 1,
                    format!("a group must be a whole number of at least 0, but is '{}'", line.trim()),
                )
            })
        })
        .collect()
}

/// The file extension in lower case, ignoring a final `.gz`.
fn extension(path: &Path) -> String {
    let ending = |path: &Path| path.extension().and_then(OsStr::to_str).unwrap_or("").to_ascii_lowercase();
    match (ending(path), path.file_stem()) {
        (last, Some(stem)) if last == "gz" => ending(Path::new(stem)),
        (last, _) => last,
    }
}

fn open(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    // Opening a folder succeeds on some systems, and only reading it fails.
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        return Err(format_error(path, "must be a file, but is a folder".into()));
    }
    Ok(file)
}

fn io_error(path: &Path, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}

fn format_error(path: &Path, message: String) -> Error {
    Error::Format { place: path.display().to_string(), message }
}

fn line_error(path: &Path, line: usize, message: String) -> Error {
    Error::Format { place: format!("{}:{line}", path.display()), message }
}
