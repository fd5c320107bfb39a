//! Settings of the loss.

use crate::error::{Error, Result};
use crate::metric::MetricSet;

/// Settings of the robust loss between a prediction and the true labels.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `set` | `P { k: 1 }` | metric set | |
/// | `entropy` | 0.02 | λ_γ in the objective | [1e-30, 1e30] |
/// | `oracle_entropy` | same as `entropy` | λ of the linear problems | [1e-30, 1e30] |
/// | `frank_wolfe` | 1 | most iterations | [1, ∞) |
/// | `sinkhorn` | 10 | most iterations of each linear problem | [1, ∞) |
/// | `tolerance` | 0 | stop at this gap, and at this marginal error | [0, ∞) |
///
/// ```
/// use robust_ot::loss::LossSettings;
/// let settings = LossSettings { frank_wolfe: 100, sinkhorn: 1000, tolerance: 1e-6, ..Default::default() };
/// assert!(settings.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LossSettings {
    /// The metric set.
    pub set: MetricSet,
    /// λ_γ, the weight of Σ γ ln γ.
    pub entropy: f64,
    /// The regularization of the linear problems, if it is not `entropy`.
    pub oracle_entropy: Option<f64>,
    /// The most Frank-Wolfe iterations. With one, the plan is that of the first linear problem.
    pub frank_wolfe: usize,
    /// The most Sinkhorn iterations of a linear problem.
    pub sinkhorn: usize,
    /// The gap and the marginal error at which iterations end early.
    pub tolerance: f64,
}

impl Default for LossSettings {
    fn default() -> Self {
        Self {
            set: MetricSet::P { k: 1 },
            entropy: 0.02,
            oracle_entropy: None,
            frank_wolfe: 1,
            sinkhorn: 10,
            tolerance: 0.0,
        }
    }
}

impl LossSettings {
    /// Checks the ranges of the table above.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn check(&self) -> Result<()> {
        for (name, value) in [("entropy", self.entropy), ("oracle_entropy", self.linear_entropy())] {
            if !(1e-30..=1e30).contains(&value) {
                return Err(Error::parameter(name, "between 1e-30 and 1e30", value));
            }
        }
        for (name, value) in [("frank_wolfe", self.frank_wolfe), ("sinkhorn", self.sinkhorn)] {
            if value == 0 {
                return Err(Error::parameter(name, "at least 1", value));
            }
        }
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return Err(Error::parameter("tolerance", "finite and not negative", self.tolerance));
        }
        Ok(())
    }

    /// The regularization of the linear problems.
    pub fn linear_entropy(&self) -> f64 {
        self.oracle_entropy.unwrap_or(self.entropy)
    }
}
