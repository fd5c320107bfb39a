//! The corrective step: $\min_{w \in \Delta} h(\sum_i w_i V_i) + \lambda \sum_i w_i \Omega_i$ over the plans found so
//! far, by Newton's method on the simplex.

use ndarray::Array1;

use super::active::ActiveSet;
use super::line_search::line_search;
use super::model::Model;
use super::simplex_qp::simplex_qp;
use crate::error::Result;
use crate::kernels::sealed::Kernels;
use crate::linalg::{difference, flat};
use crate::metric::WorstCase;

/// The most Newton steps of one correction; the next correction continues from there.
const MAX_NEWTON: usize = 30;
/// The line search along a Newton step stops when the slope has fallen to this fraction of its initial value.
const LINE_ACCURACY: f64 = 0.1;
/// The quadratic program is solved to this fraction of the decrease that its step promises.
const STEP_ACCURACY: f64 = 0.01;

/// Moves the weights until no vertex promises to lower the objective by more than `tolerance`. Returns the worst case there.
/// `known` is the worst case at the start, if the model has not changed since it was found.
pub(super) fn correct(
    active: &mut ActiveSet,
    model: &Model,
    known: Option<WorstCase>,
    entropy: f64,
    tolerance: f64,
) -> Result<WorstCase> {
    let mut moment = active.moment();
    let mut worst = known.map_or_else(|| model.evaluate(&moment), Ok)?;
    // Weights sum to one, so what all moments have in common does not matter; without it, less is lost to rounding.
    let away: Vec<_> = active.vertices.iter().map(|vertex| difference(&vertex.moment, &moment)).collect();
    for _ in 0..MAX_NEWTON {
        let entropies = active.vertices.iter().map(|vertex| entropy * vertex.entropy);
        let slopes: Array1<f64> =
            away.iter().zip(entropies).map(|(v, o)| f64::dot(flat(v), flat(&worst.metric)) + o).collect();
        let mean: f64 = active.weights.iter().zip(&slopes).map(|(w, s)| w * s).sum();
        let promised = mean - slopes.iter().copied().fold(f64::INFINITY, f64::min);
        if promised <= tolerance {
            break;
        }
        let hessian = model.curvature(&moment, &worst).gram(&away);
        let next = simplex_qp(&slopes, &hessian, &active.weights, STEP_ACCURACY * promised);
        let step: Vec<f64> = next.iter().zip(&active.weights).map(|(next, w)| next - w).collect();
        let extra = active.vertices.iter().zip(&step).map(|(vertex, s)| entropy * vertex.entropy * s).sum();
        let direction = active.combine(&step);
        let theta;
        (theta, worst) = line_search(model, (&moment, worst), &direction, extra, LINE_ACCURACY)?;
        if theta <= 0.0 {
            break;
        }
        moment.scaled_add(theta, &direction);
        if theta >= 1.0 {
            active.weights = next;
        } else {
            active.weights.iter_mut().zip(&step).for_each(|(w, s)| *w += theta * s);
        }
    }
    let total: f64 = active.weights.iter().sum();
    debug_assert!((total - 1.0).abs() < 1e-6, "weights sum to {total}");
    active.weights.iter_mut().for_each(|w| *w /= total);
    Ok(worst)
}
