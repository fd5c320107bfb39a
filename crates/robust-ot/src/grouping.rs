//! Feature groups: the metric $M = B \otimes I_{d_1}$ of the paper, with $B$ of size $r \times r$.

use ndarray::{Array2, Axis};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};

/// The assignment of the d features to r groups.
///
/// A feature's slot is its rank within its group, in feature order. Two groups interact slot by slot:
/// $U_{ab} = \sum_{ij} \gamma_{ij} \sum_{\text{slots}} (s_i-t_j)_{a,\text{slot}}\thinspace (s_i-t_j)_{b,\text{slot}}$.
/// Groups of unequal size are padded with zeros.
///
/// ```
/// use robust_ot::Grouping;
///
/// let grouping = Grouping::contiguous(7, 3)?;
/// assert_eq!(grouping.assignment(), [0, 0, 0, 1, 1, 2, 2]);
/// assert_eq!(grouping.groups(), 3);
/// assert_eq!(grouping.slots(), 3);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    assignment: Vec<usize>,
    slot: Vec<usize>,
    groups: usize,
    slots: usize,
}

impl Grouping {
    /// Makes every feature a group of its own: the plain d × d metric.
    ///
    /// ```
    /// assert_eq!(robust_ot::Grouping::none(4).groups(), 4);
    /// ```
    pub fn none(dim: usize) -> Self {
        Self::index((0..dim).collect(), dim)
    }

    /// Assigns neighboring features to the same group: the layout of the Kronecker product, and the default.
    ///
    /// # Errors
    /// When there are no groups or more groups than features.
    pub fn contiguous(dim: usize, groups: usize) -> Result<Self> {
        check_count(dim, groups)?;
        let (size, larger) = (dim / groups, dim % groups);
        let sizes = (0..groups).map(|group| size + usize::from(group < larger));
        let assignment =
            sizes.enumerate().flat_map(|(group, size)| std::iter::repeat_n(group, size)).collect();
        Ok(Self::index(assignment, groups))
    }

    /// Assigns feature f to group f mod r.
    ///
    /// ```
    /// assert_eq!(robust_ot::Grouping::interleaved(5, 2)?.assignment(), [0, 1, 0, 1, 0]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there are no groups or more groups than features.
    pub fn interleaved(dim: usize, groups: usize) -> Result<Self> {
        check_count(dim, groups)?;
        Ok(Self::index((0..dim).map(|feature| feature % groups).collect(), groups))
    }

    /// Assigns features at random, with the group sizes of [`Grouping::contiguous`]; reproducible for a given seed.
    ///
    /// ```
    /// use robust_ot::Grouping;
    /// assert_eq!(Grouping::random(60, 10, 7)?, Grouping::random(60, 10, 7)?);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there are no groups or more groups than features.
    pub fn random(dim: usize, groups: usize, seed: u64) -> Result<Self> {
        let mut assignment = Self::contiguous(dim, groups)?.assignment;
        assignment.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        Ok(Self::index(assignment, groups))
    }

    /// Takes one group index per feature, counted from 0; every group up to the largest must be used.
    ///
    /// ```
    /// let grouping = robust_ot::Grouping::explicit(vec![1, 0, 1])?;
    /// assert_eq!(grouping.groups(), 2);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no feature, or a group below the largest index is empty.
    pub fn explicit(assignment: Vec<usize>) -> Result<Self> {
        let Some(&largest) = assignment.iter().max() else {
            return Err(Error::Grouping {
                rule: "name a group for each feature".into(),
                found: "it is empty".into(),
            });
        };
        // An index past the number of features leaves one of the first groups empty, so no others need a check.
        let mut used = vec![false; assignment.len()];
        for &group in &assignment {
            if let Some(used) = used.get_mut(group) {
                *used = true;
            }
        }
        let groups = largest.saturating_add(1);
        let empty =
            used.iter().take(groups).position(|used| !used).or((groups > used.len()).then_some(used.len()));
        if let Some(group) = empty {
            return Err(Error::Grouping {
                rule: format!("use every group from 0 to its largest, {largest}"),
                found: format!("group {group} has no feature"),
            });
        }
        Ok(Self::index(assignment, groups))
    }

    /// Ranks every feature within its group.
    fn index(assignment: Vec<usize>, groups: usize) -> Self {
        let mut sizes = vec![0; groups];
        let slot = assignment
            .iter()
            .map(|&group| {
                sizes[group] += 1;
                sizes[group] - 1
            })
            .collect();
        Self { assignment, slot, groups, slots: sizes.into_iter().max().unwrap_or(0) }
    }

    /// Number of features d.
    pub fn dim(&self) -> usize {
        self.assignment.len()
    }

    /// Number of groups r, the size of the metric.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Size of the largest group, d₁.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The group of every feature.
    pub fn assignment(&self) -> &[usize] {
        &self.assignment
    }

    /// Whether every feature is a group of its own, in order.
    pub fn is_none(&self) -> bool {
        self.slots == 1 && self.assignment.iter().enumerate().all(|(feature, &group)| feature == group)
    }

    /// Vectors that are laid out as slots × groups, by features.
    pub(crate) fn features(&self, laid: &Array2<f64>) -> Array2<f64> {
        let positions: Vec<usize> = (0..self.dim()).map(|feature| self.position(feature)).collect();
        laid.select(Axis(1), &positions)
    }

    /// The position of a feature in a point laid out as slots × groups.
    ///
    /// ```
    /// let grouping = robust_ot::Grouping::explicit(vec![1, 0, 1])?;
    /// assert_eq!([0, 1, 2].map(|feature| grouping.position(feature)), [1, 0, 3]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn position(&self, feature: usize) -> usize {
        self.slot[feature] * self.groups + self.assignment[feature]
    }
}

fn check_count(dim: usize, groups: usize) -> Result<()> {
    if groups == 0 || groups > dim {
        return Err(Error::parameter(
            "groups",
            format!("between 1 and the number of features, {dim}"),
            groups,
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_groups_have_the_sizes_of_contiguous_ones() {
        let mut sorted = Grouping::random(17, 5, 3).unwrap().assignment;
        sorted.sort_unstable();
        assert_eq!(sorted, Grouping::contiguous(17, 5).unwrap().assignment);
    }

    #[test]
    fn positions_are_a_bijection_into_the_padded_layout() {
        let grouping = Grouping::random(17, 5, 1).unwrap();
        let mut positions: Vec<_> = (0..17).map(|f| grouping.position(f)).collect();
        positions.sort_unstable();
        positions.dedup();
        assert_eq!(positions.len(), 17);
        assert!(positions[16] < grouping.slots() * grouping.groups());
    }

    #[test]
    fn refuses_counts_and_gaps() {
        assert!(Grouping::contiguous(3, 0).is_err());
        assert!(Grouping::contiguous(3, 4).is_err());
        assert!(Grouping::explicit(vec![]).is_err());
        assert!(Grouping::explicit(vec![0, 2]).is_err());
        assert!(Grouping::explicit(vec![0, usize::MAX]).is_err());
    }
}
