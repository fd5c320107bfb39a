//! Pages of a column: their headers, and which of their values are missing.

use super::super::room::Room;
use super::codec::decompress;
use super::footer::Leaf;
use super::hybrid::{self, damaged};
use super::thrift::{Read, Thrift};
use super::values::{Values, prefixed};

/// The encodings of indices into a dictionary, by older and newer writers.
const INDICES: [i64; 2] = [2, 8];
/// The only encoding of levels that is in use.
const LEVELS: i64 = 3;

/// What the header of a page says.
#[derive(Debug, Default)]
pub(super) struct Header {
    kind: i64,
    /// Bytes when decompressed.
    size: usize,
    /// Bytes in the file.
    pub packed: usize,
    pub values: usize,
    encoding: i64,
    level_encoding: i64,
    /// In pages of version 2, levels stand before the compressed values.
    level_bytes: usize,
    repeated_bytes: usize,
    is_plain: bool,
}

/// What a page holds.
pub(super) enum Content {
    Dictionary(Values),
    /// For each value of an optional column, whether it is there; and those that are.
    Data(Option<Vec<u32>>, Values),
    Other,
}

impl Header {
    pub(super) fn read(thrift: &mut Thrift) -> Read<Self> {
        let mut found = Self { level_encoding: LEVELS, ..Self::default() };
        thrift.fields(&mut |id, _, thrift| {
            match id {
                1 => found.kind = thrift.integer()?,
                2 => found.size = thrift.count()?,
                3 => found.packed = thrift.count()?,
                5 => thrift.fields(&mut |id, _, thrift| {
                    match id {
                        1 => found.values = thrift.count()?,
                        2 => found.encoding = thrift.integer()?,
                        3 => found.level_encoding = thrift.integer()?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?,
                // The third field of a dictionary is another one than that of values.
                7 => thrift.fields(&mut |id, _, thrift| {
                    if id == 1 {
                        found.values = thrift.count()?;
                    }
                    Ok(id == 1)
                })?,
                8 => thrift.fields(&mut |id, kind, thrift| {
                    match id {
                        1 => found.values = thrift.count()?,
                        4 => found.encoding = thrift.integer()?,
                        5 => found.level_bytes = thrift.count()?,
                        6 => found.repeated_bytes = thrift.count()?,
                        7 => found.is_plain = !kind.truth(),
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(found)
    }

    /// Whether its values are those of rows.
    pub(super) fn is_data(&self) -> bool {
        matches!(self.kind, 0 | 3)
    }

    /// Decodes the bytes of the page.
    pub(super) fn content(
        &self,
        leaf: Leaf,
        codec: i64,
        bytes: &[u8],
        dictionary: Option<&Values>,
        room: &mut Room,
    ) -> Read<Content> {
        match self.kind {
            0 => {
                let page = decompress(codec, bytes, self.size, room)?;
                if !leaf.optional {
                    return self.data(leaf, None, &page, dictionary, room);
                }
                if self.level_encoding != LEVELS {
                    return Err("its levels must be run lengths, but are in a form that is out of use".into());
                }
                let (length, rest) = prefixed(&page)?;
                let (levels, rest) = rest.split_at_checked(length).ok_or_else(damaged)?;
                self.data(leaf, Some(levels), rest, dictionary, room)
            }
            3 => {
                let first = self.level_bytes.saturating_add(self.repeated_bytes);
                let (levels, rest) = bytes.split_at_checked(first).ok_or_else(damaged)?;
                let levels = &levels[self.repeated_bytes..];
                let size = self.size.checked_sub(first).ok_or_else(damaged)?;
                let page = match (self.is_plain, rest.is_empty()) {
                    (_, true) => Vec::new(),
                    (plain, _) => decompress(if plain { 0 } else { codec }, rest, size, room)?,
                };
                self.data(leaf, leaf.optional.then_some(levels), &page, dictionary, room)
            }
            2 => {
                let page = decompress(codec, bytes, self.size, room)?;
                // A dictionary is plain, whatever its encoding is called.
                Values::decode(leaf, 0, &page, self.values, room).map(Content::Dictionary)
            }
            _ => Ok(Content::Other),
        }
    }

    fn data(
        &self,
        leaf: Leaf,
        levels: Option<&[u8]>,
        bytes: &[u8],
        dictionary: Option<&Values>,
        room: &mut Room,
    ) -> Read<Content> {
        let there = levels.map(|levels| hybrid::read(levels, 1, self.values, room)).transpose()?;
        let count =
            there.as_ref().map_or(self.values, |there| there.iter().filter(|level| **level == 1).count());
        let values = match dictionary {
            Some(dictionary) if INDICES.contains(&self.encoding) => {
                dictionary.looked_up(bytes, count, room)?
            }
            // Where every value is missing, there need not be a dictionary.
            None if INDICES.contains(&self.encoding) && count == 0 => Values::of(leaf),
            _ => Values::decode(leaf, self.encoding, bytes, count, room)?,
        };
        Ok(Content::Data(there, values))
    }
}
