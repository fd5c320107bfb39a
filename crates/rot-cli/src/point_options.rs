//! Options for inputs that are point clouds.

use clap::Args;
use robust_ot_learn::Scale;
use robust_ot_learn::data::{Header, Missing, TableOptions};

use crate::parse::named;

/// How features are scaled.
pub const SCALES: [(&str, &str); 3] = [
    ("none", "Features keep their units"),
    ("std", "Divide by the standard deviation, over all inputs pooled"),
    ("robust", "Divide by the interquartile range / 1.349, over all inputs pooled"),
];
/// Whether the first line has names.
pub const HEADERS: [(&str, &str); 3] = [
    ("auto", "The first line is a header if it has names and no number"),
    ("yes", "The first line is a header"),
    ("no", "The first line is data; columns are called by their numbers, from 1"),
];
/// What happens to missing values.
const MISSING: [(&str, &str); 2] = [
    ("error", "Missing values are refused"),
    ("drop-rows", "Rows with missing values are left out and counted"),
];

/// Options for inputs that are point clouds.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Points")]
pub struct PointOptions {
    /// Columns to use, by name or, without a header, by number from 1; * and ? match any text and any character [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "embeddings")]
    columns: Vec<String>,
    /// Columns to leave out, such as identifiers and text; after --columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "embeddings")]
    drop: Vec<String>,
    /// Whether the first line of a table names the columns
    #[arg(long, value_parser = named::<Header>(&HEADERS), conflicts_with = "embeddings", default_value = Header::default().name())]
    header: Header,
    /// What happens to rows with missing values
    #[arg(long, value_parser = named::<Missing>(&MISSING), conflicts_with = "embeddings", default_value = Missing::default().name())]
    missing: Missing,
    /// The column that holds the weights of the points [default: equal weights]
    #[arg(long, value_name = "NAME", conflicts_with = "embeddings")]
    weight_column: Option<String>,
    /// Scale of the features
    #[arg(long, value_parser = named::<Scale>(&SCALES), conflicts_with = "embeddings", default_value = Scale::default().name())]
    pub scale: Scale,
}

impl PointOptions {
    /// How tables are read.
    pub fn table(&self) -> TableOptions {
        TableOptions {
            columns: self.columns.clone(),
            drop: self.drop.clone(),
            header: self.header,
            missing: self.missing,
            weight_column: self.weight_column.clone(),
        }
    }
}
