//! `rot nearest`: the nearest neighbors of some measures among others, without most of the distances.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use robust_ot::solve::{Nearest as Found, NearestSettings, PairSettings, nearest};
use robust_ot::{Measure, Settings, Status};
use robust_ot_learn::data::{Matching, write_table};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::input::{Input, Inputs, read_all};
use crate::metric_options::{Metric, MetricOptions};
use crate::options::{SolverOptions, TextOptions};
use crate::output::{check_distinct, check_writable, readable, write_failure};
use crate::pairwise::{labels, progress_bar};
use crate::point_options::PointOptions;
use crate::signal::interrupt;

/// The nearest point clouds or texts of each one; bounds exclude most of the others without solving them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rot nearest scripts/*.tsv --embeddings words.vec --groups 10 --top 3
  rot nearest monday.csv --against references/*.csv --out neighbors.csv")]
pub struct Nearest {
    /// Queries: points (.npy, .csv, .tsv, .parquet, or - for a table on standard input; one per row) or, with --embeddings, lines of
    /// word, tab, count
    #[arg(required = true, num_args = 1.., value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Where to look for the neighbors [default: among the other FILES]
    #[arg(long, num_args = 1.., value_name = "FILES", help_heading = "Input")]
    against: Vec<PathBuf>,
    /// Number of neighbors per query; all if there are fewer
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        allow_negative_numbers = true,
        help_heading = "Output"
    )]
    top: usize,
    #[command(flatten)]
    text: TextOptions,
    #[command(flatten)]
    points: PointOptions,
    #[command(flatten)]
    metric: MetricOptions,
    #[command(flatten)]
    solver: SolverOptions,
    /// Write the neighbors, one per line: .csv or .tsv
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print only one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The neighbors of all queries.
struct Outcome {
    /// Of the queries first, then of what they are compared with.
    labels: Vec<String>,
    found: Vec<Found>,
    /// The number of distances that a full matrix would have taken.
    pairs: usize,
    /// h(0), the value between equal clouds.
    offset: f64,
    seconds: f64,
}

impl Nearest {
    /// Reads the inputs, searches, writes the file and prints the neighbors.
    pub fn run(&self) -> Result<(), Failure> {
        let mut settings = self.solver.apply()?;
        // As for all pairs, which share the memory.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        settings.memory /= cores.max(rayon::current_num_threads());
        let metric = self.solver.reading(|| self.metric.read())?;
        let rest = if self.against.is_empty() { self.files.len() - 1 } else { self.against.len() };
        if rest == 0 {
            let message = "the number of FILES must be at least 2 without --against, but is 1";
            return Err(Failure::Input(message.into()));
        }
        if self.top == 0 {
            return Err(Failure::Input("--top must be at least 1, but is 0".into()));
        }
        self.out.as_deref().map_or(Ok(()), |path| check_writable("--out", path, &["csv", "tsv"]))?;
        let files = [&self.files[..], &self.against].concat();
        let mut inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        inputs.extend(self.text.embeddings.as_deref());
        inputs.extend(self.metric.inputs());
        check_distinct(&inputs, &[("--out", self.out.as_deref())])?;
        let (weights, embeddings) = (vec![None; files.len()], self.text.embeddings.as_deref());
        let Inputs { sides, columns } =
            self.solver.reading(|| read_all(&files, embeddings, &self.points, &weights))?;
        self.solver.check_groups(metric.grouping(sides[0].measure.dim())?.groups())?;
        let outcome = self.search(&sides, &metric, &settings, self.top.min(rest))?;
        // The file first: the reader of standard output may close it early.
        if let Some(path) = &self.out {
            outcome.write(path)?;
        }
        if self.json {
            self.print_json(&outcome, columns, &metric)?;
        } else {
            outcome.print()?;
        }
        outcome.warn();
        Ok(())
    }

    fn search(
        &self,
        inputs: &[Input],
        metric: &Metric,
        settings: &Settings,
        top: usize,
    ) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let grouping = metric.grouping(inputs[0].measure.dim())?;
        let measures: Vec<&Measure> = inputs.iter().map(|input| &input.measure).collect();
        let (count, set, entropy) = (self.files.len(), metric.set(), metric.entropy());
        let queries: Vec<_> = (0..count).map(|query| (query, f64::INFINITY)).collect();
        let first = if self.against.is_empty() { 0 } else { count };
        let documents: Vec<usize> = (first..inputs.len()).collect();
        let wanted = NearestSettings { queries: &queries, documents: &documents, top };
        let pairs = PairSettings { measures: &measures, grouping: &grouping, set, entropy, settings };
        let (interrupt, progress) = (interrupt(), progress_bar(count, "queries"));
        let found = nearest(wanted, pairs, &interrupt, &|more| progress.inc(more as u64));
        progress.finish_and_clear();
        let found = found.map_err(|error| Failure::about("the inputs", &error))?;
        if interrupt.is_raised() {
            return Err(Failure::Interrupted(
                "interrupted; the neighbors found so far may not be the nearest".into(),
            ));
        }
        let named = |(found, input): (robust_ot::Result<Found>, &Input)| {
            found.map_err(|error| Failure::about(&input.path.display().to_string(), &error))
        };
        let found = found.into_iter().zip(inputs).map(named).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Outcome {
            labels: labels(inputs),
            found,
            pairs: if self.against.is_empty() { count * (count - 1) / 2 } else { count * documents.len() },
            offset: set.offset(grouping.groups())?,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn print_json(
        &self,
        outcome: &Outcome,
        columns: Option<Matching>,
        metric: &Metric,
    ) -> Result<(), Failure> {
        let mut object = Map::new();
        object.insert("queries".into(), outcome.queries().collect());
        object.insert("offset".into(), json!(outcome.offset));
        object.insert("top".into(), json!(self.top));
        object.insert("relative_gap".into(), json!(outcome.relative_gap()));
        object.insert("unfinished".into(), json!(outcome.unfinished()));
        object.insert("solved".into(), json!(outcome.solved()));
        object.insert("pairs".into(), json!(outcome.pairs));
        object.insert("seconds".into(), json!(outcome.seconds));
        if let Some(columns) = columns {
            object.insert("columns_matched_by".into(), json!(columns.name()));
            object.insert("scale".into(), json!(self.points.scale.name()));
        }
        metric.describe(&mut object);
        self.solver.describe(&mut object);
        writeln!(io::stdout().lock(), "{}", Value::Object(object))?;
        Ok(())
    }
}

impl Outcome {
    /// Each query with its neighbors, for JSON.
    fn queries(&self) -> impl Iterator<Item = Value> + '_ {
        self.found.iter().zip(&self.labels).map(|(found, label)| {
            let neighbor = |near: &robust_ot::solve::Neighbor| {
                json!({
                    "label": self.labels[near.measure], "value": near.distance.value,
                    "lower_bound": near.distance.lower_bound, "certain": near.certain,
                })
            };
            json!({ "label": label, "neighbors": found.neighbors.iter().map(neighbor).collect::<Value>() })
        })
    }

    fn distances(&self) -> impl Iterator<Item = &robust_ot::solve::PairDistance> + '_ {
        self.found.iter().flat_map(|found| found.neighbors.iter().map(|near| &near.distance))
    }

    /// The largest relative gap of all neighbors.
    fn relative_gap(&self) -> f64 {
        self.distances().fold(0.0, |top, distance| f64::max(top, distance.relative_gap))
    }

    /// The number of neighbors whose distance did not converge.
    fn unfinished(&self) -> usize {
        self.distances().filter(|distance| distance.status != Status::Converged).count()
    }

    fn solved(&self) -> usize {
        self.found.iter().map(|found| found.solved).sum()
    }

    /// Writes query, rank, neighbor, value, lower bound and certainty per line.
    fn write(&self, path: &Path) -> Result<(), Failure> {
        let header = ["query", "rank", "neighbor", "value", "lower_bound", "certain"].map(str::to_owned);
        let rows = self.found.iter().zip(&self.labels).flat_map(|(found, label)| {
            found.neighbors.iter().enumerate().map(move |(rank, near)| {
                let (value, lower) = (near.distance.value, near.distance.lower_bound);
                let (rank, certain) = ((rank + 1).to_string(), near.certain.to_string());
                let neighbor = self.labels[near.measure].clone();
                vec![label.clone(), rank, neighbor, format!("{value:?}"), format!("{lower:?}"), certain]
            })
        });
        write_table(path, &header, rows).map_err(write_failure)
    }

    fn print(&self) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let width = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let mut uncertain = false;
        for (found, label) in self.found.iter().zip(&self.labels) {
            for (rank, near) in found.neighbors.iter().enumerate() {
                let shown = if rank == 0 { label.as_str() } else { "" };
                let mark = if near.certain { "" } else { "  ?" };
                uncertain |= !near.certain;
                let (other, value) = (&self.labels[near.measure], near.distance.value);
                writeln!(out, "{shown:width$}  {other:width$}  {value:.4}{mark}")?;
            }
        }
        if uncertain {
            writeln!(
                out,
                "\n? may not be among the nearest: the bounds of one left out reach below; a smaller --tol decides"
            )?;
        }
        if self.offset != 0.0 {
            writeln!(out, "\nEqual clouds have the value h(0) = {}", readable(self.offset))?;
        }
        let (solved, pairs, gap, seconds) = (self.solved(), self.pairs, self.relative_gap(), self.seconds);
        writeln!(
            out,
            "\n{solved} distances solved where the full matrix has {pairs}, relative gaps up to {gap:.1e}, {seconds:.3} s"
        )?;
        Ok(())
    }

    fn warn(&self) {
        let unfinished = self.unfinished();
        if unfinished > 0 {
            let gap = self.relative_gap();
            say!(
                "rot: warning: {unfinished} distances did not converge; the largest relative gap is {gap:.1e}"
            );
        }
    }
}
