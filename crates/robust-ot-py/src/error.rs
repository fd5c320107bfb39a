//! The one place where Rust errors become Python exceptions.

use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
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
        "sinkhorn" => "sinkhorn_iterations",
        "tol_gap_rel" => "tol",
        other => other,
    }
}
