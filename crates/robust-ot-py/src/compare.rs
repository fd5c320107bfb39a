//! Comparisons of two tables.

use std::collections::HashMap;
use std::path::Path;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use robust_ot::{Error, MetricSet};
use robust_ot_learn::Scale;
use robust_ot_learn::compare::{
    CompareSettings, Comparison, Design, GroupBy, Loaded, Statistic, TableChoice, compare as compare_samples,
    compare_within, load,
};
use robust_ot_learn::data::{Cells, MixedColumn, MixedTable};
use serde_json::Value;

use crate::arrays::vector;
use crate::error::from_library;
use crate::metric::argument;
use crate::threads::run;

/// A table from (name, values) for each column: numbers as an array, text as a list of str or None.
fn table(columns: &Bound<'_, PyList>, has_header: bool) -> PyResult<MixedTable> {
    let mut table = MixedTable { columns: Vec::new(), rows: 0, has_header, has_index: false };
    for column in columns {
        let (name, values): (String, Bound<'_, PyAny>) = column.extract()?;
        let cells = if values.cast::<PyArray1<f64>>().is_ok() {
            let numbers = vector(&values, &name)?;
            table.rows = numbers.len();
            if numbers.iter().all(|x| x.is_nan()) {
                Cells::Missing(numbers.len())
            } else {
                Cells::Numbers(numbers.to_vec())
            }
        } else {
            let texts: Vec<Option<String>> = values.extract()?;
            table.rows = texts.len();
            if texts.iter().all(Option::is_none) { Cells::Missing(texts.len()) } else { Cells::Text(texts) }
        };
        table.columns.push(MixedColumn { name, cells });
    }
    Ok(table)
}

/// The arguments that choose rows and columns, as the tuple (columns, drop, missing, `group_by`, design, `design_column`).
fn choice(arguments: &Bound<'_, PyTuple>) -> PyResult<TableChoice> {
    let item = |at: usize| arguments.get_item(at);
    let gaps: String = argument(&item(2)?, "missing", "error, drop-rows or drop-columns")?;
    let group_by = match item(3)? {
        none if none.is_none() => GroupBy::None,
        rule => match rule.extract::<String>() {
            Ok(rule) => rule.parse().map_err(|error| from_library("", error))?,
            Err(_) => GroupBy::Map(argument::<HashMap<String, String>>(
                &rule,
                "group_by",
                "'prefix', a regular expression or a dict from column to group",
            )?),
        },
    };
    let (design, column): (String, Option<String>) = (item(4)?.extract()?, item(5)?.extract()?);
    let column = column.unwrap_or_default();
    Ok(TableChoice {
        columns: argument(&item(0)?, "columns", "a list of patterns")?,
        drop: argument(&item(1)?, "drop", "a list of patterns")?,
        gaps: gaps.parse().map_err(|error| from_library("", error))?,
        group_by,
        design: match design.as_str() {
            "pairs" => Design::Pairs,
            "by" => Design::By(column),
            "strata" => Design::Strata(column),
            "blocks" => Design::Blocks(column),
            _ => Design::Free,
        },
    })
}

/// The arguments of the test, as the tuple (metric, permutations, alpha, scale, `max_rows`, seed).
fn settings(arguments: &Bound<'_, PyTuple>) -> PyResult<CompareSettings> {
    let item = |at: usize| arguments.get_item(at);
    let whole = "a whole number that is not negative";
    let metric: Option<String> =
        argument(&item(0)?, "metric", "None or a metric set such as 'p' or 'srw:k=2'")?;
    let statistic = match metric {
        None => Statistic::Family,
        Some(set) => {
            let set: Result<MetricSet, Error> = set.parse();
            Statistic::Distance(set.map_err(|error| from_library("", error))?)
        }
    };
    let scale: String = argument(&item(3)?, "scale", "'none', 'std' or 'robust'")?;
    let settings = CompareSettings {
        statistic,
        permutations: argument(&item(1)?, "permutations", whole)?,
        alpha: argument(&item(2)?, "alpha", "a number")?,
        scale: scale.parse::<Scale>().map_err(|error| from_library("", error))?,
        max_rows: argument(&item(4)?, "max_rows", whole)?,
        seed: argument(&item(5)?, "seed", whole)?,
        ..CompareSettings::default()
    };
    settings.check().map_err(|error| from_library("", error))?;
    Ok(settings)
}

/// Compares two tables, each given as (columns, whether their names mean something). Returns what was found as a dict.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    before: (Bound<'py, PyList>, bool),
    after: (Bound<'py, PyList>, bool),
    choice_arguments: &Bound<'py, PyTuple>,
    test_arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let (choice, settings) = (choice(choice_arguments)?, settings(test_arguments)?);
    let (before, after) = (table(&before.0, before.1)?, table(&after.0, after.1)?);
    let places = (Path::new("before"), Path::new("after"));
    let loaded = load((places.0, &before), (places.1, &after), &choice);
    let Loaded { samples, exchange, by, left_out, missing_rows, .. } =
        loaded.map_err(|error| from_library("", error))?;
    let found = run(py, |interrupt| {
        if let Some(values) = &by {
            compare_within(&samples, values, &settings, interrupt, &|_| ())
        } else {
            let settings = CompareSettings { exchange, ..settings };
            let found = compare_samples(&samples, &settings, interrupt, &|_| ())?;
            Ok(found.map(|found| (found, Vec::new())))
        }
    })?;
    let found = found.map_err(|error| from_library("", error))?;
    let (found, within) = found.expect("an interrupt raises KeyboardInterrupt before this");
    let object = described(py, &found)?;
    let left_out: Vec<(String, String)> = left_out;
    object.set_item("left_out_columns", left_out)?;
    object.set_item("missing_rows", missing_rows.map(|rows| rows.len()))?;
    let list = PyList::empty(py);
    for one in within {
        let inner = match &one.comparison {
            None => PyDict::new(py),
            Some((found, adjusted)) => {
                let inner = described(py, found)?;
                inner.set_item("adjusted_p_value", adjusted)?;
                inner
            }
        };
        inner.set_item("value", one.value)?;
        inner.set_item("rows_given", one.rows)?;
        list.append(inner)?;
    }
    object.set_item("within", list)?;
    Ok(object.into_any())
}

/// A comparison as a dict, with the statistics of all arrangements.
fn described<'py>(py: Python<'py>, found: &Comparison) -> PyResult<Bound<'py, PyDict>> {
    let value = serde_json::to_value(found)
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    let object = to_python(py, &value)?.cast_into::<PyDict>()?;
    let arrangements = PyDict::new(py);
    for part in &found.parts {
        arrangements.set_item(part.name, PyArray1::from_slice(py, &part.arrangements))?;
    }
    object.set_item("arrangements", arrangements)?;
    Ok(object)
}

/// A tree of values as Python objects.
fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => whole.into_pyobject(py)?.into_any(),
            None => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(list) => {
            let items = list.iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Object(map) => {
            let object = PyDict::new(py);
            for (key, value) in map {
                object.set_item(key, to_python(py, value)?)?;
            }
            object.into_any()
        }
    })
}
