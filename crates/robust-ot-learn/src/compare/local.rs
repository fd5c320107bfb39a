//! Which columns, pairs and groups of columns have changed, each judged by statistics of those columns alone.
//!
//! A column has four statistics: the transport distance W₂² between its two sides and the squared logarithm of the ratio of
//! their variances, each of its values and of their logistic scores. W₂² alone sees a change of spread beside the noise of
//! the mean, which is twice as large. A pair has two: the squared change of its correlation, likewise. Such squares are
//! nearly χ² if nothing has changed; their cube roots are nearly normal (Wilson and Hilferty 1931) and put on one scale by
//! their means and standard deviations over all arrangements, so that the largest counts. A group's statistic is the largest
//! of its columns and of the pairs within it.
//!
//! p-values adjusted for the number of columns are those of the step-down maximum (Westfall and Young 1993): in the order of
//! the observed statistics t₁ ≥ t₂ ≥ …, the k-th is #{b : max_{l ≥ k} t_l(b) ≥ t_k} / B, made monotone. They control the
//! probability of any false claim if the joint distribution of all unchanged columns is the same on both sides.

use std::ops::Range;

use ndarray::ArrayView2;
use rayon::prelude::*;
use robust_ot::solve::Interrupt;

use super::arrangements::Arrangements;
use super::moments::{Rows, SideMoments};
use super::ranking::reaches;
use super::scores::logistic_scores;
use super::sorted_columns::{Sides, SortedColumns};

/// The arrangements that one thread takes at a time.
const CHUNK: usize = 16;
/// Pairs of more columns than this are not examined: there would be more than 20,000.
pub const MOST_COLUMNS_IN_PAIRS: usize = 200;
/// Standard deviations below this fraction of the mean are rounding.
const ROUNDING: f64 = 1e-10;

/// A statistic of every column, pair or group, with its p-values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    /// The observed statistic, in standard deviations above the mean of all arrangements.
    pub statistic: f64,
    /// The p-value of this one alone.
    pub p_value: f64,
    /// The p-value adjusted for the number of its kind.
    pub adjusted: f64,
}

/// What all arrangements say.
#[derive(Debug)]
pub(super) struct Judgments {
    pub columns: Vec<Judged>,
    /// Pairs (0, 1), (0, 2), …, (1, 2), …; none if there are too many columns.
    pub pairs: Vec<Judged>,
    pub groups: Vec<Judged>,
    /// The largest statistic of a column, for every arrangement.
    pub largest_column: Vec<f64>,
    /// The sum of W₂² over all columns, of values and of scores, each in standard deviations over all arrangements.
    pub sum_of_columns: Vec<f64>,
    /// The largest statistic of a pair.
    pub largest_pair: Vec<f64>,
    /// ‖S − S′‖ for the second moments of both sides.
    pub moments: Vec<f64>,
}

/// The table in the forms that the statistics need.
struct Table<'a> {
    columns: SortedColumns,
    scored: SortedColumns,
    rows: Rows,
    scores: Rows,
    dim: usize,
    pairs: usize,
    groups: &'a [Vec<usize>],
}

/// The statistics of one arrangement: W₂² of the values of all columns, then of their scores; then the cube roots of these
/// and of the changes of spread; then those of the changes of correlation.
struct Statistics {
    sides: Sides,
    moments: SideMoments,
    of_scores: SideMoments,
    all: Vec<f64>,
}

/// Judges all columns, pairs and groups. `None` once interrupted.
pub(super) fn judge(
    values: ArrayView2<f64>,
    groups: &[Vec<usize>],
    arrangements: &Arrangements,
    interrupt: &Interrupt,
    done: &(dyn Fn(usize) + Sync),
) -> Option<Judgments> {
    let dim = values.ncols();
    let pairs = if dim <= MOST_COLUMNS_IN_PAIRS { dim * (dim - 1) / 2 } else { 0 };
    let scores = logistic_scores(values);
    let table = Table {
        columns: SortedColumns::new(values),
        scored: SortedColumns::new(scores.view()),
        rows: Rows::new(values),
        scores: Rows::new(scores.view()),
        dim,
        pairs,
        groups,
    };
    let chunks: Vec<Range<usize>> = (0..arrangements.len())
        .step_by(CHUNK)
        .map(|first| first..(first + CHUNK).min(arrangements.len()))
        .collect();
    let first: Vec<First> = chunks
        .par_iter()
        .map(|chunk| {
            let found = table.first_pass(chunk.clone(), arrangements, interrupt);
            done(chunk.len());
            found
        })
        .collect();
    if interrupt.is_raised() {
        return None;
    }
    let scale = Scale::new(&first, arrangements.len());
    let mut observed = table.statistics();
    table.compute(arrangements, 0, &mut observed);
    let observed = scale.units(&table, &observed.all);
    let orders = [descending(&observed[..dim]), descending(&observed[dim..])];
    let second: Vec<Second> = chunks
        .par_iter()
        .map(|chunk| {
            let found =
                table.second_pass(chunk.clone(), arrangements, &scale, (&observed, &orders), interrupt);
            done(chunk.len());
            found
        })
        .collect();
    if interrupt.is_raised() {
        return None;
    }
    let flat = |of: &dyn Fn(&Second) -> &[f64]| second.iter().flat_map(|part| of(part).to_vec()).collect();
    let count = arrangements.len() as f64;
    let sum = |of: &dyn Fn(&Second) -> &[u32]| {
        let mut sum = vec![0_u32; dim + pairs];
        second.iter().for_each(|part| sum.iter_mut().zip(of(part)).for_each(|(sum, more)| *sum += more));
        sum.into_iter().map(|reached| f64::from(reached) / count).collect::<Vec<f64>>()
    };
    let (alone, adjusted) = (sum(&|part| &part.alone), sum(&|part| &part.adjusted));
    let judged = |range: Range<usize>, order: &[usize]| {
        let adjusted = monotone(&adjusted[range.clone()], order);
        let found = observed[range.clone()].iter().zip(&alone[range]).zip(adjusted);
        found
            .map(|((statistic, p_value), adjusted)| Judged {
                statistic: *statistic,
                p_value: *p_value,
                adjusted,
            })
            .collect::<Vec<_>>()
    };
    let of_groups: Vec<f64> = flat(&|part| &part.groups);
    Some(Judgments {
        columns: judged(0..dim, &orders[0]),
        pairs: judged(dim..dim + pairs, &orders[1]),
        groups: judge_groups(&of_groups, groups.len()),
        largest_column: flat(&|part| &part.largest_column),
        sum_of_columns: flat(&|part| &part.sum_of_columns),
        largest_pair: flat(&|part| &part.largest_pair),
        moments: first.iter().flat_map(|part| part.moments.clone()).collect(),
    })
}

/// Sums over some arrangements.
struct First {
    sums: Vec<f64>,
    squares: Vec<f64>,
    moments: Vec<f64>,
}

/// Comparisons with the observed statistics, of some arrangements.
struct Second {
    alone: Vec<u32>,
    adjusted: Vec<u32>,
    groups: Vec<f64>,
    largest_column: Vec<f64>,
    sum_of_columns: Vec<f64>,
    largest_pair: Vec<f64>,
}

impl Table<'_> {
    fn statistics(&self) -> Statistics {
        Statistics {
            sides: Sides::default(),
            moments: self.rows.buffers(),
            of_scores: self.scores.buffers(),
            all: vec![0.0; 6 * self.dim + 2 * self.pairs],
        }
    }

    fn compute(&self, arrangements: &Arrangements, number: usize, into: &mut Statistics) {
        let Statistics { sides, moments, of_scores, all } = into;
        let side = arrangements.side(number);
        let side = side.as_slice().expect("arrangements are rows");
        let (distances, roots) = all.split_at_mut(2 * self.dim);
        let (spreads, pairs) = roots[2 * self.dim..].split_at_mut(2 * self.dim);
        for ((columns, distances), spreads) in [&self.columns, &self.scored]
            .into_iter()
            .zip(distances.chunks_exact_mut(self.dim))
            .zip(spreads.chunks_exact_mut(self.dim))
        {
            columns.changes(side, sides, distances, spreads);
        }
        self.rows.split(side, moments);
        if self.pairs > 0 {
            self.scores.split(side, of_scores);
            let (values, scores) = pairs.split_at_mut(self.pairs);
            moments.correlation_changes(values);
            of_scores.correlation_changes(scores);
        }
        roots[..2 * self.dim].copy_from_slice(distances);
        roots[2 * self.dim..].iter_mut().for_each(|change| *change *= *change);
        roots.iter_mut().for_each(|square| *square = square.cbrt());
    }

    /// Means and squares of the statistics, and what is not judged column by column.
    fn first_pass(&self, chunk: Range<usize>, arrangements: &Arrangements, interrupt: &Interrupt) -> First {
        let mut found = self.statistics();
        let zeros = vec![0.0; found.all.len()];
        let mut first = First { sums: zeros.clone(), squares: zeros, moments: Vec::new() };
        for number in chunk {
            if interrupt.is_raised() {
                break;
            }
            self.compute(arrangements, number, &mut found);
            for ((sum, square), value) in first.sums.iter_mut().zip(&mut first.squares).zip(&found.all) {
                *sum += value;
                *square += value * value;
            }
            first.moments.push(found.moments.change());
        }
        first
    }

    fn second_pass(
        &self,
        chunk: Range<usize>,
        arrangements: &Arrangements,
        scale: &Scale,
        (observed, orders): (&[f64], &[Vec<usize>; 2]),
        interrupt: &Interrupt,
    ) -> Second {
        let mut found = self.statistics();
        let counts = vec![0_u32; self.dim + self.pairs];
        let mut second = Second {
            alone: counts.clone(),
            adjusted: counts,
            groups: Vec::new(),
            largest_column: Vec::new(),
            sum_of_columns: Vec::new(),
            largest_pair: Vec::new(),
        };
        for number in chunk {
            if interrupt.is_raised() {
                break;
            }
            self.compute(arrangements, number, &mut found);
            let units = scale.units(self, &found.all);
            let reached = units.iter().zip(observed).map(|(unit, observed)| reaches(*unit, *observed));
            second.alone.iter_mut().zip(reached).for_each(|(count, reached)| *count += u32::from(reached));
            for (order, offset) in orders.iter().zip([0, self.dim]) {
                let mut largest = f64::NEG_INFINITY;
                for &unit in order.iter().rev() {
                    largest = largest.max(units[offset + unit]);
                    second.adjusted[offset + unit] += u32::from(reaches(largest, observed[offset + unit]));
                }
            }
            let most = |units: &[f64]| units.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            second.largest_column.push(most(&units[..self.dim]));
            second.sum_of_columns.push((0..2 * self.dim).map(|at| scale.unit(at, &found.all)).sum());
            second.largest_pair.push(most(&units[self.dim..]));
            second.groups.extend(self.groups.iter().map(|group| self.largest_within(group, &units)));
        }
        second
    }

    /// The largest statistic of the columns of a group and of the pairs within it.
    fn largest_within(&self, group: &[usize], units: &[f64]) -> f64 {
        let columns = group.iter().map(|&column| units[column]);
        let largest = columns.fold(f64::NEG_INFINITY, f64::max);
        if self.pairs == 0 {
            return largest;
        }
        let within =
            group.iter().enumerate().flat_map(|(at, &a)| group[at + 1..].iter().map(move |&b| (a, b)));
        within.fold(largest, |largest, (a, b)| largest.max(units[self.dim + pair_index(self.dim, a, b)]))
    }
}

/// The place of a pair a < b among (0, 1), (0, 2), …, (1, 2), ….
pub(super) fn pair_index(dim: usize, a: usize, b: usize) -> usize {
    a * (2 * dim - a - 1) / 2 + b - a - 1
}

/// Means and standard deviations over all arrangements.
struct Scale {
    mean: Vec<f64>,
    spread: Vec<f64>,
}

impl Scale {
    fn new(parts: &[First], count: usize) -> Self {
        let length = parts.first().map_or(0, |part| part.sums.len());
        let (mut mean, mut squares) = (vec![0.0; length], vec![0.0; length]);
        for part in parts {
            mean.iter_mut().zip(&part.sums).for_each(|(mean, sum)| *mean += sum / count as f64);
            squares.iter_mut().zip(&part.squares).for_each(|(square, sum)| *square += sum / count as f64);
        }
        let spread = mean.iter().zip(squares).map(|(mean, square)| (square - mean * mean).max(0.0).sqrt());
        Self { spread: spread.collect(), mean }
    }

    /// A statistic in standard deviations above the mean; zero if no arrangement changes it.
    fn unit(&self, at: usize, all: &[f64]) -> f64 {
        let (mean, spread) = (self.mean[at], self.spread[at]);
        if spread > ROUNDING * mean { (all[at] - mean) / spread } else { 0.0 }
    }

    /// The largest statistic of every column, then of every pair.
    fn units(&self, table: &Table, all: &[f64]) -> Vec<f64> {
        let largest = |first: usize, count: usize, kinds: usize| {
            let of = move |at: usize| (0..kinds).map(move |kind| self.unit(at + kind * count, all));
            (first..first + count).map(move |at| of(at).fold(f64::NEG_INFINITY, f64::max))
        };
        largest(2 * table.dim, table.dim, 4).chain(largest(6 * table.dim, table.pairs, 2)).collect()
    }
}

/// Indices by falling value.
fn descending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[j].total_cmp(&values[i]));
    order
}

/// No p-value is smaller than that of a larger statistic.
fn monotone(p_values: &[f64], order: &[usize]) -> Vec<f64> {
    let (mut adjusted, mut least) = (vec![0.0; p_values.len()], 0.0_f64);
    for &at in order {
        least = least.max(p_values[at]);
        adjusted[at] = least;
    }
    adjusted
}

/// Judges groups, whose statistics are given for all arrangements one after another.
fn judge_groups(statistics: &[f64], groups: usize) -> Vec<Judged> {
    if groups == 0 {
        return Vec::new();
    }
    let rows = || statistics.chunks_exact(groups);
    let count = rows().len() as f64;
    let (mut mean, mut squares) = (vec![0.0; groups], vec![0.0; groups]);
    for row in rows() {
        for ((mean, square), value) in mean.iter_mut().zip(&mut squares).zip(row) {
            *mean += value / count;
            *square += value * value / count;
        }
    }
    let unit = |row: &[f64], at: usize| {
        let spread = (squares[at] - mean[at] * mean[at]).max(0.0).sqrt();
        if spread > ROUNDING * mean[at].abs() { (row[at] - mean[at]) / spread } else { 0.0 }
    };
    let units: Vec<Vec<f64>> = rows().map(|row| (0..groups).map(|at| unit(row, at)).collect()).collect();
    let observed = &units[0];
    let order = descending(observed);
    let (mut alone, mut adjusted) = (vec![0_u32; groups], vec![0_u32; groups]);
    for units in &units {
        let mut largest = f64::NEG_INFINITY;
        for &at in order.iter().rev() {
            largest = largest.max(units[at]);
            alone[at] += u32::from(reaches(units[at], observed[at]));
            adjusted[at] += u32::from(reaches(largest, observed[at]));
        }
    }
    let shares = |counts: Vec<u32>| counts.into_iter().map(|c| f64::from(c) / count).collect::<Vec<_>>();
    let (alone, adjusted) = (shares(alone), monotone(&shares(adjusted), &order));
    let found = observed.iter().zip(alone).zip(adjusted);
    found
        .map(|((statistic, p_value), adjusted)| Judged { statistic: *statistic, p_value, adjusted })
        .collect()
}
