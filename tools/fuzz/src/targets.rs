//! What is read: one target for each format, with every reader that takes it.

use std::ops::AddAssign;
use std::path::Path;

use clap::ValueEnum;
use robust_ot::Result;
use robust_ot_learn::data::{
    Embeddings, Header, Histogram, LabelVectors, Missing, MixedTable, TableOptions, read_features,
    read_groups, read_idx, read_idx_labels, read_label_names, read_labeled, read_labels, read_matrix,
    read_npy, read_npy_f32, read_npy_integers, read_points, read_table, read_vector,
};

use crate::models::Models;

/// A format, or a kind of model file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    Npy,
    Npz,
    Mat,
    Idx,
    Tables,
    Parquet,
    Svmlight,
    Tags,
    Words,
    Vectors,
    /// Models with a checksum
    Model,
    /// Models without a checksum
    OldModel,
    Checkpoint,
    OldCheckpoint,
    Learner,
    OldLearner,
}

impl Target {
    pub const ALL: &[Self] = &[
        Self::Npy,
        Self::Npz,
        Self::Mat,
        Self::Idx,
        Self::Tables,
        Self::Parquet,
        Self::Svmlight,
        Self::Tags,
        Self::Words,
        Self::Vectors,
        Self::Model,
        Self::OldModel,
        Self::Checkpoint,
        Self::OldCheckpoint,
        Self::Learner,
        Self::OldLearner,
    ];

    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// How many times a reader was called, and how many files were read by at least one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub executions: u64,
    pub read: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.executions += other.executions;
        self.read += other.read;
    }
}

/// The readers of a target.
pub struct Readers {
    target: Target,
    names: Vec<String>,
    /// The only bytes that a reader with a checksum may accept.
    sealed: Vec<Vec<u8>>,
    models: Models,
}

impl Readers {
    pub fn new(target: Target, sealed: Vec<Vec<u8>>) -> Self {
        let names = ["a", "b", "sea", "ship"].map(str::to_owned).to_vec();
        Self { target, names, sealed, models: Models::new() }
    }

    /// Calls every reader; an error is something that must not happen.
    pub fn read(&self, path: &Path, bytes: &[u8]) -> std::result::Result<Count, String> {
        let names = Some(self.names.as_slice());
        let calls = match self.target {
            Target::Npy => vec![
                ok(read_npy(path)),
                ok(read_npy_f32(path)),
                ok(read_npy_integers(path)),
                ok(read_points(path, &TableOptions::default())),
                ok(read_points(path, &chosen())),
                ok(read_vector(path)),
                ok(read_matrix(path)),
                ok(read_features(path)),
                ok(read_labels(path, None)),
                ok(read_labels(path, names)),
                ok(LabelVectors::read(path, &self.names)),
            ],
            Target::Npz | Target::Mat => {
                vec![ok(read_features(path)), ok(read_labels(path, None)), ok(read_labels(path, names))]
            }
            Target::Idx => vec![
                ok(read_idx(path)),
                ok(read_idx_labels(path)),
                ok(read_features(path)),
                ok(read_labels(path, None)),
            ],
            Target::Tables => vec![
                ok(read_table(path)),
                ok(read_points(path, &TableOptions::default())),
                ok(read_points(path, &chosen())),
                ok(read_vector(path)),
                ok(read_features(path)),
                ok(read_labels(path, None)),
                ok(read_labels(path, names)),
            ],
            Target::Parquet => vec![
                ok(MixedTable::open(path, Header::Auto)),
                ok(read_points(path, &TableOptions::default())),
                ok(read_points(path, &chosen())),
                ok(read_features(path)),
                ok(read_labels(path, None)),
            ],
            Target::Svmlight => vec![
                ok(read_labeled(path)),
                ok(read_features(path)),
                ok(read_labels(path, None)),
                ok(read_labels(path, names)),
            ],
            Target::Tags => vec![
                ok(read_labels(path, None)),
                ok(read_labels(path, names)),
                ok(read_label_names(path)),
                ok(read_groups(path)),
            ],
            Target::Words => vec![ok(Histogram::read(path)), ok(read_groups(path))],
            Target::Vectors => {
                vec![ok(Embeddings::read_all(path)), ok(LabelVectors::read(path, &self.names))]
            }
            Target::Model | Target::OldModel => Models::read_model(path, bytes)?,
            Target::Checkpoint | Target::OldCheckpoint => self.models.read_checkpoint(path),
            Target::Learner | Target::OldLearner => self.models.read_learner(path, bytes),
        };
        let read = calls.contains(&true);
        let has_checksum = matches!(self.target, Target::Model | Target::Checkpoint | Target::Learner);
        if has_checksum && read && !self.sealed.iter().any(|whole| whole == bytes) {
            return Err("a damaged file was read".into());
        }
        Ok(Count { executions: calls.len() as u64, read: u64::from(read) })
    }
}

/// Options that leave out rows and columns.
fn chosen() -> TableOptions {
    TableOptions {
        drop: vec!["1".into(), "h*".into()],
        header: Header::Yes,
        missing: Missing::DropRows,
        weight_column: Some("w".into()),
        ..TableOptions::default()
    }
}

/// Whether a reader accepted its file.
pub fn ok<T>(read: Result<T>) -> bool {
    read.is_ok()
}
