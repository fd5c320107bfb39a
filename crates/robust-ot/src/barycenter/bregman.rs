//! Weights of given points for fixed metrics, by iterative Bregman projections (Benamou et al. 2015) in the log domain:
//!
//! $$f_l = \lambda \ln a_l - \lambda \ln \sum_j e^{(g_{l,j} - C_{ij})/\lambda}, \quad
//!   t_l = -\lambda \ln \sum_i e^{(f_{l,i} - C_{ij})/\lambda}, \quad
//!   \lambda \ln b = -\sum_l w_l\thinspace t_l, \quad g_l = \lambda \ln b + t_l .$$
//!
//! Since Σ w_l g_l = 0, Σ w_l ⟨a_l, f_l⟩ bounds the mean distance to every b from below: each plan has its row sums, hence
//! mass one, so that W_l ≥ ⟨a_l, f_l⟩ + ⟨b, g_l⟩.

use ndarray::{Array1, Array2};
use rayon::prelude::*;

use crate::interrupt::Interrupt;
use crate::kernels::sealed::Kernels;

/// Rows of costs that one task handles.
const ROWS: usize = 32;

/// The weights found, and the lower bound.
pub(super) struct Projected {
    pub(super) weights: Array1<f64>,
    pub(super) lower_bound: f64,
}

/// One measure: its weights, its share of the mean and its costs, by rows and by columns.
pub(super) struct Member<'a> {
    pub(super) weights: &'a Array1<f64>,
    pub(super) share: f64,
    pub(super) costs: Array2<f64>,
}

/// Projects until the columns of all plans agree with b up to the tolerance, in mass, or for so many rounds.
pub(super) fn project(
    members: &[Member<'_>],
    entropy: f64,
    (tolerance, rounds): (f64, usize),
    interrupt: &Interrupt,
) -> Projected {
    let n = members[0].costs.ncols();
    let transposed: Vec<Array2<f64>> =
        members.iter().map(|member| member.costs.t().as_standard_layout().into_owned()).collect();
    let mut of_columns = vec![Array1::<f64>::zeros(n); members.len()];
    let mut of_rows: Vec<Array1<f64>> = Vec::new();
    let mut log_b = Array1::<f64>::zeros(n);
    for _ in 0..rounds {
        // ln u and ln K^T u, in units of λ.
        of_rows = members
            .iter()
            .zip(&of_columns)
            .map(|(member, g)| member.weights.mapv(f64::ln) - log_sums(&member.costs, g, entropy))
            .collect();
        let reached: Vec<Array1<f64>> =
            transposed.iter().zip(&of_rows).map(|(costs, f)| log_sums(costs, f, entropy)).collect();
        log_b.fill(0.0);
        members.iter().zip(&reached).for_each(|(member, sums)| log_b.scaled_add(member.share, sums));
        let mut error = 0.0;
        for ((member, g), sums) in members.iter().zip(&mut of_columns).zip(&reached) {
            let apart = g.iter().zip(sums).zip(&log_b).map(|((g, sum), b)| ((g + sum).exp() - b.exp()).abs());
            error += member.share * apart.sum::<f64>();
            *g = &log_b - sums;
        }
        if error <= tolerance || interrupt.is_raised() {
            break;
        }
    }
    let weights = log_b.mapv(f64::exp);
    // The last f belongs to the g before: a half round more makes the row sums those of the last g.
    for ((member, f), g) in members.iter().zip(&mut of_rows).zip(&of_columns) {
        *f = member.weights.mapv(f64::ln) - log_sums(&member.costs, g, entropy);
    }
    let terms = members.iter().zip(&of_rows).map(|(member, f)| {
        let carrying = member.weights.iter().zip(f).filter(|(a, _)| **a > 0.0);
        member.share * entropy * carrying.map(|(a, f)| a * f).sum::<f64>()
    });
    Projected { weights, lower_bound: terms.sum() }
}

/// ln Σ_j e^{x_j − C_ij / λ} for every row.
fn log_sums(costs: &Array2<f64>, exponents: &Array1<f64>, entropy: f64) -> Array1<f64> {
    let n = costs.ncols();
    let exponents = exponents.as_slice().expect("vectors are contiguous");
    let mut sums = Array1::zeros(costs.nrows());
    let rows = costs.as_slice().expect("costs are row-major").par_chunks(ROWS * n);
    let out = sums.as_slice_mut().expect("vectors are contiguous").par_chunks_mut(ROWS);
    rows.zip(out).for_each_init(
        || vec![0.0; n],
        |terms, (rows, out)| {
            for (row, sum) in rows.chunks_exact(n).zip(out) {
                let largest = f64::exponents(terms, exponents, row, 1.0 / entropy);
                *sum = largest + f64::exp_shifted(terms, largest).ln();
            }
        },
    );
    sums
}
