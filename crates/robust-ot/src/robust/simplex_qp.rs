//! $\min_{w \in \Delta}\ \langle g, w - w_0\rangle + \tfrac12 (w - w_0)^\top H (w - w_0)$ by an active-set method.
//! The weights that may be positive move to the minimum over their affine hull. A weight that would turn negative on the
//! way stops the move and leaves the set. At the minimum, the weight that lowers the value fastest enters.

use ndarray::{Array1, Array2};

use super::cholesky::Cholesky;

/// The ridge as a fraction of the largest diagonal entry of H: H is positive semidefinite, and adding the ridge to its
/// diagonal makes it definite.
const RIDGE: f64 = 1e-13;
/// The ridge as a fraction of the tolerance, for an H close to zero: it changes slopes by no more than that.
const RIDGE_OF_TOLERANCE: f64 = 0.1;
/// The most changes of the active set, per weight. Except for ties, each weight enters and leaves only a few times.
const CHANGES: usize = 20;

/// Weights at which no vertex of the simplex promises to lower the value by more than `tolerance`, which is positive.
pub(super) fn simplex_qp(
    slopes: &Array1<f64>,
    hessian: &Array2<f64>,
    start: &[f64],
    tolerance: f64,
) -> Vec<f64> {
    // In units of its largest entry, so that no intermediate result overflows.
    let unit = hessian.diag().fold(tolerance, |top, &x| top.max(x));
    let (hessian, tolerance) = (hessian / unit, tolerance / unit);
    let mut weights = start.to_vec();
    let mut gradient = (slopes / unit).to_vec();
    let ridge = RIDGE.max(RIDGE_OF_TOLERANCE * tolerance);
    // K = H + 11ᵀ differs from H by a constant on the simplex, and is definite where H is definite along the face.
    let entry = |i: usize, j: usize| hessian[[i, j]] + 1.0 + if i == j { ridge } else { 0.0 };
    let mut face: Vec<usize> = Vec::new();
    let mut factor = Cholesky::default();
    for i in (0..start.len()).filter(|&i| start[i] > 0.0) {
        factor.append(face.iter().map(|&j| entry(i, j)), entry(i, i), ridge);
        face.push(i);
    }
    let mut entered = None;
    for _ in 0..CHANGES * start.len() {
        let step = to_minimum(&factor, face.iter().map(|&i| gradient[i]));
        let limit = |at: usize| weights[face[at]] / -step[at];
        let shrinking = (0..face.len()).filter(|&at| step[at] < 0.0);
        let first = shrinking.min_by(|&a, &b| limit(a).total_cmp(&limit(b)));
        let blocking = first.filter(|&at| limit(at) < 1.0);
        let length = blocking.map_or(1.0, limit);
        for (&i, s) in face.iter().zip(&step) {
            // If two weights reach zero together, rounding may leave one of them below it.
            weights[i] = (weights[i] + length * s).max(0.0);
        }
        for (row, g) in hessian.rows().into_iter().zip(&mut gradient) {
            *g += length * face.iter().zip(&step).map(|(&j, s)| row[j] * s).sum::<f64>();
        }
        if let Some(at) = blocking {
            let gone = face.remove(at);
            factor.remove(at);
            weights[gone] = 0.0;
            // A weight that enters lowers the value; only rounding makes it leave at once.
            if entered == Some(gone) && length == 0.0 {
                break;
            }
            continue;
        }
        let mean: f64 = weights.iter().zip(&gradient).map(|(w, g)| w * g).sum();
        let next = lowest(&gradient);
        if mean - gradient[next] <= tolerance || face.contains(&next) {
            break;
        }
        factor.append(face.iter().map(|&j| entry(next, j)), entry(next, next), ridge);
        face.push(next);
        entered = Some(next);
    }
    weights
}

/// The index of the smallest number.
fn lowest(numbers: &[f64]) -> usize {
    (0..numbers.len()).min_by(|&i, &j| numbers[i].total_cmp(&numbers[j])).unwrap_or(0)
}

/// The step p to the minimum over the affine hull of a face: K p = ν1 − g and 1ᵀp = 0.
fn to_minimum(factor: &Cholesky, gradient: impl ExactSizeIterator<Item = f64> + Clone) -> Vec<f64> {
    // ν absorbs what all slopes have in common; without their mean, that part is small and its rounding too.
    let mean = gradient.clone().sum::<f64>() / gradient.len() as f64;
    let mut step: Vec<f64> = gradient.map(|g| mean - g).collect();
    let mut ones = vec![1.0; step.len()];
    factor.solve(&mut step);
    factor.solve(&mut ones);
    let nu = -step.iter().sum::<f64>() / ones.iter().sum::<f64>();
    step.iter_mut().zip(&ones).for_each(|(s, one)| *s += nu * one);
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{matrix, rng};

    /// ⟨g, w − w₀⟩ + ½ (w − w₀)ᵀ H (w − w₀) and its gradient.
    fn value(
        slopes: &Array1<f64>,
        hessian: &Array2<f64>,
        start: &[f64],
        weights: &[f64],
    ) -> (f64, Array1<f64>) {
        let moved: Array1<f64> = weights.iter().zip(start).map(|(w, s)| w - s).collect();
        let turned = hessian.dot(&moved);
        (slopes.dot(&moved) + 0.5 * moved.dot(&turned), slopes + &turned)
    }

    /// Slopes, a Hessian of the given rank from rows that differ only by `spread`, and weights to start from.
    fn draw(count: usize, rank: usize, spread: f64, seed: u64) -> (Array1<f64>, Array2<f64>, Vec<f64>) {
        let mut rng = rng(seed);
        let common = matrix(1, rank, &mut rng);
        let rows = common + matrix(count, rank, &mut rng) * spread;
        let slopes = matrix(1, count, &mut rng).row(0).to_owned() * spread;
        let mut start = vec![0.0; count];
        let carriers = 1 + seed as usize % count;
        start[..carriers].fill(1.0 / carriers as f64);
        (slopes, rows.dot(&rows.t()), start)
    }

    #[test]
    fn no_weight_promises_more_however_flat_the_program_is() {
        for seed in 0..200 {
            for (count, rank, spread) in
                [(1, 1, 1.0), (6, 6, 1.0), (40, 5, 1.0), (60, 10, 1e-3), (30, 40, 1e-5)]
            {
                let (slopes, hessian, start) = draw(count, rank, spread, seed);
                let weights = simplex_qp(&slopes, &hessian, &start, 1e-9 * spread);
                assert!(weights.iter().all(|&w| w >= 0.0));
                assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                let (_, gradient) = value(&slopes, &hessian, &start, &weights);
                let mean: f64 = weights.iter().zip(&gradient).map(|(w, g)| w * g).sum();
                let promised = mean - gradient[lowest(&gradient.to_vec())];
                assert!(promised <= 1e-6 * spread, "{count} weights, rank {rank}, seed {seed}: {promised:e}");
            }
        }
    }

    /// The smallest value over all faces, each solved by its own linear system.
    fn over_all_faces(slopes: &Array1<f64>, hessian: &Array2<f64>, start: &[f64]) -> f64 {
        let count = start.len();
        let mut least = f64::INFINITY;
        for face in 1_usize..1 << count {
            let face: Vec<usize> = (0..count).filter(|i| face >> i & 1 == 1).collect();
            // On the face w = e_0 + Σ x_a (e_a − e_0).
            let along = |a: usize| {
                let mut weights = vec![0.0; count];
                weights[face[a]] = 1.0;
                weights[face[0]] -= 1.0;
                Array1::from_vec(weights)
            };
            let mut corner = vec![0.0; count];
            corner[face[0]] = 1.0;
            let (_, gradient) = value(slopes, hessian, start, &corner);
            let edges: Vec<_> = (1..face.len()).map(along).collect();
            let system = Array2::from_shape_fn((edges.len(), edges.len()), |(a, b)| {
                edges[a].dot(&hessian.dot(&edges[b]))
            });
            let right: Vec<f64> = edges.iter().map(|edge| -edge.dot(&gradient)).collect();
            let Some(x) = crate::linalg::solve_positive(&system, &right) else { continue };
            let mut weights = Array1::from_vec(corner);
            edges.iter().zip(&x).for_each(|(edge, &x)| weights.scaled_add(x, edge));
            if weights.iter().all(|&w| w >= 0.0) {
                least = least.min(value(slopes, hessian, start, &weights.to_vec()).0);
            }
        }
        least
    }

    #[test]
    fn the_value_is_the_least_over_all_faces() {
        for seed in 0..200 {
            let (slopes, hessian, start) = draw(6, 7, 1.0, seed);
            let weights = simplex_qp(&slopes, &hessian, &start, 1e-12);
            let (found, _) = value(&slopes, &hessian, &start, &weights);
            let least = over_all_faces(&slopes, &hessian, &start);
            assert!((found - least).abs() <= 1e-10 * (1.0 + least.abs()), "seed {seed}: {found} {least}");
        }
    }

    #[test]
    fn equal_slopes_move_little_weight_however_flat_the_program_is() {
        for seed in 0..50 {
            let (_, hessian, _) = draw(5, 3, 1.0, seed);
            let (slopes, start) = (Array1::from_elem(5, 0.3), [0.2; 5]);
            let weights = simplex_qp(&slopes, &(hessian * 1e-32), &start, 1e-12);
            weights.iter().for_each(|w| assert!((w - 0.2).abs() < 1e-12, "seed {seed}: {weights:?}"));
        }
    }

    #[test]
    fn programs_next_to_linear_end_in_their_best_corner() {
        for scale in [0.0, 1e-308, 1e-200, 1e-30] {
            for seed in 0..50 {
                // Rounding may even leave a Hessian that is not positive semidefinite.
                let noise = matrix(5, 5, &mut rng(seed)) * scale;
                let slopes = matrix(1, 5, &mut rng(seed + 100)).row(0).to_owned();
                let weights = simplex_qp(&slopes, &(&noise + &noise.t()), &[0.2; 5], 1e-6);
                assert!(
                    weights[lowest(&slopes.to_vec())] >= 1.0 - 1e-9,
                    "scale {scale:e}: {weights:?} {slopes}"
                );
            }
        }
    }

    #[test]
    fn units_change_nothing() {
        for seed in 0..50 {
            let (slopes, hessian, start) = draw(8, 3, 1.0, seed);
            let plain = simplex_qp(&slopes, &hessian, &start, 1e-9);
            for unit in [2.0_f64.powi(-1000), 2.0_f64.powi(-300), 2.0_f64.powi(1000)] {
                assert_eq!(simplex_qp(&(&slopes * unit), &(&hessian * unit), &start, 1e-9 * unit), plain);
            }
        }
    }
}
