//! The runs of a table: each is a `rot train` command that can be repeated alone.

use std::path::Path;

use clap::Parser;
use robust_ot::solve::Interrupt;
use robust_ot_cuda::DeviceChoice;
use serde_json::{Value, json};

use super::Progress;
use super::experiment::{Cell, Experiment, Part};
use super::lines::Lines;
use super::table;
use crate::failure::Failure;
use crate::finished_model::Outcome;
use crate::machine::machine;
use crate::train::{Train, median_seconds};
use crate::training_progress::TrainingProgress;

/// The options of `rot train` on one line.
#[derive(Debug, Parser)]
#[command(name = "rot train", no_binary_name = true)]
struct TrainLine {
    #[command(flatten)]
    train: Train,
}

/// Parses the options of a run.
pub fn parse_options(options: &str, data: &str) -> Result<Train, Failure> {
    let words = options.split_whitespace().map(|word| word.replace("{data}", data));
    Ok(TrainLine::try_parse_from(words)?.train)
}

/// Trains as a line of options says.
pub fn train(
    options: &str,
    what: &str,
    (data, out): (&Path, &Path),
    device: DeviceChoice,
    interrupt: &Interrupt,
) -> Result<Outcome, Failure> {
    let mut command = parse_options(options, &data.display().to_string())?;
    command.set_device(device);
    command.outcome(options, interrupt, &mut TrainingProgress::Silent).map_err(|failure| match failure {
        Failure::Interrupted(_) => {
            Failure::Interrupted(format!("interrupted; the same command continues from {}", out.display()))
        }
        Failure::Input(message) => Failure::Input(format!("{what}: {message}")),
        other => other,
    })
}

/// Trains the missing models, then writes and prints the tables.
pub fn run(
    name: &str,
    experiment: &Experiment,
    part: &Part,
    folders: (&Path, &Path),
    device: DeviceChoice,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let cells = experiment.cells(part);
    let mut lines = Lines::open(&folders.1.join(format!("{name}.jsonl")))?;
    let progress = Progress::new(name, cells.iter().map(Cell::runs).sum());
    for cell in &cells {
        let Cell { data, protocol, row, .. } = cell;
        let run = |lines: &mut Lines, variant: &str, seeds: &[u64]| -> Result<(), Failure> {
            for &seed in seeds {
                progress.say(&format!("{}, {protocol}, {} {variant}", data.name, row.name));
                let options = cell.options(variant, seed);
                if lines.results.get(&options).is_none() {
                    let what = format!("{name}, {}", row.name);
                    let outcome = train(&options, &what, folders, device, interrupt)?;
                    lines.put(&options, result(name, cell, (variant, seed), &outcome))?;
                }
                progress.step();
            }
            Ok(())
        };
        let [only] = cell.variants[..] else {
            cell.variants.iter().try_for_each(|variant| run(&mut lines, variant, cell.tuning_seeds))?;
            let chosen = table::chosen(cell, &lines.results).unwrap_or("");
            run(&mut lines, chosen, &cell.seeds[cell.tuning_seeds.len()..])?;
            continue;
        };
        run(&mut lines, only, cell.seeds)?;
    }
    progress.end();
    table::show(name, experiment, part, &lines.results, folders.1)
}

fn result(name: &str, cell: &Cell, (variant, seed): (&str, u64), outcome: &Outcome) -> Value {
    let Outcome { model, history } = outcome;
    let about = &model.about;
    let validation =
        about.best_epoch.and_then(|best| history.get(best - 1)).and_then(|epoch| epoch.validation_auc);
    json!({
        "experiment": name, "data": cell.data.name, "protocol": cell.protocol, "row": cell.row.name, "variant": variant,
        "seed": seed, "command": format!("rot train {}", cell.options(variant, seed)), "test": about.scores,
        "labels": model.label_names().len(), "dropped_labels": about.dropped_labels.len(), "rows": about.rows,
        "epochs": about.epochs, "best_epoch": about.best_epoch, "validation_auc": validation,
        "seconds_per_epoch": median_seconds(history), "version": about.version, "machine": machine(),
        "device": about.device, "threads": rayon::current_num_threads(),
        "losses": history.iter().map(|epoch| epoch.loss).collect::<Vec<_>>(),
    })
}
