//! The sets whose maximum is attained entry by entry: `p`, `p-power`, `kl`, `features`.

use ndarray::Array2;

use super::curvature::Curvature;
use super::prior::Prior;
use super::{LARGEST_EXPONENT, WorstCase};
use crate::error::{Error, Result};
use crate::linalg::{inner, sum_over};

/// The range in which a sum of squares has lost nothing to overflow or underflow.
const SAFE_SQUARES: std::ops::Range<f64> = 1e-280..1e280;

/// ‖V‖_{2k}, with the largest entry factored out before powers are formed.
fn entry_norm(moment: &Array2<f64>, k: u32) -> f64 {
    if k == 1 {
        let squares = inner(moment, moment);
        if SAFE_SQUARES.contains(&squares) {
            return squares.sqrt();
        }
    }
    let largest = moment.iter().fold(0.0_f64, |top, v| top.max(v.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    let sum = sum_over(moment, |_, _, v| (v / largest).powi(2 * k as i32));
    if k == 1 { largest * sum.sqrt() } else { largest * sum.powf(1.0 / f64::from(2 * k)) }
}

/// h = ‖V‖_{2k}, M* = (V/‖V‖_{2k})^{∘(2k−1)}; both 0 at V = 0.
pub(super) fn norm(moment: &Array2<f64>, k: u32, metric: &mut Array2<f64>) -> f64 {
    let norm = entry_norm(moment, k);
    if norm == 0.0 {
        metric.fill(0.0);
    } else if k == 1 {
        metric.zip_mut_with(moment, |m, v| *m = v / norm);
    } else {
        metric.zip_mut_with(moment, |m, v| *m = (v / norm).powi(2 * k as i32 - 1));
    }
    norm
}

/// ∇²h[D] = (2k−1)/‖V‖ · ((V/‖V‖)^{∘(2k−2)} ∘ D − M* ⟨M*, D⟩).
pub(super) fn norm_curvature(moment: &Array2<f64>, worst: &WorstCase, k: u32) -> Curvature {
    let norm = worst.value;
    if norm == 0.0 {
        return Curvature::Zero;
    }
    let factor = f64::from(2 * k - 1) / norm;
    let unit = moment / norm;
    let scale = unit.mapv(|x| factor * x.powi(2 * k as i32 - 2));
    Curvature::Entrywise { scale, less: Some((unit, worst.metric.clone())) }
}

/// h = ‖V‖_{2k}^{2k}, M* = 2k V^{∘(2k−1)}.
pub(super) fn norm_power(moment: &Array2<f64>, k: u32, metric: &mut Array2<f64>) -> f64 {
    metric.zip_mut_with(moment, |m, v| *m = f64::from(2 * k) * v.powi(2 * k as i32 - 1));
    sum_over(moment, |_, _, v| v.powi(2 * k as i32))
}

/// ∇²h[D] = 2k(2k−1) V^{∘(2k−2)} ∘ D.
pub(super) fn norm_power_curvature(moment: &Array2<f64>, k: u32) -> Curvature {
    let factor = f64::from(2 * k) * f64::from(2 * k - 1);
    Curvature::Entrywise { scale: moment.mapv(|v| factor * v.powi(2 * k as i32 - 2)), less: None }
}

/// h = λ Σ M₀∘(e^{V/λ} − 1), M* = M₀∘e^{V/λ}.
pub(super) fn kl(moment: &Array2<f64>, lambda: f64, prior: &Prior, metric: &mut Array2<f64>) -> Result<f64> {
    let mut value = 0.0;
    metric.fill(0.0);
    for (a, row) in moment.outer_iter().enumerate() {
        let mut of_row = 0.0;
        for (b, &v) in row.iter().enumerate() {
            let weight = prior.entry(a, b);
            if weight == 0.0 {
                continue;
            }
            if v / lambda > LARGEST_EXPONENT {
                return Err(Error::Overflow { lambda, largest: v, safe: v / LARGEST_EXPONENT });
            }
            of_row += lambda * weight * (v / lambda).exp_m1();
            metric[[a, b]] = weight * (v / lambda).exp();
        }
        value += of_row;
    }
    Ok(value)
}

/// ∇²h[D] = M*∘D/λ.
pub(super) fn kl_curvature(worst: &WorstCase, lambda: f64) -> Curvature {
    Curvature::Entrywise { scale: &worst.metric / lambda, less: None }
}

/// h = λ ln Σ_a e^{V_aa/λ} − λ(r−1), M* = diag(softmax(diag V/λ)).
pub(super) fn features(moment: &Array2<f64>, lambda: f64, metric: &mut Array2<f64>) -> f64 {
    let size = moment.nrows();
    let largest = moment.diag().fold(f64::NEG_INFINITY, |top, &v| top.max(v));
    metric.fill(0.0);
    metric.diag_mut().zip_mut_with(&moment.diag(), |m, v| *m = ((v - largest) / lambda).exp());
    let sum = metric.diag().sum();
    metric.diag_mut().mapv_inplace(|power| power / sum);
    largest + lambda * sum.ln() - lambda * (size as f64 - 1.0)
}

/// ∇²h[D] = (M*∘D − M*⟨M*, D⟩)/λ.
pub(super) fn features_curvature(worst: &WorstCase, lambda: f64) -> Curvature {
    let ones = Array2::ones(worst.metric.dim());
    Curvature::Entrywise { scale: &worst.metric / lambda, less: Some((ones, worst.metric.clone())) }
}
