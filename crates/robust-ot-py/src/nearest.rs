//! The nearest neighbors of some measures among others.

use ndarray::{Array1, Array2};
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use robust_ot::solve::{Nearest, NearestSettings, PairSettings, nearest as find};
use robust_ot::{Measure, Status};

use crate::distance::{Among, UnevenParts};
use crate::error::from_library;
use crate::threads::run;

/// The neighbors of some queries. Lists that are shorter than wanted end in −1 and NaN, and so do those of a query with an error.
#[pyclass(module = "robust_ot._core", frozen, get_all)]
pub struct Neighbors {
    indices: Py<PyArray2<i64>>,
    values: Py<PyArray2<f64>>,
    lower_bounds: Py<PyArray2<f64>>,
    relative_gaps: Py<PyArray2<f64>>,
    converged: Py<PyArray2<bool>>,
    /// The least lower bound of what was solved and left out, per query.
    next_lower_bounds: Py<PyArray1<f64>>,
    solved: usize,
    bounded: usize,
    /// The errors of queries, by their place.
    errors: Py<PyDict>,
    uneven: UnevenParts,
    offset: f64,
}

/// Finds the nearest neighbors of queries, each with the largest distance that counts; without `scale`, features are not looked at.
#[pyfunction]
#[pyo3(signature = (points, weights, queries, documents, top, metric, solver, scale=None))]
#[expect(clippy::too_many_arguments, reason = "one Python function passes them all")]
pub fn nearest<'py>(
    py: Python<'py>,
    points: Vec<Bound<'py, PyAny>>,
    weights: Vec<Bound<'py, PyAny>>,
    queries: Vec<(usize, f64)>,
    documents: Vec<usize>,
    top: usize,
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
    scale: Option<&Bound<'py, PyAny>>,
) -> PyResult<Neighbors> {
    let mut among = Among::new(&points, &weights, &[], metric, solver)?;
    let uneven = scale.map_or(Ok(None), |scale| among.scale(scale))?;
    let found = run(py, |interrupt| {
        let measures: Vec<&Measure> = among.measures.iter().collect();
        let Among { set, grouping, entropy, settings, .. } = &among;
        let pairs = PairSettings { measures: &measures, grouping, set, entropy: *entropy, settings };
        let wanted = NearestSettings { queries: &queries, documents: &documents, top };
        find(wanted, pairs, interrupt, &|_| ())
    })?;
    let found = found.map_err(|error| from_library("measures", error))?;
    let offset = among.set.offset(among.grouping.groups()).unwrap_or(f64::NAN);
    Neighbors::new(py, found, top, (uneven, offset))
}

impl Neighbors {
    fn new(
        py: Python<'_>,
        found: Vec<robust_ot::Result<Nearest>>,
        top: usize,
        (uneven, offset): (UnevenParts, f64),
    ) -> PyResult<Self> {
        let shape = (found.len(), top);
        let (mut indices, mut converged) = (Array2::from_elem(shape, -1), Array2::from_elem(shape, false));
        let mut values = Array2::from_elem(shape, f64::NAN);
        let (mut lower, mut gaps) = (values.clone(), values.clone());
        let mut next = Array1::from_elem(found.len(), f64::INFINITY);
        let (mut solved, mut bounded) = (0, 0);
        let errors = PyDict::new(py);
        for (query, found) in found.into_iter().enumerate() {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    errors.set_item(query, from_library("", error).into_value(py))?;
                    continue;
                }
            };
            next[query] = found.next_lower_bound;
            (solved, bounded) = (solved + found.solved, bounded + found.bounded);
            for (rank, near) in found.neighbors.iter().enumerate() {
                let place = [query, rank];
                indices[place] = near.measure as i64;
                (values[place], lower[place]) = (near.distance.value, near.distance.lower_bound);
                gaps[place] = near.distance.relative_gap;
                converged[place] = near.distance.status == Status::Converged;
            }
        }
        Ok(Self {
            indices: indices.into_pyarray(py).unbind(),
            values: values.into_pyarray(py).unbind(),
            lower_bounds: lower.into_pyarray(py).unbind(),
            relative_gaps: gaps.into_pyarray(py).unbind(),
            converged: converged.into_pyarray(py).unbind(),
            next_lower_bounds: next.into_pyarray(py).unbind(),
            solved,
            bounded,
            errors: errors.unbind(),
            uneven,
            offset,
        })
    }
}
