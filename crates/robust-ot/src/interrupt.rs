//! Stopping a solve from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks running solves to stop. They return their current solution, with its gap.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::{Interrupt, SolveOptions};
/// use robust_ot::{Measure, MetricSet, Problem, Settings, Status};
///
/// let interrupt = Interrupt::default();
/// interrupt.raise(); // usually from a signal handler or another thread
/// let cloud = Measure::uniform(array![[0.0, 1.0], [2.0, 0.0]])?;
/// let other = Measure::uniform(array![[1.0, 1.0], [0.0, 0.5]])?;
/// let solution = Problem::new(&cloud, &other, MetricSet::P { k: 1 })?
///     .solve_with(&Settings::default(), SolveOptions { interrupt: Some(&interrupt), ..Default::default() })?;
/// assert_eq!(solution.status, Status::Interrupted);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks every solve that holds a clone of this flag to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
