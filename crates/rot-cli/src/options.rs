//! Solver and input options that several commands share.

use std::path::PathBuf;

use clap::Args;
use robust_ot::Settings;
use robust_ot::solve::StepRule;
use robust_ot_learn::Memory;
use robust_ot_learn::data::within;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::parse::parsed;

/// Memory that reading a file may always take, however small the memory for costs and plans.
const LEAST_READING: usize = 100_000_000;
/// The number of matrices of the size of the metric that a solve holds at once.
const MATRICES: usize = 7;
/// The maximum number of threads, more than any machine can use.
const MOST_THREADS: usize = 1024;

/// Options of the solver.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Solver")]
pub struct SolverOptions {
    /// Step rule: auto, classic, line-search or corrective
    #[arg(long, default_value_t, value_parser = parsed::<StepRule>)]
    solver: StepRule,
    /// Relative gap at which a solve has converged
    #[arg(long, value_name = "X", default_value_t = Settings::default().tol_gap_rel, allow_negative_numbers = true)]
    tol: f64,
    /// Maximum number of oracle calls per distance
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_iterations, allow_negative_numbers = true)]
    max_iter: usize,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
    /// Maximum memory for costs and plans, such as 2GB; larger ones are streamed. A file that takes more is refused, but
    /// each may take 100MB [default: half of the free memory, and all of it to read a file]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = parsed::<Memory>)]
    memory: Option<Memory>,
}

impl SolverOptions {
    /// Checks and returns the settings, and sets the number of threads.
    pub fn apply(&self) -> Result<Settings, Failure> {
        let memory = self.memory.unwrap_or_else(Memory::share).0;
        let settings = Settings::default()
            .with_step_rule(self.solver)
            .with_tolerance(self.tol)
            .with_max_iterations(self.max_iter)
            .with_memory(memory);
        settings.check()?;
        self.threads.map_or(Ok(()), set_threads)?;
        Ok(settings)
    }

    /// Calls `read` with the memory that each file may take.
    pub fn reading<T>(&self, read: impl FnOnce() -> T) -> T {
        match self.memory {
            Some(Memory(bytes)) => within(Memory(bytes.max(LEAST_READING)), read),
            None => read(),
        }
    }

    /// Refuses metrics of more features, or groups of features, than the memory holds.
    pub fn check_groups(&self, groups: usize) -> Result<(), Failure> {
        let limit = self.memory.map_or_else(Memory::free, |Memory(bytes)| Memory(bytes.max(LEAST_READING)));
        let needed = groups.saturating_mul(groups).saturating_mul(MATRICES * size_of::<f64>());
        if needed <= limit.0 {
            return Ok(());
        }
        let needed = Memory(needed);
        Err(Failure::Input(format!(
            "--memory must hold {MATRICES} matrices of {groups} × {groups} features, {needed}, but is {limit}; \
             --groups N makes them smaller"
        )))
    }

    /// Adds the settings to a JSON object.
    pub fn describe(&self, into: &mut Map<String, Value>) {
        into.insert("solver".into(), json!(self.solver.name()));
        into.insert("tol".into(), json!(self.tol));
        into.insert("max_iter".into(), json!(self.max_iter));
    }
}

/// Sets the number of threads of the global pool.
pub fn set_threads(threads: usize) -> Result<(), Failure> {
    if !(1..=MOST_THREADS).contains(&threads) {
        let rule = format!("at least 1 and at most {MOST_THREADS}");
        return Err(Failure::Input(format!("--threads must be {rule}, but is {threads}")));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|error| Failure::Other(format!("--threads {threads}: {error}")))
}

/// Options for inputs that are texts.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub struct TextOptions {
    /// Word vectors in the text format of fastText, word2vec or GloVe; each input line is then a word, a tab and a count
    #[arg(long, value_name = "FILE.vec")]
    pub embeddings: Option<PathBuf>,
}
