//! The choice of soft targets for cross-entropy.

use ndarray::{Array1, Array2};
use robust_ot::loss::Targets;
use robust_ot::sets::MetricFamily;
use robust_ot::{Grouping, MetricSet, Result};

use super::geometry::Geometry;
use super::loss_choice::LossChoice;
use crate::soft_targets::SoftTargets;

/// How much of each true label's mass moves to other labels in the targets of cross-entropy.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `transport` | 0 | β, the fraction that moves to nearby labels | [0, 1] |
/// | `temperature` | 0.3 | τ of the softmax over costs: how far it moves | (0, ∞) |
/// | `metric` | w2 | the family whose worst costs decide where it moves | |
/// | `geometry` | geometry of the loss | which labels are close | |
/// | `smoothing` | 0 | the fraction that is spread evenly over all labels | [0, 1] |
///
/// ```
/// assert_eq!(robust_ot_learn::TargetChoice::default().temperature, 0.3);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TargetChoice {
    /// β.
    pub transport: f64,
    /// τ.
    pub temperature: f64,
    /// The family of metrics of the costs.
    pub metric: MetricFamily,
    /// Which labels are close; the geometry of the loss by default.
    pub geometry: Option<Geometry>,
    /// The fraction that is spread evenly over all labels.
    pub smoothing: f64,
}

impl Default for TargetChoice {
    fn default() -> Self {
        Self { transport: 0.0, temperature: 0.3, metric: MetricFamily::W2, geometry: None, smoothing: 0.0 }
    }
}

impl TargetChoice {
    /// Refuses values out of range, even where they have no effect.
    pub(super) fn check(&self) -> Result<()> {
        SoftTargets::check(self.transport, self.temperature)?;
        SoftTargets::hard().with_smoothing(self.smoothing).map(|_| ())
    }

    /// The targets for labels with these vectors.
    pub(super) fn targets(
        &self,
        loss: &LossChoice,
        seed: u64,
        truth: &Targets,
        vectors: &Array2<f64>,
    ) -> Result<SoftTargets> {
        let (grouping, set) = if self.transport > 0.0 {
            let grouping = loss.grouping(self.metric, None, seed, vectors.ncols())?;
            (grouping, self.metric.set(loss.parameters.clone())?)
        } else {
            (Grouping::none(vectors.ncols()), MetricSet::W2)
        };
        let mut frequencies = Array1::zeros(truth.labels());
        for row in 0..truth.rows() {
            let labels = truth.row(row);
            labels.iter().for_each(|&label| frequencies[label] += 1.0 / labels.len() as f64);
        }
        let soft = SoftTargets::transported(
            vectors,
            &grouping,
            &set,
            self.transport,
            self.temperature,
            Some(&frequencies),
        )?;
        soft.with_smoothing(self.smoothing)
    }
}
