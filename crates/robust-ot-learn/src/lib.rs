//! Learning with robust losses: a linear model, $h = \mathrm{softmax}(X W + b)$, for single-label and multi-label data, with a
//! hidden layer if one is wanted.
//!
//! A [`Dataset`] holds rows and labels, an [`Objective`] is what training minimizes, [`TrainSettings`] configure it, a
//! [`Trainer`] is the run, and a [`Model`] is its result. The same seed gives the same weights, bit for bit, for any
//! number of threads, with or without an interruption and a checkpoint in between. [`data`] reads files, and [`score`]
//! scores predictions.
//!
//! ```
//! use ndarray::array;
//! use robust_ot::Grouping;
//! use robust_ot::solve::Interrupt;
//! use robust_ot::loss::{LossSettings, RobustLoss, Targets};
//! use robust_ot_learn::data::Features;
//! use robust_ot_learn::{Dataset, Objective, TrainSettings, Trainer};
//!
//! // Label vectors define which labels are close: 0 and 1 are, 2 is not.
//! let vectors = array![[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]];
//! let loss = RobustLoss::new(&vectors, &Grouping::none(2), LossSettings::default())?;
//! let objective = Objective::mix(1.0, 5.0, loss)?;
//! let rows = Features::Dense(array![[-2.0], [-1.0], [2.0], [-2.1], [-0.8], [2.2]]);
//! let train = Dataset::new(rows, Targets::new(3, [[0], [1], [2], [0], [1], [2]])?)?;
//! let settings = TrainSettings { epochs: 100, learning_rate: 0.1, ..Default::default() };
//! let mut trainer = Trainer::new(&train, None, &objective, settings)?;
//! while trainer.epoch(&Interrupt::default(), |_, _| ())?.is_some() {}
//! let model = trainer.into_model(vec!["cat".into(), "dog".into(), "truck".into()])?;
//! assert!(model.probabilities(Features::Dense(array![[3.0]]))?[[0, 2]] > 0.9);
//! # Ok::<(), robust_ot::Error>(())
//! ```

mod asymmetric;
mod checkpoint;
pub mod compare;
mod criterion;
pub mod data;
mod dataset;
mod decision;
mod dropout;
mod engine;
mod explanation;
mod extension;
mod feature_names;
mod file_header;
mod fingerprint;
mod fit;
mod full_batch;
mod gradient;
mod hidden_batch;
mod hidden_layer;
mod hidden_settings;
mod label_groups;
mod label_kernel;
mod label_means;
mod label_transport;
mod learner;
mod linear;
mod memory;
mod model;
mod model_file;
mod objective;
mod optimizer;
mod preprocessing;
mod reliability;
mod row_length;
mod scale;
pub mod score;
mod scores;
mod seal;
mod selection;
mod settings;
mod slopes;
mod soft_targets;
mod standardization;
mod state;
mod tensors;
#[cfg(test)]
mod testing;
mod threshold;
mod trainer;
mod tune;
mod verify;

pub use self::asymmetric::Asymmetric;
pub use self::criterion::{Criterion, HeldScores};
pub use self::dataset::{Dataset, sample_per_class};
pub use self::decision::{LabelLaw, least_cost_labels};
pub use self::engine::{Engine, EpochWork};
pub use self::explanation::{Explanation, Flow, Naming, PairShare};
pub use self::extension::Extension;
pub use self::file_header::{Integrity, Kind};
pub use self::fit::{
    Columns, FitEvent, FitRun, FitSettings, Fitted, FullFit, Geometry, HiddenChoice, LossChoice, LossName,
    Method, MixBase, Preparation, PriorChoice, Protocol, Samples, StreamingFit, TargetChoice, TrainingChoice,
    zero_rows_note,
};
pub use self::gradient::Gradient;
pub use self::hidden_layer::HiddenLayer;
pub use self::hidden_settings::HiddenSettings;
pub use self::label_groups::{LabelGroup, label_groups};
pub use self::label_kernel::{Prior, PriorGeometry};
pub use self::label_means::label_means;
pub use self::label_transport::{LabelTransport, mean_metric};
pub use self::learner::Learner;
pub use self::memory::Memory;
pub use self::model::{About, Model};
pub use self::objective::{Objective, Output};
pub use self::optimizer::{Optimizer, Parameters, Schedule, Step};
pub use self::preprocessing::Preprocessing;
pub use self::reliability::{Reliability, calibration_error, reliability};
pub use self::row_length::RowLength;
pub use self::scale::{Scale, Uneven};
pub use self::scores::Scores;
pub use self::seal::checksum;
pub use self::selection::{BlendPart, Calibration, Tried};
pub use self::settings::{Reduction, TrainSettings};
pub use self::soft_targets::SoftTargets;
pub use self::standardization::Standardization;
pub use self::threshold::{answers, threshold};
pub use self::trainer::{Epoch, Trainer};
pub use self::tune::{Candidate, JOURNAL, StepLoss, Steps, Trial, TuneEvent, TuneScaling, Tuned, Tuning};
pub use self::verify::verify;

/// The examples of the quick start compile and run.
#[cfg(doctest)]
#[doc = include_str!("../QUICKSTART.md")]
struct QuickStart;
