//! Frank-Wolfe over plans, carried out on moments. With $M_t = M^\star(V_t)$ and the oracle's plan $\hat\gamma$,
//!
//! $$h(V_t) - \langle M_t, V_t\rangle + D(M_t) \thickspace \le\thickspace W \thickspace \le\thickspace h(V_t), \qquad
//!   D(M) = \min_\gamma \langle C(M), \gamma\rangle + \lambda_\gamma \Omega(\gamma).$$
//!
//! A [`Descent`] is the state of one problem between two oracle calls.

use ndarray::Array2;

use super::active::{ActiveSet, Vertex};
use super::corrective::correct;
use super::line_search::line_search;
use super::model::Model;
use super::settings::{Settings, StepRule};
use super::solution::Step;
use super::status::Status;
use crate::error::Result;
use crate::frame::Frame;
use crate::interrupt::Interrupt;
use crate::linalg::inner;
use crate::metric::{MetricSet, WorstCase};

/// With a proximal term, a plan for this many points per direction costs as much as its neighbors' share of a correction.
const POINTS_PER_DIRECTION: usize = 200;
/// The line-search rule stops when the slope has fallen to this fraction of its initial value.
const LINE_ACCURACY: f64 = 1e-6;
/// An iteration makes progress if it shrinks the gap to this fraction of the smallest so far, or below.
const PROGRESS: f64 = 0.99;
/// A solve has stalled after this many iterations without progress.
const PATIENCE: usize = 100;
/// A gap within this factor of the rounding allowance cannot shrink further.
const AT_ROUNDING: f64 = 2.0;
/// With entropy, the scale of the relative gap is ⟨V, M⟩ or this fraction of λ_γ, whichever is larger.
pub(super) const NEGLIGIBLE: f64 = 1e-7;

/// The state of one problem between two oracle calls.
#[derive(Debug)]
pub(crate) struct Descent<'a> {
    set: &'a MetricSet,
    entropy: f64,
    settings: &'a Settings,
    pub(super) frame: &'a Frame,
    model: Model<'a>,
    active: ActiveSet,
    best: Best,
    pub(crate) bounds: Bounds,
    pub(super) history: Vec<Step>,
    /// M_t, the metric of the next oracle call, and its penalty in the dual.
    pub(crate) metric: Array2<f64>,
    penalty: f64,
    /// The model's worst case where the last correction ended.
    corrected: Option<WorstCase>,
    /// The model's upper estimate of the value at M_t.
    promise: f64,
    /// The rounding allowance in the last value.
    charged: f64,
}

/// The result of a descent.
#[derive(Debug)]
pub(super) struct End {
    pub(super) relative_gap: f64,
    pub(super) metric: Array2<f64>,
    pub(super) moment: Array2<f64>,
    pub(super) unregularized_value: f64,
    pub(super) active: ActiveSet,
}

impl<'a> Descent<'a> {
    /// The state before the first oracle call.
    pub(crate) fn new(
        set: &'a MetricSet,
        entropy: f64,
        frame: &'a Frame,
        settings: &'a Settings,
    ) -> Result<Self> {
        let corrective = matches!(settings.step_rule, StepRule::Auto | StepRule::Corrective);
        let model = Model::new(set, corrective, &frame.independent);
        let (metric, penalty) = model.first_metric(&frame.independent)?;
        Ok(Self {
            set,
            entropy,
            settings,
            frame,
            model,
            active: ActiveSet::default(),
            best: Best { value: f64::INFINITY, scale: 0.0, active: ActiveSet::default() },
            bounds: Bounds::new(set, entropy, frame.size())?,
            history: Vec::new(),
            metric,
            penalty,
            corrected: None,
            promise: f64::INFINITY,
            charged: 0.0,
        })
    }

    /// Takes a plan for the current metric, and a lower bound on the cost of any plan under it.
    pub(crate) fn take(&mut self, vertex: Vertex, near: Vec<Vertex>, dual: f64) -> Result<()> {
        let Self { set, entropy, frame, model, active, best, bounds, history, .. } = self;
        bounds.raise_lower(dual - self.penalty);
        let changed = model.learn(&self.metric, dual, self.promise, bounds.gap());
        let known = self.corrected.take().filter(|_| !changed);
        let place = active.add(vertex);
        let corrected = match self.settings.step_rule {
            StepRule::Classic => {
                active.step_towards(place, 2.0 / (history.len() as f64 + 2.0));
                None
            }
            StepRule::LineSearch => {
                let found = &active.vertices[place];
                let moment = active.moment();
                let direction = &found.moment - &moment;
                let extra = *entropy * (found.entropy - active.entropy_bound());
                let start = (&moment, model.evaluate(&moment)?);
                let (theta, _) = line_search(model, start, &direction, extra, LINE_ACCURACY)?;
                active.step_towards(place, theta);
                None
            }
            StepRule::Auto | StepRule::Corrective => {
                near.into_iter().for_each(|vertex| {
                    active.add(vertex);
                });
                let tolerance = model.correction() * model.outlook(bounds.gap(), self.promise);
                let corrected = correct(active, model, known, *entropy, tolerance)?;
                active.drop_idle();
                Some(corrected)
            }
        };

        let moment = active.moment();
        let omega = *entropy * active.entropy_bound();
        // A value that cannot be the least so far is not computed.
        let mut worst = None;
        let least = match &corrected {
            Some(corrected) if !history.is_empty() => model.least(set, &moment, corrected)?,
            _ => f64::NEG_INFINITY,
        };
        if least + omega < best.value {
            let found = set.evaluate(&moment)?;
            // The upper bound covers the rounding of the moment, of h, of points and weights and of the entropy.
            let trace = moment.diag().sum();
            let of_moment = active.rounding(&moment);
            let mut rounding = set.rounding(&moment, &found);
            if *entropy > 0.0 {
                rounding += *entropy * frame.entropy_rounding(active.entropy_bound());
            }
            let of_nothing = rounding;
            // A moment from products may be zero or less by its rounding alone, which counts all the same.
            rounding += set.largest_change(&found, of_moment + frame.strayed(trace.max(0.0) + of_moment));
            self.charged = rounding;
            let value = found.value + omega + rounding;
            if history.is_empty() || value < best.value {
                *best = Best {
                    value,
                    // Where an exact plan moves nothing the gap is the rounding of h(0), relative to the terms of that.
                    scale: if trace > 0.0 || *entropy > 0.0 {
                        inner(&found.metric, &moment).max(NEGLIGIBLE * *entropy)
                    } else {
                        of_nothing / f64::EPSILON
                    },
                    active: active.carrying(),
                };
            }
            worst = Some(found);
        }
        bounds.set_value(best.value);
        history.push(bounds.step(history.len() + 1));
        (self.metric, self.penalty) = model.next_metric((&moment, best.value), worst, corrected.as_ref())?;
        self.corrected = corrected;
        self.promise = inner(&moment, &self.metric) + omega + self.charged;
        Ok(())
    }

    /// Whether a dual value for the current metric gives a better lower bound.
    pub(super) fn raises_lower(&self, dual: f64) -> bool {
        dual - self.penalty > self.bounds.lower
    }

    /// Whether moments of neighboring plans are worth their cost for this number of points.
    pub(super) fn wants_neighbors(&self, points: usize) -> bool {
        !self.model.is_bundle() || points >= POINTS_PER_DIRECTION * self.frame.size()
    }

    /// The most that the next oracle call can change.
    pub(crate) fn outlook(&self) -> f64 {
        self.model.outlook(self.bounds.gap(), self.promise)
    }

    /// Whether the gap is down to the rounding allowances: that of the value, and `of_dual`.
    pub(crate) fn at_rounding(&self, of_dual: f64) -> bool {
        self.bounds.gap() <= AT_ROUNDING * (self.charged + of_dual)
    }

    /// The reason to stop, if there is one.
    pub(crate) fn status(&self, interrupt: &Interrupt) -> Option<Status> {
        self.bounds.status(self.settings, self.best.scale, self.history.len(), interrupt)
    }

    /// gap / ⟨V, M⟩ of the best plan.
    pub(super) fn relative_gap(&self) -> f64 {
        self.bounds.relative_gap(self.best.scale)
    }

    /// The best plan with its metric.
    pub(super) fn end(self) -> Result<End> {
        let mut moment = self.best.active.moment();
        if self.best.active.has_products() {
            moment = self.frame.settle(moment)?;
        }
        let worst = self.set.evaluate(&moment)?;
        let unregularized_value = worst.value;
        let relative_gap = self.relative_gap();
        let metric = self.model.final_metric(worst);
        Ok(End { relative_gap, metric, moment, unregularized_value, active: self.best.active })
    }
}

/// The best plan so far. Classic and bundle steps may occasionally increase the value.
#[derive(Debug)]
struct Best {
    value: f64,
    /// ⟨V, M*⟩, the scale of the relative gap.
    scale: f64,
    active: ActiveSet,
}

/// The bracket around the optimum and how fast it closes.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) value: f64,
    pub(crate) lower: f64,
    best_gap: f64,
    since_progress: usize,
}

impl Bounds {
    /// Every h grows on the positive semidefinite cone, so without entropy h(0) is a lower bound from the start.
    fn new(set: &MetricSet, entropy: f64, size: usize) -> Result<Self> {
        let lower = if entropy == 0.0 {
            let nothing = Array2::zeros((size, size));
            let worst = set.evaluate(&nothing)?;
            worst.value - set.rounding(&nothing, &worst)
        } else {
            f64::NEG_INFINITY
        };
        Ok(Self { value: f64::INFINITY, lower, best_gap: f64::INFINITY, since_progress: 0 })
    }

    fn raise_lower(&mut self, bound: f64) {
        self.lower = self.lower.max(bound);
    }

    /// Sets the value of the best plan. Both bounds include a rounding allowance; if they still cross, the overlap counts
    /// as the gap.
    fn set_value(&mut self, value: f64) {
        self.value = value;
        if self.lower > value {
            self.lower = value - (self.lower - value);
        }
        if self.gap() <= PROGRESS * self.best_gap {
            self.best_gap = self.gap();
            self.since_progress = 0;
        } else {
            self.since_progress += 1;
        }
    }

    pub(crate) fn gap(&self) -> f64 {
        self.value - self.lower
    }

    /// Whether W is known to lie below a number, or not below it.
    pub(super) fn decide(&self, threshold: f64) -> bool {
        self.value < threshold || self.lower >= threshold
    }

    /// gap / ⟨V, M⟩. A zero gap is a zero relative gap, whatever the scale.
    fn relative_gap(&self, scale: f64) -> f64 {
        if self.gap() == 0.0 { 0.0 } else { self.gap() / scale.max(f64::MIN_POSITIVE) }
    }

    fn step(&self, iteration: usize) -> Step {
        Step { iteration, value: self.value, lower_bound: self.lower }
    }

    fn status(
        &self,
        settings: &Settings,
        scale: f64,
        iterations: usize,
        interrupt: &Interrupt,
    ) -> Option<Status> {
        if self.relative_gap(scale) <= settings.tol_gap_rel {
            Some(Status::Converged)
        } else if interrupt.is_raised() {
            Some(Status::Interrupted)
        } else if iterations >= settings.max_iterations {
            Some(Status::MaxIterations)
        } else if self.since_progress >= PATIENCE {
            Some(Status::Stalled)
        } else {
            None
        }
    }
}
