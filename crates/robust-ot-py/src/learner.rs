//! A model that goes on learning, for `partial_fit`.

use numpy::{IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use robust_ot_learn::{About, Dataset, Gradient, Learner as Learning, Preprocessing, RowLength};

use crate::arrays::matrix;
use crate::error::{from_command, from_library};
use crate::fit::{checked, dataset, describe, history, options};
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
    row_length: Option<RowLength>,
}

#[pymethods]
impl Learner {
    /// Begins with the first rows, which it does not yet learn from; `state` goes on where another learner stood, `model`
    /// from its weights.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
    #[pyo3(signature = (x, truth, label_names, label_vectors, keywords, kind, row_length=None, state=None, model=None))]
    fn new<'py>(
        x: &Bound<'py, PyAny>,
        truth: Arrays<'py>,
        label_names: Vec<String>,
        label_vectors: Option<&Bound<'py, PyAny>>,
        keywords: &Bound<'py, PyDict>,
        kind: (String, bool),
        row_length: Option<f64>,
        state: Option<&[u8]>,
        model: Option<&Bound<'py, Model>>,
    ) -> PyResult<Self> {
        let options = options(keywords)?;
        let vectors = label_vectors.map(|vectors| matrix(vectors, "label_vectors")).transpose()?;
        let row_length = checked(row_length)?;
        let rows = scaled(x, label_names.len(), &truth, row_length)?;
        let settings = options.settings().map_err(from_command)?;
        let trained = run(x.py(), |_| options.trained(&rows, vectors.as_ref()))?.map_err(from_command)?;
        let mut about = About { training: Some(settings.clone()), ..trained.about };
        describe(&mut about, kind);
        let features = rows.features().columns();
        let mut learning =
            Learning::new(features, trained.objective, settings).map_err(|error| from_library("", error))?;
        if let Some(known) = model.map(|model| model.get().model.preprocessing.row_length)
            && known != row_length
        {
            let shown =
                |length: Option<RowLength>| length.map_or("None".to_owned(), |length| length.to_string());
            let (known, found) = (shown(known), shown(row_length));
            let message = format!("row_length must be that of the fitted model, {known}, but is {found}");
            return Err(PyValueError::new_err(message));
        }
        if let Some(state) = state {
            learning.restore(state).map_err(|error| from_library("", error))?;
        } else if let Some(model) = model {
            learning.start_from(&model.get().model).map_err(|error| from_library("X", error))?;
        }
        Ok(Self { learning, label_names, about, vectors, row_length })
    }

    /// One pass over some rows.
    fn learn<'py>(&mut self, x: &Bound<'py, PyAny>, truth: Arrays<'py>) -> PyResult<()> {
        let rows = scaled(x, self.label_names.len(), &truth, self.row_length)?;
        let learnt = run(x.py(), |interrupt| self.learning.learn(&rows, interrupt))?;
        learnt.map_err(|error| from_library("X", error))?;
        self.choose_threshold(x.py(), &rows)
    }

    /// Slopes in weights and then biases, summed over some rows, and the losses, summed.
    fn gradient<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        truth: Arrays<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, f64)> {
        let rows = scaled(x, self.label_names.len(), &truth, self.row_length)?;
        let found = run(x.py(), |_| self.learning.gradient(&rows))?;
        let Gradient { mut weights, bias, loss, .. } = found.map_err(|error| from_library("X", error))?;
        weights.extend(bias);
        Ok((weights.into_pyarray(x.py()), loss))
    }

    /// One step with the slopes of so many rows.
    fn step(&mut self, slopes: &Bound<'_, PyArray1<f32>>, rows: usize) -> PyResult<()> {
        let mut weights = slopes.readonly().as_array().to_vec();
        let count = self.learning.weight_count();
        let bias = if count <= weights.len() { weights.split_off(count) } else { Vec::new() };
        let gradient = Gradient { weights, bias, loss: 0.0, rows };
        run(slopes.py(), |_| self.learning.step(&gradient))?.map_err(|error| from_library("X", error))
    }

    /// Ends a pass that was made step by step.
    fn end_pass(&mut self, loss: f64, seconds: f64) {
        self.learning.end_pass(loss, seconds);
    }

    /// Chooses by some rows from which probability on a label counts, where rows may have several.
    fn settle<'py>(&mut self, x: &Bound<'py, PyAny>, truth: Arrays<'py>) -> PyResult<()> {
        let rows = scaled(x, self.label_names.len(), &truth, self.row_length)?;
        self.choose_threshold(x.py(), &rows)
    }

    /// The model as it stands.
    fn model(&self) -> PyResult<Model> {
        let mut model =
            self.learning.model(self.label_names.clone()).map_err(|error| from_library("", error))?;
        let epochs = self.learning.history().len();
        model.label_vectors.clone_from(&self.vectors);
        model.preprocessing.row_length = self.row_length;
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

/// Rows of the length that the model scales them to, with their true labels.
fn scaled(
    x: &Bound<'_, PyAny>,
    labels: usize,
    truth: &Arrays<'_>,
    row_length: Option<RowLength>,
) -> PyResult<Dataset> {
    let mut rows = dataset(x, labels, truth)?;
    let preprocessing = Preprocessing { row_length, ..Preprocessing::default() };
    rows.preprocess(&preprocessing).map_err(|error| from_library("X", error))?;
    Ok(rows)
}

impl Learner {
    fn choose_threshold(&mut self, py: Python<'_>, rows: &Dataset) -> PyResult<()> {
        if self.about.threshold.is_some() {
            let model = self.model()?.model;
            let found = run(py, |_| rot_cli::answer_threshold(&model, rows))?.map_err(from_command)?;
            self.about.threshold = found.or(self.about.threshold);
        }
        Ok(())
    }
}
