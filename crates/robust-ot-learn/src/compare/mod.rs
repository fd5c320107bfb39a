//! Whether two samples differ, how sure that is, and where: tests that are exact for any distribution.
//!
//! If both samples come from one distribution, every arrangement of the pooled rows into two sides is as likely as the
//! observed one. So the rank of a statistic among B random arrangements is uniform, and with
//!
//! $$p = \frac{1 + \#\lbrace b : T_b \ge T_0 \rbrace}{1 + B}$$
//!
//! the probability of p ≤ α is at most α, whatever the distribution, for any number of rows. [`compare`] uses five
//! statistics on the same arrangements ([`Statistic::Family`]), and takes the p-value of the weighted harmonic mean of their
//! p-values:
//!
//! | name | weight | statistic | finds |
//! |---|---|---|---|
//! | `columns` | 1 | the largest transport distance W₂² or change of spread of a single column | shifts, spreads and tails of a few columns |
//! | `sum` | 1 | the sum of the distances of all columns, each in its standard deviations | changes of many columns |
//! | `pairs` | ½ | the largest change of a correlation | joint changes of two columns |
//! | `moments` | ½ | ‖S − S′‖_F, the worst metric of Frobenius norm one against the second moments | many small changes of spread and correlation, rotations, contamination |
//! | `energy` | 1 | the energy distance | small shifts of many columns |
//!
//! Or one robust distance is the statistic ([`Statistic::Distance`]); then most arrangements are decided by the bounds of a
//! few oracle calls.

mod arrangements;
mod categories;
mod change;
mod column_groups;
mod comparison;
mod energy;
mod exchange;
mod histogram;
mod local;
mod moments;
mod ranking;
mod robust_statistic;
mod sample;
mod scores;
mod settings;
mod sorted_columns;
mod tables;
#[cfg(test)]
#[expect(clippy::float_cmp, reason = "p-values are quotients of counts")]
mod tests;
mod within;
mod worst_weights;

pub use self::categories::{Category, Share, holm};
pub use self::change::{Change, Estimate, Kind, PairChange};
pub use self::column_groups::{GroupBy, NamePattern};
pub use self::comparison::{Comparison, Feature, Group, Pair, Part, compare};
pub use self::exchange::Exchange;
pub use self::histogram::Histogram;
pub use self::local::MOST_COLUMNS_IN_PAIRS;
pub use self::sample::Samples;
pub use self::settings::{CompareSettings, Statistic};
pub use self::tables::{Design, Gaps, Loaded, TableChoice, load};
pub use self::within::{Within, compare_within};
pub use self::worst_weights::Moved;
