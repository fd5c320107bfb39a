//! Cheap lower bounds of the distances from one measure to many. For every metric $M$ of the set and every potential $f$,
//!
//! $$W \ge \langle a, f\rangle + \langle b, f^c\rangle - R(M), \qquad f^c_j = \min_i\ C(M)_{ij} - f_i ,$$
//!
//! so that one metric serves many distances, and no plain problem has to be solved to its end: subgradient steps of
//! Polyak's length raise the bound towards the limit that a distance must be below, and stop once it is passed.

use ndarray::{Array1, Array2, Axis};

use super::corpus::Corpus;
use super::model::Model;
use crate::displacement::moved;
use crate::error::{Error, Result};
use crate::kernels::lower_with_places;
use crate::linalg::product_into;
use crate::metric::MetricSet;
use crate::transport::dual_value;

/// Steps before a bound is left as it is: most that pass their limit at all do so in six.
const PASSES: usize = 20;
/// Steps aim this far beyond the limit, as a part of the plain distance.
const BEYOND: f64 = 0.01;

/// Bounds of the distances from one measure of a corpus to others.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Corpus, Grouping, Measure, MetricSet, Problem, Screen, Settings};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
/// let near = Measure::uniform(array![[0.5, 0.0], [1.0, 0.5]])?;
/// let far = Measure::uniform(array![[4.0, 3.0], [5.0, 2.0]])?;
/// let (set, grouping) = (MetricSet::P { k: 1 }, Grouping::none(2));
/// let limit = Problem::new(&source, &near, set.clone())?.solve(&Settings::default())?.value;
///
/// let corpus = Corpus::new(&[&source, &near, &far], &grouping)?;
/// let screen = Screen::new(&corpus, 0, &[1], &set, 0.0)?;
/// assert!(screen.bound(1, limit)? <= limit);
/// assert!(screen.bound(2, limit)? > limit);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct Screen<'a> {
    corpus: &'a Corpus,
    source: usize,
    metric: Array2<f64>,
    /// S M, and s_iᵀ M s_i.
    moved: Array2<f64>,
    alpha: Array1<f64>,
    /// R(M) + λ_γ H(a).
    charge: f64,
    entropy: f64,
}

impl<'a> Screen<'a> {
    /// Bounds under the metric that is worst for the independent plans to some measures.
    ///
    /// # Errors
    /// When a parameter of the set does not fit, or there is no such measure.
    pub fn new(
        corpus: &'a Corpus,
        source: usize,
        like: &[usize],
        set: &MetricSet,
        entropy: f64,
    ) -> Result<Self> {
        let groups = corpus.size();
        set.check(groups)?;
        check(corpus, source)?;
        if like.is_empty() {
            return Err(Error::Empty { rows: 0, columns: corpus.dim() });
        }
        let mut moment = Array2::zeros((groups, groups));
        for &other in like {
            check(corpus, other)?;
            moment += &corpus.frame(source, other).independent;
        }
        moment /= like.len() as f64;
        let (metric, penalty) = Model::new(set, false, &moment).first_metric(&moment)?;
        let (moved, alpha) = moved(corpus.points(source), &metric, groups);
        let charge = penalty + entropy * entropy_of(corpus.weights(source));
        Ok(Self { corpus, source, metric, moved, alpha, charge, entropy })
    }

    /// A number that the distance to the target is not below; it is raised until it is above the limit, or as far as a
    /// few steps go.
    ///
    /// # Errors
    /// When there is no such measure.
    pub fn bound(&self, target: usize, limit: f64) -> Result<f64> {
        check(self.corpus, target)?;
        let (a, b) = (self.corpus.weights(self.source), self.corpus.weights(target));
        let cost = self.costs(self.corpus.points(target));
        let charge = self.charge
            + self.entropy * entropy_of(b)
            + self.corpus.frame(self.source, target).rounding(&self.metric);

        let mut f: Array1<f64> =
            cost.outer_iter().map(|row| 0.5 * row.fold(f64::INFINITY, |x, y| x.min(*y))).collect();
        let (mut g, mut places) = (Array1::zeros(b.len()), vec![0.0; b.len()]);
        let mut best = f64::NEG_INFINITY;
        for _ in 0..PASSES {
            transform(&cost, &f, &mut g, &mut places);
            let (dual, of_dual) = dual_value((a, b), (&f, &g));
            let bound = dual - of_dual - charge;
            best = best.max(bound);
            // Without a limit there is nothing to aim at.
            if best > limit || limit == f64::INFINITY {
                break;
            }
            let mut slope = a.clone();
            places.iter().zip(b).for_each(|(&place, weight)| slope[place as usize] -= weight);
            let steepness = slope.dot(&slope);
            let step = (limit - bound + BEYOND * dual.abs()) / steepness;
            // At the top, or where numbers end.
            if !(step.is_finite() && step > 0.0) {
                break;
            }
            f.scaled_add(step, &slope);
        }
        Ok(best)
    }

    /// C(M) = α ⊕ β − 2 (S M) Tᵀ.
    fn costs(&self, target: &Array2<f64>) -> Array2<f64> {
        let (_, beta) = moved(target, &self.metric, self.corpus.size());
        let mut cost = Array2::zeros((self.alpha.len(), beta.len()));
        product_into(cost.view_mut(), self.moved.view(), target.t());
        for (mut row, alpha) in cost.axis_iter_mut(Axis(0)).zip(&self.alpha) {
            row.zip_mut_with(&beta, |c, beta| *c = alpha + beta - 2.0 * *c);
        }
        cost
    }
}

/// g_j = min_i C_ij − f_i, and the i of each.
fn transform(cost: &Array2<f64>, f: &Array1<f64>, g: &mut Array1<f64>, places: &mut [f64]) {
    let g = g.as_slice_mut().expect("one dimension");
    g.fill(f64::INFINITY);
    for (i, row) in cost.outer_iter().enumerate() {
        let row = row.to_slice().expect("rows are contiguous");
        lower_with_places(g, places, row, f[i], i as f64);
    }
}

fn check(corpus: &Corpus, measure: usize) -> Result<()> {
    if measure < corpus.len() {
        return Ok(());
    }
    Err(Error::parameter("measure", format!("below the number of measures, {}", corpus.len()), measure))
}

/// H(w) = −Σ w ln w.
fn entropy_of(weights: &Array1<f64>) -> f64 {
    -weights.iter().filter(|weight| **weight > 0.0).map(|weight| weight * weight.ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::measure;
    use crate::{Grouping, Measure, Problem, Settings};

    #[test]
    fn plain_bounds_come_near_the_distance() {
        let measures: Vec<_> = (1..12).map(|seed| measure(30, 4, seed)).collect();
        let corpus = Corpus::new(&measures.iter().collect::<Vec<_>>(), &Grouping::none(4)).unwrap();
        let screen = Screen::new(&corpus, 0, &[1], &MetricSet::W2, 0.0).unwrap();
        for (at, other) in measures.iter().enumerate().skip(1) {
            let exact = Problem::new(&measures[0], other, MetricSet::W2).unwrap();
            let exact = exact.solve(&Settings::default()).unwrap().value;
            let first = screen.bound(at, f64::INFINITY).unwrap();
            let raised = screen.bound(at, 0.999 * exact).unwrap();
            assert!(first < raised, "{first} {raised}");
            assert!(raised > 0.9 * exact, "{raised} {exact}");
        }
    }

    #[test]
    fn points_that_coincide_and_huge_ones() {
        let source = measure(3, 2, 1);
        let far = Measure::uniform(source.points() * 1e150).unwrap();
        let corpus = Corpus::new(&[&source, &source, &far], &Grouping::none(2)).unwrap();
        let screen = Screen::new(&corpus, 0, &[1], &MetricSet::W2, 0.0).unwrap();
        assert!(screen.bound(1, 1.0).unwrap() <= 0.0);
        assert!(!screen.bound(2, 1.0).unwrap().is_nan());
        assert!(screen.bound(3, 1.0).is_err());
        assert!(Screen::new(&corpus, 0, &[], &MetricSet::W2, 0.0).is_err());
    }
}
