//! Frank-Wolfe over plans, carried out on moments. With $M_t = M^\star(V_t)$ and the oracle's plan $\hat\gamma$,
//!
//! $$h(V_t) - \langle M_t, V_t\rangle + D(M_t) \thickspace \le\thickspace W \thickspace \le\thickspace h(V_t), \qquad
//!   D(M) = \min_\gamma \langle C(M), \gamma\rangle + \lambda_\gamma \Omega(\gamma).$$

use ndarray::Array2;

use super::active::ActiveSet;
use super::corrective::correct;
use super::entropic_oracle::EntropicOracle;
use super::line_search::line_search;
use super::model::Model;
use super::oracle::Oracle;
use super::problem::Problem;
use super::settings::{Settings, Solver};
use super::solution::{Solution, Step};
use super::status::Status;
use super::workspace::Workspace;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::linalg::inner;

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
/// Entropy that moves the value by less than this part of the tolerance is not worth a Sinkhorn solve.
const UNSEEN: f64 = 0.25;
/// Relative accuracy of a sum of γ ln γ over a plan.
const SUM_ACCURACY: f64 = 1e-14;
/// With entropy, ⟨V, M⟩ below this part of λ_γ counts as nothing to measure the gap against.
const NEGLIGIBLE: f64 = 1e-8;

/// Solves a problem whose parameters are checked.
pub(super) fn minimise(
    problem: &Problem,
    settings: &Settings,
    room: &mut Workspace,
    device: Option<Box<dyn EntropicOracle>>,
    interrupt: &Interrupt,
) -> Result<Solution> {
    let Problem { maps, source_weights, target_weights, set, entropy, .. } = problem;
    let corrective = matches!(settings.solver, Solver::Auto | Solver::Corrective);
    let mut model = Model::new(set, corrective, maps.independent_moment());
    let mut active = ActiveSet::default();
    let mut best = Best { value: f64::INFINITY, scale: 0.0, active: ActiveSet::default() };
    let mut bounds = Bounds::new(problem)?;
    let mut history = Vec::new();
    let (mut metric, mut penalty) = model.first_metric(maps.independent_moment())?;
    let (mut oracle, probes) = choose_oracle(problem, settings, device, &metric, interrupt)?;
    oracle.swap_room(room);
    let mut promise = f64::INFINITY;
    loop {
        let answer = oracle.call(maps, (source_weights, target_weights), &metric, interrupt)?;
        bounds.raise_lower(answer.dual - penalty);
        model.learn(&metric, answer.dual, promise, bounds.gap());
        let place = active.add(answer.vertex);
        match settings.solver {
            Solver::Classic => active.step_towards(place, 2.0 / (history.len() as f64 + 2.0)),
            Solver::LineSearch => {
                let found = &active.vertices[place];
                let direction = &found.moment - &active.moment();
                let extra = entropy * (found.entropy - active.entropy_bound());
                let theta = line_search(&model, &active.moment(), &direction, extra, LINE_ACCURACY)?;
                active.step_towards(place, theta);
            }
            Solver::Auto | Solver::Corrective => {
                correct(&mut active, &model, *entropy, CORRECTION * model.outlook(bounds.gap(), promise))?;
                active.drop_weightless();
            }
        }

        let moment = active.moment();
        let worst = set.evaluate(&moment)?;
        // Moments of entropic plans come from products, whose rounding the upper bound must cover.
        let omega = entropy * active.entropy_bound();
        let rounding =
            if *entropy > 0.0 { maps.rounding(&worst.metric) + SUM_ACCURACY * omega.abs() } else { 0.0 };
        let bound = omega + rounding;
        if history.is_empty() || worst.value + bound < best.value {
            best = Best {
                value: worst.value + bound,
                scale: inner(&worst.metric, &moment).max(NEGLIGIBLE * entropy),
                active: active.clone(),
            };
        }
        bounds.set_value(best.value);
        history.push(bounds.step(history.len() + 1));
        (metric, penalty) = model.next_metric(&moment, worst)?;
        promise = inner(&moment, &metric) + bound;
        oracle.sharpen(answer.own_gap, model.outlook(bounds.gap(), promise));

        let mut status = bounds.status(settings, best.scale, history.len(), interrupt);
        if status.is_none() && bounds.gap() <= AT_ROUNDING * answer.rounding && !oracle.take_care(maps) {
            status = Some(Status::Stalled);
        }
        if let Some(status) = status {
            oracle.swap_room(room);
            let moment = best.active.moment();
            let worst = set.evaluate(&moment)?;
            let unregularised_value = worst.value;
            let metric = model.final_metric(worst);
            return Ok(Solution {
                value: bounds.value,
                lower_bound: bounds.lower,
                gap: bounds.gap(),
                relative_gap: bounds.relative_gap(best.scale),
                transport_cost: inner(&metric, &moment),
                unregularised_value,
                status,
                iterations: history.len(),
                oracle_calls: history.len() + probes,
                storage: oracle.storage(),
                metric,
                moment,
                source_potential: answer.source_potential,
                target_potential: answer.target_potential,
                history,
                active: best.active,
                maps: maps.clone(),
            });
        }
    }
}

/// Sinkhorn when there is entropy, unless the entropy is too small to be seen: λ ln(mn) is the most it can do. Also
/// returns the calls it took to find out.
fn choose_oracle(
    problem: &Problem,
    settings: &Settings,
    device: Option<Box<dyn EntropicOracle>>,
    metric: &Array2<f64>,
    interrupt: &Interrupt,
) -> Result<(Oracle, usize)> {
    let Problem { maps, source_weights, target_weights, set, entropy, .. } = problem;
    let (a, b) = (source_weights.to_vec(), target_weights.to_vec());
    let most = entropy * ((a.len() * b.len()) as f64).ln();
    let seen = |scale: f64| most > UNSEEN * settings.tol_gap_rel * scale;
    let make = || match device {
        Some(device) if *entropy > 0.0 => Ok(Oracle::on(device, &a, &b, *entropy)),
        _ => Oracle::within(settings.memory, &a, &b, *entropy),
    };
    if *entropy == 0.0 || seen(inner(metric, maps.independent_moment())) {
        return Ok((make()?, 0));
    }
    // Perhaps not seen: the optimal plan, which costs less than the independent one, tells.
    let mut exact = Oracle::exact(settings.memory, &a, &b, *entropy)?;
    let moment = exact.call(maps, (source_weights, target_weights), metric, interrupt)?.vertex.moment;
    let worst = set.evaluate(&moment)?;
    let oracle = if seen(inner(&worst.metric, &moment)) { make()? } else { exact };
    Ok((oracle, 1))
}

/// The best plan so far. Classic and bundle steps may go up now and then.
struct Best {
    value: f64,
    /// ⟨V, M*⟩, what the gap is measured against.
    scale: f64,
    active: ActiveSet,
}

/// The bracket around the optimum and how fast it closes.
struct Bounds {
    value: f64,
    lower: f64,
    best_gap: f64,
    since_progress: usize,
}

impl Bounds {
    /// Every h grows on the positive semi-definite cone, so without entropy h(0) is a bound from the start.
    fn new(problem: &Problem) -> Result<Self> {
        let size = problem.maps.size();
        let lower = if problem.entropy == 0.0 {
            problem.set.evaluate(&Array2::zeros((size, size)))?.value
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

    fn gap(&self) -> f64 {
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
