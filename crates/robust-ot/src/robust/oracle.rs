//! The linear oracle: the optimal plan for one metric, its moment, and a dual bound.

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};

use super::active::{Vertex, VertexPlan};
use super::device_oracle::{self, SUM_ROUNDING};
use super::exact_bracket::largest_entropy;
use super::storage::Storage;
use super::workspace::Workspace;
use crate::displacement::Displacements;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::kernels::sealed::Kernels;
use crate::linalg::{inner, product_into};
use crate::transport::{
    CostRows, EntropicOracle, EntropicPlan, NetworkSimplex, PlanEntry, SimplexSolution, Sinkhorn, dual_value,
};

/// The marginal error at which the first Sinkhorn solve stops; later tolerances follow the gap.
pub(super) const FIRST_TOLERANCE: f64 = 1e-3;
/// The marginal error at which Sinkhorn stops in [`LinearOracle::solve`].
const FINAL_TOLERANCE: f64 = 1e-9;
/// The most sweeps of one Sinkhorn solve, unless another number is asked for.
const MAX_SWEEPS: usize = 10_000;

/// Solves plain transport problems between two fixed sets of weights, each call warm-started from the last: with the
/// network simplex or, if there is entropy, with Sinkhorn's iteration.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::{Interrupt, LinearOracle};
///
/// let mut oracle = LinearOracle::new(&[0.5, 0.5], &[0.5, 0.5], 0.0)?;
/// let plan = oracle.solve(&array![[0.0, 1.0], [1.0, 0.0]], &Interrupt::default())?;
/// assert_eq!(plan.len(), 2);
/// assert_eq!((plan[0].row, plan[0].column, plan[0].mass), (0, 0, 0.5));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct LinearOracle {
    kind: Kind,
    storage: Storage,
    /// The most sweeps of a call with entropy; the next call continues from there.
    max_sweeps: usize,
    /// Buffer for stored costs, reused by every call.
    costs: Vec<f64>,
}

#[derive(Debug)]
enum Kind {
    /// `careful` computes costs from the differences themselves.
    /// `entropy` may be nonzero if it is too small to matter: see [`LinearOracle::exact`].
    Exact { simplex: Box<NetworkSimplex>, careful: bool, entropy: f64 },
    /// `tolerance` is the marginal error that the next solve may leave, `floor` the least that rounding allows.
    Entropic { sinkhorn: Box<Sinkhorn>, entropy: f64, tolerance: f64, floor: f64 },
    /// Entropic plans from another device.
    Device { device: Box<dyn EntropicOracle>, entropy: f64, tolerance: f64, floor: f64 },
}

/// The result of an oracle call.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) vertex: Vertex,
    /// Neighboring plans, for steps that can use more than one.
    pub(super) near: Vec<Vertex>,
    /// A lower bound on min_γ ⟨C(M), γ⟩ + λ Ω(γ), reduced by the rounding allowance.
    pub(super) dual: f64,
    /// The rounding allowance subtracted from that bound.
    pub(super) rounding: f64,
    /// How far the plan's value may lie above the optimum of this linear problem.
    pub(super) own_gap: f64,
    pub(super) source_potential: Array1<f64>,
    pub(super) target_potential: Array1<f64>,
}

impl LinearOracle {
    /// Uses the network simplex without entropy, and Sinkhorn with it.
    ///
    /// # Errors
    /// When the weights are not valid for transport or the entropy is negative.
    pub fn new(a: &[f64], b: &[f64], entropy: f64) -> Result<Self> {
        Self::within(usize::MAX, a, b, entropy)
    }

    /// An oracle whose costs and plans take at most `memory` bytes.
    pub(super) fn within(memory: usize, a: &[f64], b: &[f64], entropy: f64) -> Result<Self> {
        if entropy == 0.0 {
            return Self::exact(memory, a, b, entropy);
        }
        let floor = tolerance_floor(a.len() + b.len());
        let storage = Storage::of_plans(memory, a.len(), b.len());
        let sinkhorn =
            Sinkhorn::new(a, b, entropy)?.with_memory(storage.held_bytes(memory, a.len(), b.len()));
        let kind =
            Kind::Entropic { sinkhorn: Box::new(sinkhorn), entropy, tolerance: FIRST_TOLERANCE, floor };
        Ok(Self { kind, storage, max_sweeps: MAX_SWEEPS, costs: Vec::new() })
    }

    /// Entropic plans from another device; nothing of size m × n is kept on the host.
    pub(super) fn on(device: Box<dyn EntropicOracle>, a: &[f64], b: &[f64], entropy: f64) -> Self {
        let (tolerance, floor) = (FIRST_TOLERANCE, tolerance_floor(a.len() + b.len()));
        let kind = Kind::Device { device, entropy, tolerance, floor };
        Self { kind, storage: Storage::Streamed, max_sweeps: MAX_SWEEPS, costs: Vec::new() }
    }

    /// Exact plans. `entropy` may be nonzero if it cannot change the value by more than the tolerance: with costs that
    /// are large compared to λ, Sinkhorn would take very long for no visible gain.
    pub(super) fn exact(memory: usize, a: &[f64], b: &[f64], entropy: f64) -> Result<Self> {
        let storage = Storage::of_costs(memory, a.len(), b.len());
        let mut simplex = Box::new(NetworkSimplex::new(a, b)?);
        simplex.limit_memory(storage.held_bytes(memory, a.len(), b.len()));
        let kind = Kind::Exact { simplex, careful: false, entropy };
        Ok(Self { kind, storage, max_sweeps: MAX_SWEEPS, costs: Vec::new() })
    }

    /// Which arrays of size m × n are kept.
    pub(super) fn storage(&self) -> Storage {
        self.storage
    }

    /// Takes the buffers of an earlier solve, or leaves its own for the next.
    pub(super) fn swap_buffers(&mut self, workspace: &mut Workspace) {
        std::mem::swap(&mut self.costs, &mut workspace.costs);
        if let Kind::Entropic { sinkhorn, .. } = &mut self.kind {
            sinkhorn.swap_plan(&mut workspace.plan);
        }
    }

    /// A feasible plan for one cost matrix: the optimal one without entropy; with entropy, the one that Sinkhorn reached,
    /// rounded to the exact marginals.
    ///
    /// # Errors
    /// When the costs are not m × n or not finite.
    pub fn solve(&mut self, cost: &Array2<f64>, interrupt: &Interrupt) -> Result<Vec<PlanEntry>> {
        match &mut self.kind {
            Kind::Exact { simplex, .. } => Ok(simplex.solve(cost, interrupt)?.plan),
            Kind::Entropic { sinkhorn, floor, .. } => {
                sinkhorn.solve(cost, floor.max(FINAL_TOLERANCE), MAX_SWEEPS, interrupt)?;
                let rows = CostRows::from(cost);
                let plan = sinkhorn.feasible_plan(&rows);
                let masses = plan.dense(&rows);
                let entries = masses.indexed_iter().filter(|(_, mass)| **mass > 0.0);
                Ok(entries.map(|((row, column), &mass)| PlanEntry { row, column, mass }).collect())
            }
            Kind::Device { .. } => unreachable!("a device oracle takes points, not costs"),
        }
    }

    /// Solves for the costs C(M) between the given points. An exact plan comes with the neighbors that up to `near`
    /// pivots lead to.
    pub(super) fn call(
        &mut self,
        maps: &Displacements,
        weights: (&Array1<f64>, &Array1<f64>),
        metric: &Array2<f64>,
        near: usize,
        interrupt: &Interrupt,
    ) -> Result<Answer> {
        match &mut self.kind {
            Kind::Exact { simplex, careful, entropy } => {
                let factors = maps.cost_factors(metric);
                let exact = careful.then(|| maps.cost_from_differences(metric));
                let (cost, of_cost) = match &exact {
                    Some(exact) => (CostRows::from(exact), maps.frame().of_weights(metric)),
                    None => {
                        (factors.rows(self.storage.stores_costs(), &mut self.costs), maps.rounding(metric))
                    }
                };
                let SimplexSolution { plan, source_potential, target_potential, .. } =
                    simplex.solve(cost.clone(), interrupt)?;
                let (dual, of_dual) = dual_value(weights, (&source_potential, &target_potential));
                // Σ γ ln γ is at least −H(a) − H(b), so the exact dual less λ times that bounds the entropic problem.
                let most = largest_entropy(weights.0, weights.1);
                let dual = dual - *entropy * most;
                let of_entropy =
                    if *entropy > 0.0 { *entropy * maps.frame().entropy_rounding(most) } else { 0.0 };
                let of_plan =
                    if *entropy > 0.0 { plan.iter().map(|e| e.mass * e.mass.ln()).sum::<f64>() } else { 0.0 };
                let near = simplex.neighbors(&cost, if *entropy > 0.0 { 0 } else { near });
                let vertex = Vertex::sparse(maps, plan, of_plan);
                let near = near.iter().map(|changes| vertex.changed(maps, changes)).collect();
                let rounding = of_cost + of_dual + of_entropy + maps.frame().excess() * dual.abs();
                let own_gap = inner(metric, &vertex.moment) + *entropy * of_plan - (dual - rounding);
                Ok(Answer {
                    vertex,
                    near,
                    dual: dual - rounding,
                    rounding,
                    own_gap,
                    source_potential,
                    target_potential,
                })
            }
            Kind::Entropic { sinkhorn, entropy, tolerance, .. } => {
                let factors = maps.cost_factors(metric);
                let cost = factors.rows(self.storage.stores_costs(), &mut self.costs);
                sinkhorn.solve(cost.clone(), *tolerance, self.max_sweeps, interrupt)?;
                let plan = sinkhorn.feasible_plan(&cost);
                let (moment, of_plan) = measure_plan(maps, &plan, &cost);
                let (source_potential, target_potential) = sinkhorn.potentials();
                let (dual, of_dual) = sinkhorn.dual_value_and_rounding();
                let of_sums = *entropy * SUM_ROUNDING * f64::EPSILON * maps.target_len() as f64;
                let rounding = of_dual + of_sums + maps.rounding(metric);
                let own_gap = inner(metric, &moment) + *entropy * of_plan - (dual - rounding);
                let of_moment = maps.frame().moment_rounding() + maps.rounding_of_unplaced(plan.deficits());
                let plan = VertexPlan::Entropic { metric: metric.clone(), plan: Box::new(plan) };
                let vertex = Vertex::new(moment, of_moment, of_plan, plan);
                Ok(Answer {
                    vertex,
                    near: Vec::new(),
                    dual: dual - rounding,
                    rounding,
                    own_gap,
                    source_potential,
                    target_potential,
                })
            }
            Kind::Device { device, entropy, tolerance, .. } => {
                let stop = (*tolerance, self.max_sweeps);
                device_oracle::call(device.as_mut(), maps, weights, metric, *entropy, stop, interrupt)
            }
        }
    }

    /// Limits the pivots of each following call; plans at the limit are feasible, and bounds account for them. Plans with
    /// entropy have no pivots.
    pub(super) fn limit_pivots(&mut self, pivots: usize) {
        if let Kind::Exact { simplex, .. } = &mut self.kind {
            simplex.limit_pivots(pivots);
        }
    }

    /// Limits the sweeps of each following call.
    pub(super) fn limit_sweeps(&mut self, sweeps: usize) {
        self.max_sweeps = sweeps;
    }

    /// Switches from the matrix product to differences, where that is possible. Returns whether anything changed.
    pub(super) fn use_differences(&mut self, maps: &Displacements) -> bool {
        match &mut self.kind {
            Kind::Exact { careful, .. }
                if !*careful && self.storage.stores_costs() && maps.differences_are_affordable() =>
            {
                *careful = true;
                true
            }
            _ => false,
        }
    }

    /// Tightens the tolerance of the next Sinkhorn solve if the oracle's own gap is a large part of the whole gap.
    pub(super) fn sharpen(&mut self, own_gap: f64, gap: f64) {
        let (Kind::Entropic { tolerance, floor, .. } | Kind::Device { tolerance, floor, .. }) =
            &mut self.kind
        else {
            return;
        };
        *tolerance = sharpened(*tolerance, *floor, own_gap, gap);
    }
}

/// The marginal error for the next solve: smaller if the oracle's own gap is a large part of the whole gap.
pub(crate) fn sharpened(tolerance: f64, floor: f64, own_gap: f64, gap: f64) -> f64 {
    if own_gap > 0.1 * gap {
        (tolerance * (0.05 * gap / own_gap).clamp(1e-3, 0.3)).max(floor)
    } else {
        tolerance
    }
}

/// The smallest marginal error that rounding allows.
pub(super) fn tolerance_floor(points: usize) -> f64 {
    f64::EPSILON * 8.0 * points as f64
}

/// V and Σ γ ln γ of an entropic plan, computed a few rows at a time: only γT is stored.
fn measure_plan(maps: &Displacements, plan: &EntropicPlan, cost: &CostRows) -> (Array2<f64>, f64) {
    let (_, target) = maps.points();
    let (n, width) = target.dim();
    let mut spread = Array2::zeros((maps.source_len(), width));
    let out = spread.as_slice_mut().expect("new arrays are row-major");
    let entropies = plan.map_tiles(cost, out, width, |masses, spread| {
        let entropy: f64 = masses.chunks_exact(n).map(f64::entropy).sum();
        let rows = masses.len() / n;
        let spread = ArrayViewMut2::from_shape((rows, width), spread).expect("one row per row of the plan");
        let masses = ArrayView2::from_shape((rows, n), masses).expect("whole rows");
        product_into(spread, masses, target.view());
        entropy
    });
    (maps.moment_of_spread(&spread), entropies.into_iter().sum())
}
