//! Labels in `.csv` and `.tsv` tables.

use std::path::Path;

use csv::StringRecord;
use robust_ot::Result;

use super::delimited::open_csv;
use super::mixed_table::{Cells, MixedTable};
use super::room::Room;
use super::table_options::Header;
use super::tags::Tags;
use super::{format_error, line_error};

/// Reads a table with a header: one column of classes, or one column of 0 and 1 per label.
pub(super) fn read_label_table(path: &Path) -> Result<Tags> {
    let mut room = Room::new();
    let mut reader = open_csv(path, &room)?;
    let (mut tags, mut record) = (Tags::default(), StringRecord::new());
    let mut header: Option<usize> = None;
    while reader.read(&mut record)? {
        let line = record.position().map_or(0, csv::Position::line) as usize;
        let refuse = |message: String| line_error(path, line, message);
        let Some(width) = header else {
            if let Some(number) = record.iter().find(|field| field.parse::<f64>().is_ok()) {
                let message = format!("the first line must be a header of names, but has '{number}'");
                return Err(refuse(message));
            }
            header = Some(record.len());
            if record.len() > 1 {
                tags.push(line, record.iter(), &mut room).map_err(refuse)?;
                tags.rows.clear();
            }
            continue;
        };
        if record.len() != width {
            let found = record.len();
            return Err(refuse(format!(
                "every row must have {width} fields like the first, but this has {found}"
            )));
        }
        if width == 1 {
            // The parser skips empty lines, which here would be samples.
            let within: usize = record.iter().map(|field| field.matches('\n').count()).sum();
            if reader.line() > line + 1 + within {
                return Err(refuse("a sample must have a class, but a line is empty".into()));
            }
            tags.push(line, record.iter(), &mut room).map_err(refuse)?;
        } else {
            let mut row = Vec::new();
            for (column, field) in record.iter().enumerate() {
                match field.parse::<f64>() {
                    Ok(0.0) => {}
                    Ok(1.0) => room.push(&mut row, column).map_err(refuse)?,
                    _ => {
                        let column = column + 1;
                        let rule = "fields of a table of labels must be 0 or 1";
                        return Err(refuse(format!("{rule}, but column {column} is '{field}'")));
                    }
                }
            }
            room.push(&mut tags.rows, row).map_err(refuse)?;
        }
    }
    if tags.rows.is_empty() {
        return Err(format_error(path, "must hold a header and at least one row, but does not".into()));
    }
    Ok(tags)
}

/// Reads a Parquet file: one column of classes, or one column of 0 and 1 per label.
pub(super) fn read_label_columns(path: &Path) -> Result<Tags> {
    let MixedTable { columns, rows, .. } = MixedTable::open(path, Header::Auto)?;
    let (mut tags, mut room) = (Tags::default(), Room::new());
    let refuse = |row: usize, message: String| format_error(path, format!("row {}: {message}", row + 1));
    if let [column] = &columns[..] {
        for row in 0..rows {
            let class = column.text(row);
            tags.push(row + 1, std::iter::once(class.as_str()), &mut room)
                .map_err(|found| refuse(row, found))?;
        }
        return Ok(tags);
    }
    let names = columns.iter().map(|column| column.name.as_str());
    tags.push(0, names, &mut room).map_err(|message| format_error(path, message))?;
    tags.rows.clear();
    for row in 0..rows {
        let mut labels = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            let value = match &column.cells {
                Cells::Numbers(numbers) => numbers[row],
                _ => f64::NAN,
            };
            match value {
                0.0 => {}
                1.0 => room.push(&mut labels, place).map_err(|message| refuse(row, message))?,
                _ => {
                    let (name, found) = (&column.name, column.text(row));
                    let rule = "columns of labels must be 0 or 1";
                    return Err(refuse(row, format!("{rule}, but '{name}' is '{found}'")));
                }
            }
        }
        room.push(&mut tags.rows, labels).map_err(|message| refuse(row, message))?;
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use crate::data::label_file::tests::{message, read};

    #[test]
    fn classes_or_indicators_below_a_header() {
        let table = read("t.csv", b"sea,ship\n0,1\n0,0\n1.0,1\n", None).unwrap();
        assert_eq!(table.rows, [vec![1], vec![], vec![0, 1]]);
        assert_eq!(table.names.unwrap(), ["sea", "ship"]);
        let named = read("t.tsv", b"sea\tship\n0\t1\n", Some(&["ship", "sky", "sea"])).unwrap();
        assert_eq!((named.rows, named.count), (vec![vec![0]], 3));
        let classes = read("t.csv", b"class\nship\nsea\nship\n", None).unwrap();
        assert_eq!((classes.rows, classes.count), (vec![vec![0], vec![1], vec![0]], 2));
        assert_eq!(read("t.csv", b"class\n2\n0", None).unwrap().rows, [[2], [0]]);
        assert!(
            message("t.csv", "a,b\n0,2\n", None)
                .contains("t.csv:2: fields of a table of labels must be 0 or 1, but column 2 is '2'")
        );
        assert!(message("t.csv", "a,b\n0\n", None).contains("t.csv:2: every row must have 2 fields"));
        assert!(message("t.csv", "a,a\n0,0\n", None).contains("'a' is repeated"));
        assert!(
            message("t.csv", "3\n0\n", None)
                .contains("t.csv:1: the first line must be a header of names, but has '3'")
        );
        assert!(message("t.csv", "class\n1\n\n2\n", None).contains("but a line is empty"));
        assert!(message("t.csv", "a,b\n", None).contains("at least one row"));
        assert!(
            message("t.csv", "a,seaa\n0,0\n", Some(&["a", "sea"])).contains("'seaa' is not; did you mean")
        );
    }
}
