//! Distances among texts, compared with the published ones; each column is divided by its maximum.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use comfy_table::Table;
use ndarray::Array2;
use robust_ot::solve::{Interrupt, SolveOptions};
use robust_ot::{Solution, Status};
use robust_ot_learn::data::write_atomic;
use serde::Deserialize;
use serde_json::json;

use super::Progress;
use super::lines::{Lines, Results};
use crate::failure::Failure;
use crate::input::{Input, read_texts};
use crate::machine::machine;
use crate::metric_options::MetricOptions;
use crate::options::SolverOptions;
use crate::output::{TABLE_STYLE, write_failure};
use crate::picture::{Heatmap, save_both};

/// The contents of an experiment file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Movies {
    pub title: String,
    vectors: String,
    pub differs: String,
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
pub struct Method {
    pub name: String,
    /// Options of `rot distance`.
    pub options: String,
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
    /// Rejects published tables without one row and one column per film.
    pub fn check(&self) -> Result<(), Failure> {
        let n = self.films.len();
        let whole = |table: &Vec<Vec<f64>>| table.len() == n && table.iter().all(|row| row.len() == n);
        match self.method.iter().find(|method| !whole(&method.published)) {
            None => Ok(()),
            Some(Method { name, .. }) => Err(Failure::Input(format!(
                "the published table of {name} must be {n} × {n}, one row and column per film, but is not"
            ))),
        }
    }

    /// Solves the pairs that have no result yet, then writes and prints the tables.
    pub fn run(&self, name: &str, data: &Path, out: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        let place = |text: &str| PathBuf::from(text.replace("{data}", &data.display().to_string()));
        let files: Vec<PathBuf> = self.films.iter().map(|film| place(&film.file)).collect();
        let inputs = read_texts(&files, &place(&self.vectors))?;
        let mut lines = Lines::open(&out.join(format!("{name}.jsonl")))?;
        let n = self.films.len();
        let progress = Progress::new(name, self.method.len() * n * (n - 1) / 2);
        for method in &self.method {
            for i in 0..n {
                for j in i + 1..n {
                    progress
                        .say(&format!("{}: {} and {}", method.name, self.films[i].name, self.films[j].name));
                    method.pair((&inputs[i], &inputs[j]), &mut lines, interrupt)?;
                    progress.step();
                }
            }
        }
        progress.end();
        let mut text = format!("# {}\n\n{}\n", self.title, self.differs);
        let mut printed = io::stdout().lock();
        for found in self.tables(&lines.results) {
            let (name_of, facts) = (&found.method.name, found.facts());
            writeln!(printed, "\n{name_of}\n{}\n{facts}", found.terminal_table())?;
            let _ = writeln!(text, "\n## {name_of}\n\n{}\n\n{facts}", found.markdown());
            save_both(&found.heatmap(), out, &format!("{name}-{}", found.file_name()))?;
        }
        let path = out.join(format!("{name}.md"));
        write_atomic(&path, |file| file.write_all(text.as_bytes())).map_err(write_failure)?;
        writeln!(printed, "\ntables: {}", path.display())?;
        Ok(())
    }

    /// The tables of the methods whose pairs are all solved.
    pub fn tables(&self, results: &Results) -> Vec<FilmTable<'_>> {
        let names: Vec<String> = self.films.iter().map(|film| film.name.clone()).collect();
        let table = |method| -> Option<FilmTable> {
            let n = names.len();
            let mut found = Array2::zeros((n, n));
            let (mut gap, mut seconds) = (0.0_f64, 0.0);
            for i in 0..n {
                for j in i + 1..n {
                    let pair = results.get(&key(method, &self.films[i].label(), &self.films[j].label()))?;
                    let number = |key: &str| pair[key].as_f64().unwrap_or(f64::NAN);
                    (found[[i, j]], found[[j, i]]) = (number("distance"), number("distance"));
                    gap = gap.max(number("relative_gap"));
                    seconds += number("seconds");
                }
            }
            let (ours, title) = (by_largest_of_column(&found), format!("Distances, {}", method.name));
            Some(FilmTable { method, names: names.clone(), ours, gap, seconds, title })
        };
        self.method.iter().filter_map(table).collect()
    }
}

impl Film {
    /// The file name without folder and extension.
    fn label(&self) -> String {
        Path::new(&self.file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }
}

fn key(method: &Method, source: &str, target: &str) -> String {
    format!("{source} {target} {}", method.options)
}

/// The distances of one method.
pub struct FilmTable<'a> {
    pub method: &'a Method,
    names: Vec<String>,
    /// Each column divided by its maximum.
    ours: Array2<f64>,
    /// The largest relative gap.
    gap: f64,
    seconds: f64,
    title: String,
}

impl Method {
    fn pair(
        &self,
        (source, target): (&Input, &Input),
        lines: &mut Lines,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let key = key(self, &source.label(), &target.label());
        if lines.results.get(&key).is_some() {
            return Ok(());
        }
        let line = MethodLine::try_parse_from(self.options.split_whitespace())?;
        let (metric, settings) = (line.metric.read()?, line.solver.apply()?);
        let grouping = metric.grouping(source.measure.dim())?;
        let start = Instant::now();
        let problem = metric.problem(&source.measure, &target.measure, &grouping)?;
        let solution: Solution = problem
            .solve_with(&settings, SolveOptions { interrupt: Some(interrupt), ..SolveOptions::default() })?;
        if solution.status == Status::Interrupted {
            return Err(Failure::Interrupted("interrupted; the same command continues from here".into()));
        }
        // The distance excludes the entropy of the plan, which grows with the length of the texts.
        let value = json!({
            "source": source.label(), "target": target.label(), "method": self.name, "options": self.options,
            "distance": solution.unregularized_value, "value": solution.value, "lower_bound": solution.lower_bound,
            "relative_gap": solution.relative_gap, "status": solution.status.to_string(),
            "seconds": start.elapsed().as_secs_f64(), "version": env!("CARGO_PKG_VERSION"), "machine": machine(),
        });
        lines.put(&key, value)
    }
}

impl FilmTable<'_> {
    /// A summary of the table in words.
    pub fn facts(&self) -> String {
        let Self { method, names, ours, gap, seconds, .. } = self;
        let n = names.len();
        let published = Array2::from_shape_fn((n, n), |(i, j)| method.published[i][j]);
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
            method.options
        )
    }

    /// The table as a heatmap.
    pub fn heatmap(&self) -> Heatmap<'_> {
        Heatmap {
            matrix: &self.ours,
            rows: &self.names,
            columns: &self.names,
            title: &self.title,
            plain_diagonal: true,
        }
    }

    /// The file name of the heatmap.
    pub fn file_name(&self) -> String {
        self.method.name.replace([' ', '='], "-")
    }

    /// The column names.
    pub fn header(&self) -> Vec<&str> {
        std::iter::once("ours / published").chain(self.names.iter().map(String::as_str)).collect()
    }

    /// The cells, as our value / published value.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let Self { ours, names, method, .. } = self;
        let row = |i: usize| {
            let cell = |j: usize| {
                if i == j {
                    "0".to_owned()
                } else {
                    format!("{:.3} / {:.3}", ours[[i, j]], method.published[i][j])
                }
            };
            std::iter::once(names[i].clone()).chain((0..names.len()).map(cell)).collect()
        };
        (0..names.len()).map(row).collect()
    }

    fn terminal_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(TABLE_STYLE);
        table.set_header(self.header());
        self.cells().into_iter().for_each(|row| {
            table.add_row(row);
        });
        table
    }

    fn markdown(&self) -> String {
        let header = self.header();
        let mut text = format!("| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
        for row in self.cells() {
            let _ = write!(text, "\n| {} |", row.join(" | "));
        }
        text
    }
}

fn by_largest_of_column(found: &Array2<f64>) -> Array2<f64> {
    let largest: Vec<f64> =
        found.columns().into_iter().map(|column| column.fold(0.0_f64, |top, x| top.max(*x))).collect();
    Array2::from_shape_fn(found.dim(), |(i, j)| found[[i, j]] / largest[j])
}
