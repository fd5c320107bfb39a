//! The options of the penalty on the weights, and the library values they stand for.

use clap::Args;
use robust_ot_learn::{PriorChoice, PriorGeometry};

use crate::parse::named;

/// What the label costs of the prior come from; `auto` is none of these.
const PRIORS: [(&str, &str); 4] = [
    ("none", "Labels are independent: plain L2"),
    ("names", "--label-vectors"),
    ("rows", "The mean features of the training rows with each label"),
    ("both", "The mean of the kernels of names and rows"),
];

/// The penalty λ/2 tr(W K⁻¹ Wᵀ) on the weights, with K = (e^(−C/τ) + η I) / (1 + η) between labels.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Prior on the weights")]
pub struct PriorOptions {
    /// What defines which labels share weights, with the optimizer lbfgs or a hidden layer [default: chosen on held-out rows; names
    /// with --hidden and --label-vectors]
    #[arg(long, value_parser = named::<PriorGeometry>(&PRIORS))]
    label_prior: Option<PriorGeometry>,
    /// τ: up to which cost labels share weights [default: chosen among 0.25, 0.5 and 1; 0.5 with --hidden]
    #[arg(long, value_name = "TAU", allow_negative_numbers = true)]
    prior_temperature: Option<f64>,
    /// η: how much of every label's weights is its own [default: chosen among 0.1, 0.3 and 1; 1 with --hidden]
    #[arg(long, value_name = "ETA", allow_negative_numbers = true)]
    prior_free: Option<f64>,
    /// λ, relative to the summed losses of all rows, or auto: chosen on held-out rows
    #[arg(long, value_name = "X|auto", default_value = "auto", value_parser = strength, allow_negative_numbers = true)]
    l2: Strength,
}

/// λ, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Strength(Option<f64>);

fn strength(text: &str) -> Result<Strength, String> {
    if text == "auto" {
        return Ok(Strength(None));
    }
    let value = text.parse().ok().filter(|value: &f64| *value > 0.0 && value.is_finite());
    value.map(|value| Strength(Some(value))).ok_or_else(|| "must be positive and finite, or auto".to_owned())
}

impl PriorOptions {
    /// The library value.
    pub fn read(&self) -> PriorChoice {
        PriorChoice {
            geometry: self.label_prior,
            temperature: self.prior_temperature,
            free: self.prior_free,
            l2: self.l2.0,
        }
    }
}
