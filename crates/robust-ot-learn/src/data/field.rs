//! What a field of a table holds.

/// Markers of missing values, in lower case.
const MISSING: [&str; 9] = ["", "-", "?", "na", "n/a", "null", "none", "missing", "<na>"];
/// Separators of thousands, other than the comma.
const THOUSANDS: [char; 5] = ['.', '\'', ' ', '\u{a0}', '\u{202f}'];

/// What a field of a table holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    /// A number, which may be infinite.
    Number(f64),
    /// NaN, nothing, or another marker of a missing value.
    Missing,
    /// A number with a decimal comma or with separators of thousands, whose meaning depends on the country.
    Separated,
    /// Anything else.
    Text,
}

impl Field {
    pub(super) fn new(text: &str) -> Self {
        match text.parse::<f64>() {
            Ok(value) if value.is_nan() => Self::Missing,
            Ok(value) => Self::Number(value),
            Err(_) if MISSING.contains(&text.to_ascii_lowercase().as_str()) => Self::Missing,
            Err(_) if is_separated(text) => Self::Separated,
            Err(_) => Self::Text,
        }
    }
}

/// Whether this is digits with a comma, or with groups of three digits.
fn is_separated(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if digits.contains(',') {
        return digits.split(|c| c == ',' || THOUSANDS.contains(&c)).all(whole);
    }
    let mut groups = digits.split(|c| THOUSANDS.contains(&c));
    let first = groups.next().unwrap_or("");
    let mut later = groups.peekable();
    whole(first) && later.peek().is_some() && later.all(|group| group.len() == 3 && whole(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_gaps_and_the_notation_of_other_countries() {
        for text in ["1", "-2.5", "1e-3", "1.234", "inf"] {
            assert_eq!(Field::new(text), Field::Number(text.parse().unwrap()));
        }
        for text in ["", "NA", "nan", "NaN", "-", "None", "<NA>"] {
            assert_eq!(Field::new(text), Field::Missing, "{text}");
        }
        for text in
            ["1,5", "1,234", "-1,234.5", "1.234,5", "1.234.567", "12 345", "1'234'567", "1\u{202f}234"]
        {
            assert_eq!(Field::new(text), Field::Separated, "{text}");
        }
        for text in ["a", "2024-01-05", "2024.01.05", "1 2", "1,", ",5", "x1", "1a", "10.0.0.1", "--"] {
            assert_eq!(Field::new(text), Field::Text, "{text}");
        }
    }
}
