//! The time of a tuning run, over all sessions that worked on it.

use std::time::{Duration, Instant};

/// A budget and what of it is spent.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    /// Seconds of earlier sessions.
    before: f64,
    /// Seconds in all.
    budget: f64,
}

impl Clock {
    pub(super) fn new(budget: Duration, before: f64) -> Self {
        Self { start: Instant::now(), before, budget: budget.as_secs_f64() }
    }

    /// Seconds spent.
    pub(super) fn elapsed(&self) -> f64 {
        self.before + self.start.elapsed().as_secs_f64()
    }

    /// Seconds left, none if the budget is spent.
    pub(super) fn left(&self) -> f64 {
        (self.budget - self.elapsed()).max(0.0)
    }

    /// The moment so many seconds from now.
    pub(super) fn after(seconds: f64) -> Instant {
        Instant::now() + Duration::from_secs_f64(seconds)
    }
}
