//! A robust distance, its bounds, its plan and its metric.

use ndarray::{Array1, Array2};
use numpy::{IntoPyArray, PyArray1, PyArray2, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use robust_ot::solve::Divergence;
use robust_ot::transport::PlanEntry;
use robust_ot::{Grouping, Measure};
use robust_ot_learn::{Explanation, Naming};

use crate::arrays::{check_fits, matrix, vector};
use crate::device::device_name;
use crate::distance::UnevenParts;
use crate::error::from_library;
use crate::gradient::{Gradients, arrays};
use crate::threads::run;

/// The result of a solve; `robust_ot.Solution` presents it to users.
#[pyclass(frozen, module = "robust_ot._core")]
pub struct Solution {
    #[pyo3(get)]
    value: f64,
    #[pyo3(get)]
    lower_bound: f64,
    #[pyo3(get)]
    gap: f64,
    #[pyo3(get)]
    relative_gap: f64,
    #[pyo3(get)]
    transport_cost: f64,
    #[pyo3(get)]
    unregularized_value: f64,
    #[pyo3(get)]
    offset: f64,
    #[pyo3(get)]
    excess: f64,
    #[pyo3(get)]
    excess_lower_bound: f64,
    #[pyo3(get)]
    iterations: usize,
    #[pyo3(get)]
    oracle_calls: usize,
    /// Source points × target points.
    #[pyo3(get)]
    shape: (usize, usize),
    #[pyo3(get)]
    status: String,
    metric: Array2<f64>,
    moment: Array2<f64>,
    potentials: (Array1<f64>, Array1<f64>),
    history: Vec<(usize, f64, f64)>,
    grouping: Grouping,
    /// The points that the plan is between, scaled.
    sides: [Measure; 2],
    entropic: bool,
    /// What every feature was divided by, if anything; not kept in a pickle.
    factors: Option<Array1<f64>>,
    device: String,
    /// Two features and the ratio of their spreads, if it is large; not kept in a pickle.
    #[pyo3(get)]
    uneven: UnevenParts,
    plan: Plan,
}

/// Python counts from 0.
fn named<'a>(
    features: Option<&'a [String]>,
    rows: (Option<&'a [String]>, Option<&'a [String]>),
) -> Naming<'a> {
    Naming { features, first: 0, rows }
}

fn as_dict<'py>(py: Python<'py>, found: &Explanation) -> PyResult<Bound<'py, PyDict>> {
    let (pairs, flows) = (found.pairs.iter(), found.flows.iter());
    let pairs = pairs.map(|pair| (pair.places, pair.names.clone(), pair.weight, pair.share));
    let flows = flows.map(|flow| {
        ((flow.source, flow.target), (flow.from.clone(), flow.to.clone()), flow.mass, flow.cost, flow.share)
    });
    let all = PyDict::new(py);
    all.set_item("pairs", pairs.collect::<Vec<_>>())?;
    all.set_item("flows", flows.collect::<Vec<_>>())?;
    all.set_item("notable", found.notable)?;
    all.set_item("text", found.to_string())?;
    Ok(all)
}

/// A measure from the parts of a pickle.
fn side(parts: &Bound<'_, PyAny>) -> PyResult<Measure> {
    let (points, weights): (Bound<'_, PyAny>, Bound<'_, PyAny>) = parts.extract()?;
    let (points, weights) = (matrix(&points, "points")?, vector(&weights, "weights")?);
    Measure::new(points, weights).map_err(|error| from_library("points", error))
}

/// The points and weights of a measure.
fn points_of<'py>(side: &Measure, py: Python<'py>) -> (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>) {
    (side.points().to_pyarray(py), side.weights().to_pyarray(py))
}

/// Where the plan is.
enum Plan {
    /// In the solution of the library, written out on request.
    Solved(Box<robust_ot::Solution>),
    /// That of the robust distance behind a debiased one.
    Debiased(Box<Divergence>),
    /// Written out, as restored from a pickle.
    Written(Vec<PlanEntry>),
}

/// The plan as rows, columns and masses.
type Entries<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

impl Solution {
    pub fn new(
        solved: robust_ot::Solution,
        sides: [Measure; 2],
        grouping: Grouping,
        (entropic, factors): (bool, Option<Array1<f64>>),
        device: String,
        uneven: UnevenParts,
    ) -> Self {
        Self {
            value: solved.value,
            lower_bound: solved.lower_bound,
            gap: solved.gap,
            relative_gap: solved.relative_gap,
            transport_cost: solved.transport_cost,
            unregularized_value: solved.unregularized_value,
            offset: solved.offset,
            excess: solved.excess(),
            excess_lower_bound: solved.excess_lower_bound(),
            iterations: solved.iterations,
            oracle_calls: solved.oracle_calls,
            shape: (sides[0].len(), sides[1].len()),
            status: solved.status.name().to_owned(),
            metric: solved.metric.clone(),
            moment: solved.moment.clone(),
            potentials: (solved.source_potential.clone(), solved.target_potential.clone()),
            history: solved
                .history
                .iter()
                .map(|step| (step.iteration, step.value, step.lower_bound))
                .collect(),
            grouping,
            sides,
            entropic,
            factors,
            device,
            uneven,
            plan: Plan::Solved(Box::new(solved)),
        }
    }

    /// A debiased distance: bounds and status are its own, all else is that of the robust distance behind it.
    pub fn debiased(
        found: Divergence,
        sides: [Measure; 2],
        grouping: Grouping,
        factors: Option<Array1<f64>>,
        uneven: UnevenParts,
    ) -> Self {
        let cross = found.cross.clone();
        Self {
            value: found.value,
            lower_bound: found.lower_bound,
            gap: found.gap,
            relative_gap: found.relative_gap,
            offset: 0.0,
            excess: found.value,
            excess_lower_bound: found.lower_bound,
            status: found.status.name().to_owned(),
            plan: Plan::Debiased(Box::new(found)),
            ..Self::new(cross, sides, grouping, (true, factors), device_name(None), uneven)
        }
    }

    /// The solution of the library.
    fn solved(&self, what: &str) -> PyResult<&robust_ot::Solution> {
        match &self.plan {
            Plan::Solved(solved) => Ok(solved),
            Plan::Debiased(found) => Ok(&found.cross),
            Plan::Written(_) => Err(PyValueError::new_err(format!(
                "{what} needs the points, which a pickled solution does not keep"
            ))),
        }
    }

    fn entries(&self, py: Python<'_>) -> PyResult<Vec<PlanEntry>> {
        if let Plan::Written(entries) = &self.plan {
            return Ok(entries.clone());
        }
        if self.entropic {
            // The plan is first written out in full, and every entry carries mass.
            let whole = self.shape.0.saturating_mul(self.shape.1);
            check_fits::<PlanEntry>(whole.saturating_mul(2), "the plan")?;
        }
        let solved = self.solved("the plan")?;
        run(py, |_| solved.plan())
    }
}

#[pymethods]
impl Solution {
    /// From the parts that `parts` returns.
    #[new]
    fn from_parts(parts: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let item = |at: usize| parts.get_item(at);
        let (rows, columns, masses): (Vec<usize>, Vec<usize>, Vec<f64>) = item(8)?.extract()?;
        let numbers: [f64; 9] = item(0)?.extract()?;
        let [value, lower_bound, gap, relative_gap, transport_cost, unregularized_value, ..] = numbers;
        let [.., offset, excess, excess_lower_bound] = numbers;
        let (iterations, oracle_calls, shape): (usize, usize, (usize, usize)) = item(1)?.extract()?;
        if rows.iter().any(|row| *row >= shape.0) || columns.iter().any(|column| *column >= shape.1) {
            return Err(PyValueError::new_err(
                "the entries of the plan must be within its shape, but one is not",
            ));
        }
        let entries = rows.into_iter().zip(columns).zip(masses);
        Ok(Self {
            value,
            lower_bound,
            gap,
            relative_gap,
            transport_cost,
            unregularized_value,
            offset,
            excess,
            excess_lower_bound,
            iterations,
            oracle_calls,
            shape,
            status: item(2)?.extract()?,
            metric: matrix(&item(3)?, "metric")?,
            moment: matrix(&item(4)?, "moment")?,
            potentials: {
                let (f, g): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item(5)?.extract()?;
                (vector(&f, "potentials")?, vector(&g, "potentials")?)
            },
            history: item(6)?.extract()?,
            grouping: Grouping::explicit(item(7)?.extract()?)
                .map_err(|error| from_library("groups", error))?,
            sides: [side(&item(10)?)?, side(&item(11)?)?],
            entropic: false,
            factors: None,
            device: item(9)?.extract()?,
            uneven: None,
            plan: Plan::Written(
                entries.map(|((row, column), mass)| PlanEntry { row, column, mass }).collect(),
            ),
        })
    }

    /// Everything, with the plan written out.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (
            [
                self.value,
                self.lower_bound,
                self.gap,
                self.relative_gap,
                self.transport_cost,
                self.unregularized_value,
                self.offset,
                self.excess,
                self.excess_lower_bound,
            ],
            (self.iterations, self.oracle_calls, self.shape),
            &self.status,
            self.metric.to_pyarray(py),
            self.moment.to_pyarray(py),
            (self.potentials.0.to_pyarray(py), self.potentials.1.to_pyarray(py)),
            self.history.clone(),
            self.grouping.assignment().to_vec(),
            self.sparse(py)?,
            &self.device,
            points_of(&self.sides[0], py),
            points_of(&self.sides[1], py),
        )
            .into_pyobject(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let parts = slf.get().parts(slf.py())?;
        Ok((slf.get_type().into_any(), (parts,).into_pyobject(slf.py())?))
    }

    /// The device that solved it.
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    #[getter]
    fn metric<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        self.metric.to_pyarray(py)
    }

    #[getter]
    fn moment<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        self.moment.to_pyarray(py)
    }

    #[getter]
    fn potentials<'py>(&self, py: Python<'py>) -> (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>) {
        (self.potentials.0.to_pyarray(py), self.potentials.1.to_pyarray(py))
    }

    /// (iteration, value, lower bound) after every iteration.
    #[getter]
    fn history(&self) -> Vec<(usize, f64, f64)> {
        self.history.clone()
    }

    /// The group of every feature.
    #[getter]
    fn groups(&self) -> Vec<usize> {
        self.grouping.assignment().to_vec()
    }

    /// Names for the rows of the metric.
    fn group_names(&self, features: Option<Vec<String>>) -> Vec<String> {
        named(features.as_deref(), (None, None)).groups(&self.grouping)
    }

    /// The entries of metric and plan that count most, and the same as text.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        features: Option<Vec<String>>,
        sources: Option<Vec<String>>,
        targets: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        check_fits::<f64>(self.shape.0.saturating_mul(self.shape.1), "the costs of all pairs")?;
        let plan = self.entries(py)?;
        let [source, target] = &self.sides;
        let found = run(py, |_| {
            let naming = named(features.as_deref(), (sources.as_deref(), targets.as_deref()));
            let parts = (&self.metric, &self.moment, plan);
            Explanation::new(parts, (source, target), &self.grouping, &naming, most)
        })?
        .map_err(|error| from_library("", error))?;
        as_dict(py, &found)
    }

    /// The plan, points × points.
    fn dense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        check_fits::<f64>(self.shape.0.saturating_mul(self.shape.1), "the plan")?;
        let plan = if let Plan::Written(entries) = &self.plan {
            let mut plan = Array2::zeros(self.shape);
            entries.iter().for_each(|entry| plan[[entry.row, entry.column]] += entry.mass);
            plan
        } else {
            let solved = self.solved("the plan")?;
            run(py, |_| solved.dense_plan())?
        };
        Ok(plan.into_pyarray(py))
    }

    /// The gradient in X, Y, a and b.
    fn gradient<'py>(&self, py: Python<'py>) -> PyResult<Gradients<'py>> {
        let mut gradient = if let Plan::Debiased(found) = &self.plan {
            run(py, |_| found.gradient())?
        } else {
            let solved = self.solved("gradient")?;
            run(py, |_| solved.gradient())?
        };
        if let Some(factors) = &self.factors {
            gradient.source_points /= factors;
            gradient.target_points /= factors;
        }
        Ok(arrays(py, gradient))
    }

    /// Where the plan moves the source points or, if points are given, those.
    #[pyo3(signature = (points=None))]
    fn transport<'py>(
        &self,
        py: Python<'py>,
        points: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let solved = self.solved("transport")?;
        let moved = if let Some(points) = points {
            let mut points = matrix(points, "X_new")?;
            if let Some(factors) = self.factors.as_ref().filter(|factors| factors.len() == points.ncols()) {
                points /= factors;
            }
            run(py, |_| solved.transport(&points))?.map_err(|error| from_library("X_new", error))?
        } else {
            run(py, |_| solved.images())?
        };
        let moved = match &self.factors {
            Some(factors) => moved * factors,
            None => moved,
        };
        Ok(moved.into_pyarray(py))
    }

    /// The plan as rows, columns and masses.
    fn sparse<'py>(&self, py: Python<'py>) -> PyResult<Entries<'py>> {
        let entries = self.entries(py)?;
        let indices = |pick: fn(&PlanEntry) -> usize| {
            entries.iter().map(|entry| pick(entry) as i64).collect::<Vec<_>>().into_pyarray(py)
        };
        let masses = entries.iter().map(|entry| entry.mass).collect::<Vec<_>>().into_pyarray(py);
        Ok((indices(|entry| entry.row), indices(|entry| entry.column), masses))
    }
}
