//! `--explain`: the features that the worst metric weighs most, and the flows that cost most.

use robust_ot::{Grouping, Solution};
use robust_ot_learn::{Explanation, Naming};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::input::Input;

/// Lines per list on a terminal and in `--json`.
pub const TERMINAL_LINES: usize = 8;
/// Lines per list in a report, the longest output; lists keep no more.
pub const REPORTED_LINES: usize = 20;

/// Ranks the entries of the metric and of the plan.
pub fn explain(
    solution: &Solution,
    source: &Input,
    target: &Input,
    grouping: &Grouping,
) -> Result<Explanation, Failure> {
    let rows = |input: &Input| (0..input.measure.len()).map(|i| input.point(i)).collect::<Vec<_>>();
    let (from, to) = (rows(source), rows(target));
    let naming = Naming { rows: (Some(&from), Some(&to)), ..naming(source.features.as_deref()) };
    let parts = (&solution.metric, &solution.moment, solution.plan());
    let measures = (&source.measure, &target.measure);
    Ok(Explanation::new(parts, measures, grouping, &naming, REPORTED_LINES)?)
}

/// The command counts from 1.
pub fn naming(features: Option<&[String]>) -> Naming<'_> {
    Naming { features, first: 1, rows: (None, None) }
}

/// The given number of lines of each list, as JSON.
pub fn explanation_json(explanation: &Explanation, lines: usize) -> Value {
    let Explanation { pairs, notable, flows } = explanation.shortened(lines);
    let pairs = pairs.into_iter().map(
        |pair| json!({"features": [pair.names.0, pair.names.1], "weight": pair.weight, "share": pair.share}),
    );
    let flows = flows
        .into_iter()
        .map(|flow| json!({"from": flow.from, "to": flow.to, "mass": flow.mass, "cost": flow.cost}));
    json!({
        "metric": pairs.collect::<Vec<_>>(),
        "entries_above_one_percent": notable,
        "flows": flows.collect::<Vec<_>>(),
    })
}
