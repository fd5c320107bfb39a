//! Points from files: chosen columns of tables and arrays, with weights.

use std::io::BufRead;
use std::path::Path;

use ndarray::{Array1, Array2, Axis};
use robust_ot::{Error, Result};

use super::delimited::{Records, open_csv};
use super::mixed_table::Cells;
use super::npy::read_floats;
use super::parquet::ParquetFile;
use super::room::Room;
use super::table::{NAME, Table, TableReader};
use super::table_options::{Missing, Selection, TableOptions};
use super::{extension, format_error};

/// Points, one per row, and what was left out of their file.
///
/// ```
/// use robust_ot_learn::data::{Missing, TableOptions, read_points};
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("cloud.csv");
/// std::fs::write(&path, ",x,y\n0,1,2\n1,,4\n2,5,6\n").unwrap();
/// let options = TableOptions { missing: Missing::DropRows, ..TableOptions::default() };
/// let points = read_points(&path, &options)?;
/// assert_eq!(points.table.values, ndarray::array![[1.0, 2.0], [5.0, 6.0]]);
/// assert_eq!((points.missing_rows, points.has_index), (vec![1], true));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// The points.
    pub table: Table,
    /// Their weights, if a column holds them.
    pub weights: Option<Array1<f64>>,
    /// The rows with missing values, which are left out; from 0, without the header.
    pub missing_rows: Vec<usize>,
    /// The names of the columns that [`TableOptions::drop`] left out.
    pub dropped_columns: Vec<String>,
    /// Whether the first column is an index as pandas writes it, which is left out.
    pub has_index: bool,
}

/// Reads points from `.npy`, `.csv`, `.tsv` or `.parquet`, one per row, with the feature names if the file has them.
///
/// ```
/// use robust_ot_learn::data::{TableOptions, read_points};
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("cloud.csv");
/// std::fs::write(&path, "height;width\n1;2\n3;4\n").unwrap();
/// let table = read_points(&path, &TableOptions::default())?.table;
/// assert_eq!(table.names.unwrap()[1], "width");
/// assert_eq!(table.values[[1, 0]], 3.0);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the file cannot be read, has another extension, is not a rectangle, a chosen field is not a finite number, or an
/// option does not fit the columns.
pub fn read_points(path: &Path, options: &TableOptions) -> Result<Points> {
    let mut room = Room::new();
    match extension(path).as_str() {
        "npy" => Points::of_array(path, options, &mut room),
        "parquet" => Points::of_columns(path, options, &mut room),
        "csv" | "tsv" => {
            let records = open_csv(path, &room)?;
            TableReader { place: path, options: Some(options) }.read(records, &mut room)
        }
        other => {
            let rule = "points must be .npy, .csv, .tsv or .parquet";
            Err(format_error(path, format!("{rule}, but this ends in .{other}")))
        }
    }
}

impl Points {
    /// Reads a table of text, which errors call `place`.
    ///
    /// ```
    /// use robust_ot_learn::data::{Points, TableOptions};
    ///
    /// let text = Box::new(std::io::Cursor::new("1\t2\n3\t4\n"));
    /// let points = Points::read(text, "-".as_ref(), &TableOptions::default())?;
    /// assert_eq!(points.table.values[[1, 1]], 4.0);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`read_points`].
    pub fn read(text: Box<dyn BufRead>, place: &Path, options: &TableOptions) -> Result<Self> {
        let mut room = Room::new();
        let records = Records::new(text, place, &room)?;
        TableReader { place, options: Some(options) }.read(records, &mut room)
    }

    /// Reads an array, whose columns are called by their numbers from 1.
    fn of_array(path: &Path, options: &TableOptions, room: &mut Room) -> Result<Self> {
        let values = read_floats(path, room)?;
        if *options == TableOptions::default() {
            return Ok(Self::whole(values));
        }
        // Rows are chosen before columns, which makes two copies; lists of rows may double.
        let (rows, columns) = values.dim();
        let lists = (4 * rows + columns).saturating_mul(size_of::<usize>());
        let names = columns.saturating_mul(NAME);
        let copies = values.len().saturating_mul(2 * size_of::<f64>());
        room.take(copies.saturating_add(lists).saturating_add(names))
            .map_err(|message| format_error(path, message))?;
        let labels: Vec<String> = (1..=values.ncols()).map(|column| column.to_string()).collect();
        let Selection { kept, weight, dropped } = options.select(&path.display(), &labels, 0)?;
        let read: Vec<usize> = kept.iter().copied().chain(weight).collect();
        let has_gap = |row: usize| read.iter().any(|&column| values[[row, column]].is_nan());
        let drops = options.missing == Missing::DropRows;
        let (missing_rows, rows): (Vec<_>, Vec<_>) =
            (0..values.nrows()).partition(|&row| drops && has_gap(row));
        let values = values.select(Axis(0), &rows);
        Ok(Self {
            table: Table { values: values.select(Axis(1), &kept), names: None },
            weights: weight.map(|column| values.column(column).to_owned()),
            missing_rows,
            dropped_columns: dropped,
            has_index: false,
        })
    }

    /// Reads the chosen columns of a Parquet file.
    fn of_columns(path: &Path, options: &TableOptions, room: &mut Room) -> Result<Self> {
        let mut file = ParquetFile::open(path, room)?;
        let (names, columns) = (file.names(), file.without_index());
        let labels: Vec<String> = columns.iter().map(|&column| names[column].clone()).collect();
        let Selection { kept, weight, dropped } = options.select(&path.display(), &labels, 0)?;
        let mut read = Vec::new();
        for &at in kept.iter().chain(&weight) {
            let column = columns[at];
            if let Some(what) = file.obstacle(column) {
                let rule = "leave out columns that are not numbers".to_owned();
                let found =
                    format!("in {} column {}, '{}', holds {what}", path.display(), column + 1, labels[at]);
                return Err(Error::Conflict { name: "drop", rule, found });
            }
            let numbers = match file.read(column, room)? {
                Cells::Numbers(numbers) => numbers,
                _ => vec![f64::NAN; file.rows()],
            };
            if let Some(row) = numbers.iter().position(|number| number.is_infinite()) {
                let (row, value, name) = (row + 1, numbers[row], &labels[at]);
                let message = format!("numbers must be finite, but row {row} of column '{name}' is {value}");
                return Err(format_error(path, message));
            }
            read.push(numbers);
        }
        let gap = |row: usize| read.iter().position(|numbers| numbers[row].is_nan());
        let (missing_rows, rows): (Vec<_>, Vec<_>) = (0..file.rows()).partition(|&row| gap(row).is_some());
        if let Some(&row) = missing_rows.first().filter(|_| options.missing == Missing::Error) {
            let at = gap(row).map_or(0, |place| kept.iter().chain(&weight).copied().nth(place).unwrap_or(0));
            let found =
                format!("in {} row {} of column '{}' is missing", path.display(), row + 1, labels[at]);
            let rule = "be drop-rows where values are missing".to_owned();
            return Err(Error::Conflict { name: "missing", rule, found });
        }
        if rows.is_empty() {
            let found = if missing_rows.is_empty() {
                "is empty".to_owned()
            } else {
                format!("all {} have gaps", missing_rows.len())
            };
            return Err(format_error(path, format!("must hold at least one row of numbers, but {found}")));
        }
        room.take(rows.len().saturating_mul(read.len()).saturating_mul(size_of::<f64>()))
            .map_err(|message| format_error(path, message))?;
        let values = Array2::from_shape_fn((rows.len(), kept.len()), |(row, column)| read[column][rows[row]]);
        let weights = weight.and_then(|_| read.last()).map(|all| rows.iter().map(|&row| all[row]).collect());
        let has_index = columns.len() < names.len();
        let names = Some(kept.iter().map(|&at| labels[at].clone()).collect());
        Ok(Self {
            table: Table { values, names },
            weights,
            missing_rows,
            dropped_columns: dropped,
            has_index,
        })
    }

    fn whole(values: ndarray::Array2<f64>) -> Self {
        let table = Table { values, names: None };
        Self { table, weights: None, missing_rows: Vec::new(), dropped_columns: Vec::new(), has_index: false }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use proptest::prelude::*;

    use super::*;
    use crate::data::{Header, within, write_npy};
    use crate::memory::Memory;

    fn read(text: &str, options: &TableOptions) -> Result<Points> {
        Points::read(Box::new(std::io::Cursor::new(text.to_owned())), Path::new("t.csv"), options)
    }

    fn drop(names: &[&str]) -> TableOptions {
        TableOptions { drop: names.iter().map(|&name| name.to_owned()).collect(), ..TableOptions::default() }
    }

    #[test]
    fn text_columns_are_left_out_by_name_or_number() {
        let text = "id,x,y\nfirst,1,2\nsecond,3,4\n";
        let expected = array![[1.0, 2.0], [3.0, 4.0]];
        assert_eq!(read(text, &drop(&["id"])).unwrap().table.values, expected);
        let headless = TableOptions { header: Header::No, ..drop(&["1"]) };
        assert_eq!(read("first,1,2\nsecond,3,4\n", &headless).unwrap().table.values, expected);
        let message = read(text, &TableOptions::default()).unwrap_err().to_string();
        assert_eq!(
            message,
            "drop must leave out columns that are not numbers, but in t.csv:2 column 1, 'id', is 'first'"
        );
    }

    #[test]
    fn separators_are_recognized() {
        for text in ["a,b\n1,2\n", "a;b\n1;2\n", "a\tb\n1\t2\n"] {
            let table = read(text, &TableOptions::default()).unwrap().table;
            assert_eq!(
                (table.values, table.names.unwrap()),
                (array![[1.0, 2.0]], vec!["a".into(), "b".into()])
            );
        }
    }

    #[test]
    fn the_first_line_is_data_a_header_or_in_doubt() {
        let options = |header| TableOptions { header, ..TableOptions::default() };
        let rows =
            |text: &str, header| read(text, &options(header)).map(|points| points.table.values.nrows());
        assert_eq!(rows("1,2\n3,4\n", Header::Auto).unwrap(), 2);
        assert_eq!(rows("1,2\n3,4\n", Header::Yes).unwrap(), 1);
        assert_eq!(rows("a,b\n3,4\n", Header::Auto).unwrap(), 1);
        assert_eq!(rows("a,2020\n3,4\n", Header::Yes).unwrap(), 1);
        let message = rows("a,2020\n3,4\n", Header::Auto).unwrap_err().to_string();
        assert!(message.starts_with("header must be yes or no where the first line of t.csv"), "{message}");
        assert!(message.ends_with("is auto, and column 1 is 'a' while column 2 is '2020'"), "{message}");
        // The columns of an unnamed frame of pandas are numbers below an empty name.
        assert!(rows(",0,1\n0,3,4\n", Header::Auto).unwrap_err().to_string().starts_with("header must be"));
        assert_eq!(read(",0,1\n0,3,4\n", &options(Header::Yes)).unwrap().table.values, array![[3.0, 4.0]]);
        let message = rows("a,b\n3,4\n", Header::No).unwrap_err().to_string();
        assert!(message.contains("drop") && message.contains("'a'"), "{message}");
    }

    #[test]
    fn an_index_is_no_feature() {
        for text in [",x\n7,1\n8,2\n", "Unnamed: 0,x\n7,1\n8,2\n", ",x\na,1\nb,2\n"] {
            let points = read(text, &TableOptions::default()).unwrap();
            assert_eq!((points.table.values, points.has_index), (array![[1.0], [2.0]], true));
        }
        assert!(!read("i,x\n7,1\n", &TableOptions::default()).unwrap().has_index);
    }

    #[test]
    fn missing_values_are_refused_or_dropped_and_counted() {
        let text = "x,y,w\n1,2,1\nNA,3,1\n4,,1\n5,6,nan\n7,8,2\n";
        let message = read(text, &TableOptions::default()).unwrap_err().to_string();
        assert_eq!(
            message,
            "missing must be drop-rows where values are missing, but in t.csv:3 column 1, 'x', is 'NA'"
        );
        let options = TableOptions {
            missing: Missing::DropRows,
            weight_column: Some("w".into()),
            ..TableOptions::default()
        };
        let points = read(text, &options).unwrap();
        assert_eq!(points.table.values, array![[1.0, 2.0], [7.0, 8.0]]);
        assert_eq!((points.weights.unwrap(), points.missing_rows), (array![1.0, 2.0], vec![1, 2, 3]));
        // Gaps in columns that are not read do not count.
        let options = TableOptions { missing: Missing::DropRows, ..drop(&["x", "w"]) };
        assert_eq!(read(text, &options).unwrap().missing_rows, [2]);
        let options = TableOptions { missing: Missing::DropRows, ..TableOptions::default() };
        let message = read("x\nNA\n", &options).unwrap_err().to_string();
        assert!(
            message.ends_with("t.csv: must hold at least one row of numbers, but all 1 have gaps"),
            "{message}"
        );
        assert!(read("x\ninf\n", &options).unwrap_err().to_string().contains("finite numbers"));
    }

    #[test]
    fn arrays_have_numbers_for_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &array![[1.0, 2.0, 3.0], [f64::NAN, 5.0, 6.0], [7.0, f64::NAN, 9.0]]).unwrap();
        let options =
            TableOptions { weight_column: Some("3".into()), missing: Missing::DropRows, ..drop(&["2"]) };
        let points = read_points(&path, &options).unwrap();
        assert_eq!((points.table.values, points.weights), (array![[1.0], [7.0]], Some(array![3.0, 9.0])));
        assert_eq!((points.missing_rows, points.dropped_columns), (vec![1], vec!["2".to_owned()]));
        assert!(read_points(&path, &drop(&["4"])).unwrap().dropped_columns.is_empty());
    }

    #[test]
    fn a_pattern_without_effect_is_refused() {
        let points = [read("id,x\n1,2\n", &drop(&["id", "no*"])).unwrap()];
        assert!(drop(&["id"]).check_dropped(&points).is_ok());
        let message = drop(&["id", "no*"]).check_dropped(&points).unwrap_err().to_string();
        assert_eq!(message, "drop must match a column of some file, but 'no*' matches none");
    }

    #[test]
    fn what_is_left_out_takes_memory_as_well() {
        let small = |text: &str, options: &TableOptions| {
            within(Memory(100_000), || read(text, options)).unwrap_err().to_string()
        };
        let all = TableOptions::default();
        let full = "t.csv: must be read within 100 kB of memory, but takes at least";
        let long = "1/32 of the memory for reading, but is longer";
        assert!(small(&"1;2\n".repeat(5000), &all).contains(full));
        assert!(small(&"1;".repeat(5000), &all).contains(long));
        assert!(small(&"\n".repeat(50_000), &all).contains(long));
        assert!(small(&"x;".repeat(1500), &drop(&["x"])).contains(full));
        let gaps = TableOptions { missing: Missing::DropRows, ..TableOptions::default() };
        assert!(small(&"1\n".repeat(20_000).replace('1', "NA"), &gaps).contains(full));
        // The records of a file that ends its lines as old computers did are short.
        let rows = "1;2\r".repeat(2000);
        assert_eq!(within(Memory(100_000), || read(&rows, &all)).unwrap().table.values.dim(), (2000, 2));

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        write_npy(&path, &ndarray::Array2::zeros((2000, 2))).unwrap();
        assert!(within(Memory(100_000), || read_points(&path, &all)).is_ok());
        let message = within(Memory(100_000), || read_points(&path, &drop(&["1"]))).unwrap_err().to_string();
        assert!(message.contains("a.npy: must be read within 100 kB of memory"), "{message}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9a,;\t\n\"\r.eE+-]{0,80}", rows in any::<bool>(), w in any::<bool>()) {
            let missing = if rows { Missing::DropRows } else { Missing::Error };
            let weight_column = w.then(|| "a".to_owned());
            let _ = read(&text, &TableOptions { missing, weight_column, ..drop(&["1"]) });
        }
    }
}
