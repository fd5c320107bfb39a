//! Barycenters of measures.

use ndarray::Array1;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use robust_ot::Measure;
use robust_ot::barycenter::{BarycenterSettings, Barycenters};

use crate::arrays::vector;
use crate::device::device_name;
use crate::distance::{Among, measure};
use crate::error::from_library;
use crate::gradient::on_cpu;
use crate::metric::argument;
use crate::solution::Solution;
use crate::threads::run;

/// Points and weights of the barycenter, the lower bound, the distances to it, the status, and the values of all steps.
type Found<'py> = (
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<f64>>,
    f64,
    Vec<Solution>,
    String,
    Bound<'py, PyArray1<f64>>,
);

/// The barycenter of measures: over the positions of points, given by their number with a seed or by where they start, or over the
/// weights of points that stay. `search` has whether they stay, the seed, and the maximum number of steps.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn barycenter<'py>(
    py: Python<'py>,
    points: Vec<Bound<'py, PyAny>>,
    weights: Vec<Bound<'py, PyAny>>,
    shares: &Bound<'py, PyAny>,
    support: &Bound<'py, PyAny>,
    search: (bool, u64, Bound<'py, PyAny>),
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
) -> PyResult<Found<'py>> {
    let (fixed, seed, max_steps) = search;
    let Among { measures, set, grouping, entropy, settings, device } =
        Among::new(&points, &weights, &[], metric, solver)?;
    on_cpu(&device, "a barycenter")?;
    let max_steps = argument(&max_steps, "max_steps", "a whole number that is not negative")?;
    let settings = BarycenterSettings::default().with_solve(settings).with_max_steps(max_steps);
    let all: Vec<&Measure> = measures.iter().collect();
    let shares = if shares.is_none() { None } else { Some(vector(shares, "weights")?.to_vec()) };
    let problem = Barycenters::new(&all, shares.as_deref(), set, &grouping)
        .and_then(|problem| problem.with_entropy(entropy))
        .map_err(|error| from_library("measures", error))?;
    let count = support.extract::<usize>().ok();
    let start = match count {
        Some(count) => problem.start(count, seed).map_err(|error| from_library("support", error))?,
        None => measure(support, py.None().bind(py), ("support", "support"))?,
    };
    let found = run(py, |interrupt| {
        if fixed {
            problem.fixed_support(start.points(), &settings, interrupt)
        } else {
            problem.free_support(&start, &settings, interrupt)
        }
    })?;
    let found = found.map_err(|error| from_library("measures and support", error))?;
    let distances = found.distances.into_iter().zip(&measures);
    let distances = distances.map(|(solution, from)| {
        let (sides, grouping) = ([from.clone(), found.measure.clone()], problem.grouping().clone());
        Solution::new(solution, sides, grouping, (entropy > 0.0, None), device_name(None), None)
    });
    Ok((
        found.measure.points().clone().into_pyarray(py),
        found.measure.weights().clone().into_pyarray(py),
        found.lower_bound,
        distances.collect(),
        found.status.name().to_owned(),
        Array1::from_vec(found.history).into_pyarray(py),
    ))
}
