//! Fixed support: mirror descent over the weights b. With the potentials g_l of every distance,
//!
//! $$b_j \leftarrow \frac{b_j\thinspace e^{-\theta \bar g_j / \lambda_\gamma}}{\sum_k b_k\thinspace e^{-\theta \bar g_k / \lambda_\gamma}},
//!   \qquad \bar g = \sum_l w_l\thinspace g_l .$$
//!
//! For `w2` and θ = 1 these are the iterative Bregman projections of Benamou et al. (2015). The problem is convex: for the
//! other sets θ is halved until F decreases.

use ndarray::{Array1, Array2};

use super::{Barycenter, BarycenterSettings, Barycenters, HALVINGS, Place, ended};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::measure::Measure;
use crate::robust::Status;

impl Barycenters<'_> {
    /// Finds the weights of given points, starting from equal ones.
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
        let evaluate =
            |measure: Measure| self.evaluate(measure, &mut self.no_oracles(), &settings.solve, interrupt);
        let mut place = evaluate(Measure::uniform(points.clone())?)?;
        let mut history = vec![place.value];
        loop {
            let potential = self.mean_potential(&place);
            let (full, slope) = self.mirror_step(&place, &potential, 1.0)?;
            if let Some(status) = ended(&place, -slope, history.len() - 1, settings, interrupt) {
                return Ok(place.end(status, history));
            }
            let (mut theta, mut tried, mut found) = (1.0, (full, slope), None);
            for _ in 0..HALVINGS {
                let next = evaluate(tried.0)?;
                if next.gains(&place, tried.1) {
                    found = Some(next);
                    break;
                }
                theta *= 0.5;
                tried = self.mirror_step(&place, &potential, theta)?;
            }
            let Some(next) = found else { return Ok(place.end(Status::Stalled, history)) };
            place = next;
            history.push(place.value);
        }
    }

    /// ḡ − ⟨b, ḡ⟩; 0 where there is no weight, which none can return to.
    fn mean_potential(&self, place: &Place) -> Array1<f64> {
        let mut mean = Array1::zeros(place.measure.len());
        for (solution, w) in place.distances.iter().zip(&self.weights) {
            mean.scaled_add(*w, &solution.target_potential.mapv(|g| if g.is_finite() { g } else { 0.0 }));
        }
        let center = mean.dot(place.measure.weights());
        mean - center
    }

    /// The weights after a step of length θ, and the slope of F towards them.
    fn mirror_step(&self, place: &Place, potential: &Array1<f64>, theta: f64) -> Result<(Measure, f64)> {
        let weights = place.measure.weights();
        let exponents = potential.mapv(|g| -theta * g / self.entropy);
        let carrying = exponents.iter().zip(weights).filter(|(_, b)| **b > 0.0);
        let largest = carrying.map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
        let moved = Array1::from_shape_fn(weights.len(), |j| {
            if weights[j] > 0.0 { weights[j] * (exponents[j] - largest).exp() } else { 0.0 }
        });
        let moved = Measure::new(place.measure.points().clone(), moved)?;
        let slope = potential.dot(&(moved.weights() - weights));
        Ok((moved, slope))
    }
}
