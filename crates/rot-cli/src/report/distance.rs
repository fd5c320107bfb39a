//! The report page of a distance.

use serde_json::Value;

use super::page::Page;
use super::{matrix, numbers, words};
use crate::failure::Failure;
use crate::output::readable;
use crate::picture::{Axis, Curve, Curves, metric_heatmap};

/// The shares of the cost that the summary names: the largest, until they add up to this.
const NAMED: f64 = 0.8;
/// The most entries that the summary names.
const MOST_NAMED: usize = 3;

/// Adds what was found, the metric, the flows and the bounds of a distance.
pub fn add(run: &Value, page: &mut Page) -> Result<(), Failure> {
    if let Some(key) =
        ["value", "lower_bound", "transport_cost"].into_iter().find(|key| !number(run, key).is_finite())
    {
        return Err(Failure::Input(format!("run.json: {key} must be a number, but is {}", run[key])));
    }
    page.section(&format!("From {} to {}", text(run, "source"), text(run, "target")));
    let entries = by_share(&run["explain"]["metric"], |entry| number(entry, "share").abs());
    page.summary(&[distance_in_words(run), metric_in_words(&entries), certainty_in_words(run)]);
    if let Some(found) = matrix(&run["metric_matrix"]) {
        page.section("The worst metric");
        metric_heatmap(&found, &words(&run["group_names"]), "Worst metric", |heatmap| {
            page.picture(heatmap, "metric", "The metric under which source and target are farthest apart")
        })?;
        let row = |entry: &&Value| {
            let (weight, share) = (number(entry, "weight"), number(entry, "share"));
            vec![features(entry), format!("{weight:.4}"), percent(share)]
        };
        page.table(&["entry", "weight", "share of the cost"], &entries.iter().map(row).collect::<Vec<_>>());
    }
    page.section("Where most of the cost is spent");
    let total = number(run, "transport_cost");
    let spent = |flow: &Value| number(flow, "mass") * number(flow, "cost");
    let row = |flow: &&Value| {
        let (mass, cost) = (number(flow, "mass"), number(flow, "cost"));
        let share = if total > 0.0 { percent(spent(flow) / total) } else { String::new() };
        vec![text(flow, "from"), text(flow, "to"), share, format!("{mass:.5}"), format!("{cost:.4}")]
    };
    let rows: Vec<Vec<String>> = by_share(&run["explain"]["flows"], spent).iter().map(row).collect();
    page.table(&["from", "to", "share of the cost", "mass", "cost"], &rows);
    add_numbers(run, page)?;
    page.provenance(run);
    Ok(())
}

/// The numbers behind the summary, and how the bounds converged.
fn add_numbers(run: &Value, page: &mut Page) -> Result<(), Failure> {
    page.section("The numbers");
    let (value, lower) = (readable(number(run, "value")), readable(number(run, "lower_bound")));
    let entropy = number(run, "entropy");
    let given = |condition: bool, text: String| if condition { text } else { String::new() };
    let excess =
        || [number(run, "excess"), number(run, "excess_lower_bound"), number(run, "offset")].map(readable);
    let [excess, lower_excess, offset] = excess();
    page.facts(&[
        ("excess", given(is_shifted(run), format!("{excess}, and at least {lower_excess}"))),
        ("distance", if is_shifted(run) { format!("{value}, with h(0) = {offset}") } else { value.clone() }),
        ("certified", format!("{lower} ≤ W ≤ {value}, relative gap {:.1e}", number(run, "relative_gap"))),
        (
            "entropy",
            given(
                entropy > 0.0,
                format!(
                    "{entropy}; the plan costs {} without it",
                    readable(number(run, "unregularized_value"))
                ),
            ),
        ),
        ("transport", format!("{} under the worst metric", readable(number(run, "transport_cost")))),
        ("metric", text(run, "set")),
        ("groups", given(run["groups"] != run["dim"], run["groups"].to_string())),
        ("points", format!("{} and {} in {} dimensions", run["n_source"], run["n_target"], run["dim"])),
        ("status", format!("{} after {} oracle calls", text(run, "status"), run["oracle_calls"])),
        ("seconds", format!("{:.3}", number(run, "seconds"))),
    ]);
    let steps: Vec<Vec<f64>> = run["history"].as_array().into_iter().flatten().map(numbers).collect();
    if steps.len() > 1 {
        let curve = |name: &str, side: usize| Curve {
            name: name.into(),
            points: steps
                .iter()
                .enumerate()
                .filter_map(|(at, step)| Some((at as f64 + 1.0, *step.get(side)?)))
                .collect(),
        };
        let curves = [curve("upper bound", 0), curve("lower bound", 1)];
        let x = Axis { name: "iteration", logarithmic: false };
        let y = Axis { name: "distance", logarithmic: false };
        page.picture(&Curves { title: "Bounds", x, y, all: &curves }, "bounds", "Convergence of the bounds")?;
    }
    Ok(())
}

/// Whether the penalty is not zero at h(0); runs of earlier versions do not tell.
fn is_shifted(run: &Value) -> bool {
    number(run, "excess").is_finite() && number(run, "offset") != 0.0
}

fn distance_in_words(run: &Value) -> String {
    let (what, value) = if is_shifted(run) { ("excess", "excess") } else { ("distance", "value") };
    let value = readable(number(run, value));
    format!(
        "The {what} between {} points and {} points is {value} under the metric that makes it largest.",
        run["n_source"], run["n_target"]
    )
}

/// The entries that most of the cost comes from.
fn metric_in_words(entries: &[&Value]) -> String {
    let mut named = Vec::new();
    let mut sum = 0.0;
    for entry in entries.iter().take(MOST_NAMED) {
        let share = number(entry, "share");
        if sum >= NAMED || share.is_nan() || share <= 0.0 {
            break;
        }
        let opposite = number(entry, "weight") < 0.0;
        let way = if opposite { ", which moved in opposite directions" } else { "" };
        named.push(format!("{} ({}{way})", features(entry), percent(share)));
        sum += share;
    }
    match named.split_last() {
        None => String::new(),
        Some((only, [])) => format!("Most of its cost comes from {only}."),
        Some((last, others)) => format!("Most of its cost comes from {} and {last}.", others.join(", ")),
    }
}

/// How sure the number is, and what it does not say.
fn certainty_in_words(run: &Value) -> String {
    let [value, lower, gap] = ["value", "lower_bound", "relative_gap"].map(|key| number(run, key));
    let sure = if run["status"] != "converged" {
        let (status, lower, value) = (text(run, "status"), readable(lower), readable(value));
        format!("The solve ended early ({status}): all that is proven is {lower} ≤ W ≤ {value}.")
    } else if gap > 0.0 {
        format!("Its bounds prove that it is accurate to {gap:.1e} of the cost.")
    } else {
        "Its bounds are equal.".to_owned()
    };
    if value > 0.0 {
        format!(
            "{sure} Two samples of one distribution are never at distance zero; rot compare tests whether a difference is real."
        )
    } else {
        sure
    }
}

/// The entries of a list, the largest first.
fn by_share(list: &Value, share: impl Fn(&Value) -> f64) -> Vec<&Value> {
    let mut all: Vec<&Value> = list.as_array().into_iter().flatten().collect();
    all.sort_by(|x, y| share(y).total_cmp(&share(x)));
    all
}

fn features(entry: &Value) -> String {
    let names = words(&entry["features"]);
    match &names[..] {
        [a, b] if a == b => a.clone(),
        _ => names.join(" with "),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or(f64::NAN)
}

fn text(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or("").to_owned()
}
