//! True labels from Python, as (starts, indices): row i has the labels `indices[starts[i]:starts[i + 1]]`.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use robust_ot::loss::Targets;

use crate::error::from_library;

/// The arrays of a target.
pub type Arrays<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// Checks the arrays and converts them.
pub fn targets(labels: usize, (starts, indices): &Arrays<'_>, name: &str) -> PyResult<Targets> {
    let (starts, indices) = (starts.readonly(), indices.readonly());
    let (starts, indices) = (starts.as_array(), indices.as_array());
    let refuse =
        |found: String| PyValueError::new_err(format!("{name} must hold labels from 0 on, but {found}"));
    let mut rows: Vec<Vec<usize>> = Vec::with_capacity(starts.len().saturating_sub(1));
    for bounds in starts.windows(2) {
        let (from, to) = (bounds[0], bounds[1]);
        if from < 0 || from > to || to as usize > indices.len() {
            return Err(refuse(format!("a row goes from {from} to {to} of {}", indices.len())));
        }
        let row = (from..to).map(|at| usize::try_from(indices[at as usize]));
        rows.push(row.collect::<Result<_, _>>().map_err(|_| refuse("one is negative".into()))?);
    }
    Targets::new(labels, rows).map_err(|error| from_library(name, error))
}
