//! How two samples are compared.

use robust_ot::{Error, MetricSet, Result};

use super::exchange::Exchange;
use crate::scale::Scale;

/// What is compared with its values under exchanged rows.
///
/// ```
/// use robust_ot_learn::compare::Statistic;
/// assert_eq!(Statistic::default(), Statistic::Family);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Statistic {
    /// The weighted harmonic mean of the p-values of five statistics, for changes of all kinds.
    #[default]
    Family,
    /// The robust distance for a metric set.
    Distance(MetricSet),
}

/// How two samples are compared.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `statistic` | `Family` | what is compared |
/// | `permutations` | 999 | random arrangements; all there are, if they are no more |
/// | `alpha` | .05 | the level below which a difference is called one |
/// | `exchange` | `Free` | which rows may change sides |
/// | `scale` | `Std` | how columns are scaled, by the pooled rows |
/// | `max_rows` | 5000 | rows of each side that are used; with more, a random choice |
/// | `seed` | 0 | of arrangements and choices of rows |
///
/// ```
/// use robust_ot_learn::compare::CompareSettings;
/// assert!(CompareSettings { permutations: 0, ..CompareSettings::default() }.check().is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CompareSettings {
    /// What is compared.
    pub statistic: Statistic,
    /// The number of random arrangements.
    pub permutations: usize,
    /// The level below which a difference is called one.
    pub alpha: f64,
    /// Which rows may change sides.
    pub exchange: Exchange,
    /// How columns are scaled.
    pub scale: Scale,
    /// Rows of each side that are used.
    pub max_rows: usize,
    /// The seed of arrangements and choices of rows.
    pub seed: u64,
}

impl Default for CompareSettings {
    fn default() -> Self {
        Self {
            statistic: Statistic::Family,
            permutations: 999,
            alpha: 0.05,
            exchange: Exchange::Free,
            scale: Scale::Std,
            max_rows: 5000,
            seed: 0,
        }
    }
}

impl CompareSettings {
    /// Checks the ranges.
    ///
    /// # Errors
    /// When a setting is out of range, or so few permutations that no p-value can be as small as `alpha`.
    pub fn check(&self) -> Result<()> {
        if !(self.alpha > 0.0 && self.alpha < 1.0) {
            return Err(Error::parameter("alpha", "above 0 and below 1", self.alpha));
        }
        let least = (1.0 / self.alpha).ceil() as usize - 1;
        if self.permutations < least.max(1) {
            let rule = format!("at least {} for p-values as small as {}", least.max(1), self.alpha);
            return Err(Error::parameter("permutations", rule, self.permutations));
        }
        Ok(())
    }
}
