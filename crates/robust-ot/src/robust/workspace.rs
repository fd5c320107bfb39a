//! Buffers shared between solves.

use crate::transport::HeldKernel;

/// Buffers of size m × n that consecutive solves share, so that a solve allocates only if it is larger than those before.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::{SolveOptions, Workspace};
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
///
/// let target = Measure::uniform(array![[0.0, 0.0], [1.0, 1.0]])?;
/// let mut workspace = Workspace::default();
/// for shift in [0.5, 1.0, 2.0] {
///     let source = Measure::uniform(array![[shift, 0.0], [1.0 + shift, 1.0]])?;
///     let problem = Problem::new(&source, &target, MetricSet::W2)?;
///     let options = SolveOptions { workspace: Some(&mut workspace), ..Default::default() };
///     let solution = problem.solve_with(&Settings::default(), options)?;
///     assert!(solution.value <= shift * shift + 1e-12);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) costs: Vec<f64>,
    pub(super) plan: HeldKernel<f32>,
}
