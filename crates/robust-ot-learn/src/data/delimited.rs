//! Lines of separated fields: opening them, and recognizing the separator.

use std::cell::Cell;
use std::io::{self, BufRead, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use csv::{ReaderBuilder, StringRecord, Trim};
use robust_ot::{Error, Result};

use super::compressed::open_plain_or_gzip;
use super::room::{Metered, Room};
use super::{extension, format_error, io_error, line_error};

/// The first line decides which separator a file has, or as many of its bytes.
const LONGEST_START: usize = 1 << 24;

/// Records whose separator is known and whose length is bounded.
pub(super) struct Records<'a> {
    place: &'a Path,
    reader: csv::Reader<Metered<Box<dyn BufRead>>>,
    /// The bytes since the last record.
    since: Rc<Cell<usize>>,
}

/// Opens a delimited file, plain or gzipped; the caller interprets the first line and checks the number of fields.
pub(super) fn open_csv<'a>(path: &'a Path, room: &Room) -> Result<Records<'a>> {
    Records::new(open_plain_or_gzip(path)?, path, room)
}

impl<'a> Records<'a> {
    /// The records of a table, separated by tabs in `.tsv`, and by what separates the fields of the first line elsewhere.
    pub(super) fn new(mut reader: Box<dyn BufRead>, place: &'a Path, room: &Room) -> Result<Self> {
        let limit = room.line_limit();
        let start = start(&mut reader, LONGEST_START.min(limit)).map_err(|source| io_error(place, source))?;
        let delimiter = if extension(place) == "tsv" { b'\t' } else { separator(&start) };
        let (metered, since) = Metered::new(Box::new(Cursor::new(start).chain(reader)) as _, limit);
        let mut builder = ReaderBuilder::new();
        builder.delimiter(delimiter).has_headers(false).flexible(true).trim(Trim::All);
        Ok(Self { place, reader: builder.from_reader(metered), since })
    }

    /// Reads the next record; false at the end.
    pub(super) fn read(&mut self, record: &mut StringRecord) -> Result<bool> {
        self.since.set(0);
        self.reader.read_record(record).map_err(|error| csv_error(self.place, error))
    }

    /// The line after the record.
    pub(super) fn line(&self) -> usize {
        self.reader.position().line() as usize
    }
}

/// The bytes up to the end of the first line that is not empty, since empty lines are no records, or this many.
fn start(reader: &mut dyn BufRead, limit: usize) -> io::Result<Vec<u8>> {
    let mut reader = reader.take(limit as u64);
    let mut start = Vec::new();
    loop {
        let line = start.len();
        reader.read_until(b'\n', &mut start)?;
        if start.len() == line || !start[line..].trim_ascii().is_empty() {
            return Ok(start);
        }
    }
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

fn csv_error(path: &Path, error: csv::Error) -> Error {
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
