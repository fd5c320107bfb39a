//! Cheap lower bounds on robust distances.

use ndarray::Array1;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rayon::prelude::*;
use robust_ot::device::Corpus;
use robust_ot::{Measure, MetricSet};

use crate::arrays::{matrix, vector};
use crate::distance::Among;
use crate::error::from_library;
use crate::metric::MetricArguments;
use crate::threads::run;

/// Means of measures, for bounds on the distances between them.
#[pyclass(module = "robust_ot._core", frozen)]
pub struct Means(robust_ot::bounds::Means);

#[pymethods]
impl Means {
    #[new]
    fn new<'py>(means: &Bound<'py, PyAny>, metric: &Bound<'py, PyTuple>) -> PyResult<Self> {
        let (means, metric) = (matrix(means, "means")?, MetricArguments::new(metric)?);
        let grouping = metric.grouping(means.ncols())?;
        let means = robust_ot::bounds::Means::new(&means, &grouping, metric.set()?);
        Ok(Self(means.map_err(|error| from_library("means", error))?))
    }

    /// Bounds on the distances from a measure to others.
    fn bounds<'py>(
        &self,
        py: Python<'py>,
        source: usize,
        targets: Vec<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        bounds_of(py, &targets, |target| self.0.bound(source, target))
    }
}

/// Precomputed data for bounds on the distances from one measure.
#[pyclass(module = "robust_ot._core", frozen)]
pub struct Screen(robust_ot::bounds::Screen);

/// Measures laid out around a center.
#[pyclass(module = "robust_ot._core", frozen)]
pub struct Layout {
    corpus: Corpus,
    set: MetricSet,
    entropy: f64,
}

#[pymethods]
impl Layout {
    #[new]
    fn new<'py>(
        points: Vec<Bound<'py, PyAny>>,
        weights: Vec<Bound<'py, PyAny>>,
        center: &Bound<'py, PyAny>,
        metric: &Bound<'py, PyTuple>,
        solver: &Bound<'py, PyTuple>,
    ) -> PyResult<Self> {
        let Among { measures, set, grouping, entropy, .. } =
            Among::new(&points, &weights, &[], metric, solver)?;
        let around = vector(center, "center")?;
        let corpus = run(center.py(), |_| {
            let measures: Vec<&Measure> = measures.iter().collect();
            Corpus::around(around, &measures, &grouping)
        })?;
        Ok(Self { corpus: corpus.map_err(|error| from_library("measures", error))?, set, entropy })
    }

    /// A screen for the distances from one measure, under a metric chosen by some others.
    fn screen(&self, py: Python<'_>, source: usize, like: Vec<usize>) -> PyResult<Screen> {
        let screen = run(py, |_| {
            robust_ot::bounds::Screen::new(&self.corpus, source, &like, &self.set, self.entropy)
        })?;
        Ok(Screen(screen.map_err(|error| from_library("measures", error))?))
    }

    /// Bounds on the distances to some measures. Each is raised until it exceeds the limit, or as far as is cheap.
    fn bounds<'py>(
        &self,
        py: Python<'py>,
        screen: &Screen,
        targets: Vec<usize>,
        limit: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        bounds_of(py, &targets, |target| screen.0.bound(&self.corpus, target, limit))
    }
}

/// The bounds of all targets, in their order.
fn bounds_of<'py>(
    py: Python<'py>,
    targets: &[usize],
    bound: impl Fn(usize) -> robust_ot::Result<f64> + Sync,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let found = run(py, |interrupt| {
        // Results after an interrupt are discarded.
        let bound = |&target: &usize| if interrupt.is_raised() { Ok(0.0) } else { bound(target) };
        targets.par_iter().map(bound).collect::<robust_ot::Result<Vec<f64>>>()
    })?;
    Ok(Array1::from(found.map_err(|error| from_library("measures", error))?).into_pyarray(py))
}
