//! What a solve returns.

use std::fmt;
use std::sync::Arc;

use ndarray::{Array1, Array2};

use super::active::ActiveSet;
use super::problem::Problem;
use super::status::Status;
use super::storage::Storage;
use crate::transport::PlanEntry;

/// One line of a solve's history.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [1.0, 0.5]])?;
/// let target = Measure::uniform(array![[0.3, 2.0], [2.0, 1.0]])?;
/// let solution = Problem::new(&source, &target, MetricSet::P { k: 1 })?.solve(&Settings::default())?;
/// for step in &solution.history {
///     println!("{}: {} ≤ W ≤ {}", step.iteration, step.lower_bound, step.value);
/// }
/// assert_eq!(solution.history.len(), solution.iterations);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Step {
    /// The iteration, counted from 1.
    pub iteration: usize,
    /// Upper bound after this iteration.
    pub value: f64,
    /// Best lower bound so far.
    pub lower_bound: f64,
}

/// A robust distance with its certificate: `lower_bound` ≤ W ≤ `value`.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
/// let target = Measure::uniform(array![[0.0, 2.0], [1.0, 2.0]])?;
/// let solution = Problem::new(&source, &target, MetricSet::P { k: 1 })?.solve(&Settings::default())?;
/// assert!((solution.value - 4.0).abs() < 1e-12); // everything moves by (0, 2)
/// assert!((solution.metric[[1, 1]] - 1.0).abs() < 1e-12); // and only the second feature matters
/// assert_eq!(solution.plan().len(), 2);
/// println!("{solution}"); // 4 ≤ W ≤ 4 (relative gap 0.0e0), converged after 1 oracle call
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Solution {
    /// An upper bound on the optimum: h(V_γ) plus, with entropy, λ_γ times (a bound on) Σ γ ln γ.
    pub value: f64,
    /// A lower bound on the optimum.
    pub lower_bound: f64,
    /// `value` − `lower_bound`.
    pub gap: f64,
    /// gap / ⟨V, M⟩.
    pub relative_gap: f64,
    /// ⟨C(M*), γ⟩ = ⟨M*, V⟩, without entropy or penalty.
    pub transport_cost: f64,
    /// h(V_γ), the value of the plan without entropy.
    pub unregularized_value: f64,
    /// h(0), by which a penalty shifts all values: the value between equal clouds without entropy. Zero without penalty.
    pub offset: f64,
    /// How the solve ended.
    pub status: Status,
    /// The number of Frank-Wolfe iterations.
    pub iterations: usize,
    /// The number of plain transport problems solved.
    pub oracle_calls: usize,
    /// Which arrays of size m × n were kept.
    pub storage: Storage,
    /// The worst metric, r × r.
    pub metric: Array2<f64>,
    /// V_γ, r × r.
    pub moment: Array2<f64>,
    /// Dual variables of the plain transport problem that gave the best lower bound, source side. With entropy, points without weight have −∞.
    pub source_potential: Array1<f64>,
    /// Its dual variables, target side.
    pub target_potential: Array1<f64>,
    /// The bounds after every iteration.
    pub history: Vec<Step>,
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) active: ActiveSet,
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) problem: Arc<Problem>,
}

/// The bounds and how the solve ended, in one line.
impl fmt::Display for Solution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, lower_bound, relative_gap, status, oracle_calls, .. } = self;
        let calls = if *oracle_calls == 1 { "call" } else { "calls" };
        write!(
            f,
            "{lower_bound} ≤ W ≤ {value} (relative gap {relative_gap:.1e}), {status} after {oracle_calls} oracle {calls}"
        )
    }
}

impl Solution {
    /// An upper bound on W − h(0), which is zero between equal clouds without entropy and comparable across problems.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let cloud = Measure::uniform(array![[0.0, 1.0], [2.0, 1.0]])?;
    /// let set = MetricSet::Features { lambda: 1.0 };
    /// let solution = Problem::new(&cloud, &cloud, set)?.solve(&Settings::default())?;
    /// assert!(solution.value < -0.3); // ln 2 − 1
    /// assert_eq!(solution.excess(), 0.0);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn excess(&self) -> f64 {
        if self.moves_nothing() { 0.0 } else { self.value - self.offset }
    }

    /// A lower bound on W − h(0).
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let (a, b) = (Measure::uniform(array![[0.0], [1.0]])?, Measure::uniform(array![[1.0], [3.0]])?);
    /// let solution = Problem::new(&a, &b, MetricSet::Features { lambda: 1.0 })?.solve(&Settings::default())?;
    /// assert!(solution.excess_lower_bound() <= solution.excess());
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn excess_lower_bound(&self) -> f64 {
        if self.moves_nothing() { 0.0 } else { self.lower_bound - self.offset }
    }

    /// Whether W is h(0) exactly, whatever the rounding of that.
    fn moves_nothing(&self) -> bool {
        self.problem.entropy == 0.0 && self.moment.iter().all(|v| v.abs() <= 0.0)
    }

    /// The entries of the plan that carry mass, row by row. Exact plans are sparse; entropic ones are not.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let (a, b) = (Measure::uniform(array![[0.0], [1.0]])?, Measure::uniform(array![[1.0], [0.0]])?);
    /// let solution = Problem::new(&a, &b, MetricSet::W2)?.solve(&Settings::default())?;
    /// let moves: Vec<_> = solution.plan().iter().map(|e| (e.row, e.column)).collect();
    /// assert_eq!(moves, [(0, 1), (1, 0)]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn plan(&self) -> Vec<PlanEntry> {
        self.active.sparse_plan(&self.problem.maps)
    }

    /// The whole plan, m × n.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let (a, b) = (Measure::uniform(array![[0.0], [1.0]])?, Measure::uniform(array![[1.0], [0.0]])?);
    /// let solution = Problem::new(&a, &b, MetricSet::W2)?.solve(&Settings::default())?;
    /// assert_eq!(solution.dense_plan(), array![[0.0, 0.5], [0.5, 0.0]]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn dense_plan(&self) -> Array2<f64> {
        self.active.dense_plan(&self.problem.maps)
    }
}
