//! Solving many problems, one after another or in parallel.

use rayon::prelude::*;

use super::problem::Problem;
use super::settings::Settings;
use super::solution::Solution;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::transport::HeldKernel;

/// Buffers of size m × n that consecutive solves share, so that only the largest of them allocates.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Interrupt, Measure, MetricSet, Problem, Settings, Workspace};
///
/// let target = Measure::uniform(array![[0.0, 0.0], [1.0, 1.0]])?;
/// let mut room = Workspace::default();
/// for shift in [0.5, 1.0, 2.0] {
///     let source = Measure::uniform(array![[shift, 0.0], [1.0 + shift, 1.0]])?;
///     let problem = Problem::new(&source, &target, MetricSet::W2)?;
///     let solution = problem.solve_in(&mut room, &Settings::default(), &Interrupt::default())?;
///     assert!(solution.value <= shift * shift + 1e-12);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) costs: Vec<f64>,
    pub(super) plan: HeldKernel<f32>,
}

/// Solves many problems in parallel, with one workspace per thread. The answers are in order and do not depend on the
/// number of threads. Once interrupted, each remaining problem returns the result of its first iteration.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Interrupt, Measure, MetricSet, Problem, Settings, solve_all};
///
/// let target = Measure::uniform(array![[0.0], [1.0]])?;
/// let problems = [1.0, 2.0].map(|shift| {
///     let source = Measure::uniform(array![[shift], [1.0 + shift]])?;
///     Problem::new(&source, &target, MetricSet::W2)
/// });
/// let problems = problems.into_iter().collect::<Result<Vec<_>, _>>()?;
/// let solutions = solve_all(&problems, &Settings::default(), &Interrupt::default());
/// assert!((solutions[1].as_ref().unwrap().value - 4.0).abs() < 1e-9);
/// # Ok::<(), robust_ot::Error>(())
/// ```
pub fn solve_all(problems: &[Problem], settings: &Settings, interrupt: &Interrupt) -> Vec<Result<Solution>> {
    let solve = |room: &mut Workspace, problem: &Problem| problem.solve_in(room, settings, interrupt);
    problems.par_iter().map_init(Workspace::default, solve).collect()
}
