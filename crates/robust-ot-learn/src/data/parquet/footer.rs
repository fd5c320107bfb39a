//! The end of a Parquet file: its columns, and where their chunks are.

use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};

use super::super::room::Room;
use super::thrift::{Read, Thrift};

const MAGIC: &[u8; 4] = b"PAR1";
const ENCRYPTED: &[u8; 4] = b"PARE";
/// Bytes that the description takes once it is read, per byte in the file.
const FACTOR: usize = 24;

/// The columns of a file and the places of their chunks.
#[derive(Debug)]
pub(super) struct Footer {
    pub rows: usize,
    pub columns: Vec<Column>,
    /// The chunks of each row group, for every leaf of the schema.
    pub groups: Vec<Vec<Chunk>>,
    /// The length of the file.
    pub length: u64,
}

/// A column of the table.
#[derive(Debug)]
pub(super) struct Column {
    pub name: String,
    /// Nothing for columns of lists or structures.
    pub leaf: Option<Leaf>,
}

/// How the values of a column are stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf {
    /// Its place among the leaves of the schema.
    pub place: usize,
    pub stored: Stored,
    pub meaning: Meaning,
    /// Whether values may be missing.
    pub optional: bool,
}

/// Physical types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Boolean,
    Int32,
    Int64,
    Int96,
    Float,
    Double,
    Bytes,
    Fixed(usize),
}

/// What stored values mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Number,
    Unsigned,
    /// Integers over this power of ten.
    Decimal(i32),
    Half,
    Text,
    /// Days since 1970.
    Date,
    /// This many ticks a second since 1970.
    Timestamp(i64),
    /// Times of day, intervals, bytes.
    Other,
}

/// Where the pages of a leaf are in a row group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chunk {
    pub codec: i64,
    pub values: usize,
    pub start: u64,
    pub length: usize,
    /// Whether the pages are in another file or encrypted.
    pub elsewhere: bool,
}

impl Column {
    /// What it holds if it is not numbers.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        let Some(leaf) = &self.leaf else { return Some("lists or structures") };
        match leaf.meaning {
            Meaning::Number | Meaning::Unsigned | Meaning::Decimal(_) | Meaning::Half => None,
            Meaning::Text => Some("text"),
            Meaning::Date | Meaning::Timestamp(_) => Some("dates"),
            Meaning::Other => Some("bytes or times of day"),
        }
    }
}

impl Footer {
    pub(super) fn read(file: &mut File, room: &mut Room) -> Read<Self> {
        let failed = |error: std::io::Error| format!("cannot be read: {error}");
        let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let refused = || "must be a Parquet file, which begins and ends with PAR1, but does not".to_owned();
        if length < 12 {
            return Err(refused());
        }
        let (mut first, mut last) = ([0; 4], [0; 8]);
        file.rewind().map_err(failed)?;
        file.read_exact(&mut first).map_err(failed)?;
        file.seek(SeekFrom::End(-8)).map_err(failed)?;
        file.read_exact(&mut last).map_err(failed)?;
        let [a, b, c, d, end @ ..] = last;
        if &end == ENCRYPTED {
            return Err("must not be encrypted, but is".into());
        }
        if (&first, &end) != (MAGIC, MAGIC) {
            return Err(refused());
        }
        let described = u64::from(u32::from_le_bytes([a, b, c, d]));
        if described > length - 12 {
            return Err(super::thrift::DAMAGED.into());
        }
        room.take((described as usize).saturating_mul(FACTOR))?;
        let mut bytes = vec![0; described as usize];
        file.seek(SeekFrom::Start(length - 8 - described)).map_err(failed)?;
        file.read_exact(&mut bytes).map_err(failed)?;
        Self::parse(&bytes, length)
    }

    fn parse(bytes: &[u8], length: u64) -> Read<Self> {
        let (mut elements, mut groups, mut rows) = (Vec::new(), Vec::new(), 0);
        Thrift::new(bytes).fields(&mut |id, _, thrift| {
            match id {
                2 => elements = thrift.structures(Element::read)?,
                3 => rows = thrift.count()?,
                4 => groups = thrift.structures(row_group)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let (columns, leaves) = columns(&elements)?;
        if groups.iter().any(|group| group.len() != leaves) {
            return Err(super::thrift::DAMAGED.into());
        }
        Ok(Self { rows, columns, groups, length })
    }
}

/// An entry of the schema, which is a tree in the order of its depth-first search.
#[derive(Debug, Default)]
struct Element {
    name: String,
    stored: Option<i64>,
    length: usize,
    repetition: i64,
    children: usize,
    converted: Option<i64>,
    scale: i64,
    logical: Option<Meaning>,
}

impl Element {
    fn read(thrift: &mut Thrift) -> Read<Self> {
        let mut found = Self::default();
        thrift.fields(&mut |id, _, thrift| {
            match id {
                1 => found.stored = Some(thrift.integer()?),
                2 => found.length = thrift.count()?,
                3 => found.repetition = thrift.integer()?,
                4 => found.name = thrift.string()?,
                5 => found.children = thrift.count()?,
                6 => found.converted = Some(thrift.integer()?),
                7 => found.scale = thrift.integer()?,
                10 => found.logical = logical(thrift)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(found)
    }

    fn leaf(&self, place: usize) -> Read<Leaf> {
        let stored = match self.stored {
            Some(0) => Stored::Boolean,
            Some(1) => Stored::Int32,
            Some(2) => Stored::Int64,
            Some(3) => Stored::Int96,
            Some(4) => Stored::Float,
            Some(5) => Stored::Double,
            Some(6) => Stored::Bytes,
            Some(7) if self.length > 0 => Stored::Fixed(self.length),
            _ => return Err(super::thrift::DAMAGED.into()),
        };
        let meaning = self.logical.or_else(|| self.converted()).unwrap_or(match stored {
            // Old writers do not say which bytes are text.
            Stored::Bytes => Meaning::Text,
            Stored::Fixed(_) | Stored::Int96 => Meaning::Other,
            _ => Meaning::Number,
        });
        let fits = match meaning {
            Meaning::Number => !matches!(stored, Stored::Bytes | Stored::Fixed(_) | Stored::Int96),
            Meaning::Unsigned => matches!(stored, Stored::Int32 | Stored::Int64),
            Meaning::Decimal(_) => {
                matches!(stored, Stored::Int32 | Stored::Int64 | Stored::Bytes | Stored::Fixed(1..=16))
            }
            Meaning::Half => stored == Stored::Fixed(2),
            Meaning::Text => stored == Stored::Bytes,
            Meaning::Date => stored == Stored::Int32,
            Meaning::Timestamp(_) => stored == Stored::Int64,
            Meaning::Other => true,
        };
        if !fits {
            return Err(super::thrift::DAMAGED.into());
        }
        Ok(Leaf { place, stored, meaning, optional: self.repetition == 1 })
    }

    /// The meaning as older files say it.
    fn converted(&self) -> Option<Meaning> {
        Some(match self.converted? {
            // Text, names of an enumeration, JSON.
            0 | 4 | 19 => Meaning::Text,
            5 => Meaning::Decimal(self.scale.clamp(-400, 400) as i32),
            6 => Meaning::Date,
            9 => Meaning::Timestamp(1_000),
            10 => Meaning::Timestamp(1_000_000),
            11..=14 => Meaning::Unsigned,
            15..=18 => Meaning::Number,
            _ => Meaning::Other,
        })
    }
}

/// The meaning as newer files say it: one field, whose number is that of the type. Of others, the stored type decides.
fn logical(thrift: &mut Thrift) -> Read<Option<Meaning>> {
    let mut found = None;
    thrift.fields(&mut |id, _, thrift| {
        found = match id {
            1 | 4 | 12 => Some(Meaning::Text),
            5 => Some(Meaning::Decimal(decimal_scale(thrift)?)),
            6 => Some(Meaning::Date),
            8 => Some(Meaning::Timestamp(ticks(thrift)?)),
            10 => Some(if is_signed(thrift)? { Meaning::Number } else { Meaning::Unsigned }),
            // A column without any value.
            11 => None,
            15 => Some(Meaning::Half),
            _ => Some(Meaning::Other),
        };
        Ok(matches!(id, 5 | 8 | 10))
    })?;
    Ok(found)
}

fn decimal_scale(thrift: &mut Thrift) -> Read<i32> {
    let mut scale = 0;
    thrift.fields(&mut |id, _, thrift| {
        if id == 1 {
            scale = thrift.integer()?.clamp(-400, 400) as i32;
        }
        Ok(id == 1)
    })?;
    Ok(scale)
}

fn ticks(thrift: &mut Thrift) -> Read<i64> {
    let mut ticks = 1_000;
    thrift.fields(&mut |id, _, thrift| {
        if id != 2 {
            return Ok(false);
        }
        thrift.fields(&mut |unit, _, _| {
            ticks = match unit {
                1 => 1_000,
                2 => 1_000_000,
                _ => 1_000_000_000,
            };
            Ok(false)
        })?;
        Ok(true)
    })?;
    Ok(ticks)
}

fn is_signed(thrift: &mut Thrift) -> Read<bool> {
    let mut signed = true;
    thrift.fields(&mut |id, kind, _| {
        if id == 2 {
            signed = kind.truth();
        }
        Ok(id == 2)
    })?;
    Ok(signed)
}

/// The columns below the root of the schema, and the number of its leaves.
fn columns(elements: &[Element]) -> Read<(Vec<Column>, usize)> {
    let Some((root, mut rest)) = elements.split_first() else { return Err(super::thrift::DAMAGED.into()) };
    let (mut columns, mut leaves) = (Vec::new(), 0);
    for _ in 0..root.children {
        let Some(element) = rest.first() else { return Err(super::thrift::DAMAGED.into()) };
        let name = element.name.clone();
        // Optional and required leaves are columns; repeated ones are lists.
        let flat = element.children == 0 && element.repetition != 2;
        let leaf = if flat { Some(element.leaf(leaves)?) } else { None };
        columns.push(Column { name, leaf });
        let mut open = 1;
        while open > 0 {
            let Some((element, others)) = rest.split_first() else {
                return Err(super::thrift::DAMAGED.into());
            };
            open = open - 1 + element.children.min(elements.len());
            leaves += usize::from(element.children == 0);
            rest = others;
        }
    }
    Ok((columns, leaves))
}

fn row_group(thrift: &mut Thrift) -> Read<Vec<Chunk>> {
    let mut chunks = Vec::new();
    thrift.fields(&mut |id, _, thrift| {
        if id == 1 {
            chunks = thrift.structures(chunk)?;
        }
        Ok(id == 1)
    })?;
    Ok(chunks)
}

fn chunk(thrift: &mut Thrift) -> Read<Chunk> {
    let mut found = Chunk::default();
    thrift.fields(&mut |id, _, thrift| {
        match id {
            3 => places(thrift, &mut found)?,
            1 | 8 => found.elsewhere = true,
            _ => {}
        }
        Ok(id == 3)
    })?;
    Ok(found)
}

fn places(thrift: &mut Thrift, chunk: &mut Chunk) -> Read<()> {
    let (mut data, mut dictionary) = (0, None);
    thrift.fields(&mut |id, _, thrift| {
        match id {
            4 => chunk.codec = thrift.integer()?,
            5 => chunk.values = thrift.count()?,
            7 => chunk.length = thrift.count()?,
            9 => data = thrift.count()? as u64,
            11 => dictionary = Some(thrift.count()? as u64),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    // Some writers say 0 where there is no dictionary.
    chunk.start = dictionary.filter(|&place| place > 0 && place < data).unwrap_or(data);
    Ok(())
}
