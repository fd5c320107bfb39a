//! `rot inspect`: describes a model file.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use robust_ot_learn::{HiddenSettings, Output};
use serde_json::json;

use crate::failure::Failure;
use crate::loss_description::{describe_choice, describe_loss, few_rows};
use crate::model_input::read_model;
use crate::score_table::score_table;

/// The maximum number of labels listed by name.
const LISTED: usize = 10;

/// Describe a model: its shape, labels, preprocessing, loss, training and scores
#[derive(Debug, Args)]
pub struct Inspect {
    /// Model file written by rot train
    model: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Inspect {
    /// Reads the model and prints its description.
    pub fn run(self) -> Result<(), Failure> {
        let model = read_model(&self.model)?;
        let mut out = io::stdout().lock();
        let (about, names) = (&model.about, model.label_names());
        let columns = match &model.preprocessing.standardization {
            None => "as they are",
            Some(found) if found.is_centered() => "centered and scaled",
            Some(_) => "scaled",
        };
        let row_length = model.preprocessing.row_length;
        let rows = row_length.map_or_else(String::new, |length| format!(", rows scaled to length {length}"));
        let preprocessing = format!("{columns}{rows}");
        if self.json {
            let vectors = model.label_vectors.as_ref().map(ndarray::Array2::ncols);
            let all = json!({
                "features": model.features(), "hidden": model.hidden().map(|layer| layer.bias.len()), "feature_names": model.feature_names(), "labels": names, "bias": model.bias().is_some(), "output": model.output(),
                "preprocessing": columns, "row_length": row_length, "label_vector_length": vectors, "about": about,
            });
            writeln!(out, "{all}")?;
            return Ok(());
        }
        // Control characters in names must not reach the terminal.
        let plain =
            |name: &String| name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let list = |names: &[String]| {
            let listed: Vec<String> = names.iter().take(LISTED).map(plain).collect();
            format!("{}{}", listed.join(", "), if names.len() > LISTED { ", …" } else { "" })
        };
        let output = match model.output() {
            Output::Softmax => "softmax",
            Output::Sigmoid => "sigmoid",
        };
        let bias = if model.bias().is_some() { "with bias" } else { "without bias" };
        writeln!(out, "{}: a robust-ot model, written by version {}", self.model.display(), about.version)?;
        let hidden =
            model.hidden().map_or(String::new(), |layer| format!(" to {} hidden units", layer.bias.len()));
        writeln!(
            out,
            "map: {} features{hidden} to {} labels, {bias}, {output}",
            model.features(),
            names.len()
        )?;
        model.feature_names().map_or(Ok(()), |names| writeln!(out, "features: {}", list(names)))?;
        writeln!(out, "labels: {}", list(names))?;
        let vectors = model.label_vectors.as_ref();
        let vectors =
            vectors.map_or("none, labels are one-hot".into(), |v| format!("{} numbers each", v.ncols()));
        writeln!(out, "label vectors: {vectors}")?;
        writeln!(out, "preprocessing: features {preprocessing}")?;
        writeln!(out, "loss: {}", describe_loss(about))?;
        if about.interrupted {
            writeln!(out, "interrupted: training ended early, and these are the weights reached by then")?;
        }
        if let Some(gap) = about.gap {
            writeln!(
                out,
                "training: {} rows, {}, {} iterations to a relative gap of {gap:.1e}",
                about.rows,
                describe_choice(about),
                about.epochs
            )?;
        }
        if let Some(hidden) = about.training.as_ref().and_then(|training| training.hidden) {
            let prior = describe_choice(about);
            let HiddenSettings { dropout, input_dropout, .. } = hidden;
            writeln!(
                out,
                "hidden layer: dropout {dropout} of units and {input_dropout} of features, {prior}"
            )?;
        }
        few_rows(&about.label_rows).map_or(Ok(()), |few| writeln!(out, "{few}"))?;
        if let Some(training) = &about.training {
            let best = about.best_epoch.map_or(String::new(), |best| format!(", weights from epoch {best}"));
            writeln!(
                out,
                "training: {} rows, {}, learning rate {}, batch {}, {} epochs{best}, weight decay {}, seed {}",
                about.rows,
                training.optimizer,
                training.learning_rate,
                training.batch,
                about.epochs,
                training.weight_decay,
                training.seed
            )?;
        }
        match &about.scores {
            None => writeln!(out, "scores: no test rows were given")?,
            Some(scores) => {
                writeln!(out, "\n{}", score_table(&[(&format!("{} test rows", scores.rows), scores)]))?;
            }
        }
        Ok(())
    }
}
