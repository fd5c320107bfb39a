//! Many measures around one centre, for the distances among them.

use ndarray::{Array1, Array2, Axis};

use super::frame::Frame;
use crate::displacement::{by_slots, lay_out, second_moment, symmetrised, weighted_sum};
use crate::error::{Error, Result};
use crate::grouping::Grouping;
use crate::linalg::product;
use crate::measure::Measure;

/// Measures laid out by groups, with what every pair of them needs beforehand.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Corpus, Grouping, Measure};
///
/// let measures = [array![[0.0, 1.0]], array![[2.0, 1.0], [4.0, 1.0]]].map(|points| Measure::uniform(points).unwrap());
/// let corpus = Corpus::new(&measures.each_ref(), &Grouping::none(2))?;
/// assert_eq!((corpus.len(), corpus.points(1).nrows()), (2, 2));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Corpus {
    members: Vec<Member>,
    groups: usize,
    dim: usize,
}

#[derive(Debug, Clone)]
struct Member {
    /// Seen from the mean of all measures, slots × groups a row.
    points: Array2<f64>,
    weights: Array1<f64>,
    /// Σ a_i s_iᵀ s_i over slots.
    second: Array2<f64>,
    mean: Array2<f64>,
}

impl Corpus {
    /// Lays the measures out.
    ///
    /// # Errors
    /// When there is none, or their features differ from each other or from the grouping.
    pub fn new(measures: &[&Measure], grouping: &Grouping) -> Result<Self> {
        let dim = grouping.dim();
        if let Some(other) = measures.iter().find(|measure| measure.dim() != dim) {
            return Err(Error::Dimension { source_dim: dim, target_dim: other.dim() });
        }
        if measures.is_empty() {
            return Err(Error::Empty { rows: 0, columns: dim });
        }
        let mut centre = Array1::zeros(dim);
        measures.iter().for_each(|measure| centre += &weighted_sum(measure.points(), measure.weights()));
        centre /= measures.len() as f64;
        let groups = grouping.groups();
        let members = measures.iter().map(|measure| {
            let points = lay_out(measure.points(), &centre, grouping);
            let weights = measure.weights().clone();
            let second = second_moment(&points, &weights, groups);
            let mean = weighted_sum(&points, &weights).insert_axis(Axis(0));
            Member { points, weights, second, mean }
        });
        Ok(Self { members: members.collect(), groups, dim: grouping.slots() * groups })
    }

    /// Number of measures.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Never: a corpus has a measure.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// r.
    pub fn size(&self) -> usize {
        self.groups
    }

    /// Numbers a point: slots · r.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The points of a measure, laid out.
    pub fn points(&self, measure: usize) -> &Array2<f64> {
        &self.members[measure].points
    }

    /// The weights of a measure.
    pub fn weights(&self, measure: usize) -> &Array1<f64> {
        &self.members[measure].weights
    }

    /// Half-way between the means of two measures.
    pub(super) fn centre(&self, first: usize, second: usize) -> Array1<f64> {
        let mean = (&self.members[first].mean + &self.members[second].mean) * 0.5;
        mean.index_axis_move(Axis(0), 0)
    }

    /// What a pair comes to in r × r.
    pub(super) fn frame(&self, first: usize, second: usize) -> Frame {
        let (source, target) = (&self.members[first], &self.members[second]);
        let shared = &source.second + &target.second;
        let cross =
            product(by_slots(source.mean.view(), self.groups).t(), by_slots(target.mean.view(), self.groups));
        let independent = symmetrised(&shared - &cross - cross.t());
        Frame { shared, independent, dim: self.dim }
    }
}
