//! Settings of a solve.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The step rule of Frank-Wolfe.
///
/// ```
/// use robust_ot::Solver;
/// assert_eq!("line-search".parse::<Solver>()?, Solver::LineSearch);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Solver {
    /// The best rule for the problem; currently always [`Solver::Corrective`].
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

impl Solver {
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

impl fmt::Display for Solver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Solver {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Auto, Self::Classic, Self::LineSearch, Self::Corrective]
            .into_iter()
            .find(|solver| solver.name() == name)
            .ok_or_else(|| Error::parameter("solver", "auto, classic, line-search or corrective", name))
    }
}

/// The step rule and when to stop.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `solver` | auto | step rule | |
/// | `tol_gap_rel` | 1e-4 | stop when gap ≤ this · ⟨V, M⟩ | [0, ∞) |
/// | `max_iterations` | 1000 | stop after this many oracle calls | [1, ∞) |
/// | `memory` | no limit | bytes for costs and plans of size m × n; larger ones are streamed | [0, ∞) |
///
/// ```
/// let settings = robust_ot::Settings { tol_gap_rel: 1e-6, ..Default::default() };
/// assert!(settings.check().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The step rule.
    pub solver: Solver,
    /// The relative gap at which a solve has converged.
    pub tol_gap_rel: f64,
    /// The most oracle calls a solve makes.
    pub max_iterations: usize,
    /// The most bytes for arrays of size m × n; what does not fit is recomputed whenever it is needed.
    pub memory: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { solver: Solver::Auto, tol_gap_rel: 1e-4, max_iterations: 1000, memory: usize::MAX }
    }
}

impl Settings {
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
        Ok(())
    }
}
