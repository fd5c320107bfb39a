//! What a descent on moments needs to know about the points, in matrices of size r × r.

use ndarray::{Array1, Array2, Axis};

/// The summary of two measures that bounds and first metrics need.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Sᵀ diag(a) S + Tᵀ diag(b) T, the part of V that every feasible plan shares.
    pub(crate) shared: Array2<f64>,
    /// V of the independent plan a bᵀ.
    pub(crate) independent: Array2<f64>,
    /// Numbers per point, slots · r.
    pub(crate) dim: usize,
}

impl Frame {
    /// The size r of moments and metrics.
    pub(crate) fn size(&self) -> usize {
        self.shared.nrows()
    }

    /// An upper bound on how far rounding in costs from products can move the optimum of a linear problem.
    ///
    /// |fl(C_ij) − C_ij| ≤ κ Σ_ab |M_ab| |s_ia| |t_jb| + … ≤ κ (ω_i + ω_j) with ω_i = Σ_a ρ_a s_ia² and ρ the row
    /// sums of |M|. The bound is separable, so it costs a plan at most κ (Σ a_i ω_i + Σ b_j ω_j) = κ Σ_a ρ_a shared_aa.
    pub(crate) fn rounding(&self, metric: &Array2<f64>) -> f64 {
        rounding_per_moment(metric, self.dim).dot(&self.shared.diag())
    }
}

/// κ ρ of [`Frame::rounding`], for points of `dim` numbers.
pub(crate) fn rounding_per_moment(metric: &Array2<f64>, dim: usize) -> Array1<f64> {
    let kappa = 2.0 * (dim + metric.nrows() + 8) as f64 * (f64::EPSILON / 2.0);
    metric.mapv(f64::abs).sum_axis(Axis(1)) * kappa
}
