//! Lines of separated fields: opening them, and recognizing the separator.

use std::io::{BufRead, Cursor, Read};
use std::path::Path;

use csv::{ReaderBuilder, Trim};
use robust_ot::{Error, Result};

use super::compressed::open_plain_or_gzip;
use super::{extension, format_error, io_error, line_error};

/// The first line decides which separator a file has; more bytes than this are not a line of a table.
const LONGEST_LINE: u64 = 1 << 24;

/// A reader of records whose separator is known.
pub(super) type Records = csv::Reader<Box<dyn BufRead>>;

/// Opens a delimited file, plain or gzipped; the caller interprets the first line and checks the number of fields.
pub(super) fn open_csv(path: &Path) -> Result<Records> {
    records(open_plain_or_gzip(path)?, path)
}

/// The records of a table, separated by tabs in `.tsv`, and by what separates the fields of the first line elsewhere.
pub(super) fn records(mut reader: Box<dyn BufRead>, place: &Path) -> Result<Records> {
    let mut start = Vec::new();
    // Empty lines are no records.
    while start.trim_ascii().is_empty() {
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut start);
        if read.map_err(|source| io_error(place, source))? == 0 {
            break;
        }
    }
    let delimiter = if extension(place) == "tsv" { b'\t' } else { separator(&start) };
    let mut builder = ReaderBuilder::new();
    builder.delimiter(delimiter).has_headers(false).flexible(true).trim(Trim::All);
    Ok(builder.from_reader(Box::new(Cursor::new(start).chain(reader))))
}

/// The most frequent of comma, semicolon and tab outside of quotes. A comma between digits does not count: it may be that of
/// a decimal. Of equally frequent ones, the semicolon is chosen before the comma and the comma before the tab, which may be
/// white space around fields.
fn separator(line: &[u8]) -> u8 {
    let (mut semicolons, mut commas, mut tabs, mut quoted) = (0, 0, 0, false);
    for (at, byte) in line.iter().enumerate() {
        let digit = |at: Option<usize>| at.and_then(|at| line.get(at)).is_some_and(u8::is_ascii_digit);
        match byte {
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b';' => semicolons += 1,
            b'\t' => tabs += 1,
            b',' if !(digit(at.checked_sub(1)) && digit(Some(at + 1))) => commas += 1,
            _ => {}
        }
    }
    if semicolons > 0 && semicolons >= commas.max(tabs) {
        b';'
    } else if tabs > commas {
        b'\t'
    } else {
        b','
    }
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
    use super::*;

    #[test]
    fn the_first_line_shows_the_separator() {
        for (line, expected) in [
            ("1,2,3", b','),
            ("a,b", b','),
            ("a", b','),
            ("", b','),
            ("a;b", b';'),
            ("1,5;2,5", b';'),
            ("1,5\t2,5", b'\t'),
            ("a\tb", b'\t'),
            ("1,\t2,\t3", b','),
            ("1, 2", b','),
            ("\"a;b;c\",d", b','),
            ("name; x, y; z", b';'),
        ] {
            assert_eq!(char::from(separator(line.as_bytes())), char::from(expected), "{line}");
        }
    }
}
