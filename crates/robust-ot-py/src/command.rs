//! The command `rot` that the wheel ships.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Run `rot` with these arguments, program name first, and return its exit code.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| rot_cli::run(arguments))
}
