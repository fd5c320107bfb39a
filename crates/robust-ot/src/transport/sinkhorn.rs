//! Entropic optimal transport by Sinkhorn's iteration:
//!
//! $$\min_{\gamma \in \Pi(a,b)} \langle C, \gamma\rangle + \lambda \sum_{ij} \gamma_{ij} \ln \gamma_{ij}, \qquad
//!   \gamma_{ij} = a_i b_j\thinspace e^{(f_i + g_j - C_{ij})/\lambda}.$$
//!
//! A sweep over the costs works in the log domain, so that nothing overflows or underflows at any λ. If memory allows, it
//! holds the resulting plan. Rescaling that plan, or running conjugate gradients on it, needs no exponentials until the
//! potentials have moved too far from it. If λ is so small that the iteration does not converge, it starts again from the
//! potentials of the exact plan.

use ndarray::{Array1, Array2};

use super::cost_rows::CostRows;
use super::entropic_plan::{Deficits, EntropicPlan};
use super::held_kernel::HeldKernel;
use super::iterate::{Ended, OnStall, SCALED_ITERATIONS};
use super::momentum::Momentum;
use super::newton::Newton;
use super::simplex::NetworkSimplex;
use super::sweep::{BLOCKS, Work};
use super::{dual_value, normalized};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::kernels::Real;

/// The largest λ, so that λ ln γ stays finite.
const LARGEST_REGULARIZATION: f64 = 1e200;
/// The largest ratio of costs to λ: beyond it, exponents have no digits left after the decimal point.
const LARGEST_RATIO: f64 = 1e14;
/// A regularization above this fraction of the range of the costs needs no ε-scaling.
const LARGE: f64 = 1.0 / 128.0;
/// The factor by which ε-scaling reduces the regularization from one stage to the next.
const SCALING: f64 = 4.0;
/// The marginal error at which a stage of ε-scaling ends.
const STAGE_TOLERANCE: f64 = 1e-2;
/// The largest number of iterations in a stage of ε-scaling.
const STAGE_ITERATIONS: usize = 50;

/// An entropic solver for fixed weights and regularization; a second call starts from the last potentials.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::Sinkhorn;
///
/// let mut sinkhorn = Sinkhorn::new(&[0.5, 0.5], &[0.5, 0.5], 0.1)?;
/// let report = sinkhorn.solve(&array![[0.0, 1.0], [1.0, 0.0]], 1e-12, 1000, &Interrupt::default())?;
/// assert!(report.converged && report.marginal_error <= 1e-12);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sinkhorn<T: Real = f64> {
    pub(super) a: Array1<f64>,
    pub(super) b: Array1<f64>,
    pub(super) log_b: Array1<f64>,
    pub(super) regularization: f64,
    /// Potentials relative to the product measure: bounded by the range of C whatever the weights.
    pub(super) f: Array1<f64>,
    pub(super) g: Array1<f64>,
    /// Column sums of the current plan; its row sums are exact.
    pub(super) columns: Array1<f64>,
    pub(super) warm: bool,
    /// The largest size of the held plans, in bytes.
    pub(super) memory: usize,
    pub(super) single: HeldKernel<f32>,
    /// Used after Newton steps in single precision have failed.
    pub(super) double: HeldKernel<f64>,
    pub(super) precise: bool,
    pub(super) newton: Newton,
    pub(super) momentum: Momentum,
    pub(super) work: Vec<Work<T>>,
    /// ln b_j + g_j/ε.
    pub(super) shifted: Vec<T>,
    pub(super) factors: Vec<f64>,
    pub(super) sums: Vec<f64>,
    /// The solver behind exact starts, once one was needed.
    pub(super) exact: Option<Box<NetworkSimplex>>,
}

/// How a Sinkhorn solve ended.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::Sinkhorn;
///
/// let cost = array![[0.0, 1.0], [1.0, 0.5]];
/// let mut sinkhorn = Sinkhorn::new(&[0.3, 0.7], &[0.5, 0.5], 0.01)?;
/// let early = sinkhorn.solve(&cost, 1e-12, 1, &Interrupt::default())?;
/// assert!(!early.converged && early.marginal_error > 1e-12); // stopped early, and reported as such
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

impl<T: Real> Sinkhorn<T> {
    /// Takes weights with equal sums and λ > 0. Both weight vectors are scaled to sum to one; plans and values are
    /// those of the problem between the scaled weights.
    ///
    /// # Errors
    /// When a weight is negative or not finite, all are zero, the sums differ, or λ is not positive.
    pub fn new(a: &[f64], b: &[f64], regularization: f64) -> Result<Self> {
        if !(regularization > 0.0 && regularization <= LARGEST_REGULARIZATION) {
            return Err(Error::parameter("entropy", "positive and at most 1e200", regularization));
        }
        if !Into::<f64>::into(T::nearest(1.0 / regularization)).is_finite() {
            return Err(Error::parameter("entropy", format!("large enough for {}", T::NAME), regularization));
        }
        let (a, b, _) = normalized(a, b)?;
        let (m, n) = (a.len(), b.len());
        Ok(Self {
            log_b: b.mapv(f64::ln),
            a,
            b,
            regularization,
            f: Array1::zeros(m),
            g: Array1::zeros(n),
            columns: Array1::zeros(n),
            warm: false,
            memory: usize::MAX,
            single: HeldKernel::default(),
            double: HeldKernel::default(),
            precise: false,
            newton: Newton::default(),
            momentum: Momentum::default(),
            work: vec![Work::new(n); BLOCKS],
            shifted: vec![T::default(); n],
            factors: vec![1.0; n],
            sums: vec![0.0; n],
            exact: None,
        })
    }

    /// Limits the bytes of plans that a solve may hold besides the costs. A solve holds none, 4 m n, or 12 m n for
    /// problems that need double precision.
    #[must_use]
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Swaps the buffer of the held plan, to take that of an earlier solve or to leave its own.
    pub(crate) fn swap_plan(&mut self, plan: &mut HeldKernel<f32>) {
        std::mem::swap(&mut self.single, plan);
    }

    /// Starts the next solve at these potentials, in the form of [`potentials`](Self::potentials). Points without weight
    /// have none.
    ///
    /// # Errors
    /// When there is not one number per point, or one is not finite.
    pub fn start_at(&mut self, f: &[f64], g: &[f64]) -> Result<()> {
        for (name, given, weights) in [("f", f, &self.a), ("g", g, &self.b)] {
            if given.len() != weights.len() {
                let found = format!("{} potentials are given", given.len());
                return Err(Error::Conflict { name, rule: format!("have {} numbers", weights.len()), found });
            }
            if let Some(value) =
                given.iter().zip(weights).find_map(|(x, w)| (*w > 0.0 && !x.is_finite()).then_some(*x))
            {
                return Err(Error::parameter(name, "finite where there is weight", value));
            }
        }
        let relative = |given: &[f64], weights: &Array1<f64>| -> Array1<f64> {
            let terms = given.iter().zip(weights);
            terms.map(|(x, w)| if *w > 0.0 { x - self.regularization * w.ln() } else { 0.0 }).collect()
        };
        (self.f, self.g) = (relative(f, &self.a), relative(g, &self.b));
        self.warm = true;
        Ok(())
    }

    /// Iterates until the marginal error is within the tolerance: from the last potentials, by ε-scaling, and finally, up to
    /// 25 million costs in double precision, from an exact plan.
    ///
    /// # Errors
    /// When the costs are not m × n or not finite, or so large relative to λ that no digits are left.
    pub fn solve<'a>(
        &mut self,
        cost: impl Into<CostRows<'a, T>>,
        tolerance: f64,
        max_iterations: usize,
        interrupt: &Interrupt,
    ) -> Result<SinkhornReport>
    where
        T: 'a,
    {
        let cost = cost.into();
        let (low, high) = cost.check(self.a.len(), self.b.len())?;
        if high - low > LARGEST_RATIO * self.regularization {
            let rule = format!("at least {:.1e} for costs up to {high:.1e}", (high - low) / LARGEST_RATIO);
            return Err(Error::parameter("entropy", rule, self.regularization));
        }
        let exact = self.can_start_exactly(&cost);
        let mut spent = 0;
        // Old potentials help if the costs have changed little relative to λ; if λ is large, none are needed.
        let mut ended = None;
        if self.warm || self.regularization >= (high - low) * LARGE {
            let direct =
                self.at_target(&cost, tolerance, max_iterations, OnStall::Scale { exact }, interrupt);
            spent = direct.iterations;
            ended = Some(direct);
        }
        // Where the iterations were too slow, or an exact start was needed before, scaling is not tried.
        let slow = spent >= SCALED_ITERATIONS || self.exact.is_some();
        if ended.as_ref().is_none_or(|ended| ended.gave_up && !(exact && slow)) {
            self.scale((low, high), &cost, (&mut spent, max_iterations), interrupt);
            let limit = max_iterations.saturating_sub(spent).max(1);
            let on_stall = if exact { OnStall::StartExactly } else { OnStall::Continue };
            let scaled = self.at_target(&cost, tolerance, limit, on_stall, interrupt);
            spent += scaled.iterations;
            ended = Some(scaled);
        }
        let mut error = ended.map_or(f64::INFINITY, |ended| ended.error);
        let open = error > tolerance && spent < max_iterations && !interrupt.is_raised();
        if exact && open && self.start_exactly(&cost, interrupt)? {
            let ended =
                self.at_target(&cost, tolerance, max_iterations - spent, OnStall::Continue, interrupt);
            spent += ended.iterations;
            error = ended.error;
        }
        self.warm = true;
        Ok(SinkhornReport { iterations: spent, marginal_error: error, converged: error <= tolerance })
    }

    /// Iterates at λ itself.
    fn at_target(
        &mut self,
        cost: &CostRows<T>,
        tolerance: f64,
        limit: usize,
        on_stall: OnStall,
        interrupt: &Interrupt,
    ) -> Ended {
        self.iterate(cost, self.regularization, tolerance, limit, on_stall, interrupt)
    }

    /// ε-scaling: a few iterations at regularizations that fall from the range of the costs to λ.
    fn scale(
        &mut self,
        (low, high): (f64, f64),
        cost: &CostRows<T>,
        (spent, limit): (&mut usize, usize),
        interrupt: &Interrupt,
    ) {
        let mut stage = (high - low) / SCALING;
        while stage > self.regularization && *spent < limit {
            let limit = STAGE_ITERATIONS.min(limit - *spent);
            *spent +=
                self.iterate(cost, stage, STAGE_TOLERANCE, limit, OnStall::Continue, interrupt).iterations;
            stage /= SCALING;
        }
    }

    /// The dual variables of the problem with Σ γ ln γ: γ_ij = e^{(f_i + g_j − C_ij)/λ}. −∞ for points without weight.
    pub fn potentials(&self) -> (Array1<f64>, Array1<f64>) {
        let absolute = |potential: &Array1<f64>, weights: &Array1<f64>| {
            potential + &weights.mapv(|w| self.regularization * w.ln())
        };
        (absolute(&self.f, &self.a), absolute(&self.g, &self.b))
    }

    /// The dual value ⟨a, f⟩ + ⟨b, g⟩. For costs in `f64` it is a lower bound on the optimum for any potentials, since the
    /// rows of the plan are exact and its mass is therefore one; for costs in `f32` this holds up to rounding.
    pub fn dual_value(&self) -> f64 {
        self.dual_value_and_rounding().0
    }

    /// The dual value, and a bound on its rounding error.
    pub(crate) fn dual_value_and_rounding(&self) -> (f64, f64) {
        let (f, g) = self.potentials();
        dual_value((&self.a, &self.b), (&f, &g))
    }

    /// The plan for the costs of the last solve, rounded to the exact marginals (Altschuler, Weed, Rigollet 2017).
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::solve::Interrupt;
    /// use robust_ot::transport::Sinkhorn;
    ///
    /// let cost = array![[0.0, 1.0], [1.0, 0.5]];
    /// let mut sinkhorn = Sinkhorn::new(&[0.3, 0.7], &[0.5, 0.5], 0.1)?;
    /// sinkhorn.solve(&cost, 1e-9, 1000, &Interrupt::default())?;
    /// let plan = sinkhorn.plan(&cost)?;
    /// assert!((plan.row(0).sum() - 0.3).abs() < 1e-15 && (plan.column(0).sum() - 0.5).abs() < 1e-15);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the costs are not m × n or not finite.
    pub fn plan<'a>(&self, cost: impl Into<CostRows<'a>>) -> Result<Array2<f64>> {
        let cost = cost.into();
        cost.check(self.a.len(), self.b.len())?;
        Ok(self.feasible_plan(&cost).dense(&cost))
    }

    /// The current plan, rounded to the exact marginals.
    pub(crate) fn feasible_plan(&self, cost: &CostRows<f64>) -> EntropicPlan {
        let column_scale: Array1<f64> =
            self.columns.iter().zip(&self.b).map(|(sum, b)| if sum > b { b / sum } else { 1.0 }).collect();
        let mut plan = EntropicPlan {
            a: self.a.clone(),
            target: (&self.log_b + &(&self.g / self.regularization)).to_vec(),
            column_scale: column_scale.to_vec(),
            regularization: self.regularization,
            deficits: Deficits::none(self.a.len(), self.b.len()),
        };
        let row_sums = plan.row_sums(cost);
        plan.deficits = Deficits::new((&self.a, &self.b), &row_sums, &(&self.columns * &column_scale));
        plan
    }
}

pub(super) fn slice(vector: &Array1<f64>) -> &[f64] {
    vector.as_slice().expect("vectors are contiguous")
}

#[cfg(test)]
#[path = "sinkhorn_tests.rs"]
mod tests;
