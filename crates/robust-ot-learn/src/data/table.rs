//! `.csv` and `.tsv` tables of numbers, with or without a header.

use std::cell::Cell;
use std::io::BufRead;
use std::path::Path;
use std::rc::Rc;

use csv::{ReaderBuilder, StringRecord, Trim, WriterBuilder};
use ndarray::Array2;
use robust_ot::{Error, Result};

use super::atomic::write_atomic;
use super::compressed::open_plain_or_gzip;
use super::room::{Metered, Room};
use super::{extension, format_error, io_error, line_error};

/// Rows of numbers, with the column names if the file has them.
///
/// ```
/// let table = robust_ot_learn::data::Table { values: ndarray::array![[1.0]], names: None };
/// assert_eq!(table.values.dim(), (1, 1));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// One row per line.
    pub values: Array2<f64>,
    /// The column names of the header.
    pub names: Option<Vec<String>>,
}

/// Reads comma-separated (in `.tsv`: tab-separated) finite numbers, gzipped or not. The first line is a header if all its
/// fields are names: neither numbers nor missing values.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("cloud.tsv");
/// std::fs::write(&path, "1\t2\n3\t4\n").unwrap();
/// assert_eq!(robust_ot_learn::data::read_table(&path)?.values, ndarray::array![[1.0, 2.0], [3.0, 4.0]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, is empty or ragged, or a field is not a finite number.
pub fn read_table(path: &Path) -> Result<Table> {
    read_rows(path, &mut Room::new())
}

/// [`read_table`] within some memory.
pub(super) fn read_rows(path: &Path, room: &mut Room) -> Result<Table> {
    let (mut reader, since) = open_csv(path, room)?;
    let full = |message| format_error(path, message);
    let mut record = StringRecord::new();
    let (mut names, mut values, mut width, mut rows) = (None, Vec::new(), None, 0);
    while reader.read_record(&mut record).map_err(|error| csv_error(path, error))? {
        since.set(0);
        let line = record.position().map_or(0, csv::Position::line) as usize;
        let columns = *width.get_or_insert(record.len());
        if record.len() != columns {
            let message =
                format!("every row must have {columns} fields like the first, but this has {}", record.len());
            return Err(line_error(path, line, message));
        }
        if rows == 0 && names.is_none() && record.iter().all(is_name) {
            room.take(record.len() * NAME + record.as_slice().len()).map_err(full)?;
            names = Some(record.iter().map(str::to_owned).collect());
            continue;
        }
        room.grow(&mut values, record.len()).map_err(full)?;
        for (column, field) in record.iter().enumerate() {
            match number(field) {
                Some(value) if value.is_finite() => values.push(value),
                _ => {
                    let message =
                        format!("fields must be finite numbers, but column {} is '{field}'", column + 1);
                    return Err(line_error(path, line, message));
                }
            }
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(format_error(path, "must hold at least one row of numbers, but is empty".into()));
    }
    let values = Array2::from_shape_vec((rows, width.unwrap_or(0)), values);
    Ok(Table { values: values.map_err(|error| format_error(path, error.to_string()))?, names })
}

/// Bytes that a name takes besides its letters.
const NAME: usize = 40;

/// Whether a field can be a name: neither a number nor a marker for a missing value.
fn is_name(field: &str) -> bool {
    let missing = ["", "-", "?", "na", "n/a", "null", "none", "missing"];
    number(field).is_none() && !missing.contains(&field.to_ascii_lowercase().as_str())
}

fn number(field: &str) -> Option<f64> {
    field.parse().ok()
}

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
    write_atomic(path, |out| format_table(out, delimiter(path), header, rows))
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

/// A delimited file, and the number of bytes since the caller last set it to zero, which is bounded.
type Delimited = (csv::Reader<Metered<Box<dyn BufRead>>>, Rc<Cell<usize>>);

/// Opens a delimited file, plain or gzipped; the caller interprets the first line and checks the number of fields.
pub(super) fn open_csv(path: &Path, room: &Room) -> Result<Delimited> {
    let mut builder = ReaderBuilder::new();
    builder.delimiter(delimiter(path)).has_headers(false).flexible(true).trim(Trim::All);
    let (metered, since) = Metered::new(open_plain_or_gzip(path)?, room.line_limit());
    Ok((builder.from_reader(metered), since))
}

fn delimiter(path: &Path) -> u8 {
    if extension(path) == "tsv" { b'\t' } else { b',' }
}

pub(super) fn csv_error(path: &Path, error: csv::Error) -> Error {
    let line = error.position().map(csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(source) => io_error(path, source),
        csv::ErrorKind::Utf8 { err, .. } => {
            line_error(path, line.unwrap_or(1) as usize, format!("text must be UTF-8, but {err}"))
        }
        other => format_error(path, format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use proptest::prelude::*;

    use super::*;

    fn read(name: &str, text: &str) -> Result<Table> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        read_table(&path)
    }

    #[test]
    fn headers_quotes_blank_lines_and_byte_order_marks_are_no_obstacle() {
        let table = read("a.csv", "\u{feff}1, 2\r\n\r\n\"3\",4e-1\r\n").unwrap();
        assert_eq!(table.values, array![[1.0, 2.0], [3.0, 0.4]]);
        assert_eq!(table.names, None);
        let named = read("a.csv", "\"a, b\",c\n1,2\n").unwrap();
        assert_eq!(named.names.unwrap(), ["a, b", "c"]);
    }

    #[test]
    fn gzipped_tables_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tsv.gz");
        std::fs::write(&path, crate::data::compressed::tests::gzip(b"1\t2\n")).unwrap();
        assert_eq!(read_table(&path).unwrap().values, array![[1.0, 2.0]]);
    }

    #[test]
    fn each_fault_has_its_line() {
        let message = |text: &str| read("a.csv", text).unwrap_err().to_string();
        assert!(message("1,2\n3\n").contains("a.csv:2: every row must have 2 fields"));
        assert!(
            message("1,2\n3,x\n").contains("a.csv:2: fields must be finite numbers, but column 2 is 'x'")
        );
        assert!(message("1,2\n3,nan\n").contains("column 2 is 'nan'"));
        assert!(message("1,2\n3,\n").contains("column 2 is ''"));
        assert!(message("1,b\n").contains("column 2 is 'b'"));
        assert!(
            message("NA,NA\n1,2\n").contains("a.csv:1: fields must be finite numbers, but column 1 is 'NA'")
        );
        assert!(message(",\n1,2\n").contains("column 1 is ''"));
        assert!(message("").contains("is empty"));
        assert!(message("a,b\n").contains("is empty"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9a,\t\n\"\r.eE+-]{0,80}") {
            let _ = read("a.csv", &text);
        }
    }
}
