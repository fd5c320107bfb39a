//! Plans near an optimal one. When the metric changes little, so does the optimal plan: mass moves to the arcs with the
//! smallest reduced cost $C_{ij} - f_i - g_j$. Pivots along these arcs give plans that a corrective step can use at once.

use super::PlanEntry;
use super::cost_rows::CostRows;
use super::simplex::NetworkSimplex;
use super::tree::Tree;

impl NetworkSimplex {
    /// The changes from the last solution to plans near it, as masses to add to its entries, with losses negative: up to
    /// `count` single pivots along the cheapest arcs, and then the same pivots applied in sequence.
    pub(crate) fn neighbors(&self, cost: &CostRows, count: usize) -> Vec<Vec<PlanEntry>> {
        // Streamed costs would have to be formed again.
        if count == 0 || !self.is_whole() || matches!(cost, CostRows::Streamed(_)) {
            return Vec::new();
        }
        let arcs = self.cheapest_arcs(cost);
        let (mut tree, mut together) = (self.tree().clone(), Vec::new());
        let (mut single, mut chained) = (Vec::new(), Vec::new());
        for (i, j, reduced) in arcs {
            let Some(alone) = self.changes(self.tree(), (i, j)) else { continue };
            single.push(alone);
            if let Some(next) = self.changes(&tree, (i, j)) {
                together.extend(next);
                // The potentials of the copy are never read, so the reduced cost need not be that of its tree.
                tree.pivot(i, j, reduced);
                chained.push(together.clone());
            }
            if single.len() == count {
                break;
            }
        }
        // The first link of the chain is the first single pivot.
        single.extend(chained.into_iter().skip(1));
        single
    }

    /// The change that a pivot along an arc makes to the plan; None if it moves no mass.
    fn changes(&self, tree: &Tree, (i, j): (usize, usize)) -> Option<Vec<PlanEntry>> {
        let (flow, cycle) = tree.cycle(i, j);
        let mut changes = vec![PlanEntry { row: i, column: j, mass: self.mass_of(flow) }];
        for (node, gains) in cycle {
            let (row, column) = tree.arc(node)?;
            changes.push(PlanEntry { row, column, mass: self.mass_of(if gains { flow } else { -flow }) });
        }
        (flow > 0).then_some(changes)
    }

    /// For every row, the arc outside the tree with the smallest reduced cost, in ascending order of that cost.
    fn cheapest_arcs(&self, cost: &CostRows) -> Vec<(usize, usize, f64)> {
        let (source, target) = self.tree().potentials();
        let mut in_tree: Vec<Vec<usize>> = vec![Vec::new(); source.len()];
        self.tree().arcs().for_each(|(i, j, _)| in_tree[i].push(j));
        let mut workspace = Vec::new();
        let mut least = Vec::with_capacity(source.len());
        for (i, basic) in in_tree.iter().enumerate() {
            let row = cost.rows(i..i + 1, &mut workspace);
            let reduced = row.iter().zip(target).map(|(c, p)| c + source[i] - p);
            let outside = reduced.enumerate().filter(|(j, _)| !basic.contains(j));
            least.extend(outside.min_by(|x, y| x.1.total_cmp(&y.1)).map(|(j, reduced)| (i, j, reduced)));
        }
        least.sort_unstable_by(|x, y| x.2.total_cmp(&y.2).then((x.0, x.1).cmp(&(y.0, y.1))));
        least
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Axis};

    use super::*;
    use crate::interrupt::Interrupt;
    use crate::testing::{matrix, rng};

    #[test]
    fn plans_near_an_optimal_one_are_plans_that_cost_more() {
        for seed in 0..20 {
            let weights = |count: usize, seed: u64| {
                let weights = matrix(1, count, &mut rng(seed)).mapv(|x| x.abs() + 0.1);
                let sum = weights.sum();
                weights.index_axis_move(Axis(0), 0) / sum
            };
            let (a, b) = (weights(8, seed), weights(11, seed + 50));
            let cost = matrix(8, 11, &mut rng(seed)).mapv(f64::abs);
            let mut simplex = NetworkSimplex::new(&a.to_vec(), &b.to_vec()).unwrap();
            let plan = simplex.solve(&cost, &Interrupt::default()).unwrap().plan;
            let dense = |entries: &[PlanEntry]| {
                let mut dense = Array2::<f64>::zeros((8, 11));
                entries.iter().for_each(|e| dense[[e.row, e.column]] += e.mass);
                dense
            };
            let best = (&dense(&plan) * &cost).sum();
            let near = simplex.neighbors(&CostRows::from(&cost), 4);
            assert!(near.len() >= 4, "{}", near.len());
            for changes in near {
                let next = dense(&plan) + dense(&changes);
                assert!(next.iter().all(|&mass| mass >= -1e-15));
                assert!((next.sum_axis(Axis(1)) - &a).iter().all(|x| x.abs() < 1e-14));
                assert!((next.sum_axis(Axis(0)) - &b).iter().all(|x| x.abs() < 1e-14));
                assert!((&next * &cost).sum() >= best - 1e-14);
                assert!(dense(&changes).iter().any(|x| x.abs() > 1e-9));
            }
            assert!(simplex.neighbors(&CostRows::from(&cost), 0).is_empty());
        }
    }

    #[test]
    fn one_point_has_no_neighbors() {
        let mut simplex = NetworkSimplex::new(&[1.0], &[1.0]).unwrap();
        let cost = Array2::ones((1, 1));
        simplex.solve(&cost, &Interrupt::default()).unwrap();
        assert!(simplex.neighbors(&CostRows::from(&cost), 5).is_empty());
    }
}
