//! Robust distances of pairs of clouds with their gradients.

use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rayon::prelude::*;
use robust_ot::device::EntropicOracle;
use robust_ot::solve::{Gradient, Interrupt, SolveOptions};
use robust_ot::{Measure, Problem, Status};
use robust_ot_cuda::{Device, DeviceChoice, Streamed, Work};

use crate::device::kernel_cache;
use crate::distance::{allowed, measure, settings};
use crate::error::from_library;
use crate::metric::MetricArguments;
use crate::threads::{get_threads, run};

/// Refuses a GPU for what is computed on the CPU.
pub fn on_cpu(device: &DeviceChoice, what: &str) -> PyResult<()> {
    if matches!(device, DeviceChoice::Auto | DeviceChoice::Cpu) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "device must be 'auto' or 'cpu' for {what}, which is computed on the CPU, but is '{device}'"
    )))
}

/// A distance with its bounds and, if wanted, its gradient in X, Y, a and b.
type Differentiated<'py> = (f64, f64, f64, bool, Option<Gradients<'py>>);
/// A gradient by arguments.
pub type Gradients<'py> = (
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
);

/// The distances of pairs of clouds, solved in parallel: value, lower bound, relative gap, whether it converged, and the gradient
/// if `slopes` are wanted.
#[pyfunction]
pub fn differentiate<'py>(
    py: Python<'py>,
    sources: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    targets: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
    debias: bool,
    slopes: bool,
) -> PyResult<Vec<Differentiated<'py>>> {
    let metric = MetricArguments::new(metric)?;
    let (entropy, mut settings, memory, device) = settings(solver)?;
    let set = metric.set()?;
    let batched = sources.len() > 1;
    let read = |sides: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>, names: (&str, &str)| {
        let named = |at: usize, name: &str| if batched { format!("{name}[{at}]") } else { name.to_owned() };
        let sides = sides.iter().enumerate();
        sides
            .map(|(at, (x, a))| measure(x, a, (&named(at, names.0), &named(at, names.1))))
            .collect::<PyResult<Vec<_>>>()
    };
    let (sources, targets) = (read(sources, ("X", "a"))?, read(targets, ("Y", "b"))?);
    let dim = sources.first().map_or(1, Measure::dim);
    let grouping = metric.grouping(dim)?;
    let largest = sources.iter().zip(&targets).map(|(x, y)| x.len().saturating_mul(y.len())).max();
    settings.memory = memory.unwrap_or_else(|| allowed(largest.unwrap_or(0), get_threads().unwrap_or(1)));
    if debias {
        on_cpu(&device, "a debiased distance")?;
    }
    let solve = |x: &Measure, y: &Measure, device: Option<&Device>, interrupt: &Interrupt| {
        let problem = Problem::grouped(x, y, set.clone(), &grouping)?.with_entropy(entropy)?;
        if debias {
            let found = problem.divergence(&settings, interrupt)?;
            let gradient = slopes.then(|| found.gradient());
            return Ok((found.value, found.lower_bound, found.relative_gap, found.status, gradient));
        }
        let oracle = device.map(Streamed::new).transpose()?;
        let device = oracle.map(|oracle| Box::new(oracle) as Box<dyn EntropicOracle>);
        let options = SolveOptions { interrupt: Some(interrupt), device, ..SolveOptions::default() };
        let found = problem.solve_with(&settings, options)?;
        let gradient = slopes.then(|| found.gradient());
        Ok((found.value, found.lower_bound, found.relative_gap, found.status, gradient))
    };
    let works = sources.iter().zip(&targets).map(|(x, y)| x.len() as f64 * y.len() as f64);
    let work = Work::of_pairs(works.sum(), dim);
    let solved = run(py, |interrupt| {
        let device =
            if debias { None } else { device.open_for_plans(work, entropy, kernel_cache().as_deref())? };
        let Some(device) = device else {
            let pairs = sources.par_iter().zip(&targets);
            return Ok(pairs.map(|(x, y)| solve(x, y, None, interrupt)).collect::<Vec<_>>());
        };
        let pairs = sources.iter().zip(&targets);
        Ok(pairs.map(|(x, y)| solve(x, y, Some(&device), interrupt)).collect())
    })?;
    let solved = solved.map_err(|error: robust_ot::Error| from_library("", error))?;
    let mut found = Vec::with_capacity(solved.len());
    for (at, pair) in solved.into_iter().enumerate() {
        let place = if batched { format!("X[{at}], Y[{at}]") } else { "X, Y".to_owned() };
        let (value, lower, gap, status, gradient): (f64, f64, f64, Status, Option<Gradient>) =
            pair.map_err(|error: robust_ot::Error| from_library(&place, error))?;
        let gradient = gradient.map(|gradient| arrays(py, gradient));
        found.push((value, lower, gap, status == Status::Converged, gradient));
    }
    Ok(found)
}

/// A gradient as arrays.
pub fn arrays(py: Python<'_>, gradient: Gradient) -> Gradients<'_> {
    let Gradient { source_points, target_points, source_weights, target_weights, .. } = gradient;
    (
        source_points.into_pyarray(py),
        target_points.into_pyarray(py),
        source_weights.into_pyarray(py),
        target_weights.into_pyarray(py),
    )
}
