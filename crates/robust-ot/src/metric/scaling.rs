//! The doubly stochastic set: $M^\star = D (M_0 \circ e^{V/\lambda}) D$ with row sums one.

use ndarray::{Array1, Array2};

use super::WorstCase;
use super::prior::Prior;
use crate::error::{Error, Result};

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
pub(super) fn doubly_stochastic(moment: &Array2<f64>, lambda: f64, prior: &Prior) -> Result<WorstCase> {
    let size = moment.nrows();
    let exponents = Array2::from_shape_fn((size, size), |(a, b)| {
        let apart = moment[[a, b]] - 0.5 * (moment[[a, a]] + moment[[b, b]]);
        prior.entry(a, b).ln() + apart / lambda
    });
    let mut u = exponents.diag().mapv(|l| -0.5 * l);
    let mut best = (f64::INFINITY, u.clone());
    let mut since_best = 0;
    for _ in 0..MAX_ITERATIONS {
        let log_sums = log_row_sums(&exponents, &u);
        // The row sum of M is e^{u_a + log_sum_a}.
        let residual = (&u + &log_sums).fold(0.0_f64, |top, x| top.max(x.exp_m1().abs()));
        if residual < best.0 {
            best = (residual, u.clone());
            since_best = 0;
        } else {
            since_best += 1;
        }
        if residual <= ROW_SUM_TOLERANCE || since_best > 50 {
            break;
        }
        u = (u - log_sums) * 0.5;
    }
    let (residual, u) = best;
    if residual > ROW_SUM_LIMIT {
        return Err(Error::Scaling { lambda, residual });
    }
    let metric = Array2::from_shape_fn((size, size), |(a, b)| (exponents[[a, b]] + u[a] + u[b]).exp());
    let value = moment.diag().sum() + lambda * (metric.sum() - 2.0 * u.sum() - prior.total(size));
    Ok(WorstCase::new(value, metric))
}

/// ln Σ_b e^{L_ab + u_b} for every row.
fn log_row_sums(exponents: &Array2<f64>, u: &Array1<f64>) -> Array1<f64> {
    exponents
        .rows()
        .into_iter()
        .map(|row| {
            let largest = row.iter().zip(u).fold(f64::NEG_INFINITY, |top, (l, u)| top.max(l + u));
            largest + row.iter().zip(u).map(|(l, u)| (l + u - largest).exp()).sum::<f64>().ln()
        })
        .collect()
}
