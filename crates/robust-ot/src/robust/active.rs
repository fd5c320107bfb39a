//! The plans found so far and their convex combination $\gamma = \sum_i w_i \gamma_i$, kept as moments.

use std::sync::Arc;

use ndarray::Array2;

use crate::displacement::Displacements;
use crate::kernels::sealed::Kernels;
use crate::linalg::{flat, flat_mut};
use crate::transport::{CostRows, EntropicPlan, PlanEntry};

/// The number of calls for which a vertex without weight is kept. Where h has corners, the vertices around one alternate:
/// without this they would have to be found again and again.
const IDLE: usize = 10;

/// The relative rounding error of adding and subtracting a change, for both halves of a symmetric matrix.
const OF_CHANGE: f64 = 8.0 * f64::EPSILON;

/// A plan that an oracle returned.
#[derive(Debug, Clone)]
pub(crate) struct Vertex {
    /// V_γ.
    pub(super) moment: Array2<f64>,
    /// A bound on ‖fl(V) − V‖_F.
    pub(super) rounding: f64,
    /// Σ γ ln γ; 0 when the problem has no entropy.
    pub(super) entropy: f64,
    pub(super) plan: VertexPlan,
}

impl Vertex {
    /// A plan whose moment was computed with an error of at most `rounding`.
    pub(crate) fn new(moment: Array2<f64>, rounding: f64, entropy: f64, plan: VertexPlan) -> Self {
        Self { moment, rounding, entropy, plan }
    }

    /// A sparse plan, whose moment is a sum without cancellation.
    pub(super) fn sparse(maps: &Displacements, plan: Vec<PlanEntry>, entropy: f64) -> Self {
        let moment = maps.moment_of_entries(&plan);
        let rounding = maps.rounding_of_entries(plan.len()) * moment.diag().sum();
        Self::new(moment, rounding, entropy, VertexPlan::Sparse(plan))
    }

    /// The entries of a sparse plan.
    fn entries(&self) -> &[PlanEntry] {
        if let VertexPlan::Sparse(entries) = &self.plan { entries } else { &[] }
    }

    /// The plan that results from changes to this sparse one.
    pub(super) fn changed(&self, maps: &Displacements, changes: &[PlanEntry]) -> Self {
        let part = |sign: f64| {
            let some = changes.iter().filter(|e| sign * e.mass > 0.0);
            let some: Vec<_> = some.map(|e| PlanEntry { mass: e.mass.abs(), ..*e }).collect();
            (maps.moment_of_entries(&some), maps.rounding_of_entries(some.len()))
        };
        let ((gain, of_gain), (loss, of_loss)) = (part(1.0), part(-1.0));
        let [whole, added, removed] = [&self.moment, &gain, &loss].map(|moment| moment.diag().sum());
        let rounding =
            self.rounding + of_gain * added + of_loss * removed + OF_CHANGE * (whole + added + removed);
        let moment = &self.moment + &gain - &loss;
        let mut entries: Vec<_> = self.entries().iter().chain(changes).copied().collect();
        merge(&mut entries);
        entries.retain(|e| e.mass > 0.0);
        Self::new(moment, rounding, 0.0, VertexPlan::Sparse(entries))
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
    /// Kept by a device, as what a call for this metric returned.
    OnDevice { call: usize, metric: Array2<f64> },
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

    /// A bound on ‖fl(V) − V‖_F for the V of the combination. Its weights sum to one up to their number of roundings.
    pub(super) fn rounding(&self, moment: &Array2<f64>) -> f64 {
        let of_vertices: f64 = self.vertices.iter().zip(&self.weights).map(|(v, w)| w * v.rounding).sum();
        of_vertices + (2 * self.weights.len()) as f64 * f64::EPSILON * moment.diag().sum().max(0.0)
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
            f64::add_scaled(flat_mut(&mut sum), c, flat(&vertex.moment));
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
                VertexPlan::OnDevice { .. } | VertexPlan::Forgotten => {}
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
    use crate::linalg::inner;
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
            let changed = Vertex::sparse(&maps, plan.clone(), 0.0).changed(&maps, &changes);
            let entries = changed.entries();
            assert!((entries.iter().map(|e| e.mass).sum::<f64>() - 1.0).abs() < 1e-15);
            assert_eq!(entries.len(), if mass < 0.25 { 6 } else { 4 });
            let apart = &changed.moment - &maps.moment_of_entries(entries);
            let apart = inner(&apart, &apart).sqrt();
            assert!(apart <= changed.rounding && changed.rounding < 1e-13, "{apart} {}", changed.rounding);
        }
    }
}
