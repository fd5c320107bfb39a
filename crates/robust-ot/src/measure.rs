//! A discrete measure $\mu = \sum_i a_i \delta_{s_i}$: points and weights, checked once.

use ndarray::{Array1, Array2};

use crate::error::{Error, Result};

/// The largest absolute coordinate: squared distances of larger ones leave the range of `f64`.
#[doc(hidden)]
pub const LARGEST_COORDINATE: f64 = 1e150;

/// Points with weights that sum to one.
///
/// Weights are normalized on construction; [`Measure::mass`] returns their original sum.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Measure;
///
/// let words = Measure::new(array![[0.0, 1.0], [1.0, 0.0]], array![3.0, 1.0])?;
/// assert_eq!(words.weights()[0], 0.75);
/// assert_eq!(words.mass(), 4.0);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    points: Array2<f64>,
    weights: Array1<f64>,
    mass: f64,
}

impl Measure {
    /// Takes one point per row and one weight per point. Weights need not sum to one.
    ///
    /// # Errors
    /// When a coordinate or weight is not finite, a weight is negative, all are zero, or the counts differ.
    pub fn new(points: Array2<f64>, weights: Array1<f64>) -> Result<Self> {
        check_points(&points)?;
        if weights.len() != points.nrows() {
            return Err(Error::WeightCount { weights: weights.len(), points: points.nrows() });
        }
        let CloudWeights { weights, mass } = CloudWeights::new(weights)?;
        let points =
            if points.is_standard_layout() { points } else { points.as_standard_layout().into_owned() };
        Ok(Self { points, weights, mass })
    }

    /// The empirical measure: every point has the same weight.
    ///
    /// ```
    /// let sample = robust_ot::Measure::uniform(ndarray::array![[0.0], [1.0], [2.0], [3.0]])?;
    /// assert_eq!(sample.weights()[2], 0.25);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no point or a coordinate is not finite.
    pub fn uniform(points: Array2<f64>) -> Result<Self> {
        let n = points.nrows();
        Self::new(points, Array1::ones(n))
    }

    /// The points, one per row.
    pub fn points(&self) -> &Array2<f64> {
        &self.points
    }

    /// The weights; they sum to one.
    pub fn weights(&self) -> &Array1<f64> {
        &self.weights
    }

    /// The sum of the weights before normalization.
    pub fn mass(&self) -> f64 {
        self.mass
    }

    /// What rounding has done to the weights.
    pub(crate) fn weight_rounding(&self) -> WeightRounding {
        WeightRounding::of_quotients(&self.weights, self.mass)
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.nrows()
    }

    /// Always false: a measure has at least one point.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Number of features.
    pub fn dim(&self) -> usize {
        self.points.ncols()
    }
}

/// Weights of points that are kept elsewhere, scaled to sum to one.
///
/// ```
/// let weights = robust_ot::device::CloudWeights::new(ndarray::array![3.0, 1.0])?;
/// assert_eq!((weights.weights()[0], weights.mass()), (0.75, 4.0));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CloudWeights {
    weights: Array1<f64>,
    mass: f64,
}

impl CloudWeights {
    /// Takes weights that need not sum to one.
    ///
    /// # Errors
    /// When a weight is negative or not finite, or all are zero.
    pub fn new(weights: Array1<f64>) -> Result<Self> {
        if let Some((index, &value)) =
            weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0))
        {
            return Err(Error::Weight { index, value });
        }
        let mass = weights.sum();
        if !(mass > 0.0 && mass.is_finite()) {
            return Err(Error::Mass { sum: mass });
        }
        // Weights that are already normalized stay unchanged, to the last bit. A subnormal sum has no accurate
        // reciprocal, so divide each weight.
        let weights =
            if is_normalized(mass, weights.len()) { weights } else { weights.mapv_into(|w| w / mass) };
        Ok(Self { weights, mass })
    }

    /// The weights; they sum to one.
    pub fn weights(&self) -> &Array1<f64> {
        &self.weights
    }

    /// Their sum before they were scaled.
    pub fn mass(&self) -> f64 {
        self.mass
    }

    /// What rounding has done to them.
    pub(crate) fn rounding(&self) -> WeightRounding {
        WeightRounding::of_quotients(&self.weights, self.mass)
    }
}

/// Whether a sum of this many weights is one up to rounding.
fn is_normalized(mass: f64, count: usize) -> bool {
    (mass - 1.0).abs() <= f64::EPSILON * count as f64
}

/// How the weights of a measure differ from the given ones over their exact sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WeightRounding {
    /// Σ a_i − 1.
    pub(crate) excess: f64,
    /// A bound on the part of the mass that rounding puts elsewhere.
    pub(crate) misplaced: f64,
}

impl WeightRounding {
    /// For weights that were divided by their sum, unless that was one.
    fn of_quotients(weights: &Array1<f64>, mass: f64) -> Self {
        let first = weights[0].to_bits();
        // Quotients by a power of two are exact, and equal weights remain so.
        let exact = mass.to_bits().trailing_zeros() >= 52
            || is_normalized(mass, weights.len())
            || weights.iter().all(|w| w.to_bits() == first);
        let misplaced = if exact { 0.0 } else { f64::EPSILON / 2.0 };
        Self { misplaced, ..Self::of(weights) }
    }

    /// For weights that are meant as they are.
    pub(crate) fn of(weights: &Array1<f64>) -> Self {
        let start = std::iter::once(-1.0);
        Self { excess: accurate_sum(start.chain(weights.iter().copied())), misplaced: 0.0 }
    }
}

/// A sum whose error is that of its last rounding (Neumaier).
fn accurate_sum(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for x in numbers {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    sum + lost
}

/// Checks that there are points and that every coordinate is in range.
pub(crate) fn check_points(points: &Array2<f64>) -> Result<()> {
    let (rows, columns) = points.dim();
    if rows == 0 || columns == 0 {
        return Err(Error::Empty { rows, columns });
    }
    // One comparison per number detects any bad value; only then is the kind of error determined.
    if points.iter().all(|x| x.abs() <= LARGEST_COORDINATE) {
        return Ok(());
    }
    if let Some(((row, column), &value)) = points.indexed_iter().find(|(_, x)| !x.is_finite()) {
        return Err(Error::Coordinate { row, column, value });
    }
    Err(Error::Magnitude { value: points.iter().fold(0.0_f64, |top, x| top.max(x.abs())) })
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn refuses_each_broken_input_by_name() {
        let points = || array![[0.0, 1.0], [2.0, 3.0]];
        assert!(matches!(Measure::uniform(Array2::zeros((0, 3))), Err(Error::Empty { rows: 0, columns: 3 })));
        assert!(matches!(Measure::uniform(Array2::zeros((3, 0))), Err(Error::Empty { .. })));
        assert!(matches!(
            Measure::uniform(array![[0.0, 1.0], [2.0, f64::NAN]]),
            Err(Error::Coordinate { row: 1, column: 1, .. })
        ));
        assert!(matches!(Measure::uniform(array![[1e200]]), Err(Error::Magnitude { .. })));
        assert!(matches!(
            Measure::new(points(), array![1.0]),
            Err(Error::WeightCount { weights: 1, points: 2 })
        ));
        assert!(matches!(
            Measure::new(points(), array![1.0, f64::INFINITY]),
            Err(Error::Weight { index: 1, .. })
        ));
        assert!(matches!(Measure::new(points(), array![0.0, 0.0]), Err(Error::Mass { .. })));
        assert!(matches!(Measure::new(points(), array![1e308, 1e308]), Err(Error::Mass { .. })));
    }

    #[test]
    fn normalizes_subnormal_weights_without_losing_mass() {
        let measure = Measure::new(array![[0.0], [1.0]], array![1e-310, 3e-310]).unwrap();
        assert!((measure.weights().sum() - 1.0).abs() < 1e-15);
        assert!((measure.weights()[1] - 0.75).abs() < 1e-12);
    }
}
