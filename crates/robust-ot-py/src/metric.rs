//! Metric sets and groups from their Python names.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use robust_ot::sets::{GroupingRule, MetricFamily, Prior, SetParameters};
use robust_ot::{Grouping, MetricSet};

use crate::arrays::{check_fits, matrix, vector};
use crate::error::from_library;

/// The arguments of every function with a metric, as the tuple (metric, k, rho, lam, prior, groups, grouping, seed).
pub struct MetricArguments<'py> {
    metric: String,
    k: u32,
    rho: f64,
    lam: f64,
    prior: Option<Bound<'py, PyAny>>,
    groups: Option<usize>,
    grouping: Bound<'py, PyAny>,
    seed: u64,
}

impl<'py> MetricArguments<'py> {
    /// Checks the types.
    pub fn new(arguments: &Bound<'py, PyTuple>) -> PyResult<Self> {
        let item = |at: usize| arguments.get_item(at);
        Ok(Self {
            metric: argument(&item(0)?, "metric", "the name of a metric set")?,
            k: argument(&item(1)?, "k", "between 1 and 2^29")?,
            rho: argument(&item(2)?, "rho", "a number of at least 1 (or inf)")?,
            lam: argument(&item(3)?, "lam", "a positive number")?,
            prior: Some(item(4)?).filter(|prior| !prior.is_none()),
            groups: argument(&item(5)?, "groups", "a whole number of at least 1, or None")?,
            grouping: item(6)?,
            seed: argument(&item(7)?, "seed", "a whole number that is not negative")?,
        })
    }

    /// The set.
    pub fn set(&self) -> PyResult<MetricSet> {
        let prior = self.prior.as_ref().map(prior).transpose()?;
        let parameters = SetParameters { k: self.k, rho: self.rho, lambda: self.lam, prior };
        self.metric
            .parse::<MetricFamily>()
            .and_then(|family| family.set(parameters))
            .map_err(|error| from_library("", error))
    }

    /// The groups of the given number of features. Refuses groups whose metric does not fit into memory.
    pub fn grouping(&self, features: usize) -> PyResult<Grouping> {
        let found = self.any_grouping(features)?;
        check_fits::<f64>(
            found.groups().saturating_mul(found.groups()),
            "the metric between groups of features",
        )?;
        Ok(found)
    }

    fn any_grouping(&self, features: usize) -> PyResult<Grouping> {
        let rule = match self.grouping.extract::<String>() {
            Ok(name) => name.parse().map_err(|_| {
                let rule = "contiguous, interleaved, random or an array with one group index per feature";
                PyValueError::new_err(format!("grouping must be {rule}, but is '{name}'"))
            })?,
            Err(_) => explicit(&self.grouping)?,
        };
        rule.group(features, self.groups, self.seed).map_err(|error| from_library("", error))
    }
}

/// The group of every feature, from an array.
pub fn explicit(indices: &Bound<'_, PyAny>) -> PyResult<GroupingRule> {
    let numbers = vector(indices, "grouping")?;
    let whole = numbers.iter().map(|&x| (x >= 0.0 && x.fract() == 0.0 && x < 1e15).then_some(x as usize));
    whole
        .collect::<Option<Vec<_>>>()
        .map(GroupingRule::Explicit)
        .ok_or_else(|| PyValueError::new_err("grouping must be whole numbers from 0 on, but one is not"))
}

/// A prior by its name, or a matrix.
pub fn prior(value: &Bound<'_, PyAny>) -> PyResult<Prior> {
    match value.extract::<String>().as_deref() {
        Ok("eye") => Ok(Prior::Eye),
        Ok("ones") => Ok(Prior::Ones),
        Ok(other) => {
            Err(PyValueError::new_err(format!("prior must be 'eye', 'ones' or a matrix, but is '{other}'")))
        }
        Err(_) => Ok(Prior::Matrix(matrix(value, "prior")?)),
    }
}

/// Converts a value to its type, or raises a `ValueError` with its name.
pub fn argument<'a, 'py, T: FromPyObject<'a, 'py>>(
    value: &'a Bound<'py, PyAny>,
    name: &str,
    rule: &str,
) -> PyResult<T> {
    value.extract().map_err(|_| {
        let shown = value.repr().map_or_else(|_| "something else".to_owned(), |shown| shown.to_string());
        PyValueError::new_err(format!("{name} must be {rule}, but is {shown}"))
    })
}
