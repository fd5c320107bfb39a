//! What a descent on moments needs to know about the points, in matrices of size r × r.

use ndarray::{Array1, Array2, Axis};

use crate::error::Result;
use crate::linalg::Eigen;
use crate::measure::WeightRounding;

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
    pub(crate) rounding: Rounding,
}

/// What rounding has done to points and weights before a problem begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounding {
    /// A bound on ‖fl(s) − s‖ / ‖s‖ for the centered points.
    pub(crate) blur: f64,
    /// For source and target.
    pub(crate) weights: [WeightRounding; 2],
}

/// The relative error of subtracting a center.
pub(crate) const OF_CENTERING: f64 = f64::EPSILON / 2.0;

impl Frame {
    /// The size r of moments and metrics.
    pub(crate) fn size(&self) -> usize {
        self.shared.nrows()
    }

    /// An upper bound on how far rounding in costs from products can move the optimum of a linear problem.
    ///
    /// |fl(C_ij) − C_ij| ≤ κ Σ_ab |M_ab| |s_ia| |t_jb| + … ≤ κ (ω_i + ω_j) with ω_i = Σ_a ρ_a s_ia² and ρ the row
    /// sums of |M|. The bound is separable, so it costs a plan at most κ (Σ a_i ω_i + Σ b_j ω_j) = κ Σ_a ρ_a shared_aa.
    /// Rounded points lower C_ij by at most 2 blur ‖M‖₂ (‖s‖ + ‖t‖)² ≤ 4 blur max ρ (‖s‖² + ‖t‖²).
    pub(crate) fn rounding(&self, metric: &Array2<f64>) -> f64 {
        let of_products = rounding_per_moment(metric, self.dim).dot(&self.shared.diag());
        of_products + 4.0 * self.rounding.blur * self.reach(metric) + self.of_weights(metric)
    }

    /// A bound on how far the rounding of the weights moves the optimum of a linear problem, as in [`Frame::strayed`].
    pub(crate) fn of_weights(&self, metric: &Array2<f64>) -> f64 {
        4.0 * self.misplaced() * self.reach(metric)
    }

    /// max ρ · tr(shared) ≥ ⟨M, shared⟩.
    fn reach(&self, metric: &Array2<f64>) -> f64 {
        let rows = metric.mapv(f64::abs).sum_axis(Axis(1));
        rows.fold(0.0_f64, |top, row| top.max(*row)) * self.shared.diag().sum()
    }

    /// The mass η that is not where it would be for the weights as given, divided by their exact sums: that of quotients, of
    /// the difference of the sums, and of the units of 2⁻¹²⁰.
    fn misplaced(&self) -> f64 {
        let [a, b] = self.rounding.weights;
        a.misplaced + b.misplaced + (a.excess - b.excess).abs() + self.points as f64 * 2f64.powi(-120)
    }

    /// How far the sums of the weights are from one: what is linear in the weights changes by this factor.
    pub(crate) fn excess(&self) -> f64 {
        self.rounding.weights.iter().map(|side| side.excess.abs()).sum()
    }

    /// A bound on ‖ΔV‖_F, where ΔV is due to the rounding of points and weights, for a plan with the moment V.
    ///
    /// Points that are off by ε with Σ γ ‖ε‖² ≤ 2 blur² tr(shared) move V by 2 (tr V · Σ γ ‖ε‖²)^½ + Σ γ ‖ε‖². The plan for
    /// the true weights keeps (1 − 2η) of γ and couples the rest independently, whose moment is at most
    /// 4η shared in the order of semidefinite matrices, since (s − t)(s − t)ᵀ ⪯ 2 ssᵀ + 2 ttᵀ. A plan that moves nothing
    /// between the rounded points and weights is taken to move nothing.
    pub(crate) fn strayed(&self, trace: f64) -> f64 {
        if trace <= 0.0 {
            return 0.0;
        }
        let shared = self.shared.diag().sum();
        let apart = 2.0 * self.rounding.blur.powi(2) * shared;
        2.0 * (trace * apart).sqrt() + apart + 4.0 * self.misplaced() * shared + self.excess() * trace
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
