//! The penalized losses of some rows and labels, and their minima.

use ndarray::{Array2, Zip};
use robust_ot::Result;
use robust_ot::solve::Interrupt;

use crate::dataset::Dataset;
use crate::full_batch::{Linear, Penalty, Spectrum, Stop, Whitened};
use crate::label_kernel::{LabelKernel, PriorGeometry};
use crate::objective::Objective;
use crate::selection::{Calibration, Part, RowsOfLabels, kernel_of};

/// For each part k of a sum, Σ ℓ_k + λ_k/2 tr(W K_k⁻¹ Wᵀ) over scaled rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Penalized<'a> {
    pub(super) rows: &'a Dataset,
    /// The losses to choose from.
    pub(super) bases: &'a [(&'static str, Objective)],
    pub(super) parts: &'a [Part],
    /// The centered vectors of the label names.
    pub(super) names: Option<&'a Array2<f64>>,
    pub(super) with_bias: bool,
}

/// How far the parts were minimized.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    /// The largest ½‖∇f‖² / |f|.
    pub(super) gap: f64,
    /// Of all parts.
    pub(super) iterations: usize,
    /// Whether all did.
    pub(super) converged: bool,
    pub(super) interrupted: bool,
}

impl Penalized<'_> {
    /// The sum Σ factor_k W_k of the minima W_k, each from zero, until it is interrupted. `progress` hears of the value of
    /// every iteration.
    pub(super) fn minimize(
        self,
        stop: Stop,
        interrupt: &Interrupt,
        mut progress: impl FnMut(f64),
    ) -> Result<(Linear, Reached)> {
        let Self { rows, bases, parts, names, with_bias } = self;
        let labels = rows.targets().labels();
        let spectrum = Spectrum::of(rows.features(), rows.weights(), with_bias)?;
        let mut sum =
            Linear { weights: Array2::zeros((rows.features().columns(), labels)), bias: vec![0.0; labels] };
        let mut reached = Reached { gap: 0.0, iterations: 0, converged: true, interrupted: false };
        for Part { base, prior, l2, factor, .. } in parts {
            let kernel = match prior.geometry {
                PriorGeometry::None => LabelKernel::independent(labels),
                geometry => kernel_of(geometry, prior.temperature, names, &RowsOfLabels::of(rows)?)?,
            };
            let penalty = Penalty { kernel: &kernel, free: prior.free, l2: *l2 };
            let problem = Whitened::new(rows, &bases[*base].1, &spectrum, penalty, with_bias);
            let (model, minimum) = problem.minimize(None, stop, interrupt, |_, value, _| progress(value))?;
            add(&mut sum, &model, *factor);
            reached.gap = reached.gap.max(minimum.gap);
            reached.iterations += minimum.iterations;
            reached.converged &= minimum.converged;
            reached.interrupted |= minimum.interrupted;
            if minimum.interrupted {
                break;
            }
        }
        Ok((sum, reached))
    }
}

fn add(sum: &mut Linear, model: &Linear, factor: f64) {
    let added = |sum: f32, w: f32| (f64::from(sum) + factor * f64::from(w)) as f32;
    Zip::from(&mut sum.weights).and(&model.weights).for_each(|sum, w| *sum = added(*sum, *w));
    sum.bias.iter_mut().zip(&model.bias).for_each(|(sum, b)| *sum = added(*sum, *b));
}

/// Makes the logits z those of calibrated odds, a z + b.
pub(super) fn calibrate(linear: &mut Linear, Calibration { slope, offset }: Calibration) {
    linear.weights.mapv_inplace(|w| (f64::from(w) * slope) as f32);
    linear.bias.iter_mut().for_each(|b| *b = (f64::from(*b) * slope + offset) as f32);
}
