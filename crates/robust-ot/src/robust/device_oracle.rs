//! The linear oracle on another device: C(M) goes there, and a plan with its moment and its dual bound comes back.

use ndarray::{Array1, Array2, Axis};

use super::active::{Vertex, VertexPlan};
use super::oracle::Answer;
use crate::displacement::Displacements;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::linalg::inner;
use crate::transport::{
    CostFactors, Deficits, EntropicAnswer, EntropicOracle, EntropicPlan, EntropicTask, dual_value,
};

/// Rounding error of a sum of n terms e^x, in units of n ε: f_i = −λ ln Σ_j is off by λ times that.
pub(super) const SUM_ROUNDING: f64 = 4.0;

/// Solves for the costs C(M) on a device.
pub(super) fn call(
    device: &mut dyn EntropicOracle,
    maps: &Displacements,
    (a, b): (&Array1<f64>, &Array1<f64>),
    metric: &Array2<f64>,
    regularization: f64,
    (tolerance, max_sweeps): (f64, usize),
    interrupt: &Interrupt,
) -> Result<Answer> {
    let CostFactors { x, y, alpha, beta, .. } = maps.cost_factors(metric);
    let found = device.solve(&EntropicTask {
        source_weights: a,
        target_weights: b,
        x: &x,
        y: &y,
        alpha: &alpha,
        beta: &beta,
        regularization,
        tolerance,
        max_sweeps,
        interrupt,
    })?;
    let plan = EntropicPlan::rounded(a, b, &found, regularization);
    let (moment, entropy) = measure(maps, &plan, &found);
    let absolute = |potential: &Array1<f64>, weights: &Array1<f64>| {
        potential + &weights.mapv(|w| regularization * w.ln())
    };
    let (source_potential, target_potential) = (absolute(&found.f, a), absolute(&found.g, b));
    let (dual, of_dual) = dual_value((a, b), (&source_potential, &target_potential));
    let of_sums = regularization * SUM_ROUNDING * f64::EPSILON * b.len() as f64;
    let rounding = of_dual + of_sums + maps.rounding(metric);
    let own_gap = inner(metric, &moment) + regularization * entropy - (dual - rounding);
    let moment_rounding = maps.frame().moment_rounding() + maps.rounding_of_unplaced(plan.deficits());
    let plan = VertexPlan::Entropic { metric: metric.clone(), plan: Box::new(plan) };
    let vertex = Vertex::new(moment, moment_rounding, entropy, plan);
    Ok(Answer {
        vertex,
        near: Vec::new(),
        dual: dual - rounding,
        rounding,
        own_gap,
        source_potential,
        target_potential,
    })
}

/// V of the feasible plan A + e e'ᵀ, and a bound on its Σ γ ln γ. With δ the mass of the second part,
/// Ω(A + B) ≤ Ω(A) − (1−δ) ln(1−δ) + Ω(B) − δ ln δ, by convexity.
fn measure(maps: &Displacements, plan: &EntropicPlan, found: &EntropicAnswer) -> (Array2<f64>, f64) {
    let Deficits { rows: e, columns: share, .. } = plan.deficits();
    let missing = e.sum();
    let mut spread = found.spread.clone();
    let mut entropy = found.entropy;
    if missing > 0.0 {
        let to = share.dot(maps.points().1);
        for (mut row, &e) in spread.axis_iter_mut(Axis(0)).zip(e) {
            row.scaled_add(e, &to);
        }
        // All mass may be missing, but for rounding.
        let power = |x: f64| if x > 0.0 { x * x.ln() } else { 0.0 };
        let powers = |x: &Array1<f64>| x.iter().map(|x| power(*x)).sum::<f64>();
        entropy += powers(e) + missing * powers(share) - power(missing) - power(1.0 - missing);
    }
    (maps.moment_of_spread(&spread), entropy)
}
