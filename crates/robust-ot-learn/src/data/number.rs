//! Number types of binary formats, and a reader that does not trust the promised count.

use std::io::Read;
use std::path::Path;

use robust_ot::{Error, Result};

use super::compressed::fill;
use super::room::Room;
use super::{format_error, io_error};

/// The type of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

/// The type of a stored number, and its byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub kind: Kind,
    pub little_endian: bool,
}

impl Layout {
    /// Bytes per number.
    pub(super) fn bytes(self) -> usize {
        match self.kind {
            Kind::I8 | Kind::U8 => 1,
            Kind::I16 | Kind::U16 => 2,
            Kind::I32 | Kind::U32 | Kind::F32 => 4,
            Kind::I64 | Kind::U64 | Kind::F64 => 8,
        }
    }

    /// Appends the numbers in these bytes; stops with the first that is not a `T`.
    fn decode<T: Number>(self, raw: &[u8], values: &mut Vec<T>) -> std::result::Result<(), f64> {
        match self.kind {
            Kind::I8 => self.decode_as(raw, |bytes| f64::from(i8::from_le_bytes(bytes)), values),
            Kind::I16 => self.decode_as(raw, |bytes| f64::from(i16::from_le_bytes(bytes)), values),
            Kind::I32 => self.decode_as(raw, |bytes| f64::from(i32::from_le_bytes(bytes)), values),
            Kind::I64 => self.decode_as(raw, |bytes| i64::from_le_bytes(bytes) as f64, values),
            Kind::U8 => self.decode_as(raw, |bytes| f64::from(u8::from_le_bytes(bytes)), values),
            Kind::U16 => self.decode_as(raw, |bytes| f64::from(u16::from_le_bytes(bytes)), values),
            Kind::U32 => self.decode_as(raw, |bytes| f64::from(u32::from_le_bytes(bytes)), values),
            Kind::U64 => self.decode_as(raw, |bytes| u64::from_le_bytes(bytes) as f64, values),
            Kind::F32 => self.decode_as(raw, |bytes| f64::from(f32::from_le_bytes(bytes)), values),
            Kind::F64 => self.decode_as(raw, f64::from_le_bytes, values),
        }
    }

    /// A separate loop for each kind, which the compiler can make fast.
    fn decode_as<T: Number, const N: usize>(
        self,
        raw: &[u8],
        number: impl Fn([u8; N]) -> f64,
        values: &mut Vec<T>,
    ) -> std::result::Result<(), f64> {
        let (numbers, _) = raw.as_chunks::<N>();
        for &(mut bytes) in numbers {
            if !self.little_endian {
                bytes.reverse();
            }
            let value = number(bytes);
            values.push(T::from_f64(value).ok_or(value)?);
        }
        Ok(())
    }
}

/// A type that stored numbers can be converted to.
pub(super) trait Number: Copy {
    /// The rule for valid numbers, as the end of "numbers must …".
    const RULE: &'static str;
    fn from_f64(value: f64) -> Option<Self>;
}

impl Number for f64 {
    const RULE: &'static str = "be numbers";
    fn from_f64(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Number for f32 {
    const RULE: &'static str = "fit in 32-bit floats";
    fn from_f64(value: f64) -> Option<Self> {
        let single = value as f32;
        (single.is_finite() || !value.is_finite()).then_some(single)
    }
}

impl Number for usize {
    const RULE: &'static str = "be whole numbers of at least 0, below 2^53";
    fn from_f64(value: f64) -> Option<Self> {
        // From 2^53 on, an f64 may represent a different integer than the file.
        let whole = (0.0..9_007_199_254_740_992.0).contains(&value) && value.fract() == 0.0;
        whole.then_some(value as usize)
    }
}

impl Number for u32 {
    const RULE: &'static str = "be whole numbers of at least 0, below 2^32";
    fn from_f64(value: f64) -> Option<Self> {
        usize::from_f64(value).and_then(|whole| whole.try_into().ok())
    }
}

/// The promised numbers, or as many as the file holds.
pub(super) struct Numbers<T> {
    pub values: Vec<T>,
    /// Bytes up to the end of the reader, including those past the promised count.
    pub bytes: u64,
}

/// Reads `promised` numbers piece by piece, then counts the remaining bytes; `refuse` creates the error for a number that is
/// not a `T`.
pub(super) fn read_numbers<T: Number>(
    path: &Path,
    reader: &mut dyn Read,
    layout: Layout,
    promised: usize,
    room: &mut Room,
    refuse: impl Fn(usize, f64) -> Error,
) -> Result<Numbers<T>> {
    let mut piece = vec![0; 1 << 16];
    let (mut values, mut bytes) = (Vec::new(), 0);
    loop {
        let left = promised - values.len();
        let wanted = left.saturating_mul(layout.bytes()).min(piece.len());
        // Past the promised count, whole pieces are counted and dropped.
        let wanted = if wanted == 0 { piece.len() } else { wanted };
        let there = fill(reader, &mut piece[..wanted]).map_err(|source| io_error(path, source))?;
        bytes += there as u64;
        if left > 0 {
            room.grow(&mut values, there / layout.bytes()).map_err(|message| format_error(path, message))?;
            layout.decode(&piece[..there], &mut values).map_err(|value| refuse(values.len(), value))?;
        }
        if there < wanted {
            return Ok(Numbers { values, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_in_both_orders() {
        let cases: [(Kind, &[u8], f64); 10] = [
            (Kind::I8, &[0xfe], -2.0),
            (Kind::U8, &[0xfe], 254.0),
            (Kind::I16, &[0xfe, 0xff], -2.0),
            (Kind::U16, &[0xfe, 0xff], 65534.0),
            (Kind::I32, &(-70_000_i32).to_le_bytes(), -70_000.0),
            (Kind::U32, &u32::MAX.to_le_bytes(), 4_294_967_295.0),
            (Kind::I64, &(-5_000_000_000_i64).to_le_bytes(), -5e9),
            (Kind::U64, &5_000_000_000_u64.to_le_bytes(), 5e9),
            (Kind::F32, &0.25_f32.to_le_bytes(), 0.25),
            (Kind::F64, &0.1_f64.to_le_bytes(), 0.1),
        ];
        for (kind, raw, value) in cases {
            let layout = Layout { kind, little_endian: true };
            assert_eq!(layout.bytes(), raw.len());
            let turned: Vec<u8> = raw.iter().rev().copied().collect();
            let big = Layout { kind, little_endian: false };
            let mut values: Vec<f64> = Vec::new();
            layout.decode(&[raw, raw].concat(), &mut values).unwrap();
            big.decode(&turned, &mut values).unwrap();
            assert!(values.len() == 3 && values.iter().all(|found| found.to_bits() == value.to_bits()));
        }
    }

    #[test]
    fn only_what_is_representable_becomes_a_number() {
        assert_eq!(f32::from_f64(1e39), None);
        assert_eq!(f32::from_f64(f64::INFINITY), Some(f32::INFINITY));
        assert!(f32::from_f64(f64::NAN).unwrap().is_nan());
        for no in [-1.0, 0.5, f64::NAN, f64::INFINITY, 1e16] {
            assert_eq!(usize::from_f64(no), None);
        }
        assert_eq!(u32::from_f64(4_294_967_295.0), Some(u32::MAX));
        assert_eq!(u32::from_f64(4_294_967_296.0), None);
    }
}
