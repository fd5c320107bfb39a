//! The network simplex on allowed arcs alone: memory and the time of a pass grow with their number, not with m n.

use ndarray::Array1;

use super::PlanEntry;
use super::forest::Forest;
use super::least_arcs::Arc;
use super::simplex::{NetworkSimplex, PIVOTS_PER_POINT, PRICE_TOLERANCE, SimplexSolution};
use super::sparse_costs::SparseCosts;
use super::tree::Tree;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// Rounding of a weight, relative to the total: groups of points that only exchange mass with each other may differ by it
/// for each of their points.
const WEIGHT_ROUNDING: f64 = f64::EPSILON;

/// A place for points that are not in the tree.
const ABSENT: usize = usize::MAX;

impl NetworkSimplex {
    /// Solves with costs of allowed arcs; every call starts anew.
    ///
    /// Where the arcs do not connect all points, the weights of each part must balance up to rounding, and what rounding
    /// leaves of a part stays where it is. Potentials are feasible on the allowed arcs.
    ///
    /// # Errors
    /// When the costs are not m × n, or no plan along the allowed arcs has the given marginals.
    pub fn solve_sparse(&mut self, costs: &SparseCosts, interrupt: &Interrupt) -> Result<SimplexSolution> {
        let (m, n) = (self.a.len(), self.b.len());
        if costs.dim() != (m, n) {
            let found = format!("{} × {}", costs.dim().0, costs.dim().1);
            return Err(Error::Shape { name: "the cost matrix", expected: format!("{m} × {n}"), found });
        }
        let points = self.rows.len() + self.columns.len();
        let largest = costs.largest();
        self.list_allowed(costs);
        self.start_along_list(largest);
        let tolerance = PRICE_TOLERANCE * largest;
        let limit = self.pivot_limit.min(PIVOTS_PER_POINT * points);
        let (rows, columns) = (self.rows.clone(), self.columns.clone());
        let cost = |i: usize, j: usize| costs.get(rows[i], columns[j]).unwrap_or(f64::INFINITY);
        let mut pivots = 0;
        let optimal = self.pivot_on_list(&cost, tolerance, (&mut pivots, limit), interrupt);
        // Neither the list nor the tree serves costs without forbidden arcs.
        self.shortlist.clear();
        self.warm = false;
        if optimal {
            self.check_all_moved()?;
        }
        let (f, g) = self.potentials_on(costs);
        let arcs = self.tree.arcs().filter(|&(.., flow)| flow > 0);
        let mut plan: Vec<PlanEntry> = arcs
            .map(|(i, j, flow)| PlanEntry { row: rows[i], column: columns[j], mass: self.mass_of(flow) })
            .collect();
        plan.sort_unstable_by_key(|entry| (entry.row, entry.column));
        self.tree = Tree::star(&self.supply, &self.demand);
        Ok(SimplexSolution { plan, source_potential: f, target_potential: g, pivots, optimal })
    }

    /// Lists the allowed arcs between points in the tree.
    fn list_allowed(&mut self, costs: &SparseCosts) {
        let mut place = vec![ABSENT; self.b.len()];
        self.columns.iter().enumerate().for_each(|(at, &j)| place[j] = at);
        let arcs = self.rows.iter().enumerate().flat_map(|(row, &i)| {
            costs.row(i).filter(|&(j, _)| place[j] != ABSENT).map({
                let place = &place;
                move |(j, cost)| Arc { row: row as u32, column: place[j] as u32, cost }
            })
        });
        self.shortlist.set(arcs.collect());
    }

    /// A tree from a greedy match along the cheapest arcs. What is left over goes through the root, at more than any path
    /// of arcs costs.
    fn start_along_list(&mut self, largest: f64) {
        let mut cheapest = self.shortlist.arcs().to_vec();
        cheapest.sort_by(|x, y| x.cost.total_cmp(&y.cost));
        let forest = Forest::greedy(&self.supply, &self.demand, cheapest.into_iter());
        let points = self.rows.len() + self.columns.len();
        let zero = (vec![0.0; self.rows.len()], vec![0.0; self.columns.len()]);
        let penalty = 2.0 * largest.max(f64::MIN_POSITIVE) * points as f64;
        self.tree = Tree::from_forest((&self.supply, &self.demand), &forest, (&zero.0, &zero.1), penalty);
    }

    /// Refuses what is left at the root, unless it is the rounding of weights.
    fn check_all_moved(&self) -> Result<()> {
        let m = self.rows.len();
        let left: Vec<(usize, f64)> = self
            .tree
            .unmatched()
            .filter(|&(v, _)| v < m)
            .map(|(i, flow)| (self.rows[i], self.mass_of(flow)))
            .collect();
        let total = left.iter().map(|(_, mass)| mass).sum::<f64>();
        let points = (self.a.len() + self.b.len()) as f64;
        if total <= WEIGHT_ROUNDING * points * self.mass {
            return Ok(());
        }
        let most = left.iter().max_by(|x, y| x.1.total_cmp(&y.1)).expect("what is left is in some row");
        Err(Error::Unreachable { row: most.0, left: most.1 })
    }

    /// (f, g) with f_i + g_j ≤ C_ij on all allowed arcs, those of weightless points included. A point without arcs has
    /// potential zero.
    fn potentials_on(&self, costs: &SparseCosts) -> (Array1<f64>, Array1<f64>) {
        let (m, n) = costs.dim();
        let (_, target) = self.tree.potentials();
        // Columns without weight do not bound f.
        let mut held = vec![f64::NEG_INFINITY; n];
        self.columns.iter().zip(target).for_each(|(&j, g)| held[j] = *g);
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        let least = |i: usize| costs.row(i).map(|(j, cost)| cost - held[j]).fold(f64::INFINITY, f64::min);
        let f = Array1::from_iter((0..m).map(|i| finite(least(i))));
        let mut g = Array1::from_elem(n, f64::INFINITY);
        for i in 0..m {
            costs.row(i).for_each(|(j, cost)| g[j] = (cost - f[i]).min(g[j]));
        }
        (f, g.mapv(finite))
    }
}

#[cfg(test)]
#[path = "sparse_solve_tests.rs"]
mod tests;
