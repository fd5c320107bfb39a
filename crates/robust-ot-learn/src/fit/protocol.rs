//! The training settings of the paper, as far as they are known, and of the code its authors released.

use std::fmt;
use std::str::FromStr;

use robust_ot::sets::MetricFamily;
use robust_ot::{Error, Result};

/// Published settings that replace the defaults.
///
/// ```
/// use robust_ot_learn::Protocol;
/// assert_eq!("authors-code".parse::<Protocol>()?, Protocol::AuthorsCode);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The paper: SGD with learning rate 1 on the sum over batches of 150, 200 epochs, weights that start at one, no bias,
    /// decay 0.0005, random groups, oracle entropy 0.2, and the paper's formulas. Row scaling is not included.
    Paper,
    /// The same with the formulas of the released code: p as its power, doubly stochastic rows that sum to 1/r.
    AuthorsCode,
}

impl Protocol {
    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::AuthorsCode => "authors-code",
        }
    }

    /// The family that a loss of this name uses.
    pub(super) fn family(self, named: MetricFamily) -> MetricFamily {
        match (self, named) {
            (Self::AuthorsCode, MetricFamily::P) => MetricFamily::PPower,
            (_, named) => named,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Protocol {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Paper, Self::AuthorsCode]
            .into_iter()
            .find(|protocol| protocol.name() == name)
            .ok_or_else(|| Error::parameter("protocol", "paper or authors-code", name))
    }
}
