//! The map of points that a plan describes. A source point moves to the mean of its targets,
//!
//! $$T(s_i) = \frac{1}{a_i} \sum_j \gamma_{ij} t_j .$$

use ndarray::{Array1, Array2, ArrayView1, Axis, Zip};

use super::active::VertexPlan;
use super::solution::Solution;
use crate::error::{Error, Result};
use crate::measure::check_points;
use crate::transport::{CostFactors, CostRows};

impl Solution {
    /// Where the plan moves the source points: the barycentric projection T(s_i) = Σ_j γ_ij t_j / a_i. A source point without
    /// weight moves as a new point does, see [`Solution::transport`].
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let source = Measure::uniform(array![[0.0], [4.0]])?;
    /// let target = Measure::uniform(array![[1.0], [2.0], [7.0], [9.0]])?;
    /// let solution = Problem::new(&source, &target, MetricSet::W2)?.solve(&Settings::default())?;
    /// assert_eq!(solution.images(), array![[1.5], [8.0]]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn images(&self) -> Array2<f64> {
        let problem = &self.problem;
        let (maps, coordinates) = (&problem.maps, &problem.coordinates);
        let (source, _) = maps.points();
        let weightless: Vec<usize> = self.indices(|weight| weight == 0.0);
        let mut moves = self.moves_per_mass();
        if !weightless.is_empty() {
            let moved = self.moves_of(&source.select(Axis(0), &weightless));
            for (at, row) in weightless.into_iter().zip(moved.rows()) {
                moves.row_mut(at).assign(&row);
            }
        }
        coordinates.grouping.features(&coordinates.laid_out(source + &moves)) + &coordinates.center
    }

    /// Where points that need not be source points move: by the rule that gives the plan, if it has one, or as the nearest
    /// source point does.
    ///
    /// With entropy, T(x) = Σ_j t_j softmax_j((g_j − (x − t_j)ᵀ M (x − t_j)) / λ) with the potentials of the plan, which is its
    /// barycentric projection at source points (Pooladian and Niles-Weed 2021). Without, T(x) = x + T(s) − s with s the
    /// source point next to x (Ferradans et al. 2014).
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::{Measure, MetricSet, Problem, Settings};
    ///
    /// let source = Measure::uniform(array![[0.0], [4.0]])?;
    /// let target = Measure::uniform(array![[1.0], [7.0]])?;
    /// let solution = Problem::new(&source, &target, MetricSet::W2)?.solve(&Settings::default())?;
    /// assert_eq!(solution.transport(&array![[0.5], [5.0]])?, array![[1.5], [8.0]]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the points have another number of features or are not finite.
    pub fn transport(&self, points: &Array2<f64>) -> Result<Array2<f64>> {
        let coordinates = &self.problem.coordinates;
        let dim = coordinates.grouping.dim();
        if points.ncols() != dim {
            let found = format!("{} × {}", points.nrows(), points.ncols());
            return Err(Error::Shape { name: "points", expected: format!("k × {dim}"), found });
        }
        check_points(points)?;
        let moves = self.moves_of(&coordinates.seen(points));
        Ok(points + &coordinates.grouping.features(&coordinates.laid_out(moves)))
    }

    /// T(x) − x for points as the solve sees them.
    fn moves_of(&self, points: &Array2<f64>) -> Array2<f64> {
        let mut moves = Array2::zeros(points.dim());
        for (vertex, &weight) in self.active.vertices.iter().zip(&self.active.weights) {
            let VertexPlan::Entropic { metric, plan } = &vertex.plan else {
                return self.moves_of_nearest(points);
            };
            let (_, target) = self.problem.maps.points();
            let factors: CostFactors = self.problem.maps.cost_factors_from(points, metric);
            moves.scaled_add(weight, &(plan.means(&CostRows::Streamed(&factors), target) - points));
        }
        moves
    }

    /// The moves of the source points next to these.
    fn moves_of_nearest(&self, points: &Array2<f64>) -> Array2<f64> {
        let (source, _) = self.problem.maps.points();
        let weighty = self.indices(|weight| weight > 0.0);
        let moves = self.moves_per_mass();
        let mut found = Array2::zeros(points.dim());
        Zip::from(found.rows_mut()).and(points.rows()).par_for_each(|mut found, point| {
            let apart = |at: usize| squared_distance(point, source.row(at));
            let nearest = weighty.iter().copied().min_by(|&i, &j| apart(i).total_cmp(&apart(j)));
            found.assign(&moves.row(nearest.expect("some source point has weight")));
        });
        found
    }

    /// T(s_i) − s_i; zero without weight.
    fn moves_per_mass(&self) -> Array2<f64> {
        let problem = &self.problem;
        let weights: &Array1<f64> = &problem.source_weights;
        let (mut moves, _) = self.active.moves(&problem.maps, (weights, &problem.target_weights));
        for (mut row, &weight) in moves.rows_mut().into_iter().zip(weights) {
            if weight > 0.0 {
                row /= -weight;
            }
        }
        moves
    }

    fn indices(&self, wanted: impl Fn(f64) -> bool) -> Vec<usize> {
        let weights = self.problem.source_weights.iter().enumerate();
        weights.filter(|(_, weight)| wanted(**weight)).map(|(at, _)| at).collect()
    }
}

fn squared_distance(x: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum()
}
