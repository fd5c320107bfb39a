//! A trained model, in memory and in the file that `rot train` writes.

use std::path::PathBuf;

use ndarray::Array2;
use numpy::{PyArray1, PyArray2, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use robust_ot_learn::{LabelLaw, Model as Trained, Output, least_cost_labels};

use crate::arrays::{features, matrix};
use crate::dictionary::to_python;
use crate::error::{from_library, warn};
use crate::metric::argument;
use crate::model_keywords::model_keywords;
use crate::targets::{Arrays, targets};
use crate::threads::run;

/// h = softmax (or sigmoid) of X W + b, or of H W + b with a hidden layer H.
#[pyclass(frozen, module = "robust_ot._core")]
pub struct Model {
    pub model: Trained,
}

#[pymethods]
impl Model {
    /// From the bytes of a model file.
    #[new]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let model = Trained::from_bytes(bytes).map_err(|error| from_library("", error))?;
        Ok(Self { model })
    }

    /// The bytes of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.model.to_bytes().map_err(|error| from_library("", error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((slf.get_type().into_any(), (slf.get().to_bytes(slf.py())?,)))
    }

    /// Read a file that `rot train` or `save` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let (model, integrity) = Trained::load_checked(&path).map_err(|error| from_library("path", error))?;
        if let Some(note) = integrity.note() {
            warn(py, &format!("{}: {note}", path.display()))?;
        }
        Ok(Self { model })
    }

    /// Write a file that `rot predict` and `load` read.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.model.save(&path).map_err(|error| from_library("path", error))
    }

    /// Number of features.
    #[getter]
    fn features(&self) -> usize {
        self.model.features()
    }

    /// Features × labels; with a hidden layer, units × labels.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f32>> {
        self.model.weights().to_pyarray(py)
    }

    /// One number per label, if the model has a bias.
    #[getter]
    fn bias<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f32>>> {
        self.model.bias().map(|bias| bias.to_pyarray(py))
    }

    #[getter]
    fn label_names(&self) -> Vec<String> {
        self.model.label_names().to_vec()
    }

    /// The names of the features, if it has some.
    #[getter]
    fn feature_names(&self) -> Option<Vec<String>> {
        self.model.feature_names().map(<[String]>::to_vec)
    }

    /// The model with names for its features, or without.
    fn with_feature_names(&self, names: Option<Vec<String>>) -> PyResult<Self> {
        let mut model = self.model.clone();
        model.name_features(names).map_err(|error| from_library("", error))?;
        Ok(Self { model })
    }

    #[getter]
    fn label_vectors<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray2<f64>>> {
        self.model.label_vectors.as_ref().map(|vectors| vectors.to_pyarray(py))
    }

    /// The length that rows are scaled to, if any.
    #[getter]
    fn row_length(&self) -> Option<f64> {
        self.model.preprocessing.row_length.map(f64::from)
    }

    /// Whether labels share one unit of probability.
    #[getter]
    fn softmax(&self) -> bool {
        self.model.output() == Output::Softmax
    }

    /// The fraction of a row's largest probability from which a label is predicted.
    #[getter]
    fn threshold(&self) -> Option<f64> {
        self.model.about.threshold
    }

    /// How the model was trained, as a dictionary.
    #[getter]
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.model.about)
    }

    /// The keywords of a classifier that trains such a model.
    fn keywords<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        model_keywords(py, &self.model)
    }

    /// The model with more labels, which no row has.
    fn extended(&self, names: Vec<String>, vectors: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (mut model, vectors) = (self.model.clone(), matrix(vectors, "label_vectors")?);
        model.extend(names, &vectors).map_err(|error| from_library("", error))?;
        Ok(Self { model })
    }

    /// X W + b.
    fn logits<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = features(x)?;
        let found = run(py, |_| self.model.logits(rows))?.map_err(|error| from_library("X", error))?;
        Ok(found.to_pyarray(py))
    }

    /// The probability of every label.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rows = features(x)?;
        let found = run(py, |_| self.model.probabilities(rows))?.map_err(|error| from_library("X", error))?;
        Ok(found.to_pyarray(py))
    }

    /// The k labels of least expected cost of every row.
    fn least_cost<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        k: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Vec<usize>>> {
        let k: usize = argument(k, "k", "a whole number of at least 1")?;
        let Some(vectors) = &self.model.label_vectors else {
            return Err(PyValueError::new_err(
                "least_cost needs a model with label_vectors, but this one has none",
            ));
        };
        let rows = features(x)?;
        let found = run(py, |_| {
            let probabilities = self.model.probabilities(rows)?;
            least_cost_labels(probabilities.view(), vectors.view(), LabelLaw::of(&self.model), k)
        })?;
        found.map_err(|error| from_library("", error))
    }

    /// The mean worst metric between the predictions for some rows and their truths.
    fn mean_metric<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        truth: Arrays<'py>,
    ) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let rows = features(x)?;
        let truth = targets(self.model.label_names().len(), &truth, "y")?;
        let found: Option<Array2<f64>> = run(py, |_| {
            let probabilities = self.model.probabilities(rows)?;
            robust_ot_learn::mean_metric(&self.model, &probabilities, &truth)
        })?
        .map_err(|error| from_library("X", error))?;
        Ok(found.map(|metric| metric.to_pyarray(py)))
    }
}
