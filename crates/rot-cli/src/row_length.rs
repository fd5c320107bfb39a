//! The option `--row-length`.

use std::str::FromStr;

use robust_ot_learn::RowLength;

/// A length, or `none`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowLengthOption(pub Option<RowLength>);

impl FromStr for RowLengthOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let length = text.parse().ok().and_then(|length| RowLength::new(length).ok());
        length
            .map(|length| Self(Some(length)))
            .ok_or_else(|| "must be positive and finite, or none".to_owned())
    }
}
