//! The runs of a table: each is a `rot train` that anyone can repeat.

use std::path::Path;

use clap::Parser;
use robust_ot::Interrupt;
use robust_ot::learn::Epoch;
use serde_json::{Value, json};

use super::Progress;
use super::experiment::{Experiment, Part, Run};
use super::lines::Lines;
use super::table;
use crate::failure::Failure;
use crate::train::{Outcome, Train, Watch, median_seconds};

/// `rot train` as a line of text.
#[derive(Debug, Parser)]
#[command(name = "rot train", no_binary_name = true)]
struct TrainLine {
    #[command(flatten)]
    train: Train,
}

/// The command of a run.
pub fn parse_options(options: &str, data: &str) -> Result<Train, Failure> {
    let words = options.split_whitespace().map(|word| word.replace("{data}", data));
    Ok(TrainLine::try_parse_from(words)?.train)
}

/// A run that only its end is told of.
struct Silent;

impl Watch for Silent {
    fn batch(&mut self, _done: usize, _all: usize) {}

    fn epoch(&mut self, _epoch: &Epoch, _epochs: usize) -> Result<(), Failure> {
        Ok(())
    }
}

/// Runs what is not there yet, then writes and prints the tables.
pub fn run(
    name: &str,
    experiment: &Experiment,
    part: &Part,
    (data, out): (&Path, &Path),
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let runs = experiment.runs(part);
    if runs.is_empty() {
        let known: Vec<&str> = experiment.data.iter().map(|data| data.name.as_str()).collect();
        let protocols: Vec<&str> = experiment.protocols.keys().map(String::as_str).collect();
        return Err(Failure::Input(format!(
            "--sets and --protocols must be among {} and {}, but nothing of {name} is",
            known.join(", "),
            protocols.join(", ")
        )));
    }
    let mut lines = Lines::open(&out.join(format!("{name}.jsonl")))?;
    let progress = Progress::new(name, runs.len());
    for run in &runs {
        progress.say(&format!("{}, {}, {} {}", run.data, run.protocol, run.row, run.variant));
        if lines.get(&run.options).is_none() {
            let command = parse_options(&run.options, &data.display().to_string())?;
            let outcome = command.outcome(interrupt, &mut Silent).map_err(|failure| match failure {
                Failure::Interrupted(_) => Failure::Interrupted(format!(
                    "interrupted; the same command goes on from {}",
                    out.display()
                )),
                Failure::Input(message) => Failure::Input(format!("{name}, {}: {message}", run.row)),
                other => other,
            })?;
            lines.put(&run.options, result(name, run, &outcome))?;
        }
        progress.step();
    }
    progress.end();
    let results: Vec<(&Run, &Value)> =
        runs.iter().filter_map(|run| Some((run, lines.get(&run.options)?))).collect();
    table::show(name, experiment, &results, out)
}

fn result(name: &str, run: &Run, Outcome { model, history }: &Outcome) -> Value {
    let about = &model.about;
    let validation =
        about.best_epoch.and_then(|best| history.get(best - 1)).and_then(|epoch| epoch.validation_auc);
    json!({
        "experiment": name, "data": run.data, "protocol": run.protocol, "row": run.row, "variant": run.variant,
        "seed": run.seed, "command": format!("rot train {}", run.options), "test": about.scores,
        "labels": model.label_names().len(), "rows": about.rows, "epochs": about.epochs, "best_epoch": about.best_epoch,
        "validation_auc": validation, "seconds_per_epoch": median_seconds(history), "version": about.version,
        "losses": history.iter().map(|epoch| epoch.loss).collect::<Vec<_>>(),
    })
}
