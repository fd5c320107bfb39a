//! Plain transport with given costs.

use ndarray::{Array1, Array2, ArrayView2, CowArray, Ix2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use robust_ot::Error;
use robust_ot::transport::{NetworkSimplex, Sinkhorn, SparseCosts};

use crate::arrays::{Matrix, check_fits, vector};
use crate::error::from_library;
use crate::metric::argument;
use crate::threads::run;

/// Plan, source potential, target potential, cost, whether the plan is optimal.
type Exact<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64, bool);
/// The mass of every arc, source potential, target potential, cost, whether the plan is optimal.
type OnArcs<'py> =
    (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64, bool);
/// Plan, source potential, target potential, marginal error, whether it converged, iterations.
type Entropic<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64, bool, usize);

/// Weights and costs; costs are copied only if they are not in double precision.
struct Problem<'a> {
    a: Array1<f64>,
    b: Array1<f64>,
    costs: CowArray<'a, f64, Ix2>,
}

impl<'a> Problem<'a> {
    fn new(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, costs: &'a Matrix<'_>) -> PyResult<Self> {
        let (a, b) = (vector(a, "a")?, vector(b, "b")?);
        let costs: CowArray<f64, Ix2> = match costs {
            Matrix::Double(array) => array.as_array().into(),
            single @ Matrix::Single(_) => single.to_double().into(),
        };
        if costs.dim() != (a.len(), b.len()) {
            let (rows, columns) = costs.dim();
            return Err(PyValueError::new_err(format!(
                "M must have one row per weight of a and one column per weight of b, ({}, {}), but has shape ({rows}, {columns})",
                a.len(),
                b.len()
            )));
        }
        check_fits::<f64>(costs.len(), "the plan")?;
        Ok(Self { a, b, costs })
    }

    fn costs(&self) -> ArrayView2<'_, f64> {
        self.costs.view()
    }
}

/// Exact transport between weights a and b at costs M, with a limit of pivots.
#[pyfunction]
pub fn emd<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    costs: &Bound<'py, PyAny>,
    pivots: &Bound<'py, PyAny>,
) -> PyResult<Exact<'py>> {
    let py = a.py();
    let most = positive(pivots)?;
    let matrix = Matrix::new(costs, "M")?;
    let problem = Problem::new(a, b, &matrix)?;
    let solved = run(py, |interrupt| {
        let mut simplex = NetworkSimplex::new(slice(&problem.a), slice(&problem.b))?;
        simplex.limit_pivots(most);
        let solution = simplex.solve(problem.costs(), interrupt)?;
        let mut plan = Array2::zeros(problem.costs.dim());
        let mut cost = 0.0;
        for entry in &solution.plan {
            plan[[entry.row, entry.column]] += entry.mass;
            cost += entry.mass * problem.costs[[entry.row, entry.column]];
        }
        Ok((plan, cost, solution))
    })?;
    let (plan, cost, solution) = solved.map_err(|error| from_library("a, b, M", error))?;
    let (u, v) = (solution.source_potential.into_pyarray(py), solution.target_potential.into_pyarray(py));
    Ok((plan.into_pyarray(py), u, v, cost, solution.optimal))
}

/// Exact transport between weights a and b along allowed arcs: the compressed rows of M.
#[pyfunction]
pub fn emd_on_arcs<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    starts: PyReadonlyArray1<'py, u64>,
    columns: PyReadonlyArray1<'py, u32>,
    costs: &Bound<'py, PyAny>,
    pivots: &Bound<'py, PyAny>,
) -> PyResult<OnArcs<'py>> {
    let py = a.py();
    let most = positive(pivots)?;
    let (a, b, costs) = (vector(a, "a")?, vector(b, "b")?, vector(costs, "M")?);
    let starts = starts.as_array().iter().map(|&start| start as usize).collect();
    let columns = columns.as_array().to_vec();
    let solved = run(py, |interrupt| {
        let costs = SparseCosts::new((a.len(), b.len()), starts, columns, costs.to_vec())?;
        let mut simplex = NetworkSimplex::new(slice(&a), slice(&b))?;
        simplex.limit_pivots(most);
        let solution = simplex.solve_sparse(&costs, interrupt)?;
        let mut masses = Array1::zeros(costs.costs().len());
        let mut cost = 0.0;
        for entry in &solution.plan {
            let arc = costs.position(entry.row, entry.column).expect("plans keep to the allowed arcs");
            masses[arc] = entry.mass;
            cost += entry.mass * costs.costs()[arc];
        }
        Ok((masses, cost, solution))
    })?;
    let (masses, cost, solution) = solved.map_err(|error| from_library("a, b, M", error))?;
    let (u, v) = (solution.source_potential.into_pyarray(py), solution.target_potential.into_pyarray(py));
    Ok((masses.into_pyarray(py), u, v, cost, solution.optimal))
}

/// The limit of pivots or iterations.
fn positive(most: &Bound<'_, PyAny>) -> PyResult<usize> {
    let most: usize = argument(most, "numItermax", "a whole number of at least 1")?;
    if most == 0 {
        return Err(PyValueError::new_err("numItermax must be at least 1, but is 0"));
    }
    Ok(most)
}

/// Entropic transport between weights a and b at costs M, from potentials if they are given.
#[pyfunction]
#[pyo3(signature = (a, b, costs, reg, tolerance, iterations, start=None))]
pub fn sinkhorn<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    costs: &Bound<'py, PyAny>,
    reg: &Bound<'py, PyAny>,
    tolerance: &Bound<'py, PyAny>,
    iterations: &Bound<'py, PyAny>,
    start: Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
) -> PyResult<Entropic<'py>> {
    let py = a.py();
    let start = start.map(|(f, g)| PyResult::Ok((vector(&f, "f")?, vector(&g, "g")?))).transpose()?;
    let reg: f64 = argument(reg, "reg", "a positive number")?;
    let limit: f64 = argument(tolerance, "stopThr", "a finite number that is not negative")?;
    let most = positive(iterations)?;
    if !(limit >= 0.0 && limit.is_finite()) {
        return Err(PyValueError::new_err(format!(
            "stopThr must be finite and not negative, but is {limit}"
        )));
    }
    let matrix = Matrix::new(costs, "M")?;
    let problem = Problem::new(a, b, &matrix)?;
    let solved = run(py, |interrupt| {
        let mut sinkhorn = Sinkhorn::<f64>::new(slice(&problem.a), slice(&problem.b), reg)?;
        if let Some((f, g)) = &start {
            sinkhorn.start_at(slice(f), slice(g))?;
        }
        let report = sinkhorn.solve(problem.costs(), limit, most, interrupt)?;
        Ok((sinkhorn.plan(problem.costs())?, sinkhorn.potentials(), report))
    })?;
    let (mut plan, (f, g), report) = solved.map_err(|error| match error {
        // POT's name for the entropy.
        Error::Parameter { name: "entropy", rule, value } => {
            PyValueError::new_err(format!("reg must be {rule}, but is {value}"))
        }
        other => from_library("a, b, M", other),
    })?;
    let mass = problem.a.sum();
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

fn slice(weights: &Array1<f64>) -> &[f64] {
    weights.as_slice().expect("copied vectors are contiguous")
}
