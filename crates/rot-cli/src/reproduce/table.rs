//! Tables of ours beside the published.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use comfy_table::{CellAlignment, Table};
use serde_json::Value;

use super::experiment::{Experiment, Figures, Row, Run};
use crate::failure::Failure;
use crate::output::TABLE_STYLE;

/// Over seeds.
#[derive(Debug, Clone, Copy)]
struct Spread {
    mean: f64,
    deviation: f64,
    count: usize,
}

/// One line of a table.
#[derive(Debug, Clone)]
struct Line {
    name: String,
    auc: Spread,
    map: Spread,
    cost: Option<Spread>,
    seconds: f64,
    epochs: Spread,
    published: Option<Figures>,
    expected: Option<f64>,
}

const HEADER: [&str; 10] = [
    "loss",
    "AUC",
    "expected",
    "within",
    "published",
    "mAP",
    "published",
    "semantic cost",
    "s an epoch",
    "epochs",
];

/// Prints the tables of all data and protocols, and writes them as Markdown.
pub fn show(
    name: &str,
    experiment: &Experiment,
    results: &[(&Run, &Value)],
    folder: &Path,
) -> Result<(), Failure> {
    let mut text = format!("# {}\n", experiment.title);
    let mut out = io::stdout().lock();
    for data in &experiment.data {
        for protocol in experiment.protocols.keys() {
            let here: Vec<_> = results
                .iter()
                .filter(|(run, _)| run.data == data.name && run.protocol == *protocol)
                .collect();
            let line = |row: &Row| {
                let of_row: Vec<_> = here.iter().filter(|(run, _)| run.row == row.name).copied().collect();
                summarise(row, &of_row, &data.name, protocol)
            };
            let lines: Vec<Line> = experiment.row.iter().filter_map(line).collect();
            if lines.is_empty() {
                continue;
            }
            let title = format!("{}, protocol {protocol}", data.name);
            let cells: Vec<Vec<String>> = lines.iter().map(|line| line.cells(experiment.band)).collect();
            writeln!(out, "\n{title}: {}\n{}", data.differs, terminal_table(&cells))?;
            let _ = writeln!(text, "\n## {title}\n\n{}\n\n{}", data.differs, markdown(&cells));
        }
    }
    let path = folder.join(format!("{name}.md"));
    fs::write(&path, text).map_err(|error| Failure::Other(format!("{}: {error}", path.display())))?;
    writeln!(
        out,
        "\nresults: {}\ntables: {}",
        folder.join(format!("{name}.jsonl")).display(),
        path.display()
    )?;
    Ok(())
}

/// The variant with the best mean validation AUC, over its seeds.
fn summarise(row: &Row, results: &[&(&Run, &Value)], data: &str, protocol: &str) -> Option<Line> {
    let variants = if row.grid.is_empty() { vec![String::new()] } else { row.grid.clone() };
    let of = |variant: &String| -> Vec<&Value> {
        results.iter().filter(|(run, _)| run.variant == *variant).map(|(_, value)| *value).collect()
    };
    let chosen = variants.iter().filter(|variant| !of(variant).is_empty()).max_by(|x, y| {
        let score = |variant: &String| {
            spread(&of(variant), "validation_auc").map_or(f64::NEG_INFINITY, |auc| auc.mean)
        };
        score(x).total_cmp(&score(y))
    })?;
    let values = of(chosen);
    let test = |key: &str| -> Option<Spread> {
        let numbers: Vec<f64> = values.iter().filter_map(|value| value["test"][key].as_f64()).collect();
        Spread::of(&numbers)
    };
    Some(Line {
        name: if chosen.is_empty() { row.name.clone() } else { format!("{} ({chosen})", row.name) },
        auc: test("auc")?,
        map: test("map")?,
        cost: test("semantic_cost"),
        seconds: spread(&values, "seconds_per_epoch")?.mean,
        epochs: spread(&values, "epochs")?,
        published: row.published.get(data).copied(),
        expected: row.expected.get(protocol).and_then(|by_data| by_data.get(data)).copied(),
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
        let within = |expected: f64| if (self.auc.mean - expected).abs() <= band { "yes" } else { "no" };
        let published = self.published.map(|figures| match figures.sd {
            Some(sd) => format!("{:.3} ± {sd:.3}", figures.auc),
            None => format!("{:.3}", figures.auc),
        });
        vec![
            self.name.clone(),
            self.auc.shown(4),
            optional(self.expected.map(|expected| format!("{expected:.2} ± {band}"))),
            optional(self.expected.map(|expected| within(expected).to_owned())),
            optional(published),
            self.map.shown(4),
            optional(self.published.and_then(|figures| figures.map).map(|map| format!("{map:.4}"))),
            optional(self.cost.map(|cost| cost.shown(4))),
            format!("{:.4}", self.seconds),
            format!("{:.0}", self.epochs.mean),
        ]
    }
}

fn terminal_table(cells: &[Vec<String>]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    table.set_header(HEADER);
    cells.iter().for_each(|line| {
        table.add_row(line);
    });
    (1..HEADER.len()).for_each(|column| {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    });
    table
}

fn markdown(cells: &[Vec<String>]) -> String {
    let line = |fields: &[String]| format!("| {} |", fields.join(" | "));
    let header: Vec<String> = HEADER.iter().map(|&name| name.to_owned()).collect();
    let rule: Vec<String> = HEADER.iter().map(|_| "---".to_owned()).collect();
    [line(&header), line(&rule)]
        .into_iter()
        .chain(cells.iter().map(|cells| line(cells)))
        .collect::<Vec<_>>()
        .join("\n")
}
