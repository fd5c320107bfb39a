//! The settings of a hidden layer.

use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

/// A layer of units, ReLU(X V + c), between features and labels, with dropout while it is trained.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `units` | | number of units | [1, ∞) |
/// | `dropout` | 0.5 | fraction of the units that a step leaves out | [0, 1) |
/// | `input_dropout` | 0.2 | fraction of the features that a step leaves out | [0, 1) |
///
/// ```
/// use robust_ot_learn::HiddenSettings;
/// assert_eq!(HiddenSettings::new(2048).dropout, 0.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HiddenSettings {
    /// Number of units.
    pub units: usize,
    /// The fraction of the units that a step leaves out.
    pub dropout: f64,
    /// The fraction of the features that a step leaves out.
    pub input_dropout: f64,
}

impl HiddenSettings {
    /// This number of units, with the default dropout.
    pub fn new(units: usize) -> Self {
        Self { units, dropout: 0.5, input_dropout: 0.2 }
    }

    /// Checks the ranges of the table above.
    ///
    /// # Errors
    /// When a setting is outside its range.
    pub fn check(&self) -> Result<()> {
        if self.units == 0 {
            return Err(Error::parameter("hidden", "at least 1", 0));
        }
        for (name, rate) in [("dropout", self.dropout), ("input_dropout", self.input_dropout)] {
            if !(0.0..1.0).contains(&rate) {
                return Err(Error::parameter(name, "from 0 to less than 1", rate));
            }
        }
        Ok(())
    }
}
