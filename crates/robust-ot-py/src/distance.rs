//! Robust distances.

use ndarray::Array1;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rayon::prelude::*;
use robust_ot::{
    Corpus, Grouping, Interrupt, Measure, MetricSet, PairDistance, PairSettings, Problem, Settings, Status,
    Workspace, solve_pairs,
};
use robust_ot_cuda::{Device, DeviceChoice, Pairs, Streamed, Work};
use robust_ot_learn::Memory;

use crate::arrays::{matrix, vector};
use crate::device::{device_name, kernel_cache};
use crate::error::from_library;
use crate::metric::{MetricArguments, argument};
use crate::solution::Solution;
use crate::threads::{get_threads, run};

/// Problems whose costs and plan take less than this are kept in memory without asking the system how much is free.
const SMALL: usize = 1 << 28;
/// Bytes of a cost and of a plan's entry.
const ENTRY: usize = 12;
/// What a device is called.
const DEVICES: &str = "'auto', 'cpu', 'cuda' or 'cuda:N'";

/// What every solve takes, as the tuple (entropy, solver, tol, `max_iter`, memory, device).
fn settings(arguments: &Bound<'_, PyTuple>) -> PyResult<(f64, Settings, Option<usize>, DeviceChoice)> {
    let item = |at: usize| arguments.get_item(at);
    let entropy = argument(&item(0)?, "entropy", "a number that is not negative")?;
    let solver: String = argument(&item(1)?, "solver", "auto, classic, line-search or corrective")?;
    let memory = memory(&item(4)?)?;
    let settings = Settings {
        solver: solver.parse().map_err(|error| from_library("", error))?,
        tol_gap_rel: argument(&item(2)?, "tol", "a finite number that is not negative")?,
        max_iterations: argument(&item(3)?, "max_iter", "a whole number of at least 1")?,
        memory: memory.unwrap_or(usize::MAX),
    };
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

/// What the command allows for a problem of this size.
fn allowed(entries: usize, side_by_side: usize) -> usize {
    if entries.saturating_mul(ENTRY) <= SMALL { usize::MAX } else { Memory::share().0 / side_by_side }
}

fn measure(points: &Bound<'_, PyAny>, weights: &Bound<'_, PyAny>, names: (&str, &str)) -> PyResult<Measure> {
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

/// The robust distance between two measures.
#[pyfunction]
pub fn distance<'py>(
    x: &Bound<'py, PyAny>,
    y: &Bound<'py, PyAny>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
) -> PyResult<Solution> {
    let metric = MetricArguments::new(metric)?;
    let (entropy, mut settings, memory, device) = settings(solver)?;
    let set = metric.set()?;
    let (source, target) = (measure(x, a, ("X", "a"))?, measure(y, b, ("Y", "b"))?);
    let grouping = metric.grouping(source.dim())?;
    let shape = (source.len(), target.len());
    settings.memory = memory.unwrap_or_else(|| allowed(shape.0.saturating_mul(shape.1), 1));
    let work = Work::of_distance(shape.0, shape.1, source.dim());
    let solved = run(x.py(), |interrupt| {
        let device = device.open_for_plans(work, entropy, kernel_cache().as_deref())?;
        let solve = || {
            let problem = Problem::grouped(&source, &target, set, &grouping)?.with_entropy(entropy)?;
            match &device {
                None => problem.solve_until(&settings, interrupt),
                Some(device) => problem.solve_on(Box::new(Streamed::new(device)?), &settings, interrupt),
            }
        };
        Ok((solve(), device_name(device.as_ref())))
    })?;
    let (solved, device) = solved.map_err(|error: robust_ot::Error| from_library("", error))?;
    let solved = solved.map_err(|error| from_library("X, Y", error))?;
    Ok(Solution::new(solved, shape, &grouping, entropy > 0.0, device))
}

/// Values, lower bounds and relative gaps of some pairs, and whether each converged.
type PairArrays<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
);

/// Measures, and what is asked of pairs of them.
pub(crate) struct Among {
    pub(crate) measures: Vec<Measure>,
    pub(crate) set: MetricSet,
    pub(crate) grouping: Grouping,
    pub(crate) entropy: f64,
    settings: Settings,
    device: DeviceChoice,
}

/// An error, and the pair it is about.
type AboutPair = ((usize, usize), robust_ot::Error);

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

    /// All pairs on a card.
    fn solve_on(
        &self,
        device: &Device,
        pairs: &[(usize, usize)],
        interrupt: &Interrupt,
    ) -> Result<Vec<(f64, f64, f64, bool)>, AboutPair> {
        let about_all = |error| ((0, 0), error);
        let measures: Vec<&Measure> = self.measures.iter().collect();
        let corpus = Corpus::new(&measures, &self.grouping).map_err(about_all)?;
        let mut oracle = Pairs::new(device, &corpus).map_err(about_all)?;
        let (set, entropy, settings) = (&self.set, self.entropy, &self.settings);
        let wanted = PairSettings { measures: &measures, set, entropy, settings };
        let found =
            solve_pairs(&corpus, pairs, wanted, &mut oracle, interrupt, &|_| ()).map_err(about_all)?;
        let row = |(&pair, found): (&(usize, usize), Result<PairDistance, robust_ot::Error>)| {
            let PairDistance { value, lower_bound, relative_gap, status, .. } =
                found.map_err(|error| (pair, error))?;
            Ok((value, lower_bound, relative_gap, status == Status::Converged))
        };
        pairs.iter().zip(found).map(row).collect()
    }

    fn problem(&self, (i, j): (usize, usize)) -> Result<Problem, AboutPair> {
        let problem =
            Problem::grouped(&self.measures[i], &self.measures[j], self.set.clone(), &self.grouping);
        problem.and_then(|problem| problem.with_entropy(self.entropy)).map_err(|error| ((i, j), error))
    }
}

fn about_pair(((i, j), error): AboutPair) -> PyErr {
    if matches!(error, robust_ot::Error::Device { .. }) {
        return from_library("", error);
    }
    from_library(&format!("measures[{i}] and measures[{j}]"), error)
}

/// The robust distances of some pairs of measures.
#[pyfunction]
pub fn pairwise<'py>(
    py: Python<'py>,
    points: Vec<Bound<'py, PyAny>>,
    weights: Vec<Bound<'py, PyAny>>,
    pairs: Vec<(usize, usize)>,
    metric: &Bound<'py, PyTuple>,
    solver: &Bound<'py, PyTuple>,
) -> PyResult<PairArrays<'py>> {
    let among = Among::new(&points, &weights, &pairs, metric, solver)?;
    let work = |(i, j): &(usize, usize)| among.measures[*i].len() as f64 * among.measures[*j].len() as f64;
    let dim = among.measures.first().map_or(1, Measure::dim);
    let work = Work::of_pairs(pairs.iter().map(work).sum(), dim);
    let opened = run(py, |_| among.device.open_for_plans(work, among.entropy, kernel_cache().as_deref()))?;
    let device = opened.map_err(|error| from_library("", error))?;
    let solved = run(py, |interrupt| {
        if let Some(device) = &device {
            return among.solve_on(device, &pairs, interrupt);
        }
        let solve = |room: &mut Workspace, pair: &(usize, usize)| {
            // Once interrupted, nobody looks at what is left.
            if interrupt.is_raised() {
                return Ok((f64::NAN, f64::NAN, f64::NAN, false));
            }
            let solution = among.problem(*pair)?.solve_in(room, &among.settings, interrupt);
            let solution = solution.map_err(|error| (*pair, error))?;
            let converged = solution.status == Status::Converged;
            Ok((solution.value, solution.lower_bound, solution.relative_gap, converged))
        };
        pairs.par_iter().map_init(Workspace::default, solve).collect::<Result<Vec<_>, AboutPair>>()
    })?;
    let solved = solved.map_err(about_pair)?;
    let column = |pick: fn(&(f64, f64, f64, bool)) -> f64| {
        solved.iter().map(pick).collect::<Array1<f64>>().into_pyarray(py)
    };
    let converged = solved.iter().map(|pair| pair.3).collect::<Array1<bool>>().into_pyarray(py);
    Ok((column(|pair| pair.0), column(|pair| pair.1), column(|pair| pair.2), converged))
}

/// Refuses what is no measure.
#[pyfunction]
pub fn check_measure(points: &Bound<'_, PyAny>, weights: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let found = measure(points, weights, ("points", "weights"))?;
    Ok((found.len(), found.dim()))
}
