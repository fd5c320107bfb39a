//! The distance of two clouds whose points stay on another device: it returns sums over them, and the descent goes on here.

use std::fmt;

use ndarray::{Array1, Array2, Axis};

use super::active::{Vertex, VertexPlan};
use super::descent::{Descent, End};
use super::oracle::{FIRST_TOLERANCE, sharpened, tolerance_floor};
use super::settings::Settings;
use super::status::Status;
use crate::displacement::{by_slots, symmetrized};
use crate::error::Result;
use crate::frame::{Frame, OF_CENTERING, Rounding};
use crate::grouping::Grouping;
use crate::interrupt::Interrupt;
use crate::linalg::{inner, product};
use crate::measure::CloudWeights;
use crate::metric::MetricSet;

/// Rounding error of a sum of n terms e^x, in units of n ε.
const SUM_ROUNDING: f64 = 4.0;

/// Solves plain entropic transport between two clouds on another device, each call warm-started from the last.
pub trait CloudOracle: fmt::Debug + Send {
    /// The moments of the points, centered between their means.
    ///
    /// # Errors
    /// When the device fails.
    fn moments(&mut self) -> Result<CloudMoments>;

    /// Finds a plan for a metric and measures it.
    ///
    /// # Errors
    /// When the device fails.
    fn solve(&mut self, task: &CloudTask<'_>) -> Result<CloudAnswer>;
}

/// Sums over two clouds.
#[derive(Debug, Clone)]
pub struct CloudMoments {
    /// Σ a_i s_iᵀ s_i + Σ b_j t_jᵀ t_j over slots.
    pub shared: Array2<f64>,
    /// Σ a_i s_i and Σ b_j t_j, slots · r numbers each.
    pub means: (Array1<f64>, Array1<f64>),
}

/// A plain problem, min over plans of ⟨C(M), γ⟩ + λ Σ γ ln γ.
#[derive(Debug, Clone, Copy)]
pub struct CloudTask<'a> {
    /// M, r × r.
    pub metric: &'a Array2<f64>,
    /// λ.
    pub regularization: f64,
    /// The marginal error that is allowed.
    pub tolerance: f64,
    /// The most sweeps.
    pub max_sweeps: usize,
    /// Once interrupted, the oracle returns its current plan.
    pub interrupt: &'a Interrupt,
}

/// What bounds need of a plan with the right marginals, measured in double precision.
#[derive(Debug, Clone)]
pub struct CloudAnswer {
    /// Σ γ_ij s_iᵀ t_j over slots.
    pub cross: Array2<f64>,
    /// A bound on Σ γ ln γ.
    pub entropy: f64,
    /// ⟨a, f⟩ + ⟨b, g⟩ of potentials whose plan has the right row sums.
    pub dual: f64,
    /// A bound on its rounding error.
    pub dual_rounding: f64,
    /// As [`PairAnswers::unplaced`](super::PairAnswers::unplaced).
    pub unplaced: f64,
}

/// A distance of two clouds, and the plans that it is made of.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CloudDistance {
    /// An upper bound on the optimum: the value of the combination of plans.
    pub value: f64,
    /// A lower bound on the optimum.
    pub lower_bound: f64,
    /// (value − lower_bound) / ⟨V, M⟩.
    pub relative_gap: f64,
    /// How the solve ended.
    pub status: Status,
    /// Oracle calls.
    pub iterations: usize,
    /// The worst metric for the combination.
    pub metric: Array2<f64>,
    /// The plans of the combination.
    pub plans: Vec<CloudPlan>,
    /// The call whose potentials give the lower bound, and its metric.
    pub potentials: (usize, Array2<f64>),
}

/// A plan of a [`CloudDistance`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CloudPlan {
    /// The call of the oracle that returned it, counted from 0.
    pub call: usize,
    /// The metric of that call.
    pub metric: Array2<f64>,
    /// Its weight in the combination.
    pub weight: f64,
}

/// Computes the distance of two clouds on a device. `None` means that the costs leave its range.
///
/// # Errors
/// When a setting is out of range or does not fit, or the device fails.
pub fn solve_cloud_on(
    oracle: &mut dyn CloudOracle,
    (source, target): (&CloudWeights, &CloudWeights),
    grouping: &Grouping,
    (set, entropy): (&MetricSet, f64),
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<Option<CloudDistance>> {
    settings.check()?;
    set.check(grouping.groups())?;
    super::check_entropy(entropy)?;
    let frame = frame(oracle.moments()?, (source, target), grouping);
    if !frame.shared.iter().chain(&frame.independent).all(|x| x.is_finite()) {
        return Ok(None);
    }
    let mut descent = Descent::new(set, entropy, &frame, settings)?;
    let (mut tolerance, floor) = (FIRST_TOLERANCE, tolerance_floor(frame.points));
    let of_sums = entropy * SUM_ROUNDING * f64::EPSILON * target.weights().len() as f64;
    let mut potentials = (0, descent.metric.clone());
    for call in 0.. {
        let metric = descent.metric.clone();
        let found = oracle.solve(&CloudTask {
            metric: &metric,
            regularization: entropy,
            tolerance,
            max_sweeps: settings.max_sweeps,
            interrupt,
        })?;
        let moment = symmetrized(&frame.shared - &found.cross - found.cross.t());
        let rounding = found.dual_rounding + of_sums + frame.rounding(&metric);
        let (dual, of_moment) = (found.dual - rounding, frame.moment_rounding() + found.unplaced);
        let numbers = [dual, found.entropy, of_moment];
        if !numbers.iter().chain(&moment).all(|x| x.is_finite()) {
            return Ok(None);
        }
        let own_gap = inner(&metric, &moment) + entropy * found.entropy - dual;
        if descent.raises_lower(dual) {
            potentials = (call, metric.clone());
        }
        let plan = VertexPlan::OnDevice { call, metric };
        descent.take(Vertex::new(moment, of_moment, found.entropy, plan), Vec::new(), dual)?;
        tolerance = sharpened(tolerance, floor, own_gap, descent.outlook());
        let stalled = descent.at_rounding(rounding).then_some(Status::Stalled);
        let Some(status) = descent.status(interrupt).or(stalled) else { continue };
        let (value, lower_bound, iterations) =
            (descent.bounds.value, descent.bounds.lower, descent.history.len());
        let End { relative_gap, metric, active, .. } = descent.end()?;
        let plans = active.vertices.iter().zip(&active.weights).filter_map(|(vertex, &weight)| {
            let VertexPlan::OnDevice { call, metric } = &vertex.plan else { return None };
            Some(CloudPlan { call: *call, metric: metric.clone(), weight })
        });
        let plans = plans.collect();
        return Ok(Some(CloudDistance {
            value,
            lower_bound,
            relative_gap,
            status,
            iterations,
            metric,
            plans,
            potentials,
        }));
    }
    unreachable!("the number of calls is limited")
}

fn frame(
    CloudMoments { shared, means }: CloudMoments,
    (source, target): (&CloudWeights, &CloudWeights),
    grouping: &Grouping,
) -> Frame {
    let groups = grouping.groups();
    let (source_mean, target_mean) = (means.0.insert_axis(Axis(0)), means.1.insert_axis(Axis(0)));
    let cross = product(by_slots(source_mean.view(), groups).t(), by_slots(target_mean.view(), groups));
    let independent = symmetrized(&shared - &cross - cross.t());
    let points = source.weights().len() + target.weights().len();
    let rounding = Rounding { blur: OF_CENTERING, weights: [source, target].map(CloudWeights::rounding) };
    Frame { shared, independent, dim: grouping.slots() * groups, points, rounding }
}
