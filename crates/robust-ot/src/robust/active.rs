//! The plans found so far and their convex combination $\gamma = \sum_i w_i \gamma_i$, kept as moments.

use std::sync::Arc;

use ndarray::{Array1, Array2, Axis};

use crate::displacement::Displacements;
use crate::transport::{CostRows, EntropicPlan, PlanEntry};

/// The number of calls for which a vertex without weight is kept. Where h has corners, the vertices around one alternate:
/// without this they would have to be found again and again.
const IDLE: usize = 10;

/// The relative rounding error of adding and subtracting a change, for both halves of a symmetric matrix.
const CANCELLATION: f64 = 8.0 * f64::EPSILON;

/// A plan that an oracle returned.
#[derive(Debug, Clone)]
pub(crate) struct Vertex {
    /// V_γ.
    pub(super) moment: Array2<f64>,
    /// The rounding error of the moment, per row of |M|: zero if the moment is a sum without cancellation.
    pub(super) rounding: Array1<f64>,
    /// Σ γ ln γ; 0 when the problem has no entropy.
    pub(super) entropy: f64,
    pub(super) plan: VertexPlan,
}

impl Vertex {
    /// A plan whose moment is a sum without cancellation.
    pub(crate) fn new(moment: Array2<f64>, entropy: f64, plan: VertexPlan) -> Self {
        let rounding = Array1::zeros(moment.nrows());
        Self { moment, rounding, entropy, plan }
    }

    /// The plan that results from changes to another one, whose moment is known.
    pub(super) fn changed(
        maps: &Displacements,
        (moment, plan): (&Array2<f64>, &[PlanEntry]),
        changes: &[PlanEntry],
    ) -> Self {
        let part = |sign: f64| {
            let some = changes.iter().filter(|e| sign * e.mass > 0.0);
            let some: Vec<_> = some.map(|e| PlanEntry { mass: e.mass.abs(), ..*e }).collect();
            maps.moment_of_entries(&some)
        };
        let (gain, loss) = (part(1.0), part(-1.0));
        let rounding = CANCELLATION * (&moment.diag() + &gain.diag() + loss.diag());
        let moment = moment + &gain - &loss;
        let mut entries: Vec<_> = plan.iter().chain(changes).copied().collect();
        merge(&mut entries);
        entries.retain(|e| e.mass > 0.0);
        Self { moment, rounding, entropy: 0.0, plan: VertexPlan::Sparse(entries) }
    }
}

/// Sorts entries by row and column, and adds up those at the same place.
fn merge(entries: &mut Vec<PlanEntry>) {
    entries.sort_by_key(|e| (e.row, e.column));
    entries.dedup_by(|next, kept| {
        let same = (next.row, next.column) == (kept.row, kept.column);
        if same {
            kept.mass += next.mass;
        }
        same
    });
}

/// The plan behind a vertex, reduced to what is needed to write it out.
#[derive(Debug, Clone)]
pub(crate) enum VertexPlan {
    /// A vertex of the polytope of plans: about m + n entries.
    Sparse(Vec<PlanEntry>),
    /// The plan of an entropic problem with cost C(M).
    Entropic { metric: Array2<f64>, plan: Box<EntropicPlan> },
    /// Not kept: only the moment is needed.
    Forgotten,
}

/// Vertices with weights on the simplex. Vertices are shared, so that keeping an earlier combination costs little.
#[derive(Debug, Clone, Default)]
pub(super) struct ActiveSet {
    pub(super) vertices: Vec<Arc<Vertex>>,
    pub(super) weights: Vec<f64>,
    /// Calls since each vertex last had weight.
    idle: Vec<usize>,
}

impl ActiveSet {
    /// Adds a vertex without weight and returns its place; the first one gets all the weight. A vertex whose moment is
    /// already present is not added twice.
    pub(super) fn add(&mut self, vertex: Vertex) -> usize {
        let same = |other: &Arc<Vertex>| {
            other.entropy.to_bits() == vertex.entropy.to_bits() && other.moment == vertex.moment
        };
        if let Some(place) = self.vertices.iter().position(same) {
            self.idle[place] = 0;
            return place;
        }
        self.weights.push(if self.vertices.is_empty() { 1.0 } else { 0.0 });
        self.idle.push(0);
        self.vertices.push(Arc::new(vertex));
        self.vertices.len() - 1
    }

    /// Moves a share θ of the weight to one vertex.
    pub(super) fn step_towards(&mut self, place: usize, theta: f64) {
        self.weights.iter_mut().for_each(|w| *w *= 1.0 - theta);
        self.weights[place] += theta;
        self.drop_weightless();
    }

    /// The vertices that carry weight.
    pub(super) fn carrying(&self) -> Self {
        let mut carrying = self.clone();
        carrying.drop_weightless();
        carrying
    }

    /// Drops vertices that have carried no weight for a long time.
    pub(super) fn drop_idle(&mut self) {
        for (idle, &weight) in self.idle.iter_mut().zip(&self.weights) {
            *idle = if weight > 0.0 { 0 } else { *idle + 1 };
        }
        self.retain(|_, idle| idle <= IDLE);
    }

    /// Drops vertices that carry no weight.
    fn drop_weightless(&mut self) {
        self.retain(|weight, _| weight > 0.0);
    }

    /// Keeps the vertices for which `keep` holds, given their weight and idle time.
    fn retain(&mut self, keep: impl Fn(f64, usize) -> bool) {
        let kept: Vec<usize> =
            (0..self.weights.len()).filter(|&i| keep(self.weights[i], self.idle[i])).collect();
        self.vertices = kept.iter().map(|&i| self.vertices[i].clone()).collect();
        self.weights = kept.iter().map(|&i| self.weights[i]).collect();
        self.idle = kept.iter().map(|&i| self.idle[i]).collect();
    }

    /// A bound on the rounding error of the moments under a metric.
    pub(super) fn rounding(&self, metric: &Array2<f64>) -> f64 {
        let rows = metric.mapv(f64::abs).sum_axis(Axis(1));
        self.vertices
            .iter()
            .zip(&self.weights)
            .map(|(vertex, weight)| weight * vertex.rounding.dot(&rows))
            .sum()
    }

    /// Whether some moments come from products: those of entropic plans.
    pub(super) fn has_products(&self) -> bool {
        self.vertices.iter().any(|vertex| !matches!(vertex.plan, VertexPlan::Sparse(_)))
    }

    /// V of the combination.
    pub(super) fn moment(&self) -> Array2<f64> {
        self.combine(&self.weights)
    }

    /// Σ c_i V_i.
    pub(super) fn combine(&self, coefficients: &[f64]) -> Array2<f64> {
        let mut sum = Array2::zeros(self.vertices[0].moment.dim());
        for (vertex, &c) in self.vertices.iter().zip(coefficients).filter(|(_, c)| **c != 0.0) {
            sum.scaled_add(c, &vertex.moment);
        }
        sum
    }

    /// Σ w_i Ω(γ_i) ≥ Ω(γ), by convexity.
    pub(super) fn entropy_bound(&self) -> f64 {
        self.vertices.iter().zip(&self.weights).map(|(vertex, w)| w * vertex.entropy).sum()
    }

    /// The plan as a dense matrix.
    pub(super) fn dense_plan(&self, maps: &Displacements) -> Array2<f64> {
        let mut total = Array2::zeros((maps.source_len(), maps.target_len()));
        for (vertex, &weight) in self.vertices.iter().zip(&self.weights) {
            match &vertex.plan {
                VertexPlan::Sparse(entries) => {
                    entries.iter().for_each(|e| total[[e.row, e.column]] += weight * e.mass);
                }
                VertexPlan::Entropic { metric, plan } => {
                    let factors = maps.cost_factors(metric);
                    total.scaled_add(weight, &plan.dense(&CostRows::Streamed(&factors)));
                }
                VertexPlan::Forgotten => {}
            }
        }
        total
    }

    /// The entries of the plan that carry mass, row by row.
    pub(super) fn sparse_plan(&self, maps: &Displacements) -> Vec<PlanEntry> {
        if self.vertices.iter().any(|vertex| matches!(vertex.plan, VertexPlan::Entropic { .. })) {
            let dense = self.dense_plan(maps);
            let entries = dense.indexed_iter().filter(|(_, mass)| **mass > 0.0);
            return entries.map(|((row, column), &mass)| PlanEntry { row, column, mass }).collect();
        }
        let mut entries = Vec::new();
        for (vertex, &weight) in self.vertices.iter().zip(&self.weights) {
            if let VertexPlan::Sparse(plan) = &vertex.plan {
                entries.extend(plan.iter().map(|e| PlanEntry { mass: weight * e.mass, ..*e }));
            }
        }
        merge(&mut entries);
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grouping;
    use crate::testing::measure;

    #[test]
    fn a_changed_plan_has_its_own_moment() {
        let (source, target) = (measure(4, 6, 1), measure(4, 6, 2));
        let maps = Displacements::new(&source, &target, &Grouping::contiguous(6, 3).unwrap()).unwrap();
        let entry = |row, column, mass| PlanEntry { row, column, mass };
        let plan: Vec<_> = (0..4).map(|i| entry(i, i, 0.25)).collect();
        // Part of the mass around a cycle, and all of it, so that the first two entries vanish.
        for mass in [0.1, 0.25] {
            let changes = [entry(0, 0, -mass), entry(0, 1, mass), entry(1, 1, -mass), entry(1, 0, mass)];
            let moment = maps.moment_of_entries(&plan);
            let changed = Vertex::changed(&maps, (&moment, &plan), &changes);
            let VertexPlan::Sparse(entries) = &changed.plan else { panic!("plans stay sparse") };
            assert!((entries.iter().map(|e| e.mass).sum::<f64>() - 1.0).abs() < 1e-15);
            assert_eq!(entries.len(), if mass < 0.25 { 6 } else { 4 });
            let apart = &changed.moment - &maps.moment_of_entries(entries);
            for ((a, b), x) in apart.indexed_iter() {
                assert!(x.abs() <= (changed.rounding[a] * changed.rounding[b]).sqrt(), "{a} {b}: {x}");
            }
        }
    }
}
