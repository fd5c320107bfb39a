//! A model that goes on learning, for `partial_fit`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use robust_ot::learn::{About, Learner as Learning};

use crate::arrays::matrix;
use crate::error::{from_command, from_library};
use crate::fit::{dataset, history, options};
use crate::model::Model;
use crate::targets::Arrays;
use crate::threads::run;

/// Weights and what the optimiser remembers.
#[pyclass(module = "robust_ot._core")]
pub struct Learner {
    learning: Learning,
    label_names: Vec<String>,
    about: About,
    vectors: Option<ndarray::Array2<f64>>,
}

#[pymethods]
impl Learner {
    /// Begins with the first rows, which it does not yet learn from; `state` goes on where another stood.
    #[new]
    #[pyo3(signature = (x, truth, label_names, label_vectors, keywords, state=None))]
    fn new<'py>(
        x: &Bound<'py, PyAny>,
        truth: Arrays<'py>,
        label_names: Vec<String>,
        label_vectors: Option<&Bound<'py, PyAny>>,
        keywords: &Bound<'py, PyDict>,
        state: Option<&[u8]>,
    ) -> PyResult<Self> {
        let options = options(keywords)?;
        let vectors = label_vectors.map(|vectors| matrix(vectors, "label_vectors")).transpose()?;
        let rows = dataset(x, label_names.len(), &truth)?;
        let settings = options.settings().map_err(from_command)?;
        let trained = run(x.py(), |_| options.trained(&rows, vectors.as_ref()))?.map_err(from_command)?;
        let about = About { training: Some(settings.clone()), ..trained.about };
        let features = rows.features().columns();
        let mut learning =
            Learning::new(features, trained.objective, settings).map_err(|error| from_library("", error))?;
        if let Some(state) = state {
            learning.restore(state).map_err(|error| from_library("", error))?;
        }
        Ok(Self { learning, label_names, about, vectors })
    }

    /// One pass over some rows.
    fn learn<'py>(&mut self, x: &Bound<'py, PyAny>, truth: Arrays<'py>) -> PyResult<()> {
        let rows = dataset(x, self.label_names.len(), &truth)?;
        let learnt = run(x.py(), |interrupt| self.learning.learn(&rows, interrupt))?;
        learnt.map(|_| ()).map_err(|error| from_library("X", error))
    }

    /// The model as it stands.
    fn model(&self) -> PyResult<Model> {
        let mut model =
            self.learning.model(self.label_names.clone()).map_err(|error| from_library("", error))?;
        let epochs = self.learning.history().len();
        model.label_vectors.clone_from(&self.vectors);
        model.about = About { epochs, version: env!("CARGO_PKG_VERSION").into(), ..self.about.clone() };
        Ok(Model { model })
    }

    /// The passes so far.
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        history(py, self.learning.history())
    }

    /// What another learner can go on from.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.learning.to_bytes().map_err(|error| from_library("", error))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
