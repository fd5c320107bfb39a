//! `.csv` and `.tsv` tables of numbers, with or without a header.

use std::path::Path;

use csv::StringRecord;
use ndarray::{Array1, Array2, Axis};
use robust_ot::{Error, Result};

use super::delimited::{Records, open_csv};
use super::field::Field;
use super::points::Points;
use super::room::Room;
use super::table_options::{Header, Missing, Selection, TableOptions};
use super::{format_error, line_error};

/// Names that pandas gives to the index: an empty one when it writes, the other when it reads that again.
pub(super) const INDEX: [&str; 2] = ["", "Unnamed: 0"];

/// Bytes that a name takes besides its letters.
pub(super) const NAME: usize = 40;

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

impl Table {
    /// Some columns, in the given order.
    ///
    /// ```
    /// let table = robust_ot_learn::data::Table { values: ndarray::array![[1.0, 2.0]], names: None };
    /// assert_eq!(table.select(&[1, 0]).values, ndarray::array![[2.0, 1.0]]);
    /// ```
    #[must_use]
    pub fn select(&self, columns: &[usize]) -> Self {
        let names = self.names.as_ref();
        let names = names.map(|names| columns.iter().map(|&column| names[column].clone()).collect());
        Self { values: self.values.select(Axis(1), columns), names }
    }
}

/// Reads finite numbers separated by tabs in `.tsv`, and by commas, semicolons or tabs in other files, gzipped or not. The
/// first line is a header if all its fields are names. Every column must hold numbers; [`read_points`](super::read_points)
/// chooses columns.
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
    let records = open_csv(path, room)?;
    Ok(TableReader { place: path, options: None }.read(records, room)?.table)
}

/// Reads one table. Without options there are none to point to: every fault is one of the file.
pub(super) struct TableReader<'a> {
    pub place: &'a Path,
    pub options: Option<&'a TableOptions>,
}

/// The columns of a table, known after its first line.
struct Columns {
    /// The number of fields in every line.
    width: usize,
    names: Option<Vec<String>>,
    has_index: bool,
    selection: Selection,
}

impl TableReader<'_> {
    pub(super) fn read(&self, mut reader: Records, room: &mut Room) -> Result<Points> {
        let place = self.place;
        let full = |message| format_error(place, message);
        let mut record = StringRecord::new();
        let (mut columns, mut values, mut weights, mut missing) = (None, Vec::new(), Vec::new(), Vec::new());
        let mut rows = 0;
        while reader.read(&mut record)? {
            let line = record.position().map_or(0, csv::Position::line) as usize;
            let columns = if let Some(columns) = &columns {
                columns
            } else {
                let header = self.is_header(&record)?;
                room.take(self.bytes(&record, header)).map_err(full)?;
                let found = columns.insert(self.columns(&record, header)?);
                if header {
                    continue;
                }
                found
            };
            if record.len() != columns.width {
                let (width, found) = (columns.width, record.len());
                let message =
                    format!("every row must have {width} fields like the first, but this has {found}");
                return Err(line_error(place, line, message));
            }
            let Selection { kept, weight, .. } = &columns.selection;
            room.grow(&mut values, kept.len()).map_err(full)?;
            room.grow(&mut weights, usize::from(weight.is_some())).map_err(full)?;
            if self.take_row(columns, &record, line, &mut values, &mut weights)? {
                rows += 1;
            } else {
                let row = rows + missing.len();
                room.push(&mut missing, row).map_err(full)?;
            }
        }
        let Some(columns) = columns.filter(|_| rows > 0) else {
            let found = if missing.is_empty() {
                "is empty".to_owned()
            } else {
                format!("all {} have gaps", missing.len())
            };
            return Err(format_error(place, format!("must hold at least one row of numbers, but {found}")));
        };
        let Columns { names, has_index, selection: Selection { kept, weight, dropped }, .. } = columns;
        let values = Array2::from_shape_vec((rows, kept.len()), values);
        let values = values.map_err(|error| format_error(place, error.to_string()))?;
        let names = names.map(|names| kept.iter().map(|&at| names[at].clone()).collect());
        Ok(Points {
            table: Table { values, names },
            weights: weight.map(|_| Array1::from(weights)),
            missing_rows: missing,
            dropped_columns: dropped,
            has_index,
        })
    }

    /// Whether the first line has names.
    pub(super) fn is_header(&self, record: &StringRecord) -> Result<bool> {
        let kinds: Vec<Field> = record.iter().map(Field::new).collect();
        match self.options.map(|options| options.header) {
            // Nobody can be asked about a line in doubt: it is data, whose first name is then refused.
            None => return Ok(kinds.iter().all(|kind| matches!(kind, Field::Text))),
            Some(Header::Yes) => return Ok(true),
            Some(Header::No) => return Ok(false),
            Some(Header::Auto) => {}
        }
        let number = kinds.iter().position(|kind| matches!(kind, Field::Number(_) | Field::Separated));
        let unnamed_index = kinds.len() > 1 && record.iter().next() == Some("");
        let name = kinds.iter().position(|kind| matches!(kind, Field::Text)).or(unnamed_index.then_some(0));
        let (Some(number), Some(name)) = (number, name) else { return Ok(name.is_some()) };
        let show = |at: usize| format!("column {} is '{}'", at + 1, record.get(at).unwrap_or(""));
        let place = self.place.display();
        Err(Error::Conflict {
            name: "header",
            rule: format!("be yes or no where the first line of {place} has both names and numbers"),
            found: format!("is auto, and {} while {}", show(name), show(number)),
        })
    }

    /// The bytes that the columns take: their places, and copies of their names. Those of a header are read and returned;
    /// options choose from names and return those that they leave out.
    fn bytes(&self, first: &StringRecord, header: bool) -> usize {
        let copies = match (header, self.options) {
            (false, None) => 0,
            (true, Some(_)) => 3,
            _ => 2,
        };
        first.len() * (size_of::<usize>() + copies * NAME) + copies * first.as_slice().len()
    }

    /// The columns to read, from the first line.
    fn columns(&self, first: &StringRecord, header: bool) -> Result<Columns> {
        let width = first.len();
        let names = header.then(|| first.iter().map(str::to_owned).collect::<Vec<_>>());
        let has_index = self.options.is_some()
            && width > 1
            && names.as_ref().is_some_and(|names| INDEX.contains(&names[0].as_str()));
        let selection = match self.options {
            None => Selection { kept: (0..width).collect(), weight: None, dropped: Vec::new() },
            Some(options) => {
                let numbers = || (1..=width).map(|column| column.to_string()).collect();
                let labels = names.clone().unwrap_or_else(numbers);
                options.select(&self.place.display(), &labels, usize::from(has_index))?
            }
        };
        Ok(Columns { width, names, has_index, selection })
    }

    /// Appends the numbers of a row, or nothing if one is missing and such rows are dropped.
    fn take_row(
        &self,
        columns: &Columns,
        record: &StringRecord,
        line: usize,
        values: &mut Vec<f64>,
        weights: &mut Vec<f64>,
    ) -> Result<bool> {
        let Selection { kept, weight, .. } = &columns.selection;
        let (start, dropped) =
            (values.len(), self.options.map(|options| options.missing) == Some(Missing::DropRows));
        let mut whole = true;
        for &column in kept.iter().chain(weight) {
            let field = &record[column];
            let into = if Some(column) == *weight { &mut *weights } else { &mut *values };
            match Field::new(field) {
                Field::Number(value) if value.is_finite() => into.push(value),
                Field::Missing if dropped => {
                    whole = false;
                    into.push(f64::NAN);
                }
                kind => return Err(self.fault(columns, kind, (line, column), field)),
            }
        }
        if !whole {
            values.truncate(start);
            weights.truncate(weights.len() - usize::from(weight.is_some()));
        }
        Ok(whole)
    }

    /// What is wrong with a field, and the option that mends it.
    fn fault(&self, columns: &Columns, kind: Field, (line, column): (usize, usize), field: &str) -> Error {
        let name = columns.names.as_ref().map_or_else(String::new, |names| format!(", '{}',", names[column]));
        let what = format!("column {}{name} is '{field}'", column + 1);
        let place = format!("{}:{line}", self.place.display());
        match kind {
            Field::Separated => {
                let rule = "numbers must have a decimal point and no separators of thousands";
                line_error(self.place, line, format!("{rule}, but {what}"))
            }
            Field::Text if self.options.is_some() => {
                let rule = "leave out columns that are not numbers".to_owned();
                Error::Conflict { name: "drop", rule, found: format!("in {place} {what}") }
            }
            Field::Missing if self.options.is_some() => {
                let rule = "be drop-rows where values are missing".to_owned();
                Error::Conflict { name: "missing", rule, found: format!("in {place} {what}") }
            }
            _ => line_error(self.place, line, format!("fields must be finite numbers, but {what}")),
        }
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
        let named = read("a.csv", "\n\"a, b\",c\n1,2\n").unwrap();
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
        assert!(
            message("a,b\n3,x\n")
                .contains("a.csv:2: fields must be finite numbers, but column 2, 'b', is 'x'")
        );
        assert!(message("1,2\n3,nan\n").contains("column 2 is 'nan'"));
        assert!(message("1,2\n3,\n").contains("column 2 is ''"));
        assert!(message("1,b\n").contains("column 2 is 'b'"));
        assert!(
            message("NA,NA\n1,2\n").contains("a.csv:1: fields must be finite numbers, but column 1 is 'NA'")
        );
        assert!(message(",\n1,2\n").contains("column 1 is ''"));
        assert!(message(",a\n1,2\n").contains("column 1 is ''"));
        assert!(message("1;2\n1,5;2\n").contains("must have a decimal point and no separators of thousands"));
        assert!(message("").contains("is empty"));
        assert!(message("a,b\n").contains("is empty"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9a,;\t\n\"\r.eE+-]{0,80}") {
            let _ = read("a.csv", &text);
        }
    }
}
