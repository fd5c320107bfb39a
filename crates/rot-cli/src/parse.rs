//! Option values that the library parses.

use std::str::FromStr;

use robust_ot::Error;

/// Parses a value; the error is the rule that the text breaks.
pub fn parsed<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| match error {
        Error::Parameter { rule, .. } => format!("must be {rule}"),
        other => other.to_string(),
    })
}
