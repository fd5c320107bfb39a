//! The factorization $K = LL^\top$ of a matrix that gains and loses one row and column at a time.

/// The lower triangle, row by row.
#[derive(Debug, Default)]
pub(super) struct Cholesky {
    rows: Vec<Vec<f64>>,
}

impl Cholesky {
    /// Appends a row and column. No eigenvalue of the whole is below `least`, so only rounding can put a pivot below it.
    pub(super) fn append(&mut self, row: impl Iterator<Item = f64>, diagonal: f64, least: f64) {
        let mut row: Vec<f64> = row.collect();
        self.forward(&mut row);
        let square = diagonal - row.iter().map(|x| x * x).sum::<f64>();
        row.push(square.max(least).sqrt());
        self.rows.push(row);
    }

    /// Removes a row and column; Givens rotations make the rest triangular again.
    pub(super) fn remove(&mut self, at: usize) {
        self.rows.remove(at);
        for i in at..self.rows.len() {
            let (a, b) = (self.rows[i][i], self.rows[i][i + 1]);
            let r = a.hypot(b);
            let (c, s) = (a / r, b / r);
            for row in &mut self.rows[i..] {
                let (x, y) = (row[i], row[i + 1]);
                row[i] = c * x + s * y;
                row[i + 1] = c * y - s * x;
            }
            self.rows[i].truncate(i + 1);
        }
    }

    /// x ← K⁻¹x.
    pub(super) fn solve(&self, x: &mut [f64]) {
        self.forward(x);
        for i in (0..self.rows.len()).rev() {
            let (row, value) = (&self.rows[i], x[i] / self.rows[i][i]);
            x[i] = value;
            x.iter_mut().zip(&row[..i]).for_each(|(x, l)| *x -= l * value);
        }
    }

    /// x ← L⁻¹x.
    fn forward(&self, x: &mut [f64]) {
        for (i, row) in self.rows.iter().enumerate() {
            let known: f64 = row[..i].iter().zip(&*x).map(|(l, x)| l * x).sum();
            x[i] = (x[i] - known) / row[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array1;

    use super::*;
    use crate::testing::{matrix, rng};

    #[test]
    fn solves_with_the_rows_that_are_left() {
        for seed in 0..20 {
            let mut rng = rng(seed);
            let rows = matrix(12, 12, &mut rng);
            let whole = rows.dot(&rows.t());
            let (mut factor, mut left) = (Cholesky::default(), Vec::new());
            for i in 0..12 {
                factor.append(left.iter().map(|&j| whole[[i, j]]), whole[[i, i]], 0.0);
                left.push(i);
                if i % 3 == 2 {
                    let at = (seed as usize + i) % left.len();
                    factor.remove(at);
                    left.remove(at);
                }
                let expected = matrix(1, left.len(), &mut rng).row(0).to_owned();
                let part = whole.select(ndarray::Axis(0), &left).select(ndarray::Axis(1), &left);
                let mut x = part.dot(&expected).to_vec();
                factor.solve(&mut x);
                let apart = (Array1::from_vec(x) - &expected).mapv(f64::abs).sum();
                assert!(apart <= 1e-7, "seed {seed}, {i}: {apart:e}");
            }
        }
    }
}
