//! `rot barycenter`: the measure with the least mean distance to some others.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use ndarray::{Array1, Array2};
use robust_ot::barycenter::{Barycenter as Found, BarycenterSettings, Barycenters};
use robust_ot::solve::Interrupt;
use robust_ot::{Measure, Settings, Status};
use robust_ot_learn::Scale;
use robust_ot_learn::data::{Matching, write_table};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::input::{Input, Inputs, read_all};
use crate::metric_options::{Metric, MetricOptions};
use crate::options::{SolverOptions, TextOptions};
use crate::output::{check_distinct, check_writable, ending, readable, write_failure, write_matrix};
use crate::pairwise::labels;
use crate::picture::{Cloud, Scatter, save};
use crate::point_options::PointOptions;
use crate::signal::interrupt;
use crate::waiting::waiting_for;

/// The points with the least mean distance to some point clouds.
#[derive(Debug, Args)]
#[command(after_help = "\
Starts from N points drawn systematically from the file with the largest weight (the first of several), moved so that their mean
is the mean of all means, and descends until the decrease that the next step promises is below --tol of the mean transport cost:
a local minimum. The bounds are those of the mean distance of the points found.

Examples:
  rot barycenter days/*.csv --points 50 --out mean.csv --picture mean.svg
  rot barycenter a.npy b.npy --weights 1,3 --metric w2 --points 200 --out b.npy
  rot barycenter a.csv b.csv --support grid.csv --entropy 0.05 --out weights.csv")]
pub struct Barycenter {
    /// Points (.npy, .csv, .tsv, or - for a table on standard input; one per row) or, with --embeddings, lines of word, tab, count
    #[arg(required = true, num_args = 1.., value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Number of points of the barycenter; they have equal weights
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        required_unless_present = "support",
        help_heading = "Barycenter"
    )]
    points: Option<usize>,
    /// Keep these points and find their weights instead; needs --entropy
    #[arg(long, value_name = "FILE", conflicts_with = "points", help_heading = "Barycenter")]
    support: Option<PathBuf>,
    /// Weights of the files in the mean, scaled to sum to one [default: equal]
    #[arg(
        long,
        value_name = "X,X,…",
        value_delimiter = ',',
        allow_hyphen_values = true,
        help_heading = "Barycenter"
    )]
    weights: Vec<f64>,
    /// Maximum number of steps
    #[arg(long, value_name = "N", default_value_t = BarycenterSettings::default().max_steps, allow_negative_numbers = true, help_heading = "Barycenter")]
    max_steps: usize,
    #[command(flatten)]
    text: TextOptions,
    #[command(flatten)]
    table: PointOptions,
    #[command(flatten)]
    metric: MetricOptions,
    #[command(flatten)]
    solver: SolverOptions,
    /// Write the points: .csv or .tsv with the names of the features (with --support, and a column of weights), or .npy
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Draw all points in the two features that the worst metrics weigh most: .svg or .png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    picture: Option<PathBuf>,
    /// Print only one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Barycenter {
    /// Reads the inputs, searches, writes the files and prints the distances.
    pub fn run(&self) -> Result<(), Failure> {
        let mut settings = self.solver.apply()?;
        // The distances are solved in parallel and share the memory.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        settings.memory /= cores.max(rayon::current_num_threads());
        let metric = self.solver.reading(|| self.metric.read())?;
        if self.table.scale != Scale::None {
            let rule = "--scale must be none for a barycenter, whose points have the units of the files";
            return Err(Failure::Input(format!("{rule}, but is {}", self.table.scale.name())));
        }
        self.out.as_deref().map_or(Ok(()), |path| check_writable("--out", path, &["csv", "tsv", "npy"]))?;
        self.picture.as_deref().map_or(Ok(()), |path| check_writable("--picture", path, &["svg", "png"]))?;
        let mut files = self.files.clone();
        files.extend(self.support.clone());
        let mut inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        inputs.extend(self.text.embeddings.as_deref());
        inputs.extend(self.metric.inputs());
        check_distinct(&inputs, &[("--out", self.out.as_deref()), ("--picture", self.picture.as_deref())])?;
        let weights = vec![None; files.len()];
        let Inputs { mut sides, columns } = self
            .solver
            .reading(|| read_all(&files, self.text.embeddings.as_deref(), &self.table, &weights))?;
        let support = self.support.is_some().then(|| sides.pop()).flatten();
        self.solver.check_groups(metric.grouping(sides[0].measure.dim())?.groups())?;
        let start = Instant::now();
        let found = self.search(&sides, support.as_ref(), &metric, settings)?;
        let seconds = start.elapsed().as_secs_f64();
        // Files first: the reader of standard output may close it early.
        if let Some(path) = &self.out {
            self.write(path, &found.measure, &sides[0])?;
        }
        if let Some(path) = &self.picture {
            draw(path, &found, &sides, &metric)?;
        }
        if self.json {
            self.print_json(&found, &sides, columns, &metric, seconds)?;
        } else {
            let of = if self.support.is_some() { "the best weights" } else { "these points" };
            print(&found, &sides, &metric, (of, seconds))?;
        }
        warn(&found)
    }

    fn search(
        &self,
        sides: &[Input],
        support: Option<&Input>,
        metric: &Metric,
        settings: Settings,
    ) -> Result<Found, Failure> {
        let measures: Vec<&Measure> = sides.iter().map(|input| &input.measure).collect();
        let grouping = metric.grouping(measures[0].dim())?;
        let weights = (!self.weights.is_empty()).then_some(&self.weights[..]);
        if self.weights.len() != measures.len() && !self.weights.is_empty() {
            return Err(Failure::Input(format!(
                "--weights must have a number for each of the {} FILES, but has {}",
                measures.len(),
                self.weights.len()
            )));
        }
        let about = |error| Failure::about("the inputs", &error);
        let problem = Barycenters::new(&measures, weights, metric.set().clone(), &grouping)
            .and_then(|problem| problem.with_entropy(metric.entropy()))
            .map_err(about)?;
        let settings = BarycenterSettings::default().with_solve(settings).with_max_steps(self.max_steps);
        let interrupt: Interrupt = interrupt();
        let waiting = waiting_for(format!("searching the barycenter of {} measures", measures.len()));
        let found = match support {
            Some(support) => problem.fixed_support(support.measure.points(), &settings, &interrupt),
            None => problem
                .start(self.points.unwrap_or_default(), 0)
                .and_then(|start| problem.free_support(&start, &settings, &interrupt)),
        };
        waiting.finish_and_clear();
        found.map_err(about)
    }

    /// Writes the points, and with a given support their weights.
    fn write(&self, path: &Path, measure: &Measure, names: &Input) -> Result<(), Failure> {
        let weights = self.support.is_some().then(|| measure.weights());
        if ending(path) == "npy" {
            let points = measure.points();
            let Some(weights) = weights else { return write_matrix(path, points, None) };
            let column = weights.view().insert_axis(ndarray::Axis(1));
            let with_weights = ndarray::concatenate(ndarray::Axis(1), &[points.view(), column]);
            let with_weights = with_weights.map_err(|error| Failure::Other(error.to_string()))?;
            return write_matrix(path, &with_weights, None);
        }
        let mut header = names.features.clone().unwrap_or_default();
        if !header.is_empty() && weights.is_some() {
            header.push("weight".into());
        }
        let rows = measure.points().rows().into_iter().enumerate().map(|(j, row)| {
            let own = weights.map(|weights| weights[j]);
            row.iter().copied().chain(own).map(|x| format!("{x:?}")).collect()
        });
        write_table(path, &header, rows).map_err(write_failure)
    }

    fn print_json(
        &self,
        found: &Found,
        sides: &[Input],
        columns: Option<Matching>,
        metric: &Metric,
        seconds: f64,
    ) -> Result<(), Failure> {
        let mut object = Map::new();
        object.insert("value".into(), json!(found.value));
        object.insert("lower_bound".into(), json!(found.lower_bound));
        object.insert("labels".into(), json!(labels(sides)));
        let each =
            |pick: fn(&robust_ot::Solution) -> f64| found.distances.iter().map(pick).collect::<Vec<_>>();
        object.insert("distances".into(), json!(each(|solution| solution.value)));
        object.insert("lower_bounds".into(), json!(each(|solution| solution.lower_bound)));
        object.insert(
            "points".into(),
            json!(found.measure.points().rows().into_iter().map(|row| row.to_vec()).collect::<Vec<_>>()),
        );
        object.insert("weights".into(), json!(found.measure.weights().to_vec()));
        object.insert("status".into(), json!(found.status.name()));
        object.insert("steps".into(), json!(found.history.len() - 1));
        object.insert("history".into(), json!(found.history));
        object.insert("seconds".into(), json!(seconds));
        if let Some(columns) = columns {
            object.insert("columns_matched_by".into(), json!(columns.name()));
        }
        metric.describe(&mut object);
        self.solver.describe(&mut object);
        writeln!(io::stdout().lock(), "{}", Value::Object(object))?;
        Ok(())
    }
}

/// Prints the mean distance and each of them.
fn print(found: &Found, sides: &[Input], metric: &Metric, (of, seconds): (&str, f64)) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let (value, lower) = (readable(found.value), readable(found.lower_bound));
    writeln!(out, "mean       {value}")?;
    writeln!(out, "certified  {lower} ≤ mean distance ≤ {value} of {of}")?;
    writeln!(out, "metric     {}", metric.set())?;
    writeln!(out, "points     {} in {} dimensions", found.measure.len(), found.measure.dim())?;
    let steps = found.history.len() - 1;
    let noun = if steps == 1 { "step" } else { "steps" };
    writeln!(out, "status     {} after {steps} {noun}, {seconds:.3} s\n\ndistance to", found.status)?;
    let names = labels(sides);
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, solution) in names.iter().zip(&found.distances) {
        let (value, lower) = (readable(solution.value), readable(solution.lower_bound));
        writeln!(out, "  {name:width$}  {value}  (at least {lower})")?;
    }
    Ok(())
}

fn warn(found: &Found) -> Result<(), Failure> {
    let steps = found.history.len() - 1;
    match found.status {
        Status::Converged => Ok(()),
        Status::Interrupted => Err(Failure::Interrupted(format!(
            "interrupted after {steps} steps; the bounds of the distances hold"
        ))),
        status => {
            say!(
                "rot: warning: the search ended as {status} after {steps} steps; the bounds of the distances hold"
            );
            Ok(())
        }
    }
}

/// Draws all points in the two features with the largest mean weight in the worst metrics.
fn draw(path: &Path, found: &Found, sides: &[Input], metric: &Metric) -> Result<(), Failure> {
    let dim = found.measure.dim();
    let grouping = metric.grouping(dim)?;
    let mut weight = Array1::<f64>::zeros(dim);
    for solution in &found.distances {
        for (feature, &group) in grouping.assignment().iter().enumerate() {
            // The metric of w2 is that of one group.
            let group = if solution.metric.nrows() == 1 { 0 } else { group };
            weight[feature] += solution.metric[[group, group]].abs();
        }
    }
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|&f, &g| weight[g].total_cmp(&weight[f]));
    let axes = [order[0], *order.get(1).unwrap_or(&order[0])];
    let name = |feature: usize| {
        let names = sides[0].features.as_ref();
        names.map_or_else(|| format!("feature {}", feature + 1), |names| names[feature].clone())
    };
    let places =
        |points: &Array2<f64>| points.rows().into_iter().map(|row| (row[axes[0]], row[axes[1]])).collect();
    let mut clouds: Vec<Cloud> = labels(sides)
        .into_iter()
        .zip(sides)
        .map(|(name, input)| Cloud { name, points: places(input.measure.points()), shares: None })
        .collect();
    let largest = found.measure.weights().fold(f64::MIN_POSITIVE, |top, w| top.max(*w));
    clouds.push(Cloud {
        name: "barycenter".into(),
        points: places(found.measure.points()),
        shares: Some(found.measure.weights().iter().map(|w| w / largest).collect()),
    });
    let title = format!("Barycenter, {}", metric.set());
    save(&Scatter { title: &title, axes: [&name(axes[0]), &name(axes[1])], clouds: &clouds }, path)
}
