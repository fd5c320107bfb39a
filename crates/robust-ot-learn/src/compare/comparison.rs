//! The comparison of two samples.

use ndarray::{Array2, Axis};
use robust_ot::solve::Interrupt;
use robust_ot::{Grouping, MetricSet, Result, Settings};
use serde::Serialize;

use super::arrangements::Arrangements;
use super::categories::{Category, judge_categories};
use super::change::{Change, PairChange};
use super::energy::energies;
use super::histogram::Histogram;
use super::local::{Judged, Judgments, judge, pair_index};
use super::ranking::{combined_p_value, p_value};
use super::robust_statistic::{Decisions, RobustStatistic};
use super::sample::{Prepared, Samples};
use super::settings::{CompareSettings, Statistic};
use super::worst_weights::{MOST_COLUMNS, Moved, worst_weights};

/// The most pairs that are listed.
const LISTED_PAIRS: usize = 1000;
/// The metric set that describes what changed, unless another is the statistic.
const DESCRIBING: MetricSet = MetricSet::P { k: 1 };

/// One statistic of the family, with its own p-value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// `columns`, `sum`, `pairs`, `moments` or `energy`.
    pub name: &'static str,
    /// The observed statistic.
    pub statistic: f64,
    /// Its p-value, as if it were the only one.
    pub p_value: f64,
    /// How much it counts in the p-value of all.
    pub weight: f64,
    /// The statistic of every arrangement, the observed one first.
    #[serde(skip)]
    pub arrangements: Vec<f64>,
}

/// A column, judged by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Feature {
    /// The name.
    pub name: String,
    /// The p-value, adjusted for the number of columns.
    pub p_value: f64,
    /// The p-value of this column alone.
    pub unadjusted: f64,
    /// The statistic, in standard deviations above its mean over all arrangements.
    pub statistic: f64,
    /// The weight of the column in the worst metric, beyond that under exchanged rows; a description, not a test.
    pub weight: Option<f64>,
    /// How it changed.
    pub change: Change,
    /// Its values on both sides.
    pub histogram: Histogram,
}

/// A pair of columns, judged by their correlation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The names of both.
    pub names: [String; 2],
    /// The p-value, adjusted for the number of pairs.
    pub p_value: f64,
    /// The p-value of this pair alone.
    pub unadjusted: f64,
    /// The statistic, in standard deviations above its mean over all arrangements.
    pub statistic: f64,
    /// The weight of the pair in the worst metric, beyond that under exchanged rows; a description, not a test.
    pub weight: Option<f64>,
    /// How the correlation changed.
    pub change: PairChange,
}

/// A group of columns, judged by these columns and the pairs among them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The p-value, adjusted for the number of groups.
    pub p_value: f64,
    /// The statistic, in standard deviations above its mean over all arrangements.
    pub statistic: f64,
}

/// Whether and where two samples differ.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The p-value of the comparison.
    pub p_value: f64,
    /// Whether it is at most alpha.
    pub differs: bool,
    /// The level.
    pub alpha: f64,
    /// `family`, or the metric set whose distance is the statistic.
    pub statistic: String,
    /// The number of arrangements, without the observed one.
    pub permutations: usize,
    /// Whether these are all that there are.
    pub exhaustive: bool,
    /// The arrangements that bounds decided before the solve had converged; absent for the family.
    pub decided_by_bounds: Option<usize>,
    /// The arrangements that no bound decided and that count against a difference; absent for the family.
    pub undecided: Option<usize>,
    /// The number of rows used, before and after.
    pub rows: [usize; 2],
    /// The number of rows given.
    pub rows_given: [usize; 2],
    /// The names of the columns compared.
    pub columns: Vec<String>,
    /// Constant columns, which are left out.
    pub constant_columns: Vec<String>,
    /// How columns are scaled.
    pub scale: &'static str,
    /// The robust distance and its lower bound, of scaled columns; that of the description uses at most 400 rows of each side.
    pub distance: Option<[f64; 2]>,
    /// The statistics of the family.
    pub parts: Vec<Part>,
    /// Columns, by p-value, then statistic.
    pub features: Vec<Feature>,
    /// The first 1000 pairs, by p-value, then statistic; none if there are more than 200 columns.
    pub pairs: Vec<Pair>,
    /// Groups, by p-value, then statistic.
    pub groups: Vec<Group>,
    /// Text columns, by p-value.
    pub categories: Vec<Category>,
    /// The rows that the plan of the description moves farthest.
    pub moved: Vec<Moved>,
    /// The worst metric, beyond that under exchanged rows, in the order of `columns`.
    #[serde(skip)]
    pub weights: Option<Array2<f64>>,
}

/// Compares two samples; `done` hears of arrangements as they are finished, of `2 × permutations` with the family and
/// `permutations` with one distance more. `None` once interrupted.
///
/// ```
/// use ndarray::Array2;
/// use robust_ot::solve::Interrupt;
/// use robust_ot_learn::compare::{CompareSettings, Samples, compare};
///
/// let table = |shift: f64| Array2::from_shape_fn((30, 2), |(i, j)| ((7 * i + 3 * j) % 11) as f64 + shift * j as f64);
/// let samples = Samples {
///     before: table(0.0),
///     after: table(9.0),
///     names: vec!["steady".into(), "shifted".into()],
///     ..Samples::default()
/// };
/// let found = compare(&samples, &CompareSettings::default(), &Interrupt::default(), &|_| ())?.unwrap();
/// assert!(found.differs && found.p_value == 0.001);
/// assert_eq!(found.features[0].name, "shifted");
/// assert!(found.features[1].p_value > 0.05);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When a sample has fewer than two rows, all columns are constant, a setting is out of range, or rows cannot be exchanged as
/// asked.
pub fn compare(
    samples: &Samples,
    settings: &CompareSettings,
    interrupt: &Interrupt,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Option<Comparison>> {
    settings.check()?;
    let prepared = samples.prepare(settings)?;
    let sides = (prepared.before, prepared.after);
    let arrangements = Arrangements::new(sides, &prepared.exchange, settings.permutations, settings.seed)?;
    let groups: Vec<Vec<usize>> = prepared.groups.iter().map(|(_, columns)| columns.clone()).collect();
    let Some(judgments) = judge(prepared.values.view(), &groups, &arrangements, interrupt, done) else {
        return Ok(None);
    };
    let mut found = prepared.comparison(samples, settings, &arrangements);
    let set = match &settings.statistic {
        Statistic::Family => {
            let energy = energies(prepared.values.view(), &arrangements, interrupt);
            found.parts = parts(&judgments, energy);
            let all: Vec<(f64, &[f64])> =
                found.parts.iter().map(|part| (part.weight, part.arrangements.as_slice())).collect();
            if interrupt.is_raised() {
                return Ok(None);
            }
            found.p_value = combined_p_value(&all);
            &DESCRIBING
        }
        Statistic::Distance(set) => {
            let grouping = Grouping::none(prepared.values.ncols());
            let solving = Settings::default();
            let statistic = RobustStatistic {
                values: prepared.values.view(),
                set,
                grouping: &grouping,
                settings: &solving,
            };
            let observed = statistic.observed(&arrangements, interrupt)?;
            let Some(decided) = statistic.decide(&arrangements, &observed, interrupt, done)? else {
                return Ok(None);
            };
            let Decisions { p_value, permutations, early, undecided } = decided;
            (found.p_value, found.permutations) = (p_value, permutations);
            (found.decided_by_bounds, found.undecided) = (Some(early), Some(undecided));
            found.distance = Some([observed.value, observed.lower_bound]);
            set
        }
    };
    found.differs = found.p_value <= settings.alpha;
    if prepared.values.ncols() <= MOST_COLUMNS {
        let Some(described) = worst_weights(prepared.values.view(), sides, set, settings.seed, interrupt)?
        else {
            return Ok(None);
        };
        found.distance.get_or_insert(described.distance);
        found.weights = Some(described.weights);
        let row = |side: usize, row: usize| prepared.rows[side][row];
        let moved = described.moved.into_iter();
        found.moved =
            moved.map(|m| Moved { before: row(0, m.before), after: row(1, m.after), ..m }).collect();
    }
    prepared.describe(&judgments, &mut found);
    found.categories = judge_categories(&prepared.categories, prepared.before, &arrangements);
    found.categories.sort_by(|x, y| x.p_value.total_cmp(&y.p_value));
    Ok(Some(found))
}

/// The statistics of the family. Half weights of pairs and moments were chosen with simulations (docs/comparing.md).
fn parts(judgments: &Judgments, energy: Vec<f64>) -> Vec<Part> {
    let part = |name, weight, arrangements: Vec<f64>| Part {
        name,
        statistic: arrangements.first().copied().unwrap_or(f64::NAN),
        p_value: p_value(&arrangements),
        weight,
        arrangements,
    };
    let mut parts = vec![
        part("columns", 1.0, judgments.largest_column.clone()),
        part("sum", 1.0, judgments.sum_of_columns.clone()),
        part("moments", 0.5, judgments.moments.clone()),
        part("energy", 1.0, energy),
    ];
    if !judgments.pairs.is_empty() {
        parts.insert(2, part("pairs", 0.5, judgments.largest_pair.clone()));
    }
    parts
}

impl Prepared {
    /// The comparison before anything has been tested.
    fn comparison(
        &self,
        samples: &Samples,
        settings: &CompareSettings,
        arrangements: &Arrangements,
    ) -> Comparison {
        Comparison {
            p_value: 1.0,
            differs: false,
            alpha: settings.alpha,
            statistic: match &settings.statistic {
                Statistic::Family => "family".to_owned(),
                Statistic::Distance(set) => set.to_string(),
            },
            permutations: arrangements.len() - 1,
            exhaustive: arrangements.exhaustive,
            decided_by_bounds: None,
            undecided: None,
            rows: [self.before, self.after],
            rows_given: [samples.before.nrows(), samples.after.nrows()],
            columns: self.names.clone(),
            constant_columns: self.constant.clone(),
            scale: settings.scale.name(),
            distance: None,
            parts: Vec::new(),
            features: Vec::new(),
            pairs: Vec::new(),
            groups: Vec::new(),
            categories: Vec::new(),
            moved: Vec::new(),
            weights: None,
        }
    }

    /// Adds what is known of columns, pairs and groups.
    fn describe(&self, judgments: &Judgments, found: &mut Comparison) {
        let dim = self.names.len();
        let sides = |column: usize| {
            let (before, after) = self.raw.index_axis(Axis(1), column).split_at(Axis(0), self.before);
            [before, after]
        };
        let weight = |a: usize, b: usize| found.weights.as_ref().map(|weights| weights[[a, b]]);
        let feature = |(column, judged): (usize, &Judged)| Feature {
            name: self.names[column].clone(),
            p_value: judged.adjusted,
            unadjusted: judged.p_value,
            statistic: judged.statistic,
            weight: weight(column, column),
            change: Change::between(sides(column)),
            histogram: Histogram::new(sides(column)),
        };
        let mut features: Vec<Feature> = judgments.columns.iter().enumerate().map(feature).collect();
        features.sort_by(|x, y| by_p_value((x.p_value, x.statistic), (y.p_value, y.statistic)));
        let mut order: Vec<(usize, usize)> = if judgments.pairs.is_empty() {
            Vec::new()
        } else {
            (0..dim).flat_map(|a| (a + 1..dim).map(move |b| (a, b))).collect()
        };
        let judged = |(a, b): (usize, usize)| &judgments.pairs[pair_index(dim, a, b)];
        let key = |pair: (usize, usize)| (judged(pair).adjusted, judged(pair).statistic);
        order.sort_by(|x, y| by_p_value(key(*x), key(*y)));
        let pair = |&(a, b): &(usize, usize)| {
            let Judged { statistic, p_value, adjusted } = *judged((a, b));
            let ([a_before, a_after], [b_before, b_after]) = (sides(a), sides(b));
            Pair {
                names: [self.names[a].clone(), self.names[b].clone()],
                p_value: adjusted,
                unadjusted: p_value,
                statistic,
                weight: weight(a, b),
                change: PairChange::new([a_before, b_before], [a_after, b_after]),
            }
        };
        let pairs = order.iter().take(LISTED_PAIRS).map(pair).collect();
        let group = |((name, columns), judged): (&(String, Vec<usize>), &Judged)| Group {
            name: name.clone(),
            columns: columns.iter().map(|&column| self.names[column].clone()).collect(),
            p_value: judged.adjusted,
            statistic: judged.statistic,
        };
        let mut groups: Vec<Group> = self.groups.iter().zip(&judgments.groups).map(group).collect();
        groups.sort_by(|x, y| by_p_value((x.p_value, x.statistic), (y.p_value, y.statistic)));
        (found.features, found.pairs, found.groups) = (features, pairs, groups);
    }
}

/// Smaller p-values first, then larger statistics.
fn by_p_value(x: (f64, f64), y: (f64, f64)) -> std::cmp::Ordering {
    x.0.total_cmp(&y.0).then(y.1.total_cmp(&x.1))
}
