//! One column of all row groups.

use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};

use super::super::mixed_table::Cells;
use super::super::room::Room;
use super::footer::{Chunk, Footer, Leaf};
use super::hybrid::damaged;
use super::page::{Content, Header};
use super::thrift::{Read, Thrift};
use super::values::Values;

/// Reads a column of numbers, text or dates.
pub(super) fn read(file: &mut File, footer: &Footer, column: usize, room: &mut Room) -> Read<Cells> {
    let column = &footer.columns[column];
    let mut cells = match Values::of(column.readable()?) {
        Values::Numbers(_) => Cells::Numbers(Vec::new()),
        Values::Texts(_) => Cells::Text(Vec::new()),
    };
    let (leaf, mut rows) = (column.readable()?, 0);
    for group in &footer.groups {
        let chunk = &group[leaf.place];
        if chunk.values > footer.rows - rows {
            return Err(damaged());
        }
        rows += chunk.values;
        read_chunk(file, footer.length, leaf, chunk, &mut cells, room)?;
    }
    if rows != footer.rows {
        return Err(damaged());
    }
    let is_missing = match &cells {
        Cells::Numbers(numbers) => numbers.iter().all(|number| number.is_nan()),
        Cells::Text(texts) => texts.iter().all(Option::is_none),
        Cells::Missing(_) => true,
    };
    Ok(if is_missing { Cells::Missing(rows) } else { cells })
}

impl super::footer::Column {
    fn readable(&self) -> Read<Leaf> {
        let leaf = self.leaf.filter(|leaf| leaf.meaning != super::footer::Meaning::Other);
        leaf.ok_or_else(|| {
            let what = self.obstacle().unwrap_or("nothing");
            format!("must hold numbers, text or dates, but holds {what}")
        })
    }
}

fn read_chunk(
    file: &mut File,
    file_length: u64,
    leaf: Leaf,
    chunk: &Chunk,
    cells: &mut Cells,
    room: &mut Room,
) -> Read<()> {
    if chunk.elsewhere {
        return Err("its pages must be in the file and not encrypted, but are not".into());
    }
    if chunk.start.checked_add(chunk.length as u64).is_none_or(|end| end > file_length) {
        return Err(damaged());
    }
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    // What is here only while the chunk is read has room besides the column.
    let mut held = room.clone();
    let mut bytes = Vec::new();
    held.grow(&mut bytes, chunk.length)?;
    bytes.resize(chunk.length, 0);
    file.seek(SeekFrom::Start(chunk.start)).map_err(failed)?;
    file.read_exact(&mut bytes).map_err(failed)?;
    let (mut rest, mut dictionary, mut left) = (bytes.as_slice(), None, chunk.values);
    while left > 0 {
        let mut thrift = Thrift::new(rest);
        let header = Header::read(&mut thrift)?;
        let (page, others) = thrift.rest().split_at_checked(header.packed).ok_or_else(damaged)?;
        rest = others;
        if header.is_data() {
            if header.values > left {
                return Err(damaged());
            }
            left -= header.values;
            reserve(cells, header.values, room)?;
        }
        // A dictionary stays until the end of the chunk, values until they are appended.
        let mut scratch = held.clone();
        match header.content(leaf, chunk.codec, page, dictionary.as_ref(), &mut scratch)? {
            Content::Dictionary(values) => {
                dictionary = Some(values);
                held = scratch;
            }
            Content::Data(there, values) => append(cells, there, values, room)?,
            Content::Other => {}
        }
    }
    Ok(())
}

fn reserve(cells: &mut Cells, count: usize, room: &mut Room) -> Read<()> {
    match cells {
        Cells::Numbers(numbers) => room.grow(numbers, count),
        Cells::Text(texts) => room.grow(texts, count),
        Cells::Missing(_) => Ok(()),
    }
}

/// Appends the values that are there between those that are missing.
fn append(cells: &mut Cells, there: Option<Vec<u32>>, values: Values, room: &mut Room) -> Read<()> {
    match (cells, values) {
        (Cells::Numbers(all), Values::Numbers(numbers)) => spread(there, numbers, |number| {
            all.push(number.unwrap_or(f64::NAN));
        }),
        (Cells::Text(all), Values::Texts(texts)) => {
            room.take(texts.iter().map(String::len).sum())?;
            spread(there, texts, |text| all.push(text))
        }
        _ => Err(damaged()),
    }
}

fn spread<T>(there: Option<Vec<u32>>, values: Vec<T>, mut push: impl FnMut(Option<T>)) -> Read<()> {
    let mut values = values.into_iter();
    let Some(there) = there else {
        values.for_each(|value| push(Some(value)));
        return Ok(());
    };
    for level in there {
        push(if level == 0 { None } else { Some(values.next().ok_or_else(damaged)?) });
    }
    Ok(())
}
