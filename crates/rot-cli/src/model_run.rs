//! The run folder of a trained model: everything that its report needs.

use std::path::Path;

use ndarray::{Array2, Axis};
use rayon::prelude::*;
use robust_ot::loss::Targets;
use robust_ot_learn::score::best_labels;
use robust_ot_learn::{Epoch, LabelTransport, Model};
use serde_json::{Value, json};

use crate::explain::naming;
use crate::failure::Failure;
use crate::loss_description::describe_loss;
use crate::machine::machine;
use crate::run_folder::write_run;

/// The maximum number of test rows that the report shows, evenly spaced.
const ITEMS: usize = 200;
/// The least mass of a flow that the report draws.
const LEAST_MASS: f64 = 0.003;
/// The maximum number of label pairs in the list of confusions.
const CONFUSED: usize = 20;

/// A test row with its prediction, its true labels and the plan between them.
struct Item {
    row: usize,
    truth: Vec<usize>,
    /// The label with the largest probability.
    best: usize,
    /// The whole plan as (from label, to label, mass).
    flows: Vec<(usize, usize, f64)>,
    cost: f64,
    metric: Array2<f64>,
}

/// Writes `run.json`: training, scores, and test rows with the plans from prediction to truth.
pub fn write_model_run(
    folder: &Path,
    model: &Model,
    history: &[Epoch],
    test: Option<(&Array2<f64>, &Targets)>,
    command: &str,
) -> Result<(), Failure> {
    let mut run = json!({
        "kind": "model", "version": model.about.version, "machine": machine(), "loss": describe_loss(&model.about),
        "features": model.features(), "labels": model.label_names(), "about": model.about, "history": history,
    });
    if let (Some((probabilities, truth)), Some(transport)) = (test, LabelTransport::of(model)?) {
        let rows = probabilities.nrows();
        let count = rows.min(ITEMS);
        let items = (0..count).into_par_iter().map(|item| {
            let row = item * rows / count;
            look_at(&transport, row, probabilities, truth.row(row))
        });
        // A row whose predictions are all zero has no plan. It is skipped, so that the model still gets its report.
        let items: Vec<Item> = items.filter_map(Result::ok).collect();
        run["test_rows"] = rows.into();
        run["looked_at"] = count.into();
        if model.about.robust.is_some() && !items.is_empty() {
            let groups = transport.grouping.groups();
            let mut metric = Array2::<f64>::zeros((groups, groups));
            items.iter().for_each(|item| metric += &item.metric);
            metric /= items.len() as f64;
            run["set"] = json!(transport.set().to_string());
            run["groups"] = json!(naming(None).groups(&transport.grouping));
            run["metric"] = metric.rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>().into();
        }
        run["confused"] = confused(&items, transport.vectors);
        run["items"] = items.iter().map(Item::json).collect();
    }
    write_run(folder, run, command)
}

fn look_at(
    transport: &LabelTransport,
    row: usize,
    probabilities: &Array2<f64>,
    truth: &[usize],
) -> robust_ot::Result<Item> {
    let prediction = probabilities.index_axis(Axis(0), row);
    let solution = transport.to(prediction, truth)?;
    let flows = solution.plan().into_iter().map(|entry| (entry.row, truth[entry.column], entry.mass));
    let mut flows: Vec<(usize, usize, f64)> = flows.collect();
    flows.sort_by(|x, y| y.2.total_cmp(&x.2));
    let best = best_labels(prediction, 1)[0];
    let cost = solution.transport_cost;
    Ok(Item { row, truth: truth.to_vec(), best, flows, cost, metric: solution.metric })
}

impl Item {
    fn json(&self) -> Value {
        let stays: f64 = self.flows.iter().filter(|(from, to, _)| from == to).map(|flow| flow.2).sum();
        let drawn: Vec<_> = self.flows.iter().filter(|flow| flow.2 >= LEAST_MASS).collect();
        let small: f64 = self.flows.iter().map(|flow| flow.2).filter(|mass| *mass < LEAST_MASS).sum();
        json!({
            "row": self.row + 1, "truth": self.truth, "best": self.best, "flows": drawn, "small": small, "stays": stays,
            "cost": self.cost,
        })
    }
}

/// The pairs of labels with the most mass to move between them.
fn confused(items: &[Item], vectors: &Array2<f64>) -> Value {
    let mut moved: Vec<((usize, usize), f64)> = Vec::new();
    let wrong = items.iter().flat_map(|item| &item.flows).filter(|(from, to, _)| from != to);
    let mut all: Vec<((usize, usize), f64)> = wrong.map(|&(from, to, mass)| ((from, to), mass)).collect();
    all.sort_by_key(|(pair, _)| *pair);
    for (pair, mass) in all {
        match moved.last_mut() {
            Some((last, sum)) if *last == pair => *sum += mass,
            _ => moved.push((pair, mass)),
        }
    }
    moved.sort_by(|x, y| y.1.total_cmp(&x.1));
    let pair = |&((from, to), mass): &((usize, usize), f64)| {
        let apart = &vectors.row(from) - &vectors.row(to);
        json!({ "from": from, "to": to, "mass": mass / items.len() as f64, "distance": apart.dot(&apart).sqrt() })
    };
    moved.iter().take(CONFUSED).map(pair).collect()
}
