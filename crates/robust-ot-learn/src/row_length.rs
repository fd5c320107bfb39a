//! Rows scaled to one length.

use std::fmt;

use ndarray::parallel::prelude::*;
use ndarray::{ArrayViewMut1, Axis};
use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::data::Features;

/// x ← ℓ x / ‖x‖₂ for every row; a row of zeros has no direction and stays as it is.
///
/// The gradient of a linear model is proportional to the length of the rows, so their scale is part of the learning rate. A
/// common length also keeps long rows from outweighing short ones.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::RowLength;
///
/// let mut features = Features::Dense(array![[3.0, 4.0], [0.0, 0.0]]);
/// let zero_rows = RowLength::new(10.0)?.apply(&mut features);
/// assert_eq!((features, zero_rows), (Features::Dense(array![[6.0, 8.0], [0.0, 0.0]]), 1));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct RowLength(f64);

impl RowLength {
    /// Rows of length one.
    pub(crate) const ONE: Self = Self(1.0);

    /// Checks a length.
    ///
    /// ```
    /// use robust_ot_learn::RowLength;
    ///
    /// let refused = RowLength::new(0.0).unwrap_err().to_string();
    /// assert_eq!(refused, "row_length must be positive and finite, but is 0");
    /// ```
    ///
    /// # Errors
    /// When the length is not positive, or not finite in single precision, the precision of features.
    pub fn new(length: f64) -> Result<Self> {
        if length > 0.0 && (length as f32).is_finite() {
            return Ok(Self(length));
        }
        Err(Error::parameter("row_length", "positive and finite", length))
    }

    /// Scales every row in place. Returns the number of zero rows, which stay zero.
    pub fn apply(self, features: &mut Features) -> usize {
        match features {
            Features::Dense(array) => {
                let rows = array.axis_iter_mut(Axis(0)).into_par_iter();
                rows.map(|row| usize::from(!self.scale(row))).sum()
            }
            Features::Sparse(sparse) => {
                let rows = 0..sparse.rows();
                rows.filter(|&row| !self.scale(ArrayViewMut1::from(sparse.values_mut(row)))).count()
            }
        }
    }

    /// Scales one row. Returns false for a row of zeros.
    ///
    /// In double precision, squares of single-precision numbers neither overflow nor vanish.
    fn scale(self, mut row: ArrayViewMut1<f32>) -> bool {
        let norm = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if norm > 0.0 {
            let factor = self.0 / norm;
            row.iter_mut().for_each(|x| *x = (f64::from(*x) * factor) as f32);
        }
        norm > 0.0
    }
}

impl fmt::Display for RowLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<f64> for RowLength {
    type Error = Error;

    fn try_from(length: f64) -> Result<Self> {
        Self::new(length)
    }
}

impl From<RowLength> for f64 {
    fn from(length: RowLength) -> Self {
        length.0
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};
    use proptest::prelude::*;

    use super::*;
    use crate::data::Sparse;

    #[test]
    fn extreme_rows_reach_the_length_too() {
        let mut features = Features::Dense(array![[1e38, -1e38], [1e-45, 0.0], [f32::MAX, 1e-45]]);
        assert_eq!(RowLength::new(1.0).unwrap().apply(&mut features), 0);
        let half = 0.5_f32.sqrt();
        assert_eq!(features, Features::Dense(array![[half, -half], [1.0, 0.0], [1.0, 0.0]]));
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e39] {
            assert!(RowLength::new(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Rows reach the length up to rounding and keep their direction; stored zeros and a row's scale do not matter.
        #[test]
        fn rows_reach_the_length_and_dense_is_sparse(
            numbers in prop::collection::vec(prop_oneof![Just(0.0_f32), -3.0..3.0_f32], 12),
            length in 0.1..50.0_f64,
            scale in prop_oneof![Just(1.0_f32), Just(1024.0)],
        ) {
            let dense = Array2::from_shape_vec((3, 4), numbers.iter().map(|x| x * scale).collect()).unwrap();
            let mut sparse = Sparse::empty(4);
            for row in dense.rows() {
                let stored: Vec<u32> = (0..4).filter(|&at| at == 0 || row[at as usize] != 0.0).collect();
                let values: Vec<f32> = stored.iter().map(|&at| row[at as usize]).collect();
                sparse.push(&stored, &values).unwrap();
            }
            let zeros = dense.rows().into_iter().filter(|row| row.iter().all(|x| *x == 0.0)).count();
            let wanted = RowLength::new(length).unwrap();
            let (mut dense, mut sparse) = (Features::Dense(dense), Features::Sparse(sparse));
            prop_assert_eq!(wanted.apply(&mut dense), zeros);
            prop_assert_eq!(wanted.apply(&mut sparse), zeros);
            let (Features::Dense(dense), Features::Sparse(sparse)) = (dense, sparse) else { unreachable!() };
            for row in 0..3 {
                let found = dense.row(row);
                let norm = found.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
                prop_assert!(norm == 0.0 || (norm / length - 1.0).abs() < 1e-6);
                let (columns, values) = sparse.row(row);
                prop_assert!(columns.iter().zip(values).all(|(&at, x)| found[at as usize].to_bits() == x.to_bits()));
                // Parallel: all 2 × 2 minors of the two rows vanish.
                let was = &numbers[4 * row..4 * row + 4];
                for (i, j) in (0..4).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    let minor = was[i] * found[j] - was[j] * found[i];
                    prop_assert!(f64::from(minor.abs()) < 1e-5 * length, "{was:?} and {found}");
                }
            }
        }
    }
}
