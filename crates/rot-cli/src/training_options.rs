//! The options of training, and the library values they stand for.

use clap::{Args, ValueEnum};
use robust_ot_cuda::{DeviceChoice, Precision};
use robust_ot_learn::{
    Criterion, HiddenChoice, Method, Optimizer, Protocol, Reduction, Schedule, TrainingChoice,
};

use crate::parse::{named, parsed};

/// The initial value of all weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StartOption {
    Zeros,
    Ones,
}

/// What `--optimizer` names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Minimizer {
    Lbfgs,
    Steps(Optimizer),
}

fn optimizer(name: &str) -> Result<Minimizer, String> {
    match name {
        "lbfgs" => Ok(Minimizer::Lbfgs),
        _ => parsed(name).map(Minimizer::Steps).map_err(|_| "must be lbfgs, adam, adamw or sgd".to_owned()),
    }
}

/// What held-out rows choose by.
pub const CRITERIA: [(&str, &str); 5] = [
    ("auc", "Macro AUC"),
    ("map", "Mean average precision"),
    ("p@1", "The fraction of rows whose top label is true"),
    ("semantic", "The least semantic cost of the top label, or of the top five where rows have several"),
    ("rank", "AUC, mAP and P@1 together"),
];

/// Whose settings replace the defaults.
const PROTOCOLS: [(&str, &str); 2] = [
    (
        "paper",
        "The paper: SGD with learning rate 1 on the sum over batches of 150, 200 epochs, weights that start at one, no bias, decay 0.0005, random groups, oracle entropy 0.2, the paper's formulas. Row scaling is not included: see --row-length",
    ),
    (
        "authors-code",
        "The same with the formulas of the released code: p as its power, doubly stochastic rows that sum to 1/r",
    ),
];

/// How the loss is minimized.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Training")]
pub struct TrainingOptions {
    /// lbfgs minimizes over all rows at once, to the optimum; adam, adamw (adam with decoupled weight decay) and sgd take steps
    /// over batches [default: lbfgs for ce, bce and square; adamw with --hidden; adam for losses with transport and asl, or if an
    /// option of its steps is given]
    #[arg(long, value_parser = optimizer, value_name = "lbfgs|adam|adamw|sgd")]
    optimizer: Option<Minimizer>,
    /// Momentum of sgd [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    momentum: Option<f64>,
    /// Learning rate [default: 0.001 with adam and adamw, 0.1 with sgd]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    lr: Option<f64>,
    /// Learning rate schedule: constant, linear or cosine
    #[arg(long, default_value = "constant", value_parser = parsed::<Schedule>)]
    schedule: Schedule,
    /// Rows per step [default: a tenth of the rows, from 16 to 150]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Maximum number of passes over the data [default: 200 if rows are held out or there are fewer than 200, else 30]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// λ in λ‖W‖², added once per batch; with adamw, weights lose the part lr · λ per step [default: 0; 0.01 with --hidden]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// Whether every label has a bias [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"])]
    bias: Option<String>,
    /// Initial value of all weights [default: zeros]
    #[arg(long, value_enum)]
    init: Option<StartOption>,
    /// Whether a step follows the mean or the sum of a batch's gradients [default: mean]
    #[arg(long, value_parser = parsed::<Reduction>)]
    reduction: Option<Reduction>,
    /// Seed of samples, random groups and the order of rows
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Fraction of the training rows to hold out, 0 for none. They choose loss, scaling, prior and L2, and the final model
    /// learns from all rows; with adam and sgd, they choose the epoch [default: with lbfgs, every row in turn if there are
    /// few, else 0.2; with adam and sgd, 0.1 with at least 200 rows, else 0]
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub validation: Option<f64>,
    /// What the held-out rows choose by: rank is AUC + mAP + P@1, and semantic the cost of the top labels, with --label-vectors
    /// [default: rank with lbfgs; auc with adam and sgd]
    #[arg(long, value_parser = named::<Criterion>(&CRITERIA))]
    pub select: Option<Criterion>,
    /// Stop after this many epochs without a better score of the held-out rows [default: 20]
    #[arg(long, value_name = "N")]
    patience: Option<usize>,
    /// Where to train: auto, cpu, cuda or cuda:N. auto uses a GPU if one is available and the work is large enough; cuda
    /// fails without a GPU
    #[arg(long, value_name = "WHERE", default_value_t, value_parser = parsed::<DeviceChoice>)]
    pub device: DeviceChoice,
    /// Precision of matrix products on a GPU: f32, or tf32, which is faster and rounds factors to 11 bits; the effect
    /// is reported
    #[arg(long, default_value = "f32", value_parser = parsed::<Precision>)]
    pub precision: Precision,
    /// Train as in the paper; options given explicitly take precedence
    #[arg(long, value_parser = named::<Protocol>(&PROTOCOLS))]
    pub protocol: Option<Protocol>,
}

impl TrainingOptions {
    /// The library value.
    pub fn read(&self) -> TrainingChoice {
        let (method, optimizer) = match self.optimizer {
            None if !self.device.may_be_cpu() => (Some(Method::Stochastic), None),
            None => (None, None),
            Some(Minimizer::Lbfgs) => (Some(Method::FullBatch), None),
            Some(Minimizer::Steps(optimizer)) => (Some(Method::Stochastic), Some(optimizer)),
        };
        TrainingChoice {
            hidden: HiddenChoice::default(),
            method,
            optimizer,
            momentum: self.momentum,
            learning_rate: self.lr,
            schedule: self.schedule,
            batch: self.batch,
            epochs: self.epochs,
            weight_decay: self.weight_decay,
            bias: self.bias.as_ref().map(|bias| bias == "yes"),
            start: self.init.map(|start| if start == StartOption::Ones { 1.0 } else { 0.0 }),
            reduction: self.reduction,
            patience: self.patience,
        }
    }
}
