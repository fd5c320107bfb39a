//! The solve loop of one problem: a descent on moments, and the oracle that it calls.

use std::sync::Arc;

use ndarray::{Array1, Array2};

use super::descent::{Descent, End};
use super::exact_bracket::{largest_entropy, may_narrow, narrow};
use super::oracle::LinearOracle;
use super::problem::Problem;
use super::settings::{Settings, StepRule};
use super::solution::Solution;
use super::status::Status;
use super::workspace::Workspace;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::linalg::inner;
use crate::transport::EntropicOracle;

/// Entropy that changes the value by less than this fraction of the tolerance is not worth a Sinkhorn solve.
const NEGLIGIBLE_ENTROPY: f64 = 0.25;
/// The relative gap below which the oracle also returns neighboring plans: there the metric changes little from call to
/// call, and so does the optimal plan.
const CLOSE: f64 = 1e-2;
/// The number of pivots that lead to neighboring plans. Their moments are worth computing: they halve the calls to a gap
/// of 1e-6.
const NEAR: usize = 5;
/// Neighboring plans are used only while the gap is more than this many times the tolerance.
const FAR: f64 = 10.0;

/// With a threshold, the first exact plan takes at most this many pivots per point, a third of what it takes to the optimum of 1000 rows: it
/// is feasible, so its value may already be below the threshold. The next call continues from the tree reached.
const FIRST_PIVOTS: usize = 4;

/// What ends a solve before its tolerance is reached.
#[derive(Clone, Copy)]
pub(super) struct When<'a> {
    pub interrupt: &'a Interrupt,
    /// The number that W is compared with.
    pub threshold: Option<f64>,
}

/// Solves a problem whose parameters have been checked, on a device or with the oracle of an earlier solve. If an entropic solve stalls, the exact plan may still give better
/// bounds.
pub(super) fn minimize(
    problem: &Problem,
    settings: &Settings,
    workspace: &mut Workspace,
    oracles: (Option<Box<dyn EntropicOracle>>, &mut Option<LinearOracle>),
    end: When<'_>,
) -> Result<Solution> {
    let solution = descend(problem, settings, workspace, oracles, end)?;
    if problem.entropy == 0.0 || !may_narrow(problem, &solution) {
        return Ok(solution);
    }
    let mut without = problem.clone();
    without.entropy = 0.0;
    let exact = descend(&without, settings, workspace, (None, &mut None), When { threshold: None, ..end })?;
    narrow(problem, solution, exact, settings, end.interrupt)
}

/// Frank-Wolfe from the first oracle call to the last.
fn descend(
    problem: &Problem,
    settings: &Settings,
    workspace: &mut Workspace,
    (device, earlier): (Option<Box<dyn EntropicOracle>>, &mut Option<LinearOracle>),
    When { interrupt, threshold }: When<'_>,
) -> Result<Solution> {
    let Problem { maps, source_weights, target_weights, set, entropy, .. } = problem;
    let mut descent = Descent::new(set, *entropy, maps.frame(), settings)?;
    let (mut oracle, probes) = match earlier.take() {
        Some(oracle) => (oracle, 0),
        None => choose_oracle(problem, settings, device, &descent.metric, interrupt)?,
    };
    oracle.swap_buffers(workspace);
    oracle.limit_sweeps(settings.max_sweeps);
    let mut potentials = (Array1::zeros(0), Array1::zeros(0));
    let points = source_weights.len() + target_weights.len();
    let corrects = matches!(settings.step_rule, StepRule::Auto | StepRule::Corrective)
        && descent.wants_neighbors(points);
    if threshold.is_some() {
        oracle.limit_pivots(FIRST_PIVOTS * points);
    }
    loop {
        let gap = descent.relative_gap();
        let close = corrects && gap <= CLOSE && gap > FAR * settings.tol_gap_rel;
        let near = if close { NEAR } else { 0 };
        let answer = oracle.call(maps, (source_weights, target_weights), &descent.metric, near, interrupt)?;
        oracle.limit_pivots(usize::MAX);
        if descent.history.is_empty() || descent.raises_lower(answer.dual) {
            potentials = (answer.source_potential, answer.target_potential);
        }
        descent.take(answer.vertex, answer.near, answer.dual)?;
        oracle.sharpen(answer.own_gap, descent.outlook());
        let decided = threshold.is_some_and(|threshold| descent.bounds.decide(threshold));
        let mut status = descent.status(interrupt).or(decided.then_some(Status::Decided));
        if status.is_none() && descent.at_rounding(answer.rounding) && !oracle.use_differences(maps) {
            status = Some(Status::Stalled);
        }
        if let Some(status) = status {
            oracle.swap_buffers(workspace);
            let (value, lower_bound, history) =
                (descent.bounds.value, descent.bounds.lower, descent.history.clone());
            let End { relative_gap, metric, moment, unregularized_value, active } = descent.end()?;
            let storage = oracle.storage();
            *earlier = Some(oracle);
            return Ok(Solution {
                value,
                lower_bound,
                gap: value - lower_bound,
                relative_gap,
                transport_cost: inner(&metric, &moment),
                unregularized_value,
                offset: set.offset(moment.nrows())?,
                status,
                iterations: history.len(),
                oracle_calls: history.len() + probes,
                storage,
                metric,
                moment,
                source_potential: potentials.0,
                target_potential: potentials.1,
                history,
                active,
                problem: Arc::new(problem.clone()),
            });
        }
    }
}

/// Chooses Sinkhorn if there is entropy, unless the entropy is negligible: it changes the value by at most λ (H(a) + H(b)).
/// Also returns the number of oracle calls that the choice took.
fn choose_oracle(
    problem: &Problem,
    settings: &Settings,
    device: Option<Box<dyn EntropicOracle>>,
    metric: &Array2<f64>,
    interrupt: &Interrupt,
) -> Result<(LinearOracle, usize)> {
    let Problem { maps, source_weights, target_weights, set, entropy, .. } = problem;
    let (a, b) = (source_weights.to_vec(), target_weights.to_vec());
    let most = entropy * largest_entropy(source_weights, target_weights);
    let seen = |scale: f64| most > NEGLIGIBLE_ENTROPY * settings.tol_gap_rel * scale;
    // A requested device is used even if the entropy is negligible.
    if let Some(device) = device.filter(|_| *entropy > 0.0) {
        return Ok((LinearOracle::on(device, &a, &b, *entropy), 0));
    }
    let make = || LinearOracle::within(settings.memory, &a, &b, *entropy);
    if *entropy == 0.0 || seen(inner(metric, maps.independent_moment())) {
        return Ok((make()?, 0));
    }
    // The entropy may be negligible: the optimal plan, which costs less than the independent one, decides.
    let mut exact = LinearOracle::exact(settings.memory, &a, &b, *entropy)?;
    let moment = exact.call(maps, (source_weights, target_weights), metric, 0, interrupt)?.vertex.moment;
    let worst = set.evaluate(&moment)?;
    let oracle = if seen(inner(&worst.metric, &moment)) { make()? } else { exact };
    Ok((oracle, 1))
}
