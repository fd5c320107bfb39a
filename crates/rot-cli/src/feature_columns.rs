//! Columns of feature files, in the order of the features that are known.

use std::path::Path;

use robust_ot_learn::Model;
use robust_ot_learn::data::{FeatureFile, Features, match_columns};

use crate::failure::Failure;

/// The features of test rows, in the order of the training rows.
pub fn like_training(
    (train, known): (&Path, Option<&[String]>),
    place: &Path,
    FeatureFile { features, names }: FeatureFile,
) -> Result<Features, Failure> {
    let (train, place) = (train.display().to_string(), place.display().to_string());
    let tables = [(train.as_str(), known), (place.as_str(), names.as_deref())];
    let order = match_columns(&tables)?.orders.pop().flatten();
    in_order(tables, order.as_deref(), features)
}

/// The features of rows for a model, in its order.
pub fn like_model(
    (path, model): (&Path, &Model),
    place: &Path,
    FeatureFile { features, names }: FeatureFile,
) -> Result<Features, Failure> {
    let (path, place) = (path.display().to_string(), place.display().to_string());
    let order = model.order_of(names.as_deref(), &place)?;
    in_order([(&path, model.feature_names()), (&place, names.as_deref())], order.as_deref(), features)
}

/// Orders the columns, and says how they are matched if that is not obvious.
fn in_order(
    [(known, names), (given, given_names)]: [(&str, Option<&[String]>); 2],
    order: Option<&[usize]>,
    features: Features,
) -> Result<Features, Failure> {
    if names.is_some() != given_names.is_some() {
        let nameless = if names.is_none() { known } else { given };
        say!("rot: note: columns are matched by position, since {nameless} has no feature names");
    }
    let Some(order) = order else { return Ok(features) };
    say!("rot: note: columns are matched by name; their order differs in {given}");
    Ok(features.select_columns(order)?)
}
