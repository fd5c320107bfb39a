//! The scaling of features that a model includes.

use crate::dataset::Dataset;
use crate::preprocessing::Preprocessing;
use crate::row_length::RowLength;
use crate::standardization::Standardization;

/// The scaling of columns, then of rows.
///
/// ```
/// use robust_ot_learn::{Columns, Preparation};
/// assert_eq!(Preparation::default().columns, Columns::AsGiven);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Preparation {
    /// The scaling of columns.
    pub columns: Columns,
    /// The length that every row is scaled to.
    pub row_length: Option<RowLength>,
}

/// The scaling of columns.
///
/// ```
/// use robust_ot_learn::Columns;
/// let bytes = Columns::Factor(1.0 / 255.0);
/// assert_ne!(bytes, Columns::Standardize);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Columns {
    /// No scaling.
    #[default]
    AsGiven,
    /// The same factor for all columns.
    Factor(f32),
    /// Mean 0 and variance 1; sparse columns are scaled, but not centered.
    Standardize,
}

impl Preparation {
    /// Measures the training rows where the scaling depends on them.
    pub(super) fn of(self, train: &Dataset) -> Preprocessing {
        let standardization = match self.columns {
            Columns::AsGiven => None,
            Columns::Factor(factor) => Some(Standardization::factor(train.features().columns(), factor)),
            Columns::Standardize => Some(Standardization::of(train.features())),
        };
        Preprocessing { standardization, row_length: self.row_length }
    }
}
