//! Robust distances of pairs of clouds with their gradients.

use ndarray::Array1;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rayon::prelude::*;
use robust_ot::device::{CloudWeights, EntropicOracle, solve_cloud_on};
use robust_ot::solve::{Gradient, Interrupt, SolveOptions};
use robust_ot::{Measure, Problem, Settings, Status};
use robust_ot_cuda::{CloudPoints, CloudSlopes, Clouds, Device, DeviceChoice, Streamed, Work};

use crate::arrays::vector;
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
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn differentiate<'py>(
    py: Python<'py>,
    sources: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    targets: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
    max_sweeps: Option<usize>,
    debias: bool,
    slopes: bool,
) -> PyResult<Vec<Differentiated<'py>>> {
    let metric = MetricArguments::new(metric)?;
    let (entropy, settings, memory, device) = settings(solver)?;
    let mut settings = limited(settings, max_sweeps)?;
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

/// Settings with a limit on sweeps.
fn limited(settings: Settings, max_sweeps: Option<usize>) -> PyResult<Settings> {
    let settings = max_sweeps.map_or(settings, |most| settings.with_max_sweeps(most));
    settings.check().map_err(|error| from_library("", error))?;
    Ok(settings)
}

/// The most pairs of points for which a solve that stalled is worth another one on the host, which may find exact plans.
const MOST_AGAIN: usize = 1 << 22;

/// The distance of two clouds on a GPU and its gradient: value, lower bound, relative gap and whether it converged. `None` means that
/// the host must solve it: the points are not finite or leave the range of the GPU, or the solve stalled.
///
/// `place` is the index of the GPU and a stream of it; `points` are the addresses of contiguous points and whether they are in single
/// precision, `shape` their numbers and that of their features; `slopes` the addresses for the gradients in X, Y, a and b, 0 for those
/// that are not wanted. `allocate` returns the address of as many bytes.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn differentiate_clouds(
    py: Python<'_>,
    place: (usize, u64),
    points: (u64, u64, bool),
    shape: (usize, usize, usize),
    weights_of: (Bound<'_, PyAny>, Bound<'_, PyAny>),
    metric: &Bound<'_, PyTuple>,
    solver: &Bound<'_, PyTuple>,
    max_sweeps: Option<usize>,
    allocate: &Bound<'_, PyAny>,
    slopes: (u64, u64, u64, u64),
) -> PyResult<Option<(f64, f64, f64, bool)>> {
    let metric = MetricArguments::new(metric)?;
    let (entropy, settings, _, _) = settings(solver)?;
    let settings = limited(settings, max_sweeps)?;
    let (set, grouping) = (metric.set()?, metric.grouping(shape.2)?);
    let weights = |given: &Bound<'_, PyAny>, name: &str, count: usize| {
        let weights = if given.is_none() { Array1::ones(count) } else { vector(given, name)? };
        CloudWeights::new(weights).map_err(|error| from_library(name, error))
    };
    let (source, target) = (weights(&weights_of.0, "a", shape.0)?, weights(&weights_of.1, "b", shape.1)?);
    let failed = |error| from_library("X, Y", error);
    let device = Device::open(place.0, kernel_cache().as_deref()).map_err(failed)?;
    let bytes = Clouds::workspace(&device, (&source, &target), &grouping);
    let workspace: u64 = allocate.call1((bytes,))?.extract()?;
    let points = CloudPoints { source: points.0, target: points.1, single: points.2 };
    let (in_x, in_y, in_a, in_b) = slopes;
    let slopes = CloudSlopes { source: in_x, target: in_y, source_weights: in_a, target_weights: in_b };
    let sides = (&source, &target);
    let solved = run(py, |interrupt| {
        // SAFETY: robust_ot.torch, the only caller, passes the addresses of contiguous tensors of these shapes, a workspace of the
        // bytes asked for, and torch's current stream of the same GPU.
        #[allow(unsafe_code)]
        let mut clouds = unsafe { Clouds::new(&device, place.1, points, sides, &grouping, workspace) }?;
        let found = solve_cloud_on(&mut clouds, sides, &grouping, (&set, entropy), &settings, interrupt)?;
        let again = shape.0.saturating_mul(shape.1) <= MOST_AGAIN;
        let Some(found) = found.filter(|found| found.status != Status::Stalled || !again) else {
            return Ok(None);
        };
        // SAFETY: as above.
        #[allow(unsafe_code)]
        unsafe { clouds.gradient(&found, slopes) }?;
        let converged = found.status == Status::Converged;
        Ok(Some((found.value, found.lower_bound, found.relative_gap, converged)))
    })?;
    solved.map_err(failed)
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
