//! Values of options that the library reads.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use robust_ot::Error;

/// A value, or the rule that its text breaks.
pub fn parsed<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| match error {
        Error::Parameter { rule, .. } => format!("must be {rule}"),
        other => other.to_string(),
    })
}

/// A parser of values that the library knows by these names; the help lists each with its meaning.
pub fn named<T>(values: &[(&'static str, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = Error> + Clone + Send + Sync + 'static,
{
    let values = values.iter().map(|(name, meaning)| PossibleValue::new(*name).help(*meaning));
    PossibleValuesParser::new(values).try_map(|name| parsed(&name))
}
