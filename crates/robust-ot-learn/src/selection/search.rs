//! The order in which candidates are tried: scalings with plain L2, then priors, both with the squared error, whose whole
//! path is in closed form; then every loss with the best of these; last, sums of the two best losses with separate odds.

use ndarray::Array2;
use robust_ot::Result;
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;

use super::bench::{Base, Bench, FoldKernels};
use super::blend::{Mixture, blend_name, mixtures};
use super::calibration::Calibration;
use super::climb::{climb, l2_at};
use super::folds::Split;
use super::tried::Tried;
use crate::criterion::{Criterion, HeldScores};
use crate::dataset::Dataset;
use crate::fit::{Columns, Preparation};
use crate::full_batch::Linear;
use crate::label_kernel::{Prior, PriorGeometry};
use crate::objective::{Objective, Output};

/// The temperatures of the kernel that are tried.
const TEMPERATURES: [f64; 3] = [0.25, 0.5, 1.0];
/// The free parts that are tried, the first with every temperature.
const FREE: [f64; 3] = [0.3, 1.0, 0.1];
/// Up to this number of products of a row, a feature and a label, the prior of every geometry is tried with every loss;
/// beyond, only the best one is.
const LIGHT: f64 = 1e9;

/// What may be chosen, and what is given.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// The losses to choose from, with their objectives.
    pub(crate) bases: Vec<(&'static str, Objective)>,
    pub(crate) scalings: Vec<Preparation>,
    pub(crate) geometries: Vec<PriorGeometry>,
    pub(crate) temperature: Option<f64>,
    pub(crate) free: Option<f64>,
    pub(crate) l2: Option<f64>,
    /// The centered vectors of the label names.
    pub(crate) names: Option<&'a Array2<f64>>,
    /// What candidates are compared by.
    pub(crate) criterion: Criterion,
    /// The label vectors, if the criterion needs them.
    pub(crate) costs: Option<&'a Array2<f64>>,
    pub(crate) with_bias: bool,
    /// Products of a row, a feature and a label.
    pub(crate) work: f64,
    /// Whether every loss is tried under every scaling, not only under the best one.
    pub(crate) thorough: bool,
}

/// The winner: one model, or the sum of two.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) parts: Vec<Part>,
    pub(crate) scaling: Preparation,
    /// Of the held-out rows, where labels have probabilities of their own.
    pub(crate) calibration: Option<Calibration>,
}

/// A model of the sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The place of its loss among the bases.
    pub(crate) base: usize,
    pub(crate) prior: Prior,
    pub(crate) l2: f64,
    /// Its share in units of its spread, and the factor of its logits.
    pub(crate) share: f64,
    pub(crate) factor: f64,
}

impl Part {
    /// A model that is no sum.
    pub(crate) fn alone(base: usize, prior: Prior, l2: f64) -> Self {
        Self { base, prior, l2, share: 1.0, factor: 1.0 }
    }
}

/// A candidate that may be chosen.
#[derive(Clone)]
struct Best {
    /// By the criterion.
    value: f64,
    chosen: Chosen,
    /// Of the held-out rows.
    logits: Array2<f32>,
}

/// A scaling of the features, with its folds.
struct Scaled<'a> {
    /// The best value with plain L2.
    plain: f64,
    scaling: Preparation,
    bench: Bench<'a>,
    /// The place of its λ.
    place: i32,
    /// The best candidates of each base, without a prior and with one.
    best: Vec<[Option<Best>; 2]>,
}

/// The candidates so far.
pub(crate) struct Search<'a, 'b> {
    options: &'a Options<'a>,
    interrupt: &'a Interrupt,
    tell: &'b mut dyn FnMut(&Tried),
    square: Objective,
    /// Those of the present scaling.
    best: Vec<[Option<Best>; 2]>,
    pub(crate) tried: Vec<Tried>,
}

/// No candidate yet.
fn nothing(options: &Options) -> Vec<[Option<Best>; 2]> {
    vec![[None, None]; options.bases.len()]
}

impl<'a, 'b> Search<'a, 'b> {
    /// Scales the rows to choose from, in this order. Returns the winner, or `None` once interrupted.
    pub(crate) fn run(
        options: &'a Options<'a>,
        square: Objective,
        (train, validation, splits): (&Dataset, Option<&Dataset>, &[Split]),
        interrupt: &'a Interrupt,
        tell: &'b mut dyn FnMut(&Tried),
    ) -> Result<Option<(Chosen, Vec<Tried>)>> {
        let best = nothing(options);
        let mut search = Search { options, interrupt, tell, square, best, tried: Vec::new() };
        let Some(scalings) = search.scalings(train, validation, splits)? else { return Ok(None) };
        let mut winner: Option<(Best, Targets)> = None;
        for mut scaled in scalings {
            search.best = std::mem::take(&mut scaled.best);
            if !search.losses(&mut scaled)? {
                return Ok(None);
            }
            let blend = search.blend(&scaled)?;
            let single = search.best.iter_mut().flatten().filter_map(Option::take);
            for best in single.chain(blend) {
                if winner.as_ref().is_none_or(|(winner, _)| best.value > winner.value) {
                    winner = Some((best, scaled.bench.truth().clone()));
                }
            }
        }
        let Some((Best { mut chosen, logits, .. }, truth)) = winner else { return Ok(None) };
        if options.bases[chosen.parts[0].base].1.output() == Output::Sigmoid {
            chosen.calibration = Calibration::of(logits.mapv(f64::from).view(), &truth);
        }
        Ok(Some((chosen, search.tried)))
    }

    /// Tries the scalings with plain L2. Returns the best one, or all of them, the best first, or `None` once interrupted.
    fn scalings(
        &mut self,
        train: &Dataset,
        validation: Option<&Dataset>,
        splits: &[Split],
    ) -> Result<Option<Vec<Scaled<'a>>>> {
        let options = self.options;
        let mut all: Vec<Scaled> = Vec::new();
        for &scaling in &options.scalings {
            let rows = (train, validation);
            let mut bench = Bench::new(
                splits,
                rows,
                scaling,
                (options.names, options.costs),
                &self.square,
                options.with_bias,
            )?;
            let kernels = bench.kernels(PriorGeometry::None, 1.0)?;
            let start = all.first().map_or(2, |best| best.place);
            let square = self.square.clone();
            let scout = self.scout(&bench, &square);
            let Some((place, plain)) = self.climb(&bench, scaling, scout, (&kernels, Prior::NONE), start)?
            else {
                return Ok(None);
            };
            let best = std::mem::replace(&mut self.best, nothing(options));
            all.push(Scaled { plain, scaling, bench, place, best });
            // The first of equals stays first.
            all.sort_by(|x, y| y.plain.total_cmp(&x.plain));
            if !options.thorough {
                all.truncate(1);
            }
        }
        Ok(Some(all))
    }

    /// Tries the priors and the losses under one scaling. Returns whether it came to its end.
    fn losses(&mut self, Scaled { plain, scaling, bench, place, .. }: &mut Scaled<'a>) -> Result<bool> {
        let (plain, scaling, place) = (*plain, *scaling, *place);
        // The prior of each geometry.
        let square = self.square.clone();
        let scout = self.scout(bench, &square);
        let mut priors = Vec::new();
        for &geometry in &self.options.geometries {
            let Some(found) = self.prior(bench, scaling, scout, geometry, (plain, place))? else {
                return Ok(false);
            };
            priors.push(found);
        }
        priors.sort_by(|x, y| y.0.total_cmp(&x.0));
        if self.options.work > LIGHT && priors.len() > 2 {
            priors.retain({
                let best = priors[0].1.geometry;
                move |(_, prior, _)| prior.geometry == best || prior.geometry == PriorGeometry::None
            });
        }
        // The losses that have no closed form.
        for (name, objective) in &self.options.bases {
            if objective.is_square() && bench.has_ridge() || *name == scout.0 {
                continue;
            }
            let mut start = place;
            for (_, prior, _) in &priors {
                let kernels = bench.kernels(prior.geometry, prior.temperature)?;
                let found = self.climb(bench, scaling, (name, objective), (&kernels, *prior), start)?;
                let Some((place, _)) = found else { return Ok(false) };
                start = place;
            }
        }
        Ok(true)
    }

    /// The best sum of two of the best models of losses with separate odds, without a prior and with one.
    fn blend(&mut self, Scaled { scaling, bench, .. }: &Scaled<'a>) -> Result<Option<Best>> {
        let bases = &self.options.bases;
        let separate = |best: &&Best| bases[best.chosen.parts[0].base].1.output() == Output::Sigmoid;
        let best: Vec<Best> = self.best.iter().flatten().flatten().filter(separate).cloned().collect();
        let mut found: Option<Best> = None;
        for (place, first) in best.iter().enumerate() {
            for second in &best[place + 1..] {
                for Mixture { shares, factors, logits } in mixtures(&first.logits, &second.logits) {
                    let of = |chosen: &Chosen, at: usize| {
                        let (share, factor) = (shares[at], factors[at]);
                        Part { share, factor, ..chosen.parts[0] }
                    };
                    let parts = vec![of(&first.chosen, 0), of(&second.chosen, 1)];
                    let Part { base, prior, l2, .. } = parts[0];
                    let (name, objective) = &bases[base];
                    let scores = bench.scores(Base { name, objective }, &logits)?;
                    let value = self.record(blend_name(bases, &parts), *scaling, (prior, l2), scores);
                    if found.as_ref().is_none_or(|best| value > best.value) {
                        let chosen = Chosen { parts, scaling: *scaling, calibration: None };
                        found = Some(Best { value, chosen, logits });
                    }
                }
            }
        }
        Ok(found)
    }

    /// The loss that scalings and priors are tried with: the squared error where it has a closed form.
    fn scout<'c>(&self, bench: &Bench, square: &'c Objective) -> (&'static str, &'c Objective)
    where
        'a: 'c,
    {
        if bench.has_ridge() { ("square", square) } else { self.first() }
    }

    /// The loss that scouts where the squared error has no closed form.
    fn first(&self) -> (&'static str, &'a Objective) {
        let (name, objective) = &self.options.bases[0];
        (name, objective)
    }

    /// The best temperature and free part of a geometry, with their score and their λ.
    fn prior(
        &mut self,
        bench: &mut Bench<'a>,
        scaling: Preparation,
        scout: (&'static str, &Objective),
        geometry: PriorGeometry,
        (plain, place): (f64, i32),
    ) -> Result<Option<(f64, Prior, i32)>> {
        if geometry == PriorGeometry::None {
            return Ok(Some((plain, Prior::NONE, place)));
        }
        let given = |given: Option<f64>, all: &[f64]| given.map_or(all.to_vec(), |given| vec![given]);
        let frees = given(self.options.free, &FREE);
        let mut best: Option<(f64, Prior, i32)> = None;
        for temperature in given(self.options.temperature, &TEMPERATURES) {
            let prior = Prior { geometry, temperature, free: frees[0] };
            let kernels = bench.kernels(geometry, temperature)?;
            let start = best.as_ref().map_or(place, |best| best.2);
            let found = self.climb(bench, scaling, scout, (&kernels, prior), start)?;
            let Some((place, value)) = found else { return Ok(None) };
            if best.as_ref().is_none_or(|best| value > best.0) {
                best = Some((value, prior, place));
            }
        }
        let Some((_, Prior { temperature, .. }, start)) = best else { return Ok(None) };
        let kernels = bench.kernels(geometry, temperature)?;
        for &free in &frees[1..] {
            let prior = Prior { geometry, temperature, free };
            let found = self.climb(bench, scaling, scout, (&kernels, prior), start)?;
            let Some((place, value)) = found else { return Ok(None) };
            if best.as_ref().is_none_or(|best| value > best.0) {
                best = Some((value, prior, place));
            }
        }
        Ok(best)
    }

    /// The best λ of one candidate, or the given one.
    fn climb(
        &mut self,
        bench: &Bench<'a>,
        scaling: Preparation,
        (name, objective): (&'static str, &Objective),
        (kernels, prior): (&FoldKernels, Prior),
        start: i32,
    ) -> Result<Option<(i32, f64)>> {
        let base = Base { name, objective };
        let unit = bench.unit(base);
        let mut warm = bench.cold();
        if let Some(l2) = self.options.l2 {
            let value = self.score(bench, scaling, base, (kernels, prior, l2), &mut warm)?;
            return Ok(value.map(|value| (start, value)));
        }
        climb(start, |place| {
            self.score(bench, scaling, base, (kernels, prior, l2_at(unit, place)), &mut warm)
        })
    }

    /// Scores one candidate and keeps it if it is the best of those that may be chosen.
    fn score(
        &mut self,
        bench: &Bench<'a>,
        scaling: Preparation,
        base: Base,
        (kernels, prior, l2): (&FoldKernels, Prior, f64),
        warm: &mut [Option<Linear>],
    ) -> Result<Option<f64>> {
        let logits = bench.logits(base, kernels, (prior.free, l2), warm, self.interrupt)?;
        let Some(logits) = logits else { return Ok(None) };
        let found = bench.scores(base, &logits)?;
        let value = self.record(base.name.to_owned(), scaling, (prior, l2), found);
        let allowed = self.options.geometries.contains(&prior.geometry);
        let place = self.options.bases.iter().position(|(name, _)| *name == base.name).filter(|_| allowed);
        if let Some(place) = place
            && let best = &mut self.best[place][usize::from(prior.geometry != PriorGeometry::None)]
            && best.as_ref().is_none_or(|best| value > best.value)
        {
            let chosen = Chosen { parts: vec![Part::alone(place, prior, l2)], scaling, calibration: None };
            *best = Some(Best { value, chosen, logits });
        }
        Ok(Some(value))
    }

    /// Tells and keeps what a candidate scores, and returns its value by the criterion.
    fn record(
        &mut self,
        loss: String,
        scaling: Preparation,
        (prior, l2): (Prior, f64),
        found: HeldScores,
    ) -> f64 {
        let columns = match scaling.columns {
            Columns::AsGiven => "as-given",
            Columns::Factor(_) => "factor",
            Columns::Standardize => "standardize",
        };
        let HeldScores { auc, map, precision_at_1, semantic_cost } = found;
        let (columns, row_length) = (columns.to_owned(), scaling.row_length);
        let tried = Tried { loss, columns, row_length, prior, l2, auc, map, precision_at_1, semantic_cost };
        let value = self.options.criterion.of(&found);
        (self.tell)(&tried);
        self.tried.push(tried);
        value
    }
}
