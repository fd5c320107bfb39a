//! The contents of an experiment file: data, rows, protocols and the published scores to compare with.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::training::parse_options;
use crate::failure::Failure;

/// A table of trained models.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    pub title: String,
    /// The largest difference from a published AUC that counts as near.
    pub band: f64,
    /// The option that the seeds set, `seed` by default.
    #[serde(default = "seed")]
    pub varies: String,
    /// Seeds by protocol.
    pub seeds: BTreeMap<String, Vec<u64>>,
    pub quick: Quick,
    /// Options of `rot train` by protocol.
    pub protocols: BTreeMap<String, String>,
    pub data: Vec<Data>,
    pub row: Vec<Row>,
}

fn seed() -> String {
    "seed".into()
}

/// The reduced budget of `--quick`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    pub epochs: usize,
    pub seeds: Vec<u64>,
}

/// A data set.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Data {
    pub name: String,
    /// Options of `rot train`, with `{data}` for the data folder.
    pub options: String,
    /// How the data differ from the paper's.
    pub differs: String,
    /// Additional options by protocol.
    #[serde(default)]
    pub protocol_options: BTreeMap<String, String>,
    /// The length that rows are scaled to, by protocol; no scaling by default.
    #[serde(default)]
    pub row_length: BTreeMap<String, f64>,
    /// Epochs by protocol, which override the protocol's own.
    #[serde(default)]
    pub epochs: BTreeMap<String, usize>,
    /// Seeds by protocol, which override the experiment's.
    #[serde(default)]
    pub seeds: BTreeMap<String, Vec<u64>>,
    /// The number of seeds used to choose from a grid; all by default.
    #[serde(default)]
    pub tuning_seeds: Option<usize>,
}

impl Data {
    /// How the data differ from the paper's, and the row length, which the paper does not state.
    pub fn differs(&self, protocol: &str) -> String {
        let scale = self.row_length.get(protocol);
        let scale = scale.map_or_else(String::new, |length| format!(" Rows are scaled to length {length}."));
        format!("{}{scale}", self.differs)
    }

    /// Options of `rot train` for a protocol.
    pub fn options_for(&self, protocol: &str) -> String {
        let more = self.protocol_options.get(protocol).map_or("", String::as_str);
        let scale =
            self.row_length.get(protocol).map_or_else(String::new, |length| format!("--row-length {length}"));
        [&self.options, more, &scale]
            .iter()
            .flat_map(|part| part.split_whitespace())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// A row of the table: one model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    /// Options of `rot train`.
    pub options: String,
    pub protocols: Vec<String>,
    /// The paper's scores by data set.
    #[serde(default)]
    pub published: BTreeMap<String, Figures>,
    /// Epochs by data set, for a row that is too slow for the usual number.
    #[serde(default)]
    pub epochs: BTreeMap<String, usize>,
    /// Options to choose from by validation; each costs a run per tuning seed.
    #[serde(default)]
    pub grid: Vec<String>,
}

/// Published scores.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    pub auc: f64,
    #[serde(default)]
    pub map: Option<f64>,
    #[serde(default)]
    pub sd: Option<f64>,
}

/// The part of an experiment to run.
#[derive(Debug, Clone, Default)]
pub struct Part {
    pub sets: Vec<String>,
    pub protocols: Vec<String>,
    pub quick: bool,
}

impl Part {
    fn has(names: &[String], name: &str) -> bool {
        names.is_empty() || names.iter().any(|wanted| wanted == name)
    }
}

/// A line of a table: one model on one data set under one protocol, for several seeds.
#[derive(Debug, Clone)]
pub struct Cell<'a> {
    pub data: &'a Data,
    pub protocol: &'a str,
    pub row: &'a Row,
    pub seeds: &'a [u64],
    /// Options to choose from by validation; a single one is used without a choice.
    pub variants: Vec<&'a str>,
    /// The seeds used for the choice.
    pub tuning_seeds: &'a [u64],
    /// The options without variant and seed.
    options: Vec<String>,
    varies: &'a str,
}

impl Cell<'_> {
    /// The options of `rot train` for one run, with `{data}` for the data folder.
    pub fn options(&self, variant: &str, seed: u64) -> String {
        let parts = self.options.iter().map(String::as_str).chain([variant]);
        let words: Vec<&str> = parts.flat_map(str::split_whitespace).collect();
        format!("{} --{} {seed}", words.join(" "), self.varies)
    }

    /// The number of models to train.
    pub fn runs(&self) -> usize {
        match self.variants.len() {
            1 => self.seeds.len(),
            variants => (variants - 1) * self.tuning_seeds.len() + self.seeds.len(),
        }
    }
}

impl Experiment {
    /// Rejects, before hours of training, invalid options and names that cannot be part of file names.
    pub fn check(&self, part: &Part) -> Result<(), Failure> {
        let names = self.data.iter().map(|data| &data.name).chain(self.protocols.keys());
        if let Some(name) = names.into_iter().find(|name| name.is_empty() || name.contains(['/', '\\'])) {
            return Err(Failure::Input(format!(
                "names of data sets and protocols must be non-empty and without / or \\, but one is '{name}'"
            )));
        }
        if let Some(data) = self.data.iter().find(|data| data.tuning_seeds == Some(0)) {
            return Err(Failure::Input(format!(
                "tuning-seeds of {} must be at least 1, but is 0",
                data.name
            )));
        }
        let cells = self.cells(part);
        if cells.is_empty() {
            let known: Vec<&str> = self.data.iter().map(|data| data.name.as_str()).collect();
            let protocols: Vec<&str> = self.protocols.keys().map(String::as_str).collect();
            return Err(Failure::Input(format!(
                "--sets (of {}) and --protocols (of {}) must select at least one row, but no row of '{}' matches",
                known.join(", "),
                protocols.join(", "),
                self.title
            )));
        }
        for cell in cells {
            for variant in &cell.variants {
                parse_options(&cell.options(variant, 0), "DATA")?;
            }
        }
        Ok(())
    }

    /// All lines of a part, grouped by data set.
    pub fn cells(&self, part: &Part) -> Vec<Cell<'_>> {
        let mut cells = Vec::new();
        for data in self.data.iter().filter(|data| Part::has(&part.sets, &data.name)) {
            for (protocol, common) in
                self.protocols.iter().filter(|(name, _)| Part::has(&part.protocols, name))
            {
                let rows = self.row.iter().filter(|row| row.protocols.contains(protocol));
                let of_rows = rows.map(|row| self.cell(data, (protocol, common), row, part.quick));
                // A protocol without seeds does not apply to this data set.
                cells.extend(of_rows.filter(|cell| !cell.seeds.is_empty()));
            }
        }
        cells
    }

    fn cell<'a>(
        &'a self,
        data: &'a Data,
        (protocol, common): (&'a String, &'a String),
        row: &'a Row,
        quick: bool,
    ) -> Cell<'a> {
        let seeds = data.seeds.get(protocol).or_else(|| self.seeds.get(protocol));
        let seeds = seeds.map_or(&[][..], Vec::as_slice);
        let seeds = if quick && !seeds.is_empty() { &self.quick.seeds } else { seeds };
        let tuning = data.tuning_seeds.map_or(seeds.len(), |count| count.min(seeds.len()));
        let mut epochs = row.epochs.get(&data.name).or_else(|| data.epochs.get(protocol)).copied();
        let mut variants: Vec<&str> = row.grid.iter().map(String::as_str).collect();
        if variants.is_empty() {
            variants.push("");
        }
        if quick {
            epochs = Some(epochs.unwrap_or(usize::MAX).min(self.quick.epochs));
            variants.truncate(1);
        }
        let epochs = epochs.map_or_else(String::new, |epochs| format!("--epochs {epochs}"));
        let options = vec![data.options_for(protocol), common.clone(), row.options.clone(), epochs];
        Cell {
            data,
            protocol,
            row,
            seeds,
            variants,
            tuning_seeds: &seeds[..tuning],
            options,
            varies: &self.varies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{TABLES, parse};

    #[test]
    fn the_shipped_tables_are_sound_and_their_options_are_options() {
        for (name, text) in TABLES {
            let experiment: Experiment = parse(text, name).unwrap();
            experiment.check(&Part::default()).unwrap();
            experiment.check(&Part { quick: true, ..Part::default() }).unwrap();
            for row in &experiment.row {
                assert!(
                    row.protocols.iter().all(|name| experiment.protocols.contains_key(name)),
                    "{}",
                    row.name
                );
                for set in row.published.keys().chain(row.epochs.keys()) {
                    assert!(experiment.data.iter().any(|data| data.name == *set), "{}: {set}", row.name);
                }
            }
        }
    }

    #[test]
    fn every_model_may_choose_from_as_many_options() {
        let experiment: Experiment = parse(TABLES[1].1, "table1").unwrap();
        let tuned = Part { protocols: vec!["tuned".into()], ..Part::default() };
        for cell in experiment.cells(&tuned) {
            let budget = if cell.row.name == "mix, default" { 1 } else { 6 };
            assert_eq!(cell.variants.len(), budget, "{}", cell.row.name);
        }
    }

    #[test]
    fn a_part_is_a_part() {
        let experiment: Experiment = parse(TABLES[1].1, "table1").unwrap();
        let nowhere = Part { sets: vec!["mnist".into()], protocols: vec!["another".into()], quick: true };
        assert!(experiment.cells(&nowhere).is_empty());
        let part = Part { sets: vec!["mnist".into()], protocols: vec!["paper".into()], quick: true };
        let cells = experiment.cells(&part);
        for cell in &cells {
            let options = cell.options("", 0);
            assert!(cell.data.name == "mnist" && options.contains("--epochs 3"), "{options}");
            assert!(options.contains("--row-length 1 ") && cell.data.differs("paper").contains("length 1."));
        }
        assert_eq!(
            cells.len(),
            experiment.row.iter().filter(|row| row.protocols.contains(&"paper".into())).count()
        );
    }
}
