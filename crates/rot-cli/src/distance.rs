//! `rot distance`: the robust distance between two measures.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use robust_ot::device::EntropicOracle;
use robust_ot::solve::{Divergence, SolveOptions, Storage};
use robust_ot::{Grouping, Settings, Solution, Status};
use robust_ot_cuda::{Device, Streamed, Work};
use robust_ot_learn::data::{Matching, write_table};
use robust_ot_learn::{Explanation, Memory, Scale};
use serde_json::{Map, Value, json};

use crate::device::{DeviceOptions, device_name};
use crate::explain::{REPORTED_LINES, TERMINAL_LINES, explain, explanation_json, naming};
use crate::failure::Failure;
use crate::input::{Input, Inputs, Names, read_all};
use crate::machine::machine;
use crate::metric_options::{Metric, MetricOptions};
use crate::options::{SolverOptions, TextOptions};
use crate::output::{check_distinct, check_writable, ending, readable, write_failure, write_matrix};
use crate::point_options::PointOptions;
use crate::run_folder::{begin_run, clear_run, write_run};
use crate::signal::interrupt;
use crate::waiting::waiting_for;

/// The robust distance between two measures, with bounds on its error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rot distance before.csv after.csv --explain
  rot distance x.npy y.npy --metric srw --k 2 --tol 1e-3 --json
  rot distance dunkirk.tsv titanic.tsv --embeddings words.vec --groups 10 --plan-out plan.csv")]
pub struct Distance {
    /// Points (.npy, .csv, .tsv, .parquet, or - for a table on standard input; one per row) or, with --embeddings, lines of word, tab,
    /// count
    source: PathBuf,
    /// The same, for the target
    target: PathBuf,
    #[command(flatten)]
    text: TextOptions,
    #[command(flatten)]
    points: PointOptions,
    /// Weights of the source points: .npy, or text with one number per line [default: equal]
    #[arg(long, value_name = "FILE", conflicts_with = "weight_column", help_heading = "Input")]
    source_weights: Option<PathBuf>,
    /// Weights of the target points [default: equal]
    #[arg(long, value_name = "FILE", conflicts_with = "weight_column", help_heading = "Input")]
    target_weights: Option<PathBuf>,
    #[command(flatten)]
    metric: MetricOptions,
    /// Print the Sinkhorn divergence, W(source, target) − ½ W(source, source) − ½ W(target, target) under one common metric, the
    /// worst one of W(source, target); needs --entropy
    #[arg(long, conflicts_with_all = ["run", "device"], help_heading = "Metric")]
    debias: bool,
    #[command(flatten)]
    solver: SolverOptions,
    #[command(flatten)]
    device: DeviceOptions,
    /// Write the plan: .csv or .tsv as source, target, mass (words, or rows counted from 1); .npy as a
    /// dense matrix
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    plan_out: Option<PathBuf>,
    /// Write the worst metric: .npy, .csv or .tsv
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    metric_out: Option<PathBuf>,
    /// Write bounds, metric and flows to this folder, for `rot report`
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    run: Option<PathBuf>,
    /// Print only one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Show which features the worst metric weighs most and where the cost is spent
    #[arg(long, help_heading = "Output")]
    explain: bool,
}

impl Distance {
    /// Reads the inputs, solves, writes the files and prints the result.
    pub fn run(&self, command: &str) -> Result<(), Failure> {
        let settings = self.solver.apply()?;
        let metric = self.solver.reading(|| self.metric.read())?;
        for (option, path) in [("--plan-out", &self.plan_out), ("--metric-out", &self.metric_out)] {
            path.as_deref().map_or(Ok(()), |path| check_writable(option, path, &["npy", "csv", "tsv"]))?;
        }
        let outputs =
            [("--plan-out", self.plan_out.as_deref()), ("--metric-out", self.metric_out.as_deref())];
        let optional = [&self.source_weights, &self.target_weights, &self.text.embeddings];
        let mut inputs: Vec<&Path> = vec![&self.source, &self.target];
        inputs.extend(optional.into_iter().flatten().map(PathBuf::as_path));
        inputs.extend(self.metric.inputs());
        check_distinct(&inputs, &outputs)?;
        self.run.as_deref().map_or(Ok(()), begin_run)?;
        let paths = [self.source.clone(), self.target.clone()];
        let weights = [self.source_weights.clone(), self.target_weights.clone()];
        let embeddings = self.text.embeddings.as_deref();
        let Inputs { sides, columns } =
            self.solver.reading(|| read_all(&paths, embeddings, &self.points, &weights))?;
        let mut sides = sides.into_iter();
        let (Some(source), Some(target)) = (sides.next(), sides.next()) else {
            return Err(Failure::Other("two inputs were read, but fewer were returned".into()));
        };
        let pair = format!("{} and {}", self.source.display(), self.target.display());
        let grouping = metric.grouping(source.measure.dim())?;
        self.solver.check_groups(grouping.groups())?;
        let work = Work::of_distance(source.measure.len(), target.measure.len(), source.measure.dim());
        let device = if self.debias { None } else { self.device.open_for_plans(work, metric.entropy())? };
        let start = Instant::now();
        let problem = metric
            .problem(&source.measure, &target.measure, &grouping)
            .map_err(|e| Failure::about(&pair, &e))?;
        let oracle = device.as_ref().map(Streamed::new).transpose()?;
        let oracle = oracle.map(|oracle| Box::new(oracle) as Box<dyn EntropicOracle>);
        let options =
            SolveOptions { interrupt: Some(&interrupt()), device: oracle, ..SolveOptions::default() };
        let (m, n, dim) = (source.measure.len(), target.measure.len(), source.measure.dim());
        let waiting = waiting_for(format!("solving {m} × {n} points in {dim} dimensions"));
        let solved = if self.debias {
            problem.divergence(&settings, &interrupt()).map(debiased)
        } else {
            problem.solve_with(&settings, options)
        };
        waiting.finish_and_clear();
        let solution = solved.map_err(|e| Failure::about(&pair, &e))?;
        let seconds = start.elapsed().as_secs_f64();

        let explain = || explain(&solution, &source, &target, &grouping);
        let explanation = (self.explain || self.run.is_some()).then(explain).transpose()?;
        // Files first: the reader of standard output may close it early.
        if let Some(path) = &self.plan_out {
            write_plan(path, &solution, &source, &target)?;
        }
        if let Some(path) = &self.metric_out {
            write_matrix(path, &solution.metric, None)?;
        }
        let solution = &solution;
        let outcome = Outcome {
            solution,
            settings,
            device,
            source,
            target,
            columns,
            scale: self.points.scale,
            metric,
            grouping,
            seconds,
            explanation,
            debiased: self.debias,
        };
        if let Some(folder) = &self.run {
            clear_run(folder)?;
            outcome.write_run(folder, &self.solver, command)?;
        }
        if self.json {
            let mut object = outcome.json(&self.solver);
            if let Some(explanation) = outcome.explanation.as_ref().filter(|_| self.explain) {
                object.insert("explain".into(), explanation_json(explanation, TERMINAL_LINES));
            }
            writeln!(io::stdout().lock(), "{}", Value::Object(object))?;
        } else {
            outcome.print(self.explain)?;
        }
        warn(solution)
    }
}

/// A solved distance and everything needed to report it.
struct Outcome<'a> {
    solution: &'a Solution,
    settings: Settings,
    device: Option<Device>,
    source: Input,
    target: Input,
    columns: Option<Matching>,
    scale: Scale,
    metric: Metric,
    grouping: Grouping,
    seconds: f64,
    explanation: Option<Explanation>,
    debiased: bool,
}

impl Outcome<'_> {
    /// The result as one JSON object.
    fn json(&self, solver: &SolverOptions) -> Map<String, Value> {
        let Self { solution, settings, source, target, metric, grouping, seconds, .. } = self;
        let mut object = Map::new();
        object.insert("excess".into(), json!(solution.excess()));
        object.insert("excess_lower_bound".into(), json!(solution.excess_lower_bound()));
        object.insert("offset".into(), json!(solution.offset));
        object.insert("value".into(), json!(solution.value));
        if self.debiased {
            object.insert("debiased".into(), json!(true));
        }
        object.insert("lower_bound".into(), json!(solution.lower_bound));
        object.insert("gap".into(), json!(solution.gap));
        object.insert("relative_gap".into(), json!(solution.relative_gap));
        object.insert("transport_cost".into(), json!(solution.transport_cost));
        object.insert("unregularized_value".into(), json!(solution.unregularized_value));
        object.insert("status".into(), json!(solution.status.name()));
        object.insert("iterations".into(), json!(solution.iterations));
        object.insert("oracle_calls".into(), json!(solution.oracle_calls));
        object.insert("seconds".into(), json!(seconds));
        object.insert("device".into(), json!(device_name(self.device.as_ref())));
        object.insert("storage".into(), json!(solution.storage.name()));
        object.insert("memory".into(), json!(settings.memory));
        object.insert("n_source".into(), json!(source.measure.len()));
        object.insert("n_target".into(), json!(target.measure.len()));
        object.insert("dim".into(), json!(source.measure.dim()));
        object.insert("groups".into(), json!(grouping.groups()));
        if let Some(columns) = self.columns {
            object.insert("columns_matched_by".into(), json!(columns.name()));
            object.insert("scale".into(), json!(self.scale.name()));
            let missing = json!({"source": source.missing_rows, "target": target.missing_rows});
            object.insert("missing_rows".into(), missing);
        }
        if let Names::Words(_) = source.names {
            object
                .insert("unknown_words".into(), json!({"source": source.unknown, "target": target.unknown}));
        }
        metric.describe(&mut object);
        solver.describe(&mut object);
        object
    }

    /// Writes the JSON object with the metric, the flows and the history of the bounds, for `rot report`.
    fn write_run(&self, folder: &Path, solver: &SolverOptions, command: &str) -> Result<(), Failure> {
        let Self { solution, source, target, grouping, metric, explanation, .. } = self;
        let mut run = self.json(solver);
        run.insert("kind".into(), json!("distance"));
        run.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        run.insert("machine".into(), json!(machine()));
        run.insert("source".into(), json!(source.label()));
        run.insert("target".into(), json!(target.label()));
        run.insert("set".into(), json!(metric.set().to_string()));
        run.insert("group_names".into(), json!(naming(source.features.as_deref()).groups(grouping)));
        let rows = solution.metric.rows().into_iter().map(|row| row.to_vec());
        run.insert("metric_matrix".into(), rows.collect::<Vec<_>>().into());
        if let Some(explanation) = explanation {
            run.insert("explain".into(), explanation_json(explanation, REPORTED_LINES));
        }
        let steps = solution.history.iter().map(|step| json!([step.value, step.lower_bound]));
        run.insert("history".into(), steps.collect());
        write_run(folder, Value::Object(run), command)
    }

    /// Prints the result as text.
    fn print(&self, explained: bool) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let Self { solution, settings, device, source, target, metric, grouping, .. } = self;
        let (seconds, explanation) = (self.seconds, &self.explanation);
        let Solution { relative_gap, status, oracle_calls, .. } = solution;
        let (value, lower_bound) = (readable(solution.value), readable(solution.lower_bound));
        if self.debiased {
            writeln!(out, "divergence {value}")?;
            writeln!(out, "certified  {lower_bound} ≤ S ≤ {value}, relative gap {relative_gap:.1e}")?;
        } else if solution.offset == 0.0 {
            writeln!(out, "distance   {value}")?;
            writeln!(out, "certified  {lower_bound} ≤ W ≤ {value}, relative gap {relative_gap:.1e}")?;
        } else {
            let (excess, lower) = (readable(solution.excess()), readable(solution.excess_lower_bound()));
            writeln!(out, "excess     {excess}")?;
            writeln!(out, "certified  {lower} ≤ W − h(0) ≤ {excess}, relative gap {relative_gap:.1e}")?;
            writeln!(
                out,
                "objective  {lower_bound} ≤ W ≤ {value}, with h(0) = {}",
                readable(solution.offset)
            )?;
        }
        if metric.entropy() > 0.0 {
            let without = readable(solution.unregularized_value);
            writeln!(
                out,
                "entropy    {} in the objective; the plan costs {without} without it",
                metric.entropy()
            )?;
        }
        let transport = readable(solution.transport_cost);
        writeln!(out, "transport  {transport} under the worst metric, without penalty")?;
        let groups =
            if grouping.is_none() { String::new() } else { format!(", {} groups", grouping.groups()) };
        writeln!(out, "metric     {}{groups}", metric.set())?;
        let (m, n, d) = (source.measure.len(), target.measure.len(), source.measure.dim());
        writeln!(out, "points     {m} and {n} in {d} dimensions")?;
        if let Some(device) = device {
            writeln!(out, "device     {device}")?;
        } else if solution.storage != Storage::Stored {
            let (kept, allowed) = (solution.storage, Memory(settings.memory));
            let what = if metric.entropy() > 0.0 { "costs and plan" } else { "costs" };
            writeln!(out, "memory     {kept}: {m} × {n} {what} do not fit into {allowed}")?;
        }
        let calls = if *oracle_calls == 1 { "call" } else { "calls" };
        writeln!(out, "status     {status} after {oracle_calls} oracle {calls}, {seconds:.3} s")?;
        let explanation = explanation.as_ref().filter(|_| explained);
        if let Some(explanation) = explanation {
            write!(out, "\n{}", explanation.shortened(TERMINAL_LINES))?;
        }
        Ok(())
    }
}

/// The robust distance behind a divergence, with the bounds of the divergence.
fn debiased(found: Divergence) -> Solution {
    let mut solution = found.cross.clone();
    (solution.value, solution.lower_bound, solution.gap) = (found.value, found.lower_bound, found.gap);
    solution.relative_gap = found.relative_gap;
    (solution.offset, solution.status) = (0.0, found.status);
    solution
}

fn warn(solution: &Solution) -> Result<(), Failure> {
    let Solution { status, relative_gap, iterations, .. } = solution;
    match status {
        Status::Converged => Ok(()),
        Status::Interrupted => Err(Failure::Interrupted(format!(
            "interrupted at relative gap {relative_gap:.1e}; the bounds hold"
        ))),
        Status::MaxIterations => {
            say!(
                "rot: warning: --max-iter {iterations} reached at relative gap {relative_gap:.1e}; the bounds hold"
            );
            Ok(())
        }
        _ => {
            say!("rot: warning: the gap stopped shrinking at {relative_gap:.1e} (relative); the bounds hold");
            Ok(())
        }
    }
}

fn write_plan(path: &Path, solution: &Solution, source: &Input, target: &Input) -> Result<(), Failure> {
    if ending(path) == "npy" {
        return write_matrix(path, &solution.dense_plan(), None);
    }
    let header = ["source", "target", "mass"].map(str::to_owned);
    let rows = solution.plan().into_iter();
    let rows = rows.map(|e| vec![source.key(e.row), target.key(e.column), format!("{:?}", e.mass)]);
    write_table(path, &header, rows).map_err(write_failure)
}
