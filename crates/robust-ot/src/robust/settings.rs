//! Settings of a solve.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The step rule of Frank-Wolfe.
///
/// ```
/// use robust_ot::solve::StepRule;
/// assert_eq!("line-search".parse::<StepRule>()?, StepRule::LineSearch);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum StepRule {
    /// The best rule for the problem; currently always [`StepRule::Corrective`].
    #[default]
    Auto,
    /// The paper's Algorithm 1: θ = 2/(t + 2).
    Classic,
    /// θ minimizes h(V + θ(V̂ − V)) exactly.
    LineSearch,
    /// After each oracle call, h is minimized over all convex combinations of the plans found so far. Sets whose h
    /// has corners (`srw`, `rkp` with ρ = ∞) get a proximal term in M: a bundle method.
    Corrective,
}

impl StepRule {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Classic => "classic",
            Self::LineSearch => "line-search",
            Self::Corrective => "corrective",
        }
    }
}

impl fmt::Display for StepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StepRule {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Auto, Self::Classic, Self::LineSearch, Self::Corrective]
            .into_iter()
            .find(|solver| solver.name() == name)
            .ok_or_else(|| Error::parameter("step_rule", "auto, classic, line-search or corrective", name))
    }
}

/// The step rule and when to stop.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `step_rule` | auto | step rule | |
/// | `tol_gap_rel` | 1e-4 | stop when gap ≤ this · ⟨V, M⟩ | [0, ∞) |
/// | `max_iterations` | 1000 | stop after this many oracle calls | [1, ∞) |
/// | `max_sweeps` | 10,000 | sweeps over rows and columns in each oracle call with entropy | [1, ∞) |
/// | `memory` | no limit | bytes for costs and plans of size m × n; larger ones are streamed | [0, ∞) |
///
/// ```
/// let settings = robust_ot::Settings::default().with_tolerance(1e-6);
/// assert!(settings.check().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Settings {
    /// The step rule.
    pub step_rule: StepRule,
    /// The relative gap at which a solve has converged.
    pub tol_gap_rel: f64,
    /// The maximum number of oracle calls.
    pub max_iterations: usize,
    /// The maximum number of sweeps over rows and columns in an oracle call with entropy. The next call continues from there.
    pub max_sweeps: usize,
    /// The maximum number of bytes for arrays of size m × n; larger ones are recomputed whenever they are needed.
    pub memory: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            step_rule: StepRule::Auto,
            tol_gap_rel: 1e-4,
            max_iterations: 1000,
            max_sweeps: 10_000,
            memory: usize::MAX,
        }
    }
}

impl Settings {
    /// Sets the relative gap at which a solve has converged.
    #[must_use]
    pub fn with_tolerance(mut self, tol_gap_rel: f64) -> Self {
        self.tol_gap_rel = tol_gap_rel;
        self
    }

    /// Sets the maximum number of oracle calls.
    #[must_use]
    pub fn with_max_iterations(mut self, max_iterations: usize) -> Self {
        self.max_iterations = max_iterations;
        self
    }

    /// Sets the maximum number of sweeps in an oracle call with entropy.
    #[must_use]
    pub fn with_max_sweeps(mut self, max_sweeps: usize) -> Self {
        self.max_sweeps = max_sweeps;
        self
    }

    /// Sets the maximum number of bytes for arrays of size m × n.
    #[must_use]
    pub fn with_memory(mut self, memory: usize) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the step rule.
    #[must_use]
    pub fn with_step_rule(mut self, step_rule: StepRule) -> Self {
        self.step_rule = step_rule;
        self
    }

    /// Checks the ranges of the table above.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn check(&self) -> Result<()> {
        if !(self.tol_gap_rel >= 0.0 && self.tol_gap_rel.is_finite()) {
            return Err(Error::parameter("tol_gap_rel", "finite and not negative", self.tol_gap_rel));
        }
        if self.max_iterations == 0 {
            return Err(Error::parameter("max_iterations", "at least 1", 0));
        }
        if self.max_sweeps == 0 {
            return Err(Error::parameter("max_sweeps", "at least 1", 0));
        }
        Ok(())
    }
}
