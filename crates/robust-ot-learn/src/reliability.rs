//! How far probabilities can be trusted: predicted probabilities beside the fractions that came true.

use ndarray::ArrayView2;
use robust_ot::Result;
use robust_ot::loss::Targets;
use serde::{Deserialize, Serialize};

use crate::score;

/// The upper ends of the ranges: finer where labels are rare, as most labels of most rows are.
const ENDS: [f64; 9] = [0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];

/// The predictions whose probability lies in one range.
///
/// ```
/// use ndarray::array;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::reliability;
///
/// let found = reliability(array![[0.9, 0.15], [0.95, 0.12]].view(), &Targets::new(2, [[0], [1]])?)?;
/// assert_eq!((found[0].count, found[0].true_fraction), (2, 0.5)); // of 0.1 to 0.2
/// assert_eq!((found[1].count, found[1].true_fraction), (2, 0.5)); // of 0.8 to 1
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// The lower end of the range.
    pub low: f64,
    /// The upper end of the range, which belongs to it.
    pub high: f64,
    /// Number of pairs of a row and a label with such a probability.
    pub count: usize,
    /// Their mean probability.
    pub mean_probability: f64,
    /// The fraction of them that is true.
    pub true_fraction: f64,
}

/// Compares probabilities with the truth, range by range; ranges without predictions are left out.
///
/// # Errors
/// When shapes differ or a probability is not finite.
pub fn reliability(probabilities: ArrayView2<f64>, truth: &Targets) -> Result<Vec<Reliability>> {
    score::check(probabilities, truth)?;
    let mut sums = [(0_usize, 0.0, 0_usize); ENDS.len()];
    for (row, values) in probabilities.outer_iter().enumerate() {
        let of_row = truth.row(row);
        for (label, &probability) in values.iter().enumerate() {
            let place = ENDS.iter().position(|end| probability <= *end).unwrap_or(ENDS.len() - 1);
            let (count, sum, positive) = &mut sums[place];
            *count += 1;
            *sum += probability;
            *positive += usize::from(of_row.binary_search(&label).is_ok());
        }
    }
    let ranges = sums.into_iter().enumerate().filter(|(_, (count, ..))| *count > 0);
    let found = ranges.map(|(place, (count, sum, positive))| Reliability {
        low: if place == 0 { 0.0 } else { ENDS[place - 1] },
        high: ENDS[place],
        count,
        mean_probability: sum / count as f64,
        true_fraction: positive as f64 / count as f64,
    });
    Ok(found.collect())
}

/// Σ n |mean probability − fraction true| / Σ n over the ranges, the expected calibration error.
///
/// ```
/// use robust_ot_learn::{Reliability, calibration_error};
/// let range = Reliability { low: 0.1, high: 0.2, count: 10, mean_probability: 0.15, true_fraction: 0.25 };
/// assert!((calibration_error(&[range]) - 0.1).abs() < 1e-12);
/// ```
pub fn calibration_error(ranges: &[Reliability]) -> f64 {
    let all: usize = ranges.iter().map(|range| range.count).sum();
    let sum: f64 = ranges
        .iter()
        .map(|range| range.count as f64 * (range.mean_probability - range.true_fraction).abs())
        .sum();
    sum / all.max(1) as f64
}
