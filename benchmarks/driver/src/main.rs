//! Times plain transport problems in files, and prints one JSON object.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, Subcommand};
use ndarray::{Array1, Array2};
use robust_ot::sets::Displacements;
use robust_ot::solve::Interrupt;
use robust_ot::transport::{NetworkSimplex, Sinkhorn};
use robust_ot::{Error, Grouping, Measure};
use robust_ot_learn::data::{read_npy, read_vector};
use serde_json::{Value, json};

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value_t = 1, global = true)]
    threads: usize,
    /// Number of runs; the median of their times is printed.
    #[arg(long, default_value_t = 3, global = true)]
    repeat: usize,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Exact transport between points under squared distances, costs included.
    Points { source: PathBuf, target: PathBuf, a: PathBuf, b: PathBuf },
    /// Exact transport for a cost matrix.
    Exact { cost: PathBuf, a: PathBuf, b: PathBuf },
    /// A second solve after the metric has changed, cold and from the last basis, without the time for costs.
    Warm { source: PathBuf, target: PathBuf, metric: PathBuf },
    /// Entropic transport for a cost matrix, to a marginal error.
    Sinkhorn { cost: PathBuf, regularization: f64, tolerance: f64 },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(arguments.threads).build()?;
    println!("{}", pool.install(|| run(&arguments))?);
    Ok(())
}

fn run(arguments: &Arguments) -> Result<Value, Error> {
    let never = Interrupt::default();
    let weights = |path: &PathBuf| read_vector(path);
    match &arguments.task {
        Task::Points { source, target, a, b } => {
            let source = Measure::new(read_npy(source)?, weights(a)?)?;
            let target = Measure::new(read_npy(target)?, weights(b)?)?;
            let eye = Array2::eye(source.dim());
            let mut objective = 0.0;
            let seconds = timed(arguments.repeat, || {
                let maps = Displacements::new(&source, &target, &Grouping::none(source.dim()))?;
                let cost = maps.cost(&eye)?;
                objective = exact(&cost, source.weights(), target.weights(), &never)?;
                Ok(())
            })?;
            Ok(json!({"seconds": seconds, "objective": objective}))
        }
        Task::Exact { cost, a, b } => {
            let (cost, a, b) = (read_npy(cost)?, weights(a)?, weights(b)?);
            let mut objective = 0.0;
            let seconds = timed(arguments.repeat, || {
                objective = exact(&cost, &a, &b, &never)?;
                Ok(())
            })?;
            Ok(json!({"seconds": seconds, "objective": objective}))
        }
        Task::Warm { source, target, metric } => {
            let (source, target) =
                (Measure::uniform(read_npy(source)?)?, Measure::uniform(read_npy(target)?)?);
            let maps = Displacements::new(&source, &target, &Grouping::none(source.dim()))?;
            let (first, second) = (maps.cost(&Array2::eye(source.dim()))?, maps.cost(&read_npy(metric)?)?);
            let (a, b) = (source.weights().to_vec(), target.weights().to_vec());
            let mut fresh = NetworkSimplex::new(&a, &b)?;
            fresh.solve(&first, &never)?;
            let warm = timed(arguments.repeat, || fresh.clone().solve(&second, &never).map(drop))?;
            let cold =
                timed(arguments.repeat, || NetworkSimplex::new(&a, &b)?.solve(&second, &never).map(drop))?;
            Ok(json!({"warm": warm, "cold": cold}))
        }
        Task::Sinkhorn { cost, regularization, tolerance } => {
            let cost = read_npy(cost)?;
            let (a, b) = (uniform(cost.nrows()), uniform(cost.ncols()));
            let mut report = None;
            let seconds = timed(arguments.repeat, || {
                let mut sinkhorn = Sinkhorn::new(&a, &b, *regularization)?;
                report = Some(sinkhorn.solve(&cost, *tolerance, 1_000_000, &never)?);
                Ok(())
            })?;
            let report = report.expect("at least one run");
            Ok(json!({"seconds": seconds, "error": report.marginal_error, "iterations": report.iterations}))
        }
    }
}

fn exact(cost: &Array2<f64>, a: &Array1<f64>, b: &Array1<f64>, never: &Interrupt) -> Result<f64, Error> {
    let solution = NetworkSimplex::new(&a.to_vec(), &b.to_vec())?.solve(cost, never)?;
    Ok(solution.plan.iter().map(|e| e.mass * cost[[e.row, e.column]]).sum())
}

fn uniform(count: usize) -> Vec<f64> {
    vec![1.0 / count as f64; count]
}

/// The median time of some runs, in seconds.
fn timed(repeat: usize, mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut times = Vec::new();
    for _ in 0..repeat.max(1) {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
