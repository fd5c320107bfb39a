//! Second moments of the two sides, for many arrangements of the rows.

use ndarray::{Array1, Array2, ArrayView2, Axis};
use robust_ot::linalg::product_into;

/// Correlations are shrunk by this before Fisher's transform, which is infinite at 1.
const SHRINK: f64 = 1.0 - 1e-6;

/// Rows around their common mean, with their total moments.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    values: Array2<f64>,
    total: Array2<f64>,
    sum: Array1<f64>,
}

/// The moments of both sides of one arrangement, about the common mean.
#[derive(Debug, Clone)]
pub(super) struct SideMoments {
    rows: Array2<f64>,
    /// Σ z zᵀ / m, before and after.
    second: [Array2<f64>; 2],
    /// Σ z / m, before and after.
    mean: [Array1<f64>; 2],
}

impl Rows {
    pub(super) fn new(values: ArrayView2<f64>) -> Self {
        let mut values = values.to_owned();
        let rows = values.nrows() as f64;
        let mean = values.sum_axis(Axis(0)) / rows;
        values -= &mean;
        let dim = values.ncols();
        let mut total = Array2::zeros((dim, dim));
        product_into(total.view_mut(), values.t(), values.view());
        let sum = values.sum_axis(Axis(0));
        Self { values, total, sum }
    }

    fn dim(&self) -> usize {
        self.values.ncols()
    }

    /// Buffers for the moments of an arrangement.
    pub(super) fn buffers(&self) -> SideMoments {
        let square = || Array2::zeros((self.dim(), self.dim()));
        let vector = || Array1::zeros(self.dim());
        SideMoments { rows: Array2::zeros((0, 0)), second: [square(), square()], mean: [vector(), vector()] }
    }

    /// Computes the moments of an arrangement: those of the smaller side, and the rest of the total.
    pub(super) fn split(&self, side: &[bool], out: &mut SideMoments) {
        let counts = {
            let before = side.iter().filter(|side| **side).count();
            [before, side.len() - before]
        };
        let small = usize::from(counts[1] < counts[0]);
        let chosen = (0..side.len()).filter(|&row| side[row] == (small == 0));
        if out.rows.dim() != (counts[small], self.dim()) {
            out.rows = Array2::zeros((counts[small], self.dim()));
        }
        for (mut row, from) in out.rows.rows_mut().into_iter().zip(chosen) {
            row.assign(&self.values.row(from));
        }
        product_into(out.second[small].view_mut(), out.rows.t(), out.rows.view());
        out.mean[small].assign(&out.rows.sum_axis(Axis(0)));
        let (small_count, large_count) = (counts[small] as f64, counts[1 - small] as f64);
        let [first, second] = &mut out.second;
        let (part, rest) = if small == 0 { (first, second) } else { (second, first) };
        ndarray::Zip::from(rest).and(&mut *part).and(&self.total).for_each(|rest, part, total| {
            *rest = (total - *part) / large_count;
            *part /= small_count;
        });
        let [first, second] = &mut out.mean;
        let (part, rest) = if small == 0 { (first, second) } else { (second, first) };
        ndarray::Zip::from(rest).and(&mut *part).and(&self.sum).for_each(|rest, part, sum| {
            *rest = (sum - *part) / large_count;
            *part /= small_count;
        });
    }
}

impl SideMoments {
    /// |atanh(ϱ r) − atanh(ϱ r′)| for the correlations r before and r′ after of every pair of columns, ϱ = 1 − 10⁻⁶;
    /// r = 0 where a column is constant. Pairs (0, 1), (0, 2), …, (1, 2), ….
    pub(super) fn correlation_changes(&self, out: &mut [f64]) {
        let dim = self.mean[0].len();
        let scales = [0, 1].map(|side| self.inverse_deviations(side));
        let mut places = out.iter_mut();
        for a in 0..dim {
            for (b, place) in (a + 1..dim).zip(&mut places) {
                let [r, other] = [0, 1].map(|side| {
                    let (second, mean) = (&self.second[side], &self.mean[side]);
                    let covariance = second[[a, b]] - mean[a] * mean[b];
                    SHRINK * (covariance * scales[side][a] * scales[side][b]).clamp(-1.0, 1.0)
                });
                // One logarithm for both: atanh r = ½ ln((1 + r) / (1 − r)).
                *place = 0.5 * ((1.0 + r) * (1.0 - other) / ((1.0 - r) * (1.0 + other))).ln().abs();
            }
        }
    }

    /// 1 / standard deviation of every column of a side; 0 where it is constant, up to rounding.
    fn inverse_deviations(&self, side: usize) -> Vec<f64> {
        let (second, mean) = (&self.second[side], &self.mean[side]);
        let inverse = |a: usize| {
            let variance = second[[a, a]] - mean[a] * mean[a];
            if variance <= 1e-12 * second[[a, a]] { 0.0 } else { variance.sqrt().recip() }
        };
        (0..mean.len()).map(inverse).collect()
    }

    /// ‖S − S′‖, the worst metric of Frobenius norm one against the second moments S before and S′ after.
    pub(super) fn change(&self) -> f64 {
        let [before, after] = &self.second;
        before.iter().zip(after).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use rand::RngExt;

    use super::*;
    use crate::testing::rng;

    #[test]
    fn moments_are_those_of_the_rows_of_each_side() {
        let mut rng = rng(3);
        let values = Array2::from_shape_fn((11, 3), |_| rng.random::<f64>() + 5.0);
        let rows = Rows::new(values.view());
        let mut found = rows.buffers();
        for count in [2, 5, 8] {
            let side: Vec<bool> = (0..11).map(|row| row % 11 < count).collect();
            rows.split(&side, &mut found);
            let centered = &values - &values.mean_axis(Axis(0)).unwrap();
            for (which, range) in [(0, 0..count), (1, count..11)] {
                let part = centered.slice(ndarray::s![range, ..]);
                let expected = part.t().dot(&part) / part.nrows() as f64;
                assert_relative_eq!(found.second[which], expected, epsilon = 1e-13);
                assert_relative_eq!(found.mean[which], part.mean_axis(Axis(0)).unwrap(), epsilon = 1e-13);
            }
            let difference = &found.second[0] - &found.second[1];
            let power: f64 = difference.iter().map(|x| x * x).sum();
            assert_relative_eq!(found.change(), power.sqrt());
        }
    }

    #[test]
    fn correlations_change_as_computed_by_hand() {
        // y = x before, y = −x after; the third column is constant after.
        let values = ndarray::array![
            [0., 0., 1.],
            [1., 1., 2.],
            [2., 2., 4.],
            [0., 2., 3.],
            [1., 1., 3.],
            [2., 0., 3.]
        ];
        let rows = Rows::new(values.view());
        let mut found = rows.buffers();
        rows.split(&[true, true, true, false, false, false], &mut found);
        let mut changes = [0.0; 3];
        found.correlation_changes(&mut changes);
        assert_relative_eq!(changes[0], 2.0 * (1.0 - 1e-6_f64).atanh(), max_relative = 1e-6);
        let r: f64 = 3.0 / (2.0_f64 * 14.0 / 3.0).sqrt();
        assert_relative_eq!(changes[1], r.atanh(), max_relative = 1e-4);
        assert_relative_eq!(changes[1], changes[2], max_relative = 1e-9);
    }
}
