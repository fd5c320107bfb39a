//! The sets that look at eigenvalues only: `srw` and `rkp`.

use ndarray::{Array1, Array2};

use super::WorstCase;
use super::curvature::{Curvature, divided_differences};
use crate::error::Result;
use crate::linalg::Eigen;

/// h = sum of the k largest eigenvalues, M* = projector on their space.
pub(super) fn largest(moment: &Array2<f64>, k: usize) -> Result<WorstCase> {
    let eigen = Eigen::new(moment)?;
    let size = moment.nrows();
    let chosen = Array1::from_shape_fn(size, |i| f64::from(u8::from(i + k >= size)));
    let value = eigen.values.dot(&chosen);
    Ok(WorstCase { value, metric: eigen.reassemble(&chosen), spectrum: Some(eigen) })
}

/// h = ‖w‖_ρ over the eigenvalues w, M* = U diag((w/‖w‖_ρ)^{ρ−1}) Uᵀ; both 0 at V = 0.
///
/// V is positive semi-definite, so an eigenvalue below zero is rounding and counts as zero.
pub(super) fn schatten(moment: &Array2<f64>, rho: f64) -> Result<WorstCase> {
    let eigen = Eigen::new(moment)?;
    let w = eigen.values.mapv(|w| w.max(0.0));
    let top = w[w.len() - 1];
    if top == 0.0 {
        return Ok(WorstCase { spectrum: Some(eigen), ..WorstCase::new(0.0, Array2::zeros(moment.dim())) });
    }
    let norm = top * w.mapv(|w| (w / top).powf(rho)).sum().powf(1.0 / rho);
    let metric = eigen.reassemble(&w.mapv(|w| (w / norm).powf(rho - 1.0)));
    Ok(WorstCase { value: norm, metric, spectrum: Some(eigen) })
}

/// With g(w) = (w/‖w‖)^{ρ−1}: divided differences of g at fixed norm, less the norm's own change.
pub(super) fn schatten_curvature(worst: &WorstCase, rho: f64) -> Curvature {
    let (norm, Some(eigen)) = (worst.value, &worst.spectrum) else { return Curvature::Zero };
    if norm == 0.0 || rho <= 1.0 {
        return Curvature::Zero;
    }
    let w = eigen.values.mapv(|w| w.max(0.0));
    let g = w.mapv(|w| (w / norm).powf(rho - 1.0));
    // For ρ < 2 the slope is infinite at 0; no displacement reaches the null space, so it never acts.
    let negligible = 1e-14 * norm;
    let slope = w.mapv(|w| {
        if w <= negligible && rho < 2.0 { 0.0 } else { (rho - 1.0) / norm * (w / norm).powf(rho - 2.0) }
    });
    let scale = divided_differences(&w, &g, &slope);
    Curvature::Spectral { eigen: eigen.clone(), scale, less: Some(((rho - 1.0) / norm, g)) }
}
