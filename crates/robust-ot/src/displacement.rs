//! The linear map from plans to moments and its adjoint from metrics to costs:
//!
//! $$V_\gamma = \sum_{ij} \gamma_{ij} (s_i - t_j)(s_i - t_j)^\top, \qquad
//!   C(M)_{ij} = (s_i - t_j)^\top M (s_i - t_j), \qquad \langle C(M), \gamma\rangle = \langle M, V_\gamma\rangle.$$

use ndarray::{Array1, Array2, ArrayView2, Axis};

use crate::error::{Error, Result};
use crate::frame::{Frame, OF_CENTERING, Rounding};
use crate::grouping::Grouping;
use crate::linalg::product;
use crate::measure::Measure;
use crate::transport::{CostFactors, Deficits};

/// Two point sets seen through their differences.
///
/// A common center is subtracted first: V does not change, and a large offset costs no digits. Points are laid out
/// as slots × groups: each point is d₁ rows of r numbers, and the plain metric is the case d₁ = 1.
///
/// ```
/// use ndarray::array;
/// use robust_ot::sets::Displacements;
/// use robust_ot::{Grouping, Measure};
///
/// let source = Measure::uniform(array![[0.0, 0.0]])?;
/// let target = Measure::uniform(array![[3.0, 4.0], [0.0, 1.0]])?;
/// let displacements = Displacements::new(&source, &target, &Grouping::none(2))?;
/// assert_eq!(displacements.cost(&array![[1.0, 0.0], [0.0, 1.0]])?, array![[25.0, 1.0]]);
/// assert_eq!(displacements.moment(&array![[0.5, 0.5]])?, array![[4.5, 6.0], [6.0, 8.5]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Displacements {
    source: Array2<f64>,
    target: Array2<f64>,
    groups: usize,
    frame: Frame,
}

impl Displacements {
    /// Centers both point sets and lays them out by groups.
    ///
    /// # Errors
    /// When the numbers of features differ, or differ from the grouping's.
    pub fn new(source: &Measure, target: &Measure, grouping: &Grouping) -> Result<Self> {
        if source.dim() != target.dim() {
            return Err(Error::Dimension { source_dim: source.dim(), target_dim: target.dim() });
        }
        if grouping.dim() != source.dim() {
            return Err(Error::Grouping {
                rule: format!("cover {} features", source.dim()),
                found: format!("it covers {}", grouping.dim()),
            });
        }
        let center = center(source, target);
        let lay_out = |measure: &Measure| lay_out(measure.points(), &center, grouping);
        let points = (lay_out(source), lay_out(target));
        let rounding =
            Rounding { blur: OF_CENTERING, weights: [source, target].map(Measure::weight_rounding) };
        Ok(Self::from_layout(points, grouping.groups(), (source.weights(), target.weights()), rounding))
    }

    /// Builds the map from points that are already centered and laid out.
    pub(crate) fn from_layout(
        (source, target): (Array2<f64>, Array2<f64>),
        groups: usize,
        (source_weights, target_weights): (&Array1<f64>, &Array1<f64>),
        rounding: Rounding,
    ) -> Self {
        let shared =
            second_moment(&source, source_weights, groups) + second_moment(&target, target_weights, groups);
        let source_mean = weighted_sum(&source, source_weights).insert_axis(Axis(0));
        let target_mean = weighted_sum(&target, target_weights).insert_axis(Axis(0));
        let cross = product(by_slots(source_mean.view(), groups).t(), by_slots(target_mean.view(), groups));
        let independent = symmetrized(&shared - &cross - cross.t());
        let points = source.nrows() + target.nrows();
        let frame = Frame { shared, independent, dim: source.ncols(), points, rounding };
        Self { source, target, groups, frame }
    }

    /// Number of source points m.
    pub fn source_len(&self) -> usize {
        self.source.nrows()
    }

    /// Number of target points n.
    pub fn target_len(&self) -> usize {
        self.target.nrows()
    }

    /// Size r of the moments and metrics: the number of groups, or of features without grouping.
    pub fn size(&self) -> usize {
        self.groups
    }

    /// The laid-out points, source and target.
    pub(crate) fn points(&self) -> (&Array2<f64>, &Array2<f64>) {
        (&self.source, &self.target)
    }

    /// C(M), m × n.
    ///
    /// # Errors
    /// When M is not of size r × r.
    pub fn cost(&self, metric: &Array2<f64>) -> Result<Array2<f64>> {
        check_shape("the metric", metric, (self.groups, self.groups))?;
        Ok(self.cost_matrix(metric))
    }

    /// The factors of C(M), from which rows are formed on demand.
    ///
    /// # Errors
    /// When M is not of size r × r.
    pub fn factors(&self, metric: &Array2<f64>) -> Result<CostFactors> {
        check_shape("the metric", metric, (self.groups, self.groups))?;
        // The caller's matrix need not be positive semi-definite.
        let mut factors = self.cost_factors(metric);
        factors.squared = false;
        Ok(factors)
    }

    /// C(M) = α ⊕ β − 2 (S M) Tᵀ with α_i = s_iᵀ M s_i and β_j = t_jᵀ M t_j.
    pub(crate) fn cost_factors(&self, metric: &Array2<f64>) -> CostFactors {
        self.cost_factors_from(&self.source, metric)
    }

    /// C(M) between other points, laid out as these, and the target points.
    pub(crate) fn cost_factors_from(&self, points: &Array2<f64>, metric: &Array2<f64>) -> CostFactors {
        let (x, alpha) = moved(points, metric);
        let (_, beta) = moved(&self.target, metric);
        CostFactors::new((x, self.target.clone()), (alpha, beta), true)
    }

    pub(crate) fn cost_matrix(&self, metric: &Array2<f64>) -> Array2<f64> {
        self.cost_factors(metric).matrix()
    }

    /// An upper bound on how far rounding in [`Displacements::cost`] can move the optimum of a linear problem.
    pub(crate) fn rounding(&self, metric: &Array2<f64>) -> f64 {
        self.frame.rounding(metric)
    }

    /// A bound on ‖ΔV‖_F where the sums of rows and columns are not the weights but off by ρ and σ: V is the shared part minus
    /// X + Xᵀ with X = Σ γ_ij s_i t_jᵀ, so at most 2 (Σ ρ_i ‖s_i‖ max ‖t_j‖ + Σ σ_j ‖t_j‖ max ‖s_i‖).
    pub(crate) fn rounding_of_unplaced(&self, deficits: &Deficits) -> f64 {
        let (rows, columns) = &deficits.unplaced;
        let lengths = |points: &Array2<f64>| -> Array1<f64> {
            points.outer_iter().map(|point| point.dot(&point).sqrt()).collect()
        };
        let longest = |lengths: &Array1<f64>| lengths.fold(0.0_f64, |top, x| top.max(*x));
        let (source, target) = (lengths(&self.source), lengths(&self.target));
        2.0 * (rows.dot(&source) * longest(&target) + columns.dot(&target) * longest(&source))
    }

    /// The r × r summary of the points.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// V of a dense plan, by one m × n × d product.
    ///
    /// # Errors
    /// When γ is not m × n.
    pub fn moment(&self, plan: &Array2<f64>) -> Result<Array2<f64>> {
        check_shape("the plan", plan, (self.source_len(), self.target_len()))?;
        let spread = product(plan.view(), self.target.view());
        let (rows, columns) = (plan.sum_axis(Axis(1)), plan.sum_axis(Axis(0)));
        let own = second_moment(&self.source, &rows, self.groups)
            + second_moment(&self.target, &columns, self.groups);
        let cross =
            product(by_slots(self.source.view(), self.groups).t(), by_slots(spread.view(), self.groups));
        Ok(symmetrized(own - &cross - cross.t()))
    }

    /// V of a plan with the correct marginals, from the rows of γT.
    pub(crate) fn moment_of_spread(&self, spread: &Array2<f64>) -> Array2<f64> {
        let cross =
            product(by_slots(self.source.view(), self.groups).t(), by_slots(spread.view(), self.groups));
        symmetrized(&self.frame.shared - &cross - cross.t())
    }

    /// V of the independent plan a bᵀ.
    pub fn independent_moment(&self) -> &Array2<f64> {
        &self.frame.independent
    }

    /// An upper bound on V_aa over all plans between these points.
    pub(crate) fn largest_moment(&self) -> f64 {
        let range = |points: &Array2<f64>, pick: fn(f64, f64) -> f64, start: f64| {
            points.map_axis(Axis(0), |column| column.fold(start, |best, &x| pick(best, x)))
        };
        let (low_s, high_s) =
            (range(&self.source, f64::min, f64::INFINITY), range(&self.source, f64::max, f64::NEG_INFINITY));
        let (low_t, high_t) =
            (range(&self.target, f64::min, f64::INFINITY), range(&self.target, f64::max, f64::NEG_INFINITY));
        let mut by_group = vec![0.0; self.groups];
        for position in 0..self.source.ncols() {
            let apart = (high_s[position] - low_t[position]).max(high_t[position] - low_s[position]);
            by_group[position % self.groups] += apart * apart;
        }
        by_group.into_iter().fold(0.0, f64::max)
    }
}

/// The point halfway between the means of two measures.
pub(crate) fn center(source: &Measure, target: &Measure) -> Array1<f64> {
    let mean = |measure: &Measure| weighted_sum(measure.points(), measure.weights());
    (mean(source) + mean(target)) * 0.5
}

/// Every point times a matrix between groups.
pub(crate) fn times(points: &Array2<f64>, matrix: &Array2<f64>) -> Array2<f64> {
    let moved = product(by_slots(points.view(), matrix.nrows()), matrix.view());
    moved.into_shape_with_order(points.dim()).expect("same number of elements")
}

/// The points times the metric, and every point's squared length under it.
pub(crate) fn moved(points: &Array2<f64>, metric: &Array2<f64>) -> (Array2<f64>, Array1<f64>) {
    let moved = times(points, metric);
    let lengths =
        moved.outer_iter().zip(points.outer_iter()).map(|(moved, point)| moved.dot(&point)).collect();
    (moved, lengths)
}

fn check_shape(name: &'static str, matrix: &Array2<f64>, (rows, columns): (usize, usize)) -> Result<()> {
    if matrix.dim() == (rows, columns) {
        return Ok(());
    }
    let found = format!("{} × {}", matrix.nrows(), matrix.ncols());
    Err(Error::Shape { name, expected: format!("{rows} × {columns}"), found })
}

/// Xᵀ diag(w) X over points and slots.
pub(crate) fn second_moment(points: &Array2<f64>, weights: &Array1<f64>, groups: usize) -> Array2<f64> {
    let scaled = points * &weights.view().insert_axis(Axis(1));
    product(by_slots(scaled.view(), groups).t(), by_slots(points.view(), groups))
}

/// Σ w_i x_i, row by row: ndarray's own product runs along columns, whose entries are far apart in memory.
pub(crate) fn weighted_sum(points: &Array2<f64>, weights: &Array1<f64>) -> Array1<f64> {
    let mut sum = Array1::zeros(points.ncols());
    points.outer_iter().zip(weights).for_each(|(point, &weight)| sum.scaled_add(weight, &point));
    sum
}

/// Points as (number · slots) × groups.
pub(crate) fn by_slots(points: ArrayView2<'_, f64>, groups: usize) -> ArrayView2<'_, f64> {
    let rows = points.len() / groups;
    points.into_shape_with_order((rows, groups)).expect("points are row-major, slots × groups wide")
}

pub(crate) fn lay_out(points: &Array2<f64>, center: &Array1<f64>, grouping: &Grouping) -> Array2<f64> {
    let mut laid = Array2::zeros((points.nrows(), grouping.slots() * grouping.groups()));
    let positions: Vec<usize> = (0..grouping.dim()).map(|feature| grouping.position(feature)).collect();
    // Row by row: with many features, the entries of a column are far apart in memory.
    for (mut laid, point) in laid.outer_iter_mut().zip(points.outer_iter()) {
        let laid = laid.as_slice_mut().expect("new arrays are row-major");
        for ((&position, x), c) in positions.iter().zip(point).zip(center) {
            laid[position] = x - c;
        }
    }
    laid
}

pub(crate) fn symmetrized(a: Array2<f64>) -> Array2<f64> {
    let transposed = a.t().to_owned();
    (a + transposed) * 0.5
}

#[cfg(test)]
mod tests {
    use approx::{assert_abs_diff_eq, assert_relative_eq};
    use ndarray::array;
    use proptest::prelude::*;

    use super::*;
    use crate::linalg::inner;
    use crate::testing::{measure, metric, plan};
    use crate::transport::PlanEntry;

    /// U straight from its definition, feature by feature.
    fn brute_force(
        source: &Measure,
        target: &Measure,
        grouping: &Grouping,
        plan: &Array2<f64>,
    ) -> Array2<f64> {
        let mut moment = Array2::zeros((grouping.groups(), grouping.groups()));
        let slot = |f: usize| grouping.position(f) / grouping.groups();
        for ((i, j), mass) in plan.indexed_iter() {
            let difference = &source.points().row(i) - &target.points().row(j);
            for f in 0..grouping.dim() {
                for g in (0..grouping.dim()).filter(|&g| slot(f) == slot(g)) {
                    moment[[grouping.assignment()[f], grouping.assignment()[g]]] +=
                        mass * difference[f] * difference[g];
                }
            }
        }
        moment
    }

    proptest! {
        #[test]
        fn moments_follow_their_definition(
            (m, n, d) in (1usize..6, 1usize..6, 1usize..7), r in 1usize..7, seed in 0u64..1000,
        ) {
            let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
            let grouping = Grouping::random(d, r.min(d), seed).unwrap();
            let maps = Displacements::new(&source, &target, &grouping).unwrap();
            let plan = plan(&source, &target, seed);
            let expected = brute_force(&source, &target, &grouping, &plan);
            assert_abs_diff_eq!(maps.moment(&plan).unwrap(), expected, epsilon = 1e-10);
            let entries: Vec<_> = plan.indexed_iter()
                .map(|((row, column), &mass)| PlanEntry { row, column, mass }).collect();
            assert_abs_diff_eq!(maps.moment_of_entries(&entries), expected, epsilon = 1e-10);
            let spread = plan.dot(maps.points().1);
            assert_abs_diff_eq!(maps.moment_of_spread(&spread), expected, epsilon = 1e-10);
        }

        #[test]
        fn cost_is_the_adjoint_of_the_moment(
            (m, n, d) in (1usize..6, 1usize..6, 1usize..7), r in 1usize..7, seed in 0u64..1000,
        ) {
            let (source, target) = (measure(m, d, seed), measure(n, d, seed + 1));
            let maps = Displacements::new(&source, &target, &Grouping::random(d, r.min(d), seed).unwrap()).unwrap();
            let (plan, metric) = (plan(&source, &target, seed), metric(maps.size(), seed));
            let cost = maps.cost(&metric).unwrap();
            assert_relative_eq!(inner(&cost, &plan), inner(&metric, &maps.moment(&plan).unwrap()), epsilon = 1e-9);
        }
    }

    #[test]
    fn a_far_offset_costs_no_digits() {
        let shifted = |points: Array2<f64>| Measure::uniform(points + 1_048_576.0).unwrap();
        let (source, target) = (array![[0.0, 1.0], [2.0, 0.5]], array![[1.0, 0.25], [0.0, 0.0]]);
        let near = Displacements::new(
            &Measure::uniform(source.clone()).unwrap(),
            &Measure::uniform(target.clone()).unwrap(),
            &Grouping::none(2),
        );
        let far = Displacements::new(&shifted(source), &shifted(target), &Grouping::none(2));
        let eye = Array2::eye(2);
        assert_abs_diff_eq!(near.unwrap().cost_matrix(&eye), far.unwrap().cost_matrix(&eye), epsilon = 1e-14);
    }

    #[test]
    fn no_plan_has_a_larger_diagonal_than_announced() {
        let (source, target) = (measure(4, 6, 1), measure(5, 6, 2));
        let maps = Displacements::new(&source, &target, &Grouping::contiguous(6, 2).unwrap()).unwrap();
        for (row, column) in (0..4).flat_map(|i| (0..5).map(move |j| (i, j))) {
            let all_there = maps.moment_of_entries(&[PlanEntry { row, column, mass: 1.0 }]);
            assert!(all_there.diag().iter().all(|&v| v <= maps.largest_moment() * (1.0 + 1e-12)));
        }
    }
}
