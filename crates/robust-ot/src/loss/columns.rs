//! Entropic transport to the few true labels: L × n_y, label by label.
//!
//! $$p_{pq} = \frac{e^{g_q - C_{pq}/\lambda}}{\sum_{q'} e^{g_{q'} - C_{pq'}/\lambda}}, \qquad \gamma_{pq} = h_p\thinspace p_{pq}.$$
//!
//! Without a tolerance, Sinkhorn's iteration runs for the given number of iterations. With one, Newton steps on the n_y
//! potentials take over, and a solve can start from the potentials of the last one.

use ndarray::Array2;

use crate::kernels::Real;
use crate::linalg::solve_positive;

/// The most that one plain iteration raises a potential: a column whose mass underflows comes within reach step by step.
const LARGEST_STEP: f64 = 60.0;
/// Plain iterations before the first Newton step, if there is a tolerance to reach.
const PLAIN: usize = 10;
/// The most that one Newton step moves a potential.
const LARGEST_NEWTON_STEP: f64 = 10.0;
/// The most halvings of a Newton step, after which it is taken as it is.
const HALVINGS: usize = 5;
/// The relative ridge that keeps the system solvable where columns are coupled by less than rounding.
const RIDGE: f64 = 1e-12;

/// A marginal error below this many units of rounding of the largest exponent counts as zero.
const ROUNDING: f64 = 4.0;

/// Where a solve starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum From {
    /// Potentials of zero.
    Zero,
    /// The potentials of the last solve, whose columns are those of this one.
    Last,
}

/// When a solve ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    /// The most iterations.
    pub(super) iterations: usize,
    /// The marginal error to reach; with 0, all iterations are Sinkhorn's.
    pub(super) tolerance: f64,
}

/// Buffers for one solve.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns<T> {
    potentials: Vec<T>,
    /// Σ_p γ_pq of every column.
    pub(super) masses: Vec<f64>,
    /// h_p p_pq, one line per column.
    weighted: Vec<T>,
    top: Vec<T>,
    sum: Vec<T>,
}

/// One transport problem: its costs in n_y lines of L numbers, and the buffers for its plan, p and ln p, in the same layout.
pub(super) struct Problem<'a, T> {
    pub(super) prediction: &'a [T],
    pub(super) costs: &'a [T],
    pub(super) regularization: f64,
    pub(super) shares: &'a mut [T],
    pub(super) logs: &'a mut [T],
}

impl<T: Real> Columns<T> {
    /// Finds the plan. Its row sums are exact; its column sums miss their weights by the error that is returned.
    pub(super) fn solve(&mut self, problem: &mut Problem<T>, from: From, until: Until) -> f64 {
        let Until { iterations, tolerance } = until;
        let width = problem.prediction.len();
        let count = problem.costs.len() / width;
        for buffer in [&mut self.top, &mut self.sum] {
            buffer.resize(width, T::default());
        }
        if from == From::Zero {
            self.potentials.clear();
        }
        self.potentials.resize(count, T::default());
        if count == 1 {
            // All mass goes to the only label.
            problem.shares.fill(T::nearest(1.0));
            problem.logs.fill(T::default());
            self.masses.clear();
            self.masses.push(T::total(problem.prediction));
            return 0.0;
        }
        let plain = if from == From::Zero { PLAIN } else { 0 };
        let mut error = self.update(problem);
        for iteration in 0..iterations {
            if error <= tolerance || tolerance > 0.0 && error <= self.rounding() {
                break;
            }
            error = if tolerance > 0.0 && iteration >= plain {
                self.newton(problem)
            } else {
                self.plain(problem)
            };
        }
        error
    }

    /// The marginal error that rounding of the potentials can cause.
    fn rounding(&self) -> f64 {
        let largest = self.potentials.iter().fold(1.0_f64, |top, g| top.max((*g).into().abs()));
        ROUNDING * T::EPSILON * largest
    }

    /// The plan of the current potentials, the masses of its columns, and their error.
    fn update(&mut self, problem: &mut Problem<T>) -> f64 {
        let Self { potentials, masses, top, sum, .. } = self;
        let inverse = T::nearest(1.0 / problem.regularization);
        T::softmax_columns(problem.shares, problem.logs, problem.costs, potentials, inverse, (top, sum));
        masses.clear();
        let lines = problem.shares.chunks_exact(problem.prediction.len());
        masses.extend(lines.map(|line| T::dot(problem.prediction, line)));
        let wanted = T::total(problem.prediction) / masses.len() as f64;
        masses.iter().map(|mass| (mass - wanted).abs()).sum()
    }

    fn plain(&mut self, problem: &mut Problem<T>) -> f64 {
        let wanted = T::total(problem.prediction) / self.masses.len() as f64;
        for (potential, mass) in self.potentials.iter_mut().zip(&self.masses) {
            let step = (wanted / mass).ln().min(LARGEST_STEP);
            *potential = T::nearest((*potential).into() + step);
        }
        self.update(problem)
    }

    /// Newton's step (diag(c) − Σ_p h_p p_p p_pᵀ) Δ = ŷ − c, shortened until the dual value does not decrease.
    fn newton(&mut self, problem: &mut Problem<T>) -> f64 {
        let (count, width) = (self.masses.len(), problem.prediction.len());
        let wanted = T::total(problem.prediction) / count as f64;
        let line = |q: usize| &problem.shares[q * width..(q + 1) * width];
        self.weighted.clear();
        self.weighted.extend_from_slice(problem.shares);
        self.weighted.chunks_exact_mut(width).for_each(|line| T::multiply(line, problem.prediction));
        let mut matrix = Array2::zeros((count, count));
        for (q, weighted) in self.weighted.chunks_exact(width).enumerate() {
            for other in 0..=q {
                let inner = T::dot(weighted, line(other));
                // Constants are in the null space; a rank-one term fills it.
                let entry =
                    wanted * wanted - inner + if q == other { self.masses[q] * (1.0 + RIDGE) } else { 0.0 };
                (matrix[[q, other]], matrix[[other, q]]) = (entry, entry);
            }
        }
        let right: Vec<f64> = self.masses.iter().map(|mass| wanted - mass).collect();
        let Some(direction) = solve_positive(&matrix, &right) else { return self.plain(problem) };
        let longest = direction.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        let mut step = (LARGEST_NEWTON_STEP / longest).min(1.0);
        let start: Vec<f64> = self.potentials.iter().map(|g| (*g).into()).collect();
        let value = |columns: &Self, problem: &Problem<T>| {
            columns.dual(problem.prediction, problem.costs, problem.logs, problem.regularization)
        };
        let before = value(self, problem);
        let least = before - ROUNDING * T::EPSILON * before.abs();
        for halving in 0..=HALVINGS {
            for ((potential, start), direction) in self.potentials.iter_mut().zip(&start).zip(&direction) {
                *potential = T::nearest(start + step * direction);
            }
            let error = self.update(problem);
            if halving == HALVINGS || value(self, problem) >= least {
                return error;
            }
            step *= 0.5;
        }
        unreachable!("the last halving returns")
    }

    /// Σ_q ŷ_q g_q − Σ_p h_p n_p with n_p = g_q − C_pq/λ − ln p_pq, the same for all q: the dual value over λ, less Σ h ln h.
    pub(super) fn dual(&self, prediction: &[T], costs: &[T], logs: &[T], regularization: f64) -> f64 {
        let wanted = T::total(prediction) / self.masses.len() as f64;
        let first: f64 = self.potentials[0].into();
        let gain: f64 = self.potentials.iter().map(|g| wanted * (*g).into()).sum();
        let norms = prediction.iter().zip(costs).zip(logs);
        let loss: f64 = norms
            .map(|((h, cost), log)| (*h).into() * (first - (*cost).into() / regularization - (*log).into()))
            .sum();
        gain - loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newton_reaches_what_plain_iterations_take_forever_for() {
        // Costs of up to 300 λ: plain iterations are slow.
        let costs = [0.0, 15.0, 2.0, 9.0, 14.0, 0.5, 12.0, 3.0];
        let prediction = [0.1, 0.2, 0.3, 0.4];
        let solve = |iterations, tolerance| {
            let (mut shares, mut logs) = ([0.0; 8], [0.0; 8]);
            let mut problem = Problem {
                prediction: &prediction,
                costs: &costs,
                regularization: 0.05,
                shares: &mut shares,
                logs: &mut logs,
            };
            Columns::<f64>::default().solve(&mut problem, From::Zero, Until { iterations, tolerance })
        };
        let (newton, plain) = (solve(200, 1e-12), solve(200, 0.0));
        assert!(newton <= 1e-12 && plain > 1e-3, "{newton} {plain}");
    }
}
