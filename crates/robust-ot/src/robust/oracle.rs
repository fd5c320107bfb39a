//! The linear oracle: the plan that is best for one metric, its moment, and a dual bound.

use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, Axis};

use super::active::{Vertex, VertexPlan};
use crate::displacement::Displacements;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::linalg::inner;
use crate::linalg::product_into;
use crate::transport::{EntropicPlan, NetworkSimplex, Sinkhorn, row, weighted_sum};

/// The marginal error at which the first Sinkhorn solve stops; later ones follow the gap.
const FIRST_TOLERANCE: f64 = 1e-3;
/// Marginal errors below this are rounding.
const SMALLEST_TOLERANCE: f64 = 1e-14;
/// The most sweeps of one Sinkhorn solve; the next call goes on from there.
const MAX_SWEEPS: usize = 10_000;
/// Rows of a plan that are formed at a time.
const ROWS_A_BLOCK: usize = 64;

/// Solves plain transport problems between two fixed measures, each call warm-started from the last.
///
/// ```
/// use robust_ot::Oracle;
///
/// let exact = Oracle::new(&[0.5, 0.5], &[1.0], 0.0)?;
/// assert!(matches!(exact, Oracle::NetworkSimplex { .. }));
/// let entropic = Oracle::new(&[0.5, 0.5], &[1.0], 0.1)?;
/// assert!(matches!(entropic, Oracle::Sinkhorn { .. }));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum Oracle {
    /// Exact plans.
    NetworkSimplex {
        /// The solver.
        simplex: NetworkSimplex,
        /// Whether costs come from the differences themselves.
        careful: bool,
    },
    /// Entropic plans.
    Sinkhorn {
        /// The solver.
        sinkhorn: Sinkhorn,
        /// λ_γ.
        entropy: f64,
        /// The marginal error its next solve may leave.
        tolerance: f64,
    },
}

/// What an oracle call brings home.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) vertex: Vertex,
    /// A lower bound of min_γ ⟨C(M), γ⟩ + λ Ω(γ), rounding charged.
    pub(super) dual: f64,
    /// How much of that bound was charged to rounding.
    pub(super) rounding: f64,
    /// How far the plan's value may lie above the optimum of this linear problem.
    pub(super) own_gap: f64,
    pub(super) source_potential: Array1<f64>,
    pub(super) target_potential: Array1<f64>,
}

impl Oracle {
    /// The network simplex without entropy, Sinkhorn with it.
    ///
    /// # Errors
    /// When the weights are not fit for transport or the entropy is negative.
    pub fn new(a: &[f64], b: &[f64], entropy: f64) -> Result<Self> {
        if entropy == 0.0 {
            return Ok(Self::NetworkSimplex { simplex: NetworkSimplex::new(a, b)?, careful: false });
        }
        Ok(Self::Sinkhorn { sinkhorn: Sinkhorn::new(a, b, entropy)?, entropy, tolerance: FIRST_TOLERANCE })
    }

    /// Solves for the costs C(M) between the given points.
    pub(super) fn call(
        &mut self,
        maps: &Displacements,
        weights: (&Array1<f64>, &Array1<f64>),
        metric: &Array2<f64>,
        interrupt: &Interrupt,
    ) -> Result<Answer> {
        match self {
            Self::NetworkSimplex { simplex, careful } => {
                let (cost, rounding) = if *careful {
                    (maps.cost_from_differences(metric), 0.0)
                } else {
                    (maps.cost(metric), maps.rounding(metric))
                };
                let solution = simplex.solve(&cost, interrupt)?;
                let moment = maps.moment_of_entries(&solution.plan);
                let dual = weighted_sum(weights.0, &solution.source_potential)
                    + weighted_sum(weights.1, &solution.target_potential)
                    - rounding;
                Ok(Answer {
                    rounding,
                    own_gap: inner(metric, &moment) - dual,
                    vertex: Vertex { moment, entropy: 0.0, plan: VertexPlan::Sparse(solution.plan) },
                    dual,
                    source_potential: solution.source_potential,
                    target_potential: solution.target_potential,
                })
            }
            Self::Sinkhorn { sinkhorn, entropy: weight, tolerance } => {
                let cost = maps.cost(metric);
                sinkhorn.solve(&cost, *tolerance, MAX_SWEEPS, interrupt)?;
                let plan = sinkhorn.feasible_plan(&cost);
                let (moment, entropy) = measure_plan(maps, &plan, &cost);
                let (source_potential, target_potential) = sinkhorn.potentials();
                let rounding = sinkhorn.rounding() + maps.rounding(metric);
                let dual = sinkhorn.dual_value() - rounding;
                Ok(Answer {
                    rounding,
                    own_gap: inner(metric, &moment) + *weight * entropy - dual,
                    vertex: Vertex {
                        moment,
                        entropy,
                        plan: VertexPlan::Entropic { metric: metric.clone(), plan: Box::new(plan) },
                    },
                    dual,
                    source_potential,
                    target_potential,
                })
            }
        }
    }

    /// Leaves the matrix product for the differences, where that is possible: says whether anything changed.
    pub(super) fn take_care(&mut self, maps: &Displacements) -> bool {
        match self {
            Self::NetworkSimplex { careful, .. } if !*careful && maps.differences_are_affordable() => {
                *careful = true;
                true
            }
            _ => false,
        }
    }

    /// Asks the next Sinkhorn solve for more accuracy when the oracle's own gap makes up much of the whole.
    pub(super) fn sharpen(&mut self, own_gap: f64, gap: f64) {
        let Self::Sinkhorn { tolerance, .. } = self else { return };
        if own_gap > 0.1 * gap {
            *tolerance = (*tolerance * (0.05 * gap / own_gap).clamp(1e-3, 0.3)).max(SMALLEST_TOLERANCE);
        }
    }
}

/// V and Σ γ ln γ of an entropic plan, block by block: only γT is stored.
fn measure_plan(maps: &Displacements, plan: &EntropicPlan, cost: &Array2<f64>) -> (Array2<f64>, f64) {
    let (_, target) = maps.points();
    let (m, n) = cost.dim();
    let mut spread = Array2::zeros((m, target.ncols()));
    let entropies: Vec<f64> = spread
        .axis_chunks_iter_mut(Axis(0), ROWS_A_BLOCK)
        .into_par_iter()
        .enumerate()
        .map(|(block, spread)| {
            let mut plan_block = Array2::zeros((spread.nrows(), n));
            let mut entropy = 0.0;
            for (offset, mut masses) in plan_block.rows_mut().into_iter().enumerate() {
                let i = block * ROWS_A_BLOCK + offset;
                plan.fill_row(i, row(cost, i), masses.as_slice_mut().expect("rows are contiguous"));
                entropy += masses.iter().filter(|x| **x > 0.0).map(|x| x * x.ln()).sum::<f64>();
            }
            product_into(spread, plan_block.view(), target.view());
            entropy
        })
        .collect();
    (maps.moment_of_spread(&spread), entropies.into_iter().sum())
}
