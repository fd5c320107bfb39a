//! $\nabla^2 h(V)[D]$: how the worst metric changes with the moment.

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};
use ndarray::{Array1, Array2, Axis, s};
use rayon::prelude::*;

use crate::linalg::{Eigen, inner, product};

/// The second derivative of a support function as a sum of squares, ⟨D, ∇²h[D]⟩ = Σ scale∘D′∘D′ for some D′ linear in D.
/// Rounding therefore cannot make it negative, however much D and D′ differ.
#[derive(Debug)]
pub(crate) enum Curvature {
    /// h is linear here.
    Zero,
    /// D′ = D − x⟨m, D⟩ for the x and m in `less`, where ⟨m, x⟩ = 1 and m is parallel to scale∘x.
    Entrywise { scale: Array2<f64>, less: Option<(Array2<f64>, Array2<f64>)> },
    /// The same in the eigenbasis of V, with x and m on the diagonal.
    Spectral { eigen: Eigen, scale: Array2<f64>, less: Option<(Array1<f64>, Array1<f64>)> },
    /// D′ = D + λ(v ⊕ v) with (I + M) v = −(M∘D/λ)1, which preserves the row sums, and scale M/λ.
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

    /// ⟨D_i, ∇²h[D_j]⟩ for every pair of directions.
    pub(crate) fn gram(&self, directions: &[Array2<f64>]) -> Array2<f64> {
        match self {
            Self::Zero => Array2::zeros((directions.len(), directions.len())),
            Self::Entrywise { scale, less } => match less {
                None => weighted(directions, scale),
                Some((x, m)) => {
                    let seen: Vec<_> = directions.par_iter().map(|d| d - x * inner(m, d)).collect();
                    weighted(&seen, scale)
                }
            },
            Self::Spectral { eigen, scale, less } => {
                let still = still(scale);
                let moving = |direction: &Array2<f64>| {
                    let mut seen = eigen.rotate_from(still, direction);
                    if let Some((x, m)) = less {
                        let mut square = seen.slice_mut(s![.., still..]);
                        let along = m.slice(s![still..]).dot(&square.diag());
                        square.diag_mut().scaled_add(-along, &x.slice(s![still..]));
                    }
                    seen
                };
                let seen: Vec<_> = directions.par_iter().map(moving).collect();
                // Entries between a moving row and a still one appear once instead of twice, so their scale is doubled.
                let mut scale = scale.slice(s![still.., ..]).to_owned();
                scale.slice_mut(s![.., ..still]).mapv_inplace(|x| 2.0 * x);
                weighted(&seen, &scale)
            }
            Self::Scaling { metric, lambda, factor } => {
                let keep = |d: &Array2<f64>| keep_rows(metric, *lambda, factor.as_ref(), d);
                let seen: Vec<_> = directions.par_iter().map(keep).collect();
                weighted(&seen, &(metric / *lambda))
            }
        }
    }
}

/// D + λ(v ⊕ v), with the v for which the row sums of M∘(D/λ + v ⊕ v) are zero.
fn keep_rows(
    metric: &Array2<f64>,
    lambda: f64,
    factor: Option<&Llt<f64>>,
    direction: &Array2<f64>,
) -> Array2<f64> {
    let rows = (metric * direction / lambda).sum_axis(Axis(1));
    let mut kept = direction.clone();
    if let Some(factor) = factor {
        let v = factor.solve(Mat::from_fn(rows.len(), 1, |a, _| -rows[a]));
        for ((a, b), x) in kept.indexed_iter_mut() {
            *x += lambda * (v[(a, 0)] + v[(b, 0)]);
        }
    }
    kept
}

/// Σ scale∘D_i∘D_j for every pair of matrices.
fn weighted(matrices: &[Array2<f64>], scale: &Array2<f64>) -> Array2<f64> {
    let rows = stacked(matrices);
    let mut scaled = rows.clone();
    for mut row in scaled.rows_mut() {
        row.iter_mut().zip(scale).for_each(|(x, s)| *x *= s);
    }
    product(rows.view(), scaled.t())
}

/// Stacks matrices as the rows of one matrix.
fn stacked(matrices: &[Array2<f64>]) -> Array2<f64> {
    let entries: Vec<f64> = matrices.iter().flatten().copied().collect();
    let columns = entries.len() / matrices.len().max(1);
    Array2::from_shape_vec((matrices.len(), columns), entries).expect("all matrices have the same size")
}

/// The number of leading rows and columns whose scales are all zero.
fn still(scale: &Array2<f64>) -> usize {
    (0..scale.nrows()).take_while(|&a| scale.slice(s![a, ..=a]).iter().all(|&x| x == 0.0)).count()
}

/// (g_i − g_j)/(w_i − w_j), or the mean slope where w_i and w_j are too close to divide.
pub(crate) fn divided_differences(w: &Array1<f64>, g: &Array1<f64>, slope: &Array1<f64>) -> Array2<f64> {
    let close = 1e-9 * w.fold(0.0_f64, |top, w| top.max(w.abs()));
    Array2::from_shape_fn((w.len(), w.len()), |(i, j)| {
        let apart = w[i] - w[j];
        if apart.abs() > close { (g[i] - g[j]) / apart } else { 0.5 * (slope[i] + slope[j]) }
    })
}
