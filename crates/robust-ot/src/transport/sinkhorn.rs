//! Entropic optimal transport by Sinkhorn's iteration in the log domain:
//!
//! $$\min_{\gamma \in \Pi(a,b)} \langle C, \gamma\rangle + \lambda \sum_{ij} \gamma_{ij} \ln \gamma_{ij}, \qquad
//!   \gamma_{ij} = a_i b_j\thinspace e^{(f_i + g_j - C_{ij})/\lambda}.$$

use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, Axis};

use super::entropic_plan::{EntropicPlan, row};
use super::newton::direction;
use super::{check_cost, dual_value, normalised};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::kernels::{add_scaled, exp_shifted, exponents};

/// λ ln γ must stay finite.
const LARGEST_REGULARISATION: f64 = 1e200;
/// Beyond this ratio of costs to λ, exponents have no digits left behind the point.
const LARGEST_RATIO: f64 = 1e14;
/// Row blocks a sweep is cut into; fixed, so that sums do not depend on the number of threads.
pub(super) const BLOCKS: usize = 16;
/// ε-scaling divides the regularisation by this from one stage to the next,
const SCALING: f64 = 4.0;
/// leaves a stage at this marginal error,
const STAGE_TOLERANCE: f64 = 1e-2;
/// or after this many iterations.
const STAGE_ITERATIONS: usize = 50;
/// Sweeps that old potentials get to show
const WARM_SWEEPS: usize = 10;
/// a marginal error from which to go on, rather than begin again.
const WARM_ERROR: f64 = 0.05;
/// Plain sweeps before Newton steps are tried, and after one has failed.
const PLAIN_SWEEPS: usize = 20;
/// An error without a new low for this many sweeps is as low as rounding lets it be.
const PATIENCE: usize = 500;
/// Newton steps hold the plan; beyond this many entries (256 MB) it is not held.
const LARGEST_HELD_PLAN: usize = 1 << 25;
/// A Newton step is shortened this often before it has failed.
const MAX_HALVINGS: i32 = 6;
/// A column sum below this has lost digits to underflow.
const SMALLEST_COLUMN: f64 = 1e-280;

/// An entropic solver for fixed weights and regularisation; a second call starts from the last potentials.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Interrupt, transport::Sinkhorn};
///
/// let mut sinkhorn = Sinkhorn::new(&[0.5, 0.5], &[0.5, 0.5], 0.1)?;
/// let report = sinkhorn.solve(&array![[0.0, 1.0], [1.0, 0.0]], 1e-12, 1000, &Interrupt::default())?;
/// assert!(report.converged && report.marginal_error <= 1e-12);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sinkhorn {
    a: Array1<f64>,
    b: Array1<f64>,
    log_b: Array1<f64>,
    regularisation: f64,
    /// Potentials relative to the product measure: bounded by the range of C whatever the weights.
    f: Array1<f64>,
    g: Array1<f64>,
    /// Column sums of the current plan; its row sums are exact.
    columns: Array1<f64>,
    warm: bool,
}

/// How a Sinkhorn solve ended.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Interrupt, transport::Sinkhorn};
///
/// let cost = array![[0.0, 1.0], [1.0, 0.5]];
/// let mut sinkhorn = Sinkhorn::new(&[0.3, 0.7], &[0.5, 0.5], 0.01)?;
/// let early = sinkhorn.solve(&cost, 1e-12, 1, &Interrupt::default())?;
/// assert!(!early.converged && early.marginal_error > 1e-12); // not there yet, and says so
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SinkhornReport {
    /// Sweeps over the cost matrix, and products with the plan inside Newton steps, over all stages.
    pub iterations: usize,
    /// Σ_j |(γᵀ1)_j − b_j|; rows are exact.
    pub marginal_error: f64,
    /// Whether the error is within the tolerance.
    pub converged: bool,
}

impl Sinkhorn {
    /// Takes weights with equal sums and λ > 0. Both are scaled to sum one, and plans and values are those of the
    /// problem between the scaled weights.
    ///
    /// # Errors
    /// When a weight is negative or not finite, all are zero, the sums differ, or λ is not positive.
    pub fn new(a: &[f64], b: &[f64], regularisation: f64) -> Result<Self> {
        if !(regularisation > 0.0 && regularisation <= LARGEST_REGULARISATION) {
            return Err(Error::parameter("entropy", "positive and at most 1e200", regularisation));
        }
        let (a, b, _) = normalised(a, b)?;
        let (m, n) = (a.len(), b.len());
        Ok(Self {
            log_b: b.mapv(f64::ln),
            a,
            b,
            regularisation,
            f: Array1::zeros(m),
            g: Array1::zeros(n),
            columns: Array1::zeros(n),
            warm: false,
        })
    }

    /// Iterates until the marginal error is within the tolerance.
    ///
    /// # Errors
    /// When the costs are not m × n or not finite, or so large against λ that no digits are left.
    pub fn solve(
        &mut self,
        cost: &Array2<f64>,
        tolerance: f64,
        max_iterations: usize,
        interrupt: &Interrupt,
    ) -> Result<SinkhornReport> {
        check_cost(cost, self.a.len(), self.b.len())?;
        if !cost.is_standard_layout() {
            return self.solve(&cost.as_standard_layout().into_owned(), tolerance, max_iterations, interrupt);
        }
        let (low, high) =
            cost.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &c| (l.min(c), h.max(c)));
        if high - low > LARGEST_RATIO * self.regularisation {
            let rule =
                format!("0 or at least {:.1e} for costs up to {high:.1e}", (high - low) / LARGEST_RATIO);
            return Err(Error::parameter("entropy", rule, self.regularisation));
        }
        let mut iterations = 0;
        // Old potentials help if the costs have moved little against λ, which the first sweeps tell.
        if self.warm {
            let (count, error) = self.iterate(
                cost,
                self.regularisation,
                tolerance,
                WARM_SWEEPS.min(max_iterations),
                interrupt,
            );
            iterations += count;
            self.warm = error <= WARM_ERROR;
        }
        if !self.warm {
            let mut stage = (high - low) / SCALING;
            while stage > self.regularisation && iterations < max_iterations {
                let limit = STAGE_ITERATIONS.min(max_iterations - iterations);
                iterations += self.iterate(cost, stage, STAGE_TOLERANCE, limit, interrupt).0;
                stage /= SCALING;
            }
            self.warm = true;
        }
        let limit = max_iterations.saturating_sub(iterations).max(1);
        let (count, marginal_error) = self.iterate(cost, self.regularisation, tolerance, limit, interrupt);
        Ok(SinkhornReport {
            iterations: iterations + count,
            marginal_error,
            converged: marginal_error <= tolerance,
        })
    }

    /// Alternates both updates at one regularisation, with Newton steps for g once plain ones have settled. Ends on
    /// an update of f, so that rows are exact.
    fn iterate(
        &mut self,
        cost: &Array2<f64>,
        epsilon: f64,
        tolerance: f64,
        limit: usize,
        interrupt: &Interrupt,
    ) -> (usize, f64) {
        let (mut iteration, mut plain_until) = (1, PLAIN_SWEEPS);
        let (mut best, mut best_at) = (f64::INFINITY, 0);
        self.update_source(cost, epsilon);
        loop {
            let error = self.marginal_error();
            if error < best {
                (best, best_at) = (error, iteration);
            }
            let stuck = iteration > best_at + PATIENCE;
            if error <= tolerance || stuck || iteration >= limit || interrupt.is_raised() {
                return (iteration, error);
            }
            if iteration >= plain_until && cost.len() <= LARGEST_HELD_PLAN {
                let (work, gained) = self.newton_step(cost, epsilon, error, interrupt);
                iteration += work;
                if gained {
                    continue;
                }
                plain_until = iteration + PLAIN_SWEEPS;
            }
            iteration += 1;
            self.update_target(cost, epsilon);
            self.update_source(cost, epsilon);
        }
    }

    fn marginal_error(&self) -> f64 {
        self.columns.iter().zip(&self.b).map(|(sum, b)| (sum - b).abs()).sum()
    }

    /// Moves g along the Newton direction as far as the dual value grows; returns the work in sweeps and whether it
    /// moved at all.
    fn newton_step(
        &mut self,
        cost: &Array2<f64>,
        epsilon: f64,
        error: f64,
        interrupt: &Interrupt,
    ) -> (usize, bool) {
        let plan = self.plan(cost, epsilon);
        let (direction, mut work) =
            direction(&plan, &self.a, &self.b, &self.columns, error.min(0.1), interrupt);
        let slope = epsilon * direction.dot(&(&self.b - &self.columns));
        let start = (self.f.clone(), self.g.clone(), self.columns.clone());
        let value = |s: &Self| dual_value((&s.a, &s.b), (&s.f, &s.g)).0;
        let before = value(self);
        for halving in (0..MAX_HALVINGS).take_while(|_| !interrupt.is_raised()) {
            let theta = 0.5_f64.powi(halving);
            self.g = &start.1 + &(&direction * (theta * epsilon));
            self.update_source(cost, epsilon);
            work += 1;
            // Close to the optimum the gain drowns in rounding, and the error speaks instead.
            let promised = 0.1 * theta * slope;
            if promised > 0.0 && (value(self) >= before + promised || self.marginal_error() <= 0.5 * error) {
                return (work, true);
            }
        }
        (self.f, self.g, self.columns) = start;
        (work, false)
    }

    /// γ_ij = a_i b_j e^{(f_i + g_j − C_ij)/ε}.
    fn plan(&self, cost: &Array2<f64>, epsilon: f64) -> Array2<f64> {
        let shifted = (&self.log_b + &(&self.g / epsilon)).to_vec();
        let mut plan = Array2::zeros(cost.dim());
        plan.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(|(i, mut masses)| {
            let masses = masses.as_slice_mut().expect("rows are contiguous");
            let largest = exponents(masses, &shifted, row(cost, i), 1.0 / epsilon);
            let sum = exp_shifted(masses, largest);
            masses.iter_mut().for_each(|x| *x *= self.a[i] / sum);
        });
        plan
    }

    /// f_i = −ε ln Σ_j b_j e^{(g_j − C_ij)/ε}, and the column sums of the plan that results: one exponential an
    /// entry for a whole iteration.
    fn update_source(&mut self, cost: &Array2<f64>, epsilon: f64) {
        let n = cost.ncols();
        let rows = cost.nrows().div_ceil(BLOCKS);
        let shifted = (&self.log_b + &(&self.g / epsilon)).to_vec();
        let (a, inverse) = (&self.a, 1.0 / epsilon);
        let partial: Vec<Vec<f64>> = self
            .f
            .axis_chunks_iter_mut(Axis(0), rows)
            .into_par_iter()
            .enumerate()
            .map(|(block, mut f)| {
                let mut columns = vec![0.0; n];
                let mut powers = vec![0.0; n];
                for (offset, f) in f.iter_mut().enumerate() {
                    let i = block * rows + offset;
                    let largest = exponents(&mut powers, &shifted, row(cost, i), inverse);
                    let sum = exp_shifted(&mut powers, largest);
                    *f = -epsilon * (largest + sum.ln());
                    add_scaled(&mut columns, a[i] / sum, &powers);
                }
                columns
            })
            .collect();
        self.columns.fill(0.0);
        partial.iter().for_each(|part| self.columns.iter_mut().zip(part).for_each(|(sum, x)| *sum += x));
    }

    /// g_j ← g_j + ε ln(b_j / column sum_j), from scratch where the column sum has underflowed.
    fn update_target(&mut self, cost: &Array2<f64>, epsilon: f64) {
        for j in (0..self.b.len()).filter(|&j| self.b[j] > 0.0) {
            if self.columns[j] > SMALLEST_COLUMN * self.b[j] {
                self.g[j] += epsilon * (self.b[j] / self.columns[j]).ln();
                continue;
            }
            let exponents: Vec<f64> =
                (0..self.a.len()).map(|i| self.a[i].ln() + (self.f[i] - cost[[i, j]]) / epsilon).collect();
            let largest = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = exponents.iter().map(|x| (x - largest).exp()).sum();
            self.g[j] = -epsilon * (largest + sum.ln());
        }
    }

    /// The dual variables of the problem with Σ γ ln γ: γ_ij = e^{(f_i + g_j − C_ij)/λ}. −∞ without weight.
    pub fn potentials(&self) -> (Array1<f64>, Array1<f64>) {
        let absolute = |potential: &Array1<f64>, weights: &Array1<f64>| {
            potential + &weights.mapv(|w| self.regularisation * w.ln())
        };
        (absolute(&self.f, &self.a), absolute(&self.g, &self.b))
    }

    /// The dual value ⟨a, f⟩ + ⟨b, g⟩: a lower bound of the optimum for any potentials, since the rows of the plan
    /// are exact and its mass therefore one.
    pub fn dual_value(&self) -> f64 {
        self.dual_value_and_rounding().0
    }

    /// The dual value, and how far rounding can have moved it.
    pub(crate) fn dual_value_and_rounding(&self) -> (f64, f64) {
        let (f, g) = self.potentials();
        dual_value((&self.a, &self.b), (&f, &g))
    }

    /// The current plan, rounded to the exact marginals (Altschuler, Weed, Rigollet 2017).
    pub(crate) fn feasible_plan(&self, cost: &Array2<f64>) -> EntropicPlan {
        let column_scale: Array1<f64> =
            self.columns.iter().zip(&self.b).map(|(sum, b)| if sum > b { b / sum } else { 1.0 }).collect();
        let mut plan = EntropicPlan {
            a: self.a.clone(),
            target: (&self.log_b + &(&self.g / self.regularisation)).to_vec(),
            column_scale: column_scale.to_vec(),
            regularisation: self.regularisation,
            row_deficit: Array1::zeros(self.a.len()),
            column_deficit: Array1::zeros(self.b.len()),
        };
        let row_sums = plan.row_sums(cost);
        let row_deficit = (&self.a - &row_sums).mapv(|x| x.max(0.0));
        let column_deficit = (&self.b - &(&self.columns * &column_scale)).mapv(|x| x.max(0.0));
        let missing = column_deficit.sum();
        if missing > 0.0 {
            plan.row_deficit = row_deficit;
            plan.column_deficit = column_deficit / missing;
        }
        plan
    }
}

#[cfg(test)]
#[path = "sinkhorn_tests.rs"]
mod tests;
