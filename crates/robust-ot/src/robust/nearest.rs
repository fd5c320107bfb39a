//! The nearest neighbors of some measures among others, without most of the distances: two lower bounds exclude measures that
//! are further than the neighbors found so far, [`Means`] first and [`Screen`] for what is left.

use ndarray::Array2;
use rayon::prelude::*;

use super::corpus::Corpus;
use super::means::Means;
use super::pairs::{PairDistance, PairSettings, solve_pairs, trace_only};
use super::screen::{Screen, entropy_of};
use super::status::Status;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// The number of candidates whose bounds are raised together, toward the limit that was reached before.
const BATCH: usize = 256;
/// The number of candidates that are solved together once there are enough neighbors for a limit.
const TOGETHER: usize = 2;
/// The number of likely neighbors that determine the metric of the bounds.
const LIKE: usize = 8;
/// The first neighbors are chosen from this many times as many candidates as are wanted.
const CHOICE: usize = 4;

/// Which neighbors to find. Queries and documents are indices into the same list of measures; a query is no neighbor of its own.
#[derive(Debug, Clone, Copy)]
pub struct NearestSettings<'a> {
    /// The measures whose neighbors are found, each with the largest distance that counts; ∞ for no limit.
    pub queries: &'a [(usize, f64)],
    /// The measures that may be neighbors.
    pub documents: &'a [usize],
    /// The number of neighbors per query; all documents if there are fewer.
    pub top: usize,
}

/// A neighbor, with its distance and whether it is certain.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Neighbor {
    /// The measure.
    pub measure: usize,
    /// Its distance with bounds.
    pub distance: PairDistance,
    /// Whether no document outside the list can be nearer: the upper bound of this distance is at most their lower bounds.
    pub certain: bool,
}

/// The neighbors of one query.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Nearest {
    /// The neighbors, the nearest first; documents at the same distance in the order of their indices.
    pub neighbors: Vec<Neighbor>,
    /// The least lower bound of all distances that were solved and are not among the neighbors; ∞ if there is none.
    pub next_lower_bound: f64,
    /// The number of distances solved; bounds exclude the others.
    pub solved: usize,
    /// The number of documents that were bounded by potentials.
    pub bounded: usize,
}

/// Finds the nearest neighbors of every query, in parallel: those with the least upper bounds, as if all distances were
/// computed and sorted. The answer is the same for any number of threads. `progress` receives the number of newly finished
/// queries; once interrupted, the remaining queries have no neighbors.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::{Interrupt, NearestSettings, PairSettings, nearest};
/// use robust_ot::{Grouping, Measure, MetricSet, Settings};
///
/// let measures = [0.0, 1.0, 3.0].map(|shift| Measure::uniform(array![[shift], [1.0 + shift]]));
/// let measures = measures.into_iter().collect::<Result<Vec<_>, _>>()?;
/// let measures: Vec<&Measure> = measures.iter().collect();
/// let (grouping, set, settings) = (Grouping::none(1), MetricSet::W2, Settings::default());
/// let pairs =
///     PairSettings { measures: &measures, grouping: &grouping, set: &set, entropy: 0.0, settings: &settings };
/// let wanted = NearestSettings { queries: &[(0, f64::INFINITY)], documents: &[1, 2], top: 1 };
/// let found = nearest(wanted, pairs, &Interrupt::default(), &|_| ())?;
/// let neighbor = found[0].as_ref().unwrap().neighbors[0];
/// assert_eq!((neighbor.measure, neighbor.certain), (1, true));
/// assert!((neighbor.distance.value - 1.0).abs() < 1e-9);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When there are no measures, they have different numbers of features, an index is not among them, `top` is zero, or a parameter
/// does not fit. A distance that cannot be computed is an error of its query alone.
pub fn nearest(
    wanted: NearestSettings<'_>,
    pairs: PairSettings<'_>,
    interrupt: &Interrupt,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Result<Nearest>>> {
    let NearestSettings { queries, documents, top } = wanted;
    check(wanted, pairs.measures.len())?;
    let plain = trace_only(pairs.set, pairs.grouping)?;
    let pairs = PairSettings { grouping: plain.as_ref().unwrap_or(pairs.grouping), ..pairs };
    let corpus = Corpus::new(pairs.measures, pairs.grouping)?;
    let means = Bounds::new(&corpus, pairs)?;
    let find = |&(query, limit): &(usize, f64)| {
        let mut search = Search::new(query, limit, top, (&corpus, &means), pairs, interrupt);
        let found = search.run(documents).map(|()| search.end());
        progress(1);
        found
    };
    Ok(queries.par_iter().map(find).collect())
}

fn check(NearestSettings { queries, documents, top }: NearestSettings<'_>, count: usize) -> Result<()> {
    let mut indices = queries.iter().map(|(query, _)| query).chain(documents);
    if let Some(index) = indices.find(|&&index| index >= count) {
        let rule = format!("below the number of measures, {count}");
        return Err(Error::parameter("queries and documents", rule, index));
    }
    if let Some((_, limit)) = queries.iter().find(|(_, limit)| limit.is_nan()) {
        return Err(Error::parameter("the limit of a query", "a number", limit));
    }
    if top > 0 { Ok(()) } else { Err(Error::parameter("top", "at least 1", top)) }
}

/// Bounds by the means: W ≥ h(ΔᵀΔ) − λ_γ (H(a) + H(b)).
struct Bounds {
    means: Means,
    entropy: f64,
    entropies: Vec<f64>,
}

impl Bounds {
    fn new(corpus: &Corpus, pairs: PairSettings<'_>) -> Result<Self> {
        let dim = pairs.grouping.dim();
        let mut means = Array2::zeros((pairs.measures.len(), dim));
        for (mut row, measure) in means.rows_mut().into_iter().zip(pairs.measures) {
            // Relative to a common center, so that a large offset costs no digits.
            for (point, weight) in measure.points().rows().into_iter().zip(measure.weights()) {
                row.scaled_add(*weight, &(&point - corpus.center()));
            }
        }
        let means = Means::new(&means, pairs.grouping, pairs.set.clone())?;
        let entropies = pairs.measures.iter().map(|measure| entropy_of(measure.weights())).collect();
        Ok(Self { means, entropy: pairs.entropy, entropies })
    }

    fn of(&self, query: usize, document: usize) -> Result<f64> {
        let bound = self.means.bound(query, document)?;
        let entropy = self.entropies[query] + self.entropies[document];
        Ok(if self.entropy > 0.0 { bound - self.entropy * entropy } else { bound })
    }
}

/// The search for one query's neighbors: first a few likely ones, then all that can be nearer than the last of them.
struct Search<'a> {
    query: usize,
    limit: f64,
    top: usize,
    corpus: &'a Corpus,
    means: &'a Bounds,
    pairs: PairSettings<'a>,
    interrupt: &'a Interrupt,
    best: Vec<(usize, PairDistance)>,
    next_lower_bound: f64,
    solved: usize,
    bounded: usize,
}

impl<'a> Search<'a> {
    fn new(
        query: usize,
        limit: f64,
        top: usize,
        (corpus, means): (&'a Corpus, &'a Bounds),
        pairs: PairSettings<'a>,
        interrupt: &'a Interrupt,
    ) -> Self {
        let (best, next_lower_bound) = (Vec::new(), f64::INFINITY);
        Self {
            query,
            limit,
            top,
            corpus,
            means,
            pairs,
            interrupt,
            best,
            next_lower_bound,
            solved: 0,
            bounded: 0,
        }
    }

    fn run(&mut self, documents: &[usize]) -> Result<()> {
        let others = documents.par_iter().filter(|&&document| document != self.query);
        let bounds = others.map(|&document| Ok((self.means.of(self.query, document)?, document)));
        let mut likeliest = bounds.collect::<Result<Vec<(f64, usize)>>>()?;
        if likeliest.is_empty() {
            return Ok(());
        }
        // Stable, so that documents at the same bound keep their order.
        likeliest.sort_by(|x, y| x.0.total_cmp(&y.0));
        let like: Vec<usize> = likeliest.iter().take(LIKE).map(|&(_, document)| document).collect();
        let screen = Screen::new(self.corpus, self.query, &like, self.pairs.set, self.pairs.entropy)?;
        let mut first = Vec::new();
        if self.limit == f64::INFINITY {
            let some: Vec<usize> =
                likeliest.iter().take(CHOICE * self.top).map(|&(_, document)| document).collect();
            let waiting = self.bounds(&screen, &some)?;
            first.extend(waiting.iter().take(self.top).map(|&(_, document)| document));
            self.take(&first)?;
        }
        for batch in likeliest.chunks(BATCH) {
            let near = batch.iter().filter(|(bound, _)| *bound <= self.limit());
            let near: Vec<usize> =
                near.map(|&(_, document)| document).filter(|document| !first.contains(document)).collect();
            let waiting = self.bounds(&screen, &near)?;
            for some in waiting.chunks(TOGETHER) {
                let some: Vec<usize> =
                    some.iter().filter(|(bound, _)| *bound <= self.limit()).map(|&(_, at)| at).collect();
                if some.is_empty() || self.interrupt.is_raised() {
                    break;
                }
                self.take(&some)?;
            }
        }
        Ok(())
    }

    /// The largest distance that can still enter.
    fn limit(&self) -> f64 {
        self.best.get(self.top - 1).map_or(self.limit, |(_, last)| last.value.min(self.limit))
    }

    /// Lower bounds of some distances, the smallest first.
    fn bounds(&mut self, screen: &Screen, some: &[usize]) -> Result<Vec<(f64, usize)>> {
        self.bounded += some.len();
        let limit = self.limit();
        let bound = |&document: &usize| Ok((screen.bound(self.corpus, document, limit)?, document));
        let mut found = some.par_iter().map(bound).collect::<Result<Vec<(f64, usize)>>>()?;
        found.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        Ok(found)
    }

    /// Solves some distances and keeps the nearest.
    fn take(&mut self, some: &[usize]) -> Result<()> {
        let pair = |&document: &usize| (self.query.min(document), self.query.max(document));
        let pairs: Vec<_> = some.iter().map(pair).collect();
        for (&document, solved) in some.iter().zip(solve_pairs(&pairs, self.pairs, self.interrupt, &|_| ())) {
            let solved = solved?;
            // Left unsolved by an interrupt.
            if solved.status == Status::Interrupted && solved.value == f64::INFINITY {
                continue;
            }
            self.solved += 1;
            self.best.push((document, solved));
        }
        self.best.sort_by(|x, y| x.1.value.total_cmp(&y.1.value).then(x.0.cmp(&y.0)));
        let kept = self.best.iter().take(self.top).filter(|(_, found)| found.value <= self.limit).count();
        for (_, dropped) in self.best.drain(kept..) {
            self.next_lower_bound = self.next_lower_bound.min(dropped.lower_bound);
        }
        Ok(())
    }

    fn end(&mut self) -> Nearest {
        let next = self.next_lower_bound;
        let neighbor = |&(measure, distance): &(usize, PairDistance)| Neighbor {
            measure,
            distance,
            certain: distance.value <= next,
        };
        Nearest {
            neighbors: self.best.iter().map(neighbor).collect(),
            next_lower_bound: next,
            solved: self.solved,
            bounded: self.bounded,
        }
    }
}
