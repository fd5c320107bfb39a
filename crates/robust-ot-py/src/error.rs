//! The one place where Rust errors become Python exceptions, and notes become warnings.

use std::ffi::CString;

use pyo3::exceptions::{PyRuntimeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use robust_ot::Error;

/// Converts an error of the library; `argument` is the argument it concerns, or empty.
pub fn from_library(argument: &str, error: Error) -> PyErr {
    match error {
        Error::Io { path, source } => {
            let (kind, code) = (source.kind(), source.raw_os_error());
            match code {
                // As Python's own open() raises it: FileNotFoundError and the like, with the file name.
                Some(code) => {
                    PyErr::new::<pyo3::exceptions::PyOSError, _>((code, source_text(&source), path))
                }
                None => std::io::Error::new(kind, format!("{}: {source}", path.display())).into(),
            }
        }
        Error::Parameter { name, rule, value } => {
            PyValueError::new_err(format!("{} must be {rule}, but is {value}", keyword_of(name)))
        }
        Error::Conflict { name, rule, found } => {
            PyValueError::new_err(format!("{} must {rule}, but {found}", keyword_of(name)))
        }
        Error::Prior { rule, found } => PyValueError::new_err(format!("prior must be {rule}, but {found}")),
        Error::Grouping { rule, found } => {
            PyValueError::new_err(format!("grouping must {rule}, but {found}"))
        }
        error @ (Error::Overflow { .. } | Error::Scaling { .. }) => {
            PyValueError::new_err(format!("lam: {error}"))
        }
        error @ (Error::Eigen { .. } | Error::Diverged { .. } | Error::Device { .. }) => {
            PyRuntimeError::new_err(error.to_string())
        }
        other if argument.is_empty() => PyValueError::new_err(other.to_string()),
        other => PyValueError::new_err(format!("{argument}: {other}")),
    }
}

/// Warns at the line that called the function of this package in Python.
pub fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let message = CString::new(message.replace('\0', ""))?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 2)
}

/// The system's message without "(os error 2)", which Python puts before them.
fn source_text(source: &std::io::Error) -> String {
    let text = source.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The keyword that sets a field of the library's settings.
fn keyword_of(field: &str) -> &str {
    match field {
        "frank_wolfe" => "fw_iterations",
        "lambda" => "lam",
        "learning_rate" => "lr",
        "max_iterations" => "max_iter",
        "step_rule" => "solver",
        "sample_weights" => "sample_weight",
        "sinkhorn" => "sinkhorn_iterations",
        "tol_gap_rel" => "tol",
        other => other,
    }
}
