//! The transport distance between the two sides of one column, for many arrangements of its rows,
//!
//! $$W_2^2 = \int_0^1 (F^{-1}(u) - G^{-1}(u))^2\thinspace du,$$
//!
//! and the change of its spread.

use ndarray::{ArrayView1, ArrayView2};

/// A side has at least this share of the variances of both sides.
const FLOOR: f64 = 1e-6;

/// The columns of a table, each sorted once.
#[derive(Debug, Clone)]
pub(super) struct SortedColumns {
    columns: Vec<Vec<(f64, u32)>>,
}

/// Buffers for the values of both sides.
#[derive(Debug, Clone, Default)]
pub(super) struct Sides {
    before: Vec<f64>,
    after: Vec<f64>,
}

impl SortedColumns {
    pub(super) fn new(values: ArrayView2<f64>) -> Self {
        let sorted = |column: ArrayView1<f64>| {
            let mut column: Vec<(f64, u32)> = column.iter().copied().zip(0..).collect();
            column.sort_by(|x, y| x.0.total_cmp(&y.0));
            column
        };
        Self { columns: values.columns().into_iter().map(sorted).collect() }
    }

    /// W₂² and the change of spread of every column, between the rows where `side` holds and the others.
    pub(super) fn changes(
        &self,
        side: &[bool],
        sides: &mut Sides,
        distances: &mut [f64],
        spreads: &mut [f64],
    ) {
        for ((column, distance), spread) in self.columns.iter().zip(distances).zip(spreads) {
            sides.before.clear();
            sides.after.clear();
            for &(value, row) in column {
                if side[row as usize] { sides.before.push(value) } else { sides.after.push(value) }
            }
            *distance = squared_distance(&sides.before, &sides.after);
            *spread = spread_change(variance(&sides.before), variance(&sides.after));
        }
    }
}

/// |ln((v + ε t) / (v′ + ε t))| for the variances v and v′ of both sides, t = v + v′ and ε = 10⁻⁶, so that a constant side has
/// a finite change; 0 if both are constant.
fn spread_change(before: f64, after: f64) -> f64 {
    let least = FLOOR * (before + after);
    if least > 0.0 { ((before + least) / (after + least)).ln().abs() } else { 0.0 }
}

fn variance(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count
}

/// W₂² between two sorted samples, each with equal weights. Masses are counted in whole units, 1 / (m n).
pub(super) fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    let (m, n) = (x.len(), y.len());
    if m == n {
        return x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>() / m as f64;
    }
    let (mut i, mut j, mut sum) = (0, 0, 0.0);
    // A point of x has n units, a point of y has m.
    let (mut left_x, mut left_y) = (n, m);
    while i < m && j < n {
        let moved = left_x.min(left_y);
        sum += moved as f64 * (x[i] - y[j]) * (x[i] - y[j]);
        left_x -= moved;
        left_y -= moved;
        if left_x == 0 {
            (i, left_x) = (i + 1, n);
        }
        if left_y == 0 {
            (j, left_y) = (j + 1, m);
        }
    }
    sum / (m as f64 * n as f64)
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use ndarray::{Array1, Axis};
    use rand::RngExt;
    use robust_ot::solve::Interrupt;
    use robust_ot::transport::NetworkSimplex;

    use super::*;
    use crate::testing::rng;

    #[test]
    fn the_sorted_distance_is_that_of_an_exact_plan() {
        let mut rng = rng(5);
        for (m, n) in [(1, 1), (1, 4), (4, 4), (7, 5), (6, 9)] {
            let values = Array1::from_shape_fn(m + n, |_| (8.0 * rng.random::<f64>()).round());
            let sorted = SortedColumns::new(values.view().insert_axis(Axis(1)));
            let side: Vec<bool> = (0..m + n).map(|row| row < m).collect();
            let (mut found, mut spread) = ([0.0], [0.0]);
            sorted.changes(&side, &mut Sides::default(), &mut found, &mut spread);
            let cost = ndarray::Array2::from_shape_fn((m, n), |(i, j)| (values[i] - values[m + j]).powi(2));
            let (a, b) = (vec![1.0 / m as f64; m], vec![1.0 / n as f64; n]);
            let plan = NetworkSimplex::new(&a, &b).unwrap().solve(&cost, &Interrupt::default()).unwrap().plan;
            let expected: f64 = plan.iter().map(|entry| entry.mass * cost[[entry.row, entry.column]]).sum();
            assert_relative_eq!(found[0], expected, max_relative = 1e-12, epsilon = 1e-14);
        }
    }

    #[test]
    fn the_change_of_spread_is_that_of_the_standard_deviations() {
        let values = ndarray::array![[1.0, 5.0], [3.0, 5.0], [2.0, 1.0], [9.0, 3.0], [15.0, 2.0]];
        let change = |side: [bool; 5]| {
            let (mut distances, mut spreads) = ([0.0; 2], [0.0; 2]);
            let sorted = SortedColumns::new(values.view());
            sorted.changes(&side, &mut Sides::default(), &mut distances, &mut spreads);
            spreads
        };
        let found = change([true, true, true, false, false]);
        // Variances 2/3 and 9; 32/9 and 1/4.
        assert_relative_eq!(found[0], (9.0_f64 / (2.0 / 3.0)).ln(), max_relative = 1e-4);
        assert_relative_eq!(found[1], (32.0_f64 / 9.0 / 0.25).ln(), max_relative = 1e-4);
        assert_relative_eq!(change([false, false, false, true, true])[0], found[0]);
        // A constant side is finite; two single rows are constant.
        assert_relative_eq!(change([true, true, false, false, false])[1], 1e6_f64.ln(), max_relative = 1e-6);
        assert_relative_eq!(spread_change(0.0, 0.0), 0.0);
    }
}
