//! Stopping a solve from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Asks every solve that holds a clone of this flag to stop.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// A flag that is raised with this one, and by itself from `deadline` on.
    ///
    /// ```
    /// use std::time::Instant;
    /// use robust_ot::solve::Interrupt;
    ///
    /// let interrupt = Interrupt::default();
    /// assert!(interrupt.until(Instant::now()).is_raised());
    /// assert!(!interrupt.is_raised());
    /// ```
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        let deadline = self.deadline.map_or(deadline, |own| own.min(deadline));
        Self { raised: Arc::clone(&self.raised), deadline: Some(deadline) }
    }

    /// Whether a stop was requested, or the deadline has passed.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
