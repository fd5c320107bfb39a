//! How a column or a pair has changed: sizes with 95 % intervals, and the kind in words.

use std::fmt;

use ndarray::ArrayView1;
use serde::Serialize;

/// The 97.5 % point of the standard normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;
/// Each tail holds this share of both sides pooled.
const TAIL: f64 = 0.01;
/// A kind of change is named if it is at least this many standard errors large.
const CLEAR: f64 = 2.0;

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What changed most about a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The mean.
    Mean,
    /// The standard deviation.
    Spread,
    /// The share of extreme values.
    Tail,
    /// None of these stands out.
    Shape,
}

/// The change of one column.
///
/// | field | meaning | interval |
/// |---|---|---|
/// | `mean` | difference of the means / pooled standard deviation | normal, Welch's standard error |
/// | `spread` | ratio of the standard deviations, after / before | normal for its logarithm, with variance (κ − 1) / 4m from each side's kurtosis κ |
/// | `tails` | shares of values below the 1 % or above the 99 % point of both sides pooled, before and after | |
///
/// Intervals are for one column; they are not adjusted for the number of columns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// What stands out most, in standard errors.
    pub kind: Kind,
    /// Means, before and after.
    pub means: [f64; 2],
    /// Standard deviations, before and after.
    pub deviations: [f64; 2],
    /// The shift of the mean, in pooled standard deviations.
    pub mean: Estimate,
    /// The ratio of the standard deviations; absent if one side is constant.
    pub spread: Option<Estimate>,
    /// The shares of extreme values, before and after.
    pub tails: [f64; 2],
}

/// The correlations of two columns before and after, with intervals by Fisher's transform.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairChange {
    /// The correlation before; absent with a constant column or fewer than four rows.
    pub before: Option<Estimate>,
    /// The correlation after.
    pub after: Option<Estimate>,
}

/// Size, mean, variance and kurtosis of one side.
struct Side {
    count: f64,
    mean: f64,
    variance: f64,
    kurtosis: f64,
}

impl Side {
    fn new(values: ArrayView1<f64>) -> Self {
        let count = values.len() as f64;
        let mean = values.sum() / count;
        let power = |p: i32| values.iter().map(|x| (x - mean).powi(p)).sum::<f64>();
        let squares = power(2);
        let kurtosis = if squares > 0.0 { count * power(4) / (squares * squares) } else { f64::NAN };
        Self { count, mean, variance: squares / (count - 1.0).max(1.0), kurtosis }
    }
}

impl Change {
    /// The change from some values to others.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot_learn::compare::{Change, Kind};
    ///
    /// let change = Change::between([array![1., 2., 3., 4.].view(), array![6., 7., 8., 9.].view()]);
    /// assert_eq!(change.kind, Kind::Mean);
    /// assert!(change.mean.low > 0.0 && change.spread.unwrap().value == 1.0);
    /// ```
    pub fn between([before, after]: [ArrayView1<f64>; 2]) -> Self {
        let [x, y] = [before, after].map(Side::new);
        let freedom = x.count + y.count - 2.0;
        let pooled =
            (((x.count - 1.0) * x.variance + (y.count - 1.0) * y.variance) / freedom.max(1.0)).sqrt();
        let unit = if pooled > 0.0 { pooled } else { 1.0 };
        let (shift, error) =
            ((y.mean - x.mean) / unit, (x.variance / x.count + y.variance / y.count).sqrt() / unit);
        let spread = (x.variance > 0.0 && y.variance > 0.0).then(|| {
            let ratio = 0.5 * (y.variance / x.variance).ln();
            let of = |side: &Side| (side.kurtosis - 1.0).max(0.0) / (4.0 * side.count);
            (ratio, (of(&x) + of(&y)).sqrt())
        });
        let tails = tails(before, after);
        let size = |change: f64, error: f64| if change == 0.0 { 0.0 } else { change.abs() / error };
        let share = (tails[0] * x.count + tails[1] * y.count) / (x.count + y.count);
        let sizes = [
            (Kind::Mean, size(shift, error)),
            (Kind::Spread, spread.map_or(0.0, |(ratio, error)| size(ratio, error))),
            (
                Kind::Tail,
                size(tails[1] - tails[0], (share * (1.0 - share) * (1.0 / x.count + 1.0 / y.count)).sqrt()),
            ),
        ];
        let largest = sizes
            .into_iter()
            .fold((Kind::Shape, CLEAR), |most, next| if next.1 > most.1 { next } else { most });
        Self {
            kind: largest.0,
            means: [x.mean, y.mean],
            deviations: [x.variance.sqrt(), y.variance.sqrt()],
            mean: Estimate { value: shift, low: shift - NORMAL * error, high: shift + NORMAL * error },
            spread: spread.map(|(ratio, error)| Estimate {
                value: ratio.exp(),
                low: (ratio - NORMAL * error).exp(),
                high: (ratio + NORMAL * error).exp(),
            }),
            tails,
        }
    }
}

/// The shares of values outside the central range of both sides pooled.
fn tails(before: ArrayView1<f64>, after: ArrayView1<f64>) -> [f64; 2] {
    let mut pooled: Vec<f64> = before.iter().chain(after).copied().collect();
    pooled.sort_by(f64::total_cmp);
    let cut = ((pooled.len() as f64 * TAIL) as usize).max(1).min(pooled.len() / 2);
    let (low, high) = (pooled[cut], pooled[pooled.len() - 1 - cut]);
    let outside = |values: ArrayView1<f64>| {
        values.iter().filter(|x| **x < low || **x > high).count() as f64 / values.len() as f64
    };
    [outside(before), outside(after)]
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = |f: &mut fmt::Formatter<'_>| {
            let Estimate { value, low, high } = self.mean;
            write!(f, "mean {value:+.2} sd [{low:+.2}, {high:+.2}]")
        };
        match (self.kind, self.spread) {
            (Kind::Spread, Some(Estimate { value, low, high })) => {
                write!(f, "spread × {value:.2} [{low:.2}, {high:.2}]")
            }
            (Kind::Tail, _) => {
                write!(f, "extreme values {:.1} % → {:.1} %", 100.0 * self.tails[0], 100.0 * self.tails[1])
            }
            (Kind::Shape, Some(Estimate { value, .. })) => {
                write!(f, "shape; mean {:+.2} sd, spread × {value:.2}", self.mean.value)
            }
            _ => mean(f),
        }
    }
}

impl PairChange {
    /// The correlations of two columns before, `x`, and after, `y`.
    ///
    /// ```
    /// use ndarray::{array, Array1};
    /// use robust_ot_learn::compare::PairChange;
    ///
    /// let a = Array1::from_iter((0..50).map(|i| f64::from(i % 7)));
    /// let b = a.mapv(|x| -x);
    /// let change = PairChange::new([a.view(), a.view()], [a.view(), b.view()]);
    /// assert!(change.before.unwrap().value > 0.999 && change.after.unwrap().value < -0.999);
    /// ```
    pub fn new(x: [ArrayView1<f64>; 2], y: [ArrayView1<f64>; 2]) -> Self {
        Self { before: correlation(x), after: correlation(y) }
    }
}

fn correlation([a, b]: [ArrayView1<f64>; 2]) -> Option<Estimate> {
    let count = a.len() as f64;
    let (mean_a, mean_b) = (a.sum() / count, b.sum() / count);
    let product = |x: ArrayView1<f64>, y: ArrayView1<f64>, of_x: f64, of_y: f64| {
        x.iter().zip(y).map(|(x, y)| (x - of_x) * (y - of_y)).sum::<f64>()
    };
    let (aa, bb) = (product(a, a, mean_a, mean_a), product(b, b, mean_b, mean_b));
    if aa == 0.0 || bb == 0.0 || count < 4.0 {
        return None;
    }
    let value = (product(a, b, mean_a, mean_b) / (aa * bb).sqrt()).clamp(-1.0, 1.0);
    let (z, error) = (value.atanh(), NORMAL / (count - 3.0).sqrt());
    Some(Estimate { value, low: (z - error).tanh(), high: (z + error).tanh() })
}

impl fmt::Display for PairChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.before, self.after) {
            (Some(before), Some(after)) => write!(f, "correlation {:.2} → {:.2}", before.value, after.value),
            _ => f.write_str("a column is constant on one side"),
        }
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use ndarray::Array1;
    use rand::RngExt;

    use super::*;
    use crate::testing::rng;

    #[test]
    fn the_kind_of_change_is_named() {
        let mut rng = rng(1);
        let base = Array1::from_shape_fn(400, |_| (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0);
        let kind = |after: Array1<f64>| Change::between([base.view(), after.view()]).kind;
        assert_eq!(kind(&base + 0.5), Kind::Mean);
        assert_eq!(kind(&base * 1.6), Kind::Spread);
        assert_eq!(kind(base.clone()), Kind::Shape);
        let mut far = base.clone();
        far.iter_mut().step_by(25).for_each(|x| *x = 4.0 * x.signum());
        assert_eq!(kind(far), Kind::Tail);
    }

    /// Intervals contain the truth in about 95 % of samples.
    #[test]
    fn intervals_cover_the_truth() {
        let mut rng = rng(2);
        let mut covered = [0_u32; 3];
        for _ in 0..400 {
            let mut normal = |count: usize| {
                Array1::from_shape_fn(count, |_| (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0)
            };
            let (x, y, w) = (normal(60), normal(90) * 1.5 + 0.4, normal(60));
            let change = Change::between([x.view(), y.view()]);
            // The unit is the pooled standard deviation, √((59 + 89 · 2.25) / 148) in expectation of its square.
            let shift = 0.4 / ((59.0 + 89.0 * 2.25) / 148.0_f64).sqrt();
            covered[0] += u32::from(change.mean.low <= shift && shift <= change.mean.high);
            let spread = change.spread.unwrap();
            covered[1] += u32::from(spread.low <= 1.5 && 1.5 <= spread.high);
            let r = correlation([x.view(), (&x + &w).view()]).unwrap();
            covered[2] += u32::from(r.low <= 0.5_f64.sqrt() && 0.5_f64.sqrt() <= r.high);
        }
        for count in covered {
            // .95 ± 4 standard errors, and a little for small samples.
            assert!((0.89..=0.995).contains(&(f64::from(count) / 400.0)), "{covered:?}");
        }
    }

    #[test]
    fn constant_columns_and_single_rows_have_no_spread() {
        let change = Change::between([ndarray::array![1.0, 1.0].view(), ndarray::array![3.0].view()]);
        assert_eq!((change.spread, change.means), (None, [1.0, 3.0]));
        assert_relative_eq!(change.mean.value, 2.0);
        let x = ndarray::array![1.0, 1.0, 1.0, 1.0];
        assert_eq!(PairChange::new([x.view(), x.view()], [x.view(), x.view()]).after, None);
        assert_relative_eq!(tails(x.view(), x.view())[0], 0.0);
    }
}
