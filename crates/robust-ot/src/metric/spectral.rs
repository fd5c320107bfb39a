//! The sets that depend on eigenvalues only: `srw` and `rkp`.

use ndarray::Array2;

use super::WorstCase;
use super::curvature::{Curvature, divided_differences};
use crate::error::Result;
use crate::linalg::{Eigen, EigenWorkspace};

/// h = sum of the k largest eigenvalues, M* = projector on their space.
pub(super) fn largest(
    moment: &Array2<f64>,
    k: usize,
    worst: &mut WorstCase,
    workspace: &mut EigenWorkspace,
) -> Result<f64> {
    let size = moment.nrows();
    let eigen = worst.spectrum.get_or_insert_with(|| Eigen::zeros(size));
    eigen.decompose(moment, workspace)?;
    eigen.reassemble_into(&mut worst.metric, workspace, |i, _| f64::from(u8::from(i + k >= size)));
    Ok(eigen.values.iter().skip(size - k).sum())
}

/// h = ‖w‖_ρ over the eigenvalues w, M* = U diag((w/‖w‖_ρ)^{ρ−1}) Uᵀ; both 0 at V = 0.
///
/// V is positive semi-definite, so an eigenvalue below zero is rounding and counts as zero.
pub(super) fn schatten(
    moment: &Array2<f64>,
    rho: f64,
    worst: &mut WorstCase,
    workspace: &mut EigenWorkspace,
) -> Result<f64> {
    let eigen = worst.spectrum.get_or_insert_with(|| Eigen::zeros(moment.nrows()));
    eigen.decompose(moment, workspace)?;
    let top = eigen.values[moment.nrows() - 1].max(0.0);
    if top == 0.0 {
        worst.metric.fill(0.0);
        return Ok(0.0);
    }
    let powers = eigen.values.iter().map(|w| (w.max(0.0) / top).powf(rho));
    let norm = top * powers.sum::<f64>().powf(1.0 / rho);
    eigen.reassemble_into(&mut worst.metric, workspace, |_, w| (w.max(0.0) / norm).powf(rho - 1.0));
    Ok(norm)
}

/// With g(w) = (w/‖w‖)^{ρ−1}: divided differences of g at fixed norm, minus the change of the norm itself.
pub(super) fn schatten_curvature(worst: &WorstCase, rho: f64) -> Curvature {
    let (norm, Some(eigen)) = (worst.value, &worst.spectrum) else { return Curvature::Zero };
    if norm == 0.0 || rho <= 1.0 {
        return Curvature::Zero;
    }
    let w = eigen.values.mapv(|w| w.max(0.0));
    let g = w.mapv(|w| (w / norm).powf(rho - 1.0));
    // For ρ < 2 the slope is infinite at 0; no displacement reaches the null space, so it has no effect.
    let negligible = 1e-14 * norm;
    let slope = w.mapv(|w| {
        if w <= negligible && rho < 2.0 { 0.0 } else { (rho - 1.0) / norm * (w / norm).powf(rho - 2.0) }
    });
    let scale = divided_differences(&w, &g, &slope);
    Curvature::Spectral { eigen: eigen.clone(), scale, less: Some((w / norm, g)) }
}
