//! `rot extend`: adds labels to a trained model.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ndarray::Array2;
use robust_ot_learn::Model;
use robust_ot_learn::data::{Embeddings, LabelVectors, read_label_names};
use serde_json::json;

use crate::failure::Failure;
use crate::model_input::read_model;
use crate::output::{check_distinct, check_writable, write_failure};

/// Add labels that no training row had, with weights from the prior between label names
///
/// A new label's weights are the mean of the prior given the weights of the labels that had rows: as if it had been known,
/// without a row, in training.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rot extend tags.safetensors --label-vectors new.vec --out more.safetensors\n  \
    rot extend tags.safetensors --label-vectors words.vec --label-names new.names --out more.safetensors"
)]
pub struct Extend {
    /// Model file written by rot train with --label-vectors, of a linear model trained by lbfgs
    model: PathBuf,
    /// Vectors of the new label names, of the kind that the model was trained with
    #[arg(long, value_name = "FILE")]
    label_vectors: PathBuf,
    /// The new label names, one per line [default: every name in --label-vectors that is not a label yet]
    #[arg(long, value_name = "FILE")]
    label_names: Option<PathBuf>,
    /// File to write the extended model to
    #[arg(long, value_name = "MODEL")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Extend {
    /// Reads the model and the vectors, and writes the extended model.
    pub fn run(self) -> Result<(), Failure> {
        let inputs = [Some(self.model.as_path()), Some(&self.label_vectors), self.label_names.as_deref()];
        let inputs: Vec<_> = inputs.into_iter().flatten().collect();
        check_distinct(&inputs, &[("--out", Some(self.out.as_path()))])?;
        check_writable("--out", &self.out, &["safetensors"])?;
        let mut model = read_model(&self.model)?;
        let known = model.label_names().len();
        let (names, vectors) = self.read(&model)?;
        if names.is_empty() {
            let place = self.label_vectors.display();
            return Err(Failure::Input(format!(
                "{place}: must have a name that is not a label yet, but has none"
            )));
        }
        model.extend(names, &vectors)?;
        model.save(&self.out).map_err(write_failure)?;
        let mut out = io::stdout().lock();
        let added = &model.label_names()[known..];
        let extension = model.about.extension;
        if self.json {
            let all = json!({ "added": added, "labels": model.label_names().len(), "extension": extension, "out": self.out });
            writeln!(out, "{all}")?;
            return Ok(());
        }
        writeln!(out, "added {} labels to {known}", added.len())?;
        if let Some(auc) = extension.and_then(|extension| extension.auc) {
            writeln!(out, "labels hidden in training had an AUC of {auc:.4} on the training rows")?;
        }
        writeln!(out, "model: {}", self.out.display())?;
        Ok(())
    }

    fn read(&self, model: &Model) -> Result<(Vec<String>, Array2<f64>), Failure> {
        if let Some(path) = &self.label_names {
            let names = read_label_names(path)?;
            let LabelVectors { vectors, missing } = LabelVectors::read(&self.label_vectors, &names)?;
            if let Some(&label) = missing.first() {
                let (place, name) = (self.label_vectors.display(), &names[label]);
                return Err(Failure::Input(format!(
                    "{place}: new labels must have a vector, but '{name}' has none"
                )));
            }
            return Ok((names, vectors));
        }
        let all = Embeddings::read_all(&self.label_vectors)?;
        let width = all.first().map_or(0, |(_, vector)| vector.len());
        let known = |name: &String| {
            let spelled = name.replace('_', " ");
            model.label_names().iter().any(|label| label == name || *label == spelled)
        };
        let new: Vec<(String, Vec<f64>)> = all.into_iter().filter(|(name, _)| !known(name)).collect();
        let vectors = Array2::from_shape_fn((new.len(), width), |(row, column)| new[row].1[column]);
        Ok((new.into_iter().map(|(name, _)| name).collect(), vectors))
    }
}
