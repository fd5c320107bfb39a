//! Plain transport with given costs.

use ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use robust_ot::transport::{CostRows, NetworkSimplex, Sinkhorn};

use crate::arrays::{Matrix, vector};
use crate::error::from_library;
use crate::threads::run;

/// Plan, source potential, target potential, whether it is optimal, pivots.
type Exact<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, bool, usize);
/// Plan, source potential, target potential, marginal error, whether it converged, iterations.
type Entropic<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64, bool, usize);

/// Exact transport between weights a and b at costs M.
#[pyfunction]
pub fn emd<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    costs: &Bound<'py, PyAny>,
) -> PyResult<Exact<'py>> {
    let py = a.py();
    let (a, b) = (vector(a, "a")?, vector(b, "b")?);
    let costs = Matrix::new(costs, "M")?;
    let solve = |costs: CostRows| {
        run(py, |interrupt| {
            let shape = costs.dim();
            let mut simplex = NetworkSimplex::new(slice(&a), slice(&b))?;
            let solution = simplex.solve(costs, interrupt)?;
            let mut plan = Array2::zeros(shape);
            solution.plan.iter().for_each(|entry| plan[[entry.row, entry.column]] += entry.mass);
            Ok((plan, solution))
        })
    };
    let solved = match &costs {
        Matrix::Double(array) => solve(array.as_array().into()),
        single @ Matrix::Single(_) => solve((&single.to_double()).into()),
    }?;
    let (plan, solution) = solved.map_err(|error| from_library("a, b, M", error))?;
    Ok((
        plan.into_pyarray(py),
        solution.source_potential.into_pyarray(py),
        solution.target_potential.into_pyarray(py),
        solution.optimal,
        solution.pivots,
    ))
}

/// Entropic transport between weights a and b at costs M.
#[pyfunction]
pub fn sinkhorn<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    costs: &Bound<'py, PyAny>,
    entropy: f64,
    tolerance: f64,
    max_iterations: usize,
) -> PyResult<Entropic<'py>> {
    let py = a.py();
    let (a, b) = (vector(a, "a")?, vector(b, "b")?);
    let costs = Matrix::new(costs, "M")?;
    let solved = match &costs {
        Matrix::Double(array) => {
            let costs = array.as_array();
            run(py, |interrupt| {
                let mut sinkhorn = Sinkhorn::<f64>::new(slice(&a), slice(&b), entropy)?;
                let report = sinkhorn.solve(costs, tolerance, max_iterations, interrupt)?;
                Ok((sinkhorn.plan(costs)?, sinkhorn.potentials(), report))
            })
        }
        Matrix::Single(array) => {
            let costs = array.as_array();
            run(py, |interrupt| {
                let mut sinkhorn = Sinkhorn::<f32>::new(slice(&a), slice(&b), entropy)?;
                let report = sinkhorn.solve(costs, tolerance, max_iterations, interrupt)?;
                Ok((sinkhorn.plan(&costs.mapv(f64::from))?, sinkhorn.potentials(), report))
            })
        }
    }?;
    let (mut plan, (f, g), report) = solved.map_err(|error| from_library("a, b, M", error))?;
    let mass = a.sum();
    plan.mapv_inplace(|entry| entry * mass);
    let plan = plan.into_pyarray(py);
    Ok((
        plan,
        f.into_pyarray(py),
        g.into_pyarray(py),
        report.marginal_error,
        report.converged,
        report.iterations,
    ))
}

fn slice(weights: &ndarray::Array1<f64>) -> &[f64] {
    weights.as_slice().expect("copied vectors are contiguous")
}
