//! Learning with robust losses: a linear model, $h = \mathrm{softmax}(X W + b)$, for one or many labels a row.
//!
//! [`Dataset`] is what is learnt from, [`Objective`] what is minimised, [`TrainSettings`] how, [`Trainer`] the run and
//! [`Model`] what comes of it. The same seed gives the same weights, bit for bit, whatever the number of threads, and
//! whether or not the run was interrupted and went on from a checkpoint.

mod checkpoint;
mod dataset;
mod engine;
mod fingerprint;
mod gradient;
mod label_means;
mod learner;
mod linear;
mod model;
mod model_file;
mod objective;
mod optimizer;
mod preprocessing;
mod row_length;
mod scores;
mod settings;
mod slopes;
mod soft_targets;
mod standardization;
mod state;
mod tensors;
mod threshold;
mod trainer;

pub use self::dataset::{Dataset, sample_per_class};
pub use self::engine::{Engine, EpochWork};
pub use self::gradient::Gradient;
pub use self::label_means::label_means;
pub use self::learner::Learner;
pub use self::model::{About, Model};
pub use self::objective::{Objective, Output};
pub use self::optimizer::{Optimizer, Parameters, Schedule, Step};
pub use self::preprocessing::Preprocessing;
pub use self::row_length::RowLength;
pub use self::scores::Scores;
pub use self::settings::{Reduction, TrainSettings};
pub use self::soft_targets::SoftTargets;
pub use self::standardization::Standardization;
pub use self::threshold::threshold;
pub use self::trainer::{Epoch, Trainer};
