//! The corrective step: $\min_{w \in \Delta} h(\sum_i w_i V_i) + \lambda \sum_i w_i \Omega_i$ over the plans found so
//! far, by Newton's method on the simplex.

use ndarray::{Array1, Array2};
use rayon::prelude::*;

use super::active::ActiveSet;
use super::line_search::line_search;
use super::model::Model;
use crate::error::Result;
use crate::linalg::product;
use crate::metric::curvature::Curvature;

/// Newton steps of one correction; the next correction goes on from there.
const MAX_NEWTON: usize = 30;
/// A Newton step is exact enough when the slope along it has fallen to this.
const LINE_ACCURACY: f64 = 0.1;

/// Moves the weights until no vertex promises to lower the objective by more than `tolerance`.
pub(super) fn correct(active: &mut ActiveSet, model: &Model, entropy: f64, tolerance: f64) -> Result<()> {
    let moments = stacked(active.vertices.iter().map(|vertex| &vertex.moment));
    for _ in 0..MAX_NEWTON {
        let moment = active.moment();
        let worst = model.evaluate(&moment)?;
        let slopes = active.slopes(&worst.metric, entropy);
        let mean: f64 = active.weights.iter().zip(&slopes).map(|(w, s)| w * s).sum();
        let promised = mean - slopes.iter().copied().fold(f64::INFINITY, f64::min);
        if promised <= tolerance {
            break;
        }
        let curvature = model.curvature(&moment, &worst);
        let hessian = product(moments.view(), turned(active, &curvature).t());
        let next = simplex_qp(&slopes, &hessian, &active.weights, 0.01 * promised);
        let step: Vec<f64> = next.iter().zip(&active.weights).map(|(next, w)| next - w).collect();
        let extra = active.vertices.iter().zip(&step).map(|(vertex, s)| entropy * vertex.entropy * s).sum();
        let theta = line_search(model, &moment, &active.combine(&step), extra, LINE_ACCURACY)?;
        if theta <= 0.0 {
            break;
        }
        if theta >= 1.0 {
            active.weights = next;
        } else {
            active.weights.iter_mut().zip(&step).for_each(|(w, s)| *w += theta * s);
        }
    }
    let total: f64 = active.weights.iter().sum();
    active.weights.iter_mut().for_each(|w| *w /= total);
    Ok(())
}

/// Every moment as the curvature turns it, one a row; they are many, and each is work of its own.
fn turned(active: &ActiveSet, curvature: &Curvature) -> Array2<f64> {
    let turned: Vec<_> = active.vertices.par_iter().map(|vertex| curvature.apply(&vertex.moment)).collect();
    stacked(turned.iter())
}

/// Matrices as the rows of one.
fn stacked<'a>(matrices: impl ExactSizeIterator<Item = &'a Array2<f64>>) -> Array2<f64> {
    let rows = matrices.len();
    let entries: Vec<f64> = matrices.flatten().copied().collect();
    let columns = entries.len() / rows.max(1);
    Array2::from_shape_vec((rows, columns), entries).expect("matrices of one size")
}

/// min_w ⟨slopes, w − w₀⟩ + ½ (w − w₀)ᵀ H (w − w₀) on the simplex, two weights at a time.
fn simplex_qp(slopes: &Array1<f64>, hessian: &Array2<f64>, start: &[f64], tolerance: f64) -> Vec<f64> {
    let mut weights = start.to_vec();
    let mut gradient = slopes.clone();
    let count = weights.len();
    for _ in 0..200 * count {
        // Weight moves to the steepest descent, from where that gains most.
        let to = (0..count).min_by(|&i, &j| gradient[i].total_cmp(&gradient[j])).unwrap_or(0);
        let step = |from: usize| {
            let drop = gradient[from] - gradient[to];
            let bend = hessian[[from, from]] + hessian[[to, to]] - 2.0 * hessian[[from, to]];
            let length = if bend * weights[from] > drop { drop / bend } else { weights[from] };
            (length, length * (drop - 0.5 * bend.max(0.0) * length))
        };
        let candidates = (0..count).filter(|&from| weights[from] > 0.0 && gradient[from] > gradient[to]);
        let Some(from) = candidates.max_by(|&i, &j| step(i).1.total_cmp(&step(j).1)) else { break };
        let (length, _) = step(from);
        let worst =
            (0..count).filter(|&i| weights[i] > 0.0).map(|i| gradient[i]).fold(f64::NEG_INFINITY, f64::max);
        if worst - gradient[to] <= tolerance || length <= 0.0 {
            break;
        }
        weights[from] = if length >= weights[from] { 0.0 } else { weights[from] - length };
        weights[to] += length;
        for i in 0..count {
            gradient[i] += length * (hessian[[i, to]] - hessian[[i, from]]);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn the_quadratic_program_satisfies_its_optimality_conditions() {
        let factor = crate::testing::matrix(6, 6, &mut crate::testing::rng(5));
        let hessian = factor.dot(&factor.t());
        let slopes = array![0.3, -0.1, 0.2, 0.05, -0.3, 0.0];
        let start = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let weights = simplex_qp(&slopes, &hessian, &start, 1e-12);
        let moved = Array1::from_vec(weights.clone()) - Array1::from_vec(start.to_vec());
        let gradient = slopes + hessian.dot(&moved);
        let lowest = gradient.fold(f64::INFINITY, |low, &g| low.min(g));
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (w, g) in weights.iter().zip(&gradient) {
            assert!(*w >= 0.0 && (*w == 0.0 || g - lowest < 1e-9), "{w} {g} {lowest}");
        }
    }
}
