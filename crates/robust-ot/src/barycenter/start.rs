//! Where a search for a barycenter with free support starts.

use ndarray::{Array1, Array2};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Barycenters;
use crate::displacement::weighted_sum;
use crate::error::{Error, Result};
use crate::measure::Measure;

impl Barycenters<'_> {
    /// Points with equal weights, drawn from the measure with the largest weight (the first of several), all moved by the same
    /// amount so that their mean is the mean of the means.
    ///
    /// The points are drawn systematically: with as many as the measure has, of equal weights, each is drawn once.
    ///
    /// # Errors
    /// When no point is wanted.
    pub fn start(&self, points: usize, seed: u64) -> Result<Measure> {
        if points == 0 {
            return Err(Error::parameter("points", "at least 1", points));
        }
        let mut best = 0;
        for l in 1..self.measures.len() {
            if self.weights[l] > self.weights[best] {
                best = l;
            }
        }
        let from = self.measures[best];
        let offset = ChaCha8Rng::seed_from_u64(seed).random_range(0.0..1.0);
        let (mut drawn, mut at, mut below) = (Vec::with_capacity(points), 0, from.weights()[0]);
        for n in 0..points {
            let level = (n as f64 + offset) / points as f64;
            while below < level && at + 1 < from.len() {
                at += 1;
                below += from.weights()[at];
            }
            drawn.push(at);
        }
        let chosen: Array2<f64> = from.points().select(ndarray::Axis(0), &drawn);
        let mut shift = Array1::zeros(from.dim());
        for (measure, w) in self.measures.iter().zip(&self.weights) {
            shift.scaled_add(*w, &weighted_sum(measure.points(), measure.weights()));
        }
        shift -= &weighted_sum(&chosen, &Array1::from_elem(points, 1.0 / points as f64));
        Measure::uniform(chosen + &shift)
    }
}
