//! Moments and costs computed from the differences $s_i - t_j$ themselves. Nothing cancels, so a small distance between
//! large coordinates keeps its digits. This is always affordable for sparse plans; for whole cost matrices, only when
//! they are small.

use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView1, Axis, Zip, s};

use crate::displacement::{Displacements, by_slots, symmetrized};
use crate::linalg::product_into;
use crate::transport::PlanEntry;

/// Number of entries of a sparse plan whose displacements are formed at a time.
const ENTRIES_PER_BLOCK: usize = 256;
/// The largest number of multiplications for a cost matrix from differences: a few seconds of work.
const LARGEST_WORK: f64 = 2e10;

impl Displacements {
    /// V of a sparse plan, from the differences themselves. Nothing cancels, and V is exactly 0 when nothing moves.
    pub(crate) fn moment_of_entries(&self, plan: &[PlanEntry]) -> Array2<f64> {
        let ((source, target), groups) = (self.points(), self.size());
        let width = source.ncols();
        let mut moment = Array2::zeros((groups, groups));
        let mut part = Array2::zeros((groups, groups));
        let mut differences = Array2::zeros((plan.len().min(ENTRIES_PER_BLOCK), width));
        for block in plan.chunks(ENTRIES_PER_BLOCK) {
            let mut differences = differences.slice_mut(s![..block.len(), ..]);
            for (mut difference, entry) in differences.outer_iter_mut().zip(block) {
                let scale = entry.mass.sqrt();
                let (source, target) = (source.row(entry.row), target.row(entry.column));
                Zip::from(&mut difference).and(&source).and(&target).for_each(|d, s, t| *d = scale * (s - t));
            }
            let differences = by_slots(differences.view(), groups);
            product_into(part.view_mut(), differences.t(), differences);
            moment += &part;
        }
        symmetrized(moment)
    }

    /// The κ with ‖fl(V) − V‖_F ≤ κ tr V for the moment of a plan with this many entries: blocks of products are added up, and
    /// |fl(V_ab) − V_ab| ≤ κ (V_aa V_bb)^½.
    pub(crate) fn rounding_of_entries(&self, entries: usize) -> f64 {
        let slots = self.points().0.ncols() / self.size();
        let terms = entries.min(ENTRIES_PER_BLOCK) * slots + entries / ENTRIES_PER_BLOCK + 16;
        terms as f64 * (f64::EPSILON / 2.0)
    }

    /// Whether [`Displacements::cost_from_differences`] takes seconds rather than minutes.
    pub(crate) fn differences_are_affordable(&self) -> bool {
        let ((source, target), groups) = (self.points(), self.size());
        (source.len() as f64) * (target.nrows() as f64) * (groups as f64) <= LARGEST_WORK
    }

    /// C(M), each entry reduced by a bound on its own rounding, so that an optimum of these costs is a lower bound.
    ///
    /// |fl(δᵀMδ) − δᵀMδ| ≤ κ Σ_ab |M_ab| |δ_a| |δ_b| ≤ κ Σ_a ρ_a δ_a², with ρ the row sums of |M|. Rounded points change δ by an
    /// ε with ‖ε‖ ≤ blur (‖s‖ + ‖t‖), and M ⪰ 0, so that (δ + ε)ᵀM(δ + ε) ≥ δᵀMδ − 2 ‖ε‖ ‖Mδ‖.
    pub(crate) fn cost_from_differences(&self, metric: &Array2<f64>) -> Array2<f64> {
        let ((source, target), groups) = (self.points(), self.size());
        let kappa = (source.ncols() + groups + 8) as f64 * f64::EPSILON;
        let rows = metric.mapv(f64::abs).sum_axis(Axis(1)) * kappa;
        let blur = 2.0 * self.frame().rounding.blur;
        let length = |point: ArrayView1<f64>| point.dot(&point).sqrt();
        let lengths: Vec<f64> = target.outer_iter().map(length).collect();
        let mut cost = Array2::zeros((source.nrows(), target.nrows()));
        cost.axis_iter_mut(Axis(0)).into_par_iter().zip(source.axis_iter(Axis(0))).for_each(
            |(mut costs, s)| {
                let (mut difference, own) = (vec![0.0; source.ncols()], length(s));
                for ((cost, t), other) in costs.iter_mut().zip(target.rows()).zip(&lengths) {
                    difference.iter_mut().zip(s.iter().zip(t)).for_each(|(d, (s, t))| *d = s - t);
                    let mut squares = 0.0;
                    for slot in difference.chunks_exact(groups).filter(|slot| slot.iter().any(|d| *d != 0.0))
                    {
                        for (a, &d) in slot.iter().enumerate() {
                            let turned: f64 = metric.row(a).iter().zip(slot).map(|(m, d)| m * d).sum();
                            *cost += d * turned - rows[a] * d * d;
                            squares += turned * turned;
                        }
                    }
                    *cost -= blur * (own + other) * squares.sqrt();
                }
            },
        );
        cost
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use ndarray::array;

    use super::*;
    use crate::grouping::Grouping;
    use crate::measure::Measure;
    use crate::testing::{measure, metric};

    #[test]
    fn both_routes_to_the_costs_agree() {
        let (source, target) = (measure(5, 7, 1), measure(6, 7, 2));
        for grouping in [Grouping::none(7), Grouping::random(7, 3, 4).unwrap()] {
            let maps = Displacements::new(&source, &target, &grouping).unwrap();
            let metric = metric(maps.size(), 3);
            assert_relative_eq!(
                maps.cost_from_differences(&metric),
                maps.cost_matrix(&metric),
                max_relative = 1e-11
            );
        }
    }

    #[test]
    fn small_differences_of_large_coordinates_keep_their_digits() {
        let (far, near) = (2f64.powi(20), 2f64.powi(-10));
        let source = Measure::uniform(array![[far, 0.0], [-far, 0.0]]).unwrap();
        let target = Measure::uniform(array![[far + near, 0.0], [-far, near]]).unwrap();
        let maps = Displacements::new(&source, &target, &Grouping::none(2)).unwrap();
        let cost = maps.cost_from_differences(&Array2::eye(2));
        assert_relative_eq!(cost[[0, 0]], near * near, max_relative = 1e-6);
        assert!(cost[[0, 0]] <= near * near);
    }
}
