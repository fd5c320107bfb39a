//! The fields of lines with labels and sparse features, parsed as bytes because files have millions of them.

/// The first line of the extreme-classification format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub rows: usize,
    pub features: usize,
    pub labels: usize,
}

impl Header {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut sizes = fields(line).map(|field| std::str::from_utf8(field).ok()?.parse().ok());
        let header = Self { rows: sizes.next()??, features: sizes.next()??, labels: sizes.next()?? };
        sizes.next().is_none().then_some(header)
    }
}

/// The fields between white space.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Parses `index:value`.
pub(super) fn feature(field: &[u8]) -> std::result::Result<(u32, f32), String> {
    let wrong = || format!("a feature must be index:value, but is '{}'", show(field));
    let colon = field.iter().position(|&byte| byte == b':').ok_or_else(wrong)?;
    let (index, value) = (&field[..colon], &field[colon + 1..]);
    if index == b"qid" {
        return Err(format!("queries are not supported, but here is '{}'", show(field)));
    }
    let index = whole(index).ok_or_else(wrong)?;
    // A fast path for single digits: in many files all values are 1.
    let value = match value {
        [digit @ b'0'..=b'9'] => f32::from(digit - b'0'),
        _ => std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or_else(wrong)?,
    };
    if value.is_finite() {
        Ok((index, value))
    } else {
        Err(format!("values must be finite in single precision, but one is '{}'", show(field)))
    }
}

/// Parses digits only.
pub(super) fn whole(field: &[u8]) -> Option<u32> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0_u32, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 { number.checked_mul(10)?.checked_add(u32::from(digit)) } else { None }
    })
}

/// Parses a number in any notation.
pub(super) fn decimal(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// A field for an error message, shortened if it is long.
pub(super) fn show(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_whole_numbers_are_a_header() {
        assert_eq!(Header::parse(b"3 4\t5\r\n"), Some(Header { rows: 3, features: 4, labels: 5 }));
        for line in [&b"3 4"[..], b"3 4 5 6", b"3 4 5:1", b"3,4 5 6", b"-1 2 3", b""] {
            assert_eq!(Header::parse(line), None);
        }
    }

    #[test]
    fn numbers_are_read_as_written() {
        assert_eq!(feature(b"12:-2.5e-1"), Ok((12, -0.25)));
        assert_eq!(feature(b"4294967295:7"), Ok((u32::MAX, 7.0)));
        for field in [&b"4294967296:1"[..], b":1", b"1:", b"1:2:3", b"+1:1", b"1:\xff", b"12"] {
            assert!(feature(field).unwrap_err().contains("must be index:value"));
        }
        assert_eq!((whole(b""), whole(b"007"), whole(b"7 ")), (None, Some(7), None));
        assert_eq!(show("ü".repeat(50).as_bytes()).chars().count(), 41);
    }
}
