//! Exact optimal transport by the network simplex on the complete bipartite graph:
//!
//! $$\min \langle C, \gamma\rangle = \max\ \lbrace \langle a, f\rangle + \langle b, g\rangle :
//!   f_i + g_j \le C_{ij} \rbrace .$$

use ndarray::Array1;
use rayon::prelude::*;

use super::cost_rows::{CostRows, ROWS_PER_TILE};
use super::shortlist::Shortlist;
use super::sinkhorn::slice;
use super::sweep::rows_per_block;
use super::tree::Tree;
use super::{PlanEntry, normalized};
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::kernels::{lower_to_differences, smallest_difference};

/// Number of units in the total mass. Weights are counted in units of 2⁻¹²⁰, so that flows are exact integers.
const UNITS: f64 = (1_u128 << 120) as f64;
/// Reduced costs below this fraction of the largest cost count as rounding.
pub(super) const PRICE_TOLERANCE: f64 = 1e-14;
/// Number of pivots between two checks of the interrupt flag.
pub(super) const PIVOTS_PER_CHECK: usize = 256;
/// Pivot limit per point, more than any real problem takes: beyond it, rounding must have caused cycling.
pub(super) const PIVOTS_PER_POINT: usize = 10_000;
/// The largest number of times potentials are recomputed before rounding is accepted as the limit.
pub(super) const MAX_REFRESHES: usize = 20;

/// An exact solver for fixed weights; a second call with other costs starts from the last basis.
///
/// With two million costs or more it works on a shortlist of arcs, which entropic potentials choose, and which grows until
/// all other arcs are proven to be of no use. Costs of which many are equal are left to the simplex on all arcs.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::NetworkSimplex;
///
/// let mut simplex = NetworkSimplex::new(&[0.5, 0.5], &[0.25, 0.75])?;
/// let solution = simplex.solve(&array![[0.0, 1.0], [2.0, 0.5]], &Interrupt::default())?;
/// let cost: f64 = solution.plan.iter().map(|e| e.mass * [[0.0, 1.0], [2.0, 0.5]][e.row][e.column]).sum();
/// assert_eq!(cost, 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NetworkSimplex {
    pub(super) a: Array1<f64>,
    pub(super) b: Array1<f64>,
    pub(super) mass: f64,
    /// The points whose weight is at least one unit; the others are not in the tree.
    pub(super) rows: Vec<usize>,
    pub(super) columns: Vec<usize>,
    /// The weights of those points, in units.
    pub(super) supply: Vec<i128>,
    pub(super) demand: Vec<i128>,
    pub(super) tree: Tree,
    /// Whether the last solve reached the optimum.
    pub(super) warm: bool,
    pub(super) shortlist: Shortlist,
    next_arc: usize,
    /// The largest number of pivots of one solve.
    pub(super) pivot_limit: usize,
    /// Buffer for cost rows that are not stored.
    tile: Tile,
}

/// The rows of streamed costs that were formed last; block search visits rows in order.
#[derive(Debug, Clone, Default)]
struct Tile {
    first: usize,
    count: usize,
    costs: Vec<f64>,
}

impl Tile {
    /// Row i of the costs.
    fn row<'a>(&'a mut self, costs: &'a CostRows, i: usize) -> &'a [f64] {
        let (m, n) = costs.dim();
        if let CostRows::Streamed(_) = costs {
            if !(self.first..self.first + self.count).contains(&i) {
                self.first = i / ROWS_PER_TILE * ROWS_PER_TILE;
                self.count = ROWS_PER_TILE.min(m - self.first);
                costs.rows(self.first..self.first + self.count, &mut self.costs);
            }
            let start = (i - self.first) * n;
            return &self.costs[start..start + n];
        }
        costs.rows(i..i + 1, &mut self.costs)
    }
}

/// The result of the network simplex.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::NetworkSimplex;
///
/// let cost = array![[1.0, 2.0], [3.0, 1.0]];
/// let solution = NetworkSimplex::new(&[1.0, 1.0], &[1.0, 1.0])?.solve(&cost, &Interrupt::default())?;
/// assert!(solution.optimal);
/// let dual = solution.source_potential.sum() + solution.target_potential.sum();
/// assert_eq!(dual, 2.0);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SimplexSolution {
    /// At most m + n − 1 entries, row by row, with the given marginals.
    pub plan: Vec<PlanEntry>,
    /// f, feasible up to the last bit: f_i + g_j ≤ C_ij. Shifted so that half the mass has f ≤ 0.
    pub source_potential: Array1<f64>,
    /// g.
    pub target_potential: Array1<f64>,
    /// Number of pivots in this call.
    pub pivots: usize,
    /// False if the solve was interrupted or reached its pivot limit; the plan is feasible in any case.
    pub optimal: bool,
}

impl NetworkSimplex {
    /// Takes weights with equal sums. If the sums differ by less than 1e-6, as those of single-precision weights do, the
    /// target is scaled to the mass of the source.
    ///
    /// # Errors
    /// When a weight is negative or not finite, all are zero, or the sums differ.
    pub fn new(a: &[f64], b: &[f64]) -> Result<Self> {
        let (a, b, mass) = normalized(a, b)?;
        let (mut supply, mut demand) = (quantized(&a), quantized(&b));
        balance(&mut supply, &mut demand);
        let kept = |units: &[i128]| (0..units.len()).filter(|&i| units[i] > 0).collect::<Vec<_>>();
        let (rows, columns) = (kept(&supply), kept(&demand));
        let pick = |units: &[i128], kept: &[usize]| kept.iter().map(|&i| units[i]).collect::<Vec<_>>();
        let (supply, demand) = (pick(&supply, &rows), pick(&demand, &columns));
        Ok(Self {
            a,
            b,
            mass,
            rows,
            columns,
            tree: Tree::star(&supply, &demand),
            supply,
            demand,
            warm: false,
            shortlist: Shortlist::default(),
            next_arc: 0,
            pivot_limit: usize::MAX,
            tile: Tile::default(),
        })
    }

    /// Limits the number of pivots of each call of [`solve`](Self::solve); at the limit, its plan is feasible but not optimal.
    pub fn limit_pivots(&mut self, pivots: usize) {
        self.pivot_limit = pivots;
    }

    /// Limits the bytes that a solve may use besides the costs, where it can do without.
    pub(crate) fn limit_memory(&mut self, bytes: usize) {
        self.shortlist.memory = bytes;
    }

    /// The tree of the last solve.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Whether every point is in the tree and the last solve reached the optimum.
    pub(super) fn is_whole(&self) -> bool {
        self.warm && self.rows.len() == self.a.len() && self.columns.len() == self.b.len()
    }

    /// Converts units to mass.
    pub(super) fn mass_of(&self, units: i128) -> f64 {
        units as f64 / UNITS * self.mass
    }

    /// Solves for one cost matrix, stored or streamed.
    ///
    /// # Errors
    /// When the costs are not m × n or not finite.
    pub fn solve<'a>(
        &mut self,
        cost: impl Into<CostRows<'a>>,
        interrupt: &Interrupt,
    ) -> Result<SimplexSolution> {
        let cost = cost.into();
        let (low, high) = cost.check(self.a.len(), self.b.len())?;
        let largest = low.abs().max(high.abs());
        let everyone = self.rows.len() == self.a.len() && self.columns.len() == self.b.len();
        let mut tile = std::mem::take(&mut self.tile);
        tile.count = 0;
        let (pivots, optimal) = if everyone {
            self.run(&cost, largest, &mut tile, interrupt)
        } else {
            let picked = cost.picked(&self.rows, &self.columns);
            self.run(&picked.rows(), largest, &mut tile, interrupt)
        };
        self.warm = optimal;
        tile.count = 0;
        let (source_potential, target_potential) = self.feasible_potentials(&cost);
        let plan = self.plan(&cost, &source_potential, &target_potential);
        self.tile = tile;
        Ok(SimplexSolution { plan, source_potential, target_potential, pivots, optimal })
    }

    /// Pivots until no reduced cost is negative: on a shortlist first, if that is likely to pay, and then among all arcs.
    fn run(
        &mut self,
        costs: &CostRows,
        largest: f64,
        tile: &mut Tile,
        interrupt: &Interrupt,
    ) -> (usize, bool) {
        let points = self.rows.len() + self.columns.len();
        let limit = self.pivot_limit.min(PIVOTS_PER_POINT * points);
        let mut pivots = 0;
        if self.warm {
            self.tree.ease_anchors(largest);
        }
        match self.run_on_shortlist(costs, largest, limit, interrupt) {
            Some(ended) if ended.stopped || ended.optimal => return (ended.pivots, ended.optimal),
            Some(ended) => pivots = ended.pivots,
            // High enough that meeting a demand through the root never pays.
            None if !self.warm => {
                self.tree.penalize(2.0 * largest.max(f64::MIN_POSITIVE) * points as f64);
            }
            None => (),
        }
        let mut tolerance = PRICE_TOLERANCE * largest;
        let cost = |i: usize, j: usize| costs.entry(i, j);
        self.tree.refresh_potentials(cost);
        for _ in 0..MAX_REFRESHES {
            let before = pivots;
            while let Some((i, j, reduced)) = self.price(costs, tile, tolerance) {
                if pivots >= limit || (pivots % PIVOTS_PER_CHECK == 0 && interrupt.is_raised()) {
                    return (pivots, false);
                }
                self.tree.pivot(i, j, reduced);
                pivots += 1;
            }
            if pivots == before {
                break;
            }
            // All demands are met, so the penalty has left the tree: recompute the potentials without it and without
            // drift. A reduced cost can be negative only where C_ij is below |π_i| + |π_j|, so it rounds like those.
            self.tree.refresh_potentials(cost);
            tolerance = tolerance.min(8.0 * f64::EPSILON * self.tree.largest_potential());
        }
        (pivots, true)
    }

    /// The arc with the most negative reduced cost in the next block that has a negative one.
    fn price(&mut self, costs: &CostRows, tile: &mut Tile, tolerance: f64) -> Option<(usize, usize, f64)> {
        let (source, target) = self.tree.potentials();
        let (n, arcs) = (target.len(), source.len() * target.len());
        let block = ((arcs as f64).sqrt() as usize).clamp(64.min(arcs), arcs);
        let mut best = (0, 0, -tolerance);
        let (mut seen, mut seen_in_block) = (0, 0);
        while seen < arcs {
            let (i, from) = (self.next_arc / n, self.next_arc % n);
            let to = n.min(from + block - seen_in_block);
            let row = &tile.row(costs, i)[from..to];
            let smallest = smallest_difference(row, &target[from..to]);
            if smallest + source[i] < best.2 {
                let offset = row.iter().zip(&target[from..to]).position(|(c, p)| c - p <= smallest);
                best = (i, from + offset.unwrap_or(0), smallest + source[i]);
            }
            self.next_arc = (i * n + to) % arcs;
            seen += to - from;
            seen_in_block += to - from;
            if seen_in_block == block {
                if best.2 < -tolerance {
                    break;
                }
                seen_in_block = 0;
            }
        }
        (best.2 < -tolerance).then_some(best)
    }

    /// (f, g) with f_i + g_j ≤ C_ij for all points, weightless ones included, by two passes of the c-transform.
    fn feasible_potentials(&self, cost: &CostRows) -> (Array1<f64>, Array1<f64>) {
        let (m, n) = cost.dim();
        let (source, target) = self.tree.potentials();
        // The tree may be rooted at a far point of little weight; a shift by that distance would cost digits.
        let shift = -weighted_median(source, self.rows.iter().map(|&i| self.a[i]));
        // Columns without weight do not bound f.
        let mut shifted = vec![f64::NEG_INFINITY; n];
        self.columns.iter().zip(target).for_each(|(&j, g)| shifted[j] = g + shift);
        let block = rows_per_block(m);
        let mut f = Array1::zeros(m);
        let of_rows = f.as_slice_mut().expect("new arrays are contiguous");
        of_rows.par_chunks_mut(ROWS_PER_TILE).enumerate().for_each_init(Vec::new, |tile, (index, f)| {
            let first = index * ROWS_PER_TILE;
            let costs = cost.rows(first..first + f.len(), tile);
            f.iter_mut()
                .zip(costs.chunks_exact(n))
                .for_each(|(f, row)| *f = smallest_difference(row, &shifted));
        });
        let of_blocks = slice(&f).par_chunks(block).enumerate().map(|(index, f)| {
            let (mut tile, mut g) = (Vec::new(), vec![f64::INFINITY; n]);
            for (part, f) in f.chunks(ROWS_PER_TILE).enumerate() {
                let first = index * block + part * ROWS_PER_TILE;
                let costs = cost.rows(first..first + f.len(), &mut tile);
                f.iter()
                    .zip(costs.chunks_exact(n))
                    .for_each(|(f, row)| lower_to_differences(&mut g, row, *f));
            }
            g
        });
        let mut g = vec![f64::INFINITY; n];
        for of_block in of_blocks.collect::<Vec<_>>() {
            lower_to_differences(&mut g, &of_block, 0.0);
        }
        (f, Array1::from(g))
    }

    /// The flows as masses. Flow that an interrupted solve left at the root is matched in order, and a weight below
    /// one unit goes where its dual constraint is tight.
    fn plan(&self, cost: &CostRows, f: &Array1<f64>, g: &Array1<f64>) -> Vec<PlanEntry> {
        let mass = |units: i128| self.mass_of(units);
        let mut plan: Vec<_> = self
            .tree
            .arcs()
            .filter(|&(.., flow)| flow > 0)
            .map(|(i, j, flow)| PlanEntry { row: self.rows[i], column: self.columns[j], mass: mass(flow) })
            .collect();
        let m = self.rows.len();
        let mut targets = self.tree.unmatched().filter(|&(v, _)| v >= m);
        let mut open: Option<(usize, i128)> = None;
        for (i, mut supply) in self.tree.unmatched().take_while(|&(v, _)| v < m) {
            while supply > 0 {
                let Some((v, demand)) = open.take().or_else(|| targets.next()) else { break };
                let flow = supply.min(demand);
                plan.push(PlanEntry { row: self.rows[i], column: self.columns[v - m], mass: mass(flow) });
                supply -= flow;
                open = (demand > flow).then_some((v, demand - flow));
            }
        }
        let slack = |i: usize, j: usize| cost.entry(i, j) - f[i] - g[j];
        let tight = |count: usize, slack: &dyn Fn(usize) -> f64| {
            (0..count).min_by(|&x, &y| slack(x).total_cmp(&slack(y))).unwrap_or(0)
        };
        for row in left_out(&self.a, &self.rows) {
            let column = self.columns[tight(self.columns.len(), &|j| slack(row, self.columns[j]))];
            plan.push(PlanEntry { row, column, mass: self.a[row] * self.mass });
        }
        for column in left_out(&self.b, &self.columns) {
            let row = self.rows[tight(self.rows.len(), &|i| slack(self.rows[i], column))];
            plan.push(PlanEntry { row, column, mass: self.b[column] * self.mass });
        }
        plan.sort_unstable_by_key(|entry| (entry.row, entry.column));
        plan
    }
}

/// The value below which half the weight lies.
fn weighted_median(values: &[f64], weights: impl Iterator<Item = f64>) -> f64 {
    let mut pairs: Vec<(f64, f64)> = values.iter().copied().zip(weights).collect();
    pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
    let half = 0.5 * pairs.iter().map(|pair| pair.1).sum::<f64>();
    let mut below = 0.0;
    let middle = pairs.iter().find(|pair| {
        below += pair.1;
        below >= half
    });
    middle.map_or(0.0, |pair| pair.0)
}

/// Points with a positive weight below one unit.
fn left_out<'a>(weights: &'a Array1<f64>, kept: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    (0..weights.len()).filter(move |i| weights[*i] > 0.0 && kept.binary_search(i).is_err())
}

/// Weights in units; exact for every weight above 2⁻⁶⁸, and off by at most half a unit below that.
fn quantized(weights: &Array1<f64>) -> Vec<i128> {
    weights.iter().map(|w| (w * UNITS).round() as i128).collect()
}

/// Adds the difference of the totals, a result of rounding the weights, to the largest weight of the smaller side.
fn balance(supply: &mut [i128], demand: &mut [i128]) {
    let total = |units: &[i128]| units.iter().sum::<i128>();
    let missing = total(supply) - total(demand);
    let smaller = if missing > 0 { demand } else { supply };
    if let Some(largest) = smaller.iter_mut().max() {
        *largest += missing.abs();
    }
}

#[cfg(test)]
#[path = "shortlist_tests.rs"]
mod shortlist_tests;
#[cfg(test)]
#[path = "simplex_tests.rs"]
pub(super) mod tests;
