//! The options of a hidden layer, and the library value they stand for.

use clap::Args;
use robust_ot_learn::HiddenChoice;

/// A layer of units ReLU(X V + c) between features and labels.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Hidden layer")]
pub struct HiddenOptions {
    /// Number of units of a hidden layer [default: none, a linear model]. It is trained in steps (adamw), the label prior
    /// applies to the weights of the labels (names, τ = 0.5 and η = 1 unless given), and --weight-decay is its strength
    #[arg(long, value_name = "N")]
    hidden: Option<usize>,
    /// Fraction of the units that a step leaves out [default: 0.5]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    dropout: Option<f64>,
    /// Fraction of the features that a step leaves out [default: 0.2]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    input_dropout: Option<f64>,
}

impl HiddenOptions {
    /// The library value.
    pub fn read(&self) -> HiddenChoice {
        HiddenChoice { units: self.hidden, dropout: self.dropout, input_dropout: self.input_dropout }
    }
}
