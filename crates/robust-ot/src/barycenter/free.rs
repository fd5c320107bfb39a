//! Free support: descent over the positions z_j of the points. With the plans γ_l and worst metrics M_l at hand,
//!
//! $$\nabla_{z_j} F = 2 \sum_l w_l \sum_i \gamma^l_{ij}\thinspace M_l (z_j - x^l_i), \qquad
//!   z_j \leftarrow z_j - \theta\thinspace \frac{1}{2 b_j} P^+ \nabla_{z_j} F, \qquad P = \sum_l w_l M_l .$$
//!
//! For `w2` and θ = 1 every point moves to the mean of its sources (Cuturi and Doucet 2014), and F decreases in every step.
//! Other metrics change with the points: θ is halved until F decreases.

use ndarray::{Array1, Array2, Zip};

use super::{Barycenter, BarycenterSettings, Barycenters, HALVINGS, Place, ended};
use crate::displacement::{lay_out, times};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::linalg::Eigen;
use crate::measure::Measure;
use crate::metric::MetricSet;
use crate::robust::{LinearOracle, Status};

/// Directions that no metric sees: eigenvalues of P below this fraction of the largest. The gradient is zero there.
const UNSEEN: f64 = 1e-12;

/// The search is that much more precise where distances are exact.
const EXACT: f64 = 1e-4;

impl Barycenters<'_> {
    /// Moves the points of a measure, whose weights stay as they are, until the mean distance stops decreasing: a local
    /// minimum, which depends on the start.
    ///
    /// # Errors
    /// When the start has another number of features, a setting is out of range or a metric is not representable.
    pub fn free_support(
        &self,
        start: &Measure,
        settings: &BarycenterSettings,
        interrupt: &Interrupt,
    ) -> Result<Barycenter> {
        let mut oracles = self.no_oracles();
        let mut place = self.evaluate(start.clone(), &mut oracles, &settings.solve, interrupt)?;
        let (mut history, mut theta) = (vec![place.value], 1.0);
        loop {
            let (direction, slope) = self.direction(&place)?;
            let promised = -0.5 * slope / self.precision();
            if let Some(status) = ended(&place, promised, history.len() - 1, settings, interrupt) {
                return Ok(place.end(status, history));
            }
            let step = (&direction, slope, theta);
            let Some(next) = self.search(&place, step, &mut oracles, settings, interrupt)? else {
                return Ok(place.end(Status::Stalled, history));
            };
            (place, theta) = (next.0, f64::min(1.0, 2.0 * next.1));
            history.push(place.value);
        }
    }

    /// What the tolerance of the search is multiplied with. Exact plans of `w2` have no gap but rounding, and after finitely many
    /// steps they change no more.
    fn precision(&self) -> f64 {
        if self.set == MetricSet::W2 && self.entropy == 0.0 { EXACT } else { 1.0 }
    }

    /// The preconditioned step for every point, and the slope of F along it.
    fn direction(&self, place: &Place) -> Result<(Array2<f64>, f64)> {
        let gradient = self.mean_of(place, |solution| solution.gradient().target_points);
        let eigen = Eigen::new(&self.mean_of(place, |solution| solution.metric.clone()))?;
        let largest = eigen.values.fold(0.0_f64, |top, &w| top.max(w));
        let inverse =
            eigen.reassemble(&eigen.values.mapv(|w| if w > UNSEEN * largest { 1.0 / w } else { 0.0 }));
        let laid = lay_out(&gradient, &Array1::zeros(gradient.ncols()), &self.grouping);
        let mut direction = self.grouping.features(&times(&laid, &inverse));
        Zip::from(direction.rows_mut()).and(place.measure.weights()).for_each(|mut row, &weight| {
            row *= if weight > 0.0 { -0.5 / weight } else { 0.0 };
        });
        let slope = (&gradient * &direction).sum();
        Ok((direction, slope))
    }

    /// The first of θ, θ/2, θ/4, … that gains enough.
    fn search(
        &self,
        place: &Place,
        (direction, slope, theta): (&Array2<f64>, f64, f64),
        oracles: &mut [Option<LinearOracle>],
        settings: &BarycenterSettings,
        interrupt: &Interrupt,
    ) -> Result<Option<(Place, f64)>> {
        let mut theta = theta;
        for _ in 0..HALVINGS {
            let points = place.measure.points() + &(direction * theta);
            let next = match Measure::new(points, place.measure.weights().clone()) {
                Ok(moved) => self.evaluate(moved, oracles, &settings.solve, interrupt),
                Err(error) => Err(error),
            };
            match next {
                Ok(next) if next.gains(place, theta * slope) => return Ok(Some((next, theta))),
                // Where a longer step leaves the range of the metric, a shorter one need not.
                Ok(_) | Err(Error::Overflow { .. } | Error::Range { .. } | Error::Magnitude { .. }) => {
                    theta *= 0.5;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
