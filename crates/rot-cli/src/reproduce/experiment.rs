//! An experiment as its file says it: data, rows, protocols, and the figures to stand beside ours.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A table of trained models.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    pub title: String,
    /// How far from an expected AUC ours may be.
    pub band: f64,
    /// The option whose value the seeds are, `seed` if nothing is said.
    #[serde(default = "seed")]
    pub varies: String,
    /// By protocol.
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

/// What models are trained on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    pub name: String,
    /// Of `rot train`, with `{data}` for the folder.
    pub options: String,
    /// What is not as in the paper.
    pub differs: String,
    /// Epochs by protocol, where they are not the protocol's own.
    #[serde(default)]
    pub epochs: BTreeMap<String, usize>,
    /// Seeds by protocol, where they are not the experiment's.
    #[serde(default)]
    pub seeds: BTreeMap<String, Vec<u64>>,
}

/// A model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    /// Of `rot train`.
    pub options: String,
    pub protocols: Vec<String>,
    /// The paper's figures, by data.
    #[serde(default)]
    pub published: BTreeMap<String, Figures>,
    /// The AUC that a correct implementation reaches here, by protocol and data.
    #[serde(default)]
    pub expected: BTreeMap<String, BTreeMap<String, f64>>,
    /// Epochs by data, where a row is too slow for those of the others.
    #[serde(default)]
    pub epochs: BTreeMap<String, usize>,
    /// Options to choose from by validation; each costs a run.
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

/// One model to train.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub data: String,
    pub protocol: String,
    pub row: String,
    /// The options chosen from the grid.
    pub variant: String,
    pub seed: u64,
    /// Of `rot train`, with `{data}` for the folder.
    pub options: String,
}

/// Which part of an experiment is run.
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

impl Experiment {
    /// All runs of a part, data set by data set.
    pub fn runs(&self, part: &Part) -> Vec<Run> {
        let mut runs = Vec::new();
        for data in self.data.iter().filter(|data| Part::has(&part.sets, &data.name)) {
            for (protocol, common) in
                self.protocols.iter().filter(|(name, _)| Part::has(&part.protocols, name))
            {
                let none = Vec::new();
                let seeds = data.seeds.get(protocol).or_else(|| self.seeds.get(protocol)).unwrap_or(&none);
                let seeds = if part.quick { &self.quick.seeds } else { seeds };
                for row in self.row.iter().filter(|row| row.protocols.contains(protocol)) {
                    let epochs = row.epochs.get(&data.name).or_else(|| data.epochs.get(protocol)).copied();
                    let epochs = if part.quick {
                        Some(epochs.unwrap_or(usize::MAX).min(self.quick.epochs))
                    } else {
                        epochs
                    };
                    let epochs = epochs.map_or(String::new(), |epochs| format!("--epochs {epochs}"));
                    let whole = vec![String::new()];
                    let variants = match row.grid.as_slice() {
                        [] => &whole,
                        grid if part.quick => &vec![grid[0].clone()],
                        _ => &row.grid,
                    };
                    for variant in variants {
                        for &seed in seeds {
                            let varied = format!("--{} {seed}", self.varies);
                            let parts = [&data.options, common, &row.options, variant, &epochs, &varied];
                            let options: Vec<&str> =
                                parts.into_iter().flat_map(|part| part.split_whitespace()).collect();
                            runs.push(Run {
                                data: data.name.clone(),
                                protocol: protocol.clone(),
                                row: row.name.clone(),
                                variant: variant.clone(),
                                seed,
                                options: options.join(" "),
                            });
                        }
                    }
                }
            }
        }
        runs
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
            let runs = experiment.runs(&Part::default());
            assert!(!runs.is_empty());
            for run in runs {
                crate::reproduce::training::parse_options(&run.options, "DATA").unwrap();
            }
            for row in &experiment.row {
                assert!(
                    row.protocols.iter().all(|name| experiment.protocols.contains_key(name)),
                    "{}",
                    row.name
                );
                let sets = row.published.keys().chain(row.expected.values().flat_map(BTreeMap::keys));
                for set in sets.chain(row.epochs.keys()) {
                    assert!(experiment.data.iter().any(|data| data.name == *set), "{}: {set}", row.name);
                }
            }
        }
    }

    #[test]
    fn a_part_is_a_part() {
        let experiment: Experiment = parse(TABLES[0].1, "table1").unwrap();
        let part = Part { sets: vec!["mnist".into()], protocols: vec!["paper".into()], quick: true };
        let runs = experiment.runs(&part);
        assert!(runs.iter().all(|run| run.data == "mnist" && run.options.contains("--epochs 5")));
        assert_eq!(
            runs.len(),
            experiment.row.iter().filter(|row| row.protocols.contains(&"paper".into())).count()
        );
    }
}
