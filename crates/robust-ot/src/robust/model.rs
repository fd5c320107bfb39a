//! The convex function of the moment that a solver minimizes: h itself, or h with a proximal term where h has
//! corners.

use ndarray::{Array2, s};

use crate::error::{Error, Result};
use crate::linalg::product;
use crate::metric::curvature::Curvature;
use crate::metric::fantope::Proximal;
use crate::metric::{MetricSet, WorstCase};

/// A step is serious if it gains at least this fraction of what the model promised.
const SERIOUS: f64 = 0.1;
/// After a step that gains at least this fraction of the promise, the next one may be longer.
const GENEROUS: f64 = 0.5;

/// Steps grow when the promised gain is below this fraction of the gap.
const TIMID: f64 = 0.1;

/// The corrective step on a smooth function is solved to this fraction of the gap.
const CORRECTION: f64 = 0.01;
/// The same with the proximal term.
const BUNDLE_CORRECTION: f64 = 0.1;

/// The function that is minimized over the convex hull of the moments.
#[derive(Debug)]
pub(super) enum Model<'a> {
    /// h, smooth.
    Smooth(&'a MetricSet),
    /// h_t around a center M_c: the proximal bundle method, in its primal form.
    Bundle { prox: Proximal, center_dual: f64 },
}

impl<'a> Model<'a> {
    /// `corrective` steps on a set with corners need the proximal term; other steps use h itself.
    pub(super) fn new(set: &'a MetricSet, corrective: bool, independent: &Array2<f64>) -> Self {
        let size = independent.nrows();
        match set.fantope() {
            Some(k) if corrective && k < size => {
                let share = k as f64 / size as f64;
                let prox = Proximal {
                    k,
                    center: Array2::eye(size) * share,
                    // One step should be able to cross the fantope.
                    step: 1.0 / (independent.diag().sum() / size as f64).max(f64::MIN_POSITIVE),
                };
                Self::Bundle { prox, center_dual: f64::NEG_INFINITY }
            }
            _ => Self::Smooth(set),
        }
    }

    /// Value and gradient.
    pub(super) fn evaluate(&self, moment: &Array2<f64>) -> Result<WorstCase> {
        match self {
            Self::Smooth(set) => set.evaluate(moment),
            Self::Bundle { prox, .. } => prox.evaluate(moment),
        }
    }

    /// Second derivative.
    pub(super) fn curvature(&self, moment: &Array2<f64>, worst: &WorstCase) -> Curvature {
        match self {
            Self::Smooth(set) => set.curvature(moment, worst),
            Self::Bundle { prox, .. } => prox.curvature(worst),
        }
    }

    /// The metric to start from, and its penalty in the dual.
    pub(super) fn first_metric(&self, independent: &Array2<f64>) -> Result<(Array2<f64>, f64)> {
        match self {
            Self::Smooth(set) => match set.evaluate(independent) {
                // The independent plan moves mass furthest. If h is not representable there, it may still be at the
                // optimum: start from the plain metric, and take no bound from it.
                Err(Error::Overflow { .. } | Error::Range { .. }) => {
                    Ok((Array2::eye(independent.nrows()), f64::INFINITY))
                }
                worst => {
                    let worst = worst?;
                    let penalty = set.penalty(independent, &worst);
                    Ok((worst.metric, penalty))
                }
            },
            Self::Bundle { prox, .. } => Ok((prox.center.clone(), prox.rounding(independent.diag().sum()))),
        }
    }

    /// A lower bound on h at a moment, from what a correction left there: by Cauchy's interlacing, the eigenvalues of V are no
    /// less than those of PᵀVP, where P holds the directions of the corrected metric.
    pub(super) fn least(&self, set: &MetricSet, moment: &Array2<f64>, corrected: &WorstCase) -> Result<f64> {
        let (Self::Bundle { prox, .. }, Some(eigen)) = (self, &corrected.spectrum) else {
            return Ok(f64::NEG_INFINITY);
        };
        let idle = eigen.values.len() - prox.rank(&eigen.values);
        let basis = eigen.vectors.slice(s![.., idle..]);
        let seen = product(product(basis.t(), moment.view()).view(), basis);
        Ok(set.evaluate(&seen)?.value)
    }

    /// The metric for the next oracle call, and its penalty in the dual, at a moment with an upper bound on W. `worst` is h
    /// there if it was computed, `corrected` the model's value if a correction left it.
    pub(super) fn next_metric(
        &self,
        (moment, value): (&Array2<f64>, f64),
        worst: Option<WorstCase>,
        corrected: Option<&WorstCase>,
    ) -> Result<(Array2<f64>, f64)> {
        match self {
            Self::Smooth(set) => {
                let worst = worst.map_or_else(|| set.evaluate(moment), Ok)?;
                let penalty = set.penalty(moment, &worst);
                Ok((worst.metric, penalty))
            }
            Self::Bundle { prox, .. } => {
                // Any metric of the fantope gives a valid bound: that of the correction differs from this one by rounding.
                let metric = match corrected {
                    Some(corrected) => corrected.metric.clone(),
                    None => prox.evaluate(moment)?.metric,
                };
                Ok((metric, prox.rounding(value)))
            }
        }
    }

    /// The metric to report with a plan: the worst one for its moment or, where that is not unique, the best one found.
    pub(super) fn final_metric(&self, worst: WorstCase) -> Array2<f64> {
        match self {
            Self::Smooth(_) => worst.metric,
            Self::Bundle { prox, .. } => prox.center.clone(),
        }
    }

    /// Records the dual value at a metric: moves the center there if it gained enough of what the model promised,
    /// and adapts the step (Kiwiel 1990). Returns whether the function changed.
    pub(super) fn learn(&mut self, metric: &Array2<f64>, dual: f64, promise: f64, gap: f64) -> bool {
        let Self::Bundle { prox, center_dual } = self else { return false };
        if *center_dual == f64::NEG_INFINITY {
            *center_dual = dual;
            return false;
        }
        let step = prox.step;
        let promised = promise - *center_dual;
        let gained = dual - *center_dual;
        let ratio = if promised > 0.0 { gained / promised } else { 0.0 };
        // The step that maximizes a quadratic through the three values.
        let fitted = 0.5 / (1.0 - ratio).max(0.05);
        if ratio >= SERIOUS {
            if ratio >= GENEROUS {
                prox.step *= fitted.clamp(1.0, 10.0);
            }
            prox.center.assign(metric);
            *center_dual = dual;
        } else if ratio < -1.0 {
            prox.step *= fitted.clamp(0.1, 1.0);
        }
        // A promise far below the gap means that the proximal term, not the cutting planes, holds M back.
        if promised < TIMID * gap {
            prox.step *= 2.0;
        }
        ratio >= SERIOUS || prox.step.to_bits() != step.to_bits()
    }

    /// The fraction of the next call's outlook to which a correction is solved: where eigenproblems are most of the work, those
    /// of a precise correction cost more than the calls that it saves.
    pub(super) fn correction(&self) -> f64 {
        if self.is_bundle() { BUNDLE_CORRECTION } else { CORRECTION }
    }

    /// Whether there is a proximal term.
    pub(super) fn is_bundle(&self) -> bool {
        matches!(self, Self::Bundle { .. })
    }

    /// The most that the next oracle call can change: the gap or, if smaller, the gain over the center that the
    /// cutting planes promise.
    pub(super) fn outlook(&self, gap: f64, promise: f64) -> f64 {
        match self {
            Self::Smooth(_) => gap,
            Self::Bundle { center_dual, .. } => gap.min((promise - center_dual).max(0.0)),
        }
    }
}
