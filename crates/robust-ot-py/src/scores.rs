//! Scores of predictions.

use ndarray::Array2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use robust_ot_learn::Scores;
use robust_ot_learn::score;

use crate::arrays::matrix;
use crate::error::from_library;
use crate::metric::argument;
use crate::targets::{Arrays, targets};
use crate::threads::run;

/// (auc, average precision, labels counted, labels left out).
#[pyfunction]
pub fn rank<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
) -> PyResult<(f64, f64, usize, usize)> {
    let values = matrix(values, "scores")?;
    let truth = targets(values.ncols(), &truth, "truth")?;
    let found = run(py, |_| score::rank(values.view(), &truth))?.map_err(|error| from_library("", error))?;
    Ok((found.auc, found.average_precision, found.counted, found.excluded))
}

/// The share of the k best labels that are true.
#[pyfunction]
pub fn precision_at<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    k: &Bound<'py, PyAny>,
) -> PyResult<f64> {
    let k: usize = argument(k, "k", "a whole number of at least 1")?;
    let values = matrix(values, "scores")?;
    let truth = targets(values.ncols(), &truth, "truth")?;
    run(py, |_| score::precision_at(values.view(), &truth, k))?.map_err(|error| from_library("", error))
}

/// Normalized discounted cumulative gain of the k best labels.
#[pyfunction]
pub fn ndcg_at<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    k: &Bound<'py, PyAny>,
) -> PyResult<f64> {
    let k: usize = argument(k, "k", "a whole number of at least 1")?;
    let values = matrix(values, "scores")?;
    let truth = targets(values.ncols(), &truth, "truth")?;
    run(py, |_| score::ndcg_at(values.view(), &truth, k))?.map_err(|error| from_library("", error))
}

/// Propensity-scored precision of the k best labels, by the number of training rows of every label and of all.
#[pyfunction]
pub fn propensity_scored_precision_at<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    k: &Bound<'py, PyAny>,
    label_rows: &Bound<'py, PyAny>,
    rows: &Bound<'py, PyAny>,
) -> PyResult<f64> {
    let k: usize = argument(k, "k", "a whole number of at least 1")?;
    let label_rows: Vec<usize> = argument(label_rows, "label_rows", "whole numbers of at least 0")?;
    let rows: usize = argument(rows, "rows", "a whole number of at least 3")?;
    if rows < 3 {
        return Err(PyValueError::new_err(format!(
            "rows must be a whole number of at least 3, but is {rows}"
        )));
    }
    let values = matrix(values, "scores")?;
    let truth = targets(values.ncols(), &truth, "truth")?;
    let chances = score::propensities(&label_rows, rows);
    let found = run(py, |_| score::propensity_scored_precision_at(values.view(), &truth, k, &chances))?;
    found.map_err(|error| from_library("", error))
}

/// The cost of the k best labels, or of the whole prediction without k.
#[pyfunction]
#[pyo3(signature = (values, truth, vectors, k=None))]
pub fn top_cost<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    vectors: &Bound<'py, PyAny>,
    k: Option<&Bound<'py, PyAny>>,
) -> PyResult<f64> {
    let k: Option<usize> = k.map(|k| argument(k, "k", "a whole number of at least 1")).transpose()?;
    let (values, vectors) = (matrix(values, "scores")?, matrix(vectors, "label_vectors")?);
    let truth = targets(values.ncols(), &truth, "truth")?;
    let found = run(py, |_| match k {
        Some(k) => score::top_cost(values.view(), &truth, vectors.view(), k),
        None => score::expected_cost(values.view(), &truth, vectors.view()),
    })?;
    found.map_err(|error| from_library("", error))
}

/// All scores that `rot evaluate` reports.
#[pyfunction]
#[pyo3(signature = (probabilities, truth, vectors=None))]
pub fn scores<'py>(
    py: Python<'py>,
    probabilities: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    vectors: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let probabilities = matrix(probabilities, "probabilities")?;
    let vectors: Option<Array2<f64>> = vectors.map(|vectors| matrix(vectors, "label_vectors")).transpose()?;
    let truth = targets(probabilities.ncols(), &truth, "truth")?;
    let found = run(py, |_| Scores::of(probabilities.view(), &truth, vectors.as_ref()))?;
    let found = found.map_err(|error| from_library("", error))?;
    let all = PyDict::new(py);
    let named = [
        ("auc", found.auc),
        ("map", found.map),
        ("accuracy", Some(found.accuracy)),
        ("precision_at_3", found.precision_at_3),
        ("precision_at_5", found.precision_at_5),
        ("ndcg_at_3", found.ndcg_at_3),
        ("ndcg_at_5", found.ndcg_at_5),
        ("semantic_cost", found.semantic_cost),
        ("expected_cost", found.expected_cost),
        ("top_1_cost", found.top_1_cost),
        ("top_5_cost", found.top_5_cost),
    ];
    named.into_iter().try_for_each(|(name, score)| all.set_item(name, score))?;
    Ok(all)
}
