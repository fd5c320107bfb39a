//! The Sinkhorn divergence under the worst metric M of the cross problem,
//!
//! $$S = W_M(a, b) - \tfrac12 W_M(a, a) - \tfrac12 W_M(b, b), \qquad
//!   W_M(a, b) = \min_{\gamma \in \Pi(a,b)} \langle C(M), \gamma\rangle + \lambda_\gamma \sum_{ij} \gamma_{ij} \ln \gamma_{ij} .$$
//!
//! One metric for all three terms keeps S ≥ 0, with S = 0 between equal measures: the kernel e^{−C(M)/λ} of M ⪰ 0 is positive
//! definite (Feydy et al. 2019).

use std::sync::Arc;

use ndarray::{Array1, Array2};

use super::coordinates::Coordinates;
use super::gradient::{Gradient, centered};
use super::problem::{Problem, SolveOptions};
use super::settings::Settings;
use super::solution::Solution;
use super::status::Status;
use crate::displacement::{Displacements, times};
use crate::error::{Error, Result};
use crate::frame::Rounding;
use crate::interrupt::Interrupt;
use crate::linalg::Eigen;
use crate::metric::MetricSet;

/// The Sinkhorn divergence between two measures under the worst metric of their robust distance, with its bounds.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
///
/// let (a, b) = (array![[1.0, 0.0], [-1.0, 0.0]], array![[0.0, 1.0], [0.0, -1.0]]);
/// let problem = Problem::new(&Measure::uniform(a)?, &Measure::uniform(b)?, MetricSet::P { k: 1 })?.with_entropy(10.0)?;
/// let divergence = problem.divergence(&Settings::default(), &Interrupt::default())?;
/// assert!(0.0 <= divergence.lower_bound && divergence.lower_bound <= divergence.value);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Divergence {
    /// An upper bound on S.
    pub value: f64,
    /// A lower bound on S, at least 0.
    pub lower_bound: f64,
    /// `value` − `lower_bound`.
    pub gap: f64,
    /// gap / ⟨V, M⟩ of the robust distance.
    pub relative_gap: f64,
    /// Converged if the relative gap is within the tolerance, or all four solves have; otherwise how the first of the others ended.
    pub status: Status,
    /// The robust distance, whose worst metric is that of all terms.
    pub cross: Solution,
    /// W_M(a, b), W_M(a, a) and W_M(b, b), with points that were moved by a square root of M.
    terms: [Solution; 3],
    /// The symmetric square root of M, in the coordinates of the cross problem.
    root: Array2<f64>,
}

impl Problem {
    /// The Sinkhorn divergence under the worst metric of this problem.
    ///
    /// # Errors
    /// When there is no entropy, a setting is out of range or the metric is not representable.
    pub fn divergence(&self, settings: &Settings, interrupt: &Interrupt) -> Result<Divergence> {
        if self.entropy == 0.0 {
            return Err(Error::parameter("entropy", "positive for a debiased distance", 0));
        }
        let options = || SolveOptions { interrupt: Some(interrupt), ..SolveOptions::default() };
        let mut cross = self.solve_seen(settings, options(), &mut None)?;
        let eigen = Eigen::new(&cross.metric)?;
        let root = eigen.reassemble(&eigen.values.mapv(|w| w.max(0.0).sqrt()));
        let (source, target) = self.maps.points();
        let sides =
            [(times(source, &root), &self.source_weights), (times(target, &root), &self.target_weights)];
        let solve = |i: usize, j: usize| {
            let ((x, a), (y, b)) = (&sides[i], &sides[j]);
            // The moved points are taken as they are.
            let weights = self.maps.frame().rounding.weights;
            let rounding = Rounding { blur: 0.0, weights: [weights[i], weights[j]] };
            Self::plain((x.clone(), (*a).clone()), (y.clone(), (*b).clone()), rounding, self.entropy)
                .solve_with(settings, options())
        };
        let terms = [solve(0, 1)?, solve(0, 0)?, solve(1, 1)?];
        self.lift(&mut cross);
        let [of_both, of_source, of_target] = &terms;
        let value = of_both.value - 0.5 * (of_source.lower_bound + of_target.lower_bound);
        let lower_bound = (of_both.lower_bound - 0.5 * (of_source.value + of_target.value)).max(0.0);
        // If rounding makes the bounds cross, the overlap counts as the gap.
        let lower_bound = lower_bound.min(2.0 * value - lower_bound);
        let gap = value - lower_bound;
        let relative_gap = if gap == 0.0 { 0.0 } else { gap / cross.transport_cost.max(f64::MIN_POSITIVE) };
        let statuses = [cross.status].into_iter().chain(terms.iter().map(|term| term.status));
        let open = statuses.into_iter().find(|status| *status != Status::Converged);
        let status = match open {
            Some(status) if relative_gap > settings.tol_gap_rel => status,
            _ => Status::Converged,
        };
        Ok(Divergence { value, lower_bound, gap, relative_gap, status, cross, terms, root })
    }

    /// The squared 2-Wasserstein problem between points as they are.
    fn plain(
        (source, source_weights): (Array2<f64>, Array1<f64>),
        (target, target_weights): (Array2<f64>, Array1<f64>),
        rounding: Rounding,
        entropy: f64,
    ) -> Self {
        let width = source.ncols();
        let weights = (&source_weights, &target_weights);
        let maps = Displacements::from_layout((source, target), 1, weights, rounding);
        let coordinates = Coordinates::identity(width);
        Self {
            maps: Arc::new(maps),
            source_weights,
            target_weights,
            set: MetricSet::W2,
            entropy,
            coordinates: Arc::new(coordinates),
            masses: (1.0, 1.0),
        }
    }
}

impl Divergence {
    /// The gradient of S for a metric that is held fixed, in points and weights.
    ///
    /// The metric depends on the points too, and its part of the derivative is left out: this is the gradient of the divergence
    /// under the metric at hand, and the whole gradient where the metric cannot change, as for [`MetricSet::W2`]. The weights of
    /// points without weight have no finite derivative term by term; theirs is NaN.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::solve::Interrupt;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let cloud = Measure::uniform(array![[1.0, 0.0], [-1.0, 0.5]])?;
    /// let problem = Problem::new(&cloud, &cloud, MetricSet::P { k: 1 })?.with_entropy(1.0)?;
    /// let settings = Settings::default().with_tolerance(1e-9);
    /// let gradient = problem.divergence(&settings, &Interrupt::default())?.gradient();
    /// assert!(gradient.source_points.iter().all(|g| g.abs() < 1e-6)); // equal measures have the least divergence
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn gradient(&self) -> Gradient {
        let problem = &self.cross.problem;
        let moves = self.terms.each_ref().map(|term| {
            let Problem { maps, source_weights, target_weights, .. } = &*term.problem;
            term.active.moves(maps, (source_weights, target_weights))
        });
        let [both, of_source, of_target] = moves;
        let features = |moves: Array2<f64>| {
            let forces = times(&(moves * 2.0), &self.root);
            problem.coordinates.grouping.features(&problem.coordinates.laid_out(forces))
        };
        let [on_both, on_source, on_target] = &self.terms;
        let half = |term: &Solution| (&term.source_potential + &term.target_potential) * 0.5;
        Gradient {
            source_points: features(both.0 - (of_source.0 + of_source.1) * 0.5),
            target_points: features(both.1 - (of_target.0 + of_target.1) * 0.5),
            source_weights: centered(
                &(&on_both.source_potential - &half(on_source)),
                &problem.source_weights,
            ) / problem.masses.0,
            target_weights: centered(
                &(&on_both.target_potential - &half(on_target)),
                &problem.target_weights,
            ) / problem.masses.1,
        }
    }
}
