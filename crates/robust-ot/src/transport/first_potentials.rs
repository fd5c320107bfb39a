//! Potentials near the optimal ones, from Sinkhorn's iteration at a regularization that falls to the local scale of the
//! costs: the difference of slack, $C_{ij} - g_j$, between the best arcs of a row.

use ndarray::Array1;

use super::cost_rows::{CostRows, ROWS_PER_TILE};
use super::iterate::OnStall;
use super::sinkhorn::{Sinkhorn, slice};
use crate::interrupt::Interrupt;
use crate::kernels::Real;

/// Number of rows that the scales are measured on.
const SAMPLE: usize = 64;
/// Number of rows that ties are counted in.
const TIES_SAMPLE: usize = 9;
/// The local scale is that between the best arc and the one of this rank.
const RANK: usize = 10;
/// The first regularization, in units of the spread of a row.
const FIRST: f64 = 0.3;
/// The last regularization, in units of the local scale.
const LAST: f64 = 0.2;
/// The factor by which the regularization falls.
const FALL: f64 = 3.0;
/// The marginal error at which a stage ends.
const STAGE_TOLERANCE: f64 = 0.05;
/// The largest number of iterations of a stage, and of the last one.
const STAGE_ITERATIONS: usize = 8;
const LAST_ITERATIONS: usize = 20;
/// The largest number of stages; after them, the potentials serve as they are.
const MAX_STAGES: usize = 16;
/// Slacks that differ by less than this fraction of the spread are ties.
const TIE: f64 = 1e-9;
/// The share of ties in a row from which a list of least slacks is arbitrary.
const TIED: f64 = 0.25;
/// The regularization is at least this many times the rounding of the largest cost.
const RESOLVED: f64 = 100.0;
/// Streamed costs are formed in single precision if their local scale is at least this many times its rounding: the scale
/// falls as the potentials improve, by less than the ratio of this to [`RESOLVED`].
const WELL_RESOLVED: f64 = 5000.0;
/// The largest costs that are formed in single precision lie between these, so that squares stay within its range.
const SINGLE_RANGE: std::ops::Range<f64> = 1e-15..1e15;

/// Scales of C_ij − g_j within a row: medians over a sample of rows.
struct Scales {
    /// Between the best arc and a neighboring one.
    local: f64,
    /// Between the best arc and the median.
    spread: f64,
}

impl Scales {
    fn measure<T: Real>(costs: &CostRows<T>, g: &[f64]) -> Self {
        let (m, n) = costs.dim();
        let (mut tile, mut slacks) = (Vec::new(), Vec::new());
        let (mut local, mut spread) = (Vec::new(), Vec::new());
        let sampled = SAMPLE.min(m);
        for i in (0..sampled).map(|k| k * m / sampled) {
            let first = i / ROWS_PER_TILE * ROWS_PER_TILE;
            let costs = costs.rows(first..m.min(first + ROWS_PER_TILE), &mut tile);
            slacks.clear();
            slacks.extend(costs[(i - first) * n..][..n].iter().zip(g).map(|(&c, g)| c.into() - g));
            let rank = RANK.min(n - 1);
            let middle = *slacks.select_nth_unstable_by(rank.max(n / 2), f64::total_cmp).1;
            let near = *slacks[..=rank.max(n / 2)].select_nth_unstable_by(rank, f64::total_cmp).1;
            let least = slacks[..=rank].iter().copied().fold(f64::INFINITY, f64::min);
            local.push(near - least);
            spread.push(middle - least);
        }
        Self { local: median(local), spread: median(spread) }
    }
}

/// The share of costs in a row that equal another up to `close`: a median over a sample of rows.
fn share_of_ties(costs: &CostRows, close: f64) -> f64 {
    let (m, n) = costs.dim();
    let (mut tile, mut shares) = (Vec::new(), Vec::new());
    let tiles = m.div_ceil(ROWS_PER_TILE);
    for first in (0..TIES_SAMPLE.min(tiles)).map(|k| k * tiles / TIES_SAMPLE.min(tiles) * ROWS_PER_TILE) {
        let mut row = costs.rows(first..m.min(first + ROWS_PER_TILE), &mut tile)[..n].to_vec();
        row.sort_unstable_by(f64::total_cmp);
        shares.push(row.windows(2).filter(|pair| pair[1] - pair[0] <= close).count() as f64 / n as f64);
    }
    median(shares)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// (f, g), where f is the soft minimum of C − g; None if the costs have no scale to follow, or so many ties that the dense
/// simplex is faster. `largest` bounds the costs, `memory` is what the plans of Sinkhorn's iteration may take, in bytes.
pub(super) fn first_potentials(
    (costs, largest): (&CostRows, f64),
    weights: (&[f64], &[f64]),
    memory: usize,
    interrupt: &Interrupt,
) -> Option<(Array1<f64>, Array1<f64>)> {
    let scales = Scales::measure(costs, &vec![0.0; weights.1.len()]);
    match costs {
        // Streamed costs are too slow to search for every pivot, ties or not.
        CostRows::Stored(_) if share_of_ties(costs, TIE * scales.spread) > TIED => None,
        CostRows::Streamed(factors)
            if SINGLE_RANGE.contains(&largest)
                && scales.local >= WELL_RESOLVED * <f32 as Real>::EPSILON * largest =>
        {
            let rounded = factors.rounded();
            stages((&CostRows::Streamed(&rounded), largest), scales, weights, memory, interrupt)
        }
        _ => stages((costs, largest), scales, weights, memory, interrupt),
    }
}

/// Sinkhorn's iteration, stage by stage.
fn stages<T: Real>(
    (costs, largest): (&CostRows<T>, f64),
    mut scales: Scales,
    (a, b): (&[f64], &[f64]),
    memory: usize,
    interrupt: &Interrupt,
) -> Option<(Array1<f64>, Array1<f64>)> {
    let mut stage = FIRST * scales.spread;
    let usable = |epsilon: f64| epsilon > 0.0 && epsilon.is_finite() && (1.0 / epsilon).is_finite();
    if !usable(stage) {
        return None;
    }
    let mut sinkhorn = Sinkhorn::<T>::new(a, b, stage).ok()?.with_memory(memory);
    for _ in 0..MAX_STAGES {
        let goal = (LAST * scales.local).max(RESOLVED * T::EPSILON * largest);
        if !usable(goal) || interrupt.is_raised() {
            break;
        }
        let last = stage <= goal;
        stage = stage.max(goal);
        let limit = if last { LAST_ITERATIONS } else { STAGE_ITERATIONS };
        sinkhorn.iterate(costs, stage, STAGE_TOLERANCE, limit, OnStall::Continue, interrupt);
        if last {
            break;
        }
        scales = Scales::measure(costs, slice(&sinkhorn.g));
        stage /= FALL;
    }
    let sound = sinkhorn.f.iter().chain(&sinkhorn.g).all(|x| x.is_finite());
    sound.then_some((sinkhorn.f, sinkhorn.g))
}
