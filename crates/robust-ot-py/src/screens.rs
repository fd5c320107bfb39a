//! Cheap lower bounds of robust distances.

use ndarray::Array1;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rayon::prelude::*;
use robust_ot::{Corpus, Measure, MetricSet, Screen};

use crate::distance::Among;
use crate::error::from_library;
use crate::threads::run;

/// Measures, laid out once for bounds of many distances among them.
#[pyclass(module = "robust_ot._core", frozen)]
pub struct Screens {
    corpus: Corpus,
    set: MetricSet,
    entropy: f64,
}

#[pymethods]
impl Screens {
    #[new]
    fn new<'py>(
        points: Vec<Bound<'py, PyAny>>,
        weights: Vec<Bound<'py, PyAny>>,
        metric: &Bound<'py, PyTuple>,
        solver: &Bound<'py, PyTuple>,
    ) -> PyResult<Self> {
        let Among { measures, set, grouping, entropy, .. } =
            Among::new(&points, &weights, &[], metric, solver)?;
        let corpus = Corpus::new(&measures.iter().collect::<Vec<&Measure>>(), &grouping);
        Ok(Self { corpus: corpus.map_err(|error| from_library("measures", error))?, set, entropy })
    }

    /// Bounds of the distances from a measure to others, under a metric that some of them choose: each is raised until it is
    /// above the limit, or as far as that is cheap.
    fn bounds<'py>(
        &self,
        py: Python<'py>,
        source: usize,
        like: Vec<usize>,
        targets: Vec<usize>,
        limit: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let found = run(py, |_| {
            let screen = Screen::new(&self.corpus, source, &like, &self.set, self.entropy)?;
            targets.par_iter().map(|&target| screen.bound(target, limit)).collect::<Result<Vec<f64>, _>>()
        })?;
        Ok(Array1::from(found.map_err(|error| from_library("measures", error))?).into_pyarray(py))
    }
}
