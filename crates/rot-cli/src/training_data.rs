//! `rot train`'s data: features, true labels, label names and vectors from their files.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ndarray::{Array2, Axis};
use robust_ot::loss::Targets;
use robust_ot_learn::data::{
    FeatureFile, LabelFile, LabelVectors, read_features, read_label_names, read_labels, read_vector,
    to_length_one,
};
use robust_ot_learn::{Columns, Dataset, Method, Preparation, Samples};

use crate::class_samples::{ClassSamples, Drawn, PAPER};
use crate::failure::Failure;
use crate::feature_columns::like_training;
use crate::raw_samples::{Raw, RawSamples, is_text, numbered, read_indexed, read_mnist};
use crate::row_length::RowLengthOption;

/// The maximum number of labels that a message lists by name.
const LISTED: usize = 20;

/// What to do about a label without a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Missing {
    /// Fail, and list these labels
    Error,
    /// Give these labels the zero vector
    Zero,
    /// Leave these labels out
    Drop,
}

/// What to do about a row without labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Empty {
    /// Fail, and count these rows
    Error,
    /// Leave these rows out
    Skip,
}

/// Where samples come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Data")]
pub struct DataOptions {
    /// Features of the training rows: .npy, .npz, .mat, .csv, .tsv, .parquet, svmlight (.svm, .txt) or IDX
    #[arg(long, value_name = "FILE")]
    train_x: Option<PathBuf>,
    /// Labels of the training rows: a class or 0/1 vector per row (.npy, .npz, .mat, .csv, .parquet, IDX), or comma-separated tags per
    /// line (.txt)
    #[arg(long, value_name = "FILE", requires = "train_x")]
    train_y: Option<PathBuf>,
    /// Weights of the losses of the training rows: .npy, or text with one number per line
    #[arg(long, value_name = "FILE")]
    sample_weights: Option<PathBuf>,
    /// Features of the test rows
    #[arg(long, value_name = "FILE", requires = "train_x")]
    test_x: Option<PathBuf>,
    /// Labels of the test rows
    #[arg(long, value_name = "FILE", requires = "test_x")]
    test_y: Option<PathBuf>,
    /// Folder with MNIST's four IDX files, gzipped or not
    #[arg(long, value_name = "DIR", conflicts_with_all = ["train_x", "train_y", "test_x", "test_y", "xmc", "label_names"])]
    mnist: Option<PathBuf>,
    /// Training and test rows in the extreme-classification text format or svmlight
    #[arg(long, value_names = ["TRAIN", "TEST"], num_args = 2, conflicts_with_all = ["train_x", "train_y", "test_x", "test_y"])]
    xmc: Option<Vec<PathBuf>>,
    /// Label names, one per line, in the order of the label indices
    #[arg(long, value_name = "FILE")]
    label_names: Option<PathBuf>,
    /// Vectors of the label names (fastText, word2vec or GloVe text, gzipped or not), or .npy; scaled to length 1
    #[arg(long, value_name = "FILE")]
    label_vectors: Option<PathBuf>,
    /// What to do about labels without a vector
    #[arg(long, value_enum, default_value = "error")]
    missing: Missing,
    /// What to do about rows without labels
    #[arg(long, value_enum, default_value = "error")]
    empty: Empty,
    /// Keep only this many labels, the most frequent in the training rows
    #[arg(long, value_name = "N")]
    top_labels: Option<usize>,
    #[command(flatten)]
    samples: ClassSamples,
    /// Scale features to mean 0 and variance 1, as part of the model; sparse features are scaled but not centered
    #[arg(long)]
    standardize: bool,
    /// Scale every row to this length, as part of the model, after --standardize; zero rows stay zero, and their number is
    /// reported. auto compares none, 1 and --standardize on held-out rows with the optimizer lbfgs, and is none with others
    #[arg(long, value_name = "X|none|auto", default_value = "auto", allow_negative_numbers = true)]
    row_length: RowLengthOption,
}

/// What the files hold.
pub struct Data {
    pub samples: Samples,
    pub test: Option<Dataset>,
    /// The names of the features, if the training rows have some.
    pub feature_names: Option<Vec<String>>,
}

impl DataOptions {
    /// The input files.
    pub fn inputs(&self) -> Vec<&Path> {
        let options = [
            &self.train_x,
            &self.train_y,
            &self.sample_weights,
            &self.test_x,
            &self.test_y,
            &self.label_names,
            &self.label_vectors,
        ];
        let files = options.into_iter().flatten().chain(self.xmc.iter().flatten());
        files.map(PathBuf::as_path).collect()
    }

    /// Reads the samples and the test rows, and checks that they match; `paper` draws the paper's samples of MNIST.
    pub fn read(&self, seed: u64, paper: bool) -> Result<Data, Failure> {
        let mut raw = self.read_raw()?;
        check_width(&raw)?;
        let label_vectors = self.read_vectors(&mut raw)?;
        let (count, first_index, dropped_labels) = (raw.names.len(), raw.first_index, raw.dropped);
        let train = self.dataset(raw.train, count, self.sample_weights.as_deref())?;
        let test = raw.test.map(|test| self.dataset(test, count, None)).transpose()?;
        let mnist = self.mnist.is_some();
        let samples = if paper && mnist { self.samples.or(&PAPER) } else { self.samples.clone() };
        let Drawn { train, validation, test } = samples.draw(train, test, seed, mnist)?;
        let (label_names, feature_names) = (raw.names, raw.feature_names);
        let samples = Samples { train, validation, label_names, label_vectors, dropped_labels, first_index };
        Ok(Data { samples, test, feature_names })
    }

    /// The scaling of features.
    pub fn preparation(&self) -> Preparation {
        let columns = if self.standardize {
            Columns::Standardize
        } else if self.mnist.is_some() {
            // Pixels are bytes.
            Columns::Factor(1.0 / 255.0)
        } else {
            Columns::AsGiven
        };
        let row_length_stated = self.row_length != RowLengthOption::Auto;
        Preparation {
            columns,
            row_length: self.row_length.length(),
            columns_stated: self.standardize || row_length_stated,
            row_length_stated,
        }
    }

    fn read_raw(&self) -> Result<RawSamples, Failure> {
        let names = self.label_names.as_deref().map(read_label_names).transpose()?;
        if let Some(folder) = &self.mnist {
            return read_mnist(folder);
        }
        if let Some(files) = &self.xmc {
            return read_indexed(&files[0], Some(&files[1]), names);
        }
        let Some(train_x) = &self.train_x else {
            return Err(Failure::Input(
                "--train-x, --mnist or --xmc must name the data, but none is given".into(),
            ));
        };
        let Some(train_y) = &self.train_y else {
            if !is_text(train_x) {
                return Err(Failure::Input(
                    "--train-y must name the labels of --train-x, but is not given".into(),
                ));
            }
            if self.test_y.is_some() {
                return Err(Failure::Input(
                    "--test-y must go with --train-y; without it the labels are in --train-x and --test-x"
                        .into(),
                ));
            }
            return read_indexed(train_x, self.test_x.as_deref(), names);
        };
        let LabelFile { rows, names: found, count, counted } = read_labels(train_y, names.as_deref())?;
        let names = names.or(found);
        let FeatureFile { features, names: feature_names } = read_features(train_x)?;
        let train = Raw { place: train_x.clone(), features, labels: rows };
        let (mut test, mut count) = (None, count);
        if let Some(test_x) = &self.test_x {
            let Some(test_y) = &self.test_y else {
                return Err(Failure::Input(
                    "--test-y must name the labels of --test-x, but is not given".into(),
                ));
            };
            let labels = read_labels(test_y, names.as_deref())?;
            if names.is_none() {
                check_alike((train_y, count, counted), (test_y, &labels))?;
                count = count.max(labels.count);
            }
            let known = (train_x.as_path(), feature_names.as_deref());
            let features = like_training(known, test_x, read_features(test_x)?)?;
            test = Some(Raw { place: test_x.clone(), features, labels: labels.rows });
        }
        let names = names.map_or_else(|| numbered(count), Ok)?;
        let mut raw = RawSamples::new(train, test, names, None);
        raw.feature_names = feature_names;
        Ok(raw)
    }

    /// The label vectors, after `--top-labels` and `--missing` are applied.
    fn read_vectors(&self, raw: &mut RawSamples) -> Result<Option<Array2<f64>>, Failure> {
        let mut dropped = self.top_labels.map_or(Ok(Vec::new()), |count| raw.less_frequent(count))?;
        let Some(path) = &self.label_vectors else {
            if self.missing != Missing::Error {
                say!("rot: note: --missing has no effect without --label-vectors");
            }
            raw.drop_labels(&dropped);
            return Ok(None);
        };
        let LabelVectors { mut vectors, .. } = LabelVectors::read(path, &raw.names)?;
        to_length_one(&mut vectors);
        // A zero vector counts as missing.
        let missing = (0..raw.names.len()).filter(|&label| vectors.row(label).iter().all(|x| *x == 0.0));
        let missing: Vec<usize> = missing.filter(|label| !dropped.contains(label)).collect();
        if !missing.is_empty() {
            let listed: Vec<&str> =
                missing.iter().take(LISTED).map(|&label| raw.names[label].as_str()).collect();
            let more = if missing.len() > LISTED { ", …" } else { "" };
            let what = format!(
                "{}: {} of {} labels have no vector: {}{more}",
                path.display(),
                missing.len(),
                raw.names.len(),
                listed.join(", ")
            );
            match self.missing {
                Missing::Error => {
                    return Err(Failure::Input(format!("{what} (--missing zero|drop to continue without)")));
                }
                Missing::Zero => say!("rot: note: {what}; they have the zero vector"),
                Missing::Drop => {
                    say!("rot: note: {what}; they are left out");
                    dropped.extend(&missing);
                }
            }
        }
        Ok(Some(vectors.select(Axis(0), &raw.drop_labels(&dropped))))
    }

    /// Builds a data set, after `--empty` is applied.
    fn dataset(&self, raw: Raw, count: usize, weights: Option<&Path>) -> Result<Dataset, Failure> {
        let Raw { place, mut features, mut labels } = raw;
        let about = |error| Failure::about(&place.display().to_string(), &error);
        if features.rows() != labels.len() {
            let (rows, lines) = (features.rows(), labels.len());
            let what = format!("{}: there must be one row of labels per row of features", place.display());
            return Err(Failure::Input(format!("{what}, but there are {lines} for {rows}")));
        }
        let mut weights = weights.map(|path| read_weights(path, features.rows())).transpose()?;
        let empty: Vec<usize> = (0..labels.len()).filter(|&row| labels[row].is_empty()).collect();
        if let Some(first) = empty.first() {
            let what = format!("{}: {} of {} rows have no label", place.display(), empty.len(), labels.len());
            if self.empty == Empty::Error {
                let first = first + 1;
                return Err(Failure::Input(format!(
                    "{what}, the first is row {first} (--empty skip to leave them out)"
                )));
            }
            say!("rot: note: {what}; they are left out");
            let kept: Vec<usize> = (0..labels.len()).filter(|&row| !labels[row].is_empty()).collect();
            features = features.select(&kept);
            weights = weights.map(|weights| kept.iter().map(|&row| weights[row]).collect());
            labels.retain(|row| !row.is_empty());
        }
        if labels.is_empty() {
            return Err(Failure::Input(format!(
                "{}: at least one row must have a label, but none has",
                place.display()
            )));
        }
        let targets = Targets::new(count, &labels).map_err(about)?;
        let data = Dataset::new(features, targets).map_err(about)?;
        match weights {
            None => Ok(data),
            Some(weights) => Ok(data.with_weights(weights)?),
        }
    }
}

/// One weight per row.
fn read_weights(path: &Path, rows: usize) -> Result<Vec<f32>, Failure> {
    let weights: Vec<f32> = read_vector(path)?.iter().map(|w| *w as f32).collect();
    if weights.len() == rows {
        return Ok(weights);
    }
    let (place, found) = (path.display(), weights.len());
    Err(Failure::Input(format!(
        "{place}: must have one weight for each of the {rows} training rows, but has {found}"
    )))
}

/// Notes the labels that no training row has, and what becomes of them.
pub fn say_unseen(samples: &Samples, method: Method) {
    let (targets, names) = (samples.train.targets(), &samples.label_names);
    let mut seen = vec![false; names.len()];
    (0..targets.rows()).for_each(|row| targets.row(row).iter().for_each(|&label| seen[label] = true));
    let unseen: Vec<&str> =
        names.iter().zip(&seen).filter(|(_, seen)| !**seen).map(|(name, _)| name.as_str()).collect();
    if !unseen.is_empty() {
        let (count, all) = (unseen.len(), names.len());
        let more = if count > LISTED { ", …" } else { "" };
        let listed = unseen[..count.min(LISTED)].join(", ");
        let what = match method {
            Method::FullBatch if samples.label_vectors.is_some() => {
                "get weights from the prior between label names"
            }
            Method::FullBatch => "cannot be learned without label vectors",
            Method::Stochastic => "cannot be learned",
        };
        say!("rot: note: {count} of {all} labels have no training row and {what}: {listed}{more}");
    }
}

/// Refuses test rows with another number of features than the training rows.
fn check_width(raw: &RawSamples) -> Result<(), Failure> {
    let Some(test) = &raw.test else { return Ok(()) };
    let (wanted, found) = (raw.train.features.columns(), test.features.columns());
    if wanted == found {
        return Ok(());
    }
    let place = test.place.display();
    Err(Failure::Input(format!(
        "{place}: must have the {wanted} features of the training rows, but has {found}"
    )))
}

/// Refuses test labels that are not numbered like the training labels.
fn check_alike(
    (train, count, counted): (&Path, usize, bool),
    (test, labels): (&Path, &LabelFile),
) -> Result<(), Failure> {
    let (train, test) = (train.display(), test.display());
    if labels.names.is_some() {
        return Err(Failure::Input(format!("{test}: labels must be numbers, as in {train}, but are names")));
    }
    if counted && (labels.count > count || (labels.counted && labels.count != count)) {
        let found = labels.count;
        return Err(Failure::Input(format!(
            "{test}: must have the {count} labels of {train}, but has {found}"
        )));
    }
    Ok(())
}
