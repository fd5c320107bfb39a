//! The scaling of features that a model includes.

use crate::dataset::Dataset;
use crate::preprocessing::Preprocessing;
use crate::row_length::RowLength;
use crate::standardization::Standardization;

/// The scaling of columns, then of rows.
///
/// Where the weights are found over all rows at once, the scaling is chosen on held-out rows unless it is `stated`: as
/// given, rows of length one, or standardized columns.
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
    /// Whether exactly this scaling is wanted.
    pub stated: bool,
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
        let stated = Self { stated: true, ..self };
        if self.stated {
            return vec![stated];
        }
        let unit = Self { row_length: Some(RowLength::ONE), ..stated };
        vec![stated, unit, Self { columns: Columns::Standardize, ..stated }]
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
