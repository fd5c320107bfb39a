//! The transport distance between the two sides of one column, for many arrangements of its rows:
//!
//! $$W_2^2 = \int_0^1 (F^{-1}(u) - G^{-1}(u))^2\thinspace du.$$

use ndarray::{ArrayView1, ArrayView2};

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

    /// W₂² of every column, between the rows where `side` holds and the others.
    pub(super) fn distances(&self, side: &[bool], sides: &mut Sides, out: &mut [f64]) {
        for (column, out) in self.columns.iter().zip(out) {
            sides.before.clear();
            sides.after.clear();
            for &(value, row) in column {
                if side[row as usize] { sides.before.push(value) } else { sides.after.push(value) }
            }
            *out = squared_distance(&sides.before, &sides.after);
        }
    }
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
            let mut found = [0.0];
            sorted.distances(&side, &mut Sides::default(), &mut found);
            let cost = ndarray::Array2::from_shape_fn((m, n), |(i, j)| (values[i] - values[m + j]).powi(2));
            let (a, b) = (vec![1.0 / m as f64; m], vec![1.0 / n as f64; n]);
            let plan = NetworkSimplex::new(&a, &b).unwrap().solve(&cost, &Interrupt::default()).unwrap().plan;
            let expected: f64 = plan.iter().map(|entry| entry.mass * cost[[entry.row, entry.column]]).sum();
            assert_relative_eq!(found[0], expected, max_relative = 1e-12, epsilon = 1e-14);
        }
    }
}
