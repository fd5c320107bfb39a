//! A lower bound without a transport problem: for any metric M of the set, dropping one marginal at a time,
//!
//! $$W \ge \max\Bigl( \sum_i a_i \min_j C(M)_{ij},\ \sum_j b_j \min_i C(M)_{ij} \Bigr) - \mathrm{penalty}(M)
//!   - \lambda_\gamma \bigl( H(a) + H(b) \bigr).$$

use ndarray::{Array1, ArrayView1, Axis};

use super::problem::Problem;
use crate::error::Result;

impl Problem {
    /// A lower bound of the optimum from nearest neighbours under the worst metric of the independent plan: one matrix of
    /// costs, and no solve. For leaving out pairs that cannot be near.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let near = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
    /// let far = Measure::uniform(array![[5.0, 1.0], [6.0, 0.0]])?;
    /// let problem = Problem::new(&near, &far, MetricSet::P { k: 1 })?;
    /// let bound = problem.relaxed_bound()?;
    /// assert!(0.0 < bound && bound <= problem.solve(&Settings::default())?.lower_bound);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the metric is not representable.
    pub fn relaxed_bound(&self) -> Result<f64> {
        let moment = self.maps.independent_moment();
        let worst = self.set.evaluate(moment)?;
        let costs = self.maps.cost_matrix(&worst.metric);
        let least = |line: ArrayView1<f64>| line.fold(f64::INFINITY, |low, c| low.min(*c));
        let one_sided = |axis: Axis, weights: &Array1<f64>| {
            let lines = costs.axis_iter(axis).zip(weights).filter(|(_, w)| **w > 0.0);
            lines.map(|(line, w)| w * least(line)).sum::<f64>()
        };
        let rows = one_sided(Axis(0), &self.source_weights);
        let columns = one_sided(Axis(1), &self.target_weights);
        let mut bound = rows.max(columns) - self.set.penalty(moment, &worst);
        if self.entropy > 0.0 {
            bound -= self.entropy * (entropy(&self.source_weights) + entropy(&self.target_weights));
        }
        // Sums of as many terms as there are points round, too.
        let terms = (self.source_weights.len() + self.target_weights.len()) as f64;
        let summed = rows.abs().max(columns.abs()) * terms * f64::EPSILON;
        Ok(bound - self.maps.rounding(&worst.metric) - summed)
    }
}

/// −Σ w ln w.
fn entropy(weights: &Array1<f64>) -> f64 {
    -weights.iter().filter(|w| **w > 0.0).map(|w| w * w.ln()).sum::<f64>()
}
