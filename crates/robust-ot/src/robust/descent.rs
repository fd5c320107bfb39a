//! Frank-Wolfe over plans, carried out on moments. With $M_t = M^\star(V_t)$ and the oracle's plan $\hat\gamma$,
//!
//! $$h(V_t) - \langle M_t, V_t\rangle + D(M_t) \thickspace \le\thickspace W \thickspace \le\thickspace h(V_t), \qquad
//!   D(M) = \min_\gamma \langle C(M), \gamma\rangle + \lambda_\gamma \Omega(\gamma).$$
//!
//! A [`Descent`] is where one problem stands between two calls of its oracle.

use ndarray::Array2;

use super::active::{ActiveSet, Vertex};
use super::corrective::correct;
use super::frame::Frame;
use super::line_search::line_search;
use super::model::Model;
use super::settings::{Settings, Solver};
use super::solution::Step;
use super::status::Status;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::linalg::inner;
use crate::metric::MetricSet;

/// The corrective step is solved to this part of the gap.
const CORRECTION: f64 = 0.01;
/// The line search of its own rule is exact to this part of the first slope.
const LINE_ACCURACY: f64 = 1e-6;
/// A gap that does not shrink by this factor
const PROGRESS: f64 = 0.99;
/// within this many iterations has stalled.
const PATIENCE: usize = 100;
/// A gap within this factor of the rounding that was charged cannot shrink further.
const AT_ROUNDING: f64 = 2.0;
/// Relative accuracy of a sum of γ ln γ over a plan.
const SUM_ACCURACY: f64 = 1e-14;
/// With entropy, ⟨V, M⟩ below this part of λ_γ counts as nothing to measure the gap against.
const NEGLIGIBLE: f64 = 1e-8;

/// One problem between two calls of its oracle.
#[derive(Debug)]
pub(super) struct Descent<'a> {
    set: &'a MetricSet,
    entropy: f64,
    settings: &'a Settings,
    pub(super) frame: &'a Frame,
    model: Model<'a>,
    active: ActiveSet,
    best: Best,
    pub(super) bounds: Bounds,
    pub(super) history: Vec<Step>,
    /// M_t, what the oracle is asked for next, and its penalty in the dual.
    pub(super) metric: Array2<f64>,
    penalty: f64,
    /// What the model takes the value at M_t to be at most.
    promise: f64,
}

/// Where a descent ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) relative_gap: f64,
    pub(super) metric: Array2<f64>,
    pub(super) moment: Array2<f64>,
    pub(super) unregularised_value: f64,
    pub(super) active: ActiveSet,
}

impl<'a> Descent<'a> {
    /// Before the first call.
    pub(super) fn new(
        set: &'a MetricSet,
        entropy: f64,
        frame: &'a Frame,
        settings: &'a Settings,
    ) -> Result<Self> {
        let corrective = matches!(settings.solver, Solver::Auto | Solver::Corrective);
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
            promise: f64::INFINITY,
        })
    }

    /// Takes a plan for the metric that was asked for, and a lower bound of what any plan costs under it.
    pub(super) fn take(&mut self, vertex: Vertex, near: Vec<Vertex>, dual: f64) -> Result<()> {
        let Self { set, entropy, frame, model, active, best, bounds, history, .. } = self;
        bounds.raise_lower(dual - self.penalty);
        model.learn(&self.metric, dual, self.promise, bounds.gap());
        let place = active.add(vertex);
        match self.settings.solver {
            Solver::Classic => active.step_towards(place, 2.0 / (history.len() as f64 + 2.0)),
            Solver::LineSearch => {
                let found = &active.vertices[place];
                let moment = active.moment();
                let direction = &found.moment - &moment;
                let extra = *entropy * (found.entropy - active.entropy_bound());
                let start = (&moment, model.evaluate(&moment)?);
                let (theta, _) = line_search(model, start, &direction, extra, LINE_ACCURACY)?;
                active.step_towards(place, theta);
            }
            Solver::Auto | Solver::Corrective => {
                near.into_iter().for_each(|vertex| {
                    active.add(vertex);
                });
                correct(active, model, *entropy, CORRECTION * model.outlook(bounds.gap(), self.promise))?;
                active.drop_idle();
            }
        }

        let moment = active.moment();
        let worst = set.evaluate(&moment)?;
        // Moments of entropic plans come from products, whose rounding the upper bound must cover.
        let omega = *entropy * active.entropy_bound();
        let of_products =
            if *entropy > 0.0 { frame.rounding(&worst.metric) + SUM_ACCURACY * omega.abs() } else { 0.0 };
        let rounding = of_products + active.rounding(&worst.metric);
        let bound = omega + rounding;
        if history.is_empty() || worst.value + bound < best.value {
            *best = Best {
                value: worst.value + bound,
                scale: inner(&worst.metric, &moment).max(NEGLIGIBLE * *entropy),
                active: active.carrying(),
            };
        }
        bounds.set_value(best.value);
        history.push(bounds.step(history.len() + 1));
        (self.metric, self.penalty) = model.next_metric(&moment, worst)?;
        self.promise = inner(&moment, &self.metric) + bound;
        Ok(())
    }

    /// How much the next call can change.
    pub(super) fn outlook(&self) -> f64 {
        self.model.outlook(self.bounds.gap(), self.promise)
    }

    /// Whether the gap is no more than what was charged to rounding.
    pub(super) fn at_rounding(&self, charged: f64) -> bool {
        self.bounds.gap() <= AT_ROUNDING * charged
    }

    /// Why to stop, if there is a reason.
    pub(super) fn status(&self, interrupt: &Interrupt) -> Option<Status> {
        self.bounds.status(self.settings, self.best.scale, self.history.len(), interrupt)
    }

    /// gap / ⟨V, M⟩ of the best plan.
    pub(super) fn relative_gap(&self) -> f64 {
        self.bounds.relative_gap(self.best.scale)
    }

    /// The best plan with its metric.
    pub(super) fn end(self) -> Result<End> {
        let moment = self.best.active.moment();
        let worst = self.set.evaluate(&moment)?;
        let unregularised_value = worst.value;
        let relative_gap = self.relative_gap();
        let metric = self.model.final_metric(worst);
        Ok(End { relative_gap, metric, moment, unregularised_value, active: self.best.active })
    }
}

/// The best plan so far. Classic and bundle steps may go up now and then.
#[derive(Debug)]
struct Best {
    value: f64,
    /// ⟨V, M*⟩, what the gap is measured against.
    scale: f64,
    active: ActiveSet,
}

/// The bracket around the optimum and how fast it closes.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) value: f64,
    pub(super) lower: f64,
    best_gap: f64,
    since_progress: usize,
}

impl Bounds {
    /// Every h grows on the positive semi-definite cone, so without entropy h(0) is a bound from the start.
    fn new(set: &MetricSet, entropy: f64, size: usize) -> Result<Self> {
        let lower = if entropy == 0.0 {
            set.evaluate(&Array2::zeros((size, size)))?.value
        } else {
            f64::NEG_INFINITY
        };
        Ok(Self { value: f64::INFINITY, lower, best_gap: f64::INFINITY, since_progress: 0 })
    }

    fn raise_lower(&mut self, bound: f64) {
        self.lower = self.lower.max(bound);
    }

    /// The value of the best plan. Rounding is charged to either bound; should they be in the wrong order all the same,
    /// as much as they overlap counts as gap.
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

    pub(super) fn gap(&self) -> f64 {
        self.value - self.lower
    }

    /// gap / ⟨V, M⟩; nothing is not far from nothing.
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
