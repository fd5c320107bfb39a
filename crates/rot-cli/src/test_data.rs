//! Rows for a trained model, which determines their number of features and the names of their labels.

use std::path::{Path, PathBuf};

use clap::Args;
use robust_ot::loss::Targets;
use robust_ot_learn::Model;
use robust_ot_learn::data::{Features, read_features, read_labeled, read_labels};

use crate::failure::Failure;
use crate::feature_columns::like_model;
use crate::raw_samples::{is_text, places_without};
use crate::training_data::Empty;

/// Options for the rows to predict.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Data")]
pub struct RowOptions {
    /// Features of the rows: .npy, .npz, .mat, .csv, .tsv, .parquet, svmlight (.svm, .txt) or IDX
    #[arg(long, value_name = "FILE")]
    pub x: PathBuf,
}

/// Options for the true labels.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Data")]
pub struct TruthOptions {
    /// Labels of the rows; not needed if --x is an svmlight or extreme-classification file, which contains them
    #[arg(long, value_name = "FILE")]
    y: Option<PathBuf>,
    /// What to do with rows without labels
    #[arg(long, value_enum, default_value = "error")]
    empty: Empty,
}

impl RowOptions {
    /// Reads the features in the order of the model's, and checks that their number is the same. The model's file is for
    /// messages.
    pub fn read(&self, (path, model): (&Path, &Model)) -> Result<Features, Failure> {
        let features = if is_text(&self.x) {
            let mut found = read_labeled(&self.x)?;
            match model.about.first_index {
                Some(0) => found.count_from_zero(),
                Some(1) if found.first_index == 0 => {
                    let place = self.x.display();
                    return Err(Failure::Input(format!(
                        "{place}: feature indices must start at 1, as in training, but one is 0"
                    )));
                }
                _ => {}
            }
            let mut features = Features::Sparse(found.features);
            // Without a header, a file shows only the columns it uses.
            if !found.had_header {
                features.widen(model.features());
            }
            features
        } else {
            like_model((path, model), &self.x, read_features(&self.x)?)?
        };
        if features.columns() != model.features() {
            let (place, wanted, found) = (self.x.display(), model.features(), features.columns());
            return Err(Failure::Input(format!(
                "{place}: must have the {wanted} features of the model, but has {found}"
            )));
        }
        Ok(features)
    }
}

impl TruthOptions {
    /// Reads the true labels. Returns them with the indices of the rows that have any.
    pub fn read(
        &self,
        rows: &RowOptions,
        model: &Model,
        count: usize,
    ) -> Result<(Targets, Vec<usize>), Failure> {
        // The labels in the files: the model's, and those dropped in training.
        let mut names = model.label_names().to_vec();
        for (place, name) in &model.about.dropped_labels {
            names.insert((*place).min(names.len()), name.clone());
        }
        let (place, mut labels) = match &self.y {
            Some(path) => (path, read_labels(path, Some(&names))?.rows),
            None if is_text(&rows.x) => (&rows.x, read_labeled(&rows.x)?.labels),
            None => return Err(Failure::Input("--y must name the labels of --x, but is not given".into())),
        };
        let place = place.display().to_string();
        if labels.len() != count {
            let found = labels.len();
            return Err(Failure::Input(format!(
                "{place}: must have labels for the {count} rows of --x, but has {found}"
            )));
        }
        let dropped: Vec<usize> = model.about.dropped_labels.iter().map(|(label, _)| *label).collect();
        if let Some(label) = labels.iter().flatten().chain(&dropped).find(|label| **label >= names.len()) {
            let count = names.len();
            return Err(Failure::Input(format!("{place}: labels must be below {count}, but one is {label}")));
        }
        let places = places_without(names.len(), &dropped);
        for row in &mut labels {
            *row = row.iter().filter_map(|&label| places[label]).collect();
        }
        let kept: Vec<usize> = (0..count).filter(|&row| !labels[row].is_empty()).collect();
        if kept.len() < count {
            let what = format!("{place}: {} of {count} rows have no label", count - kept.len());
            if self.empty == Empty::Error {
                return Err(Failure::Input(format!("{what} (--empty skip to leave them out)")));
            }
            say!("rot: note: {what}; they are left out");
        }
        if kept.is_empty() {
            return Err(Failure::Input(format!("{place}: at least one row must have a label, but none has")));
        }
        let targets = Targets::new(model.label_names().len(), kept.iter().map(|&row| &labels[row]));
        Ok((targets.map_err(|error| Failure::about(&place, &error))?, kept))
    }
}
