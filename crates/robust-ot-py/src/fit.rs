//! Fitting as `rot train` does it.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use robust_ot::Error;
use robust_ot::solve::Interrupt;
use robust_ot_cuda::{DeviceChoice, FitDevice, Precision};
use robust_ot_learn::{
    About, Dataset, Epoch, FitEvent, FitRun, FitSettings, Fitted, FullFit, Method, Samples, Tried,
};

use crate::arrays::{features, matrix};
use crate::device::kernel_cache;
use crate::error::from_library;
use crate::fit_settings::{fit_device, fit_settings};
use crate::model::Model;
use crate::targets::{Arrays, targets};
use crate::threads::run;

/// Model, history, and notes for the user.
type Found<'py> = (Model, Bound<'py, PyList>, Vec<String>);

/// Rows with their true labels.
pub fn dataset(x: &Bound<'_, PyAny>, labels: usize, truth: &Arrays<'_>) -> PyResult<Dataset> {
    Dataset::new(features(x)?, targets(labels, truth, "y")?).map_err(|error| from_library("X", error))
}

/// Rows, labels and label vectors.
pub fn samples<'py>(
    x: &Bound<'py, PyAny>,
    truth: &Arrays<'py>,
    label_names: Vec<String>,
    label_vectors: Option<&Bound<'py, PyAny>>,
) -> PyResult<Samples> {
    let label_vectors = label_vectors.map(|vectors| matrix(vectors, "label_vectors")).transpose()?;
    let train = dataset(x, label_names.len(), truth)?;
    Ok(Samples { label_vectors, ..Samples::new(train, label_names) })
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
        if let Some(score) = epoch.validation_score {
            one.set_item("validation_score", score)?;
        }
        list.append(one)?;
    }
    Ok(list)
}

/// Why a fit ended without a model.
enum Stopped {
    Refused(Error),
    Raised(PyErr),
    Interrupted,
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Stopped> for PyErr {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Refused(error) => from_library("", error),
            Stopped::Raised(error) => error,
            Stopped::Interrupted => PyKeyboardInterrupt::new_err(()),
        }
    }
}

/// Fit a linear model.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
#[pyo3(signature = (x, truth, label_names, label_vectors, keywords, on_epoch, on_candidate, kind, weights=None))]
pub fn fit<'py>(
    x: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    label_names: Vec<String>,
    label_vectors: Option<&Bound<'py, PyAny>>,
    keywords: &Bound<'py, PyDict>,
    on_epoch: Option<Py<PyAny>>,
    on_candidate: Option<Py<PyAny>>,
    kind: (String, bool),
    weights: Option<Vec<f32>>,
) -> PyResult<Found<'py>> {
    let (settings, device) = (fit_settings(keywords)?, fit_device(keywords)?);
    let mut samples = samples(x, &truth, label_names, label_vectors)?;
    if let Some(weights) = weights {
        samples.train = samples.train.with_weights(weights).map_err(|error| from_library("", error))?;
    }
    let (method, note) = settings.method_for(&samples.train);
    let fitted = run(x.py(), |interrupt| match method {
        Method::FullBatch => {
            fitted_at_once(&settings, samples, (on_epoch.as_ref(), on_candidate.as_ref()), interrupt)
        }
        Method::Stochastic => fitted(&settings, device, samples, on_epoch.as_ref(), interrupt),
    })?;
    let Fitted { mut model, history: epochs, mut notes } = fitted?;
    notes.extend(note);
    describe(&mut model.about, kind);
    Ok((Model { model }, history(x.py(), &epochs)?, notes))
}

fn fitted_at_once(
    settings: &FitSettings,
    samples: Samples,
    (on_epoch, on_candidate): (Option<&Py<PyAny>>, Option<&Py<PyAny>>),
    interrupt: &Interrupt,
) -> Result<Fitted, Stopped> {
    let mut raised = None;
    let mut tell = |event: FitEvent| {
        let told = Python::attach(|py| match (event, on_epoch, on_candidate) {
            (FitEvent::Iteration(epoch), Some(call), _) => {
                call.call1(py, (epoch.epoch, None::<usize>, epoch.loss, None::<f64>)).map(|_| ())
            }
            (FitEvent::Tried(tried), _, Some(call)) => {
                let Tried { loss, prior, l2, auc, map, precision_at_1, .. } = tried;
                let scores = (*auc, *map, *precision_at_1);
                call.call1(py, (loss.as_str(), prior.geometry.name(), *l2, scores)).map(|_| ())
            }
            _ => Ok(()),
        });
        if let Err(error) = told {
            interrupt.raise();
            raised.get_or_insert(error);
        }
    };
    let fitted = FullFit::new(settings, samples)?.run(interrupt, &mut tell)?;
    match (fitted, raised) {
        (_, Some(error)) => Err(Stopped::Raised(error)),
        (Some(fitted), None) if !fitted.model.about.interrupted => Ok(fitted),
        (_, None) => Err(Stopped::Interrupted),
    }
}

fn fitted(
    settings: &FitSettings,
    (choice, precision): (DeviceChoice, Precision),
    samples: Samples,
    on_epoch: Option<&Py<PyAny>>,
    interrupt: &Interrupt,
) -> Result<Fitted, Stopped> {
    let run = FitRun::new(settings, samples)?;
    let mut device = FitDevice::open(&run, choice, precision, kernel_cache().as_deref())?;
    let mut trainer = device.trainer(&run)?;
    let epochs = run.settings().epochs;
    while let Some(epoch) = trainer.epoch(interrupt, |_, _| ())? {
        if let Some(call) = on_epoch {
            let arguments = (epoch.epoch, Some(epochs), epoch.loss, epoch.validation_auc);
            Python::attach(|py| call.call1(py, arguments)).map_err(Stopped::Raised)?;
        }
    }
    if !trainer.finished() {
        return Err(Stopped::Interrupted);
    }
    Ok(device.finish(&run, trainer)?)
}

/// Records the numpy type of the labels, and whether rows may have several.
pub fn describe(about: &mut About, (label_kind, several): (String, bool)) {
    about.label_kind = label_kind;
    if several {
        // If every training row had one label, only the most probable label is predicted.
        about.threshold.get_or_insert(1.0);
    }
}
