//! How `rot train` minimises, and the library values that stand for it.

use clap::{Args, ValueEnum};
use robust_ot_learn::{Optimizer, Reduction, Schedule, TrainSettings};

use crate::device::DeviceChoice;
use crate::failure::Failure;
use crate::protocol::Protocol;
use robust_ot_cuda::Precision;

/// What is held out of at least so many rows where nothing else is asked for, and how long a better epoch is waited for.
const HELD_OUT: (f64, usize) = (0.1, 200);
const PATIENCE: usize = 20;
/// The steps of an epoch where rows are few, and the least rows of a step.
const STEPS: usize = 10;
const SMALL_BATCH: usize = 16;
/// Epochs with rows held out, which end a run by themselves.
const EPOCHS: usize = 200;

/// The value all weights begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Start {
    Zeros,
    Ones,
}

/// How the losses of a batch become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReductionName {
    Mean,
    Sum,
}

/// How accurately a card multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PrecisionName {
    #[default]
    F32,
    Tf32,
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Self {
        match name {
            PrecisionName::F32 => Self::F32,
            PrecisionName::Tf32 => Self::Tf32,
        }
    }
}

/// How it is minimised.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Training")]
pub struct TrainingOptions {
    /// adam or sgd [default: adam]
    #[arg(long)]
    optimizer: Option<String>,
    /// Momentum of sgd [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    momentum: Option<f64>,
    /// Learning rate [default: 0.001 with adam, 0.1 with sgd]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    lr: Option<f64>,
    /// How the learning rate falls: constant, linear or cosine
    #[arg(long, default_value = "constant")]
    schedule: String,
    /// Rows a step [default: a tenth of the rows, from 16 to 150]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// The most passes over the data [default: 200 where rows are held out or fewer than 200, else 30]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// λ in λ‖W‖², added once a batch [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// Whether every label has a bias [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"])]
    bias: Option<String>,
    /// The value all weights begin with [default: zeros]
    #[arg(long, value_enum)]
    init: Option<Start>,
    /// Whether a step is along the mean or the sum of a batch's gradients [default: mean]
    #[arg(long, value_enum)]
    reduction: Option<ReductionName>,
    /// Seed of samples, of random groups and of the order of rows
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Part of the training rows to hold out, 0 for none; the weights of the epoch with the best AUC on them are kept
    /// [default: 0.1 of at least 200 rows, else 0]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub validation: Option<f64>,
    /// Stop after this many epochs without a better AUC on the rows held out [default: 20]
    #[arg(long, value_name = "N")]
    patience: Option<usize>,
    /// Where to train: auto, cpu, cuda or cuda:N. auto takes a card where there is one and the work is worth it; cuda takes it or fails
    #[arg(long, value_name = "WHERE", default_value_t)]
    pub device: DeviceChoice,
    /// Precision of matrix products on a card: f32, or tf32, which is faster and rounds factors to 11 bits; what that does is told
    #[arg(long, value_enum, default_value_t)]
    pub precision: PrecisionName,
    /// Train as the paper does; options that are given still count
    #[arg(long, value_enum)]
    pub protocol: Option<Protocol>,
}

impl TrainingOptions {
    /// The part of the rows to hold out.
    pub fn held_out(&self, rows: usize) -> Option<f64> {
        match self.validation {
            None if self.protocol.is_none() && rows >= HELD_OUT.1 => Some(HELD_OUT.0),
            None => None,
            Some(part) => (part != 0.0).then_some(part),
        }
    }

    /// The settings for so many rows, with others held out or without.
    pub fn settings(&self, rows: usize, validated: bool) -> Result<TrainSettings, Failure> {
        let paper = self.protocol.is_some();
        let base = if paper {
            TrainSettings {
                optimizer: Optimizer::Sgd { momentum: 0.0 },
                learning_rate: 1.0,
                epochs: 200,
                weight_decay: 0.0005,
                bias: false,
                start: 1.0,
                reduction: Reduction::Sum,
                ..TrainSettings::default()
            }
        } else {
            let usual = TrainSettings::default();
            // Few rows are cheap to go through, and need as many steps as many do.
            let epochs = if validated || rows < HELD_OUT.1 { EPOCHS } else { usual.epochs };
            TrainSettings { epochs, batch: (rows / STEPS).clamp(SMALL_BATCH, usual.batch), ..usual }
        };
        let mut optimizer = self.optimizer.as_deref().map_or(Ok(base.optimizer), str::parse)?;
        match (&mut optimizer, self.momentum) {
            (_, None) => {}
            (Optimizer::Sgd { momentum }, Some(wanted)) => *momentum = wanted,
            (Optimizer::Adam, Some(_)) => {
                return Err(Failure::Input("--momentum must go with --optimizer sgd, but it is adam".into()));
            }
        }
        let default_rate = match optimizer {
            Optimizer::Sgd { .. } if !paper => 0.1,
            _ => base.learning_rate,
        };
        let schedule: Schedule = self.schedule.parse()?;
        let settings = TrainSettings {
            optimizer,
            learning_rate: self.lr.unwrap_or(default_rate),
            schedule,
            batch: self.batch.unwrap_or(base.batch),
            epochs: self.epochs.unwrap_or(base.epochs),
            weight_decay: self.weight_decay.unwrap_or(base.weight_decay),
            bias: self.bias.as_ref().map_or(base.bias, |bias| bias == "yes"),
            start: match self.init {
                None => base.start,
                Some(Start::Zeros) => 0.0,
                Some(Start::Ones) => 1.0,
            },
            reduction: match self.reduction {
                None => base.reduction,
                Some(ReductionName::Mean) => Reduction::Mean,
                Some(ReductionName::Sum) => Reduction::Sum,
            },
            seed: self.seed,
            patience: self.patience.or(validated.then_some(PATIENCE)),
        };
        settings.check()?;
        Ok(settings)
    }
}
