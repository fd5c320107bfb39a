//! What a descent on moments needs to know about the points, in matrices of size r × r.

use ndarray::{Array1, Array2, Axis};

use crate::error::Result;
use crate::linalg::Eigen;

/// A moment whose rounding error is below this fraction of it is positive semidefinite to ten digits as it is.
const CLEAR: f64 = 1e-10;

/// The summary of two measures that bounds and first metrics need.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Sᵀ diag(a) S + Tᵀ diag(b) T, the part of V that every feasible plan shares.
    pub(crate) shared: Array2<f64>,
    /// V of the independent plan a bᵀ.
    pub(crate) independent: Array2<f64>,
    /// Numbers per point, slots · r.
    pub(crate) dim: usize,
    /// m + n.
    pub(crate) points: usize,
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

    /// The τ for which rounding changes no entry V_ab of a moment from products by more than τ (shared_aa shared_bb)^½.
    ///
    /// V = shared − X − Xᵀ, where the sums of `shared` have m + n terms per slot and those of X = Sᵀ(γT) have m per slot
    /// after n: with N terms each is off by at most N u Σ |terms|, and by Cauchy-Schwarz these sums are at most
    /// (shared_aa shared_bb)^½ for `shared` and half of that for X. Marginals of γ that are off by N u count as much again.
    fn unit_rounding(&self) -> f64 {
        let slots = self.dim / self.size().max(1);
        let terms = (self.points * slots + self.size() + 8) as f64;
        4.0 * terms * (f64::EPSILON / 2.0)
    }

    /// A bound on ‖fl(V) − V‖_F for the moment of a plan from products: τ tr(shared).
    pub(crate) fn moment_rounding(&self) -> f64 {
        self.unit_rounding() * self.shared.diag().sum()
    }

    /// A bound on the error of Σ γ ln γ. Its terms have one sign, and each passes through at most (m + n)/8 + 128 roundings,
    /// since rows are added in lanes and blocks. Rounding of the weights and of the marginals misplaces a mass of at most
    /// δ = (m + n) u, which changes the sum by at most δ (1 + ln(mn/δ)): each share of it is a γ ln γ of its own.
    pub(crate) fn entropy_rounding(&self, entropy: f64) -> f64 {
        let (unit, points) = (f64::EPSILON / 2.0, self.points as f64);
        let misplaced = points * unit;
        let pairs = 0.25 * points * points;
        unit * (points / 8.0 + 128.0) * entropy.abs() + misplaced * (1.0 + (pairs / misplaced).ln())
    }

    /// The best estimate of V from a moment computed by products: 0 if the diagonal is rounding alone, else the closest
    /// positive semidefinite matrix. V itself is positive semidefinite, so the projection is closer to it.
    pub(crate) fn settle(&self, moment: Array2<f64>) -> Result<Array2<f64>> {
        let unit = self.unit_rounding();
        if moment.diag().iter().zip(self.shared.diag()).all(|(v, shared)| *v <= unit * shared) {
            return Ok(Array2::zeros(moment.dim()));
        }
        let size = moment.iter().map(|v| v * v).sum::<f64>().sqrt();
        if self.moment_rounding() <= CLEAR * size {
            return Ok(moment);
        }
        let eigen = Eigen::new(&moment)?;
        Ok(eigen.reassemble(&eigen.values.mapv(|w| w.max(0.0))))
    }
}

/// κ ρ of [`Frame::rounding`], for points of `dim` numbers.
pub(crate) fn rounding_per_moment(metric: &Array2<f64>, dim: usize) -> Array1<f64> {
    let kappa = 2.0 * (dim + metric.nrows() + 8) as f64 * (f64::EPSILON / 2.0);
    metric.mapv(f64::abs).sum_axis(Axis(1)) * kappa
}
