//! `rot evaluate`: the scores of a model on rows with known labels.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use robust_ot_learn::{About, Scores, calibration_error, label_groups, reliability};
use serde_json::json;

use crate::device::{DeviceOptions, probabilities};
use crate::failure::Failure;
use crate::model_input::read_model;
use crate::score_table::{excluded, group_table, reliability_table, score_table};
use crate::test_data::{RowOptions, TruthOptions};

/// Score a model: AUC, average precision, accuracy, precision and gain of the top labels, F1, how far mistakes are from the
/// truth, and how far probabilities can be trusted
#[derive(Debug, Args)]
pub struct Evaluate {
    /// Model file written by rot train
    model: PathBuf,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    truth: TruthOptions,
    #[command(flatten)]
    device: DeviceOptions,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Evaluate {
    /// Reads the rows, predicts, and prints the scores.
    pub fn run(self) -> Result<(), Failure> {
        let model = read_model(&self.model)?;
        let mut features = self.rows.read((&self.model, &model))?;
        let (truth, kept) = self.truth.read(&self.rows, &model, features.rows())?;
        if kept.len() < features.rows() {
            features = features.select(&kept);
        }
        let (probabilities, device) = probabilities(&model, features, self.device.device)?;
        let scores = Scores::of_model(&model, probabilities.view(), &truth)?;
        let ranges = reliability(probabilities.view(), &truth)?;
        // Models of stochastic steps do not record how many rows their labels had.
        let groups = match &model.about.label_rows[..] {
            [] => Vec::new(),
            rows => label_groups(probabilities.view(), &truth, rows)?,
        };
        let mut out = io::stdout().lock();
        if self.json {
            let mut object = json!(scores);
            object["device"] = json!(device);
            object["reliability"] = json!(ranges);
            object["calibration_error"] = json!(calibration_error(&ranges));
            object["by_training_rows"] = json!(groups);
            writeln!(out, "{object}")?;
            return Ok(());
        }
        writeln!(out, "{}", score_table(&[(&format!("{} rows", scores.rows), &scores)]))?;
        excluded(&scores).map_or(Ok(()), |what| writeln!(out, "{what}"))?;
        if groups.len() > 1 {
            writeln!(out, "\n{}", group_table(&groups))?;
        }
        writeln!(out, "\n{}", reliability_table(&ranges))?;
        writeln!(out, "expected calibration error {:.4}", calibration_error(&ranges))?;
        if device != About::CPU {
            writeln!(out, "device: {device}")?;
        }
        Ok(())
    }
}
