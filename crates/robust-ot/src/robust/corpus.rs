//! Many measures around one center, for the distances between them.

use ndarray::{Array1, Array2, Axis};

use crate::displacement::{by_slots, lay_out, second_moment, symmetrized, weighted_sum};
use crate::error::{Error, Result};
use crate::frame::{Frame, OF_CENTERING, Rounding};
use crate::grouping::Grouping;
use crate::linalg::product;
use crate::measure::{Measure, WeightRounding};

/// Measures laid out by groups, with the precomputed quantities that every pair needs.
///
/// ```
/// use ndarray::array;
/// use robust_ot::device::Corpus;
/// use robust_ot::{Grouping, Measure};
///
/// let measures = [array![[0.0, 1.0]], array![[2.0, 1.0], [4.0, 1.0]]].map(|points| Measure::uniform(points).unwrap());
/// let corpus = Corpus::new(&measures.each_ref(), &Grouping::none(2))?;
/// assert_eq!((corpus.len(), corpus.points(1).nrows()), (2, 2));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Corpus {
    members: Vec<Member>,
    center: Array1<f64>,
    grouping: Grouping,
}

#[derive(Debug, Clone)]
struct Member {
    /// Relative to the center, slots × groups per row.
    points: Array2<f64>,
    weights: Array1<f64>,
    /// Σ a_i s_iᵀ s_i over slots.
    second: Array2<f64>,
    mean: Array2<f64>,
    rounding: WeightRounding,
}

impl Corpus {
    /// Lays the measures out around the mean of their means.
    ///
    /// # Errors
    /// When there are no measures, or their numbers of features differ from each other or from the grouping's.
    pub fn new(measures: &[&Measure], grouping: &Grouping) -> Result<Self> {
        check(measures, grouping)?;
        let mut center = Array1::zeros(grouping.dim());
        measures.iter().for_each(|measure| center += &weighted_sum(measure.points(), measure.weights()));
        center /= measures.len() as f64;
        Self::around(center, measures, grouping)
    }

    /// Lays the measures out around a given center: a [`Screen`](crate::bounds::Screen) of one corpus also bounds distances to
    /// others with the same center. A center close to all points keeps the rounding allowance of the bounds small.
    ///
    /// # Errors
    /// As [`Corpus::new`], and when the center has another number of features or is not finite.
    pub fn around(center: Array1<f64>, measures: &[&Measure], grouping: &Grouping) -> Result<Self> {
        check(measures, grouping)?;
        if center.len() != grouping.dim() {
            return Err(Error::Dimension { source_dim: grouping.dim(), target_dim: center.len() });
        }
        if let Some(odd) = center.iter().find(|x| !x.is_finite()) {
            return Err(Error::parameter("center", "finite", odd));
        }
        let groups = grouping.groups();
        let members = measures.iter().map(|measure| {
            let points = lay_out(measure.points(), &center, grouping);
            let weights = measure.weights().clone();
            let second = second_moment(&points, &weights, groups);
            let mean = weighted_sum(&points, &weights).insert_axis(Axis(0));
            Member { points, weights, second, mean, rounding: measure.weight_rounding() }
        });
        Ok(Self { members: members.collect(), center, grouping: grouping.clone() })
    }

    /// Number of measures.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Always false: a corpus has at least one measure.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The number of groups r.
    pub fn size(&self) -> usize {
        self.grouping.groups()
    }

    /// Numbers per point: slots · r.
    pub fn dim(&self) -> usize {
        self.grouping.slots() * self.grouping.groups()
    }

    /// The laid-out points of a measure.
    pub fn points(&self, measure: usize) -> &Array2<f64> {
        &self.members[measure].points
    }

    /// The weights of a measure.
    pub fn weights(&self, measure: usize) -> &Array1<f64> {
        &self.members[measure].weights
    }

    /// The grouping of the features.
    pub fn grouping(&self) -> &Grouping {
        &self.grouping
    }

    /// The center, which is subtracted from all points.
    pub fn center(&self) -> &Array1<f64> {
        &self.center
    }

    /// Σ w_i x_iᵀ x_i of a measure, over slots.
    pub(super) fn second_moment(&self, measure: usize) -> &Array2<f64> {
        &self.members[measure].second
    }

    /// The r × r summary of a pair.
    pub(super) fn frame(&self, first: usize, second: usize) -> Frame {
        let (source, target, groups) = (&self.members[first], &self.members[second], self.size());
        let shared = &source.second + &target.second;
        let cross = product(by_slots(source.mean.view(), groups).t(), by_slots(target.mean.view(), groups));
        let independent = symmetrized(&shared - &cross - cross.t());
        let points = source.weights.len() + target.weights.len();
        let rounding = Rounding { blur: OF_CENTERING, weights: [source.rounding, target.rounding] };
        Frame { shared, independent, dim: self.dim(), points, rounding }
    }
}

fn check(measures: &[&Measure], grouping: &Grouping) -> Result<()> {
    let dim = grouping.dim();
    if let Some(other) = measures.iter().find(|measure| measure.dim() != dim) {
        return Err(Error::Dimension { source_dim: dim, target_dim: other.dim() });
    }
    if measures.is_empty() {
        return Err(Error::Empty { rows: 0, columns: dim });
    }
    Ok(())
}
