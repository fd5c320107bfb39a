//! Barycenters: the measure with the least mean distance to some others,
//!
//! $$\min_\nu\thickspace F(\nu) = \sum_l w_l\thinspace W(\mu_l, \nu),$$
//!
//! over the positions of its points ([`Barycenters::free_support`]), or over the weights of given points
//! ([`Barycenters::fixed_support`]).

mod bregman;
mod fixed;
mod free;
mod start;

use ndarray::{Array1, Array2};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::grouping::Grouping;
use crate::interrupt::Interrupt;
use crate::measure::Measure;
use crate::metric::MetricSet;
use crate::robust::{LinearOracle, Problem, Settings, Solution, SolveOptions, Status, trace_only};

/// A step must gain at least this fraction of what its slope promises (Armijo).
const ARMIJO: f64 = 1e-4;
/// The number of times that a step is halved before the search is given up.
const HALVINGS: usize = 20;

/// The measures whose barycenter is wanted, with their weights and the distance.
///
/// ```
/// use ndarray::array;
/// use robust_ot::barycenter::{Barycenters, BarycenterSettings};
/// use robust_ot::solve::Interrupt;
/// use robust_ot::{Grouping, Measure, MetricSet};
///
/// let clouds = [0.0, 4.0].map(|shift| Measure::uniform(array![[shift, 0.0], [shift, 1.0]]));
/// let clouds = clouds.into_iter().collect::<Result<Vec<_>, _>>()?;
/// let measures: Vec<&Measure> = clouds.iter().collect();
/// let problem = Barycenters::new(&measures, None, MetricSet::W2, &Grouping::none(2))?;
/// let start = problem.start(2, 0)?;
/// let found = problem.free_support(&start, &BarycenterSettings::default(), &Interrupt::default())?;
/// assert_eq!(found.measure.points(), array![[2.0, 0.0], [2.0, 1.0]]);
/// assert!((found.value - 4.0).abs() < 1e-12);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Barycenters<'a> {
    measures: &'a [&'a Measure],
    weights: Array1<f64>,
    set: MetricSet,
    grouping: Grouping,
    entropy: f64,
}

/// How a barycenter is found.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `solve` | tolerance 1e-6 | how each distance is solved; its relative gap also ends the search | |
/// | `max_steps` | 100 | stop after this many steps | [0, ∞) |
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BarycenterSettings {
    /// How each distance is solved. The search ends when the decrease that the next step promises is below the tolerance
    /// times the mean transport cost (a ten-thousandth of that for `w2` without entropy, whose distances are exact).
    pub solve: Settings,
    /// The maximum number of steps.
    pub max_steps: usize,
}

impl Default for BarycenterSettings {
    fn default() -> Self {
        Self { solve: Settings::default().with_tolerance(1e-6), max_steps: 100 }
    }
}

impl BarycenterSettings {
    /// Sets how each distance is solved.
    #[must_use]
    pub fn with_solve(mut self, solve: Settings) -> Self {
        self.solve = solve;
        self
    }

    /// Sets the maximum number of steps.
    #[must_use]
    pub fn with_max_steps(mut self, max_steps: usize) -> Self {
        self.max_steps = max_steps;
        self
    }
}

/// A measure and its distances to the given ones: `lower_bound` ≤ F(ν) ≤ `value`.
///
/// With free support the bounds are those of F at this measure: F has many local minima, and nothing bounds the least. With fixed
/// support F is convex, and `lower_bound` is one on its minimum.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Barycenter {
    /// ν.
    pub measure: Measure,
    /// An upper bound on Σ w_l W(μ_l, ν).
    pub value: f64,
    /// A lower bound on Σ w_l W(μ_l, ν) and, with fixed support, on the least of all weights.
    pub lower_bound: f64,
    /// The distance from each measure to ν, with its bounds, metric and plan.
    pub distances: Vec<Solution>,
    /// How the search ended.
    pub status: Status,
    /// The values before the first step and after each.
    pub history: Vec<f64>,
}

impl<'a> Barycenters<'a> {
    /// Takes measures with the same number of features, and their weights in the mean; equal ones by default.
    ///
    /// # Errors
    /// When there is no measure, their dimensions differ, the metric set does not fit, or a weight is negative or all are zero.
    pub fn new(
        measures: &'a [&'a Measure],
        weights: Option<&[f64]>,
        set: MetricSet,
        grouping: &Grouping,
    ) -> Result<Self> {
        let Some(first) = measures.first() else {
            return Err(Error::parameter("measures", "at least one measure", 0));
        };
        if let Some(other) = measures.iter().find(|measure| measure.dim() != first.dim()) {
            return Err(Error::Dimension { source_dim: first.dim(), target_dim: other.dim() });
        }
        let equal = vec![1.0; measures.len()];
        let weights = weights.unwrap_or(&equal);
        if weights.len() != measures.len() {
            return Err(Error::WeightCount { weights: weights.len(), points: measures.len() });
        }
        if let Some((index, &value)) =
            weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0))
        {
            return Err(Error::Weight { index, value });
        }
        let sum: f64 = weights.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(Error::Mass { sum });
        }
        let grouping = trace_only(&set, grouping)?.unwrap_or_else(|| grouping.clone());
        let weights = weights.iter().map(|w| w / sum).collect();
        Ok(Self { measures, weights, set, grouping, entropy: 0.0 })
    }

    /// Adds λ_γ Σ γ ln γ to every distance.
    ///
    /// # Errors
    /// When λ_γ is negative, not finite or above 1e200.
    pub fn with_entropy(mut self, entropy: f64) -> Result<Self> {
        crate::robust::check_entropy(entropy)?;
        self.entropy = entropy;
        Ok(self)
    }

    /// The groups that the metrics of the distances are between: one of all features for [`MetricSet::W2`].
    pub fn grouping(&self) -> &Grouping {
        &self.grouping
    }

    /// Solves all distances to a measure. Oracles of earlier solves between the same weights start these.
    fn evaluate(
        &self,
        measure: Measure,
        oracles: &mut [Option<LinearOracle>],
        settings: &Settings,
        interrupt: &Interrupt,
    ) -> Result<Place> {
        let solve = |(from, oracle): (&&Measure, &mut Option<LinearOracle>)| {
            let problem = Problem::grouped(from, &measure, self.set.clone(), &self.grouping)?;
            let options = SolveOptions { interrupt: Some(interrupt), ..SolveOptions::default() };
            problem.with_entropy(self.entropy)?.solve_from(settings, options, oracle)
        };
        let pairs = self.measures.par_iter().zip(oracles.par_iter_mut());
        let distances: Vec<Solution> = pairs.map(solve).collect::<Result<_>>()?;
        let mean = |pick: fn(&Solution) -> f64| -> f64 {
            distances.iter().zip(&self.weights).map(|(solution, w)| w * pick(solution)).sum()
        };
        let (value, lower_bound) = (mean(|s| s.value), mean(|s| s.lower_bound));
        let scale = mean(|s| s.transport_cost) + self.entropy;
        Ok(Place { measure, distances, value, lower_bound, scale })
    }

    /// One oracle for each measure, none of them made yet.
    fn no_oracles(&self) -> Vec<Option<LinearOracle>> {
        self.measures.iter().map(|_| None).collect()
    }

    /// Σ w_l times a matrix of each distance.
    fn mean_of(&self, place: &Place, pick: impl Fn(&Solution) -> Array2<f64>) -> Array2<f64> {
        let mut terms = place.distances.iter().zip(&self.weights).map(|(solution, w)| pick(solution) * *w);
        let first = terms.next().expect("there is a measure");
        terms.fold(first, |sum, term| sum + term)
    }
}

/// A measure with its distances.
#[derive(Debug)]
struct Place {
    measure: Measure,
    distances: Vec<Solution>,
    value: f64,
    lower_bound: f64,
    /// What decreases are compared with.
    scale: f64,
}

impl Place {
    /// Whether a step to here gains enough, given its slope and what the bounds of both places leave open.
    fn gains(&self, from: &Self, slope: f64) -> bool {
        let open = (self.value - self.lower_bound) + (from.value - from.lower_bound);
        self.value <= from.value + ARMIJO * slope + open
    }

    fn end(self, status: Status, history: Vec<f64>) -> Barycenter {
        let Self { measure, distances, value, lower_bound, .. } = self;
        Barycenter { measure, value, lower_bound, distances, status, history }
    }
}

/// The reason to stop before the next step, if there is one. `promised` is the decrease that it promises.
fn ended(
    place: &Place,
    promised: f64,
    steps: usize,
    settings: &BarycenterSettings,
    interrupt: &Interrupt,
) -> Option<Status> {
    if interrupt.is_raised() {
        Some(Status::Interrupted)
    } else if promised <= settings.solve.tol_gap_rel * place.scale {
        // The decrease is only as certain as the distances are.
        Some(
            place
                .distances
                .iter()
                .map(|s| s.status)
                .find(|s| *s != Status::Converged)
                .unwrap_or(Status::Converged),
        )
    } else if steps >= settings.max_steps {
        Some(Status::MaxIterations)
    } else {
        None
    }
}
