//! Word vectors from files.

use std::collections::HashSet;
use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use robust_ot_learn::data::{Embeddings, LabelVectors};

use crate::error::from_library;
use crate::threads::run;

/// Words and their vectors: all, or the requested ones.
#[pyfunction]
#[pyo3(signature = (path, words=None))]
pub fn read_vec(
    py: Python<'_>,
    path: PathBuf,
    words: Option<Vec<String>>,
) -> PyResult<Vec<(String, Bound<'_, PyArray1<f64>>)>> {
    let found = run(py, |_| match &words {
        None => Embeddings::read_all(&path),
        Some(words) => {
            let wanted: HashSet<&str> = words.iter().map(String::as_str).collect();
            let found = Embeddings::read(&path, &wanted)?;
            let vector = |word: &String| found.get(word).map(|vector| (word.clone(), vector.to_vec()));
            Ok(words.iter().filter_map(vector).collect())
        }
    })?;
    let found = found.map_err(|error| from_library("path", error))?;
    Ok(found.into_iter().map(|(word, vector)| (word, vector.into_pyarray(py))).collect())
}

/// One vector per label, looked up as `rot train` does, and the labels without a vector.
#[pyfunction]
pub fn label_vectors(
    py: Python<'_>,
    path: PathBuf,
    names: Vec<String>,
) -> PyResult<(Bound<'_, PyArray2<f64>>, Vec<usize>)> {
    let found = run(py, |_| LabelVectors::read(&path, &names))?;
    let LabelVectors { vectors, missing } = found.map_err(|error| from_library("label_vectors", error))?;
    Ok((vectors.into_pyarray(py), missing))
}
