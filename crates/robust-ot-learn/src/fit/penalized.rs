//! The penalized loss of some rows and labels, and its minimum.

use ndarray::Array2;
use robust_ot::Result;
use robust_ot::solve::Interrupt;

use crate::dataset::Dataset;
use crate::full_batch::{Linear, Minimum, Penalty, Spectrum, Stop, Whitened};
use crate::label_kernel::{LabelKernel, Prior, PriorGeometry};
use crate::objective::Objective;
use crate::selection::{Calibration, RowsOfLabels, kernel_of};

/// Σ ℓ + λ/2 tr(W K⁻¹ Wᵀ) over scaled rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Penalized<'a> {
    pub(super) rows: &'a Dataset,
    pub(super) objective: &'a Objective,
    pub(super) prior: Prior,
    /// λ.
    pub(super) l2: f64,
    /// The centered vectors of the label names.
    pub(super) names: Option<&'a Array2<f64>>,
    pub(super) with_bias: bool,
}

impl Penalized<'_> {
    /// Minimizes from zero, until it is interrupted. `progress` hears of the number and the value of every iteration.
    pub(super) fn minimize(
        self,
        stop: Stop,
        interrupt: &Interrupt,
        mut progress: impl FnMut(usize, f64),
    ) -> Result<(Linear, Minimum)> {
        let Self { rows, objective, prior, l2, names, with_bias } = self;
        let spectrum = Spectrum::of(rows.features(), with_bias)?;
        let kernel = match prior.geometry {
            PriorGeometry::None => LabelKernel::independent(objective.labels()),
            geometry => kernel_of(geometry, prior.temperature, names, &RowsOfLabels::of(rows)?)?,
        };
        let penalty = Penalty { kernel: &kernel, free: prior.free, l2 };
        let problem = Whitened::new(rows, objective, &spectrum, penalty, with_bias);
        problem.minimize(None, stop, interrupt, |iteration, value, _| progress(iteration, value))
    }
}

/// Makes the logits z those of calibrated odds, a z + b.
pub(super) fn calibrate(linear: &mut Linear, Calibration { slope, offset }: Calibration) {
    linear.weights.mapv_inplace(|w| (f64::from(w) * slope) as f32);
    linear.bias.iter_mut().for_each(|b| *b = (f64::from(*b) * slope + offset) as f32);
}
