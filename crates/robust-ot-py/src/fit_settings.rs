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
    Columns, FitSettings, Geometry, HiddenChoice, LossChoice, Memory, Method, Preparation, PriorChoice,
    RowLength, TargetChoice, TrainingChoice,
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

    /// [`Keywords::named`], where `auto` leaves the choice to the library.
    fn unless_auto<T: std::str::FromStr<Err = Error>>(&self, name: &'static str) -> PyResult<Option<T>> {
        if self.is_auto(name)? { Ok(None) } else { self.named(name) }
    }

    fn is_auto(&self, name: &str) -> PyResult<bool> {
        let Some(value) = self.item(name)? else { return Ok(false) };
        Ok(value.extract::<&str>().is_ok_and(|text| text == "auto"))
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
            name: self.unless_auto("loss")?,
            mix_ce: self.number("mix_ce")?,
            mix_ot: self.number("mix_ot")?,
            mix_base: self.named("mix_base")?.unwrap_or_default(),
            asl_positive: self.number("asl_positive")?,
            asl_negative: self.number("asl_negative")?,
            asl_margin: self.number("asl_margin")?,
            parameters,
            groups: self.count("groups")?,
            grouping: self.item("grouping")?.map(|rule| read_rule(&rule)).transpose()?,
            group_seed: None,
            entropy: self.number("entropy")?.unwrap_or(usual.entropy),
            oracle_entropy: self.number("oracle_entropy")?,
            frank_wolfe: self.count("fw_iterations")?,
            sinkhorn: self.count("sinkhorn_iterations")?,
            tolerance: self.number("loss_tolerance")?,
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
        let lbfgs = self
            .item("optimizer")?
            .is_some_and(|name| name.extract::<&str>().is_ok_and(|name| name == "lbfgs"));
        let optimizer = if lbfgs { None } else { self.unless_auto("optimizer")? };
        // Only stochastic steps run on a GPU.
        let gpu = !self.named::<DeviceChoice>("device")?.unwrap_or_default().may_be_cpu();
        let method = match (lbfgs, optimizer.is_some() || gpu) {
            (true, _) => Some(Method::FullBatch),
            (false, true) => Some(Method::Stochastic),
            (false, false) => None,
        };
        let hidden = HiddenChoice {
            units: self.count("hidden")?,
            dropout: self.number("dropout")?,
            input_dropout: self.number("input_dropout")?,
        };
        Ok(TrainingChoice {
            hidden,
            method,
            optimizer,
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
        let standardize = if self.is_auto("standardize")? { None } else { self.flag("standardize")? };
        let row_length = if self.is_auto("row_length")? { None } else { self.item("row_length")? };
        let columns = if standardize == Some(true) { Columns::Standardize } else { Columns::AsGiven };
        let row_length_stated = row_length.is_some();
        let columns_stated = standardize.is_some() || row_length_stated;
        let none = |value: &Bound<'py, PyAny>| value.extract::<&str>().is_ok_and(|text| text == "none");
        let row_length = row_length.filter(|value| !none(value));
        let row_length = row_length.map(|value| argument(&value, "row_length", NUMBER).map(RowLength::new));
        let row_length = row_length.transpose()?.transpose().map_err(|error| from_library("", error))?;
        Ok(Preparation { columns, row_length, columns_stated, row_length_stated })
    }

    fn prior(&self) -> PyResult<PriorChoice> {
        let l2 = if self.is_auto("l2")? { None } else { self.number("l2")? };
        Ok(PriorChoice {
            geometry: self.unless_auto("label_prior")?,
            temperature: self.number("prior_temperature")?,
            free: self.number("prior_free")?,
            l2,
        })
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
        prior: keywords.prior()?,
        preparation: keywords.preparation()?,
        validation: keywords.number("validation")?,
        select: keywords.unless_auto("select")?,
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
