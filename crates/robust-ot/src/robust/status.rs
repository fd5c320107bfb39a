//! How a solve ended.

use std::fmt;

/// Every way a solve can end; each comes with a solution and its gap.
///
/// ```
/// assert_eq!(robust_ot::Status::MaxIterations.to_string(), "max-iterations");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Status {
    /// The relative gap is within the tolerance.
    Converged,
    /// The iteration limit was reached first.
    MaxIterations,
    /// The gap stopped shrinking, because of rounding or because the step rule makes no further progress.
    Stalled,
    /// An [`Interrupt`](crate::solve::Interrupt) was raised.
    Interrupted,
    /// The bounds are on one side of [`SolveOptions::threshold`](crate::solve::SolveOptions::threshold).
    Decided,
}

impl Status {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::MaxIterations => "max-iterations",
            Self::Stalled => "stalled",
            Self::Interrupted => "interrupted",
            Self::Decided => "decided",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
