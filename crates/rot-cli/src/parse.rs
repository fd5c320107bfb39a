//! Values of options that the library reads.

use std::str::FromStr;

use robust_ot::Error;

/// A value, or the rule that its text breaks.
pub fn parsed<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| match error {
        Error::Parameter { rule, .. } => format!("must be {rule}"),
        other => other.to_string(),
    })
}
