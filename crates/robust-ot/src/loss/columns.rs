//! Entropic transport to the few true labels: L × n_y, label by label.
//!
//! $$p_{pq} = \frac{e^{g_q - C_{pq}/\lambda}}{\sum_{q'} e^{g_{q'} - C_{pq'}/\lambda}}, \qquad \gamma_{pq} = h_p\thinspace p_{pq}.$$
//!
//! Sinkhorn's iteration runs for the given number of iterations; if a tolerance is given, Newton steps on the n_y
//! potentials take over from it.

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

/// Buffers for one solve.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns<T> {
    potentials: Vec<T>,
    masses: Vec<f64>,
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
    pub(super) fn solve(&mut self, problem: &mut Problem<T>, iterations: usize, tolerance: f64) -> f64 {
        let width = problem.prediction.len();
        let count = problem.costs.len() / width;
        for buffer in [&mut self.top, &mut self.sum] {
            buffer.resize(width, T::default());
        }
        self.potentials.clear();
        self.potentials.resize(count, T::default());
        if count == 1 {
            // All mass goes to the only label.
            problem.shares.fill(T::nearest(1.0));
            problem.logs.fill(T::default());
            return 0.0;
        }
        let mut error = self.update(problem);
        for iteration in 0..iterations {
            if error <= tolerance {
                break;
            }
            error = if tolerance > 0.0 && iteration >= PLAIN {
                self.newton(problem)
            } else {
                self.plain(problem)
            };
        }
        error
    }

    /// The plan of the current potentials, the masses of its columns, and their error.
    fn update(&mut self, problem: &mut Problem<T>) -> f64 {
        let Self { potentials, masses, top, sum } = self;
        let inverse = T::nearest(1.0 / problem.regularization);
        T::softmax_columns(problem.shares, problem.logs, problem.costs, potentials, inverse, (top, sum));
        masses.clear();
        let lines = problem.shares.chunks_exact(problem.prediction.len());
        masses.extend(lines.map(|line| T::dot(problem.prediction, line)));
        let wanted = 1.0 / masses.len() as f64;
        masses.iter().map(|mass| (mass - wanted).abs()).sum()
    }

    fn plain(&mut self, problem: &mut Problem<T>) -> f64 {
        let wanted = 1.0 / self.masses.len() as f64;
        for (potential, mass) in self.potentials.iter_mut().zip(&self.masses) {
            let step = (wanted / mass).ln().min(LARGEST_STEP);
            *potential = T::nearest((*potential).into() + step);
        }
        self.update(problem)
    }

    /// Newton's step (diag(c) − Σ_p h_p p_p p_pᵀ) Δ = ŷ − c, shortened until the dual value does not decrease.
    fn newton(&mut self, problem: &mut Problem<T>) -> f64 {
        let (count, width) = (self.masses.len(), problem.prediction.len());
        let wanted = 1.0 / count as f64;
        let line = |q: usize| &problem.shares[q * width..(q + 1) * width];
        let mut matrix = Array2::zeros((count, count));
        for q in 0..count {
            for other in 0..=q {
                let terms = problem.prediction.iter().zip(line(q)).zip(line(other));
                let inner: f64 = terms.map(|((h, x), y)| (*h).into() * (*x).into() * (*y).into()).sum();
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
        let before = self.dual(problem);
        for halving in 0..=HALVINGS {
            for ((potential, start), direction) in self.potentials.iter_mut().zip(&start).zip(&direction) {
                *potential = T::nearest(start + step * direction);
            }
            let error = self.update(problem);
            if halving == HALVINGS || self.dual(problem) >= before {
                return error;
            }
            step *= 0.5;
        }
        unreachable!("the last halving returns")
    }

    /// Σ_q ŷ_q g_q − Σ_p h_p n_p with n_p = g_q − C_pq/λ − ln p_pq, the same for all q.
    fn dual(&self, problem: &Problem<T>) -> f64 {
        let wanted = 1.0 / self.masses.len() as f64;
        let first: f64 = self.potentials[0].into();
        let gain: f64 = self.potentials.iter().map(|g| wanted * (*g).into()).sum();
        let norms = problem.prediction.iter().zip(problem.costs).zip(&*problem.logs);
        let loss: f64 = norms
            .map(|((h, cost), log)| {
                (*h).into() * (first - (*cost).into() / problem.regularization - (*log).into())
            })
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
            Columns::<f64>::default().solve(&mut problem, iterations, tolerance)
        };
        let (newton, plain) = (solve(200, 1e-12), solve(200, 0.0));
        assert!(newton <= 1e-12 && plain > 1e-3, "{newton} {plain}");
    }
}
