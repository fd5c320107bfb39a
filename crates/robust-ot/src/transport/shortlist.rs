//! The network simplex on a shortlist: the arcs of least slack C_ij − f_i − g_j of every row and column.
//!
//! With potentials near the optimal ones, a list of a few arcs per point has all arcs of an optimal plan, or nearly all.
//! The potentials of the optimum on the list price all arcs in one pass; those with negative slack join the list. When
//! there are none, the optimum on the list is the optimum.

use rayon::prelude::*;

use super::cost_rows::CostRows;
use super::first_potentials::first_potentials;
use super::forest::Forest;
use super::least_arcs::{Arc, Found, least_arcs};
use super::simplex::{MAX_REFRESHES, NetworkSimplex, PIVOTS_PER_CHECK, PRICE_TOLERANCE};
use super::sinkhorn::slice;
use super::tree::Tree;
use crate::interrupt::Interrupt;

/// Number of arcs kept of every row and of every column.
const KEEP: usize = 15;
/// The largest number of times that arcs join the list before all arcs are searched for every pivot.
const MAX_ROUNDS: usize = 30;
/// A list with more arcs per point than this is made anew in the next solve.
const LONGEST: usize = 3 * KEEP;
/// With more arcs per point violated in the list than this, the last tree takes more pivots than a new one from potentials.
const MOST_VIOLATED: usize = 2;
/// The smallest number of costs for which a list is made, and the smallest number of rows and of columns.
const SMALLEST: usize = 2_000_000;
const FEWEST: usize = 200;
/// A block of arcs priced for one pivot, in units of the root of their number.
const BLOCK: usize = 8;

/// The arcs in the list, kept from solve to solve.
#[derive(Debug, Clone)]
pub(super) struct Shortlist {
    arcs: Vec<Arc>,
    next: usize,
    /// The bytes that the potentials of the first list may take besides the costs.
    pub(super) memory: usize,
    /// Problems with fewer costs are solved without a list.
    pub(super) smallest: usize,
}

impl Default for Shortlist {
    fn default() -> Self {
        Self { arcs: Vec::new(), next: 0, memory: usize::MAX, smallest: SMALLEST }
    }
}

/// How the pivots on a list ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) pivots: usize,
    /// Whether no arc, in the list or not, has a negative reduced cost.
    pub(super) optimal: bool,
    /// Whether the pivot limit or an interrupt ended it.
    pub(super) stopped: bool,
}

impl Shortlist {
    pub(super) fn arcs(&self) -> &[Arc] {
        &self.arcs
    }

    /// Replaces the list.
    pub(super) fn set(&mut self, arcs: Vec<Arc>) {
        (self.arcs, self.next) = (arcs, 0);
    }

    /// The next solve makes a list of its own.
    pub(super) fn clear(&mut self) {
        self.set(Vec::new());
    }

    /// Whether the last solve found the optimum with a list.
    #[cfg(test)]
    pub(super) fn is_in_use(&self) -> bool {
        !self.arcs.is_empty()
    }

    /// The arc with the most negative reduced cost in the next block that has a negative one.
    fn price(&mut self, tree: &Tree, tolerance: f64) -> Option<(usize, usize, f64)> {
        let (source, target) = tree.potentials();
        let block = (BLOCK * self.arcs.len().isqrt()).clamp(1, self.arcs.len().max(1));
        let mut seen = 0;
        while seen < self.arcs.len() {
            let to = self.arcs.len().min(self.next + block);
            let mut best = (0, 0, -tolerance);
            for arc in &self.arcs[self.next..to] {
                let (i, j) = (arc.row as usize, arc.column as usize);
                let reduced = arc.cost + source[i] - target[j];
                if reduced < best.2 {
                    best = (i, j, reduced);
                }
            }
            seen += to - self.next;
            self.next = if to == self.arcs.len() { 0 } else { to };
            if best.2 < -tolerance {
                return Some(best);
            }
        }
        None
    }
}

impl NetworkSimplex {
    /// Solves on a shortlist, which takes in arcs until none has a negative reduced cost. None if the problem is too small,
    /// or its costs have too many ties.
    pub(super) fn run_on_shortlist(
        &mut self,
        costs: &CostRows,
        largest: f64,
        limit: usize,
        interrupt: &Interrupt,
    ) -> Option<Ended> {
        let (m, n) = costs.dim();
        let small = m.saturating_mul(n) < self.shortlist.smallest;
        if small || (m.min(n) < FEWEST && self.shortlist.smallest > 0) {
            return None;
        }
        let tolerance = PRICE_TOLERANCE * largest;
        if self.warm {
            self.renew_list(costs, interrupt)?;
        }
        if !self.warm || self.is_far_from_optimal(costs, tolerance) {
            self.start_from_potentials(costs, largest, interrupt)?;
        }
        let mut pivots = 0;
        for _ in 0..MAX_ROUNDS {
            let cost = |i: usize, j: usize| costs.entry(i, j);
            if !self.pivot_on_list(&cost, tolerance, (&mut pivots, limit), interrupt) {
                return Some(Ended { pivots, optimal: false, stopped: true });
            }
            let violated = self.least_arcs(costs, -tolerance, interrupt);
            if interrupt.is_raised() {
                return Some(Ended { pivots, optimal: false, stopped: true });
            }
            if violated.is_empty() && self.tree.is_matched() {
                return Some(Ended { pivots, optimal: true, stopped: false });
            }
            self.shortlist.arcs.extend(violated.iter().map(|found| found.arc));
        }
        // The next solve does not try again.
        self.shortlist.clear();
        Some(Ended { pivots, optimal: false, stopped: false })
    }

    /// The arcs of least slack at the potentials of the tree.
    fn least_arcs(&self, costs: &CostRows, below: f64, interrupt: &Interrupt) -> Vec<Found> {
        let (source, target) = self.tree.potentials();
        let f: Vec<f64> = source.iter().map(|p| -p).collect();
        least_arcs(costs, (&f, target), KEEP, below, interrupt)
    }

    /// The list of the last solve with new costs; made anew if it has grown too long. None if there is no list.
    fn renew_list(&mut self, costs: &CostRows, interrupt: &Interrupt) -> Option<()> {
        let (m, n) = costs.dim();
        if self.shortlist.arcs.is_empty() {
            return None;
        }
        if self.shortlist.arcs.len() > LONGEST * (m + n) {
            self.tree.refresh_potentials(|i, j| costs.entry(i, j));
            let found = self.least_arcs(costs, f64::INFINITY, interrupt);
            self.shortlist.arcs = found.iter().map(|found| found.arc).collect();
        } else {
            let cost = |arc: &Arc| costs.entry(arc.row as usize, arc.column as usize);
            self.shortlist.arcs.par_iter_mut().for_each(|arc| arc.cost = cost(arc));
        }
        self.shortlist.next = 0;
        Some(())
    }

    /// Whether the costs have changed so much that the last tree is of little use.
    fn is_far_from_optimal(&mut self, costs: &CostRows, tolerance: f64) -> bool {
        self.tree.refresh_potentials(|i, j| costs.entry(i, j));
        let (source, target) = self.tree.potentials();
        let violated =
            |arc: &&Arc| arc.cost + source[arc.row as usize] - target[arc.column as usize] < -tolerance;
        self.shortlist.arcs.iter().filter(violated).count() > MOST_VIOLATED * (source.len() + target.len())
    }

    /// Makes the list from entropic potentials, and a tree from a greedy match along it.
    fn start_from_potentials(&mut self, costs: &CostRows, largest: f64, interrupt: &Interrupt) -> Option<()> {
        let weights = |weights: &[f64], kept: &[usize]| kept.iter().map(|&i| weights[i]).collect::<Vec<_>>();
        let (a, b) = (weights(slice(&self.a), &self.rows), weights(slice(&self.b), &self.columns));
        let (f, g) = first_potentials((costs, largest), (&a, &b), self.shortlist.memory, interrupt)?;
        let (f, g) = (slice(&f), slice(&g));
        let mut found = least_arcs(costs, (f, g), KEEP, f64::INFINITY, interrupt);
        self.shortlist.arcs = found.iter().map(|found| found.arc).collect();
        found.sort_by(|x, y| x.slack.total_cmp(&y.slack));
        let arcs = found.iter().map(|Found { arc, .. }| *arc);
        let forest = Forest::greedy(&self.supply, &self.demand, arcs);
        // Meeting a demand through the root costs more than any arc could.
        let size = f.iter().chain(g).fold(largest, |top, x| top.max(x.abs()));
        self.tree = Tree::from_forest((&self.supply, &self.demand), &forest, (f, g), 4.0 * size);
        Some(())
    }

    /// Pivots until no reduced cost on the list is negative, up to rounding; false if it was stopped.
    pub(super) fn pivot_on_list(
        &mut self,
        cost: &impl Fn(usize, usize) -> f64,
        tolerance: f64,
        (pivots, limit): (&mut usize, usize),
        interrupt: &Interrupt,
    ) -> bool {
        self.tree.refresh_potentials(cost);
        for _ in 0..MAX_REFRESHES {
            let before = *pivots;
            while let Some((i, j, reduced)) = self.shortlist.price(&self.tree, tolerance) {
                if *pivots >= limit || (pivots.is_multiple_of(PIVOTS_PER_CHECK) && interrupt.is_raised()) {
                    return false;
                }
                self.tree.pivot(i, j, reduced);
                *pivots += 1;
            }
            if *pivots == before {
                break;
            }
            // Without the drift, and without a penalty that has left the tree.
            self.tree.refresh_potentials(cost);
        }
        true
    }
}
