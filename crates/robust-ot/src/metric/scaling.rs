//! The doubly stochastic set: $M^\star = D (M_0 \circ e^{V/\lambda}) D$ with row sums one.

use ndarray::Array2;

use super::prior::Prior;
use crate::error::{Error, Result};
use crate::kernels::sealed::Kernels;

/// Row sums this close to one count as one.
const ROW_SUM_TOLERANCE: f64 = 1e-13;
/// The most that rounding may keep a row sum from one when the exponents are large.
pub(super) const ROW_SUM_LIMIT: f64 = 1e-12;
/// Near the solution the error halves at least each time, because M is positive semi-definite.
const MAX_ITERATIONS: usize = 2000;

/// M*_ab = exp(L_ab + u_a + u_b), with u from the damped fixed point u ← ½(u − ln Σ_b e^{L_ab + u_b}).
///
/// Any multiple of the rows can go into u, so L = ln M₀ + (V_ab − ½V_aa − ½V_bb)/λ, which is at most ln M₀ since V is
/// positive semi-definite: large moments cost no digits. h = tr V + λ(Σ M* − 2 Σ u − Σ M₀), the dual value: an upper
/// bound of h for any u.
pub(super) fn doubly_stochastic(
    moment: &Array2<f64>,
    lambda: f64,
    prior: &Prior,
    metric: &mut Array2<f64>,
    room: &mut Room,
) -> Result<f64> {
    let size = moment.nrows();
    let Room { exponents, log_sums, powers, u, best } = room;
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
        log_row_sums(exponents, u, powers, log_sums);
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
        u.iter_mut().zip(&*log_sums).for_each(|(u, sum)| *u = 0.5 * (*u - sum));
    }
    if least > ROW_SUM_LIMIT {
        return Err(Error::Scaling { lambda, residual: least });
    }
    for ((a, b), m) in metric.indexed_iter_mut() {
        *m = (exponents[a * size + b] + best[a] + best[b]).exp();
    }
    let shift: f64 = best.iter().sum();
    Ok(moment.diag().sum() + lambda * (metric.sum() - 2.0 * shift - prior.total(size)))
}

/// Room for one scaling.
#[derive(Debug, Default)]
pub(super) struct Room {
    exponents: Vec<f64>,
    log_sums: Vec<f64>,
    powers: Vec<f64>,
    u: Vec<f64>,
    best: Vec<f64>,
}

/// ln Σ_b e^{L_ab + u_b} for every row.
fn log_row_sums(exponents: &[f64], u: &[f64], powers: &mut Vec<f64>, out: &mut Vec<f64>) {
    powers.resize(u.len(), 0.0);
    out.clear();
    out.extend(exponents.chunks_exact(u.len()).map(|row| {
        let largest = f64::exponents(powers, u, row, -1.0);
        largest + f64::exp_shifted(powers, largest).ln()
    }));
}
