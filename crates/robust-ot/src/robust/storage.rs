//! Which arrays of size m × n a solve keeps in memory.

use std::fmt;

/// Bytes per cost.
const COST: usize = size_of::<f64>();
/// Bytes per entry of a plan that Sinkhorn holds.
const HELD: usize = size_of::<f32>();

/// The arrays of size m × n that a solve keeps, as [`Settings::memory`](crate::Settings::memory) allows.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Storage;
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
///
/// let (a, b) = (Measure::uniform(array![[0.0], [1.0]])?, Measure::uniform(array![[1.0], [0.0]])?);
/// let problem = Problem::new(&a, &b, MetricSet::W2)?;
/// assert_eq!(problem.solve(&Settings::default())?.storage, Storage::Stored);
/// let frugal = Settings::default().with_memory(10);
/// assert_eq!(problem.solve(&frugal)?.storage, Storage::Streamed);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Storage {
    /// The costs and, with entropy, a plan in single precision.
    Stored,
    /// A plan in single precision; costs are computed from products when they are needed.
    Plan,
    /// Nothing: costs are computed when they are needed, and plans block by block.
    Streamed,
}

impl Storage {
    /// The storage that the memory allows for costs alone.
    pub(super) fn of_costs(memory: usize, m: usize, n: usize) -> Self {
        if bytes(m, n, COST) <= memory { Self::Stored } else { Self::Streamed }
    }

    /// The storage that the memory allows for costs and a plan.
    pub(super) fn of_plans(memory: usize, m: usize, n: usize) -> Self {
        if bytes(m, n, COST + HELD) <= memory {
            Self::Stored
        } else if bytes(m, n, HELD) <= memory {
            Self::Plan
        } else {
            Self::Streamed
        }
    }

    pub(super) fn stores_costs(self) -> bool {
        self == Self::Stored
    }

    /// The bytes left for the plans that Sinkhorn holds.
    pub(super) fn held_bytes(self, memory: usize, m: usize, n: usize) -> usize {
        match self {
            Self::Stored => memory.saturating_sub(bytes(m, n, COST)),
            Self::Plan => memory,
            Self::Streamed => 0,
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Plan => "plan",
            Self::Streamed => "streamed",
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn bytes(m: usize, n: usize, each: usize) -> usize {
    m.saturating_mul(n).saturating_mul(each)
}
