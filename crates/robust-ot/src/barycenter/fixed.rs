//! Fixed support: the weights b of given points. F is convex, and with the worst metrics M_l of all distances to the current b,
//!
//! $$F(b') \ge \sum_l w_l\thinspace \bigl(W_{M_l}(\mu_l, b') - \mathrm{penalty}(M_l)\bigr) \quad\text{for every } b',$$
//!
//! with equality at b. The minimum of the right-hand side over b' is the oracle's: it bounds F from below, and F descends
//! towards where it is attained. For `w2` this is the answer.

use ndarray::{Array1, Array2};

use super::bregman::{Member, Projected, project};
use super::{Barycenter, BarycenterSettings, Barycenters, HALVINGS, Place, ended};
use crate::displacement::Displacements;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::measure::Measure;
use crate::robust::Status;

/// The most rounds of projections for one set of metrics.
const ROUNDS: usize = 20_000;
/// The marginal error of the projections, relative to the tolerance of a distance.
const MARGINAL: f64 = 0.1;

impl Barycenters<'_> {
    /// Finds the weights of given points, starting from equal ones. `lower_bound` is then one on the least mean distance of all
    /// weights, up to rounding.
    ///
    /// The costs of all measures are held in memory, twice.
    ///
    /// # Errors
    /// When there is no entropy, the points have another number of features, a setting is out of range or a metric is not
    /// representable.
    pub fn fixed_support(
        &self,
        points: &Array2<f64>,
        settings: &BarycenterSettings,
        interrupt: &Interrupt,
    ) -> Result<Barycenter> {
        if self.entropy == 0.0 {
            return Err(Error::parameter("entropy", "positive for a barycenter on fixed points", 0));
        }
        let evaluate = |weights: Array1<f64>| {
            let measure = Measure::new(points.clone(), weights)?;
            self.evaluate(measure, &mut self.no_oracles(), &settings.solve, interrupt)
        };
        let mut place = evaluate(Array1::ones(points.nrows()))?;
        let (mut history, mut lower) = (vec![place.value], f64::NEG_INFINITY);
        loop {
            let (toward, bound) = self.oracle(&place, settings, interrupt)?;
            lower = lower.max(bound);
            let promised = place.value - lower;
            if let Some(status) = ended(&place, promised, history.len() - 1, settings, interrupt) {
                return Ok(Barycenter { lower_bound: lower.min(place.value), ..place.end(status, history) });
            }
            let (mut theta, mut found) = (1.0, None);
            for _ in 0..HALVINGS {
                let next = evaluate(place.measure.weights() * (1.0 - theta) + &toward * theta)?;
                if next.gains(&place, -theta * promised) {
                    found = Some(next);
                    break;
                }
                theta *= 0.5;
            }
            let Some(next) = found else {
                return Ok(Barycenter {
                    lower_bound: lower.min(place.value),
                    ..place.end(Status::Stalled, history)
                });
            };
            place = next;
            history.push(place.value);
        }
    }

    /// The best weights for the metrics at hand, and the lower bound on F that they give.
    fn oracle(
        &self,
        place: &Place,
        settings: &BarycenterSettings,
        interrupt: &Interrupt,
    ) -> Result<(Array1<f64>, f64)> {
        let mut members = Vec::with_capacity(self.measures.len());
        let mut penalty = 0.0;
        for ((from, solution), &share) in self.measures.iter().zip(&place.distances).zip(&self.weights) {
            let maps = Displacements::new(from, &place.measure, &self.grouping)?;
            members.push(Member { weights: from.weights(), share, costs: maps.cost(&solution.metric)? });
            penalty += share * (solution.transport_cost - solution.unregularized_value);
        }
        let stop = (MARGINAL * settings.solve.tol_gap_rel, ROUNDS);
        let Projected { weights, lower_bound } = project(&members, self.entropy, stop, interrupt);
        let sum = weights.sum();
        Ok((weights / sum, lower_bound - penalty))
    }
}
