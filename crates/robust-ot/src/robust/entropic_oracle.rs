//! Entropic transport on another device: the task that its oracle receives, and the answer it must return for the bounds
//! to be sound.

use std::fmt;

use ndarray::{Array1, Array2, Axis};

use super::active::{Vertex, VertexPlan};
use super::oracle::Answer;
use crate::displacement::Displacements;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::linalg::inner;
use crate::transport::{CostFactors, EntropicPlan, dual_value};

/// Rounding error of a sum of n terms e^x, in units of n ε.
const SUM_ROUNDING: f64 = 4.0;

/// Solves plain entropic transport on another device, each call warm-started from the last.
pub trait EntropicOracle: fmt::Debug + Send {
    /// Finds a plan for these costs, with a marginal error of at most the tolerance where that can be reached.
    ///
    /// # Errors
    /// When the device fails.
    fn solve(&mut self, task: &EntropicTask<'_>) -> Result<EntropicAnswer>;
}

/// $\min_\gamma \langle C, \gamma\rangle + \lambda \sum \gamma \ln \gamma$ with
/// $C_{ij} = \alpha_i + \beta_j - 2 x_i \cdot y_j$.
#[derive(Debug, Clone, Copy)]
pub struct EntropicTask<'a> {
    /// Weights of the source, with sum one.
    pub source_weights: &'a Array1<f64>,
    /// Weights of the target, with sum one.
    pub target_weights: &'a Array1<f64>,
    /// x, one row per source point.
    pub x: &'a Array2<f64>,
    /// y, one row per target point: also the points by which the plan is multiplied.
    pub y: &'a Array2<f64>,
    /// α.
    pub alpha: &'a Array1<f64>,
    /// β.
    pub beta: &'a Array1<f64>,
    /// λ.
    pub regularisation: f64,
    /// The marginal error that is allowed.
    pub tolerance: f64,
    /// Once interrupted, the oracle returns its current plan.
    pub interrupt: &'a Interrupt,
}

/// The plan $\gamma_{ij} = a_i b_j e^{(f_i + g_j - C_{ij})/\lambda}$, measured in double precision.
#[derive(Debug, Clone)]
pub struct EntropicAnswer {
    /// f, exact for g: the rows of the plan sum to a, up to rounding.
    pub f: Array1<f64>,
    /// g.
    pub g: Array1<f64>,
    /// Column sums of the plan.
    pub columns: Array1<f64>,
    /// Row sums after every column whose sum exceeds b is scaled down to b.
    pub row_sums: Array1<f64>,
    /// γ y of the scaled plan, one row per source point.
    pub spread: Array2<f64>,
    /// Σ γ ln γ of the scaled plan.
    pub entropy: f64,
}

/// Solves for the costs C(M) on a device.
pub(super) fn call(
    device: &mut dyn EntropicOracle,
    maps: &Displacements,
    (a, b): (&Array1<f64>, &Array1<f64>),
    metric: &Array2<f64>,
    (regularisation, tolerance): (f64, f64),
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
        regularisation,
        tolerance,
        interrupt,
    })?;
    let plan = EntropicPlan::rounded(a, b, &found, regularisation);
    let (moment, entropy) = measure(maps, &plan, &found);
    let absolute = |potential: &Array1<f64>, weights: &Array1<f64>| {
        potential + &weights.mapv(|w| regularisation * w.ln())
    };
    let (source_potential, target_potential) = (absolute(&found.f, a), absolute(&found.g, b));
    let (dual, of_dual) = dual_value((a, b), (&source_potential, &target_potential));
    let of_sums = regularisation * SUM_ROUNDING * f64::EPSILON * b.len() as f64;
    let rounding = of_dual + of_sums + maps.rounding(metric);
    let own_gap = inner(metric, &moment) + regularisation * entropy - (dual - rounding);
    let plan = VertexPlan::Entropic { metric: metric.clone(), plan: Box::new(plan) };
    let vertex = Vertex::new(moment, entropy, plan);
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
    let (e, share) = plan.deficits();
    let missing = e.sum();
    let mut spread = found.spread.clone();
    let mut entropy = found.entropy;
    if missing > 0.0 {
        let to = share.dot(maps.points().1);
        for (mut row, &e) in spread.axis_iter_mut(Axis(0)).zip(e) {
            row.scaled_add(e, &to);
        }
        let powers = |x: &Array1<f64>| x.iter().filter(|x| **x > 0.0).map(|x| x * x.ln()).sum::<f64>();
        let (kept, of_rest) = (1.0 - missing, powers(e) + missing * powers(share));
        entropy += of_rest - missing * missing.ln() - kept * kept.ln();
    }
    (maps.moment_of_spread(&spread), entropy)
}
