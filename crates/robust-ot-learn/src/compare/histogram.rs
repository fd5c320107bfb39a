//! The values of a column before and after, in the same bins.

use ndarray::ArrayView1;
use serde::Serialize;

/// The number of bins.
const BINS: usize = 24;
/// The share of values beyond each end, which are counted in the outermost bins.
const BEYOND: f64 = 0.005;

/// Shares of values in bins of equal width; values beyond both ends are counted in the outermost bins.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::compare::Histogram;
///
/// let bins = Histogram::new([array![0.0, 1.0, 2.0].view(), array![3.0, 4.0].view()]);
/// assert_eq!((bins.low, bins.high), (0.0, 4.0));
/// assert!((bins.after.iter().sum::<f64>() - 1.0).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// The lower end of the first bin.
    pub low: f64,
    /// The upper end of the last bin.
    pub high: f64,
    /// The share of the values before in each bin.
    pub before: Vec<f64>,
    /// The share of the values after in each bin.
    pub after: Vec<f64>,
}

impl Histogram {
    /// Counts the values of both sides.
    pub fn new([before, after]: [ArrayView1<f64>; 2]) -> Self {
        let mut pooled: Vec<f64> = before.iter().chain(after).copied().collect();
        pooled.sort_by(f64::total_cmp);
        let cut = (pooled.len() as f64 * BEYOND) as usize;
        let (low, high) = (pooled[cut], pooled[pooled.len() - 1 - cut]);
        let shares = |values: ArrayView1<f64>| {
            let mut shares = vec![0.0; BINS];
            for value in values {
                let part = if high > low { (value - low) / (high - low) } else { 0.0 };
                shares[((part * BINS as f64).max(0.0) as usize).min(BINS - 1)] += 1.0 / values.len() as f64;
            }
            shares
        };
        Self { low, high, before: shares(before), after: shares(after) }
    }
}
