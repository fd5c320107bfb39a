//! The paper's way of training, as far as it is known, and that of the code its authors released.

use clap::ValueEnum;

use crate::metric_options::MetricName;

/// Whose settings to train with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// The paper: SGD with learning rate 1 on the sum over batches of 150, 200 epochs, weights from ones, no bias, decay
    /// 0.0005, random groups, oracle entropy 0.2; its formulas. The scale of the rows is not a part of it: see --row-length
    Paper,
    /// The same with the formulas of the released code: p as its power, doubly stochastic rows that sum to 1/r
    AuthorsCode,
}

impl Protocol {
    /// The set that a name stands for.
    pub fn metric(self, name: MetricName) -> MetricName {
        match (self, name) {
            (Self::AuthorsCode, MetricName::P) => MetricName::PPower,
            (_, name) => name,
        }
    }
}
