//! What the worst metric weighs beyond what it weighs where nothing differs.

use ndarray::{Array2, ArrayView2, Axis};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use robust_ot::solve::{Interrupt, Workspace};
use robust_ot::{Grouping, MetricSet, Result, Settings};
use serde::Serialize;

use super::arrangements::Arrangements;
use super::exchange::Exchange;
use super::robust_statistic::RobustStatistic;

/// The rows of each side that are used.
const ROWS: usize = 400;
/// The oracle calls of a solve: the weights only describe.
const CALLS: usize = 20;
/// The random arrangements whose mean is subtracted.
const ARRANGEMENTS: usize = 15;
/// More columns than this take too long.
pub(super) const MOST_COLUMNS: usize = 256;

/// The number of rows listed that move farthest.
const MOVED: usize = 10;

/// A row before, its counterpart after, and how far apart they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moved {
    /// The row before, from 0.
    pub before: usize,
    /// The row after, from 0.
    pub after: usize,
    /// Their Euclidean distance, in scaled columns.
    pub distance: f64,
}

/// The observed sides under their worst metric.
pub(super) struct Described {
    /// M minus its mean over random arrangements.
    pub weights: Array2<f64>,
    /// The distance and its lower bound.
    pub distance: [f64; 2],
    /// The rows that move farthest.
    pub moved: Vec<Moved>,
}

/// M of the observed sides minus its mean over random arrangements of the same rows, and the solution of the former.
/// A description, not a test: entries belong to one plan and influence each other. `None` once interrupted.
pub(super) fn worst_weights(
    values: ArrayView2<f64>,
    (before, after): (usize, usize),
    set: &MetricSet,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Option<Described>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut some = |rows: std::ops::Range<usize>| {
        let mut rows: Vec<usize> = rows.collect();
        let (chosen, _) = rows.partial_shuffle(&mut rng, ROWS);
        chosen.sort_unstable();
        chosen.to_vec()
    };
    let rows = [some(0..before), some(before..before + after)];
    let sizes = (rows[0].len(), rows[1].len());
    let values = values.select(Axis(0), &rows.concat());
    let grouping = Grouping::none(values.ncols());
    let settings = Settings::default().with_tolerance(1e-2).with_max_iterations(CALLS);
    let statistic = RobustStatistic { values: values.view(), set, grouping: &grouping, settings: &settings };
    let arrangements = Arrangements::new(sizes, &Exchange::Free, ARRANGEMENTS, seed)?;
    let solve = |number: usize| {
        let side = arrangements.side(number).to_vec();
        statistic.solve(&side, None, &mut Workspace::default(), interrupt)
    };
    let mut solved =
        (0..arrangements.len()).into_par_iter().map(solve).collect::<Result<Vec<_>>>()?.into_iter();
    if interrupt.is_raised() {
        return Ok(None);
    }
    let Some(observed) = solved.next() else { return Ok(None) };
    let others = solved.len() as f64;
    let mut weights = observed.metric.clone();
    solved.for_each(|other| weights.scaled_add(-1.0 / others, &other.metric));
    let distance = |before: usize, after: usize| {
        let change = &values.row(sizes.0 + after) - &values.row(before);
        change.dot(&change).sqrt()
    };
    let plan = observed.plan().into_iter();
    let mut moved: Vec<Moved> = plan
        .map(|entry| Moved {
            before: rows[0][entry.row],
            after: rows[1][entry.column] - before,
            distance: distance(entry.row, entry.column),
        })
        .collect();
    moved.sort_by(|x, y| y.distance.total_cmp(&x.distance));
    moved.truncate(MOVED);
    Ok(Some(Described { weights, distance: [observed.value, observed.lower_bound], moved }))
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::testing::rng;

    #[test]
    fn a_changed_column_weighs_more_than_by_chance() {
        let mut rng = rng(4);
        let values = Array2::from_shape_fn((160, 6), |(row, column)| {
            rng.random::<f64>() + if row < 80 && column == 2 { 0.5 } else { 0.0 }
        });
        let set = MetricSet::P { k: 1 };
        let found = worst_weights(values.view(), (80, 80), &set, 0, &Interrupt::default()).unwrap().unwrap();
        let weights = found.weights;
        assert!(found.distance[1] <= found.distance[0] && found.moved[0].distance >= found.moved[9].distance);
        assert!(weights[[2, 2]] > 0.3, "{weights}");
        assert!((0..6).filter(|&f| f != 2).all(|f| weights[[f, f]] < 0.5 * weights[[2, 2]]), "{weights}");
    }
}
