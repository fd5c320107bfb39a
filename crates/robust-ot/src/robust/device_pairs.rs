//! Distances of many pairs of a corpus; another device solves their plain entropic problems, many at a time.

use std::fmt;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::active::{Vertex, VertexPlan};
use super::corpus::Corpus;
use super::descent::Descent;
use super::oracle::{FIRST_TOLERANCE, sharpened, tolerance_floor};
use super::pairs::{PairDistance, PairSettings, solve_pair};
use super::status::Status;
use super::storage::Storage;
use super::workspace::Workspace;
use crate::displacement::symmetrized;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::interrupt::Interrupt;
use crate::linalg::inner;

/// The most pairs in progress at a time.
const PAIRS_PER_BATCH: usize = 1 << 15;
/// Rounds after which the CPU takes over the remaining pairs: its Newton steps cope with plans that are nearly permutations.
const ROUNDS: usize = 20;
/// Rounding error of a sum of n terms e^x, in units of n ε.
const SUM_ROUNDING: f64 = 4.0;
/// Rounding error of a dual value that was summed as a tree, in units of ε times the sum of its absolute terms.
const DUAL_ROUNDING: f64 = 32.0;

/// Solves plain entropic transport for many pairs of a corpus at once.
pub trait PairOracle: fmt::Debug + Send {
    /// Finds plans for the metrics of a round, each warm-started from the last round of its slot.
    ///
    /// # Errors
    /// When the device fails.
    fn solve(&mut self, round: &PairRound<'_>) -> Result<PairAnswers>;
}

/// Problems to solve at once; every slice lists them in the same order.
#[derive(Debug, Clone, Copy)]
pub struct PairRound<'a> {
    /// The slot in which each problem keeps its state, below [`PairRound::most`].
    pub slots: &'a [usize],
    /// The two measures of each problem.
    pub pairs: &'a [(usize, usize)],
    /// The metrics, r² numbers each.
    pub metrics: &'a [f64],
    /// The marginal error that each problem is allowed.
    pub tolerances: &'a [f64],
    /// λ.
    pub regularization: f64,
    /// Whether the slots are new.
    pub fresh: bool,
    /// The number of slots.
    pub most: usize,
}

/// The results of a round, measured on plans with the right marginals.
#[derive(Debug, Clone, Default)]
pub struct PairAnswers {
    /// Σ γ_ij s_iᵀ t_j over slots, r² numbers each.
    pub crosses: Vec<f64>,
    /// Σ γ ln γ.
    pub entropies: Vec<f64>,
    /// ⟨a, f⟩ + ⟨b, g⟩ of potentials whose plan has the right row sums.
    pub duals: Vec<f64>,
    /// ⟨a, |f|⟩ + ⟨b, |g|⟩.
    pub sizes: Vec<f64>,
    /// 2 (Σ ρ_i ‖s_i‖ max ‖t_j‖ + Σ σ_j ‖t_j‖ max ‖s_i‖), where the sums of rows and columns are not the weights but off by ρ
    /// and σ beyond relative rounding: far points of little weight may have a large part in the moment.
    pub unplaced: Vec<f64>,
}

/// A pair in progress.
struct Pair<'a> {
    slot: usize,
    descent: Descent<'a>,
    tolerance: f64,
    floor: f64,
    /// λ n ε, the rounding allowance for sums.
    of_sums: f64,
}

/// Computes the distances of pairs of the corpus, in their order. `progress` receives the number of newly finished pairs.
///
/// # Errors
/// When a setting is out of range or the device fails. An error that concerns one pair is that pair's result.
pub fn solve_pairs_on(
    oracle: &mut dyn PairOracle,
    corpus: &Corpus,
    pairs: &[(usize, usize)],
    settings: PairSettings<'_>,
    interrupt: &Interrupt,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Result<PairDistance>>> {
    settings.settings.check()?;
    settings.set.check(corpus.size())?;
    let (found, wanted) = (settings.measures.len(), corpus.len());
    if found != wanted {
        return Err(Error::parameter("measures", format!("the {wanted} measures of the corpus"), found));
    }
    if settings.grouping != corpus.grouping() {
        return Err(Error::parameter("grouping", "that of the corpus", "another"));
    }
    if !(settings.entropy > 0.0 && settings.entropy <= 1e200) {
        return Err(Error::parameter("entropy", "positive and at most 1e200 on a device", settings.entropy));
    }
    let mut found = Vec::with_capacity(pairs.len());
    for some in pairs.chunks(PAIRS_PER_BATCH) {
        found.extend(solve_some(corpus, some, settings, oracle, interrupt, progress)?);
    }
    Ok(found)
}

fn solve_some(
    corpus: &Corpus,
    pairs: &[(usize, usize)],
    wanted: PairSettings<'_>,
    oracle: &mut dyn PairOracle,
    interrupt: &Interrupt,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Result<PairDistance>>> {
    let PairSettings { set, entropy, settings, .. } = wanted;
    let frames: Vec<Frame> = pairs.par_iter().map(|&(i, j)| corpus.frame(i, j)).collect();
    let mut found: Vec<Option<Result<PairDistance>>> = Vec::new();
    found.resize_with(pairs.len(), || None);
    let started: Vec<Result<Pair>> = (0..pairs.len())
        .into_par_iter()
        .map(|slot| {
            let (i, j) = pairs[slot];
            let points = (corpus.weights(i).len(), corpus.weights(j).len());
            Ok(Pair {
                slot,
                descent: Descent::new(set, entropy, &frames[slot], settings)?,
                tolerance: FIRST_TOLERANCE,
                floor: tolerance_floor(points.0 + points.1),
                of_sums: entropy * SUM_ROUNDING * f64::EPSILON * points.1 as f64,
            })
        })
        .collect();
    let mut active = Vec::new();
    for (slot, pair) in started.into_iter().enumerate() {
        match pair {
            Ok(pair) => active.push(pair),
            Err(error) => found[slot] = Some(Err(error)),
        }
    }
    progress(pairs.len() - active.len());
    let mut stalled = Vec::new();
    for round in 0..ROUNDS {
        if active.is_empty() {
            break;
        }
        let slots: Vec<usize> = active.iter().map(|pair| pair.slot).collect();
        let answers = oracle.solve(&PairRound {
            pairs: &slots.iter().map(|&slot| pairs[slot]).collect::<Vec<_>>(),
            metrics: &active.iter().flat_map(|pair| pair.descent.metric.iter().copied()).collect::<Vec<_>>(),
            tolerances: &active.iter().map(|pair| pair.tolerance).collect::<Vec<_>>(),
            regularization: entropy,
            fresh: round == 0,
            most: pairs.len(),
            slots: &slots,
        })?;
        let stepped: Vec<(Pair, Result<Option<Status>>)> = active
            .into_par_iter()
            .enumerate()
            .map(|(at, mut pair)| {
                let status = pair.take(&answers, at, entropy, interrupt);
                (pair, status)
            })
            .collect();
        active = Vec::new();
        let mut done = 0;
        for (pair, status) in stepped {
            let slot = pair.slot;
            match status {
                Ok(None) => active.push(pair),
                // Around the center of all measures the pair has run out of digits or of range; around its own center it has
                // more. An error of the pair itself comes up there again.
                Ok(Some(Status::Stalled)) | Err(_) => stalled.push(slot),
                Ok(Some(status)) => found[slot] = Some(Ok(pair.distance(status))),
            }
            done += usize::from(found[slot].is_some());
        }
        progress(done);
    }
    let left: Vec<usize> = active.into_iter().map(|pair| pair.slot).chain(stalled).collect();
    let solved: Vec<_> = left
        .par_iter()
        .map_init(Workspace::default, |workspace, &slot| {
            solve_pair(pairs[slot], wanted, workspace, interrupt)
        })
        .collect();
    progress(left.len());
    left.into_iter().zip(solved).for_each(|(slot, distance)| found[slot] = Some(distance));
    Ok(found.into_iter().map(|found| found.expect("every pair has finished")).collect())
}

impl Pair<'_> {
    /// Takes the plan that was found; returns the reason to stop, if there is one.
    fn take(
        &mut self,
        round: &PairAnswers,
        at: usize,
        entropy: f64,
        interrupt: &Interrupt,
    ) -> Result<Option<Status>> {
        let frame = self.descent.frame;
        let size = frame.size();
        let cross = &round.crosses[at * size * size..][..size * size];
        let cross = ArrayView2::from_shape((size, size), cross).expect("r² numbers");
        let moment: Array2<f64> = symmetrized(&frame.shared - &cross - cross.t());
        let of_plan = round.entropies[at];
        let metric = &self.descent.metric;
        let rounding = DUAL_ROUNDING * f64::EPSILON * round.sizes[at] + self.of_sums + frame.rounding(metric);
        let dual = round.duals[at] - rounding;
        let of_moment = frame.moment_rounding() + round.unplaced[at];
        // Costs beyond the range of the device leave it without a plan; the CPU finds one.
        if !(dual.is_finite()
            && of_plan.is_finite()
            && of_moment.is_finite()
            && moment.iter().all(|v| v.is_finite()))
        {
            return Ok(Some(Status::Stalled));
        }
        let own_gap = inner(metric, &moment) + entropy * of_plan - dual;
        let vertex = Vertex::new(moment, of_moment, of_plan, VertexPlan::Forgotten);
        self.descent.take(vertex, Vec::new(), dual)?;
        self.tolerance = sharpened(self.tolerance, self.floor, own_gap, self.descent.outlook());
        let stalled = self.descent.at_rounding(rounding).then_some(Status::Stalled);
        Ok(self.descent.status(interrupt).or(stalled))
    }

    fn distance(&self, status: Status) -> PairDistance {
        PairDistance {
            value: self.descent.bounds.value,
            lower_bound: self.descent.bounds.lower,
            relative_gap: self.descent.relative_gap(),
            status,
            iterations: self.descent.history.len(),
            storage: Storage::Stored,
            on_cpu: false,
        }
    }
}
