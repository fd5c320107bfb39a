//! The choice of how to minimize, and the settings it stands for.

use robust_ot::{Error, Result};

use super::hidden_choice::HiddenChoice;
use super::method::Method;
use super::protocol::Protocol;
use crate::optimizer::{Optimizer, Schedule};
use crate::settings::{Reduction, TrainSettings};

/// The fraction of the rows held out by default.
const HELD_OUT: f64 = 0.1;
/// Below this number of rows, none are held out by default, and training makes more passes.
const FEW_ROWS: usize = 200;
/// The default number of epochs without a better validation score before training stops.
const PATIENCE: usize = 20;
/// The number of steps per epoch where rows are few.
const STEPS: usize = 10;
/// The smallest default batch.
const SMALL_BATCH: usize = 16;
/// The default number of epochs where validation can stop a run early, or rows are few.
const EPOCHS: usize = 200;
/// The default weight decay with a hidden layer.
const DECAY: f64 = 0.01;
/// The default learning rate of SGD.
const SGD_RATE: f64 = 0.1;

/// How to minimize; the default of an absent value depends on the data and the [`Protocol`].
///
/// | name | default |
/// |---|---|
/// | `method` | over all rows at once, if no field below is given and the loss is convex |
/// | `hidden` | none |
/// | `optimizer` | Adam; AdamW with a hidden layer |
/// | `momentum` | 0, for SGD only |
/// | `learning_rate` | 0.001 with Adam and AdamW, 0.1 with SGD |
/// | `schedule` | constant |
/// | `batch` | a tenth of the rows, from 16 to 150 |
/// | `epochs` | 200 if rows are held out or there are fewer than 200, else 30 |
/// | `weight_decay` | 0; 0.01 with a hidden layer |
/// | `bias` | true |
/// | `start` | 0 |
/// | `reduction` | mean |
/// | `patience` | 20 where rows are held out |
///
/// ```
/// use robust_ot_learn::TrainingChoice;
///
/// let few = TrainingChoice::default().settings(100, false, None, 0)?;
/// assert_eq!((few.batch, few.epochs), (16, 200));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainingChoice {
    /// Over all rows at once or in steps over batches.
    pub method: Option<Method>,
    /// A hidden layer.
    pub hidden: HiddenChoice,
    /// How gradients become steps.
    pub optimizer: Option<Optimizer>,
    /// Momentum of SGD.
    pub momentum: Option<f64>,
    /// η.
    pub learning_rate: Option<f64>,
    /// The schedule of η.
    pub schedule: Schedule,
    /// Rows per step.
    pub batch: Option<usize>,
    /// The maximum number of passes over the data.
    pub epochs: Option<usize>,
    /// λ in λ‖W‖², or of AdamW's decay.
    pub weight_decay: Option<f64>,
    /// Whether every label has a bias.
    pub bias: Option<bool>,
    /// The initial value of all weights.
    pub start: Option<f32>,
    /// Whether a step follows the mean or the sum of a batch's gradients.
    pub reduction: Option<Reduction>,
    /// Epochs without a better validation score before training stops.
    pub patience: Option<usize>,
}

impl TrainingChoice {
    /// The fraction to hold out of this number of rows by default.
    pub(super) fn held_out(protocol: Option<Protocol>, rows: usize) -> Option<f64> {
        (protocol.is_none() && rows >= FEW_ROWS).then_some(HELD_OUT)
    }

    /// The settings for this number of rows; `validated` is whether other rows are held out for validation.
    ///
    /// # Errors
    /// When a value is out of range.
    pub fn settings(
        &self,
        rows: usize,
        validated: bool,
        protocol: Option<Protocol>,
        seed: u64,
    ) -> Result<TrainSettings> {
        let paper = protocol.is_some();
        let base = if paper { of_the_paper() } else { by_the_rows(rows, validated) };
        let hidden = self.hidden.settings(protocol)?;
        let (usual, decay) = match hidden {
            None => (base.optimizer, base.weight_decay),
            Some(_) => (Optimizer::AdamW, DECAY),
        };
        let mut optimizer = self.optimizer.unwrap_or(usual);
        match (optimizer, self.momentum) {
            (_, None) => {}
            (Optimizer::Sgd { .. }, Some(momentum)) => optimizer = Optimizer::Sgd { momentum },
            (Optimizer::Adam | Optimizer::AdamW, Some(_)) => {
                return Err(Error::Conflict {
                    name: "momentum",
                    rule: "go with the optimizer sgd".into(),
                    found: format!("it is {optimizer}"),
                });
            }
        }
        let default_rate = match optimizer {
            Optimizer::Sgd { .. } if !paper => SGD_RATE,
            _ => base.learning_rate,
        };
        let settings = TrainSettings {
            optimizer,
            learning_rate: self.learning_rate.unwrap_or(default_rate),
            schedule: self.schedule,
            batch: self.batch.unwrap_or(base.batch),
            epochs: self.epochs.unwrap_or(base.epochs),
            weight_decay: self.weight_decay.unwrap_or(decay),
            hidden,
            bias: self.bias.unwrap_or(base.bias),
            start: self.start.unwrap_or(base.start),
            reduction: self.reduction.unwrap_or(base.reduction),
            seed,
            patience: self.patience.or(validated.then_some(PATIENCE)),
            ..base
        };
        settings.check()?;
        Ok(settings)
    }
}

fn of_the_paper() -> TrainSettings {
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
}

/// The defaults for a number of rows. Few rows are cheap to pass over, but need as many steps as many rows do.
fn by_the_rows(rows: usize, validated: bool) -> TrainSettings {
    let usual = TrainSettings::default();
    let epochs = if validated || rows < FEW_ROWS { EPOCHS } else { usual.epochs };
    TrainSettings { epochs, batch: (rows / STEPS).clamp(SMALL_BATCH, usual.batch), ..usual }
}
