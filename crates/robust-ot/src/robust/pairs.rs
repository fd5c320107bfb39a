//! Distances of many pairs of measures.

use rayon::prelude::*;

use super::problem::{Problem, SolveOptions};
use super::settings::Settings;
use super::solution::Solution;
use super::status::Status;
use super::storage::Storage;
use super::workspace::Workspace;
use crate::error::Result;
use crate::grouping::Grouping;
use crate::interrupt::Interrupt;
use crate::measure::Measure;
use crate::metric::MetricSet;

/// The distance of a pair, with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PairDistance {
    /// An upper bound on the optimum: the value of a plan.
    pub value: f64,
    /// A lower bound on the optimum.
    pub lower_bound: f64,
    /// (value − lower_bound) / ⟨V, M⟩.
    pub relative_gap: f64,
    /// How the solve ended.
    pub status: Status,
    /// Oracle calls.
    pub iterations: usize,
    /// Which arrays of size m × n were kept.
    pub storage: Storage,
    /// Whether the CPU solved the pair. A device leaves to the CPU pairs that need too many rounds or too many digits.
    pub on_cpu: bool,
}

/// Which distances to compute, and how accurately.
#[derive(Debug, Clone, Copy)]
pub struct PairSettings<'a> {
    /// The measures that pairs refer to.
    pub measures: &'a [&'a Measure],
    /// The groups of their features.
    pub grouping: &'a Grouping,
    /// The metric set.
    pub set: &'a MetricSet,
    /// λ_γ; 0 means exact plans.
    pub entropy: f64,
    /// When to stop.
    pub settings: &'a Settings,
}

/// Computes the distances of pairs in parallel and returns them in order, the same for any number of threads. `progress`
/// receives the number of newly finished pairs. Once interrupted, the remaining pairs are [`Status::Interrupted`] without
/// bounds.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::{Interrupt, PairSettings, solve_pairs};
/// use robust_ot::{Grouping, Measure, MetricSet, Settings};
///
/// let measures = [0.0, 1.0, 3.0].map(|shift| Measure::uniform(array![[shift], [1.0 + shift]]));
/// let measures = measures.into_iter().collect::<Result<Vec<_>, _>>()?;
/// let measures: Vec<&Measure> = measures.iter().collect();
/// let (grouping, set, settings) = (Grouping::none(1), MetricSet::W2, Settings::default());
/// let wanted =
///     PairSettings { measures: &measures, grouping: &grouping, set: &set, entropy: 0.0, settings: &settings };
/// let found = solve_pairs(&[(0, 1), (0, 2)], wanted, &Interrupt::default(), &|_| ());
/// assert!((found[1].as_ref().unwrap().value - 9.0).abs() < 1e-9);
/// # Ok::<(), robust_ot::Error>(())
/// ```
pub fn solve_pairs(
    pairs: &[(usize, usize)],
    wanted: PairSettings<'_>,
    interrupt: &Interrupt,
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<Result<PairDistance>> {
    let solve = |workspace: &mut Workspace, pair: &(usize, usize)| {
        let found = solve_pair(*pair, wanted, workspace, interrupt);
        progress(1);
        found
    };
    pairs.par_iter().map_init(Workspace::default, solve).collect()
}

/// One group of all features for `W2`, which needs the trace of V alone: moments are then numbers instead of r × r matrices.
pub(crate) fn trace_only(set: &MetricSet, grouping: &Grouping) -> Result<Option<Grouping>> {
    let several = grouping.groups() > 1;
    if *set == MetricSet::W2 && several {
        Grouping::contiguous(grouping.dim(), 1).map(Some)
    } else {
        Ok(None)
    }
}

/// The distance of one pair on the CPU.
pub(super) fn solve_pair(
    (first, second): (usize, usize),
    PairSettings { measures, grouping, set, entropy, settings }: PairSettings<'_>,
    workspace: &mut Workspace,
    interrupt: &Interrupt,
) -> Result<PairDistance> {
    if interrupt.is_raised() {
        return Ok(PairDistance::unsolved());
    }
    let plain = trace_only(set, grouping)?;
    let grouping = plain.as_ref().unwrap_or(grouping);
    let problem = Problem::grouped(measures[first], measures[second], set.clone(), grouping)?;
    let options =
        SolveOptions { interrupt: Some(interrupt), workspace: Some(workspace), ..SolveOptions::default() };
    let Solution { value, lower_bound, relative_gap, status, iterations, storage, .. } =
        problem.with_entropy(entropy)?.solve_with(settings, options)?;
    Ok(PairDistance { value, lower_bound, relative_gap, status, iterations, storage, on_cpu: true })
}

impl PairDistance {
    /// A pair left unsolved by an interrupt; its bounds are infinite.
    fn unsolved() -> Self {
        Self {
            value: f64::INFINITY,
            lower_bound: f64::NEG_INFINITY,
            relative_gap: f64::INFINITY,
            status: Status::Interrupted,
            iterations: 0,
            storage: Storage::Stored,
            on_cpu: true,
        }
    }
}
