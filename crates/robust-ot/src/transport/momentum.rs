//! Momentum for Sinkhorn's iteration. Near the optimum the plain step δ = ln(b / column sums) shrinks the error by a
//! factor η per iteration, and the second-order method with spectrum [0, η] (Golub & Varga 1961) by less than η²:
//!
//! $$x_{t+1} = x_t + \rho\gamma\thinspace \delta + (\rho - 1)(x_t - x_{t-1}), \qquad \gamma = \frac{2}{2-\eta},\quad
//!   \rho = \frac{2}{1 + \sqrt{1 - \sigma^2}},\quad \sigma = \frac{\eta}{2-\eta}.$$

/// Number of plain iterations before η is estimated from the last two errors.
const PLAIN: usize = 5;
/// Number of iterations with momentum after which η is estimated again.
const PERIOD: usize = 6;
/// The largest usable estimate of η.
const LARGEST_RATE: f64 = 0.9999;
/// The growth factor of the error at which momentum is dropped.
const GROWTH: f64 = 1.5;

/// The last move and how to extend the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct Momentum {
    moved: Vec<f64>,
    /// Iterations since `checkpoint`, the error there, and the last one.
    count: usize,
    checkpoint: f64,
    last_error: f64,
    /// ργ and ρ − 1, once η is known.
    factors: Option<(f64, f64)>,
}

impl Momentum {
    /// Clears the state, for n potentials.
    pub(super) fn reset(&mut self, n: usize) {
        self.moved.clear();
        self.moved.resize(n, 0.0);
        (self.count, self.last_error, self.factors) = (0, f64::INFINITY, None);
    }

    /// Records the error before a step.
    pub(super) fn note(&mut self, error: f64) {
        self.count += 1;
        let rate = match self.factors {
            Some(_) if error > GROWTH * self.last_error => {
                (self.count, self.factors) = (0, None);
                None
            }
            // For the slowest mode, z² − (1 + β − α(1 − η)) z + β = 0, where z is the observed rate.
            Some((by, again)) if self.count == PERIOD => {
                let seen = (error / self.checkpoint).powf(1.0 / PERIOD as f64);
                Some(1.0 - (1.0 + again - seen - again / seen) / by).filter(|_| seen > again.sqrt())
            }
            None if self.count > PLAIN => Some(error / self.last_error),
            _ => None,
        };
        if let Some(rate) = rate.filter(|rate| *rate > 0.0 && *rate < LARGEST_RATE) {
            let sigma = rate / (2.0 - rate);
            let rho = 2.0 / (1.0 + (1.0 - sigma * sigma).sqrt());
            self.factors = Some((rho * 2.0 / (2.0 - rate), rho - 1.0));
        }
        if rate.is_some() || self.count == PERIOD {
            (self.count, self.checkpoint) = (0, error);
        }
        self.last_error = error;
    }

    /// The move of potential j, in units of ε, for a plain step δ.
    pub(super) fn extend(&mut self, j: usize, step: f64) -> f64 {
        let moved = self.factors.map_or(step, |(by, again)| by * step + again * self.moved[j]);
        self.moved[j] = moved;
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of iterations of x ← T x to 1e-9, with eigenvalues of T in [0, 0.9], with or without momentum.
    fn iterations(momentum: bool) -> usize {
        let rates: Vec<f64> = (0..10).map(|i| 0.1 * f64::from(i)).collect();
        let mut x = vec![1.0; rates.len()];
        let mut extended = Momentum::default();
        extended.reset(x.len());
        for iteration in 0..1000 {
            let steps: Vec<f64> = x.iter().zip(&rates).map(|(x, rate)| (rate - 1.0) * x).collect();
            let error = steps.iter().map(|step| step.abs()).sum::<f64>();
            if error < 1e-9 {
                return iteration;
            }
            if momentum {
                extended.note(error);
            }
            x.iter_mut().enumerate().for_each(|(j, x)| *x += extended.extend(j, steps[j]));
        }
        1000
    }

    #[test]
    fn a_linear_iteration_takes_less_than_half_as_long() {
        let (with, without) = (iterations(true), iterations(false));
        assert!(2 * with < without, "{with} {without}");
    }
}
