//! `rot pairwise`: all distances among many measures, or from some to others.

use std::io::{self, IsTerminal, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use ndarray::Array2;
use robust_ot::device::{Corpus, solve_pairs_on};
use robust_ot::solve::{PairDistance, PairSettings, Storage, solve_pairs};
use robust_ot::{Measure, Settings, Status};
use robust_ot_cuda::{Device, Pairs, Work};
use robust_ot_learn::Memory;
use robust_ot_learn::data::Matching;
use serde_json::{Map, Value, json};

use crate::device::{DeviceOptions, device_name};
use crate::failure::Failure;
use crate::input::{Input, Inputs, read_all};
use crate::metric_options::{Metric, MetricOptions};
use crate::options::{SolverOptions, TextOptions};
use crate::output::{TABLE_STYLE, check_distinct, check_writable, readable, write_matrix};
use crate::picture::{Heatmap, save};
use crate::point_options::PointOptions;
use crate::ray::{FromRay, solve_on_ray};
use crate::signal::interrupt;

/// The largest matrix size that is printed.
const PRINTED: usize = 12;

/// All distances among many measures, or from some to others; the matrix does not depend on the number of threads.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rot pairwise *.csv --heatmap distances.svg
  rot pairwise monday.csv tuesday.csv --against references/*.csv
  rot pairwise scripts/*.tsv --embeddings words.vec --groups 10 --out distances.csv")]
pub struct Pairwise {
    /// Points (.npy, .csv, .tsv, .parquet, or - for a table on standard input; one per row) or, with --embeddings, lines of word, tab, count
    #[arg(required = true, num_args = 1.., value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Compare FILES with these instead of with each other: a row of the matrix per FILE, a column per file given here
    #[arg(long, num_args = 1.., value_name = "FILES", conflicts_with = "ray", help_heading = "Input")]
    against: Vec<PathBuf>,
    #[command(flatten)]
    text: TextOptions,
    #[command(flatten)]
    points: PointOptions,
    #[command(flatten)]
    metric: MetricOptions,
    #[command(flatten)]
    solver: SolverOptions,
    #[command(flatten)]
    device: DeviceOptions,
    /// Solve the pairs on the Ray cluster at this address (host:port, auto or local), through the Python package
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["device", "threads"], help_heading = "Device")]
    ray: Option<String>,
    /// Write the matrix: .csv or .tsv with labels, or .npy
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Draw the matrix: .svg or .png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    heatmap: Option<PathBuf>,
    /// Print only one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The matrix of all distances, with its bounds.
struct Distances {
    labels: Vec<String>,
    /// The labels of the columns, if they are other measures than the rows.
    against: Option<Vec<String>>,
    matrix: Array2<f64>,
    lower_bounds: Array2<f64>,
    /// h(0), the value between equal clouds.
    offset: f64,
    /// The largest relative gap of all pairs.
    relative_gap: f64,
    /// The number of pairs that did not converge.
    unfinished: usize,
    /// The number of pairs whose costs did not fit into the memory per pair.
    not_stored: usize,
    /// Bytes per pair.
    memory: usize,
    seconds: f64,
}

impl Pairwise {
    /// Reads the inputs, solves all pairs, writes the files and prints the matrix.
    pub fn run(&self) -> Result<(), Failure> {
        let mut settings = self.solver.apply()?;
        // Pairs are solved in parallel and share the memory. Up to the number of cores, the share does not depend on
        // --threads, so that the choice between storing and streaming does not either.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        settings.memory /= cores.max(rayon::current_num_threads());
        let metric = self.solver.reading(|| self.metric.read())?;
        if self.against.is_empty() && self.files.len() < 2 {
            return Err(Failure::Input(format!(
                "the number of FILES must be at least 2, but is {}",
                self.files.len()
            )));
        }
        self.out.as_deref().map_or(Ok(()), |path| check_writable("--out", path, &["csv", "tsv", "npy"]))?;
        self.heatmap.as_deref().map_or(Ok(()), |path| check_writable("--heatmap", path, &["svg", "png"]))?;
        let files = [&self.files[..], &self.against].concat();
        let mut inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        inputs.extend(self.text.embeddings.as_deref());
        inputs.extend(self.metric.inputs());
        check_distinct(&inputs, &[("--out", self.out.as_deref()), ("--heatmap", self.heatmap.as_deref())])?;
        let weights = vec![None; files.len()];
        let embeddings = self.text.embeddings.as_deref();
        let Inputs { sides: inputs, columns } =
            self.solver.reading(|| read_all(&files, embeddings, &self.points, &weights))?;
        self.solver.check_groups(metric.grouping(inputs[0].measure.dim())?.groups())?;
        let points = |of: &[Input]| of.iter().map(|input| input.measure.len()).sum::<usize>() as f64;
        let pairs = match inputs.split_at(self.files.len()) {
            (files, []) => 0.5 * points(files) * points(files),
            (files, against) => points(files) * points(against),
        };
        let work = Work::of_pairs(pairs, inputs[0].measure.dim());
        let device = match self.ray {
            None => self.device.open_for_plans(work, metric.entropy())?,
            Some(_) => None,
        };
        let distances = match &device {
            _ if self.ray.is_some() => self.solve_on_ray(&inputs, &metric, &settings)?,
            device => solve_all(device.as_ref(), &inputs, self.files.len(), &metric, &settings)?,
        };
        // Files first: the reader of standard output may close it early.
        if let Some(path) = &self.out {
            let labels = (&distances.labels[..], distances.columns());
            write_matrix(path, &distances.matrix, Some(labels))?;
        }
        if let Some(path) = &self.heatmap {
            let title = format!("Distances, {}", metric.set());
            let (matrix, rows, columns) = (&distances.matrix, &distances.labels, distances.columns());
            let plain_diagonal = distances.against.is_none();
            save(&Heatmap { matrix, rows, columns, title: &title, plain_diagonal }, path)?;
        }
        if self.json {
            self.print_json(&distances, columns, &metric, device.as_ref())?;
        } else {
            distances.print(device.as_ref())?;
        }
        if distances.unfinished > 0 {
            say!(
                "rot: warning: {} pairs did not converge; the largest relative gap is {:.1e}",
                distances.unfinished,
                distances.relative_gap
            );
        }
        Ok(())
    }

    fn solve_on_ray(
        &self,
        inputs: &[Input],
        metric: &Metric,
        settings: &Settings,
    ) -> Result<Distances, Failure> {
        let start = Instant::now();
        let grouping = metric.grouping(inputs[0].measure.dim())?;
        let address = self.ray.as_deref().unwrap_or_default();
        let FromRay { matrix, lower_bounds, relative_gap, unfinished } =
            solve_on_ray(address, inputs, metric, (&grouping, settings), &interrupt())?;
        Ok(Distances {
            labels: labels(inputs),
            against: None,
            matrix,
            lower_bounds,
            offset: metric.set().offset(grouping.groups())?,
            relative_gap,
            unfinished,
            not_stored: 0,
            memory: settings.memory,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn print_json(
        &self,
        distances: &Distances,
        columns: Option<Matching>,
        metric: &Metric,
        device: Option<&Device>,
    ) -> Result<(), Failure> {
        let rows =
            |matrix: &Array2<f64>| matrix.rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>();
        let mut object = Map::new();
        object.insert("labels".into(), json!(distances.labels));
        if let Some(against) = &distances.against {
            object.insert("against".into(), json!(against));
        }
        object.insert("matrix".into(), json!(rows(&distances.matrix)));
        object.insert("lower_bounds".into(), json!(rows(&distances.lower_bounds)));
        object.insert("offset".into(), json!(distances.offset));
        let closest: Vec<_> = distances.closest().map(|(_, j)| &distances.columns()[j]).collect();
        object.insert("closest".into(), json!(closest));
        object.insert("relative_gap".into(), json!(distances.relative_gap));
        object.insert("unfinished".into(), json!(distances.unfinished));
        object.insert("not_stored".into(), json!(distances.not_stored));
        object.insert("memory_per_pair".into(), json!(distances.memory));
        object.insert("seconds".into(), json!(distances.seconds));
        if let Some(columns) = columns {
            object.insert("columns_matched_by".into(), json!(columns.name()));
            object.insert("scale".into(), json!(self.points.scale.name()));
        }
        let place = self.ray.as_ref().map(|address| format!("ray {address}"));
        object.insert("device".into(), json!(place.unwrap_or_else(|| device_name(device))));
        metric.describe(&mut object);
        self.solver.describe(&mut object);
        writeln!(io::stdout().lock(), "{}", Value::Object(object))?;
        Ok(())
    }
}

/// Solves every unordered pair of the files, including each with itself, since some sets do not give zero there; or every pair
/// of a file with one of those after the first `files`.
fn solve_all(
    device: Option<&Device>,
    inputs: &[Input],
    files: usize,
    metric: &Metric,
    settings: &Settings,
) -> Result<Distances, Failure> {
    let interrupt = &interrupt();
    let grouping = metric.grouping(inputs[0].measure.dim())?;
    let pairs = all_pairs(files, inputs.len());
    let progress = progress_bar(pairs.len(), "pairs");
    let start = Instant::now();
    let measures: Vec<&Measure> = inputs.iter().map(|input| &input.measure).collect();
    let (set, entropy) = (metric.set(), metric.entropy());
    let wanted = PairSettings { measures: &measures, grouping: &grouping, set, entropy, settings };
    let done = |more: usize| progress.inc(more as u64);
    let solved = match device {
        None => solve_pairs(&pairs, wanted, interrupt, &done),
        Some(device) => {
            let corpus = Corpus::new(&measures, &grouping)?;
            solve_pairs_on(&mut Pairs::new(device, &corpus)?, &corpus, &pairs, wanted, interrupt, &done)?
        }
    };
    progress.finish_and_clear();
    let mut found = Vec::with_capacity(pairs.len());
    // In the order of the pairs, so that the first failure does not depend on the threads.
    for (&(i, j), solved) in pairs.iter().zip(solved) {
        let place = || format!("{} and {}", inputs[i].path.display(), inputs[j].path.display());
        found.push(solved.map_err(|error| Failure::about(&place(), &error))?);
    }
    let on_cpu = found.iter().filter(|pair| pair.on_cpu).count();
    if device.is_some() && on_cpu > 0 {
        say!(
            "rot: note: {on_cpu} pairs took the GPU too long, or needed more digits than it has, and were solved on the CPU"
        );
    }
    let offset = set.offset(grouping.groups())?;
    Distances::new(inputs, files, (&pairs, &found), (offset, settings.memory), start)
}

/// Every unordered pair of the files, including a file with itself, or every pair of a file and one of the others.
fn all_pairs(files: usize, all: usize) -> Vec<(usize, usize)> {
    let others = |i| if all == files { i..all } else { files..all };
    (0..files).flat_map(|i| others(i).map(move |j| (i, j))).collect()
}

impl Distances {
    /// The matrix of all pairs, unless some were interrupted.
    fn new(
        inputs: &[Input],
        files: usize,
        (pairs, solved): (&[(usize, usize)], &[PairDistance]),
        (offset, memory): (f64, usize),
        start: Instant,
    ) -> Result<Self, Failure> {
        let done = solved.iter().filter(|pair| pair.status != Status::Interrupted).count();
        if done < pairs.len() {
            return Err(Failure::Interrupted(format!(
                "interrupted with {done} of {} pairs done",
                pairs.len()
            )));
        }
        let others = inputs.len() - files;
        let shape = if others == 0 { (files, files) } else { (files, others) };
        let (mut matrix, mut lower_bounds) = (Array2::zeros(shape), Array2::zeros(shape));
        for (&(i, j), &PairDistance { value, lower_bound, .. }) in pairs.iter().zip(solved) {
            if others > 0 {
                (matrix[[i, j - files]], lower_bounds[[i, j - files]]) = (value, lower_bound);
                continue;
            }
            (matrix[[i, j]], matrix[[j, i]]) = (value, value);
            (lower_bounds[[i, j]], lower_bounds[[j, i]]) = (lower_bound, lower_bound);
        }
        let mut labels = labels(inputs);
        let against = labels.split_off(files);
        Ok(Self {
            labels,
            against: (others > 0).then_some(against),
            matrix,
            lower_bounds,
            offset,
            relative_gap: solved.iter().fold(0.0, |top, pair| f64::max(top, pair.relative_gap)),
            unfinished: solved.iter().filter(|pair| pair.status != Status::Converged).count(),
            not_stored: solved.iter().filter(|pair| pair.storage != Storage::Stored).count(),
            memory,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// The labels of the columns.
    fn columns(&self) -> &[String] {
        self.against.as_ref().unwrap_or(&self.labels)
    }

    /// The nearest other measure of each measure.
    fn closest(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.labels.len()).filter_map(|i| {
            let others = (0..self.columns().len()).filter(|&j| self.against.is_some() || j != i);
            let nearest = others.min_by(|&x, &y| self.matrix[[i, x]].total_cmp(&self.matrix[[i, y]]))?;
            Some((i, nearest))
        })
    }

    fn print(&self, device: Option<&Device>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let (n, across) = self.matrix.dim();
        if n.max(across) <= PRINTED {
            let mut table = Table::new();
            table.load_style(TABLE_STYLE);
            table.set_header(std::iter::once("").chain(self.columns().iter().map(String::as_str)));
            for (label, row) in self.labels.iter().zip(self.matrix.rows()) {
                table.add_row(std::iter::once(label.clone()).chain(row.iter().map(|x| format!("{x:.4}"))));
            }
            table
                .column_iter_mut()
                .skip(1)
                .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
            writeln!(out, "{table}\n")?;
        }
        let width = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        writeln!(out, "nearest neighbor")?;
        for (i, j) in self.closest() {
            writeln!(
                out,
                "  {:width$}  {:width$}  {:.4}",
                self.labels[i],
                self.columns()[j],
                self.matrix[[i, j]]
            )?;
        }
        let pairs = if self.against.is_none() { n * (n + 1) / 2 } else { n * across };
        let (gap, seconds) = (self.relative_gap, self.seconds);
        if self.offset != 0.0 {
            writeln!(out, "\nEqual clouds have the value h(0) = {}", readable(self.offset))?;
        }
        if self.not_stored > 0 {
            let (count, memory) = (self.not_stored, Memory(self.memory));
            writeln!(
                out,
                "\n{count} of {pairs} pairs were streamed: their costs do not fit into {memory} each"
            )?;
        }
        let place = device.map_or(String::new(), |device| format!(", {device}"));
        writeln!(out, "\n{pairs} distances, relative gaps up to {gap:.1e}, {seconds:.3} s{place}")?;
        Ok(())
    }
}

/// File names without folder and extension, or the paths as given where those are ambiguous.
pub fn labels(inputs: &[Input]) -> Vec<String> {
    let short: Vec<_> = inputs.iter().map(Input::label).collect();
    let unique = |label: &String| short.iter().filter(|other| *other == label).count() == 1;
    let name = |(input, label): (&Input, &String)| {
        if unique(label) { label.clone() } else { input.path.display().to_string() }
    };
    inputs.iter().zip(&short).map(name).collect()
}

/// A bar on a terminal for so many steps.
pub fn progress_bar(steps: usize, what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(&format!(
        "{{bar:30}} {{pos}}/{{len}} {what}, {{per_sec}}, {{eta}} left"
    ));
    ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
