//! Writes `.csv` and `.tsv` tables.

use std::path::Path;

use csv::WriterBuilder;
use robust_ot::Result;

use super::atomic::write_atomic;
use super::extension;

/// Writes a header, if it is not empty, and rows of fields.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("plan.csv");
/// let row = vec!["ship".to_owned(), "boat, small".to_owned(), "0.5".to_owned()];
/// robust_ot_learn::data::write_table(&path, &[], std::iter::once(row))?;
/// assert_eq!(std::fs::read_to_string(&path).unwrap(), "ship,\"boat, small\",0.5\n");
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be written.
pub fn write_table(path: &Path, header: &[String], rows: impl Iterator<Item = Vec<String>>) -> Result<()> {
    write_atomic(path, |out| {
        format_table(out, if extension(path) == "tsv" { b'\t' } else { b',' }, header, rows)
    })
}

/// [`write_table`] to any writer, with any delimiter.
///
/// ```
/// let mut out = Vec::new();
/// let row = vec!["a,b".to_owned(), "1".to_owned()];
/// robust_ot_learn::data::format_table(&mut out, b',', &[], std::iter::once(row)).unwrap();
/// assert_eq!(out, b"\"a,b\",1\n");
/// ```
///
/// # Errors
/// When the writer fails.
pub fn format_table(
    out: &mut dyn std::io::Write,
    delimiter: u8,
    header: &[String],
    rows: impl Iterator<Item = Vec<String>>,
) -> std::io::Result<()> {
    let mut writer = WriterBuilder::new().delimiter(delimiter).flexible(true).from_writer(out);
    if !header.is_empty() {
        writer.write_record(header).map_err(io_kind)?;
    }
    for row in rows {
        writer.write_record(row).map_err(io_kind)?;
    }
    writer.flush()
}

/// The writer's own error, which keeps its kind: a closed pipe is not a failure.
fn io_kind(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(source) => source,
        other => std::io::Error::other(format!("{other:?}")),
    }
}
