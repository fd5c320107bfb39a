//! $\nabla^2 h(V)[D]$: how the worst metric turns when the moment moves.

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};
use ndarray::{Array1, Array2, Axis, s};
use rayon::prelude::*;

use crate::linalg::{Eigen, flat, inner, product};

/// The second derivative of a support function, as a quadratic form.
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

    /// ⟨D_i, ∇²h[D_j]⟩ for every two of some directions.
    pub(crate) fn gram(&self, directions: &[Array2<f64>]) -> Array2<f64> {
        match self {
            Self::Zero => Array2::zeros((directions.len(), directions.len())),
            Self::Entrywise { scale, less } => {
                let along =
                    less.as_ref().map(|(c, m)| (*c, directions.iter().map(|d| inner(m, d)).collect()));
                weighted(&stacked(directions), flat(scale), along)
            }
            Self::Spectral { eigen, scale, less } => {
                let still = still(scale);
                let moving = |d: &Array2<f64>| eigen.rotate_from(still, d);
                let seen: Vec<_> = directions.par_iter().map(moving).collect();
                let along = less.as_ref().map(|(c, m)| {
                    let m = m.slice(s![still..]);
                    (*c, seen.iter().map(|d| m.dot(&d.slice(s![.., still..]).diag())).collect())
                });
                // What a row that moves has in common with one that does not is there once, for two halves.
                let mut scale = scale.slice(s![still.., ..]).to_owned();
                scale.slice_mut(s![.., ..still]).mapv_inplace(|x| 2.0 * x);
                weighted(&stacked(&seen), flat(&scale), along)
            }
            Self::Scaling { metric, lambda, factor } => {
                let turn = |d: &Array2<f64>| turn_scaling(metric, *lambda, factor.as_ref(), d);
                let turned: Vec<_> = directions.par_iter().map(turn).collect();
                product(stacked(directions).view(), stacked(&turned).t())
            }
        }
    }
}

/// M∘(D/λ + v ⊕ v), with the v that keeps the row sums.
fn turn_scaling(
    metric: &Array2<f64>,
    lambda: f64,
    factor: Option<&Llt<f64>>,
    direction: &Array2<f64>,
) -> Array2<f64> {
    let mut turned = metric * direction / lambda;
    let rows = turned.sum_axis(Axis(1));
    if let Some(factor) = factor {
        let v = factor.solve(Mat::from_fn(rows.len(), 1, |a, _| -rows[a]));
        for ((a, b), x) in turned.indexed_iter_mut() {
            *x += metric[[a, b]] * (v[(a, 0)] + v[(b, 0)]);
        }
    }
    turned
}

/// F diag(w) Fᵀ − c·u uᵀ.
fn weighted(features: &Array2<f64>, weights: &[f64], less: Option<(f64, Array1<f64>)>) -> Array2<f64> {
    let mut scaled = features.clone();
    for mut row in scaled.rows_mut() {
        row.iter_mut().zip(weights).for_each(|(x, w)| *x *= w);
    }
    let mut gram = product(features.view(), scaled.t());
    if let Some((c, u)) = less {
        for (mut row, x) in gram.rows_mut().into_iter().zip(&u) {
            row.scaled_add(-c * x, &u);
        }
    }
    gram
}

/// Matrices as the rows of one.
fn stacked(matrices: &[Array2<f64>]) -> Array2<f64> {
    let entries: Vec<f64> = matrices.iter().flatten().copied().collect();
    let columns = entries.len() / matrices.len().max(1);
    Array2::from_shape_vec((matrices.len(), columns), entries).expect("matrices of one size")
}

/// The number of first rows and columns in which nothing is scaled by anything but zero.
fn still(scale: &Array2<f64>) -> usize {
    (0..scale.nrows()).take_while(|&a| scale.slice(s![a, ..=a]).iter().all(|&x| x == 0.0)).count()
}

/// (g_i − g_j)/(w_i − w_j), and the slope where w_i and w_j are too close to divide.
pub(crate) fn divided_differences(w: &Array1<f64>, g: &Array1<f64>, slope: &Array1<f64>) -> Array2<f64> {
    let close = 1e-9 * w.fold(0.0_f64, |top, w| top.max(w.abs()));
    Array2::from_shape_fn((w.len(), w.len()), |(i, j)| {
        let apart = w[i] - w[j];
        if apart.abs() > close { (g[i] - g[j]) / apart } else { 0.5 * (slope[i] + slope[j]) }
    })
}
