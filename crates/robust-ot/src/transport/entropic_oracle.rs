//! Entropic transport on another device: the task that its oracle receives, and the answer it must return for the bounds
//! to be sound.

use std::fmt;

use ndarray::{Array1, Array2};

use crate::error::Result;
use crate::interrupt::Interrupt;

/// Solves plain entropic transport on another device, each call warm-started from the last.
pub trait EntropicOracle: fmt::Debug + Send {
    /// Finds a plan for these costs, with a marginal error of at most the tolerance where that can be reached.
    ///
    /// # Errors
    /// When the device fails.
    fn solve(&mut self, task: &EntropicTask<'_>) -> Result<EntropicAnswer>;
}

/// $\min_\gamma \langle C, \gamma\rangle + \lambda \sum \gamma \ln \gamma$ with
/// $C_{ij} = \alpha_i + \beta_j - 2 x_i \cdot y_j$.
#[derive(Debug, Clone, Copy)]
pub struct EntropicTask<'a> {
    /// Weights of the source, with sum one.
    pub source_weights: &'a Array1<f64>,
    /// Weights of the target, with sum one.
    pub target_weights: &'a Array1<f64>,
    /// x, one row per source point.
    pub x: &'a Array2<f64>,
    /// y, one row per target point: also the points by which the plan is multiplied.
    pub y: &'a Array2<f64>,
    /// α.
    pub alpha: &'a Array1<f64>,
    /// β.
    pub beta: &'a Array1<f64>,
    /// λ.
    pub regularization: f64,
    /// The marginal error that is allowed.
    pub tolerance: f64,
    /// The most sweeps over rows and columns.
    pub max_sweeps: usize,
    /// Once interrupted, the oracle returns its current plan.
    pub interrupt: &'a Interrupt,
}

/// The plan $\gamma_{ij} = a_i b_j e^{(f_i + g_j - C_{ij})/\lambda}$, measured in double precision.
#[derive(Debug, Clone)]
pub struct EntropicAnswer {
    /// f, exact for g: the rows of the plan sum to a, up to rounding.
    pub f: Array1<f64>,
    /// g.
    pub g: Array1<f64>,
    /// Column sums of the plan.
    pub columns: Array1<f64>,
    /// Row sums after every column whose sum exceeds b is scaled down to b.
    pub row_sums: Array1<f64>,
    /// γ y of the scaled plan, one row per source point.
    pub spread: Array2<f64>,
    /// Σ γ ln γ of the scaled plan.
    pub entropy: f64,
}
