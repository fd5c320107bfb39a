//! Tables with columns of numbers and columns of text.

use std::io::BufRead;
use std::path::Path;

use csv::StringRecord;
use robust_ot::{Error, Result};

use super::delimited::{Records, open_csv};
use super::field::Field;
use super::npy::read_floats;
use super::parquet::ParquetFile;
use super::room::Room;
use super::table::{INDEX, NAME, TableReader};
use super::table_options::{Header, TableOptions};
use super::{extension, format_error, line_error};

/// The fields of a column. The first field that is not missing decides which they are.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Numbers; NaN where one is missing.
    Numbers(Vec<f64>),
    /// Text, nothing where it is missing.
    Text(Vec<Option<String>>),
    /// The number of rows, all of them missing.
    Missing(usize),
}

/// A named column.
#[derive(Debug, Clone, PartialEq)]
pub struct MixedColumn {
    /// Its name; without a header, its number from 1.
    pub name: String,
    /// Its fields.
    pub cells: Cells,
}

/// A table whose columns are numbers or text.
///
/// ```
/// use robust_ot_learn::data::{Cells, Header, MixedTable};
///
/// let text = Box::new(std::io::Cursor::new("gas,ppm\nethanol,10\nacetone,NA\n"));
/// let table = MixedTable::read(text, "-".as_ref(), Header::Auto)?;
/// assert!(matches!(&table.columns[0].cells, Cells::Text(names) if names[1].as_deref() == Some("acetone")));
/// assert!(matches!(&table.columns[1].cells, Cells::Numbers(ppm) if ppm[0] == 10.0 && ppm[1].is_nan()));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MixedTable {
    /// The columns, without an index as pandas writes it.
    pub columns: Vec<MixedColumn>,
    /// The number of rows.
    pub rows: usize,
    /// Whether the names come from a header.
    pub has_header: bool,
    /// Whether there was an index.
    pub has_index: bool,
}

impl MixedTable {
    /// Reads a table from `.csv`, `.tsv`, `.parquet` or `.npy`.
    ///
    /// # Errors
    /// When the file cannot be read, has another extension or no rows, or a column of numbers holds text.
    pub fn open(path: &Path, header: Header) -> Result<Self> {
        let mut room = Room::new();
        match extension(path).as_str() {
            "npy" => {
                let values = read_floats(path, &mut room)?;
                let column = |(number, column): (usize, ndarray::ArrayView1<f64>)| MixedColumn {
                    name: (number + 1).to_string(),
                    cells: Cells::Numbers(column.to_vec()),
                };
                room.take(values.len().saturating_mul(size_of::<f64>()))
                    .map_err(|message| format_error(path, message))?;
                let columns = values.columns().into_iter().enumerate().map(column).collect();
                Ok(Self { columns, rows: values.nrows(), has_header: false, has_index: false })
            }
            "csv" | "tsv" => Self::of_records(open_csv(path, &room)?, path, header, &mut room),
            "parquet" => {
                let mut file = ParquetFile::open(path, &mut room)?;
                let (names, columns) = (file.names(), file.without_index());
                let column = |&at: &usize| {
                    Ok(MixedColumn { name: names[at].clone(), cells: file.read(at, &mut room)? })
                };
                let read = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
                if file.rows() == 0 || read.is_empty() {
                    let found = format!("{} × {}", file.rows(), read.len());
                    return Err(format_error(
                        path,
                        format!("must hold at least one row and column, but is {found}"),
                    ));
                }
                let has_index = columns.len() < names.len();
                Ok(Self { columns: read, rows: file.rows(), has_header: true, has_index })
            }
            other => Err(format_error(
                path,
                format!("tables must be .csv, .tsv, .parquet or .npy, but this ends in .{other}"),
            )),
        }
    }

    /// Reads a table of text, which errors call `place`.
    ///
    /// # Errors
    /// As for [`MixedTable::open`].
    pub fn read(text: Box<dyn BufRead>, place: &Path, header: Header) -> Result<Self> {
        let mut room = Room::new();
        Self::of_records(Records::new(text, place, &room)?, place, header, &mut room)
    }

    fn of_records(mut records: Records, place: &Path, header: Header, room: &mut Room) -> Result<Self> {
        let options = TableOptions { header, ..TableOptions::default() };
        let reader = TableReader { place, options: Some(&options) };
        let full = |message| format_error(place, message);
        let mut record = StringRecord::new();
        let mut table: Option<Self> = None;
        while records.read(&mut record)? {
            let line = record.position().map_or(0, csv::Position::line) as usize;
            let table = if let Some(table) = &mut table {
                table
            } else {
                let has_header = reader.is_header(&record)?;
                room.take(record.len() * 2 * NAME + record.as_slice().len()).map_err(full)?;
                let table = table.insert(Self::with_names(&record, has_header));
                if has_header {
                    continue;
                }
                table
            };
            let (skipped, width) = (usize::from(table.has_index), table.columns.len());
            if record.len() != width + skipped {
                let (width, found) = (width + skipped, record.len());
                let message =
                    format!("every row must have {width} fields like the first, but this has {found}");
                return Err(line_error(place, line, message));
            }
            for (number, (field, column)) in record.iter().skip(skipped).zip(&mut table.columns).enumerate() {
                column.push(field, table.rows, room).map_err(|fault| match fault {
                    Fault::Full(message) => format_error(place, message),
                    Fault::Rule(rule) => {
                        let (number, name) = (number + skipped + 1, &column.name);
                        let named = if table.has_header { format!(", '{name}',") } else { String::new() };
                        line_error(place, line, format!("{rule}, but column {number}{named} is '{field}'"))
                    }
                })?;
            }
            table.rows += 1;
        }
        table.filter(|table| table.rows > 0).ok_or_else(|| {
            format_error(place, "must hold at least one row below its header, but is empty".to_owned())
        })
    }

    fn with_names(first: &StringRecord, has_header: bool) -> Self {
        let has_index = has_header && first.len() > 1 && INDEX.contains(&first.get(0).unwrap_or("x"));
        let name = |(number, name): (usize, &str)| {
            if has_header { name.to_owned() } else { (number + 1).to_string() }
        };
        let names = first.iter().enumerate().skip(usize::from(has_index)).map(name);
        let columns = names.map(|name| MixedColumn { name, cells: Cells::Missing(0) }).collect();
        Self { columns, rows: 0, has_header, has_index }
    }

    /// The column of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn column(&self, option: &'static str, name: &str, place: &Path) -> Result<&MixedColumn> {
        let found = self.columns.iter().find(|column| column.name == name);
        found.ok_or_else(|| Error::Conflict {
            name: option,
            rule: format!("be a column of {}", place.display()),
            found: format!("there is no '{name}'"),
        })
    }
}

/// Why a field cannot be added.
enum Fault {
    Full(String),
    Rule(&'static str),
}

impl MixedColumn {
    fn push(&mut self, field: &str, rows: usize, room: &mut Room) -> std::result::Result<(), Fault> {
        let kind = Field::new(field);
        if let (Cells::Missing(missing), false) = (&self.cells, matches!(kind, Field::Missing)) {
            self.cells = match kind {
                Field::Number(_) => Cells::Numbers(vec![f64::NAN; *missing]),
                _ => Cells::Text(vec![None; *missing]),
            };
        }
        match (&mut self.cells, kind) {
            (Cells::Missing(missing), _) => *missing = rows + 1,
            (Cells::Numbers(numbers), Field::Number(value)) if value.is_finite() => {
                room.push(numbers, value).map_err(Fault::Full)?;
            }
            (Cells::Numbers(numbers), Field::Missing) => {
                room.push(numbers, f64::NAN).map_err(Fault::Full)?;
            }
            (Cells::Numbers(_), Field::Number(_)) => return Err(Fault::Rule("numbers must be finite")),
            (Cells::Numbers(_), Field::Separated) => {
                return Err(Fault::Rule("numbers must have a decimal point and no separators of thousands"));
            }
            (Cells::Numbers(_), Field::Text) => {
                return Err(Fault::Rule("a column that starts with a number must hold numbers"));
            }
            (Cells::Text(texts), Field::Missing) => room.push(texts, None).map_err(Fault::Full)?,
            (Cells::Text(texts), _) => {
                room.take(field.len() + NAME).map_err(Fault::Full)?;
                room.push(texts, Some(field.to_owned())).map_err(Fault::Full)?;
            }
        }
        Ok(())
    }

    /// Whether a row has no value.
    pub fn is_missing(&self, row: usize) -> bool {
        match &self.cells {
            Cells::Numbers(numbers) => numbers[row].is_nan(),
            Cells::Text(texts) => texts[row].is_none(),
            Cells::Missing(_) => true,
        }
    }

    /// The value of a row as text; empty where it is missing.
    pub fn text(&self, row: usize) -> String {
        match &self.cells {
            Cells::Numbers(numbers) if numbers[row].is_nan() => String::new(),
            Cells::Numbers(numbers) => numbers[row].to_string(),
            Cells::Text(texts) => texts[row].clone().unwrap_or_default(),
            Cells::Missing(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<MixedTable> {
        MixedTable::read(Box::new(std::io::Cursor::new(text.to_owned())), Path::new("t.csv"), Header::Auto)
    }

    #[test]
    fn columns_are_numbers_or_text() {
        let table = read(",a,b,c\n0,NA,x,\n1,2.5,7,\n2,3,,\n").unwrap();
        assert!(table.has_index && table.has_header && table.rows == 3);
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(
            matches!(&table.columns[0].cells, Cells::Numbers(a) if a[0].is_nan() && a[1..] == [2.5, 3.0])
        );
        assert_eq!(table.columns[1].cells, Cells::Text(vec![Some("x".into()), Some("7".into()), None]));
        assert_eq!(table.columns[2].cells, Cells::Missing(3));
        assert!(table.columns[0].is_missing(0) && !table.columns[0].is_missing(1));
        assert_eq!((table.columns[0].text(1), table.columns[1].text(2)), ("2.5".into(), String::new()));
    }

    #[test]
    fn each_fault_has_its_line() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            message("a,b\n1,x\ny,x\n"),
            "t.csv:3: a column that starts with a number must hold numbers, but column 1, 'a', is 'y'"
        );
        assert!(
            message("a\n1\ninf\n").contains("t.csv:3: numbers must be finite, but column 1, 'a', is 'inf'")
        );
        assert!(message("a;b\n1;2\n1,5;2\n").contains("must have a decimal point"));
        assert!(message("a,b\n1\n").contains("t.csv:2: every row must have 2 fields"));
        assert!(message("a,b\n").contains("must hold at least one row"));
        assert!(message("").contains("is empty"));
        let table = read("a,b\n1,2\n").unwrap();
        let message = table.column("by", "c", Path::new("t.csv")).unwrap_err().to_string();
        assert_eq!(message, "by must be a column of t.csv, but there is no 'c'");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9a,;\t\n\"\r.eE+-]{0,80}") {
            let _ = read(&text);
        }
    }
}
