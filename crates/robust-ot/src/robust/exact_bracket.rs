//! The bracket of an entropic problem that an exact plan gives:
//!
//! $$L_0 - \lambda\thinspace (H(a) + H(b)) \thickspace\le\thickspace W_\lambda \thickspace\le\thickspace
//!   U_0 + \lambda \sum_{ij} \gamma^0_{ij} \ln \gamma^0_{ij},$$
//!
//! where L₀ ≤ min h(V_γ) ≤ h(V_{γ⁰}) ≤ U₀ and H(a) = −Σ a_i ln a_i. The upper bound is the objective at γ⁰. For the lower
//! one, let γ be any plan: h(V_γ) ≥ L₀, and Σ γ ln γ ≥ −H(a) − H(b), because
//! Σ γ_ij ln γ_ij + H(a) + H(b) = Σ γ_ij ln(γ_ij / (a_i b_j)) is a divergence, hence not negative.

use ndarray::Array1;

use super::descent::NEGLIGIBLE;
use super::problem::Problem;
use super::settings::Settings;
use super::solution::{Solution, Step};
use super::status::Status;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::linalg::inner;
use crate::transport::LARGEST_EXACT;

/// An exact plan is of no use to a gap below this fraction of λ (H(a) + H(b)): its own would be wider.
const USEFUL: f64 = 1e-2;

/// H(a) + H(b), the largest −Σ γ ln γ of a plan.
pub(super) fn largest_entropy(a: &Array1<f64>, b: &Array1<f64>) -> f64 {
    let entropy =
        |weights: &Array1<f64>| weights.iter().filter(|w| **w > 0.0).map(|w| -w * w.ln()).sum::<f64>();
    (entropy(a) + entropy(b)).max(0.0)
}

/// Whether the bracket of the exact plan may be narrower than that of an entropic solve.
pub(super) fn may_narrow(problem: &Problem, solution: &Solution) -> bool {
    let Problem { source_weights: a, target_weights: b, entropy, .. } = problem;
    solution.status == Status::Stalled
        && a.len().saturating_mul(b.len()) <= LARGEST_EXACT
        && solution.gap > USEFUL * entropy * largest_entropy(a, b)
}

/// Takes the better of the bounds of an entropic solve and those that an exact solve of the same problem gives.
pub(super) fn narrow(
    problem: &Problem,
    entropic: Solution,
    exact: Solution,
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<Solution> {
    let Problem { source_weights, target_weights, entropy, set, maps, .. } = problem;
    let rounding = |sum: f64| maps.frame().entropy_rounding(sum);
    let most = largest_entropy(source_weights, target_weights);
    let most = entropy * (most + rounding(most));
    let plan: Vec<f64> = exact.plan().iter().map(|e| e.mass).filter(|mass| *mass > 0.0).collect();
    let of_plan = plan.iter().map(|mass| mass * mass.ln()).sum::<f64>();
    let lower = (exact.lower_bound - most).max(entropic.lower_bound);
    let upper = exact.value + entropy * (of_plan + rounding(of_plan));
    let (iterations, oracle_calls) = (entropic.iterations + 1, entropic.oracle_calls + exact.oracle_calls);
    let mut history = entropic.history.clone();
    let mut solution = if upper < entropic.value { Solution { value: upper, ..exact } } else { entropic };
    let worst = set.evaluate(&solution.moment)?;
    let scale = inner(&worst.metric, &solution.moment).max(NEGLIGIBLE * entropy);
    // If rounding makes the bounds cross, the overlap counts as the gap.
    let lower = lower.min(2.0 * solution.value - lower);
    history.push(Step { iteration: iterations, value: solution.value, lower_bound: lower });
    solution.lower_bound = lower;
    solution.gap = solution.value - lower;
    solution.relative_gap =
        if solution.gap == 0.0 { 0.0 } else { solution.gap / scale.max(f64::MIN_POSITIVE) };
    solution.status = if solution.relative_gap <= settings.tol_gap_rel {
        Status::Converged
    } else if interrupt.is_raised() {
        Status::Interrupted
    } else {
        Status::Stalled
    };
    (solution.history, solution.iterations, solution.oracle_calls) = (history, iterations, oracle_calls);
    Ok(solution)
}
