//! The option `--row-length`.

use std::str::FromStr;

use robust_ot_learn::RowLength;

/// A length, `none`, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowLengthOption {
    /// Chosen on held-out rows where weights are found over all rows at once, else none.
    Auto,
    Stated(Option<RowLength>),
}

impl RowLengthOption {
    /// The length, if there is one.
    pub fn length(self) -> Option<RowLength> {
        match self {
            Self::Auto => None,
            Self::Stated(length) => length,
        }
    }
}

impl FromStr for RowLengthOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::Stated(None)),
            _ => {}
        }
        let length = text.parse().ok().and_then(|length| RowLength::new(length).ok());
        length
            .map(|length| Self::Stated(Some(length)))
            .ok_or_else(|| "must be positive and finite, none or auto".to_owned())
    }
}
