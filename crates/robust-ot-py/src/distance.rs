//! Robust distances.

use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::Array1;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use robust_ot::device::{Corpus, EntropicOracle, solve_pairs_on};
use robust_ot::solve::{Interrupt, PairDistance, PairSettings, SolveOptions, solve_pairs};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Status};
use robust_ot_cuda::{Device, DeviceChoice, Pairs, Streamed, Work};
use robust_ot_learn::{Memory, Scale, Uneven};

use crate::arrays::{matrix, vector};
use crate::device::{device_name, kernel_cache};
use crate::error::from_library;
use crate::gradient::on_cpu;
use crate::metric::{MetricArguments, argument};
use crate::solution::Solution;
use crate::threads::{get_threads, run, run_watched};

/// Problems whose costs and plan take at most this many bytes are kept in memory without asking the system how much is free.
const SMALL: usize = 1 << 28;
/// Bytes per pair of points: its cost and its plan entry.
const ENTRY: usize = 12;
/// The names of devices.
const DEVICES: &str = "'auto', 'cpu', 'cuda' or 'cuda:N'";

/// The arguments of every solve, as the tuple (entropy, solver, tol, `max_iter`, memory, device).
pub(crate) fn settings(
    arguments: &Bound<'_, PyTuple>,
) -> PyResult<(f64, Settings, Option<usize>, DeviceChoice)> {
    let item = |at: usize| arguments.get_item(at);
    let entropy = argument(&item(0)?, "entropy", "a number that is not negative")?;
    let solver: String = argument(&item(1)?, "solver", "auto, classic, line-search or corrective")?;
    let memory = memory(&item(4)?)?;
    let step_rule = solver.parse().map_err(|error| from_library("", error))?;
    let settings = Settings::default()
        .with_step_rule(step_rule)
        .with_tolerance(argument(&item(2)?, "tol", "a finite number that is not negative")?)
        .with_max_iterations(argument(&item(3)?, "max_iter", "a whole number of at least 1")?)
        .with_memory(memory.unwrap_or(usize::MAX));
    settings.check().map_err(|error| from_library("", error))?;
    let device: String = argument(&item(5)?, "device", DEVICES)?;
    let device = device.parse().map_err(|error| from_library("", error))?;
    Ok((entropy, settings, memory, device))
}

/// A number of bytes, or a size such as 2GB.
fn memory(value: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    match value.extract::<String>() {
        Ok(text) => match text.parse::<Memory>() {
            Ok(memory) => Ok(Some(memory.0)),
            Err(error) => Err(from_library("", error)),
        },
        Err(_) => argument(value, "memory", "a number of bytes, a size such as '2GB', or None"),
    }
}

/// The memory for a problem of this size: no limit where it is small, else a share of the free memory.
pub(crate) fn allowed(entries: usize, side_by_side: usize) -> usize {
    if entries.saturating_mul(ENTRY) <= SMALL { usize::MAX } else { Memory::share().0 / side_by_side }
}

pub(crate) fn measure(
    points: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    names: (&str, &str),
) -> PyResult<Measure> {
    let points = matrix(points, names.0)?;
    if weights.is_none() {
        return Measure::uniform(points).map_err(|error| from_library(names.0, error));
    }
    let weights = vector(weights, names.1)?;
    Measure::new(points, weights).map_err(|error| {
        use robust_ot::Error::{Mass, Weight, WeightCount};
        let about =
            if matches!(error, Weight { .. } | Mass { .. } | WeightCount { .. }) { names.1 } else { names.0 };
        from_library(about, error)
    })
}

/// Scales the features of all measures. Unscaled, returns the features whose spreads differ so much that one decides.
pub(crate) fn scaled(
    measures: Vec<Measure>,
    scale: Scale,
) -> robust_ot::Result<(Vec<Measure>, Option<Uneven>)> {
    let uneven = if scale == Scale::None { Uneven::among(&measures)? } else { None };
    Ok((scale.apply(measures)?, uneven))
}

/// A scale by its name.
pub(crate) fn scale_of(scale: &Bound<'_, PyAny>) -> PyResult<Scale> {
    let scale: String = argument(scale, "scale", "'none', 'std' or 'robust'")?;
    scale.parse().map_err(|error| from_library("", error))
}

/// The robust distance between two measures.
#[pyfunction]
#[pyo3(signature = (x, y, a, b, metric, solver, scale, debias, told=None))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn distance<'py>(
    x: &Bound<'py, PyAny>,
    y: &Bound<'py, PyAny>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
    scale: &Bound<'py, PyAny>,
    debias: bool,
    told: Option<&Bound<'py, PyAny>>,
) -> PyResult<Solution> {
    let metric = MetricArguments::new(metric)?;
    let (entropy, mut settings, memory, device) = settings(solver)?;
    let set = metric.set()?;
    let sides = vec![measure(x, a, ("X", "a"))?, measure(y, b, ("Y", "b"))?];
    let scale = scale_of(scale)?;
    let factors = scale.factors(&sides).map_err(|error| from_library("X, Y", error))?;
    let (sides, uneven) = scaled(sides, scale).map_err(|error| from_library("X, Y", error))?;
    let Ok(sides) = <[Measure; 2]>::try_from(sides) else {
        return Err(PyRuntimeError::new_err("two measures were scaled, but not two returned"));
    };
    let [source, target] = &sides;
    let grouping = metric.grouping(source.dim())?;
    let shape = (source.len(), target.len());
    settings.memory = memory.unwrap_or_else(|| allowed(shape.0.saturating_mul(shape.1), 1));
    let work = Work::of_distance(shape.0, shape.1, source.dim());
    let uneven = uneven.map(|found| (found.widest, found.narrowest, found.ratio));
    let mut told = |_: Python<'_>| told.map_or(Ok(()), |told| told.call0().map(|_| ()));
    if debias {
        on_cpu(&device, "a debiased distance")?;
        let solve = |interrupt: &Interrupt| {
            let problem = Problem::grouped(source, target, set, &grouping)?.with_entropy(entropy)?;
            problem.divergence(&settings, interrupt)
        };
        let found = run_watched(x.py(), &mut told, solve)?.map_err(|error| from_library("X, Y", error))?;
        return Ok(Solution::debiased(found, sides, grouping, factors, uneven));
    }
    let solved = run_watched(x.py(), &mut told, |interrupt| {
        let device = device.open_for_plans(work, entropy, kernel_cache().as_deref())?;
        let solve = || {
            let problem = Problem::grouped(source, target, set, &grouping)?.with_entropy(entropy)?;
            let oracle = device.as_ref().map(Streamed::new).transpose()?;
            let oracle = oracle.map(|oracle| Box::new(oracle) as Box<dyn EntropicOracle>);
            let options =
                SolveOptions { interrupt: Some(interrupt), device: oracle, ..SolveOptions::default() };
            problem.solve_with(&settings, options)
        };
        Ok((solve(), device_name(device.as_ref())))
    })?;
    let (solved, device) = solved.map_err(|error: robust_ot::Error| from_library("", error))?;
    let solved = solved.map_err(|error| from_library("X, Y", error))?;
    Ok(Solution::new(solved, sides, grouping, (entropy > 0.0, factors), device, uneven))
}

/// Two features and the ratio of their spreads.
pub(crate) type UnevenParts = Option<(usize, usize, f64)>;

/// Values, lower bounds and relative gaps of some pairs, whether each converged, the errors by index, features whose spreads
/// differ so much that one decides, and the value between equal clouds.
type PairArrays<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyDict>,
    UnevenParts,
    f64,
);

/// Measures, and the settings of the distances between them.
pub(crate) struct Among {
    pub(crate) measures: Vec<Measure>,
    pub(crate) set: MetricSet,
    pub(crate) grouping: Grouping,
    pub(crate) entropy: f64,
    pub(crate) settings: Settings,
    pub(crate) device: DeviceChoice,
}

impl Among {
    pub(crate) fn new<'py>(
        points: &[Bound<'py, PyAny>],
        weights: &[Bound<'py, PyAny>],
        pairs: &[(usize, usize)],
        metric: &Bound<'py, PyTuple>,
        solver: &Bound<'py, PyTuple>,
    ) -> PyResult<Self> {
        let metric = MetricArguments::new(metric)?;
        let (entropy, mut settings, memory, device) = settings(solver)?;
        let set = metric.set()?;
        let mut measures = Vec::with_capacity(points.len());
        for (at, (points, weights)) in points.iter().zip(weights).enumerate() {
            let names = (format!("measures[{at}]"), format!("the weights of measures[{at}]"));
            measures.push(measure(points, weights, (&names.0, &names.1))?);
        }
        if let Some((i, j)) = pairs.iter().find(|(i, j)| *i.max(j) >= measures.len()) {
            let count = measures.len();
            return Err(PyValueError::new_err(format!(
                "pairs must be among {count} measures, but one is ({i}, {j})"
            )));
        }
        let largest = measures.iter().map(Measure::len).max().unwrap_or(0);
        settings.memory =
            memory.unwrap_or_else(|| allowed(largest.saturating_mul(largest), get_threads().unwrap_or(1)));
        let grouping = metric.grouping(measures.first().map_or(1, Measure::dim))?;
        Ok(Self { measures, set, grouping, entropy, settings, device })
    }

    /// Scales the features of all measures.
    pub(crate) fn scale(&mut self, scale: &Bound<'_, PyAny>) -> PyResult<UnevenParts> {
        let dim = self.measures.first().map_or(0, Measure::dim);
        let place = self.measures.iter().position(|measure| measure.dim() != dim).unwrap_or(0);
        let (measures, uneven) = scaled(std::mem::take(&mut self.measures), scale_of(scale)?)
            .map_err(|error| from_library(&format!("measures[0] and measures[{place}]"), error))?;
        self.measures = measures;
        Ok(uneven.map(|found| (found.widest, found.narrowest, found.ratio)))
    }

    /// The distances of pairs, on the CPU or on a GPU.
    fn solve(
        &self,
        device: Option<&Device>,
        pairs: &[(usize, usize)],
        interrupt: &Interrupt,
        done: &AtomicUsize,
    ) -> robust_ot::Result<Vec<robust_ot::Result<PairDistance>>> {
        let measures: Vec<&Measure> = self.measures.iter().collect();
        let (set, entropy, settings) = (&self.set, self.entropy, &self.settings);
        let wanted = PairSettings { measures: &measures, grouping: &self.grouping, set, entropy, settings };
        let count = |_| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        let Some(device) = device else { return Ok(solve_pairs(pairs, wanted, interrupt, &count)) };
        let corpus = Corpus::new(&measures, &self.grouping)?;
        solve_pairs_on(&mut Pairs::new(device, &corpus)?, &corpus, pairs, wanted, interrupt, &count)
    }
}

/// The robust distances of some pairs of measures; without `scale`, features are not looked at. `told` is called with the
/// number of pairs solved so far.
#[pyfunction]
#[pyo3(signature = (points, weights, pairs, metric, solver, scale=None, told=None))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn pairwise<'py>(
    py: Python<'py>,
    points: Vec<Bound<'py, PyAny>>,
    weights: Vec<Bound<'py, PyAny>>,
    pairs: Vec<(usize, usize)>,
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
    scale: Option<&Bound<'py, PyAny>>,
    told: Option<&Bound<'py, PyAny>>,
) -> PyResult<PairArrays<'py>> {
    let mut among = Among::new(&points, &weights, &pairs, metric, solver)?;
    let uneven = scale.map_or(Ok(None), |scale| among.scale(scale))?;
    let work = |(i, j): &(usize, usize)| among.measures[*i].len() as f64 * among.measures[*j].len() as f64;
    let dim = among.measures.first().map_or(1, Measure::dim);
    let work = Work::of_pairs(pairs.iter().map(work).sum(), dim);
    let opened = run(py, |_| among.device.open_for_plans(work, among.entropy, kernel_cache().as_deref()))?;
    let device = opened.map_err(|error| from_library("", error))?;
    let done = AtomicUsize::new(0);
    let mut watch =
        |_: Python<'_>| told.map_or(Ok(()), |told| told.call1((done.load(Ordering::Relaxed),)).map(|_| ()));
    let solved =
        run_watched(py, &mut watch, |interrupt| among.solve(device.as_ref(), &pairs, interrupt, &done))?;
    let solved = solved.map_err(|error| from_library("", error))?;
    let column = |pick: fn(&PairDistance) -> f64| {
        let numbers = solved.iter().map(|pair| pair.as_ref().map_or(f64::NAN, pick));
        numbers.collect::<Array1<f64>>().into_pyarray(py)
    };
    let converged =
        solved.iter().map(|pair| pair.as_ref().is_ok_and(|pair| pair.status == Status::Converged));
    let (values, lower, gaps) =
        (column(|pair| pair.value), column(|pair| pair.lower_bound), column(|pair| pair.relative_gap));
    let converged = converged.collect::<Array1<bool>>().into_pyarray(py);
    let errors = PyDict::new(py);
    for (at, pair) in solved.into_iter().enumerate() {
        if let Err(error) = pair {
            errors.set_item(at, from_library("", error).into_value(py))?;
        }
    }
    // Where there is none, every pair has an error that says why.
    let offset = among.set.offset(among.grouping.groups()).unwrap_or(f64::NAN);
    Ok((values, lower, gaps, converged, errors, uneven, offset))
}

/// h(0) of a metric set for the given number of features, the value between equal clouds; NaN if it does not fit.
#[pyfunction]
pub fn metric_offset(metric: &Bound<'_, PyTuple>, features: usize) -> PyResult<f64> {
    let metric = MetricArguments::new(metric)?;
    Ok(metric.set()?.offset(metric.grouping(features)?.groups()).unwrap_or(f64::NAN))
}

/// Checks a measure; returns the number of points and of features.
#[pyfunction]
pub fn check_measure(points: &Bound<'_, PyAny>, weights: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let found = measure(points, weights, ("points", "weights"))?;
    Ok((found.len(), found.dim()))
}
