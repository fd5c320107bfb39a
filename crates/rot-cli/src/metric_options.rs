//! Options that name a metric set, and the library values they stand for.

use std::path::Path;

use clap::{Args, ValueEnum};
use robust_ot::{Error, Grouping, Measure, MetricSet, Prior, Problem, SetParameters};
use robust_ot_learn::data::{read_groups, read_matrix};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// How features are grouped where nothing else is said.
const CONTIGUOUS: &str = "contiguous";

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

impl MetricName {
    /// As on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned())
    }
}

/// The parameters of a set, and the groups it acts on.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metric")]
pub struct SetOptions {
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
    /// Number of feature groups [default: every feature is its own; rot train: 10 for p, p-power, kl, ds, features]
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub groups: Option<usize>,
    /// How features are grouped: contiguous, interleaved, random, or a file with one group index a line
    /// [default: contiguous; random with --protocol]
    #[arg(long, value_name = "HOW|FILE")]
    pub grouping: Option<String>,
}

/// What to compute.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metric")]
pub struct MetricOptions {
    /// Family of metrics; the distance is taken under its worst member
    #[arg(long, value_enum, default_value = "p")]
    metric: MetricName,
    #[command(flatten)]
    set: SetOptions,
    /// Seed of --grouping random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Weight of the entropy of the plan in the objective; 0 asks for exact plans
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    entropy: f64,
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

/// Which features share a group.
#[derive(Debug)]
pub enum Groups {
    None,
    Contiguous(usize),
    Interleaved(usize),
    Random(usize, u64),
    Explicit(Vec<usize>),
}

impl MetricOptions {
    /// Reads prior and grouping, and checks what can be checked without the points.
    pub fn read(&self) -> Result<Metric, Failure> {
        let set = self.set.set(self.metric)?;
        let groups = self.set.groups(self.seed)?;
        let mut parameters = self.set.parameters(&set, self.seed);
        parameters.insert("entropy".into(), json!(self.entropy));
        Ok(Metric { parameters, set, groups, entropy: self.entropy })
    }
}

impl SetOptions {
    /// The set of this name; a value that is out of range is refused even where the set does not use it.
    pub fn set(&self, name: MetricName) -> Result<MetricSet, Failure> {
        self.check_ranges(name)?;
        let prior = if matches!(name, MetricName::Kl | MetricName::Ds) { self.read_prior()? } else { None };
        Ok(MetricSet::named(&name.name(), SetParameters { prior, ..self.values() })?)
    }

    fn values(&self) -> SetParameters {
        SetParameters { k: self.k, rho: self.rho, lambda: self.lambda, prior: None }
    }

    /// Refuses values that are out of range whatever they are for.
    pub fn check_ranges(&self, name: MetricName) -> Result<(), Failure> {
        self.values().check()?;
        if self.prior.is_some() && !matches!(name, MetricName::Kl | MetricName::Ds) {
            say!("rot: note: --prior has no effect with {}; it belongs to kl and ds", name.name());
        }
        Ok(())
    }

    fn read_prior(&self) -> Result<Option<Prior>, Failure> {
        Ok(match self.prior.as_deref() {
            None => None,
            Some("eye") => Some(Prior::Eye),
            Some("ones") => Some(Prior::Ones),
            Some(file) => {
                let path = Path::new(file);
                let matrix =
                    read_matrix(path).map_err(|error| Failure::about(&format!("--prior {file}"), &error))?;
                Some(Prior::Matrix(matrix))
            }
        })
    }

    /// The groups; a seed is for random ones.
    pub fn groups(&self, seed: u64) -> Result<Groups, Failure> {
        Ok(match (self.grouping.as_deref().unwrap_or(CONTIGUOUS), self.groups) {
            (CONTIGUOUS, Some(r)) => Groups::Contiguous(r),
            ("interleaved", Some(r)) => Groups::Interleaved(r),
            ("random", Some(r)) => Groups::Random(r, seed),
            (CONTIGUOUS, None) => Groups::None,
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

    /// The parameters as they were given, for JSON.
    pub fn parameters(&self, set: &MetricSet, seed: u64) -> Map<String, Value> {
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
        let grouping = self.grouping.as_deref().unwrap_or(CONTIGUOUS);
        if self.groups.is_some() || grouping != CONTIGUOUS {
            put("grouping", json!(grouping));
            if grouping == "random" {
                put("seed", json!(seed));
            }
        }
        map
    }
}

impl Groups {
    /// The grouping of `dim` features.
    pub fn of(&self, dim: usize) -> Result<Grouping, Failure> {
        Ok(match self {
            Self::None => Grouping::none(dim),
            Self::Contiguous(r) => Grouping::contiguous(dim, *r)?,
            Self::Interleaved(r) => Grouping::interleaved(dim, *r)?,
            Self::Random(r, seed) => Grouping::random(dim, *r, *seed)?,
            Self::Explicit(assignment) => Grouping::explicit(assignment.clone())?,
        })
    }
}

impl Metric {
    /// The grouping of `dim` features.
    pub fn grouping(&self, dim: usize) -> Result<Grouping, Failure> {
        self.groups.of(dim)
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
