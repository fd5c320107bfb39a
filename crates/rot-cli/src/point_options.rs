//! Options for inputs that are point clouds.

use clap::Args;
use robust_ot_learn::Scale;

use crate::parse::named;

/// How features are scaled.
const SCALES: [(&str, &str); 3] = [
    ("none", "Features keep their units"),
    ("std", "Divide by the standard deviation, over all inputs pooled"),
    ("robust", "Divide by the interquartile range / 1.349, over all inputs pooled"),
];

/// Options for inputs that are point clouds.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub struct PointOptions {
    /// Scale of the features
    #[arg(long, value_parser = named::<Scale>(&SCALES), conflicts_with = "embeddings", default_value = Scale::default().name())]
    pub scale: Scale,
}
