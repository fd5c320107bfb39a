//! The gradient of a robust distance. By the envelope theorem only the explicit dependence on points and weights counts,
//! at the optimal plan γ, its metric M and the potentials (f, g):
//!
//! $$\nabla_{s_i} W = 2 \sum_j \gamma_{ij}\thinspace M (s_i - t_j), \qquad
//!   \frac{\partial W}{\partial a_i} = f_i - \langle a, f\rangle .$$

use ndarray::{Array1, Array2, Axis, s};

use super::active::{ActiveSet, VertexPlan};
use super::solution::Solution;
use crate::displacement::{Displacements, times};
use crate::linalg::product;
use crate::transport::{CostRows, EntropicPlan};

/// The largest number of plan entries that are formed at a time, a bound on the memory for an entropic plan.
const ENTRIES: usize = 1 << 23;
/// Rows are formed in multiples of this number.
const ROWS: usize = 32;

/// The gradient of a distance in the points and weights of both measures.
///
/// It is the gradient of W where plan and metric are unique, and that of weights where the centered potentials are. It
/// belongs to the plan that was found: with a relative gap g it is off by some √g of its size.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
/// let target = Measure::uniform(array![[0.0, 2.0], [1.0, 3.0]])?;
/// let gradient = Problem::new(&source, &target, MetricSet::W2)?.solve(&Settings::default())?.gradient();
/// assert_eq!(gradient.source_points, array![[0.0, -2.0], [0.0, -3.0]]); // 2 γ_ii (s_i − t_i)
/// assert_eq!(gradient.target_points, array![[0.0, 2.0], [0.0, 3.0]]);
/// assert!(gradient.source_weights.sum().abs() < 1e-12);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Gradient {
    /// One row per source point.
    pub source_points: Array2<f64>,
    /// One row per target point.
    pub target_points: Array2<f64>,
    /// (f − ⟨a, f⟩) / mass, the gradient of W in the weights as they were given: they are scaled to sum to one, so that it does
    /// not change their sum. Without entropy, a point without weight has the slope at which it would gain weight; with entropy
    /// that slope is −∞.
    pub source_weights: Array1<f64>,
    /// (g − ⟨b, g⟩) / mass.
    pub target_weights: Array1<f64>,
}

impl Solution {
    /// The gradient of the distance in points and weights, at the plan, metric and potentials found.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let (x, y) = (array![[0.0, 1.0], [2.0, 0.0]], array![[1.0, 1.0], [0.0, 3.0]]);
    /// let solve = |x: &ndarray::Array2<f64>| {
    ///     let problem = Problem::new(&Measure::uniform(x.clone())?, &Measure::uniform(y.clone())?, MetricSet::P { k: 1 })?;
    ///     problem.solve(&Settings::default().with_tolerance(1e-12))
    /// };
    /// let gradient = solve(&x)?.gradient();
    /// let mut moved = x.clone();
    /// moved[[0, 1]] += 1e-6;
    /// let slope = (solve(&moved)?.value - solve(&x)?.value) / 1e-6;
    /// assert!((slope - gradient.source_points[[0, 1]]).abs() < 1e-4);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn gradient(&self) -> Gradient {
        let problem = &self.problem;
        let (of_source, of_target) =
            self.active.moves(&problem.maps, (&problem.source_weights, &problem.target_weights));
        let under_metric = |moves: Array2<f64>| {
            let laid = problem.coordinates.laid_out(moves);
            problem.coordinates.grouping.features(&times(&(laid * 2.0), &self.metric))
        };
        Gradient {
            source_points: under_metric(of_source),
            target_points: under_metric(of_target),
            source_weights: centered(&self.source_potential, &problem.source_weights) / problem.masses.0,
            target_weights: centered(&self.target_potential, &problem.target_weights) / problem.masses.1,
        }
    }
}

/// f − ⟨a, f⟩, where points without weight do not count in the mean.
pub(super) fn centered(potential: &Array1<f64>, weights: &Array1<f64>) -> Array1<f64> {
    let terms = potential.iter().zip(weights).filter(|(_, w)| **w > 0.0);
    potential - terms.map(|(f, w)| w * f).sum::<f64>()
}

impl ActiveSet {
    /// Σ_j γ_ij (s_i − t_j) for every source point, and Σ_i γ_ij (t_j − s_i) for every target point.
    pub(super) fn moves(
        &self,
        maps: &Displacements,
        (a, b): (&Array1<f64>, &Array1<f64>),
    ) -> (Array2<f64>, Array2<f64>) {
        let (source, target) = maps.points();
        let (mut of_source, mut of_target) = (Array2::zeros(source.dim()), Array2::zeros(target.dim()));
        for (vertex, &weight) in self.vertices.iter().zip(&self.weights) {
            match &vertex.plan {
                VertexPlan::Sparse(entries) => {
                    for entry in entries {
                        let step =
                            (&source.row(entry.row) - &target.row(entry.column)) * (weight * entry.mass);
                        let mut from = of_source.row_mut(entry.row);
                        from += &step;
                        let mut to = of_target.row_mut(entry.column);
                        to -= &step;
                    }
                }
                VertexPlan::Entropic { metric, plan } => {
                    let factors = maps.cost_factors(metric);
                    let (to, from) = spreads(maps, plan, &CostRows::Streamed(&factors));
                    of_source.scaled_add(weight, &(source * &a.view().insert_axis(Axis(1)) - to));
                    of_target.scaled_add(weight, &(target * &b.view().insert_axis(Axis(1)) - from));
                }
                VertexPlan::OnDevice { .. } | VertexPlan::Forgotten => {}
            }
        }
        (of_source, of_target)
    }
}

/// γT and γᵀS of an entropic plan, of which some rows are formed at a time.
fn spreads(maps: &Displacements, plan: &EntropicPlan, cost: &CostRows) -> (Array2<f64>, Array2<f64>) {
    let (source, target) = maps.points();
    let (m, n) = (source.nrows(), target.nrows());
    let (mut to, mut from) = (Array2::zeros(source.dim()), Array2::zeros(target.dim()));
    let rows = (ENTRIES / n / ROWS * ROWS).clamp(ROWS, m.next_multiple_of(ROWS));
    let mut masses = Array2::zeros((rows.min(m), n));
    for first in (0..m).step_by(rows) {
        let last = m.min(first + rows);
        let mut masses = masses.slice_mut(s![..last - first, ..]);
        plan.fill_rows(first, cost, masses.as_slice_mut().expect("whole rows"));
        to.slice_mut(s![first..last, ..]).assign(&product(masses.view(), target.view()));
        from += &product(masses.t(), source.slice(s![first..last, ..]));
    }
    (to, from)
}
