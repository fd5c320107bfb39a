//! The cheapest lower bound on a distance. $V$ of any plan is that of the means plus a positive semidefinite matrix:
//!
//! $$W \ge h(\Delta^\top \Delta), \qquad \Delta = \mathrm{mean}(a) - \mathrm{mean}(b) \text{ laid out by groups.}$$

use ndarray::{Array1, Array2, ArrayView1, Axis};

use crate::displacement::{by_slots, lay_out, symmetrized};
use crate::error::{Error, Result};
use crate::frame::rounding_per_moment;
use crate::grouping::Grouping;
use crate::linalg::{inner, product};
use crate::metric::MetricSet;

/// A mean is itself a sum of products; the rounding allowance includes this many of them.
const WORDS: usize = 1000;

/// The means of many measures, for lower bounds on the distances between them without entropy.
///
/// ```
/// use ndarray::array;
/// use robust_ot::bounds::Means;
/// use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings};
///
/// let points = [array![[0.0, 1.0], [2.0, 1.0]], array![[3.0, 1.0], [5.0, 3.0]]];
/// let means = Means::new(&array![[1.0, 1.0], [4.0, 2.0]], &Grouping::none(2), MetricSet::W2)?;
/// let [source, target] = points.map(|points| Measure::uniform(points).unwrap());
/// let distance = Problem::new(&source, &target, MetricSet::W2)?.solve(&Settings::default())?.value;
/// let bound = means.bound(0, 1)?;
/// assert!(bound > 9.999 && bound <= distance); // 3² + 1²
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Means {
    /// Relative to their own mean, slots × groups per row.
    points: Array2<f64>,
    groups: usize,
    set: MetricSet,
}

impl Means {
    /// Takes one mean per row.
    ///
    /// # Errors
    /// When there are no means, one is not finite, or the grouping or the metric set does not fit.
    pub fn new(means: &Array2<f64>, grouping: &Grouping, set: MetricSet) -> Result<Self> {
        set.check(grouping.groups())?;
        if means.ncols() != grouping.dim() {
            return Err(Error::Dimension { source_dim: grouping.dim(), target_dim: means.ncols() });
        }
        if let Some(((row, column), &value)) = means.indexed_iter().find(|(_, x)| !x.is_finite()) {
            return Err(Error::NotFinite { name: "means", row, column, value });
        }
        let Some(center) = means.mean_axis(Axis(0)) else {
            return Err(Error::Empty { rows: 0, columns: means.ncols() });
        };
        Ok(Self { points: lay_out(means, &center, grouping), groups: grouping.groups(), set })
    }

    /// Number of measures.
    pub fn len(&self) -> usize {
        self.points.nrows()
    }

    /// Always false: there is at least one mean.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// A lower bound on the distance between two measures: ∞ where e^{V/λ} overflows, −∞ where a power is not
    /// representable.
    ///
    /// # Errors
    /// When there is no such measure.
    pub fn bound(&self, source: usize, target: usize) -> Result<f64> {
        let (s, t) = (self.row(source)?, self.row(target)?);
        let apart = (&s - &t).insert_axis(Axis(0));
        let slots = by_slots(apart.view(), self.groups);
        let moment = symmetrized(product(slots.t(), slots));
        let worst = match self.set.evaluate(&moment) {
            // h only grows with V.
            Err(Error::Overflow { .. }) => return Ok(f64::INFINITY),
            Err(Error::Range { .. }) => return Ok(f64::NEG_INFINITY),
            worst => worst?,
        };
        let mut seconds = Array1::zeros(self.groups);
        for (at, (s, t)) in s.iter().zip(&t).enumerate() {
            seconds[at % self.groups] += s * s + t * t;
        }
        let rounding = rounding_per_moment(&worst.metric, self.points.ncols() + WORDS).dot(&seconds);
        Ok(inner(&worst.metric, &moment) - self.set.penalty(&moment, &worst) - rounding)
    }

    fn row(&self, measure: usize) -> Result<ArrayView1<'_, f64>> {
        if measure < self.len() {
            return Ok(self.points.row(measure));
        }
        Err(Error::parameter("measure", format!("below the number of measures, {}", self.len()), measure))
    }
}
