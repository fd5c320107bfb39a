//! Transformations of the features before the linear map, in training and in prediction.

use robust_ot::Result;

use crate::data::Features;
use crate::row_length::RowLength;
use crate::standardization::Standardization;

/// Standardizes columns, then scales rows to one length; each step is optional.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Preprocessing, RowLength, Standardization};
///
/// let mut features = Features::Dense(array![[1.0, 5.0], [3.0, 5.0]]);
/// let standardization = Some(Standardization::of(&features));
/// let preprocessing = Preprocessing { standardization, row_length: Some(RowLength::new(2.0)?) };
/// assert_eq!(preprocessing.apply(&mut features)?, 0);
/// assert_eq!(features, Features::Dense(array![[-2.0, 0.0], [2.0, 0.0]]));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preprocessing {
    /// Applied to columns.
    pub standardization: Option<Standardization>,
    /// Applied to rows.
    pub row_length: Option<RowLength>,
}

impl Preprocessing {
    /// Transforms features in place. Returns the number of zero rows that could not be scaled to the row length.
    ///
    /// # Errors
    /// As [`Standardization::apply`].
    pub fn apply(&self, features: &mut Features) -> Result<usize> {
        self.standardization.as_ref().map_or(Ok(()), |columns| columns.apply(features))?;
        Ok(self.row_length.map_or(0, |length| length.apply(features)))
    }
}
