//! Robust optimal transport: compare two distributions when the ground metric itself is uncertain.
//!
//! For measures $\sum_i a_i \delta_{s_i}$ and $\sum_j b_j \delta_{t_j}$ and a family $\mathcal{M}$ of Mahalanobis
//! metrics, this crate solves
//!
//! $$W = \min_{\gamma \in \Pi(a, b)}\ \max_{M \in \mathcal{M}}\ \sum_{ij} \gamma_{ij}\thinspace
//!   (s_i - t_j)^\top M\thinspace (s_i - t_j) - \mathrm{penalty}(M)\quad
//!   \Bigl[ + \lambda_\gamma \sum_{ij} \gamma_{ij} \ln \gamma_{ij} \Bigr].$$
//!
//! The sum is linear in the moment $V_\gamma = \sum_{ij} \gamma_{ij} (s_i - t_j)(s_i - t_j)^\top$, and for every
//! family here the inner maximum $h(V)$ and the metric that attains it are closed forms ([`MetricSet`]). With
//! features in r groups ([`Grouping`]), V and M are r × r. Frank-Wolfe solves the rest, with plain optimal transport
//! as its oracle ([`transport`]), and brackets the optimum: every [`Solution`] carries `lower_bound` ≤ W ≤ `value`.
//!
//! ```
//! use ndarray::array;
//! use robust_ot::{Measure, MetricSet, Problem, Settings};
//!
//! let before = Measure::uniform(array![[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])?;
//! let after = Measure::uniform(array![[0.1, 3.0], [1.0, 4.0], [2.0, 3.1]])?;
//!
//! let solution = Problem::new(&before, &after, MetricSet::P { k: 1 })?.solve(&Settings::default())?;
//! assert!(solution.lower_bound <= solution.value && solution.relative_gap <= 1e-4);
//! assert!(solution.metric[[1, 1]] > 0.99); // the second feature is what changed
//! for entry in solution.plan() {
//!     println!("{} → {}: {:.3}", entry.row, entry.column, entry.mass);
//! }
//! # Ok::<(), robust_ot::Error>(())
//! ```
//!
//! What is solved ([`Problem`]), how ([`Settings`]), the answer ([`Solution`]) and how it ended ([`Status`]) are
//! separate types. Bad input is an [`Error`] that names the rule and the value; failure to converge is a status, with
//! its gap. Results are the same for any number of threads.

pub mod barycenter;
mod differences;
mod displacement;
mod error;
mod frame;
mod grouping;
mod grouping_rule;
mod interrupt;
mod kernels;
/// Matrix products for the other crates of the workspace; not part of the public interface.
#[doc(hidden)]
pub mod linalg;
pub mod loss;
mod measure;
mod metric;
mod robust;
#[cfg(test)]
mod testing;
pub mod transport;

pub use crate::error::{Error, Result};
pub use crate::grouping::Grouping;
/// Vectorized loops for the other crates of the workspace; not part of the public interface.
#[doc(hidden)]
pub use crate::kernels::sealed::Kernels;
#[doc(hidden)]
pub use crate::measure::LARGEST_COORDINATE;
pub use crate::measure::Measure;
pub use crate::metric::MetricSet;
pub use crate::robust::{Problem, Settings, Solution, Status};

/// Metric sets by name and by value: families, their parameters, worst cases, groups of features.
pub mod sets {
    pub use crate::displacement::Displacements;
    pub use crate::grouping_rule::GroupingRule;
    pub use crate::metric::{MetricFamily, Prior, SetParameters, WorstCase};
}

/// How a solve runs: step rules, interrupts, buffers, many pairs at once.
pub mod solve {
    pub use crate::interrupt::Interrupt;
    pub use crate::robust::{
        Divergence, Gradient, LinearOracle, Nearest, NearestSettings, Neighbor, PairDistance, PairSettings,
        SolveOptions, Step, StepRule, Storage, Workspace, nearest, solve_pairs,
    };
}

/// The interface to another device, which solves the plain entropic problems.
pub mod device {
    pub use crate::measure::CloudWeights;
    pub use crate::robust::{
        CloudAnswer, CloudDistance, CloudMoments, CloudOracle, CloudPlan, CloudTask, Corpus, PairAnswers,
        PairOracle, PairRound, solve_cloud_on, solve_pairs_on,
    };
    pub use crate::transport::{EntropicAnswer, EntropicOracle, EntropicTask};
}

/// Lower bounds on distances, without solving.
pub mod bounds {
    pub use crate::robust::{Corpus, Means, Screen};
}

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
