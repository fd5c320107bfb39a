//! The scaling of features that a model includes.

use crate::dataset::Dataset;
use crate::preprocessing::Preprocessing;
use crate::row_length::RowLength;
use crate::standardization::Standardization;

/// The scaling of columns, then of rows.
///
/// Where the weights are found over all rows at once, what is not stated is chosen on held-out rows: columns
/// as given or standardized, rows of length one or not.
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
    /// Whether exactly this scaling of columns is wanted.
    pub columns_stated: bool,
    /// Whether exactly this length of rows, or none, is wanted.
    pub row_length_stated: bool,
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
    /// The scalings to choose from, the simplest first.
    pub(super) fn choices(self) -> Vec<Self> {
        let unit = (!self.row_length_stated).then_some(Some(RowLength::ONE));
        let standardized = (!self.columns_stated).then_some(Columns::Standardize);
        let of_rows = unit.map(|row_length| Self { row_length, ..self });
        let of_columns = standardized.map(|columns| Self { columns, ..self });
        [Some(self), of_rows, of_columns].into_iter().flatten().collect()
    }

    /// Measures the training rows where the scaling depends on them.
    pub(crate) fn of(self, train: &Dataset) -> Preprocessing {
        let standardization = match self.columns {
            Columns::AsGiven => None,
            Columns::Factor(factor) => Some(Standardization::factor(train.features().columns(), factor)),
            Columns::Standardize => Some(Standardization::of(train.features())),
        };
        Preprocessing { standardization, row_length: self.row_length }
    }
}
