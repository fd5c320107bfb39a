//! Cheap lower bounds on the distances from one measure to many. For every metric $M$ of the set and every potential $f$,
//!
//! $$W \ge \langle a, f\rangle + \langle b, f^c\rangle - R(M), \qquad f^c_j = \min_i\ C(M)_{ij} - f_i ,$$
//!
//! so one metric serves many distances, and no plain problem has to be solved to optimality: subgradient steps of
//! Polyak's length raise the bound toward the limit that a distance must stay below, and stop once the bound exceeds it.

use ndarray::{Array1, Array2, Axis};

use super::corpus::Corpus;
use super::model::Model;
use crate::displacement::moved;
use crate::error::{Error, Result};
use crate::frame::rounding_per_moment;
use crate::grouping::Grouping;
use crate::kernels::lower_with_places;
use crate::linalg::product_into;
use crate::metric::MetricSet;
use crate::transport::dual_value;

/// The most steps per bound: of the bounds that exceed their limit at all, most do so within six.
const PASSES: usize = 20;
/// How far beyond the limit steps aim, as a fraction of the plain distance.
const BEYOND: f64 = 0.01;

/// Lower bounds on the distances from one measure of a corpus to others, in the same corpus or in one with the same
/// center.
///
/// ```
/// use ndarray::array;
/// use robust_ot::bounds::Screen;
/// use robust_ot::device::Corpus;
/// use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
/// let near = Measure::uniform(array![[0.5, 0.0], [1.0, 0.5]])?;
/// let far = Measure::uniform(array![[4.0, 3.0], [5.0, 2.0]])?;
/// let (set, grouping) = (MetricSet::P { k: 1 }, Grouping::none(2));
/// let limit = Problem::new(&source, &near, set.clone())?.solve(&Settings::default())?.value;
///
/// let corpus = Corpus::new(&[&source, &near], &grouping)?;
/// let screen = Screen::new(&corpus, 0, &[1], &set, 0.0)?;
/// assert!(screen.bound(&corpus, 1, limit)? <= limit);
/// let others = Corpus::around(corpus.center().clone(), &[&far], &grouping)?;
/// assert!(screen.bound(&others, 0, limit)? > limit);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Screen {
    /// The layout of the points: grouping and center.
    grouping: Grouping,
    center: Array1<f64>,
    weights: Array1<f64>,
    metric: Array2<f64>,
    /// S M, and s_iᵀ M s_i.
    moved: Array2<f64>,
    alpha: Array1<f64>,
    /// R(M) + λ_γ H(a), plus the rounding allowance for the source.
    charge: f64,
    /// The rounding allowance per unit of the target's second moments.
    rounding: Array1<f64>,
    entropy: f64,
}

impl Screen {
    /// Bounds under the metric that is worst for the independent plans to the measures in `like`.
    ///
    /// # Errors
    /// When a parameter of the set or the entropy is out of range, or there is no such measure.
    pub fn new(
        corpus: &Corpus,
        source: usize,
        like: &[usize],
        set: &MetricSet,
        entropy: f64,
    ) -> Result<Self> {
        let groups = corpus.size();
        set.check(groups)?;
        check(corpus, source)?;
        if !(0.0..=1e200).contains(&entropy) {
            return Err(Error::parameter("entropy", "not negative and at most 1e200", entropy));
        }
        if like.is_empty() {
            return Err(Error::parameter("like", "at least one measure", 0));
        }
        let mut moment = Array2::zeros((groups, groups));
        for &other in like {
            check(corpus, other)?;
            moment += &corpus.frame(source, other).independent;
        }
        moment /= like.len() as f64;
        let (metric, penalty) = Model::new(set, false, &moment).first_metric(&moment)?;
        let (moved, alpha) = moved(corpus.points(source), &metric);
        let rounding = rounding_per_moment(&metric, corpus.dim());
        let weights = corpus.weights(source).clone();
        let charge =
            penalty + entropy * entropy_of(&weights) + rounding.dot(&corpus.second_moment(source).diag());
        let (grouping, center) = (corpus.grouping().clone(), corpus.center().clone());
        Ok(Self { grouping, center, weights, metric, moved, alpha, charge, rounding, entropy })
    }

    /// A lower bound on the distance to the target, raised until it exceeds the limit or until a few steps are used up.
    ///
    /// # Errors
    /// When there is no such measure, or the corpus is laid out around another center or in other groups.
    pub fn bound(&self, corpus: &Corpus, target: usize, limit: f64) -> Result<f64> {
        check(corpus, target)?;
        if corpus.center() != self.center || *corpus.grouping() != self.grouping {
            let rule = "laid out like the screen's, around the same center and in the same groups";
            return Err(Error::parameter("corpus", rule, "laid out differently"));
        }
        let (a, b) = (&self.weights, corpus.weights(target));
        let cost = self.costs(corpus.points(target));
        let charge = self.charge
            + self.entropy * entropy_of(b)
            + self.rounding.dot(&corpus.second_moment(target).diag());

        let mut f: Array1<f64> =
            cost.outer_iter().map(|row| 0.5 * row.fold(f64::INFINITY, |x, y| x.min(*y))).collect();
        let (mut g, mut places) = (Array1::zeros(b.len()), vec![0.0; b.len()]);
        let mut slope = Array1::zeros(a.len());
        let mut best = f64::NEG_INFINITY;
        for _ in 0..PASSES {
            transform(&cost, &f, &mut g, &mut places);
            let (dual, of_dual) = dual_value((a, b), (&f, &g));
            let bound = dual - of_dual - charge - 2.0 * f64::EPSILON * (dual.abs() + charge.abs());
            best = best.max(bound);
            // Without a limit there is nothing to aim at.
            if best > limit || limit == f64::INFINITY {
                break;
            }
            slope.assign(a);
            places.iter().zip(b).for_each(|(&place, weight)| slope[place as usize] -= weight);
            let steepness = slope.dot(&slope);
            let step = (limit - bound + BEYOND * dual.abs()) / steepness;
            // At the maximum, or out of the range of f64.
            if !(step.is_finite() && step > 0.0) {
                break;
            }
            f.scaled_add(step, &slope);
        }
        Ok(best)
    }

    /// C(M) = α ⊕ β − 2 (S M) Tᵀ.
    fn costs(&self, target: &Array2<f64>) -> Array2<f64> {
        let (_, beta) = moved(target, &self.metric);
        let mut cost = Array2::zeros((self.alpha.len(), beta.len()));
        product_into(cost.view_mut(), self.moved.view(), target.t());
        for (mut row, alpha) in cost.axis_iter_mut(Axis(0)).zip(&self.alpha) {
            row.zip_mut_with(&beta, |c, beta| *c = alpha + beta - 2.0 * *c);
        }
        cost
    }
}

/// g_j = min_i C_ij − f_i, and the minimizing i of each.
fn transform(cost: &Array2<f64>, f: &Array1<f64>, g: &mut Array1<f64>, places: &mut [f64]) {
    let g = g.as_slice_mut().expect("vectors are contiguous");
    g.fill(f64::INFINITY);
    for (i, row) in cost.outer_iter().enumerate() {
        let row = row.to_slice().expect("rows are contiguous");
        lower_with_places(g, places, row, f[i], i as f64);
    }
}

/// Checks that there is such a measure.
fn check(corpus: &Corpus, measure: usize) -> Result<()> {
    if measure < corpus.len() {
        return Ok(());
    }
    Err(Error::parameter("measure", format!("below the number of measures, {}", corpus.len()), measure))
}

/// An upper bound on H(w) = −Σ w ln w: rounding is added.
pub(super) fn entropy_of(weights: &Array1<f64>) -> f64 {
    let sum = weights.iter().filter(|weight| **weight > 0.0).map(|weight| weight * weight.ln()).sum::<f64>();
    -sum * (1.0 + 4.0 * f64::EPSILON * weights.len() as f64)
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
            let first = screen.bound(&corpus, at, f64::INFINITY).unwrap();
            let raised = screen.bound(&corpus, at, 0.999 * exact).unwrap();
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
        assert!(screen.bound(&corpus, 1, 1.0).unwrap() <= 0.0);
        assert!(!screen.bound(&corpus, 2, 1.0).unwrap().is_nan());
        assert!(screen.bound(&corpus, 3, 1.0).is_err());
        assert!(Screen::new(&corpus, 0, &[], &MetricSet::W2, 0.0).is_err());
    }

    #[test]
    fn other_corpora_are_looked_at_around_the_same_center() {
        let (source, near, far) = (measure(5, 4, 1), measure(6, 4, 2), measure(4, 4, 3));
        let grouping = Grouping::contiguous(4, 2).unwrap();
        let whole = Corpus::new(&[&source, &near, &far], &grouping).unwrap();
        let screen = Screen::new(&whole, 0, &[1], &MetricSet::P { k: 1 }, 0.1).unwrap();
        let part = Corpus::around(whole.center().clone(), &[&far], &grouping).unwrap();
        let bounds = [(&whole, 2), (&part, 0)].map(|(corpus, at)| screen.bound(corpus, at, 1.0).unwrap());
        assert_eq!(bounds[0].to_bits(), bounds[1].to_bits());
        let told = screen.bound(&Corpus::new(&[&far], &grouping).unwrap(), 0, 1.0).unwrap_err();
        assert!(told.to_string().contains("around the same center"), "{told}");
        let apart = Corpus::around(whole.center().clone(), &[&far], &Grouping::none(4)).unwrap();
        assert!(screen.bound(&apart, 0, 1.0).is_err());
        let otherwise = Grouping::interleaved(4, 2).unwrap();
        let otherwise = Corpus::around(whole.center().clone(), &[&far], &otherwise).unwrap();
        assert!(screen.bound(&otherwise, 0, 1.0).is_err());
        for entropy in [-1.0, f64::NAN] {
            assert!(Screen::new(&whole, 0, &[1], &MetricSet::W2, entropy).is_err());
        }
        assert!(Corpus::around(Array1::zeros(3), &[&far], &grouping).is_err());
        assert!(Corpus::around(Array1::from_elem(4, f64::NAN), &[&far], &grouping).is_err());
    }
}
