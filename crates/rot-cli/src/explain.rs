//! `--explain`: the features that the worst metric weighs most, and the flows that cost most.

use std::io::{self, Write};

use ndarray::Array2;
use robust_ot::sets::Displacements;
use robust_ot::transport::PlanEntry;
use robust_ot::{Grouping, Solution};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::input::Input;

/// Lines per list on a terminal and in `--json`.
pub const TERMINAL_LINES: usize = 8;
/// Lines per list in a report, the longest output; lists keep no more.
pub const REPORTED_LINES: usize = 20;
/// An entry of the metric is notable if it exceeds this fraction of the largest.
const NOTABLE: f64 = 0.01;

/// A pair of features or groups, its weight in the metric and its share of the cost.
#[derive(Debug)]
struct Pair {
    names: (String, String),
    weight: f64,
    /// The fraction of ⟨V, M⟩ that this pair accounts for.
    share: f64,
}

/// Mass that moves from one point to another.
#[derive(Debug)]
struct Flow {
    from: String,
    to: String,
    mass: f64,
    cost: f64,
}

/// The ranked entries of metric and plan that `--explain` shows.
#[derive(Debug)]
pub struct Explanation {
    pairs: Vec<Pair>,
    notable: f64,
    flows: Vec<Flow>,
    /// Σ mass · cost over the whole plan.
    spent: f64,
}

impl Explanation {
    /// Ranks the entries of the metric and of the plan.
    pub fn new(
        solution: &Solution,
        source: &Input,
        target: &Input,
        grouping: &Grouping,
    ) -> Result<Self, Failure> {
        let names = group_names(grouping, source.features.as_deref());
        let (flows, spent) = flows(solution, source, target, grouping)?;
        Ok(Self {
            pairs: pairs(&solution.metric, &solution.moment, &names),
            notable: notable(&solution.metric),
            flows,
            spent,
        })
    }

    /// Prints the first lines of each list.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\nThe worst metric weighs most:")?;
        for Pair { names: (a, b), weight, share } in self.pairs.iter().take(TERMINAL_LINES) {
            let what = if a == b { a.clone() } else { format!("{a} with {b}") };
            writeln!(out, "  {weight:>9.4}  {what}  ({:.1} % of the cost)", 100.0 * share)?;
        }
        let percent = 100.0 * self.notable;
        writeln!(out, "  {percent:.1} % of its entries are above 1 % of the largest")?;
        writeln!(out, "\nMost of the cost is spent on:")?;
        for Flow { from, to, mass, cost } in self.flows.iter().take(TERMINAL_LINES) {
            let part = if self.spent > 0.0 { 100.0 * mass * cost / self.spent } else { 0.0 };
            writeln!(out, "  {from} → {to}  mass {mass:.5}, cost {cost:.4}  ({part:.1} % of the cost)")?;
        }
        Ok(())
    }

    /// The given number of lines of each list, as JSON.
    pub fn json(&self, lines: usize) -> Value {
        let pairs = self.pairs.iter().take(lines).map(|pair| {
            json!({"features": [pair.names.0, pair.names.1], "weight": pair.weight, "share": pair.share})
        });
        let flows = self
            .flows
            .iter()
            .take(lines)
            .map(|flow| json!({"from": flow.from, "to": flow.to, "mass": flow.mass, "cost": flow.cost}));
        json!({
            "metric": pairs.collect::<Vec<_>>(),
            "entries_above_one_percent": self.notable,
            "flows": flows.collect::<Vec<_>>(),
        })
    }
}

/// The entries with the largest weights. Those above the diagonal count twice, because the metric is symmetric.
fn pairs(metric: &Array2<f64>, moment: &Array2<f64>, names: &[String]) -> Vec<Pair> {
    let total = (metric * moment).sum();
    let mut upper: Vec<_> = metric.indexed_iter().filter(|((a, b), _)| a <= b).collect();
    upper.sort_by(|x, y| y.1.abs().total_cmp(&x.1.abs()));
    let named = upper.into_iter().take(REPORTED_LINES).map(|((a, b), &weight)| {
        let times = if a == b { 1.0 } else { 2.0 };
        let share = if total > 0.0 { times * weight * moment[[a, b]] / total } else { 0.0 };
        Pair { names: (names[a].clone(), names[b].clone()), weight, share }
    });
    named.collect()
}

/// The fraction of entries above 1 % of the largest.
fn notable(metric: &Array2<f64>) -> f64 {
    let largest = metric.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
    metric.iter().filter(|x| x.abs() > NOTABLE * largest).count() as f64 / metric.len() as f64
}

/// The most expensive flows, and the cost of all flows together.
fn flows(
    solution: &Solution,
    source: &Input,
    target: &Input,
    grouping: &Grouping,
) -> Result<(Vec<Flow>, f64), Failure> {
    let cost = Displacements::new(&source.measure, &target.measure, grouping)?.cost(&solution.metric)?;
    let spent = |e: &PlanEntry| e.mass * cost[[e.row, e.column]];
    let mut plan = solution.plan();
    let total = plan.iter().map(spent).sum();
    plan.sort_by(|x, y| spent(y).total_cmp(&spent(x)));
    let named = plan.iter().take(REPORTED_LINES).map(|entry| Flow {
        from: source.point(entry.row),
        to: target.point(entry.column),
        mass: entry.mass,
        cost: cost[[entry.row, entry.column]],
    });
    Ok((named.collect(), total))
}

/// The name of feature f, or its number from 1.
pub fn feature_name(names: Option<&[String]>, f: usize) -> String {
    names.map_or_else(|| format!("feature {}", f + 1), |names| names[f].clone())
}

/// Names for the rows of the metric.
pub fn group_names(grouping: &Grouping, features: Option<&[String]>) -> Vec<String> {
    let feature = |f: usize| feature_name(features, f);
    if grouping.slots() == 1 {
        let mut names = vec![String::new(); grouping.groups()];
        grouping.assignment().iter().enumerate().for_each(|(f, &group)| names[group] = feature(f));
        return names;
    }
    let members = |group: usize| -> Vec<usize> {
        (0..grouping.dim()).filter(|&f| grouping.assignment()[f] == group).collect()
    };
    let name = |group: usize| match (&members(group)[..], features) {
        ([only], _) => feature(*only),
        ([first, .., last], None) if last - first + 1 == members(group).len() => {
            format!("group {} ({}–{})", group + 1, first + 1, last + 1)
        }
        ([first, .., last], _) if last - first + 1 == members(group).len() => {
            format!("group {} ({} to {})", group + 1, feature(*first), feature(*last))
        }
        ([first, ..], _) => {
            format!("group {} ({} and {} more)", group + 1, feature(*first), members(group).len() - 1)
        }
        ([], _) => format!("group {}", group + 1),
    };
    (0..grouping.groups()).map(name).collect()
}
