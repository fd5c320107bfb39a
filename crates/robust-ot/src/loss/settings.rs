//! Settings of the loss.

use crate::error::{Error, Result};
use crate::metric::MetricSet;
use crate::robust::Settings;

/// Settings of the robust loss between a prediction and the true labels.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `set` | `P { k: 1 }` | metric set | |
/// | `entropy` | 0.02 | λ_γ in the objective | [1e-30, 1e30] |
/// | `oracle_entropy` | same as `entropy` | λ of the linear problems | [1e-30, 1e30] |
/// | `frank_wolfe` | 100 | most iterations | [1, ∞) |
/// | `sinkhorn` | 1000 | most iterations of each linear problem | [1, ∞) |
/// | `tolerance` | 1e-3 | stop at this gap, relative to the cost of the plan | [0, ∞) |
///
/// With these defaults the loss is W up to the tolerance. [`LossSettings::truncated`] is the paper's approximation of it.
///
/// ```
/// use robust_ot::loss::LossSettings;
/// let settings = LossSettings { tolerance: 1e-6, ..Default::default() };
/// assert!(settings.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LossSettings {
    /// The metric set.
    pub set: MetricSet,
    /// λ_γ, the weight of Σ γ ln γ.
    pub entropy: f64,
    /// The regularization of the linear problems, if it is not `entropy`: only with a plan of the first linear problem.
    pub oracle_entropy: Option<f64>,
    /// The most Frank-Wolfe iterations. With one, the plan is that of the first linear problem, whose metric is the worst
    /// one of the uniform plan over all pairs of labels.
    pub frank_wolfe: usize,
    /// The most Sinkhorn or Newton iterations of a linear problem.
    pub sinkhorn: usize,
    /// The relative gap at which Frank-Wolfe ends; with one iteration, the marginal error at which the linear problem ends.
    /// With 0, a linear problem takes all its iterations.
    pub tolerance: f64,
}

impl Default for LossSettings {
    fn default() -> Self {
        Self {
            set: MetricSet::P { k: 1 },
            entropy: 0.02,
            oracle_entropy: None,
            frank_wolfe: 100,
            sinkhorn: 1000,
            tolerance: 1e-3,
        }
    }
}

impl LossSettings {
    /// One Frank-Wolfe and ten Sinkhorn iterations, whatever they reach, as in the paper. With several labels per row the
    /// loss may then be far from W, on either side.
    ///
    /// ```
    /// use robust_ot::loss::LossSettings;
    /// let settings = LossSettings::truncated();
    /// assert_eq!((settings.frank_wolfe, settings.sinkhorn, settings.tolerance), (1, 10, 0.0));
    /// ```
    pub fn truncated() -> Self {
        Self { frank_wolfe: 1, sinkhorn: 10, tolerance: 0.0, ..Self::default() }
    }

    /// Sets how to iterate. What is absent has its default: that of [`LossSettings::truncated`] where the tolerance is 0 or
    /// the linear problems have another entropy.
    ///
    /// ```
    /// use robust_ot::loss::LossSettings;
    /// let exactly = LossSettings::default().with_iterations(None, Some(30), Some(0.0));
    /// assert_eq!((exactly.frank_wolfe, exactly.sinkhorn), (1, 30));
    /// ```
    #[must_use]
    pub fn with_iterations(
        self,
        frank_wolfe: Option<usize>,
        sinkhorn: Option<usize>,
        tolerance: Option<f64>,
    ) -> Self {
        let truncated = tolerance.map_or(self.differs(), |tolerance| tolerance == 0.0);
        let usual = if truncated { Self::truncated() } else { Self::default() };
        Self {
            frank_wolfe: frank_wolfe.unwrap_or(usual.frank_wolfe),
            sinkhorn: sinkhorn.unwrap_or(usual.sinkhorn),
            tolerance: tolerance.unwrap_or(usual.tolerance),
            ..self
        }
    }

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
        if self.frank_wolfe > 1 && self.tolerance == 0.0 {
            let rule = "1 where the tolerance is 0";
            return Err(Error::parameter("frank_wolfe", rule, self.frank_wolfe));
        }
        if self.brackets() && self.differs() {
            return Err(Error::Conflict {
                name: "oracle_entropy",
                rule: "be the entropy, or go with one Frank-Wolfe iteration".into(),
                found: format!("it is {} and the entropy {}", self.linear_entropy(), self.entropy),
            });
        }
        Ok(())
    }

    /// Whether W is bracketed until the gap is within the tolerance.
    pub(super) fn brackets(&self) -> bool {
        self.tolerance > 0.0 && self.frank_wolfe > 1
    }

    /// Whether the linear problems have another entropy than the objective.
    fn differs(&self) -> bool {
        self.linear_entropy().to_bits() != self.entropy.to_bits()
    }

    /// When a row of several labels is solved.
    pub(super) fn of_descent(&self) -> Settings {
        Settings::default().with_tolerance(self.tolerance).with_max_iterations(self.frank_wolfe)
    }

    /// The regularization of the linear problems.
    pub fn linear_entropy(&self) -> f64 {
        self.oracle_entropy.unwrap_or(self.entropy)
    }
}
