//! The iterations at one regularization: sweeps, rescalings of the plan that a sweep holds, and Newton steps on it.

use ndarray::Array1;

use super::cost_rows::CostRows;
use super::dual_value;
use super::sinkhorn::{Sinkhorn, slice};
use super::sweep::{Hold, SMALLEST_COLUMN, twice};
use crate::interrupt::Interrupt;
use crate::kernels::Real;

/// Number of iterations without ε-scaling before the marginal error must be at most `WARM_ERROR`.
const DIRECT_ITERATIONS: usize = 40;
/// The marginal error above which iterations without ε-scaling are abandoned.
const WARM_ERROR: f64 = 0.05;
/// Number of iterations before the marginal error must be at most `SCALED_ERROR`, if an exact start is possible.
pub(super) const SCALED_ITERATIONS: usize = 4000;
/// The marginal error above which iterations are abandoned for an exact start.
const SCALED_ERROR: f64 = 1e-4;
/// Number of rescalings of a held plan between checks of whether they are fast enough.
const TRIAL: usize = 8;
/// Iterations are fast enough if at most this many more are needed; otherwise Newton steps are taken.
const AFFORDABLE: f64 = 24.0;
/// Number of sweeps without a held plan between checks of whether they are fast enough.
const UNHELD_TRIAL: usize = 200;
/// Sweeps without a held plan are fast enough if at most this many more are needed: there, every product of a Newton step
/// costs a sweep.
const UNHELD_AFFORDABLE: f64 = 1000.0;
/// The largest number of rescalings of one held plan.
const MAX_RESCALINGS: usize = 100;
/// The largest |ln v| of a factor on a held plan: beyond it, entries that were too small to hold would matter.
const LARGEST_MOVE: f64 = 30.0;
/// The smallest marginal error that single precision resolves.
const HELD_ACCURACY: f64 = 2e-7;
/// The marginal error below which a Newton step should at least halve it.
const QUADRATIC: f64 = 1e-3;
/// Number of consecutive Newton steps that do not halve the error after which the held plan is too coarse.
const MAX_SLOW_STEPS: usize = 3;
/// Number of sweeps after a failed Newton step before the next one.
const PAUSE: usize = 20;
/// Number of rounds without a new lowest error after which rounding is assumed to prevent any further decrease.
const PATIENCE: usize = 100;
/// Number of step lengths tried before a Newton step counts as failed.
const MAX_TRIALS: i32 = 6;
/// The largest change of a potential in one Newton step, in units of ε.
const LARGEST_STEP: f64 = 10.0;
/// The largest number of products for a Newton direction in single precision.
const SINGLE_PRODUCTS: usize = 300;
/// The largest number of products for a Newton direction in double precision.
const DOUBLE_PRODUCTS: usize = 1000;
/// The largest number of multiplications, m n², for which the Newton matrix is factorized.
const LARGEST_FACTORIZATION: f64 = 3e10;
/// The work of a factorization, in sweeps.
const FACTORIZATION_SWEEPS: usize = 100;
/// The smallest relative residual requested of conjugate gradients.
const NEWTON_ACCURACY: f64 = 1e-4;

/// What follows if iterations do not lead to the optimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnStall {
    /// ε-scaling takes over or, if these iterations took long and it is possible, a start from the exact plan.
    Scale { exact: bool },
    /// A start from the exact plan takes over.
    StartExactly,
    /// Nothing; the iterations continue.
    Continue,
}

/// How the iterations at one regularization ended.
pub(super) struct Ended {
    pub(super) iterations: usize,
    pub(super) error: f64,
    pub(super) gave_up: bool,
}

/// The result of rescaling.
struct Rescaled {
    count: usize,
    /// The marginal error of the held plan before the last factor.
    error: Option<f64>,
}

/// The number of further iterations to the tolerance, if the error keeps shrinking at the same rate.
fn sweeps_left(before: f64, now: f64, count: usize, tolerance: f64) -> f64 {
    let rate = (before / now).ln() / count as f64;
    if rate > 0.0 { (now / tolerance.max(f64::MIN_POSITIVE)).ln() / rate } else { f64::INFINITY }
}

impl<T: Real> Sinkhorn<T> {
    /// Lowers the marginal error at one regularization by sweeps in the log domain and, between them, rescalings of the
    /// held plan or, where those are slow, Newton steps on it. Ends with a sweep, so that rows are exact.
    pub(super) fn iterate(
        &mut self,
        cost: &CostRows<T>,
        epsilon: f64,
        tolerance: f64,
        limit: usize,
        on_stall: OnStall,
        interrupt: &Interrupt,
    ) -> Ended {
        let mut hold = self.hold();
        let (mut iteration, mut newton_from, mut failed, mut disappointments) = (1, 0, false, 0);
        let (mut best, mut without_gain) = (f64::INFINITY, 0);
        let mut mark = (1, f64::INFINITY);
        self.momentum.reset(self.b.len());
        self.sweep(cost, epsilon, hold);
        loop {
            let error = self.marginal_error();
            without_gain = if error < best { 0 } else { without_gain + 1 };
            best = best.min(error);
            // Without another start to follow, a slow stretch is not taken for the end.
            let at_floor = on_stall != OnStall::Continue || error <= self.rounding_floor(epsilon);
            let stuck = without_gain > PATIENCE && at_floor;
            if error <= tolerance || stuck || iteration >= limit || interrupt.is_raised() {
                return Ended { iterations: iteration, error, gave_up: false };
            }
            let slow = iteration >= SCALED_ITERATIONS && error > SCALED_ERROR;
            let hopeless = match on_stall {
                OnStall::Scale { exact } => {
                    failed || (iteration >= DIRECT_ITERATIONS && error > WARM_ERROR) || (exact && slow)
                }
                OnStall::StartExactly => slow,
                OnStall::Continue => false,
            };
            if hopeless {
                return Ended { iterations: iteration, error, gave_up: true };
            }
            let rescaled = if hold == Hold::Single && error > HELD_ACCURACY && self.columns_are_sound() {
                self.rescale(epsilon, error, tolerance.max(HELD_ACCURACY), limit - iteration)
            } else {
                self.momentum.note(error);
                self.update_target(cost, epsilon);
                Rescaled { count: 1, error: None }
            };
            iteration += rescaled.count;
            self.sweep(cost, epsilon, hold);
            let now = self.marginal_error();
            let slow = if hold != Hold::Nothing {
                sweeps_left(error, rescaled.error.unwrap_or(now), rescaled.count, tolerance) > AFFORDABLE
            } else if iteration < mark.0 + UNHELD_TRIAL {
                false
            } else {
                let left = sweeps_left(mark.1, now, iteration - mark.0, tolerance);
                mark = (iteration, now);
                left > UNHELD_AFFORDABLE
            };
            let due = (newton_from..limit).contains(&iteration) && now > tolerance;
            if slow && due && self.columns_are_sound() {
                let (work, gained) = self.newton_step(cost, epsilon, hold, interrupt);
                self.momentum.reset(self.b.len());
                iteration += work;
                if !gained {
                    newton_from = iteration + PAUSE;
                    failed = hold == Hold::Double;
                }
                // Close to the optimum, Newton steps converge fast if the held plan is accurate.
                let disappointing = now < QUADRATIC && self.marginal_error() > 0.5 * now;
                disappointments = if disappointing { disappointments + 1 } else { 0 };
                self.precise |= !gained || disappointments >= MAX_SLOW_STEPS;
                if hold != self.hold() {
                    hold = self.hold();
                    self.sweep(cost, epsilon, hold);
                }
            }
        }
    }

    fn marginal_error(&self) -> f64 {
        self.columns.iter().zip(&self.b).map(|(sum, b)| (sum - b).abs()).sum()
    }

    /// The marginal error that rounding in the exponents (f_i + g_j − C_ij)/ε may leave. Where the plan has mass, C_ij is
    /// about f_i + g_j; four roundings of relative size u, on both potentials.
    fn rounding_floor(&self, epsilon: f64) -> f64 {
        let size = |potential: &Array1<f64>, weights: &Array1<f64>| {
            let kept = potential.iter().zip(weights).filter(|(_, w)| **w > 0.0);
            kept.fold(0.0_f64, |top, (x, _)| top.max(x.abs()))
        };
        let exponent = (size(&self.f, &self.a) + size(&self.g, &self.b)) / epsilon;
        let sums = (self.a.len() + self.b.len()) as f64 * f64::EPSILON;
        8.0 * (T::EPSILON * (1.0 + exponent) + sums)
    }

    fn columns_are_sound(&self) -> bool {
        self.columns.iter().zip(&self.b).all(|(sum, b)| *b == 0.0 || *sum > SMALLEST_COLUMN * b)
    }

    /// Sinkhorn's iteration on the held plan, from the column sums of the last sweep: v ← v · b / (column sums), rows
    /// kept exact. Finally moves g by ε ln v.
    fn rescale(&mut self, epsilon: f64, error: f64, tolerance: f64, limit: usize) -> Rescaled {
        let (a, b) = (slice(&self.a), slice(&self.b));
        let (v, sums) = (&mut self.factors, &mut self.sums);
        for j in 0..v.len() {
            v[j] = if b[j] > 0.0 { b[j] / self.columns[j] } else { 1.0 };
        }
        self.momentum.reset(b.len());
        // The first update is done above; together with the sweep that follows, it counts as an iteration.
        let (mut count, mut now) = (1, error);
        while count < limit.min(MAX_RESCALINGS) && v.iter().all(|v| v.ln().abs() <= LARGEST_MOVE) {
            self.single.twice(v, |i, sum| a[i] / sum, sums);
            count += 1;
            sums.iter_mut().zip(&*v).for_each(|(sum, v)| *sum *= v);
            now = sums.iter().zip(b).map(|(sum, b)| (sum - b).abs()).sum();
            self.momentum.note(now);
            for j in 0..v.len() {
                if sums[j] > SMALLEST_COLUMN * b[j] {
                    v[j] *= self.momentum.extend(j, (b[j] / sums[j]).ln()).exp();
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

    /// Moves g along the Newton direction, with a step short enough that the dual value grows; returns the work in
    /// sweeps and whether g moved.
    fn newton_step(
        &mut self,
        cost: &CostRows<T>,
        epsilon: f64,
        hold: Hold,
        interrupt: &Interrupt,
    ) -> (usize, bool) {
        let error = self.marginal_error();
        let Self { newton, single, double, work, f, shifted, .. } = self;
        let (a, b, columns) = (slice(&self.a), slice(&self.b), slice(&self.columns));
        let accuracy = error.sqrt().clamp(NEWTON_ACCURACY, 0.1);
        let times_weight = |i: usize, inner: f64| a[i] * inner;
        let mut work = match hold {
            Hold::Double => {
                let small = a.len() as f64 * (b.len() as f64).powi(2) <= LARGEST_FACTORIZATION;
                if small && newton.factorize(double, a, b, columns) {
                    FACTORIZATION_SWEEPS
                } else {
                    let twice = |x: &[f64], out: &mut [f64]| double.twice(x, times_weight, out);
                    newton.solve(twice, b, columns, (accuracy, DOUBLE_PRODUCTS), interrupt)
                }
            }
            Hold::Single => {
                let twice = |x: &[f64], out: &mut [f64]| single.twice(x, times_weight, out);
                newton.solve(twice, b, columns, (accuracy, SINGLE_PRODUCTS), interrupt)
            }
            Hold::Nothing => {
                let plan = (cost, epsilon, shifted.as_slice());
                let twice = |x: &[f64], out: &mut [f64]| twice(work, plan, (slice(f), a), x, out);
                newton.solve(twice, b, columns, (accuracy, DOUBLE_PRODUCTS), interrupt)
            }
        };
        let ascent = self.newton.direction.iter().zip(b.iter().zip(columns)).map(|(x, (b, c))| x * (b - c));
        let slope = epsilon * ascent.sum::<f64>();
        let start = (self.f.clone(), self.g.clone(), self.columns.clone());
        let value = |s: &Self| dual_value((&s.a, &s.b), (&s.f, &s.g)).0;
        let before = value(self);
        // On a plateau the direction is far too long, and any step of moderate length along it is uphill.
        let longest = self.newton.direction.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        let first = (LARGEST_STEP / longest).min(1.0);
        for halving in (0..MAX_TRIALS).take_while(|_| !interrupt.is_raised()) {
            let theta = first * 0.5_f64.powi(halving);
            for j in 0..self.g.len() {
                self.g[j] = start.1[j] + theta * epsilon * self.newton.direction[j];
            }
            self.sweep(cost, epsilon, hold);
            work += 1;
            // Close to the optimum the gain is lost in rounding, and the marginal error decides instead.
            let promised = 0.1 * theta * slope;
            if promised > 0.0 && (value(self) >= before + promised || self.marginal_error() <= 0.5 * error) {
                return (work, true);
            }
        }
        (self.f, self.g, self.columns) = start;
        self.sweep(cost, epsilon, hold);
        (work + 1, false)
    }
}
