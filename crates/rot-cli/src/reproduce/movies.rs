//! Distances among texts: ours beside the published, each column divided by its maximum.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use comfy_table::Table;
use ndarray::Array2;
use robust_ot::{Interrupt, Solution, Status, Workspace};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Progress;
use super::lines::Lines;
use crate::failure::Failure;
use crate::heatmap::draw_heatmap;
use crate::input::{Input, read_texts};
use crate::metric_options::MetricOptions;
use crate::options::SolverOptions;
use crate::output::TABLE_STYLE;

/// What the file says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Movies {
    title: String,
    vectors: String,
    differs: String,
    films: Vec<Film>,
    method: Vec<Method>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Film {
    name: String,
    file: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Method {
    name: String,
    /// Of `rot distance`.
    options: String,
    published: Vec<Vec<f64>>,
}

/// The options of a method.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct MethodLine {
    #[command(flatten)]
    metric: MetricOptions,
    #[command(flatten)]
    solver: SolverOptions,
}

impl Movies {
    /// Solves the pairs that are not there yet, then writes and prints the tables.
    pub fn run(&self, name: &str, data: &Path, out: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        let place = |text: &str| PathBuf::from(text.replace("{data}", &data.display().to_string()));
        let files: Vec<PathBuf> = self.films.iter().map(|film| place(&film.file)).collect();
        let inputs = read_texts(&files, &place(&self.vectors))?;
        let mut lines = Lines::open(&out.join(format!("{name}.jsonl")))?;
        let n = self.films.len();
        let progress = Progress::new(name, self.method.len() * n * (n - 1) / 2);
        let mut text = format!("# {}\n\n{}\n", self.title, self.differs);
        let mut printed = io::stdout().lock();
        for method in &self.method {
            let mut found = Array2::zeros((n, n));
            let (mut gap, mut seconds) = (0.0_f64, 0.0);
            for i in 0..n {
                for j in i + 1..n {
                    progress
                        .say(&format!("{}: {} and {}", method.name, self.films[i].name, self.films[j].name));
                    let value = method.pair((&inputs[i], &inputs[j]), &mut lines, interrupt)?;
                    (found[[i, j]], found[[j, i]]) = (number(&value, "distance"), number(&value, "distance"));
                    gap = gap.max(number(&value, "relative_gap"));
                    seconds += number(&value, "seconds");
                    progress.step();
                }
            }
            let ours = by_largest_of_column(&found);
            let names: Vec<String> = self.films.iter().map(|film| film.name.clone()).collect();
            let facts = method.facts(&ours, &names, gap, seconds);
            writeln!(printed, "\n{}\n{}\n{facts}", method.name, table(&ours, &method.published, &names))?;
            let _ = writeln!(
                text,
                "\n## {}\n\n{}\n\n{facts}",
                method.name,
                markdown(&ours, &method.published, &names)
            );
            for ending in ["svg", "png"] {
                let file = format!("{name}-{}.{ending}", method.name.replace([' ', '='], "-"));
                draw_heatmap(&out.join(file), &ours, &names, &method.name)?;
            }
        }
        progress.end();
        let path = out.join(format!("{name}.md"));
        fs::write(&path, text).map_err(|error| Failure::Other(format!("{}: {error}", path.display())))?;
        writeln!(printed, "\ntables: {}", path.display())?;
        Ok(())
    }
}

impl Method {
    fn pair(
        &self,
        (source, target): (&Input, &Input),
        lines: &mut Lines,
        interrupt: &Interrupt,
    ) -> Result<Value, Failure> {
        let key = format!("{} {} {}", source.label(), target.label(), self.options);
        if let Some(found) = lines.get(&key) {
            return Ok(found.clone());
        }
        let line = MethodLine::try_parse_from(self.options.split_whitespace())?;
        let (metric, settings) = (line.metric.read()?, line.solver.apply()?);
        let grouping = metric.grouping(source.measure.dim())?;
        let start = Instant::now();
        let problem = metric.problem(&source.measure, &target.measure, &grouping)?;
        let solution: Solution = problem.solve_in(&mut Workspace::default(), &settings, interrupt)?;
        if solution.status == Status::Interrupted {
            return Err(Failure::Interrupted("interrupted; the same command goes on from here".into()));
        }
        // Without the entropy of the plan, which grows with the length of the texts and is no part of their distance.
        let value = json!({
            "source": source.label(), "target": target.label(), "method": self.name, "options": self.options,
            "distance": solution.unregularised_value, "value": solution.value, "lower_bound": solution.lower_bound,
            "relative_gap": solution.relative_gap, "status": solution.status.to_string(),
            "seconds": start.elapsed().as_secs_f64(), "version": env!("CARGO_PKG_VERSION"),
        });
        lines.put(&key, value.clone())?;
        Ok(value)
    }

    /// What the tables say in words.
    fn facts(&self, ours: &Array2<f64>, names: &[String], gap: f64, seconds: f64) -> String {
        let n = names.len();
        let published = Array2::from_shape_fn((n, n), |(i, j)| self.published[i][j]);
        let closest = |table: &Array2<f64>, j: usize| {
            (0..n).filter(|&i| i != j).min_by(|&x, &y| table[[x, j]].total_cmp(&table[[y, j]])).unwrap_or(0)
        };
        let agree = (0..n).filter(|&j| closest(ours, j) == closest(&published, j)).count();
        let pairs = || (0..n).flat_map(move |i| (0..n).filter(move |&j| j != i).map(move |j| (i, j)));
        let apart = pairs().fold(0.0_f64, |top, place| top.max((ours[place] - published[place]).abs()));
        let mean =
            pairs().map(|place| (ours[place] - published[place]).abs()).sum::<f64>() / (n * (n - 1)) as f64;
        let least = |table: &Array2<f64>| pairs().map(|place| table[place]).fold(f64::INFINITY, f64::min);
        let nearest: Vec<String> =
            (0..n).map(|j| format!("{} – {}", names[j], names[closest(ours, j)])).collect();
        format!(
            "Nearest: {}. The nearest film agrees with the paper's for {agree} of {n} columns; entries differ by {mean:.3} on \
             average, {apart:.3} at most. Smallest entry {:.3} (paper {:.3}). Largest certified relative gap {gap:.1e}, {seconds:.1} s \
             in all. Options: `{}`.",
            nearest.join(", "),
            least(ours),
            least(&published),
            self.options
        )
    }
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

fn by_largest_of_column(found: &Array2<f64>) -> Array2<f64> {
    let largest: Vec<f64> =
        found.columns().into_iter().map(|column| column.fold(0.0_f64, |top, x| top.max(*x))).collect();
    Array2::from_shape_fn(found.dim(), |(i, j)| found[[i, j]] / largest[j])
}

/// Ours / published.
fn cells(ours: &Array2<f64>, published: &[Vec<f64>], names: &[String]) -> Vec<Vec<String>> {
    let row = |i: usize| {
        let cell = |j: usize| {
            if i == j { "0".to_owned() } else { format!("{:.3} / {:.3}", ours[[i, j]], published[i][j]) }
        };
        std::iter::once(names[i].clone()).chain((0..names.len()).map(cell)).collect()
    };
    (0..names.len()).map(row).collect()
}

fn table(ours: &Array2<f64>, published: &[Vec<f64>], names: &[String]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    table.set_header(std::iter::once("ours / published".to_owned()).chain(names.iter().cloned()));
    cells(ours, published, names).into_iter().for_each(|row| {
        table.add_row(row);
    });
    table
}

fn markdown(ours: &Array2<f64>, published: &[Vec<f64>], names: &[String]) -> String {
    let mut text =
        format!("| ours / published | {} |\n|{}", names.join(" | "), "---|".repeat(names.len() + 1));
    for row in cells(ours, published, names) {
        let _ = write!(text, "\n| {} |", row.join(" | "));
    }
    text
}
