//! `rot predict`: the best labels of every row with their probabilities, and the mass that would move to them.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ndarray::{Array2, ArrayView1, Axis};
use rayon::prelude::*;
use robust_ot_learn::data::{format_table, write_atomic, write_npy, write_table};
use robust_ot_learn::score::best_labels;
use robust_ot_learn::{About, LabelLaw, LabelTransport, Model, least_cost_labels};
use serde_json::{Value, json};

use crate::device::{DeviceOptions, probabilities};
use crate::failure::Failure;
use crate::model_input::read_model;
use crate::output::{check_distinct, check_writable, ending, write_failure};
use crate::test_data::RowOptions;

/// The maximum number of source labels listed per predicted label in an explanation.
const SOURCES: usize = 3;
/// The least mass listed in an explanation.
const LEAST_MASS: f64 = 0.001;

/// Predict labels: the best labels of every row with their probabilities
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rot predict model.safetensors --x rows.npy --top 3\n  \
    rot predict model.safetensors --x rows.npy --out probabilities.npy\n  \
    rot predict model.safetensors --x rows.csv --decision least-cost\n  \
    rot predict model.safetensors --x rows.csv --top 2 --explain --json")]
pub struct Predict {
    /// Model file written by rot train
    model: PathBuf,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    device: DeviceOptions,
    /// Number of labels per row
    #[arg(long, value_name = "K", default_value_t = 1)]
    top: usize,
    /// Which labels are the best
    #[arg(long, value_enum, default_value_t = Decision::Probable)]
    decision: Decision,
    /// For each of the best labels, list the labels whose mass would move to it if the best labels were the true ones
    /// (most useful with --top 2 or more: with one label, all mass moves to it)
    #[arg(long)]
    explain: bool,
    /// Write the predictions: .csv or .tsv (one line per predicted label), .json, or .npy (all probabilities)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON: one object per row
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// What makes labels the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Decision {
    /// The largest probability
    Probable,
    /// The least expected cost of a mistake: 1 − the largest cosine between the vectors of the label and of a true label
    LeastCost,
}

/// One of the best labels of a row.
struct Best {
    label: usize,
    probability: f64,
    /// The labels whose mass would move here, and how much of it.
    from: Vec<(usize, f64)>,
}

impl Predict {
    /// Reads the rows, predicts, and writes or prints the labels.
    pub fn run(self) -> Result<(), Failure> {
        self.check_outputs()?;
        let model = read_model(&self.model)?;
        let labels = model.label_names().len();
        if !(1..=labels).contains(&self.top) {
            let top = self.top;
            return Err(Failure::Input(format!(
                "--top must be between 1 and the {labels} labels, but is {top}"
            )));
        }
        let (probabilities, device) =
            probabilities(&model, self.rows.read((&self.model, &model))?, self.device.device)?;
        if device != About::CPU {
            say!("rot: note: predicted on {device}");
        }
        let ending = self.out.as_deref().map_or_else(String::new, ending);
        if let Some(path) = self.out.as_deref().filter(|_| ending == "npy") {
            return write_npy(path, &probabilities).map_err(write_failure);
        }
        let transport = if self.explain { Some(self.transport(&model)?) } else { None };
        let labels = self.decide(&model, &probabilities)?;
        let best = probabilities.axis_iter(Axis(0)).into_par_iter().zip(labels);
        let best = best.map(|(row, labels)| of_row(row, &labels, transport.as_ref()));
        let best = best.collect::<Result<Vec<_>, Failure>>()?;
        let json = best.iter().enumerate().map(|(row, best)| as_json(row, best, &model, self.explain));
        match &self.out {
            Some(path) if ending == "json" => {
                let lines = Value::Array(json.collect());
                write_atomic(path, |out| writeln!(out, "{lines}")).map_err(write_failure)
            }
            Some(path) => {
                let rows = best.iter().enumerate().flat_map(|(row, best)| self.table_rows(row, best, &model));
                write_table(path, &self.header(), rows).map_err(write_failure)
            }
            None if self.json => {
                let mut out = BufWriter::new(io::stdout().lock());
                json.into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
                Ok(out.flush()?)
            }
            None => self.print(&best, &model),
        }
    }

    fn transport<'a>(&self, model: &'a Model) -> Result<LabelTransport<'a>, Failure> {
        let about_file = |error| Failure::Input(format!("{}: {error}", self.model.display()));
        LabelTransport::of(model).map_err(about_file)?.ok_or_else(|| {
            let message = "--explain needs a model with label vectors, but this one has none (rot train --label-vectors)";
            Failure::Input(message.into())
        })
    }

    fn check_outputs(&self) -> Result<(), Failure> {
        let Some(path) = &self.out else { return Ok(()) };
        let least_cost = self.decision == Decision::LeastCost;
        for (option, given) in [("--explain", self.explain), ("--decision least-cost", least_cost)] {
            if ending(path) == "npy" && given {
                return Err(Failure::Input(format!(
                    "{option} must be written to .csv, .tsv or .json, but --out is .npy"
                )));
            }
        }
        check_distinct(&[&self.model, &self.rows.x], &[("--out", Some(path.as_path()))])?;
        check_writable("--out", path, &["csv", "tsv", "json", "npy"])
    }

    /// The best labels of every row.
    fn decide(&self, model: &Model, probabilities: &Array2<f64>) -> Result<Vec<Vec<usize>>, Failure> {
        if self.decision == Decision::Probable {
            let rows = probabilities.axis_iter(Axis(0)).into_par_iter();
            return Ok(rows.map(|row| best_labels(row, self.top)).collect());
        }
        let Some(vectors) = &model.label_vectors else {
            let message = "--decision least-cost needs a model with label vectors, but this one has none (rot train --label-vectors)";
            return Err(Failure::Input(message.into()));
        };
        let law = LabelLaw::of(model);
        least_cost_labels(probabilities.view(), vectors.view(), law, self.top)
            .map_err(|error| Failure::about("the predictions", &error))
    }

    fn header(&self) -> Vec<String> {
        let mut names = vec!["row", "rank", "label", "probability"];
        if self.explain {
            names.push("mass_from");
        }
        names.into_iter().map(str::to_owned).collect()
    }

    fn table_rows(&self, row: usize, best: &[Best], model: &Model) -> Vec<Vec<String>> {
        let line = |(rank, best): (usize, &Best)| {
            let name = model.label_names()[best.label].clone();
            let mut fields =
                vec![(row + 1).to_string(), (rank + 1).to_string(), name, format!("{:?}", best.probability)];
            if self.explain {
                fields.push(sources(best, model));
            }
            fields
        };
        best.iter().enumerate().map(line).collect()
    }

    /// Prints CSV on standard output.
    fn print(&self, best: &[Vec<Best>], model: &Model) -> Result<(), Failure> {
        let mut out = BufWriter::new(io::stdout().lock());
        let rows = best.iter().enumerate().flat_map(|(row, best)| self.table_rows(row, best, model));
        format_table(&mut out, b',', &self.header(), rows)?;
        Ok(out.flush()?)
    }
}

/// The given labels of a row.
fn of_row(
    row: ArrayView1<f64>,
    labels: &[usize],
    transport: Option<&LabelTransport>,
) -> Result<Vec<Best>, Failure> {
    let mut best: Vec<Best> =
        labels.iter().map(|&label| Best { label, probability: row[label], from: Vec::new() }).collect();
    if let Some(transport) = transport {
        explain(transport, row, labels, &mut best)?;
    }
    Ok(best)
}

/// Lists, for each of the best labels, the labels whose mass would move to it if the best labels were the true ones.
fn explain(
    transport: &LabelTransport,
    row: ArrayView1<f64>,
    labels: &[usize],
    best: &mut [Best],
) -> Result<(), Failure> {
    for entry in transport.to(row, labels)?.plan() {
        if entry.mass >= LEAST_MASS && entry.row != labels[entry.column] {
            best[entry.column].from.push((entry.row, entry.mass));
        }
    }
    for best in best {
        best.from.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
        best.from.truncate(SOURCES);
    }
    Ok(())
}

fn sources(best: &Best, model: &Model) -> String {
    let name = |&(label, mass): &(usize, f64)| format!("{} {mass:.3}", model.label_names()[label]);
    best.from.iter().map(name).collect::<Vec<_>>().join("; ")
}

fn as_json(row: usize, best: &[Best], model: &Model, explained: bool) -> Value {
    let names = model.label_names();
    let label = |best: &Best| {
        let mut found = json!({ "label": names[best.label], "probability": best.probability });
        if explained {
            let from = best.from.iter().map(|&(label, mass)| json!({ "label": names[label], "mass": mass }));
            found["mass_from"] = from.collect();
        }
        found
    };
    json!({ "row": row + 1, "labels": best.iter().map(label).collect::<Vec<_>>() })
}
