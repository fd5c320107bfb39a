//! Entropic optimal transport by Sinkhorn's iteration:
//!
//! $$\min_{\gamma \in \Pi(a,b)} \langle C, \gamma\rangle + \lambda \sum_{ij} \gamma_{ij} \ln \gamma_{ij}, \qquad
//!   \gamma_{ij} = a_i b_j\thinspace e^{(f_i + g_j - C_{ij})/\lambda}.$$
//!
//! A sweep over the costs works in the log domain, so that nothing over- or underflows at any λ. Where memory allows, it
//! leaves the plan behind; rescaling that plan, or conjugate gradients on it, then need no exponentials until the
//! potentials have moved too far from it.

use ndarray::Array1;
use rayon::prelude::*;

use super::cost_rows::CostRows;
use super::entropic_plan::EntropicPlan;
use super::held_kernel::HeldKernel;
use super::newton::Newton;
use super::{dual_value, normalised};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::kernels::Real;
use crate::kernels::sealed::Kernels;

/// λ ln γ must stay finite.
const LARGEST_REGULARISATION: f64 = 1e200;
/// Beyond this ratio of costs to λ, exponents have no digits left behind the point.
const LARGEST_RATIO: f64 = 1e14;
/// Row blocks a sweep is cut into; fixed, so that sums do not depend on the number of threads.
pub(super) const BLOCKS: usize = 16;
/// Rows of costs that are formed at a time.
const ROWS_A_TILE: usize = 32;
/// A regularisation above this part of the range of the costs needs no ε-scaling.
const LARGE: f64 = 1.0 / 128.0;
/// ε-scaling divides the regularisation by this from one stage to the next,
const SCALING: f64 = 4.0;
/// leaves a stage at this marginal error,
const STAGE_TOLERANCE: f64 = 1e-2;
/// or after this many iterations.
const STAGE_ITERATIONS: usize = 50;
/// Iterations without ε-scaling have this long to show
const DIRECT_ITERATIONS: usize = 40;
/// a marginal error from which to go on.
const WARM_ERROR: f64 = 0.05;
/// Rescalings of a held plan before it is asked whether they are fast enough.
const TRIAL: usize = 8;
/// Iterations are fast enough if this many more will do; otherwise Newton steps are taken.
const AFFORDABLE: f64 = 24.0;
/// The most rescalings of one held plan.
const MAX_RESCALINGS: usize = 100;
/// A held plan is left when a factor has moved by more than e^this: entries that were too small to hold would matter.
const LARGEST_MOVE: f64 = 30.0;
/// Marginal errors below this are not seen in single precision.
const HELD_ACCURACY: f64 = 1e-6;
/// Below this error Newton steps should at least halve it.
const QUADRATIC: f64 = 1e-3;
/// Newton steps that fail are tried again after this many sweeps.
const PAUSE: usize = 20;
/// An error without a new low for this many sweeps is as low as rounding lets it be.
const PATIENCE: usize = 500;
/// A Newton step is shortened this often before it has failed.
const MAX_HALVINGS: i32 = 6;
/// No Newton step moves a potential by more than this times ε.
const LARGEST_STEP: f64 = 10.0;
/// Conjugate gradients in single precision are not asked for more than this.
const NEWTON_ACCURACY: f64 = 1e-4;
/// A column sum below this part of its weight has lost digits to underflow, here or in a held plan.
const SMALLEST_COLUMN: f64 = 1e-20;

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
pub struct Sinkhorn<T: Real = f64> {
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
    /// The most bytes of a plan that is held.
    memory: usize,
    single: HeldKernel<f32>,
    /// In use once Newton steps in single precision have failed.
    double: HeldKernel<f64>,
    precise: bool,
    newton: Newton,
    work: Vec<Work<T>>,
    /// ln b_j + g_j/ε.
    shifted: Vec<T>,
    factors: Vec<f64>,
    sums: Vec<f64>,
}

/// What a block of rows needs to sweep.
#[derive(Debug, Clone)]
struct Work<T> {
    columns: Vec<f64>,
    powers: Vec<T>,
    tile: Vec<T>,
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

impl<T: Real> Sinkhorn<T> {
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
        let work = Work { columns: vec![0.0; n], powers: vec![T::default(); n], tile: Vec::new() };
        Ok(Self {
            log_b: b.mapv(f64::ln),
            a,
            b,
            regularisation,
            f: Array1::zeros(m),
            g: Array1::zeros(n),
            columns: Array1::zeros(n),
            warm: false,
            memory: usize::MAX,
            single: HeldKernel::default(),
            double: HeldKernel::default(),
            precise: false,
            newton: Newton::default(),
            work: vec![work; BLOCKS],
            shifted: vec![T::default(); n],
            factors: vec![1.0; n],
            sums: vec![0.0; n],
        })
    }

    /// Bounds the bytes of the plan that a solve may hold beside the costs; it takes 4 m n, or none.
    #[must_use]
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Takes the room that a plan was held in before, or leaves its own.
    pub(crate) fn swap_plan(&mut self, plan: &mut HeldKernel<f32>) {
        std::mem::swap(&mut self.single, plan);
    }

    /// Iterates until the marginal error is within the tolerance.
    ///
    /// # Errors
    /// When the costs are not m × n or not finite, or so large against λ that no digits are left.
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
        if high - low > LARGEST_RATIO * self.regularisation {
            let rule =
                format!("0 or at least {:.1e} for costs up to {high:.1e}", (high - low) / LARGEST_RATIO);
            return Err(Error::parameter("entropy", rule, self.regularisation));
        }
        let mut iterations = 0;
        // Old potentials help if the costs have moved little against λ, and none are needed where λ is large.
        let mut ended = None;
        if self.warm || self.regularisation >= (high - low) * LARGE {
            let direct =
                self.iterate(&cost, self.regularisation, tolerance, max_iterations, Mood::Hasty, interrupt);
            iterations += direct.iterations;
            ended = Some(direct).filter(|direct| !direct.gave_up);
        }
        let ended = ended.unwrap_or_else(|| {
            let mut stage = (high - low) / SCALING;
            while stage > self.regularisation && iterations < max_iterations {
                let limit = STAGE_ITERATIONS.min(max_iterations - iterations);
                let ended = self.iterate(&cost, stage, STAGE_TOLERANCE, limit, Mood::Patient, interrupt);
                iterations += ended.iterations;
                stage /= SCALING;
            }
            let limit = max_iterations.saturating_sub(iterations).max(1);
            let ended = self.iterate(&cost, self.regularisation, tolerance, limit, Mood::Patient, interrupt);
            iterations += ended.iterations;
            ended
        });
        self.warm = true;
        let marginal_error = ended.error;
        Ok(SinkhornReport { iterations, marginal_error, converged: marginal_error <= tolerance })
    }

    /// What sweeps leave behind: as much as the memory given allows.
    fn hold(&self) -> Hold {
        let fits =
            |each: usize| self.a.len().saturating_mul(self.b.len()).saturating_mul(each) <= self.memory;
        if self.precise && fits(size_of::<f64>()) {
            Hold::Double
        } else if fits(size_of::<f32>()) {
            Hold::Single
        } else {
            Hold::Nothing
        }
    }

    /// Lowers the marginal error at one regularisation: sweeps in the log domain, and between them rescalings of the
    /// plan that a sweep left or, where those are slow, Newton steps on it. Ends on a sweep, so that rows are exact.
    fn iterate(
        &mut self,
        cost: &CostRows<T>,
        epsilon: f64,
        tolerance: f64,
        limit: usize,
        mood: Mood,
        interrupt: &Interrupt,
    ) -> Ended {
        let mut hold = self.hold();
        let (mut iteration, mut newton_from, mut failed) = (1, 0, false);
        let (mut best, mut best_at) = (f64::INFINITY, 0);
        self.sweep(cost, epsilon, hold);
        loop {
            let error = self.marginal_error();
            if error < best {
                (best, best_at) = (error, iteration);
            }
            let stuck = iteration > best_at + PATIENCE;
            if error <= tolerance || stuck || iteration >= limit || interrupt.is_raised() {
                return Ended { iterations: iteration, error, gave_up: false };
            }
            if mood == Mood::Hasty && (failed || (iteration >= DIRECT_ITERATIONS && error > WARM_ERROR)) {
                return Ended { iterations: iteration, error, gave_up: true };
            }
            let rescaled = if hold == Hold::Single && error > HELD_ACCURACY && self.columns_are_sound() {
                self.rescale(epsilon, error, tolerance.max(HELD_ACCURACY), limit - iteration)
            } else {
                self.update_target(cost, epsilon);
                Rescaled { count: 1, error: None }
            };
            iteration += rescaled.count;
            self.sweep(cost, epsilon, hold);
            let now = self.marginal_error();
            let slow =
                sweeps_left(error, rescaled.error.unwrap_or(now), rescaled.count, tolerance) > AFFORDABLE;
            let due = (newton_from..limit).contains(&iteration) && now > tolerance;
            if slow && due && hold != Hold::Nothing && self.columns_are_sound() {
                let (work, gained) = self.newton_step(cost, epsilon, hold, interrupt);
                iteration += work;
                if !gained {
                    newton_from = iteration + PAUSE;
                    failed = hold == Hold::Double;
                }
                // Close to the optimum Newton steps converge fast, if they are steps of the true plan.
                if !gained || (now < QUADRATIC && self.marginal_error() > 0.5 * now) {
                    self.precise = true;
                    hold = self.hold();
                }
            }
        }
    }

    fn marginal_error(&self) -> f64 {
        self.columns.iter().zip(&self.b).map(|(sum, b)| (sum - b).abs()).sum()
    }

    fn columns_are_sound(&self) -> bool {
        self.columns.iter().zip(&self.b).all(|(sum, b)| *b == 0.0 || *sum > SMALLEST_COLUMN * b)
    }

    /// Sinkhorn's iteration on the held plan, from the column sums of the last sweep: v ← v · b / (column sums), rows
    /// kept exact. Moves g by ε ln v in the end.
    fn rescale(&mut self, epsilon: f64, error: f64, tolerance: f64, limit: usize) -> Rescaled {
        let (a, b) = (slice(&self.a), slice(&self.b));
        let (v, sums) = (&mut self.factors, &mut self.sums);
        for j in 0..v.len() {
            v[j] = if b[j] > 0.0 { b[j] / self.columns[j] } else { 1.0 };
        }
        // The first update is done, and the sweep that follows makes it an iteration.
        let (mut count, mut now) = (1, error);
        while count < limit.min(MAX_RESCALINGS) && v.iter().all(|v| v.ln().abs() <= LARGEST_MOVE) {
            self.single.twice(v, |i, sum| a[i] / sum, sums);
            count += 1;
            now = 0.0;
            for j in 0..v.len() {
                let sum = v[j] * sums[j];
                now += (sum - b[j]).abs();
                if sum > SMALLEST_COLUMN * b[j] {
                    v[j] *= b[j] / sum;
                }
            }
            let hopeless = count % TRIAL == 0 && sweeps_left(error, now, count, tolerance) > AFFORDABLE;
            if now <= 0.5 * tolerance || hopeless {
                break;
            }
        }
        for (g, v) in self.g.iter_mut().zip(v).filter(|(_, v)| **v > 0.0) {
            *g += epsilon * v.ln();
        }
        Rescaled { count, error: Some(now).filter(|_| count > 1) }
    }

    /// Moves g along the Newton direction as far as the dual value grows; returns the work in sweeps and whether it
    /// moved at all.
    fn newton_step(
        &mut self,
        cost: &CostRows<T>,
        epsilon: f64,
        hold: Hold,
        interrupt: &Interrupt,
    ) -> (usize, bool) {
        let error = self.marginal_error();
        let (a, b, columns) = (slice(&self.a), slice(&self.b), slice(&self.columns));
        let mut work = if hold == Hold::Double {
            self.newton.solve(&mut self.double, a, b, columns, error.min(0.1), interrupt)
        } else {
            let accuracy = error.clamp(NEWTON_ACCURACY, 0.1);
            self.newton.solve(&mut self.single, a, b, columns, accuracy, interrupt)
        };
        let ascent = self.newton.direction.iter().zip(b.iter().zip(columns)).map(|(x, (b, c))| x * (b - c));
        let slope = epsilon * ascent.sum::<f64>();
        let start = (self.f.clone(), self.g.clone(), self.columns.clone());
        let value = |s: &Self| dual_value((&s.a, &s.b), (&s.f, &s.g)).0;
        let before = value(self);
        // On a plateau the direction is far too long, and any step along it that stays in reach is uphill.
        let longest = self.newton.direction.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        let first = (LARGEST_STEP / longest).min(1.0);
        for halving in (0..MAX_HALVINGS).take_while(|_| !interrupt.is_raised()) {
            let theta = first * 0.5_f64.powi(halving);
            for j in 0..self.g.len() {
                self.g[j] = start.1[j] + theta * epsilon * self.newton.direction[j];
            }
            self.sweep(cost, epsilon, hold);
            work += 1;
            // Close to the optimum the gain drowns in rounding, and the error speaks instead.
            let promised = 0.1 * theta * slope;
            if promised > 0.0 && (value(self) >= before + promised || self.marginal_error() <= 0.5 * error) {
                return (work, true);
            }
        }
        (self.f, self.g, self.columns) = start;
        self.sweep(cost, epsilon, hold);
        (work + 1, false)
    }

    /// f_i = −ε ln Σ_j b_j e^{(g_j − C_ij)/ε}, and the column sums of the plan that results: one exponential an
    /// entry for a whole iteration. Holds the plan if asked to.
    fn sweep(&mut self, cost: &CostRows<T>, epsilon: f64, hold: Hold) {
        let (m, n) = (self.a.len(), self.b.len());
        let rows = m.div_ceil(BLOCKS);
        for j in 0..n {
            self.shifted[j] = T::nearest(self.log_b[j] + self.g[j] / epsilon);
        }
        let (a, shifted) = (slice(&self.a), &self.shifted);
        let f = self.f.as_slice_mut().expect("vectors are contiguous");
        let blocks = f.par_chunks_mut(rows).zip(a.par_chunks(rows)).zip(&mut self.work).enumerate();
        let tiles = |block: usize| (cost, block * rows, epsilon, shifted.as_slice());
        match hold {
            Hold::Nothing => {
                blocks.for_each(|(block, (rows, work))| work.sweep(tiles(block), rows, |_, _| ()));
            }
            Hold::Single => {
                self.single.resize(m, n);
                blocks.zip(self.single.blocks_mut(rows)).for_each(|((block, (rows, work)), held)| {
                    let mut held = held.chunks_exact_mut(n);
                    work.sweep(tiles(block), rows, |powers, scale| {
                        held.by_ref().take(1).for_each(|held| T::hold_single(held, powers, scale));
                    });
                });
            }
            Hold::Double => {
                self.double.resize(m, n);
                blocks.zip(self.double.blocks_mut(rows)).for_each(|((block, (rows, work)), held)| {
                    let mut held = held.chunks_exact_mut(n);
                    work.sweep(tiles(block), rows, |powers, scale| {
                        held.by_ref().take(1).for_each(|held| T::hold_double(held, powers, scale));
                    });
                });
            }
        }
        self.columns.fill(0.0);
        let columns = self.columns.as_slice_mut().expect("vectors are contiguous");
        for work in self.work.iter().take(m.div_ceil(rows)) {
            f64::add_scaled(columns, 1.0, &work.columns);
        }
    }

    /// g_j ← g_j + ε ln(b_j / column sum_j), from scratch where the column sum has underflowed.
    fn update_target(&mut self, cost: &CostRows<T>, epsilon: f64) {
        for j in (0..self.b.len()).filter(|&j| self.b[j] > 0.0) {
            if self.columns[j] > SMALLEST_COLUMN * self.b[j] {
                self.g[j] += epsilon * (self.b[j] / self.columns[j]).ln();
                continue;
            }
            let exponents: Vec<f64> = (0..self.a.len())
                .map(|i| self.a[i].ln() + (self.f[i] - cost.entry(i, j)) / epsilon)
                .collect();
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
    pub(crate) fn feasible_plan(&self, cost: &CostRows<f64>) -> EntropicPlan {
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

/// Whether to go on where iterations without ε-scaling do not lead to the optimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// Leave for ε-scaling.
    Hasty,
    Patient,
}

/// How the iterations at one regularisation ended.
struct Ended {
    iterations: usize,
    error: f64,
    gave_up: bool,
}

/// What rescaling came to.
struct Rescaled {
    count: usize,
    /// The marginal error of the held plan before the last factor.
    error: Option<f64>,
}

/// How many more iterations will bring the error to the tolerance, if it goes on to shrink as it did.
fn sweeps_left(before: f64, now: f64, count: usize, tolerance: f64) -> f64 {
    let rate = (before / now).ln() / count as f64;
    if rate > 0.0 { (now / tolerance.max(f64::MIN_POSITIVE)).ln() / rate } else { f64::INFINITY }
}

/// What a sweep leaves in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Nothing,
    Single,
    Double,
}

impl<T: Real> Work<T> {
    /// The rows of one block: potentials, sums of the plan's columns; `hold` is handed every row of the plan over a, as
    /// powers and their scale.
    fn sweep(
        &mut self,
        (cost, first, epsilon, shifted): (&CostRows<T>, usize, f64, &[T]),
        (f, a): (&mut [f64], &[f64]),
        mut hold: impl FnMut(&[T], f64),
    ) {
        let n = shifted.len();
        let inverse = T::nearest(1.0 / epsilon);
        self.columns.fill(0.0);
        for (tile, (f, a)) in f.chunks_mut(ROWS_A_TILE).zip(a.chunks(ROWS_A_TILE)).enumerate() {
            let start = first + tile * ROWS_A_TILE;
            let costs = cost.rows(start..start + f.len(), &mut self.tile);
            for ((f, &a), costs) in f.iter_mut().zip(a).zip(costs.chunks_exact(n)) {
                let largest = T::exponents(&mut self.powers, shifted, costs, inverse);
                let sum = T::exp_shifted(&mut self.powers, largest);
                *f = -epsilon * (largest.into() + sum.ln());
                T::add_scaled(&mut self.columns, a / sum, &self.powers);
                hold(&self.powers, 1.0 / sum);
            }
        }
    }
}

fn slice(vector: &Array1<f64>) -> &[f64] {
    vector.as_slice().expect("vectors are contiguous")
}

#[cfg(test)]
#[path = "sinkhorn_tests.rs"]
mod tests;
