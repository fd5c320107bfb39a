//! The fantope {0 ⪯ M ⪯ I, tr M = k} and its support function with a proximal term,
//!
//! $$h_t(V) = \max_{0 \preceq M \preceq I,\ \mathrm{tr} M = k} \langle V, M\rangle - \tfrac{1}{2t}\Vert M - M_c\Vert ^2,
//!   \qquad M = \mathrm{proj}(M_c + tV),$$
//!
//! which smooths the sum of the k largest eigenvalues.

use ndarray::{Array1, Array2};

use super::WorstCase;
use super::curvature::{Curvature, divided_differences};
use crate::error::Result;
use crate::linalg::{Eigen, inner};

/// h_t for one center M_c and one step t.
#[derive(Debug, Clone)]
pub(crate) struct Proximal {
    pub(crate) k: usize,
    pub(crate) center: Array2<f64>,
    pub(crate) step: f64,
}

impl Proximal {
    /// h_t(V) and its maximizer, with the spectrum of M_c + tV.
    pub(crate) fn evaluate(&self, moment: &Array2<f64>) -> Result<WorstCase> {
        let eigen = Eigen::new(&(&self.center + &(moment * self.step)))?;
        let shift = water_level(&eigen.values, self.k);
        let mut clipped = eigen.values.mapv(|w| (w - shift).clamp(0.0, 1.0));
        // Where tV is large, its rounding may leave a trace above k, and no plan bounds what such a metric costs.
        let trace = clipped.sum();
        if trace > self.k as f64 {
            clipped *= self.k as f64 / trace;
        }
        let metric = eigen.reassemble(&clipped);
        let away = &metric - &self.center;
        let value = inner(moment, &metric) - inner(&away, &away) / (2.0 * self.step);
        Ok(WorstCase { value, metric, spectrum: Some(eigen) })
    }

    /// The rank of the maximizer, from the eigenvalues of M_c + tV.
    pub(crate) fn rank(&self, values: &Array1<f64>) -> usize {
        let shift = water_level(values, self.k);
        values.iter().filter(|&&w| w > shift).count()
    }

    /// A bound on how far ⟨V, M⟩ may exceed h at the optimum V because M lies outside the fantope by rounding. An eigenvalue
    /// that is off by e adds at most e tr V, and tr V ≤ (r/k) h(V). `value` is an upper bound on h there.
    pub(crate) fn rounding(&self, value: f64) -> f64 {
        let size = self.center.nrows() as f64;
        2.0 * (size + 16.0) * f64::EPSILON * size / self.k as f64 * value.abs()
    }

    /// t times the derivative of the projection.
    pub(crate) fn curvature(&self, worst: &WorstCase) -> Curvature {
        let Some(eigen) = &worst.spectrum else { return Curvature::Zero };
        let shift = water_level(&eigen.values, self.k);
        let clipped = eigen.values.mapv(|w| (w - shift).clamp(0.0, 1.0));
        let free = eigen.values.mapv(|w| f64::from(u8::from(w > shift && w < shift + 1.0)));
        let scale = divided_differences(&eigen.values, &clipped, &free) * self.step;
        // The trace stays k, so the free eigenvalues lose their mean.
        let count = free.sum();
        let less = (count > 0.0).then(|| (&free / count, free));
        Curvature::Spectral { eigen: eigen.clone(), scale, less }
    }
}

/// The τ with Σ clamp(w_i − τ, 0, 1) = k: the sum falls from |w| to 0 between the breakpoints w_i − 1 and w_i.
fn water_level(w: &Array1<f64>, k: usize) -> f64 {
    let mut breaks: Vec<f64> = w.iter().flat_map(|&w| [w - 1.0, w]).collect();
    breaks.sort_by(f64::total_cmp);
    let sum = |level: f64| w.iter().map(|w| (w - level).clamp(0.0, 1.0)).sum::<f64>();
    let target = k as f64;
    let above = breaks.partition_point(|&level| sum(level) > target).clamp(1, breaks.len() - 1);
    let (low, high) = (breaks[above - 1], breaks[above]);
    let (at_low, at_high) = (sum(low), sum(high));
    if at_low <= at_high {
        return low;
    }
    low + (high - low) * ((at_low - target) / (at_low - at_high)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;
    use ndarray::array;

    use super::*;
    use crate::testing::metric;

    #[test]
    fn water_level_reaches_the_trace() {
        for k in 1..=4 {
            let w = array![-0.3, 0.1, 0.15, 2.5];
            let level = water_level(&w, k);
            assert_abs_diff_eq!(w.mapv(|w| (w - level).clamp(0.0, 1.0)).sum(), k as f64, epsilon = 1e-14);
        }
    }

    #[test]
    fn the_maximiser_is_in_the_fantope_and_is_the_gradient() {
        let moment = metric(5, 3);
        let prox = Proximal { k: 2, center: Array2::eye(5) * 0.4, step: 0.3 };
        let worst = prox.evaluate(&moment).unwrap();
        assert_abs_diff_eq!(worst.metric.diag().sum(), 2.0, epsilon = 1e-12);
        let eigen = Eigen::new(&worst.metric).unwrap();
        assert!(eigen.values.iter().all(|&w| (-1e-12..=1.0 + 1e-12).contains(&w)));
        let direction = metric(5, 4);
        let along = |step: f64| prox.evaluate(&(&moment + &(&direction * step))).unwrap();
        let slope = (along(1e-5).value - along(-1e-5).value) / 2e-5;
        assert_abs_diff_eq!(slope, inner(&worst.metric, &direction), epsilon = 1e-7);
    }

    #[test]
    fn long_steps_do_not_leave_the_fantope() {
        for seed in 0..20 {
            // Two equal eigenvalues share the trace, however far they are from zero.
            let eigen = Eigen::new(&metric(6, seed)).unwrap();
            let moment = eigen.reassemble(&array![0.1, 0.2, 0.3, 0.4, 1.0, 1.0]);
            for step in [1.0, 1e6, 1e9, 1e12] {
                let prox = Proximal { k: 1, center: Array2::eye(6) / 6.0, step };
                let worst = prox.evaluate(&moment).unwrap();
                let trace = worst.metric.diag().sum();
                assert!(trace <= 1.0 + 1e-13, "seed {seed}, step {step}: {trace}");
            }
        }
    }

    #[test]
    fn the_curvature_is_the_derivative_of_the_maximiser() {
        // `zeros` is the number of zero eigenvalues.
        for (step, zeros) in [(3.0, 2), (0.3, 0)] {
            let moment = metric(5, 3);
            let prox = Proximal { k: 2, center: Array2::eye(5) * 0.4, step };
            let worst = prox.evaluate(&moment).unwrap();
            let spectrum = Eigen::new(&worst.metric).unwrap().values;
            assert_eq!(spectrum.iter().filter(|w| w.abs() < 1e-12).count(), zeros);
            let directions: Vec<_> = (4..8).map(|seed| metric(5, seed)).collect();
            let gram = prox.curvature(&worst).gram(&directions);
            let turns = Array2::from_shape_fn(gram.dim(), |(i, j)| {
                let along = |by: f64| prox.evaluate(&(&moment + &(&directions[j] * by))).unwrap().metric;
                inner(&directions[i], &((along(1e-6) - along(-1e-6)) / 2e-6))
            });
            assert_abs_diff_eq!(gram, turns, epsilon = 1e-6 * step.max(1.0));
        }
    }
}
