//! Metric sets by name, as commands and bindings ask for them.

use super::{MetricSet, Prior};
use crate::error::{Error, Result};

/// The parameters of all sets; each set takes its own.
///
/// | name | default | of |
/// |---|---|---|
/// | `k` | 1 | `p`, `p-power`, `srw` |
/// | `rho` | 2 | `rkp` |
/// | `lambda` | 1 | `kl`, `ds`, `features` |
/// | `prior` | eye for `kl`, ones for `ds` | `kl`, `ds` |
///
/// ```
/// use robust_ot::{MetricSet, SetParameters};
/// let set = MetricSet::named("srw", SetParameters { k: 3, ..Default::default() })?;
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
    /// Refuses values that are out of range whatever they are for.
    ///
    /// ```
    /// use robust_ot::SetParameters;
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

impl MetricSet {
    /// The set of this name; a value that is out of range is refused even where the set does not use it.
    ///
    /// # Errors
    /// When there is no such set, or a parameter is out of range.
    pub fn named(name: &str, parameters: SetParameters) -> Result<Self> {
        parameters.check()?;
        let SetParameters { k, rho, lambda, prior } = parameters;
        Ok(match name {
            "w2" => Self::W2,
            "p" => Self::P { k },
            "p-power" => Self::PPower { k },
            "kl" => Self::Kl { lambda, prior: prior.unwrap_or(Prior::Eye) },
            "ds" => Self::Ds { lambda, prior: prior.unwrap_or(Prior::Ones) },
            "features" => Self::Features { lambda },
            "srw" => Self::Srw { k: k as usize },
            "rkp" => Self::Rkp { rho },
            other => {
                return Err(Error::parameter(
                    "metric",
                    "w2, p, p-power, kl, ds, features, srw or rkp",
                    other,
                ));
            }
        })
    }
}
