//! Options that commands share, and the library values they stand for.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use robust_ot::data::{read_groups, read_matrix};
use robust_ot::{Error, Grouping, Measure, MetricSet, Prior, Problem, Settings, Solver};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::memory::Memory;

/// More threads than any machine has use for.
const MOST_THREADS: usize = 1024;

/// The metric sets by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricName {
    /// Squared 2-Wasserstein: the plain metric
    W2,
    /// Entry-wise norm ball (the paper's W_P), --k
    P,
    /// Its 2k-th power: same plan, other scale, --k
    PPower,
    /// KL penalty to a prior (W_KL), --lambda, --prior
    Kl,
    /// Doubly stochastic metrics (W_DS), --lambda, --prior
    Ds,
    /// Weights on single features or groups, --lambda
    Features,
    /// Subspace robust Wasserstein, --k dimensions
    Srw,
    /// Schatten norm ball, --rho
    Rkp,
}

/// What to compute.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metric")]
pub struct MetricOptions {
    /// Family of metrics; the distance is taken under its worst member
    #[arg(long, value_enum, default_value = "p")]
    metric: MetricName,
    /// Exponent of p and p-power (2k), or dimensions of srw
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    k: u32,
    /// Schatten exponent of rkp, at least 1, or inf
    #[arg(long, value_name = "X", default_value_t = 2.0, allow_negative_numbers = true)]
    rho: f64,
    /// Strength of the penalty of kl, ds and features
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    lambda: f64,
    /// Prior metric of kl and ds: eye, ones, or a matrix in .npy, .csv or .tsv [default: eye for kl, ones for ds]
    #[arg(long, value_name = "eye|ones|FILE")]
    prior: Option<String>,
    /// Number of feature groups [default: every feature is its own]
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    groups: Option<usize>,
    /// How features are grouped: contiguous, interleaved, random, or a file with one group index a line
    #[arg(long, value_name = "HOW|FILE", default_value = "contiguous")]
    grouping: String,
    /// Seed of --grouping random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Weight of the entropy of the plan in the objective; 0 asks for exact plans
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    entropy: f64,
}

/// How to compute it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Solver")]
pub struct SolverOptions {
    /// Step rule: auto, classic, line-search or corrective
    #[arg(long, default_value = "auto")]
    solver: String,
    /// Relative gap at which a distance has converged
    #[arg(long, value_name = "X", default_value_t = 1e-4, allow_negative_numbers = true)]
    tol: f64,
    /// Most oracle calls of one distance
    #[arg(long, value_name = "N", default_value_t = 1000, allow_negative_numbers = true)]
    max_iter: usize,
    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
    /// Most memory for costs and plans, such as 2GB; what does not fit is streamed [default: half of what is free]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<Memory>,
}

/// What to compute, checked and with files read.
#[derive(Debug)]
pub struct Metric {
    set: MetricSet,
    groups: Groups,
    entropy: f64,
    /// The parameters as they were given, for JSON.
    parameters: Map<String, Value>,
}

#[derive(Debug)]
enum Groups {
    None,
    Contiguous(usize),
    Interleaved(usize),
    Random(usize, u64),
    Explicit(Vec<usize>),
}

impl MetricOptions {
    /// Reads prior and grouping, and checks what can be checked without the points.
    pub fn read(&self) -> Result<Metric, Failure> {
        self.check_ranges()?;
        let groups = self.read_groups()?;
        let set = match self.metric {
            MetricName::W2 => MetricSet::W2,
            MetricName::P => MetricSet::P { k: self.k },
            MetricName::PPower => MetricSet::PPower { k: self.k },
            MetricName::Kl => MetricSet::Kl { lambda: self.lambda, prior: self.read_prior(Prior::Eye)? },
            MetricName::Ds => MetricSet::Ds { lambda: self.lambda, prior: self.read_prior(Prior::Ones)? },
            MetricName::Features => MetricSet::Features { lambda: self.lambda },
            MetricName::Srw => MetricSet::Srw { k: self.k as usize },
            MetricName::Rkp => MetricSet::Rkp { rho: self.rho },
        };
        Ok(Metric { parameters: self.parameters(&set), set, groups, entropy: self.entropy })
    }

    /// A value that is out of range is refused even where the metric does not use it.
    fn check_ranges(&self) -> Result<(), Failure> {
        MetricSet::P { k: self.k }.check(1)?;
        MetricSet::Rkp { rho: self.rho }.check(1)?;
        MetricSet::Features { lambda: self.lambda }.check(1)?;
        if self.prior.is_some() && !matches!(self.metric, MetricName::Kl | MetricName::Ds) {
            say!("rot: note: --prior has no effect with this --metric; it belongs to kl and ds");
        }
        Ok(())
    }

    fn read_prior(&self, default: Prior) -> Result<Prior, Failure> {
        Ok(match self.prior.as_deref() {
            None => default,
            Some("eye") => Prior::Eye,
            Some("ones") => Prior::Ones,
            Some(file) => {
                let path = Path::new(file);
                Prior::Matrix(
                    read_matrix(path).map_err(|error| Failure::about(&format!("--prior {file}"), &error))?,
                )
            }
        })
    }

    fn read_groups(&self) -> Result<Groups, Failure> {
        Ok(match (self.grouping.as_str(), self.groups) {
            ("contiguous", Some(r)) => Groups::Contiguous(r),
            ("interleaved", Some(r)) => Groups::Interleaved(r),
            ("random", Some(r)) => Groups::Random(r, self.seed),
            ("contiguous", None) => Groups::None,
            (how @ ("interleaved" | "random"), None) => {
                return Err(Failure::Input(format!("--grouping {how} needs --groups R, but there is none")));
            }
            (file, count) => {
                let assignment = read_groups(Path::new(file))?;
                let found = assignment.iter().max().map_or(0, |largest| largest.saturating_add(1));
                if let Some(count) = count.filter(|&count| count != found) {
                    let message =
                        format!("--groups must be the {found} groups of {file} or absent, but is {count}");
                    return Err(Failure::Input(message));
                }
                Groups::Explicit(assignment)
            }
        })
    }

    fn parameters(&self, set: &MetricSet) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        match set {
            MetricSet::W2 => None,
            MetricSet::P { k } | MetricSet::PPower { k } => put("k", json!(k)),
            MetricSet::Srw { k } => put("k", json!(k)),
            MetricSet::Rkp { rho } if rho.is_infinite() => put("rho", json!("inf")),
            MetricSet::Rkp { rho } => put("rho", json!(rho)),
            MetricSet::Features { lambda } => put("lambda", json!(lambda)),
            MetricSet::Kl { lambda, prior } | MetricSet::Ds { lambda, prior } => {
                put("lambda", json!(lambda));
                let file = self.prior.clone().filter(|_| matches!(prior, Prior::Matrix(_)));
                put("prior", json!(file.unwrap_or_else(|| prior.to_string())))
            }
        };
        if self.groups.is_some() || self.grouping != "contiguous" {
            put("grouping", json!(self.grouping));
            if self.grouping == "random" {
                put("seed", json!(self.seed));
            }
        }
        put("entropy", json!(self.entropy));
        map
    }
}

impl Metric {
    /// The grouping of `dim` features.
    pub fn grouping(&self, dim: usize) -> Result<Grouping, Failure> {
        Ok(match &self.groups {
            Groups::None => Grouping::none(dim),
            Groups::Contiguous(r) => Grouping::contiguous(dim, *r)?,
            Groups::Interleaved(r) => Grouping::interleaved(dim, *r)?,
            Groups::Random(r, seed) => Grouping::random(dim, *r, *seed)?,
            Groups::Explicit(assignment) => Grouping::explicit(assignment.clone())?,
        })
    }

    /// The problem between two measures.
    pub fn problem(&self, source: &Measure, target: &Measure, grouping: &Grouping) -> Result<Problem, Error> {
        Problem::grouped(source, target, self.set.clone(), grouping)?.with_entropy(self.entropy)
    }

    /// The set.
    pub fn set(&self) -> &MetricSet {
        &self.set
    }

    /// λ_γ.
    pub fn entropy(&self) -> f64 {
        self.entropy
    }

    /// Name and parameters for JSON.
    pub fn describe(&self, into: &mut Map<String, Value>) {
        into.insert("metric".into(), json!(self.set.name()));
        into.extend(self.parameters.clone());
    }
}

impl SolverOptions {
    /// The settings; sets the number of threads on the way.
    pub fn apply(&self) -> Result<Settings, Failure> {
        let solver: Solver = self.solver.parse()?;
        let memory = self.memory.unwrap_or_else(Memory::of_this_machine).0;
        let settings = Settings { solver, tol_gap_rel: self.tol, max_iterations: self.max_iter, memory };
        settings.check()?;
        if let Some(threads) = self.threads {
            if !(1..=MOST_THREADS).contains(&threads) {
                let rule = format!("at least 1 and at most {MOST_THREADS}");
                return Err(Failure::Input(format!("--threads must be {rule}, but is {threads}")));
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
            pool.map_err(|error| Failure::Other(format!("--threads {threads}: {error}")))?;
        }
        Ok(settings)
    }

    /// Settings for JSON.
    pub fn describe(&self, into: &mut Map<String, Value>) {
        into.insert("solver".into(), json!(self.solver));
        into.insert("tol".into(), json!(self.tol));
        into.insert("max_iter".into(), json!(self.max_iter));
    }
}

/// Word vectors, when the inputs are texts.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub struct TextOptions {
    /// Word vectors (fastText, word2vec or GloVe text format): the inputs are then lines of word, tab, count
    #[arg(long, value_name = "FILE.vec")]
    pub embeddings: Option<PathBuf>,
}
