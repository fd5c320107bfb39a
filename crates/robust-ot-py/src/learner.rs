//! A model that continues to learn, for `partial_fit` and for workers that train together.

use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use robust_ot_learn::{Gradient, StreamingFit};

use crate::error::{from_library, warn};
use crate::fit::{dataset, history, samples};
use crate::fit_settings::fit_settings;
use crate::model::Model;
use crate::targets::Arrays;
use crate::threads::run;

/// Weights and the optimizer's state.
#[pyclass(module = "robust_ot._core")]
pub struct Learner {
    fit: StreamingFit,
    labels: usize,
    label_kind: String,
}

#[pymethods]
impl Learner {
    /// Starts from the first rows, without learning from them yet. `state` continues from another learner's state, `model`
    /// from a model's weights.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
    #[pyo3(signature = (x, truth, label_names, label_vectors, keywords, kind, state=None, model=None))]
    fn new<'py>(
        x: &Bound<'py, PyAny>,
        truth: Arrays<'py>,
        label_names: Vec<String>,
        label_vectors: Option<&Bound<'py, PyAny>>,
        keywords: &Bound<'py, PyDict>,
        kind: (String, bool),
        state: Option<&[u8]>,
        model: Option<&Bound<'py, Model>>,
    ) -> PyResult<Self> {
        let settings = fit_settings(keywords)?;
        let labels = label_names.len();
        let samples = samples(x, &truth, label_names, label_vectors)?;
        let refused = |error| from_library("", error);
        let mut fit = run(x.py(), |_| StreamingFit::new(&settings, samples))?.map_err(refused)?;
        let (label_kind, several) = kind;
        if several {
            fit = fit.with_several_labels();
        }
        if let Some(model) = model {
            fit.check_row_length(&model.get().model).map_err(refused)?;
        }
        if let Some(state) = state {
            let integrity = fit.restore(state).map_err(refused)?;
            if let Some(note) = integrity.note() {
                warn(x.py(), &format!("the state of the learner {note}"))?;
            }
        } else if let Some(model) = model {
            fit.start_from(&model.get().model).map_err(|error| from_library("X", error))?;
        }
        Ok(Self { fit, labels, label_kind })
    }

    /// Makes one pass over some rows.
    fn learn<'py>(&mut self, x: &Bound<'py, PyAny>, truth: Arrays<'py>) -> PyResult<()> {
        let rows = dataset(x, self.labels, &truth)?;
        let learned = run(x.py(), |interrupt| self.fit.learn(rows, interrupt))?;
        learned.map(|_| ()).map_err(|error| from_library("X", error))
    }

    /// The gradient in weights and then biases, summed over some rows, and the sum of their losses.
    fn gradient<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        truth: Arrays<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, f64)> {
        let rows = dataset(x, self.labels, &truth)?;
        let found = run(x.py(), |_| self.fit.gradient(rows))?;
        let Gradient { mut weights, bias, loss, .. } = found.map_err(|error| from_library("X", error))?;
        weights.extend(bias);
        Ok((weights.into_pyarray(x.py()), loss))
    }

    /// Makes one step along the gradient of this number of rows.
    fn step(&mut self, slopes: &Bound<'_, PyArray1<f32>>, rows: usize) -> PyResult<()> {
        let mut weights = slopes.readonly().as_array().to_vec();
        let count = self.fit.weight_count();
        let bias = if count <= weights.len() { weights.split_off(count) } else { Vec::new() };
        let gradient = Gradient { weights, bias, loss: 0.0, rows };
        run(slopes.py(), |_| self.fit.step(&gradient))?.map_err(|error| from_library("X", error))
    }

    /// Ends a pass that was made step by step.
    fn end_pass(&mut self, loss: f64, seconds: f64) {
        self.fit.end_pass(loss, seconds);
    }

    /// Chooses the prediction threshold on some rows, if rows may have several labels.
    fn choose_threshold<'py>(&mut self, x: &Bound<'py, PyAny>, truth: Arrays<'py>) -> PyResult<()> {
        let rows = dataset(x, self.labels, &truth)?;
        let chosen = run(x.py(), |_| self.fit.choose_threshold(rows))?;
        chosen.map_err(|error| from_library("X", error))
    }

    /// The current model.
    fn model(&self) -> PyResult<Model> {
        let mut model = self.fit.model().map_err(|error| from_library("", error))?;
        model.about.label_kind.clone_from(&self.label_kind);
        Ok(Model { model })
    }

    /// Every pass so far.
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        history(py, self.fit.history())
    }

    /// Everything that another learner needs to continue.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.fit.state().map_err(|error| from_library("", error))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
