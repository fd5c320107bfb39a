//! The settings of a fit from Python keywords.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use robust_ot::Error;
use robust_ot::sets::{GroupingRule, MetricFamily, Prior};
use robust_ot_cuda::{DeviceChoice, Precision};
use robust_ot_learn::data::{read_groups, read_matrix};
use robust_ot_learn::{
    Columns, FitSettings, Geometry, LossChoice, LossName, Memory, Preparation, RowLength, TargetChoice,
    TrainingChoice,
};

use crate::error::from_library;
use crate::metric::{argument, explicit, prior};

/// The keywords of a fit; None means not given.
struct Keywords<'a, 'py>(&'a Bound<'py, PyDict>);

const NUMBER: &str = "a number";
const COUNT: &str = "a whole number that is not negative";

impl<'py> Keywords<'_, 'py> {
    fn item(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// A number, if it is given.
    fn number(&self, name: &str) -> PyResult<Option<f64>> {
        self.item(name)?.map(|value| argument(&value, name, NUMBER)).transpose()
    }

    /// A whole number, if it is given.
    fn count(&self, name: &str) -> PyResult<Option<usize>> {
        self.item(name)?.map(|value| argument(&value, name, COUNT)).transpose()
    }

    /// True or false, if it is given.
    fn flag(&self, name: &str) -> PyResult<Option<bool>> {
        self.item(name)?.map(|value| argument(&value, name, "True or False")).transpose()
    }

    /// A value that the library knows by name, if it is given.
    fn named<T: std::str::FromStr<Err = Error>>(&self, name: &'static str) -> PyResult<Option<T>> {
        let Some(value) = self.item(name)? else { return Ok(None) };
        let text: String = argument(&value, name, "a name")?;
        let refused = |error| match error {
            // Report this keyword, whichever field of the library reads such names.
            Error::Parameter { rule, value, .. } => {
                PyValueError::new_err(format!("{name} must be {rule}, but is {value}"))
            }
            other => from_library("", other),
        };
        text.parse().map(Some).map_err(refused)
    }

    fn loss(&self) -> PyResult<LossChoice> {
        let usual = LossChoice::default();
        let mut parameters = usual.parameters.clone();
        if let Some(k) = self.item("k")? {
            parameters.k = argument(&k, "k", "between 1 and 2^29")?;
        }
        parameters.rho = self.number("rho")?.unwrap_or(parameters.rho);
        parameters.lambda = self.number("lam")?.unwrap_or(parameters.lambda);
        parameters.prior = self.item("prior")?.map(|prior| read_prior(&prior)).transpose()?;
        Ok(LossChoice {
            name: self.named::<LossName>("loss")?,
            mix_ce: self.number("mix_ce")?,
            mix_ot: self.number("mix_ot")?,
            parameters,
            groups: self.count("groups")?,
            grouping: self.item("grouping")?.map(|rule| read_rule(&rule)).transpose()?,
            group_seed: None,
            entropy: self.number("entropy")?.unwrap_or(usual.entropy),
            oracle_entropy: self.number("oracle_entropy")?,
            frank_wolfe: self.count("fw_iterations")?.unwrap_or(usual.frank_wolfe),
            sinkhorn: self.count("sinkhorn_iterations")?.unwrap_or(usual.sinkhorn),
            geometry: self.named::<Geometry>("geometry")?.unwrap_or(usual.geometry),
        })
    }

    fn targets(&self) -> PyResult<TargetChoice> {
        let usual = TargetChoice::default();
        Ok(TargetChoice {
            transport: self.number("target_transport")?.unwrap_or(usual.transport),
            temperature: self.number("target_temperature")?.unwrap_or(usual.temperature),
            metric: self.named::<MetricFamily>("target_metric")?.unwrap_or(usual.metric),
            geometry: self.named::<Geometry>("target_geometry")?,
            smoothing: self.number("label_smoothing")?.unwrap_or(usual.smoothing),
        })
    }

    fn training(&self) -> PyResult<TrainingChoice> {
        Ok(TrainingChoice {
            optimizer: self.named("optimizer")?,
            momentum: self.number("momentum")?,
            learning_rate: self.number("lr")?,
            schedule: self.named("schedule")?.unwrap_or_default(),
            batch: self.count("batch")?,
            epochs: self.count("epochs")?,
            weight_decay: self.number("weight_decay")?,
            bias: self.flag("bias")?,
            start: None,
            reduction: None,
            patience: self.count("patience")?,
        })
    }

    fn preparation(&self) -> PyResult<Preparation> {
        let standardize = self.flag("standardize")?.unwrap_or(false);
        let columns = if standardize { Columns::Standardize } else { Columns::AsGiven };
        let row_length = self.number("row_length")?.map(RowLength::new).transpose();
        Ok(Preparation { columns, row_length: row_length.map_err(|error| from_library("", error))? })
    }
}

/// A prior by its name, from a file, or a matrix.
fn read_prior(given: &Bound<'_, PyAny>) -> PyResult<Prior> {
    let Ok(path) = given.extract::<PathBuf>() else { return prior(given) };
    match path.to_str() {
        Some("eye") => Ok(Prior::Eye),
        Some("ones") => Ok(Prior::Ones),
        _ => read_matrix(&path).map(Prior::Matrix).map_err(|error| from_library("prior", error)),
    }
}

/// A rule by its name, or groups from a file or an array.
fn read_rule(given: &Bound<'_, PyAny>) -> PyResult<GroupingRule> {
    let Ok(path) = given.extract::<PathBuf>() else { return explicit(given) };
    match path.to_str().and_then(|name| name.parse().ok()) {
        Some(rule) => Ok(rule),
        None => {
            read_groups(&path).map(GroupingRule::Explicit).map_err(|error| from_library("grouping", error))
        }
    }
}

/// The settings that the keywords stand for.
pub fn fit_settings(keywords: &Bound<'_, PyDict>) -> PyResult<FitSettings> {
    let keywords = Keywords(keywords);
    let seed = keywords.item("random_state")?;
    let seed = seed.map(|seed| argument(&seed, "random_state", COUNT)).transpose()?;
    let settings = FitSettings {
        loss: keywords.loss()?,
        targets: keywords.targets()?,
        training: keywords.training()?,
        preparation: keywords.preparation()?,
        validation: keywords.number("validation")?,
        protocol: None,
        seed: seed.unwrap_or_default(),
        memory: Memory::free(),
    };
    settings.check().map_err(|error| from_library("", error))?;
    Ok(settings)
}

/// The device, and the precision of matrix products on a GPU.
pub fn fit_device(keywords: &Bound<'_, PyDict>) -> PyResult<(DeviceChoice, Precision)> {
    let keywords = Keywords(keywords);
    Ok((keywords.named("device")?.unwrap_or_default(), keywords.named("precision")?.unwrap_or_default()))
}

/// The rows per step and the number of epochs of a fit to this number of rows, with none held out.
#[pyfunction]
pub fn training_schedule(keywords: &Bound<'_, PyDict>, rows: usize) -> PyResult<(usize, usize)> {
    let choice = Keywords(keywords).training()?;
    let found = choice.settings(rows, false, None, 0).map_err(|error| from_library("", error))?;
    Ok((found.batch, found.epochs))
}

/// The default number of groups for label vectors of this length.
#[pyfunction]
pub fn default_groups(metric: &str, features: usize) -> PyResult<Option<usize>> {
    let family: MetricFamily = metric.parse().map_err(|error| from_library("", error))?;
    Ok(LossChoice::default_groups(family, features))
}
