//! Values of a page, without the missing ones.

use super::super::room::Room;
use super::footer::{Leaf, Meaning, Stored};
use super::hybrid::damaged;
use super::text::{date, timestamp};
use super::thrift::Read;
use super::{delta, hybrid};

/// Bytes that a text takes besides its letters.
const TEXT: usize = 40;

/// The values of a page or of a dictionary.
#[derive(Debug)]
pub(super) enum Values {
    Numbers(Vec<f64>),
    Texts(Vec<String>),
}

impl Values {
    pub(super) fn of(leaf: Leaf) -> Self {
        match leaf.meaning {
            Meaning::Text | Meaning::Date | Meaning::Timestamp(_) => Self::Texts(Vec::new()),
            _ => Self::Numbers(Vec::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Decodes this many values.
    pub(super) fn decode(
        leaf: Leaf,
        encoding: i64,
        bytes: &[u8],
        count: usize,
        room: &mut Room,
    ) -> Read<Self> {
        let mut found = Self::of(leaf);
        if count == 0 {
            return Ok(found);
        }
        match (encoding, leaf.stored) {
            (0, Stored::Boolean) => {
                if bytes.len() < count.div_ceil(8) {
                    return Err(damaged());
                }
                (0..count)
                    .try_for_each(|at| found.push_integer(leaf, hybrid::bits(bytes, at, 1).into(), room))?;
            }
            (3, Stored::Boolean) => {
                let (length, packed) = prefixed(bytes)?;
                let truths = hybrid::read(packed.get(..length).ok_or_else(damaged)?, 1, count, room)?;
                truths.into_iter().try_for_each(|truth| found.push_integer(leaf, truth.into(), room))?;
            }
            (0, Stored::Bytes) => {
                let mut rest = bytes;
                for _ in 0..count {
                    let (length, after) = prefixed(rest)?;
                    let (value, others) = after.split_at_checked(length).ok_or_else(damaged)?;
                    found.push(leaf, value, room)?;
                    rest = others;
                }
            }
            (0, _) => {
                let width = width(leaf.stored);
                let whole =
                    count.checked_mul(width).and_then(|length| bytes.get(..length)).ok_or_else(damaged)?;
                whole.chunks_exact(width).try_for_each(|value| found.push(leaf, value, room))?;
            }
            (5, Stored::Int32 | Stored::Int64) => {
                let (integers, _) = delta::integers(bytes, room)?;
                let narrow =
                    |value: i64| if leaf.stored == Stored::Int32 { i64::from(value as i32) } else { value };
                integers.into_iter().try_for_each(|value| found.push_signed(leaf, narrow(value), room))?;
            }
            (6, Stored::Bytes) => {
                delta::strings(bytes, room)?
                    .into_iter()
                    .try_for_each(|value| found.push(leaf, value, room))?;
            }
            (7, Stored::Bytes | Stored::Fixed(_)) => {
                let all = delta::continued(bytes, room)?;
                all.iter().try_for_each(|value| found.push(leaf, value, room))?;
            }
            (9, stored) if stored != Stored::Bytes && stored != Stored::Boolean => {
                let width = width(stored);
                let whole =
                    count.checked_mul(width).and_then(|length| bytes.get(..length)).ok_or_else(damaged)?;
                let mut value = vec![0; width];
                for at in 0..count {
                    value.iter_mut().enumerate().for_each(|(byte, x)| *x = whole[byte * count + at]);
                    found.push(leaf, &value, room)?;
                }
            }
            (other, _) => {
                return Err(format!(
                    "its values must be encoded as Parquet 2 knows it, but one page uses {other}"
                ));
            }
        }
        if found.len() == count { Ok(found) } else { Err(damaged()) }
    }

    /// The values of a dictionary at indices of the given width, which the first byte states.
    pub(super) fn looked_up(&self, bytes: &[u8], count: usize, room: &mut Room) -> Read<Self> {
        let indices = match bytes.split_first() {
            Some((&width, packed)) => hybrid::read(packed, width.into(), count, room)?,
            None if count == 0 => Vec::new(),
            None => return Err(damaged()),
        };
        let place = |&index: &u32| Some(index as usize).filter(|&at| at < self.len()).ok_or_else(damaged);
        match self {
            Self::Numbers(all) => {
                let mut found = Vec::new();
                room.grow(&mut found, indices.len())?;
                indices.iter().try_for_each(|index| place(index).map(|at| found.push(all[at])))?;
                Ok(Self::Numbers(found))
            }
            Self::Texts(all) => {
                let mut found = Vec::new();
                for index in &indices {
                    let text = &all[place(index)?];
                    room.take(text.len() + TEXT)?;
                    found.push(text.clone());
                }
                Ok(Self::Texts(found))
            }
        }
    }

    /// Adds a value as it is stored.
    fn push(&mut self, leaf: Leaf, value: &[u8], room: &mut Room) -> Read<()> {
        let number = match (leaf.stored, leaf.meaning) {
            (Stored::Bytes, Meaning::Text) => {
                let text =
                    std::str::from_utf8(value).map_err(|_| "text must be UTF-8, but one value is not")?;
                return self.push_text(text.to_owned(), room);
            }
            (Stored::Int32, _) => {
                return self.push_signed(leaf, i32::from_le_bytes(whole(value)?).into(), room);
            }
            (Stored::Int64, _) => return self.push_signed(leaf, i64::from_le_bytes(whole(value)?), room),
            (Stored::Float, _) => f32::from_le_bytes(whole(value)?).into(),
            (Stored::Double, _) => f64::from_le_bytes(whole(value)?),
            (Stored::Fixed(2), Meaning::Half) => half(u16::from_le_bytes(whole(value)?)),
            (Stored::Bytes | Stored::Fixed(_), Meaning::Decimal(_)) => {
                return self.push_integer(leaf, big_endian(value)?, room);
            }
            _ => return Err(damaged()),
        };
        self.push_number(number, room)
    }

    fn push_signed(&mut self, leaf: Leaf, value: i64, room: &mut Room) -> Read<()> {
        let unsigned = match leaf.stored {
            Stored::Int32 => i128::from(value as u32),
            _ => i128::from(value as u64),
        };
        match leaf.meaning {
            Meaning::Unsigned => self.push_integer(leaf, unsigned, room),
            Meaning::Date => self.push_text(date(value), room),
            Meaning::Timestamp(ticks) => self.push_text(timestamp(value, ticks), room),
            _ => self.push_integer(leaf, value.into(), room),
        }
    }

    fn push_integer(&mut self, leaf: Leaf, value: i128, room: &mut Room) -> Read<()> {
        let number = match leaf.meaning {
            Meaning::Decimal(scale) => value as f64 / 10_f64.powi(scale),
            _ => value as f64,
        };
        self.push_number(number, room)
    }

    fn push_number(&mut self, number: f64, room: &mut Room) -> Read<()> {
        match self {
            Self::Numbers(numbers) => room.push(numbers, number),
            Self::Texts(_) => Err(damaged()),
        }
    }

    fn push_text(&mut self, text: String, room: &mut Room) -> Read<()> {
        match self {
            Self::Texts(texts) => {
                room.take(text.len() + TEXT)?;
                texts.push(text);
                Ok(())
            }
            Self::Numbers(_) => Err(damaged()),
        }
    }
}

/// The length in the first four bytes, and the bytes after it.
pub(super) fn prefixed(bytes: &[u8]) -> Read<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
    Ok((u32::from_le_bytes(*length) as usize, rest))
}

fn whole<const N: usize>(value: &[u8]) -> Read<[u8; N]> {
    value.try_into().map_err(|_| damaged())
}

fn width(stored: Stored) -> usize {
    match stored {
        Stored::Boolean | Stored::Bytes => 1,
        Stored::Int32 | Stored::Float => 4,
        Stored::Int64 | Stored::Double => 8,
        Stored::Int96 => 12,
        Stored::Fixed(width) => width,
    }
}

/// A signed integer of up to 16 bytes, the highest first.
fn big_endian(value: &[u8]) -> Read<i128> {
    if value.is_empty() || value.len() > 16 {
        return Err(damaged());
    }
    let sign = if value[0] & 0x80 == 0 { 0 } else { 0xff };
    let mut all = [sign; 16];
    all[16 - value.len()..].copy_from_slice(value);
    Ok(i128::from_be_bytes(all))
}

/// A floating-point number of 16 bits.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        for (bits, expected) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2_f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
        ] {
            assert!((half(bits) - expected).abs() == 0.0, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
    }

    #[test]
    fn decimals_have_their_highest_byte_first() {
        assert_eq!(big_endian(&[0xff, 0x85]).unwrap(), -123);
        assert_eq!(big_endian(&[0x01, 0x00]).unwrap(), 256);
        assert!(big_endian(&[]).is_err() && big_endian(&[0; 17]).is_err());
    }
}
