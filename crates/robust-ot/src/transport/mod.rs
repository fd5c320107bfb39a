//! Plain optimal transport, the linear oracle of the robust problem:
//!
//! $$\min_{\gamma \ge 0} \langle C, \gamma\rangle\ [+ \lambda \sum_{ij} \gamma_{ij} \ln \gamma_{ij}]
//!   \quad\text{with}\quad \gamma 1 = a,\ \gamma^\top 1 = b.$$

mod cost_rows;
mod entropic_oracle;
mod entropic_plan;
mod exact_start;
mod first_potentials;
mod forest;
mod held_kernel;
mod iterate;
mod least_arcs;
mod momentum;
mod neighbors;
mod newton;
mod shortlist;
mod simplex;
mod sinkhorn;
mod sparse_costs;
mod sparse_solve;
mod sweep;
mod tree;

use ndarray::Array1;

pub use self::cost_rows::{CostFactors, CostRows};
pub use self::entropic_oracle::{EntropicAnswer, EntropicOracle, EntropicTask};
pub(crate) use self::entropic_plan::{Deficits, EntropicPlan};
pub(crate) use self::exact_start::LARGEST_EXACT;
pub(crate) use self::held_kernel::HeldKernel;
pub use self::simplex::{NetworkSimplex, SimplexSolution};
pub use self::sinkhorn::{Sinkhorn, SinkhornReport};
pub use self::sparse_costs::SparseCosts;
use crate::error::{Error, Result};
pub use crate::kernels::Real;

/// Mass that moves from a source point to a target point.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::{PlanEntry, NetworkSimplex};
///
/// let cost = array![[2.0], [1.0]];
/// let plan = NetworkSimplex::new(&[0.25, 0.75], &[1.0])?.solve(&cost, &Interrupt::default())?.plan;
/// assert_eq!(plan[1], PlanEntry { row: 1, column: 0, mass: 0.75 });
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEntry {
    /// Index of the source point.
    pub row: usize,
    /// Index of the target point.
    pub column: usize,
    /// The mass that moves.
    pub mass: f64,
}

/// The largest difference between the sums of two weight vectors, relative to the larger, that counts as equal.
const MASS_TOLERANCE: f64 = 1e-6;

/// Checks two weight vectors and scales both to sum to one; also returns the mass.
fn normalized(a: &[f64], b: &[f64]) -> Result<(Array1<f64>, Array1<f64>, f64)> {
    let mass = |weights: &[f64]| -> Result<f64> {
        if let Some((index, &value)) =
            weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0))
        {
            return Err(Error::Weight { index, value });
        }
        let sum: f64 = weights.iter().sum();
        if sum > 0.0 && sum.is_finite() { Ok(sum) } else { Err(Error::Mass { sum }) }
    };
    let (of_a, of_b) = (mass(a)?, mass(b)?);
    if (of_a - of_b).abs() > MASS_TOLERANCE * of_a.max(of_b) {
        return Err(Error::Balance { source_mass: of_a, target_mass: of_b });
    }
    let scaled = |weights: &[f64], mass: f64| weights.iter().map(|w| w / mass).collect();
    Ok((scaled(a, of_a), scaled(b, of_b), of_a))
}

/// ⟨a, f⟩ + ⟨b, g⟩, and a bound on its error from rounding in sums and potentials.
pub(crate) fn dual_value(
    weights: (&Array1<f64>, &Array1<f64>),
    potentials: (&Array1<f64>, &Array1<f64>),
) -> (f64, f64) {
    let value = weighted_sum(weights.0, potentials.0) + weighted_sum(weights.1, potentials.1);
    let size = weighted_sum(weights.0, &potentials.0.mapv(f64::abs))
        + weighted_sum(weights.1, &potentials.1.mapv(f64::abs));
    (value, 8.0 * f64::EPSILON * size)
}

/// Σ x_i y_i with compensated summation (Neumaier), so that long sums do not blur a bound.
/// Zero weights are skipped, whatever their potential.
fn weighted_sum(weights: &Array1<f64>, values: &Array1<f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for (w, v) in weights.iter().zip(values).filter(|(w, _)| **w > 0.0) {
        let term = w * v;
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    sum + lost
}
