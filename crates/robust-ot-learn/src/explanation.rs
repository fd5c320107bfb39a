//! What a robust distance consists of: $\langle V, M \rangle = \sum_{ab} M_{ab} V_{ab} = \sum_{ij} \gamma_{ij} C(M)_{ij}$, by
//! features and pairs of features, and by flows.

use std::fmt;

use ndarray::Array2;
use robust_ot::sets::Displacements;
use robust_ot::transport::PlanEntry;
use robust_ot::{Grouping, Measure, Result};

/// An entry of the metric is notable if it exceeds this fraction of the largest.
const NOTABLE: f64 = 0.01;

/// The entries of the worst metric that weigh most, and the flows that cost most.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings};
/// use robust_ot_learn::{Explanation, Naming};
///
/// let before = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
/// let after = Measure::uniform(array![[0.0, 2.0], [1.0, 2.0]])?;
/// let solution = Problem::new(&before, &after, MetricSet::P { k: 1 })?.solve(&Settings::default())?;
/// let names = ["height".to_owned(), "width".to_owned()];
/// let naming = Naming { features: Some(&names), first: 1, rows: (None, None) };
/// let parts = (&solution.metric, &solution.moment, solution.plan());
/// let found = Explanation::new(parts, (&before, &after), &Grouping::none(2), &naming, 8)?;
/// assert_eq!(found.pairs[0].names.0, "width");
/// assert!((found.pairs[0].share - 1.0).abs() < 1e-12);
/// assert_eq!(found.flows[0].from, "row 1");
/// assert!(found.to_string().starts_with("The worst metric weighs most:"));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Features and pairs of features or groups, the largest weight first.
    pub pairs: Vec<PairShare>,
    /// The fraction of the metric's entries above 1 % of the largest.
    pub notable: f64,
    /// Flows, the dearest first.
    pub flows: Vec<Flow>,
}

/// A feature or group, or a pair of them: its weight in the metric and its share of the cost.
///
/// ```
/// let names = ("height".to_owned(), "height".to_owned());
/// let one = robust_ot_learn::PairShare { places: (0, 0), names, weight: 0.8, share: 0.9 };
/// assert_eq!(one.name(), "height");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PairShare {
    /// Its row and column in the metric; equal for a feature alone.
    pub places: (usize, usize),
    /// Their names.
    pub names: (String, String),
    /// M_ab.
    pub weight: f64,
    /// The fraction of ⟨V, M⟩ that it accounts for.
    pub share: f64,
}

impl PairShare {
    /// The feature, or the two features, in words.
    pub fn name(&self) -> String {
        let (a, b) = &self.names;
        if self.places.0 == self.places.1 { a.clone() } else { format!("{a} with {b}") }
    }
}

/// Mass that moves from one point to another.
///
/// ```
/// let (from, to) = ("row 1".to_owned(), "row 2".to_owned());
/// let flow = robust_ot_learn::Flow { source: 0, target: 1, from, to, mass: 0.5, cost: 4.0, share: 1.0 };
/// assert_eq!(flow.mass * flow.cost, 2.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The source point.
    pub source: usize,
    /// The target point.
    pub target: usize,
    /// The name of the source point.
    pub from: String,
    /// The name of the target point.
    pub to: String,
    /// γ_ij.
    pub mass: f64,
    /// C(M)_ij.
    pub cost: f64,
    /// The fraction of the cost of all flows.
    pub share: f64,
}

/// What features and points are called.
///
/// ```
/// let naming = robust_ot_learn::Naming { features: None, first: 0, rows: (None, None) };
/// assert_eq!(naming.feature(2), "feature 2");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Naming<'a> {
    /// The names of the features, if they have some.
    pub features: Option<&'a [String]>,
    /// The number of the first feature and row where there are no names.
    pub first: usize,
    /// The names of source and target points, if they have some.
    pub rows: (Option<&'a [String]>, Option<&'a [String]>),
}

impl Naming<'_> {
    /// The name of feature f, or its number.
    pub fn feature(&self, f: usize) -> String {
        self.features.map_or_else(|| format!("feature {}", f + self.first), |names| names[f].clone())
    }

    /// Names for the rows of the metric.
    ///
    /// ```
    /// use robust_ot::Grouping;
    /// let naming = robust_ot_learn::Naming { features: None, first: 1, rows: (None, None) };
    /// assert_eq!(naming.groups(&Grouping::contiguous(4, 2)?), ["group 1 (1–2)", "group 2 (3–4)"]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn groups(&self, grouping: &Grouping) -> Vec<String> {
        if grouping.slots() == 1 {
            let mut names = vec![String::new(); grouping.groups()];
            grouping.assignment().iter().enumerate().for_each(|(f, &group)| names[group] = self.feature(f));
            return names;
        }
        (0..grouping.groups()).map(|group| self.group(grouping, group)).collect()
    }

    fn group(&self, grouping: &Grouping, group: usize) -> String {
        let members: Vec<usize> =
            (0..grouping.dim()).filter(|&f| grouping.assignment()[f] == group).collect();
        let number = group + self.first;
        match (&members[..], self.features) {
            ([only], _) => self.feature(*only),
            ([first, .., last], None) if last - first + 1 == members.len() => {
                format!("group {number} ({}–{})", first + self.first, last + self.first)
            }
            ([first, .., last], _) if last - first + 1 == members.len() => {
                format!("group {number} ({} to {})", self.feature(*first), self.feature(*last))
            }
            ([first, ..], _) => {
                format!("group {number} ({} and {} more)", self.feature(*first), members.len() - 1)
            }
            ([], _) => format!("group {number}"),
        }
    }

    fn row(&self, names: Option<&[String]>, i: usize) -> String {
        names.map_or_else(|| format!("row {}", i + self.first), |names| names[i].clone())
    }
}

impl Explanation {
    /// Ranks the entries of metric and plan, and keeps this many of each.
    ///
    /// # Errors
    /// When metric, measures and grouping do not belong together.
    pub fn new(
        (metric, moment, plan): (&Array2<f64>, &Array2<f64>, Vec<PlanEntry>),
        (source, target): (&Measure, &Measure),
        grouping: &Grouping,
        naming: &Naming,
        most: usize,
    ) -> Result<Self> {
        let cost = Displacements::new(source, target, grouping)?.cost(metric)?;
        Ok(Self {
            pairs: pairs(metric, moment, &naming.groups(grouping), most),
            notable: notable(metric),
            flows: flows(plan, &cost, naming, most),
        })
    }

    /// The same with at most this many entries of each kind.
    #[must_use]
    pub fn shortened(&self, most: usize) -> Self {
        let first = |count: usize| count.min(most);
        Self {
            pairs: self.pairs[..first(self.pairs.len())].to_vec(),
            notable: self.notable,
            flows: self.flows[..first(self.flows.len())].to_vec(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "The worst metric weighs most:")?;
        for pair in &self.pairs {
            writeln!(
                out,
                "  {:>9.4}  {}  ({:.1} % of the cost)",
                pair.weight,
                pair.name(),
                100.0 * pair.share
            )?;
        }
        writeln!(out, "  {:.1} % of its entries are above 1 % of the largest", 100.0 * self.notable)?;
        writeln!(out, "\nMost of the cost is spent on:")?;
        for Flow { from, to, mass, cost, share, .. } in &self.flows {
            let part = 100.0 * share;
            writeln!(out, "  {from} → {to}  mass {mass:.5}, cost {cost:.4}  ({part:.1} % of the cost)")?;
        }
        Ok(())
    }
}

/// The entries with the largest weights. Those above the diagonal count twice, because the metric is symmetric.
fn pairs(metric: &Array2<f64>, moment: &Array2<f64>, names: &[String], most: usize) -> Vec<PairShare> {
    let total = (metric * moment).sum();
    let mut upper: Vec<_> = metric.indexed_iter().filter(|((a, b), _)| a <= b).collect();
    upper.sort_by(|x, y| y.1.abs().total_cmp(&x.1.abs()));
    let named = upper.into_iter().take(most).map(|(places @ (a, b), &weight)| {
        let times = if a == b { 1.0 } else { 2.0 };
        let share = if total > 0.0 { times * weight * moment[[a, b]] / total } else { 0.0 };
        PairShare { places, names: (names[a].clone(), names[b].clone()), weight, share }
    });
    named.collect()
}

/// The fraction of entries above 1 % of the largest.
fn notable(metric: &Array2<f64>) -> f64 {
    let largest = metric.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
    metric.iter().filter(|x| x.abs() > NOTABLE * largest).count() as f64 / metric.len() as f64
}

/// The most expensive flows.
fn flows(mut plan: Vec<PlanEntry>, cost: &Array2<f64>, naming: &Naming, most: usize) -> Vec<Flow> {
    let spent = |e: &PlanEntry| e.mass * cost[[e.row, e.column]];
    let total: f64 = plan.iter().map(spent).sum();
    plan.sort_by(|x, y| spent(y).total_cmp(&spent(x)));
    let named = plan.iter().take(most).map(|entry| Flow {
        source: entry.row,
        target: entry.column,
        from: naming.row(naming.rows.0, entry.row),
        to: naming.row(naming.rows.1, entry.column),
        mass: entry.mass,
        cost: cost[[entry.row, entry.column]],
        share: if total > 0.0 { spent(entry) / total } else { 0.0 },
    });
    named.collect()
}
