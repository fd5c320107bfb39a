//! $\nabla^2 h(V)[D]$: how the worst metric turns when the moment moves.

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};
use ndarray::{Array1, Array2, Axis};

use crate::linalg::Eigen;

/// The second derivative of a support function, ready to be applied to directions.
#[derive(Debug)]
pub(crate) enum Curvature {
    /// h is linear here.
    Zero,
    /// scale∘D − c·m⟨m, D⟩.
    Entrywise { scale: Array2<f64>, less: Option<(f64, Array2<f64>)> },
    /// The same in the eigenbasis of V, with m on the diagonal.
    Spectral { eigen: Eigen, scale: Array2<f64>, less: Option<(f64, Array1<f64>)> },
    /// M∘(D/λ + v ⊕ v) with (I + M) v = −(M∘D/λ)1, which keeps the row sums.
    Scaling { metric: Array2<f64>, lambda: f64, factor: Option<Llt<f64>> },
}

impl Curvature {
    /// The curvature of the doubly stochastic set at the metric M.
    pub(crate) fn scaling(metric: Array2<f64>, lambda: f64) -> Self {
        let size = metric.nrows();
        let system = Mat::from_fn(size, size, |a, b| metric[[a, b]] + f64::from(u8::from(a == b)));
        // I + M is positive definite since M is positive semi-definite.
        let factor = system.llt(Side::Lower).ok();
        Self::Scaling { metric, lambda, factor }
    }

    /// ∇²h[D].
    pub(crate) fn apply(&self, direction: &Array2<f64>) -> Array2<f64> {
        match self {
            Self::Zero => Array2::zeros(direction.dim()),
            Self::Entrywise { scale, less } => {
                let mut turned = scale * direction;
                if let Some((c, m)) = less {
                    turned.scaled_add(-c * (m * direction).sum(), m);
                }
                turned
            }
            Self::Spectral { eigen, scale, less } => {
                let seen = eigen.rotate(direction);
                let mut turned = scale * &seen;
                if let Some((c, m)) = less {
                    turned.diag_mut().scaled_add(-c * m.dot(&seen.diag()), m);
                }
                eigen.rotate_back(&turned)
            }
            Self::Scaling { metric, lambda, factor } => {
                let mut turned = metric * direction / *lambda;
                let rows = turned.sum_axis(Axis(1));
                if let Some(factor) = factor {
                    let v = factor.solve(Mat::from_fn(rows.len(), 1, |a, _| -rows[a]));
                    for ((a, b), x) in turned.indexed_iter_mut() {
                        *x += metric[[a, b]] * (v[(a, 0)] + v[(b, 0)]);
                    }
                }
                turned
            }
        }
    }
}

/// (g_i − g_j)/(w_i − w_j), and the slope where w_i and w_j are too close to divide.
pub(crate) fn divided_differences(w: &Array1<f64>, g: &Array1<f64>, slope: &Array1<f64>) -> Array2<f64> {
    let close = 1e-9 * w.fold(0.0_f64, |top, w| top.max(w.abs()));
    Array2::from_shape_fn((w.len(), w.len()), |(i, j)| {
        let apart = w[i] - w[j];
        if apart.abs() > close { (g[i] - g[j]) / apart } else { 0.5 * (slope[i] + slope[j]) }
    })
}
