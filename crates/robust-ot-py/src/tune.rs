//! Tuning as `rot tune` does it.

use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use robust_ot_learn::{Criterion, Fitted, Trial, TuneEvent, Tuned, Tuning};
use serde_json::Value;

use crate::error::from_library;
use crate::fit::{describe, history, samples};
use crate::fit_settings::fit_settings;
use crate::model::Model;
use crate::targets::Arrays;
use crate::threads::run;

/// Model, history, trials, options of the winner, seconds in all and in fits, notes.
type Found<'py> =
    (Model, Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyDict>, (f64, f64), Vec<String>);

/// Tune a model within a time budget.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python passes them one by one")]
pub fn tune<'py>(
    x: &Bound<'py, PyAny>,
    truth: Arrays<'py>,
    label_names: Vec<String>,
    label_vectors: Option<&Bound<'py, PyAny>>,
    keywords: &Bound<'py, PyDict>,
    budget_and_select: (f64, String),
    on_trial: Option<Py<PyAny>>,
    kind: (String, bool),
    weights: Option<Vec<f32>>,
) -> PyResult<Found<'py>> {
    let (py, (budget, select)) = (x.py(), budget_and_select);
    let select: Criterion = select.parse().map_err(|error| from_library("", error))?;
    let budget = Duration::try_from_secs_f64(budget).ok().filter(|budget| !budget.is_zero());
    let budget = budget.ok_or_else(|| PyValueError::new_err("budget must be positive and finite"))?;
    let tuning = Tuning::new(fit_settings(keywords)?, budget, select);
    let mut samples = samples(x, &truth, label_names, label_vectors)?;
    if let Some(weights) = weights {
        samples.train = samples.train.with_weights(weights).map_err(|error| from_library("", error))?;
    }
    let mut raised = None;
    let tuned = run(py, |interrupt| {
        tuning.run(samples, interrupt, &mut |event| {
            let (TuneEvent::Scored(trial), Some(call)) = (event, &on_trial) else { return };
            let told = Python::attach(|py| call.call1(py, (of_trial(py, trial)?,)).map(|_| ()));
            if let Err(error) = told {
                interrupt.raise();
                raised.get_or_insert(error);
            }
        })
    })?;
    if let Some(error) = raised {
        return Err(error);
    }
    let tuned = tuned.map_err(|error| from_library("", error))?;
    let Some(Tuned { fitted, trials, options, seconds, fitting_seconds, .. }) = tuned else {
        return Err(PyKeyboardInterrupt::new_err(()));
    };
    let Fitted { mut model, history: epochs, notes } = fitted;
    describe(&mut model.about, kind);
    let found = PyList::empty(py);
    trials.iter().try_for_each(|trial| found.append(of_trial(py, trial)?))?;
    let chosen = PyDict::new(py);
    for (name, value) in options {
        let name = name.replace('-', "_");
        match value {
            Value::Bool(flag) => chosen.set_item(name, flag)?,
            Value::String(text) => chosen.set_item(name, text)?,
            Value::Number(number) => match number.as_u64() {
                Some(count) => chosen.set_item(name, count)?,
                None => chosen.set_item(name, number.as_f64())?,
            },
            other => chosen.set_item(name, other.to_string())?,
        }
    }
    Ok((Model { model }, history(py, &epochs)?, found, chosen, (seconds, fitting_seconds), notes))
}

fn of_trial<'py>(py: Python<'py>, trial: &Trial) -> PyResult<Bound<'py, PyDict>> {
    let one = PyDict::new(py);
    one.set_item("candidate", trial.candidate.to_string())?;
    one.set_item("auc", trial.scores.auc)?;
    one.set_item("map", trial.scores.map)?;
    one.set_item("precision_at_1", trial.scores.precision_at_1)?;
    one.set_item("semantic_cost", trial.scores.semantic_cost)?;
    one.set_item("epochs", trial.epochs)?;
    one.set_item("best_epoch", trial.best_epoch)?;
    one.set_item("seconds", trial.seconds)?;
    Ok(one)
}
