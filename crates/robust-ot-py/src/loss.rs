//! The robust loss between predictions and true labels.

use std::sync::OnceLock;

use ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use robust_ot::Grouping;
use robust_ot::loss::{LossSettings, RobustLoss as Loss};

use crate::arrays::{Matrix, matrix};
use crate::error::from_library;
use crate::metric::{MetricArguments, argument};
use crate::targets::{Arrays, targets};
use crate::threads::run;

/// One loss, for predictions of either precision; each is built when it is first needed.
#[pyclass(frozen, module = "robust_ot._core")]
pub struct RobustLoss {
    vectors: Array2<f64>,
    grouping: Grouping,
    settings: LossSettings,
    single: OnceLock<Loss<f32>>,
    double: OnceLock<Loss<f64>>,
}

impl RobustLoss {
    /// The loss in single precision.
    pub(crate) fn single(&self) -> PyResult<&Loss<f32>> {
        get_or_build(&self.single, || Loss::new(&self.vectors, &self.grouping, self.settings.clone()))
    }

    /// The loss in double precision.
    pub(crate) fn double(&self) -> PyResult<&Loss<f64>> {
        get_or_build(&self.double, || Loss::new(&self.vectors, &self.grouping, self.settings.clone()))
    }
}

fn get_or_build<T>(cell: &OnceLock<T>, build: impl FnOnce() -> robust_ot::Result<T>) -> PyResult<&T> {
    if let Some(built) = cell.get() {
        return Ok(built);
    }
    let built = build().map_err(|error| from_library("label_vectors", error))?;
    // Another thread may have been faster; both built the same.
    Ok(cell.get_or_init(|| built))
}

/// Plan, metric, loss and its error of every row.
type Explained<'py> = Vec<(Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, f64, f64)>;

#[pymethods]
impl RobustLoss {
    /// Takes label vectors, the tuple of a metric, and (entropy, `oracle_entropy`, `fw_iterations`, `sinkhorn_iterations`,
    /// tolerance). `double` selects the precision that is built at once.
    #[new]
    fn new<'py>(
        py: Python<'py>,
        vectors: &Bound<'py, PyAny>,
        metric: &Bound<'py, PyTuple>,
        settings: &Bound<'py, PyTuple>,
        double: bool,
    ) -> PyResult<Self> {
        let vectors = matrix(vectors, "label_vectors")?;
        let metric = MetricArguments::new(metric)?;
        let grouping = metric.grouping(vectors.ncols())?;
        let item = |at: usize| settings.get_item(at);
        let settings = LossSettings {
            set: metric.set()?,
            entropy: argument(&item(0)?, "entropy", "a positive number")?,
            oracle_entropy: argument(&item(1)?, "oracle_entropy", "a positive number, or None")?,
            ..LossSettings::default()
        };
        let settings = settings.with_iterations(
            argument(&item(2)?, "fw_iterations", "a whole number of at least 1, or None")?,
            argument(&item(3)?, "sinkhorn_iterations", "a whole number of at least 1, or None")?,
            argument(&item(4)?, "tolerance", "a number that is not negative, or None")?,
        );
        let loss = Self { vectors, grouping, settings, single: OnceLock::new(), double: OnceLock::new() };
        // Bad vectors are refused here, not by the first batch.
        run(py, |_| if double { loss.double().map(|_| ()) } else { loss.single().map(|_| ()) })??;
        Ok(loss)
    }

    /// Number of labels.
    #[getter]
    fn labels(&self) -> usize {
        self.vectors.nrows()
    }

    /// Whether rows of several labels take more than one Frank-Wolfe iteration, which only the CPU does.
    #[getter]
    fn iterates(&self) -> bool {
        self.settings.frank_wolfe > 1
    }

    /// Losses, and gradients along the simplex, for logarithms of predictions.
    fn loss_gradient<'py>(
        &self,
        py: Python<'py>,
        log_predictions: &Bound<'py, PyAny>,
        truth: Arrays<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyAny>)> {
        let truth = targets(self.labels(), &truth, "targets")?;
        match Matrix::new(log_predictions, "predictions")? {
            Matrix::Single(logs) => {
                let logs = logs.as_array();
                let single = run(py, |_| self.single())??;
                let found = run(py, |interrupt| single.loss_gradient_until(logs, &truth, interrupt))?;
                let found = found.map_err(|error| from_library("predictions", error))?;
                Ok((found.losses.into_pyarray(py), found.gradients.into_pyarray(py).into_any()))
            }
            Matrix::Double(logs) => {
                let logs = logs.as_array();
                let double = run(py, |_| self.double())??;
                let found = run(py, |interrupt| double.loss_gradient_until(logs, &truth, interrupt))?;
                let found = found.map_err(|error| from_library("predictions", error))?;
                Ok((found.losses.into_pyarray(py), found.gradients.into_pyarray(py).into_any()))
            }
        }
    }

    /// Plan, metric and loss of every row.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        log_predictions: PyReadonlyArray2<'py, f64>,
        truth: Arrays<'py>,
    ) -> PyResult<Explained<'py>> {
        let truth = targets(self.labels(), &truth, "targets")?;
        let logs: Array2<f64> = log_predictions.as_array().to_owned();
        let double = run(py, |_| self.double())??;
        let found = run(py, |_| double.explain(logs.view(), &truth))?;
        let found = found.map_err(|error| from_library("predictions", error))?;
        let row = |row: robust_ot::loss::LossPlan| {
            (row.plan.into_pyarray(py), row.metric.into_pyarray(py), row.loss, row.error)
        };
        Ok(found.into_iter().map(row).collect())
    }
}
