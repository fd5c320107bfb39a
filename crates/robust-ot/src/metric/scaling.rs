//! The doubly stochastic set: $M^\star = D (M_0 \circ e^{V/\lambda}) D$ with row sums one.

use ndarray::Array2;

use super::prior::Prior;
use crate::error::{Error, Result};
use crate::kernels::sealed::Kernels;
use crate::linalg::sum_over;

/// Row sums this close to one count as one.
const ROW_SUM_TOLERANCE: f64 = 1e-13;
/// The largest deviation of a row sum from one that counts as rounding when the exponents are large.
pub(super) const ROW_SUM_LIMIT: f64 = 1e-12;
/// Iteration limit. Near the solution each fixed-point step at least halves the error, as M is positive semi-definite.
const MAX_ITERATIONS: usize = 2000;
/// The deviation of the row sums from one below which Newton's method is used.
const NEWTON: f64 = 0.5;

/// M*_ab = exp(L_ab + u_a + u_b), with u from the damped fixed point u ← ½(u − ln Σ_b e^{L_ab + u_b}), and from Newton's
/// method, (diag(M1) + M) Δ = 1 − M1, near the solution.
///
/// Factors of the rows can be absorbed into u, so L = ln M₀ + (V_ab − ½V_aa − ½V_bb)/λ, which is at most ln M₀ since V is
/// positive semi-definite: large moments cost no digits. h = tr V + λ(Σ M* − 2 Σ u − Σ M₀) is the dual value: an upper
/// bound on h for any u.
pub(super) fn doubly_stochastic(
    moment: &Array2<f64>,
    lambda: f64,
    prior: &Prior,
    metric: &mut Array2<f64>,
    workspace: &mut Buffers,
) -> Result<f64> {
    let size = moment.nrows();
    let Buffers { exponents, log_sums, powers, matrix, right, u, best } = workspace;
    exponents.clear();
    for (a, row) in moment.rows().into_iter().enumerate() {
        exponents.extend(
            row.iter().enumerate().map(|(b, v)| {
                prior.entry(a, b).ln() + (v - 0.5 * (moment[[a, a]] + moment[[b, b]])) / lambda
            }),
        );
    }
    u.clear();
    u.extend((0..size).map(|a| -0.5 * exponents[a * size + a]));
    best.clone_from(u);
    let (mut least, mut since_best) = (f64::INFINITY, 0);
    for _ in 0..MAX_ITERATIONS {
        log_row_sums(exponents, u, (powers, matrix), log_sums);
        // The row sum of M is e^{u_a + log_sum_a}.
        let sums = u.iter().zip(&*log_sums);
        let residual = sums.fold(0.0_f64, |top, (u, sum)| top.max((u + sum).exp_m1().abs()));
        if residual < least {
            least = residual;
            best.clone_from(u);
            since_best = 0;
        } else {
            since_best += 1;
        }
        if residual <= ROW_SUM_TOLERANCE || since_best > 50 {
            break;
        }
        right.clear();
        right.extend(u.iter().zip(&*log_sums).map(|(u, sum)| -(u + sum).exp_m1()));
        if residual <= NEWTON && since_best == 0 && newton(matrix, right) {
            u.iter_mut().zip(&*right).for_each(|(u, step)| *u += step);
        } else {
            u.iter_mut().zip(&*log_sums).for_each(|(u, sum)| *u = 0.5 * (*u - sum));
        }
    }
    if least > ROW_SUM_LIMIT {
        return Err(Error::Scaling { lambda, residual: least });
    }
    for ((a, b), m) in metric.indexed_iter_mut() {
        *m = (exponents[a * size + b] + best[a] + best[b]).exp();
    }
    let shift: f64 = best.iter().sum();
    let total = sum_over(metric, |_, _, m| m);
    Ok(moment.diag().sum() + lambda * (total - 2.0 * shift - prior.total(size)))
}

/// Workspace for one scaling.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    exponents: Vec<f64>,
    log_sums: Vec<f64>,
    powers: Vec<f64>,
    matrix: Vec<f64>,
    right: Vec<f64>,
    u: Vec<f64>,
    best: Vec<f64>,
}

/// Computes ln Σ_b e^{L_ab + u_b} for every row, and M as a by-product.
fn log_row_sums(
    exponents: &[f64],
    u: &[f64],
    (powers, matrix): (&mut Vec<f64>, &mut Vec<f64>),
    out: &mut Vec<f64>,
) {
    powers.resize(u.len(), 0.0);
    matrix.clear();
    out.clear();
    out.extend(exponents.chunks_exact(u.len()).zip(u).map(|(row, own)| {
        let largest = f64::exponents(powers, u, row, -1.0);
        let sum = f64::exp_shifted(powers, largest);
        let scale = (largest + own).exp();
        matrix.extend(powers.iter().map(|power| scale * power));
        largest + sum.ln()
    }));
}

/// Solves (diag(M1) + M) Δ = b by Cholesky, overwriting M and b; false if the matrix is not positive definite.
///
/// Implemented here because it runs for every row of a batch and must not allocate.
fn newton(matrix: &mut [f64], b: &mut [f64]) -> bool {
    let n = b.len();
    for a in 0..n {
        let sum: f64 = matrix[a * n..][..n].iter().sum();
        matrix[a * n + a] += sum;
    }
    for a in 0..n {
        let (above, from_here) = matrix.split_at_mut(a * n);
        let own = &mut from_here[..n];
        for c in 0..a {
            let other = &above[c * n..][..=c];
            let inner: f64 = own[..c].iter().zip(other).map(|(x, y)| x * y).sum();
            own[c] = (own[c] - inner) / other[c];
        }
        let square = own[a] - own[..a].iter().map(|x| x * x).sum::<f64>();
        if !(square > 0.0 && square.is_finite()) {
            return false;
        }
        own[a] = square.sqrt();
    }
    for a in 0..n {
        let inner: f64 = matrix[a * n..][..a].iter().zip(&*b).map(|(x, y)| x * y).sum();
        b[a] = (b[a] - inner) / matrix[a * n + a];
    }
    for a in (0..n).rev() {
        let inner: f64 = (a + 1..n).map(|c| matrix[c * n + a] * b[c]).sum();
        b[a] = (b[a] - inner) / matrix[a * n + a];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newton_solves_its_system() {
        let m = [2.0, 0.5, 0.25, 0.5, 1.0, 0.125, 0.25, 0.125, 3.0];
        let mut x = [1.0, -2.0, 0.5];
        let b = x;
        assert!(newton(&mut m.clone(), &mut x));
        for (a, b) in b.iter().enumerate() {
            let row = &m[3 * a..][..3];
            let left = row.iter().sum::<f64>() * x[a] + row.iter().zip(&x).map(|(m, x)| m * x).sum::<f64>();
            assert!((left - b).abs() < 1e-14, "{left} is not {b}");
        }
        assert!(!newton(&mut [-1.0, 0.0, 0.0, 1.0], &mut [1.0, 1.0]));
    }

    #[test]
    fn rows_sum_to_one_for_small_and_large_moments() {
        // V = A Aᵀ of growing scale: the metric goes from uniform to a permutation.
        let a = Array2::from_shape_fn((6, 4), |(i, j)| ((i * 7 + j * 3) as f64).sin());
        for scale in [0.0, 1e-6, 0.1, 1.0, 30.0, 1e3, 1e6] {
            let moment = a.dot(&a.t()) * scale;
            let mut metric = Array2::zeros((6, 6));
            let value =
                doubly_stochastic(&moment, 0.7, &Prior::Ones, &mut metric, &mut Buffers::default()).unwrap();
            for row in metric.rows() {
                assert!((row.sum() - 1.0).abs() <= 1e-11, "{scale}: {row}");
            }
            // h = ⟨V, M⟩ − λ KL(M, 11ᵀ).
            let divergence: f64 =
                metric.iter().map(|m| if *m > 0.0 { m * m.ln() } else { 0.0 } - m + 1.0).sum();
            let direct = (&moment * &metric).sum() - 0.7 * divergence;
            assert!(
                (value - direct).abs() <= 1e-9 * (1.0 + direct.abs()),
                "{scale}: {value} is not {direct}"
            );
        }
    }
}
