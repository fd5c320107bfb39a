//! Potentials of an entropic problem with little entropy, from an exact plan γ⁰ and its potentials f⁰, g⁰.
//!
//! As λ → 0 the entropic plan tends to γ⁰. Where γ⁰ carries mass it satisfies
//!
//! $$f_i + g_j = C_{ij} + \lambda \ln \frac{\gamma^0_{ij}}{a_i b_j},$$
//!
//! so that f⁰ and g⁰ need a correction z with z_i + z_j = λ ln(γ⁰_ij / (a_i b_j)). The entries of a vertex form a forest,
//! hence the equations have a solution, with one free constant per tree.

use super::PlanEntry;
use super::cost_rows::CostRows;
use super::simplex::NetworkSimplex;
use super::sinkhorn::{Sinkhorn, slice};
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::kernels::Real;

/// The largest number of costs, m n, for which the exact plan of an entropic problem is computed.
pub(crate) const LARGEST_EXACT: usize = 25_000_000;

impl<T: Real> Sinkhorn<T> {
    /// Whether an exact plan may be computed for a start: in double precision, and unless the problem is too large.
    pub(super) fn can_start_exactly(&self, cost: &CostRows<T>) -> bool {
        self.a.len().saturating_mul(self.b.len()) <= LARGEST_EXACT && cost.in_double().is_some()
    }

    /// Sets g to that of the exact plan, corrected to first order in λ. Returns false if there is no such plan.
    pub(super) fn start_exactly(&mut self, cost: &CostRows<T>, interrupt: &Interrupt) -> Result<bool> {
        let Some(cost) = cost.in_double() else { return Ok(false) };
        let mut simplex = if let Some(simplex) = self.exact.take() {
            simplex
        } else {
            let mut simplex = Box::new(NetworkSimplex::new(slice(&self.a), slice(&self.b))?);
            // The memory for plans is in use.
            simplex.limit_memory(0);
            simplex
        };
        let solution = simplex.solve(cost, interrupt)?;
        self.exact = Some(simplex);
        if !solution.optimal {
            return Ok(false);
        }
        self.g = solution.target_potential;
        let correction = correction(&solution.plan, slice(&self.a), slice(&self.b));
        for (g, z) in self.g.iter_mut().zip(correction) {
            *g += self.regularization * z;
        }
        Ok(true)
    }
}

/// z/λ of the columns; over each tree of the forest its mean is zero.
fn correction(plan: &[PlanEntry], a: &[f64], b: &[f64]) -> Vec<f64> {
    let (m, n) = (a.len(), b.len());
    let mut neighbors = vec![Vec::new(); m + n];
    for entry in plan.iter().filter(|entry| entry.mass > 0.0) {
        let log = (entry.mass / a[entry.row] / b[entry.column]).ln();
        neighbors[entry.row].push((m + entry.column, log));
        neighbors[m + entry.column].push((entry.row, log));
    }
    let mut z = vec![0.0; m + n];
    let mut seen = vec![false; m + n];
    let mut tree = Vec::new();
    for root in m..m + n {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        tree.clear();
        tree.push(root);
        let mut next = 0;
        while next < tree.len() {
            let from = tree[next];
            for &(to, log) in &neighbors[from] {
                if !std::mem::replace(&mut seen[to], true) {
                    z[to] = log - z[from];
                    tree.push(to);
                }
            }
            next += 1;
        }
        let columns = || tree.iter().filter(|&&v| v >= m);
        let mean = columns().map(|&v| z[v]).sum::<f64>() / columns().count() as f64;
        columns().for_each(|&v| z[v] -= mean);
    }
    z.split_off(m)
}
