//! The families of metric sets by name, and their parameters.

use std::fmt;
use std::str::FromStr;

use super::{MetricSet, Prior};
use crate::error::{Error, Result};

/// The parameters of all sets; each set uses its own.
///
/// | name | default | used by |
/// |---|---|---|
/// | `k` | 1 | `p`, `p-power`, `srw` |
/// | `rho` | 2 | `rkp` |
/// | `lambda` | 1 | `kl`, `ds`, `features` |
/// | `prior` | eye for `kl`, ones for `ds` | `kl`, `ds` |
///
/// ```
/// use robust_ot::sets::{MetricFamily, SetParameters};
/// use robust_ot::MetricSet;
/// let set = MetricFamily::Srw.set(SetParameters { k: 3, ..Default::default() })?;
/// assert_eq!(set, MetricSet::Srw { k: 3 });
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SetParameters {
    /// Exponent or number of dimensions.
    pub k: u32,
    /// ρ.
    pub rho: f64,
    /// λ.
    pub lambda: f64,
    /// M₀.
    pub prior: Option<Prior>,
}

impl Default for SetParameters {
    fn default() -> Self {
        Self { k: 1, rho: 2.0, lambda: 1.0, prior: None }
    }
}

impl SetParameters {
    /// Rejects values that are out of range regardless of the set.
    ///
    /// ```
    /// use robust_ot::sets::SetParameters;
    /// assert!(SetParameters { rho: 0.5, ..Default::default() }.check().is_err());
    /// ```
    ///
    /// # Errors
    /// When k is 0, ρ below 1, or λ not positive.
    pub fn check(&self) -> Result<()> {
        MetricSet::P { k: self.k }.check(1)?;
        MetricSet::Rkp { rho: self.rho }.check(1)?;
        MetricSet::Features { lambda: self.lambda }.check(1)
    }
}

/// The families of metric sets, without their parameters.
///
/// ```
/// use robust_ot::sets::{MetricFamily, SetParameters};
/// use robust_ot::MetricSet;
///
/// let family: MetricFamily = "p-power".parse()?;
/// assert_eq!(family.set(SetParameters { k: 2, ..Default::default() })?, MetricSet::PPower { k: 2 });
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricFamily {
    /// [`MetricSet::W2`].
    W2,
    /// [`MetricSet::P`].
    P,
    /// [`MetricSet::PPower`].
    PPower,
    /// [`MetricSet::Kl`].
    Kl,
    /// [`MetricSet::Ds`].
    Ds,
    /// [`MetricSet::Features`].
    Features,
    /// [`MetricSet::Srw`].
    Srw,
    /// [`MetricSet::Rkp`].
    Rkp,
}

impl MetricFamily {
    const ALL: [Self; 8] =
        [Self::W2, Self::P, Self::PPower, Self::Kl, Self::Ds, Self::Features, Self::Srw, Self::Rkp];

    /// The name in files, on the command line and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::W2 => "w2",
            Self::P => "p",
            Self::PPower => "p-power",
            Self::Kl => "kl",
            Self::Ds => "ds",
            Self::Features => "features",
            Self::Srw => "srw",
            Self::Rkp => "rkp",
        }
    }

    /// Whether its sets have a prior metric.
    pub fn has_prior(self) -> bool {
        matches!(self, Self::Kl | Self::Ds)
    }

    /// The set with these parameters; a value out of range is refused even where the set does not use it.
    ///
    /// # Errors
    /// When a parameter is out of range.
    pub fn set(self, parameters: SetParameters) -> Result<MetricSet> {
        parameters.check()?;
        let SetParameters { k, rho, lambda, prior } = parameters;
        Ok(match self {
            Self::W2 => MetricSet::W2,
            Self::P => MetricSet::P { k },
            Self::PPower => MetricSet::PPower { k },
            Self::Kl => MetricSet::Kl { lambda, prior: prior.unwrap_or(Prior::Eye) },
            Self::Ds => MetricSet::Ds { lambda, prior: prior.unwrap_or(Prior::Ones) },
            Self::Features => MetricSet::Features { lambda },
            Self::Srw => MetricSet::Srw { k: k as usize },
            Self::Rkp => MetricSet::Rkp { rho },
        })
    }
}

impl fmt::Display for MetricFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MetricFamily {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let rule = "w2, p, p-power, kl, ds, features, srw or rkp";
        Self::ALL
            .into_iter()
            .find(|family| family.name() == name)
            .ok_or_else(|| Error::parameter("metric", rule, name))
    }
}

/// Reads a family and its parameters, `name` or `name:key=value,…` with the keys `k`, `rho`, `lambda` and `prior`.
///
/// ```
/// use robust_ot::sets::Prior;
/// use robust_ot::MetricSet;
///
/// assert_eq!("w2".parse::<MetricSet>()?, MetricSet::W2);
/// assert_eq!("srw:k=3".parse::<MetricSet>()?, MetricSet::Srw { k: 3 });
/// let set: MetricSet = "kl:lambda=0.5,prior=ones".parse()?;
/// assert_eq!(set, MetricSet::Kl { lambda: 0.5, prior: Prior::Ones });
/// # Ok::<(), robust_ot::Error>(())
/// ```
impl FromStr for MetricSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (family, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut parameters = SetParameters::default();
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let number = |name| value.parse().map_err(|_| Error::parameter(name, "a number", value));
            match key {
                "k" => {
                    let whole = value.parse();
                    parameters.k = whole.map_err(|_| Error::parameter("k", "a whole number", value))?;
                }
                "rho" => parameters.rho = number("rho")?,
                "lambda" => parameters.lambda = number("lambda")?,
                "prior" => {
                    parameters.prior = Some(match value {
                        "eye" => Prior::Eye,
                        "ones" => Prior::Ones,
                        other => return Err(Error::parameter("prior", "eye or ones", other)),
                    });
                }
                other => return Err(Error::parameter("metric", "set by k, rho, lambda or prior", other)),
            }
        }
        family.parse::<MetricFamily>()?.set(parameters)
    }
}

impl MetricSet {
    /// The family this set belongs to.
    ///
    /// ```
    /// use robust_ot::sets::MetricFamily;
    /// use robust_ot::MetricSet;
    /// assert_eq!(MetricSet::Srw { k: 2 }.family(), MetricFamily::Srw);
    /// ```
    pub fn family(&self) -> MetricFamily {
        match self {
            Self::W2 => MetricFamily::W2,
            Self::P { .. } => MetricFamily::P,
            Self::PPower { .. } => MetricFamily::PPower,
            Self::Kl { .. } => MetricFamily::Kl,
            Self::Ds { .. } => MetricFamily::Ds,
            Self::Features { .. } => MetricFamily::Features,
            Self::Srw { .. } => MetricFamily::Srw,
            Self::Rkp { .. } => MetricFamily::Rkp,
        }
    }

    /// The name of the family.
    ///
    /// ```
    /// assert_eq!(robust_ot::MetricSet::PPower { k: 2 }.name(), "p-power");
    /// ```
    pub fn name(&self) -> &'static str {
        self.family().name()
    }
}
