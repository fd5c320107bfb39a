//! Where to compute: the processor, or a CUDA device.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use ndarray::Array2;
use robust_ot_cuda::{Device, logits};
use robust_ot_learn::Model;
use robust_ot_learn::data::Features;

use crate::failure::Failure;
use crate::fit::zero_rows_note;

/// A device of the option `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A card where there is one and the work is worth the trip, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The card of this number; nothing else will do.
    Cuda(usize),
}

/// How many multiplications some work takes, about.
#[derive(Debug, Clone, Copy)]
pub struct Work(pub f64);

impl Work {
    /// Of one entropic distance between so many points: some sweeps, of a product each.
    pub fn of_distance(m: usize, n: usize, dim: usize) -> Self {
        Self(100.0 * m as f64 * n as f64 * dim as f64)
    }

    /// Of pairs with so many entries of their plans together: some calls of the oracle, of two products each.
    pub fn of_pairs(entries: f64, dim: usize) -> Self {
        Self(6.0 * entries * dim as f64)
    }
}

/// Why plans of this entropy are not for a card, if they are not.
pub fn unfit_plans(entropy: f64) -> Option<String> {
    let why = "exact plans are found on the processor; --entropy must be above 0, but is 0";
    (entropy <= 0.0).then(|| why.to_owned())
}

/// Less work than this, a few seconds of two cores, is done before a card is awake.
const WORTH_IT: f64 = 3e11;

/// Where to compute.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceOptions {
    /// Where to compute: auto, cpu, cuda or cuda:N. auto takes a card where there is one and the work is worth it; cuda takes it or fails
    #[arg(long, value_name = "WHERE", default_value_t)]
    pub device: DeviceChoice,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || "must be auto, cpu, cuda or cuda:N with the number of a card".to_owned();
        match text.split_once(':') {
            None => match text {
                "auto" => Ok(Self::Auto),
                "cpu" => Ok(Self::Cpu),
                "cuda" => Ok(Self::Cuda(0)),
                _ => Err(rule()),
            },
            Some(("cuda", index)) => index.parse().map(Self::Cuda).map_err(|_| rule()),
            Some(_) => Err(rule()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Cpu => f.pad("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl DeviceChoice {
    /// The card to use for this much work, or none for the processor. `unfit` says why the work is not for a card, if it is not.
    ///
    /// # Errors
    /// When a card was asked for, and there is none or the work is not for it.
    pub fn open(self, work: Work, unfit: Option<String>) -> Result<Option<Device>, Failure> {
        match (self, unfit) {
            (Self::Cuda(_), Some(why)) => Err(Failure::Input(format!("--device {self}: {why}"))),
            (Self::Cuda(index), None) => Ok(Some(Device::open(index, cache_folder().as_deref())?)),
            // A card that does not open, or lacks what computing needs, is no card.
            (Self::Auto, None) if work.0 >= WORTH_IT && Device::count() > 0 => {
                Ok(Device::open(0, cache_folder().as_deref()).ok().filter(|device| device.check().is_ok()))
            }
            _ => Ok(None),
        }
    }
}

/// Where compiled kernels are kept.
fn cache_folder() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = named("XDG_CACHE_HOME").or_else(|| named("LOCALAPPDATA"));
    Some(base.or_else(|| named("HOME").map(|home| home.join(".cache")))?.join("robust-ot"))
}

/// The name of the processor.
pub const CPU: &str = "cpu";

/// The name of what computes, for people and for JSON.
pub fn device_name(device: Option<&Device>) -> String {
    device.map_or_else(|| CPU.to_owned(), ToString::to_string)
}

/// The probabilities of rows, and what they were computed on. Rows that cannot be scaled are noted on standard error.
///
/// # Errors
/// When the rows do not fit the model, or a card was asked for and fails.
pub fn probabilities(
    model: &Model,
    mut features: Features,
    choice: DeviceChoice,
) -> Result<(Array2<f64>, String), Failure> {
    let zero_rows = model.preprocessing.apply(&mut features)?;
    if let Some(note) = zero_rows_note(zero_rows, features.rows(), "rows") {
        say!("rot: note: {note}");
    }
    let labels = model.label_names().len();
    let work = Work(features.rows() as f64 * features.columns() as f64 * labels as f64);
    let device = choice.open(work, None)?;
    let found = match &device {
        None => model.probabilities_of_preprocessed(&features)?,
        Some(device) => model
            .probabilities_by(&features, |features, weights, bias| logits(device, features, weights, bias))?,
    };
    Ok((found, device_name(device.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for (text, wanted) in
            [("auto", DeviceChoice::Auto), ("cpu", DeviceChoice::Cpu), ("cuda:3", DeviceChoice::Cuda(3))]
        {
            assert_eq!(text.parse(), Ok(wanted));
            assert_eq!(wanted.to_string(), text);
        }
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda(0)));
        for bad in ["gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:0", ""] {
            assert!(bad.parse::<DeviceChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_for_a_card_is_refused_or_done_here() {
        let unfit = || Some("exact plans are found on the processor".to_owned());
        assert!(DeviceChoice::Auto.open(Work(1e20), unfit()).is_ok_and(|device| device.is_none()));
        assert!(DeviceChoice::Cpu.open(Work(1e20), None).is_ok_and(|device| device.is_none()));
        assert!(matches!(DeviceChoice::Cuda(0).open(Work(1e20), unfit()), Err(Failure::Input(_))));
    }
}
