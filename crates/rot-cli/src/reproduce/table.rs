//! Tables of our scores next to the published ones.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use comfy_table::{CellAlignment, Table};
use robust_ot_learn::data::write_atomic;
use serde_json::Value;

use super::experiment::{Cell, Data, Experiment, Figures, Part};
use super::lines::Results;
use crate::failure::Failure;
use crate::output::{TABLE_STYLE, write_failure};
use crate::picture::{Dot, Dots, save_both};

/// Mean and standard deviation over seeds.
#[derive(Debug, Clone, Copy)]
struct Spread {
    mean: f64,
    deviation: f64,
    count: usize,
}

/// One line of a table.
#[derive(Debug, Clone)]
pub struct Line {
    name: String,
    /// The options that validation chose.
    variant: String,
    auc: Spread,
    map: Spread,
    cost: Option<Spread>,
    seconds: f64,
    epochs: Spread,
    published: Option<Figures>,
    /// The number of finished runs and of all runs.
    runs: (usize, usize),
}

/// The lines of one data set under one protocol.
pub struct DataTable<'a> {
    pub data: &'a Data,
    pub protocol: &'a str,
    pub lines: Vec<Line>,
    pub seeds: Vec<u64>,
    band: f64,
}

/// Prints the tables of all data and protocols, writes them as Markdown, and draws them.
pub fn show(
    name: &str,
    experiment: &Experiment,
    part: &Part,
    results: &Results,
    folder: &Path,
) -> Result<(), Failure> {
    let mut text = format!("# {}\n", experiment.title);
    let mut out = io::stdout().lock();
    for table in tables(experiment, part, results) {
        let (title, differs) = (table.title(), table.differs());
        let (header, cells) = (table.header(), table.cells());
        writeln!(out, "\n{title}: {differs}\n{}", terminal_table(&header, &cells))?;
        let _ = writeln!(text, "\n## {title}\n\n{differs}\n\n{}", markdown(&header, &cells));
        let picture = format!("{name}-{}-{}", table.data.name, table.protocol);
        save_both(&Dots { title: &format!("AUC, {title}"), dots: &table.dots() }, folder, &picture)?;
    }
    let path = folder.join(format!("{name}.md"));
    write_atomic(&path, |file| file.write_all(text.as_bytes())).map_err(write_failure)?;
    let lines = folder.join(format!("{name}.jsonl"));
    writeln!(out, "\nresults: {}\ntables: {}", lines.display(), path.display())?;
    Ok(())
}

/// The tables that have results.
pub fn tables<'a>(experiment: &'a Experiment, part: &Part, results: &Results) -> Vec<DataTable<'a>> {
    let mut tables: Vec<DataTable> = Vec::new();
    for cell in experiment.cells(part) {
        let Some(line) = summarize(&cell, results) else { continue };
        match tables.last_mut() {
            Some(last) if last.data.name == cell.data.name && last.protocol == cell.protocol => {
                last.lines.push(line);
            }
            _ => tables.push(DataTable {
                data: cell.data,
                protocol: cell.protocol,
                lines: vec![line],
                seeds: cell.seeds.to_vec(),
                band: experiment.band,
            }),
        }
    }
    tables
}

impl DataTable<'_> {
    /// The title: data set and protocol.
    pub fn title(&self) -> String {
        format!("{}, protocol {}", self.data.name, self.protocol)
    }

    /// How the data differ from the paper's.
    pub fn differs(&self) -> String {
        self.data.differs(self.protocol)
    }

    /// The column names.
    pub fn header(&self) -> Vec<String> {
        let within = format!("within {}", self.band);
        let names =
            ["loss", "AUC", "published AUC", "difference", &within, "mAP", "published mAP", "semantic cost"];
        names.into_iter().chain(["s per epoch", "epochs", "seeds"]).map(str::to_owned).collect()
    }

    /// The cells as text.
    pub fn cells(&self) -> Vec<Vec<String>> {
        self.lines.iter().map(|line| line.cells(self.band)).collect()
    }

    /// The AUCs as a dot plot.
    pub fn dots(&self) -> Vec<Dot> {
        let dot = |line: &Line| Dot {
            name: line.name.clone(),
            mean: line.auc.mean,
            deviation: line.auc.deviation,
            published: line.published.map(|figures| figures.auc),
        };
        self.lines.iter().map(dot).collect()
    }
}

/// The results of a variant for those seeds that are finished.
fn values<'a>(cell: &Cell, variant: &str, seeds: &[u64], results: &'a Results) -> Vec<&'a Value> {
    seeds.iter().filter_map(|&seed| results.get(&cell.options(variant, seed))).collect()
}

/// The variant with the best mean validation AUC over the tuning seeds.
pub fn chosen<'a>(cell: &Cell<'a>, results: &Results) -> Option<&'a str> {
    let score = |variant: &str| {
        let found = values(cell, variant, cell.tuning_seeds, results);
        spread(&found, "validation_auc").map_or(f64::NEG_INFINITY, |auc| auc.mean)
    };
    let tried = cell.variants.iter().copied();
    let tried = tried.filter(|variant| !values(cell, variant, cell.seeds, results).is_empty());
    // Ties go to the first variant.
    tried.rev().max_by(|x, y| score(x).total_cmp(&score(y)))
}

/// The number of finished runs of the grid and of the chosen variant.
fn runs_there(cell: &Cell, chosen: &str, results: &Results) -> usize {
    let rest = &cell.seeds[cell.tuning_seeds.len()..];
    let tuned = cell.variants.iter().map(|variant| values(cell, variant, cell.tuning_seeds, results).len());
    tuned.sum::<usize>() + values(cell, chosen, rest, results).len()
}

fn summarize(cell: &Cell, results: &Results) -> Option<Line> {
    let chosen = chosen(cell, results)?;
    let values = values(cell, chosen, cell.seeds, results);
    let test = |key: &str| -> Option<Spread> {
        let numbers: Vec<f64> = values.iter().filter_map(|value| value["test"][key].as_f64()).collect();
        Spread::of(&numbers)
    };
    Some(Line {
        name: cell.row.name.clone(),
        variant: chosen.to_owned(),
        auc: test("auc")?,
        map: test("map")?,
        cost: test("semantic_cost"),
        seconds: spread(&values, "seconds_per_epoch")?.mean,
        epochs: spread(&values, "epochs")?,
        published: cell.row.published.get(&cell.data.name).copied(),
        runs: (runs_there(cell, chosen, results), cell.runs()),
    })
}

fn spread(values: &[&Value], key: &str) -> Option<Spread> {
    let numbers: Vec<f64> = values.iter().filter_map(|value| value[key].as_f64()).collect();
    Spread::of(&numbers)
}

impl Spread {
    fn of(numbers: &[f64]) -> Option<Self> {
        let count = numbers.len();
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        (count > 0).then_some(Self { mean, deviation, count })
    }

    fn shown(self, digits: usize) -> String {
        if self.count > 1 {
            format!("{:.digits$} ± {:.digits$}", self.mean, self.deviation)
        } else {
            format!("{:.digits$}", self.mean)
        }
    }
}

impl Line {
    fn cells(&self, band: f64) -> Vec<String> {
        let optional = |value: Option<String>| value.unwrap_or_default();
        let within =
            |figures: Figures| if (self.auc.mean - figures.auc).abs() <= band { "yes" } else { "no" };
        let published = self.published.map(|figures| match figures.sd {
            Some(sd) => format!("{:.3} ± {sd:.3}", figures.auc),
            None => format!("{:.3}", figures.auc),
        });
        let Self { name, variant, .. } = self;
        vec![
            if variant.is_empty() { name.clone() } else { format!("{name} ({variant})") },
            self.auc.shown(4),
            optional(published),
            optional(self.published.map(|figures| format!("{:+.3}", self.auc.mean - figures.auc))),
            optional(self.published.map(|figures| within(figures).to_owned())),
            self.map.shown(4),
            optional(self.published.and_then(|figures| figures.map).map(|map| format!("{map:.4}"))),
            optional(self.cost.map(|cost| cost.shown(4))),
            format!("{:.4}", self.seconds),
            format!("{:.0}", self.epochs.mean),
            match self.runs {
                (there, all) if there < all => format!("{}, {there} of {all} runs done", self.auc.count),
                _ => self.auc.count.to_string(),
            },
        ]
    }
}

fn terminal_table(header: &[String], cells: &[Vec<String>]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    table.set_header(header);
    cells.iter().for_each(|line| {
        table.add_row(line);
    });
    (1..header.len()).for_each(|column| {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    });
    table
}

fn markdown(header: &[String], cells: &[Vec<String>]) -> String {
    let line = |fields: &[String]| format!("| {} |", fields.join(" | "));
    let rule: Vec<String> = header.iter().map(|_| "---".to_owned()).collect();
    [line(header), line(&rule)]
        .into_iter()
        .chain(cells.iter().map(|cells| line(cells)))
        .collect::<Vec<_>>()
        .join("\n")
}
