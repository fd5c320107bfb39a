//! Training as `rot train` does it.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use robust_ot_learn::{About, Dataset, Epoch, RowLength, Trainer};
use rot_cli::{Columns, Failure, FitOptions, Fitted, Preparation, Samples, Watch};

use crate::arrays::{features, matrix};
use crate::error::{from_command, from_library};
use crate::model::Model;
use crate::targets::{Arrays, targets};
use crate::threads::run;

/// Model, history, and what the user should hear of.
type Found<'py> = (Model, Bound<'py, PyList>, Vec<String>);

/// Options of the command from keywords: `mix_ot=5.0` is `--mix-ot=5.0`; None is an option that is not given.
pub fn options(keywords: &Bound<'_, PyDict>) -> PyResult<FitOptions> {
    let mut words = Vec::new();
    for (name, value) in keywords {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        let name = if name == "lam" { "lambda".to_owned() } else { name.replace('_', "-") };
        let value = match value.extract::<bool>() {
            Ok(value) if name == "bias" => if value { "yes" } else { "no" }.to_owned(),
            _ => value.str()?.to_string(),
        };
        words.push(format!("--{name}={value}"));
    }
    FitOptions::parse(words).map_err(from_command)
}

/// The length that rows are scaled to.
pub fn checked(row_length: Option<f64>) -> PyResult<Option<RowLength>> {
    row_length.map(RowLength::new).transpose().map_err(|error| from_library("", error))
}

/// Rows with their true labels.
pub fn dataset(x: &Bound<'_, PyAny>, labels: usize, truth: &Arrays<'_>) -> PyResult<Dataset> {
    Dataset::new(features(x)?, targets(labels, truth)?).map_err(|error| from_library("X", error))
}

/// Epochs as dictionaries.
pub fn history<'py>(py: Python<'py>, epochs: &[Epoch]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for epoch in epochs {
        let one = PyDict::new(py);
        one.set_item("epoch", epoch.epoch)?;
        one.set_item("loss", epoch.loss)?;
        one.set_item("seconds", epoch.seconds)?;
        if let Some(auc) = epoch.validation_auc {
            one.set_item("validation_auc", auc)?;
        }
        list.append(one)?;
    }
    Ok(list)
}

/// Tells a Python function of every epoch.
struct Telling {
    told: Option<Py<PyAny>>,
    failed: Option<PyErr>,
}

impl Watch for Telling {
    fn epoch(&mut self, _trainer: &mut Trainer, epoch: &Epoch, epochs: usize) -> Result<(), Failure> {
        let Some(told) = &self.told else { return Ok(()) };
        let said =
            Python::attach(|py| told.call1(py, (epoch.epoch, epochs, epoch.loss, epoch.validation_auc)));
        said.map(|_| ()).map_err(|error| {
            let message = error.to_string();
            self.failed = Some(error);
            Failure::Other(message)
        })
    }
}

/// Train a linear model.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
#[pyo3(signature = (x, truth, label_names, label_vectors, keywords, standardize, row_length, told, kind))]
pub fn fit<'py>(
    x: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    label_names: Vec<String>,
    label_vectors: Option<&Bound<'py, PyAny>>,
    keywords: &Bound<'py, PyDict>,
    standardize: bool,
    row_length: Option<f64>,
    told: Option<Py<PyAny>>,
    kind: (String, bool),
) -> PyResult<Found<'py>> {
    let py = x.py();
    let options = options(keywords)?;
    let label_vectors = label_vectors.map(|vectors| matrix(vectors, "label_vectors")).transpose()?;
    let samples = Samples {
        train: dataset(x, label_names.len(), &truth)?,
        validation: None,
        test: None,
        label_names,
        label_vectors,
        dropped_labels: Vec::new(),
        first_index: None,
    };
    let columns = if standardize { Columns::Standardize } else { Columns::AsTheyAre };
    let preparation = Preparation { columns, row_length: checked(row_length)? };
    let mut telling = Telling { told, failed: None };
    let found = run(py, |interrupt| options.fit(samples, preparation, interrupt, &mut telling))?;
    if let Some(error) = telling.failed {
        return Err(error);
    }
    let Fitted { mut model, history: epochs, notes } = found.map_err(from_command)?;
    describe(&mut model.about, kind);
    Ok((Model { model }, history(py, &epochs)?, notes))
}

/// What numpy has the labels as, and whether rows may have several.
pub fn describe(about: &mut About, (label_kind, several): (String, bool)) {
    about.label_kind = label_kind;
    if several {
        // Of rows that all had one label, only the best one is an answer.
        about.threshold.get_or_insert(1.0);
    }
}
