//! Columns of data frames, matched by name.

use pyo3::prelude::*;
use robust_ot_learn::data::match_columns as match_names;

use crate::error::from_library;

/// For each table, its columns in the order of the first table with names; None if nothing changes.
#[pyfunction]
pub fn match_columns(
    labels: Vec<String>,
    names: Vec<Option<Vec<String>>>,
) -> PyResult<Vec<Option<Vec<usize>>>> {
    let tables = labels.iter().zip(&names).map(|(label, names)| (label.as_str(), names.as_deref()));
    let found = match_names(&tables.collect::<Vec<_>>()).map_err(|error| from_library("", error))?;
    Ok(found.orders)
}
