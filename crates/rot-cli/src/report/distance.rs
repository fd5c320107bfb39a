//! The report page of a distance.

use serde_json::Value;

use super::page::Page;
use super::{matrix, numbers, words};
use crate::failure::Failure;
use crate::output::readable;
use crate::picture::{Axis, Curve, Curves, metric_heatmap};

/// Adds the bounds, the metric and the flows of a distance.
pub fn add(run: &Value, page: &mut Page) -> Result<(), Failure> {
    let number = |key: &str| run[key].as_f64().unwrap_or(f64::NAN);
    let text = |key: &str| run[key].as_str().unwrap_or("").to_owned();
    if let Some(key) =
        ["value", "lower_bound", "transport_cost"].into_iter().find(|key| !number(key).is_finite())
    {
        return Err(Failure::Input(format!("run.json: {key} must be a number, but is {}", run[key])));
    }
    page.section(&format!("From {} to {}", text("source"), text("target")));
    let (value, lower) = (readable(number("value")), readable(number("lower_bound")));
    let entropy = number("entropy");
    // Runs of earlier versions have no excess.
    let (excess, offset) = (number("excess"), number("offset"));
    let shifted = excess.is_finite() && offset != 0.0;
    let lower_excess = number("excess_lower_bound");
    page.facts(&[
        (
            "excess",
            if shifted {
                format!("{}, and at least {}", readable(excess), readable(lower_excess))
            } else {
                String::new()
            },
        ),
        (
            "distance",
            if shifted { format!("{value}, with h(0) = {}", readable(offset)) } else { value.clone() },
        ),
        ("certified", format!("{lower} ≤ W ≤ {value}, relative gap {:.1e}", number("relative_gap"))),
        (
            "entropy",
            if entropy > 0.0 {
                format!("{entropy}; the plan costs {} without it", readable(number("unregularized_value")))
            } else {
                String::new()
            },
        ),
        ("transport", format!("{} under the worst metric", readable(number("transport_cost")))),
        ("metric", text("set")),
        ("groups", if run["groups"] == run["dim"] { String::new() } else { run["groups"].to_string() }),
        ("points", format!("{} and {} in {} dimensions", run["n_source"], run["n_target"], run["dim"])),
        ("status", format!("{} after {} oracle calls", text("status"), run["oracle_calls"])),
        ("seconds", format!("{:.3}", number("seconds"))),
        ("command", text("command")),
        ("version", text("version")),
        ("machine", text("machine")),
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
    if let Some(found) = matrix(&run["metric_matrix"]) {
        page.section("The worst metric");
        metric_heatmap(&found, &words(&run["group_names"]), "Worst metric", |heatmap| {
            page.picture(heatmap, "metric", "The metric under which source and target are farthest apart")
        })?;
        let row = |entry: &Value| {
            let features = words(&entry["features"]);
            let what = match &features[..] {
                [a, b] if a == b => a.clone(),
                _ => features.join(" with "),
            };
            let part = |key: &str| entry[key].as_f64().unwrap_or(f64::NAN);
            vec![what, format!("{:.4}", part("weight")), format!("{:.1} %", 100.0 * part("share"))]
        };
        let rows: Vec<Vec<String>> =
            run["explain"]["metric"].as_array().into_iter().flatten().map(row).collect();
        page.table(&["entry", "weight", "share of the cost"], &rows);
    }
    page.section("Where most of the cost is spent");
    let total = number("transport_cost");
    let row = |flow: &Value| {
        let part = |key: &str| flow[key].as_f64().unwrap_or(f64::NAN);
        let (mass, cost) = (part("mass"), part("cost"));
        let share = if total > 0.0 { format!("{:.1} %", 100.0 * mass * cost / total) } else { String::new() };
        let name = |key: &str| flow[key].as_str().unwrap_or("").to_owned();
        vec![name("from"), name("to"), format!("{mass:.5}"), format!("{cost:.4}"), share]
    };
    let rows: Vec<Vec<String>> = run["explain"]["flows"].as_array().into_iter().flatten().map(row).collect();
    page.table(&["from", "to", "mass", "cost", "share of the cost"], &rows);
    Ok(())
}
