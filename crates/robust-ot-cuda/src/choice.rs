//! The choice between the CPU and a GPU.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use robust_ot::{Error, Result};

use crate::device::Device;

/// The least work that is worth a GPU. Two cores do less than this, a few seconds' work, before a GPU has started.
const WORTH_IT: f64 = 3e11;

/// Where to compute.
///
/// ```
/// use robust_ot_cuda::DeviceChoice;
/// assert_eq!("cuda:1".parse::<DeviceChoice>()?, DeviceChoice::Cuda(1));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU if one is available and the work is large enough, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this number, or an error.
    Cuda(usize),
}

/// The approximate number of multiplications of some work.
///
/// ```
/// use robust_ot_cuda::Work;
/// assert!(Work::of_distance(10, 10, 3).0 < Work::of_distance(1000, 1000, 3).0);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Work(pub f64);

impl Work {
    /// One entropic distance between m and n points: some sweeps of one product each.
    pub fn of_distance(m: usize, n: usize, dim: usize) -> Self {
        Self(100.0 * m as f64 * n as f64 * dim as f64)
    }

    /// Pairs whose plans have this many entries in total: some oracle calls of two products each.
    pub fn of_pairs(entries: f64, dim: usize) -> Self {
        Self(6.0 * entries * dim as f64)
    }

    /// The products of rows with the weights of a linear model, repeated.
    pub fn of_products(rows: usize, features: usize, labels: usize, times: usize) -> Self {
        Self(rows as f64 * features as f64 * labels as f64 * times as f64)
    }
}

impl DeviceChoice {
    /// Whether the CPU is a device of this choice.
    ///
    /// ```
    /// use robust_ot_cuda::DeviceChoice;
    /// assert!(DeviceChoice::Auto.may_be_cpu() && !DeviceChoice::Cuda(0).may_be_cpu());
    /// ```
    pub fn may_be_cpu(self) -> bool {
        !matches!(self, Self::Cuda(_))
    }

    /// Opens the GPU to use for this much work; `None` means the CPU. `unfit` is the reason that a GPU cannot do the work,
    /// if there is one. Compiled kernels are kept in the cache folder, if one is given.
    ///
    /// # Errors
    /// When a GPU was requested, but none is available or it cannot do the work.
    pub fn open(self, work: Work, unfit: Option<Error>, cache: Option<&Path>) -> Result<Option<Device>> {
        match (self, unfit) {
            (Self::Cuda(_), Some(why)) => Err(why),
            (Self::Cuda(index), None) => Ok(Some(Device::open(index, cache)?)),
            // A GPU that does not open, or lacks a library that computing needs, counts as absent.
            (Self::Auto, None) if work.0 >= WORTH_IT && Device::count() > 0 => {
                Ok(Device::open(0, cache).ok().filter(|device| device.check().is_ok()))
            }
            _ => Ok(None),
        }
    }

    /// Opens the GPU to use for entropic plans.
    ///
    /// # Errors
    /// When a GPU was requested, but none is available or plans are exact.
    pub fn open_for_plans(self, work: Work, entropy: f64, cache: Option<&Path>) -> Result<Option<Device>> {
        let unfit = (entropy <= 0.0).then(|| Error::Conflict {
            name: "entropy",
            rule: format!("be above 0 with the device {self}"),
            found: "is 0; exact plans are found on the CPU".into(),
        });
        self.open(work, unfit, cache)
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rule = || Error::parameter("device", "auto, cpu, cuda or cuda:N with the number of a GPU", text);
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

/// The folder for compiled kernels in the user's cache; `variable` looks up environment variables.
///
/// ```
/// let variable = |name: &str| (name == "HOME").then(|| "/home/ada".into());
/// let folder = robust_ot_cuda::cache_folder(variable).expect("there is a home");
/// assert!(folder.ends_with(".cache/robust-ot"));
/// ```
pub fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = named("XDG_CACHE_HOME").or_else(|| named("LOCALAPPDATA"));
    Some(base.or_else(|| named("HOME").map(|home| home.join(".cache")))?.join("robust-ot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for (text, wanted) in
            [("auto", DeviceChoice::Auto), ("cpu", DeviceChoice::Cpu), ("cuda:3", DeviceChoice::Cuda(3))]
        {
            assert_eq!(text.parse::<DeviceChoice>().unwrap(), wanted);
            assert_eq!(wanted.to_string(), text);
        }
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
        for bad in ["gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:0", ""] {
            assert!(bad.parse::<DeviceChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn exact_plans_stay_on_the_cpu() {
        let work = Work(1e20);
        assert!(DeviceChoice::Auto.open_for_plans(work, 0.0, None).is_ok_and(|device| device.is_none()));
        assert!(DeviceChoice::Cpu.open_for_plans(work, 0.1, None).is_ok_and(|device| device.is_none()));
        let refused = DeviceChoice::Cuda(0).open_for_plans(work, 0.0, None).unwrap_err().to_string();
        assert_eq!(
            refused,
            "entropy must be above 0 with the device cuda:0, but is 0; exact plans are found on the CPU"
        );
    }
}
