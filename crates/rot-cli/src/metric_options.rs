//! Options that name a metric set, and the library values they stand for.

use std::path::Path;

use clap::Args;
use robust_ot::sets::{GroupingRule, MetricFamily, Prior, SetParameters};
use robust_ot::{Error, Grouping, Measure, MetricSet, Problem};
use robust_ot_learn::data::{read_groups, read_matrix};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::parse::named;

/// The families of metric sets.
pub const METRICS: [(&str, &str); 8] = [
    ("w2", "Squared 2-Wasserstein: the plain metric"),
    ("p", "Entry-wise norm ball (the paper's W_P), --k"),
    ("p-power", "The 2k-th power of p: same plan, different scale, --k"),
    ("kl", "KL penalty to a prior (W_KL), --lambda, --prior"),
    ("ds", "Doubly stochastic metrics (W_DS), --lambda, --prior"),
    ("features", "Weights on individual features or groups, --lambda"),
    ("srw", "Subspace robust Wasserstein, --k dimensions"),
    ("rkp", "Schatten norm ball, --rho"),
];

/// The parameters of a set, and the groups it acts on.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metric")]
pub struct SetOptions {
    /// Exponent of p and p-power (2k), or dimensions of srw [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    k: Option<u32>,
    /// Schatten exponent of rkp, at least 1, or inf [default: 2]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    rho: Option<f64>,
    /// Strength of the penalty of kl, ds and features [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    lambda: Option<f64>,
    /// Prior metric of kl and ds: eye, ones, or a matrix in .npy, .csv or .tsv [default: eye for kl, ones for ds]
    #[arg(long, value_name = "eye|ones|FILE")]
    prior: Option<String>,
    /// Number of feature groups [default: every feature is its own group; rot train: 10, but no grouping for srw and rkp]
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub groups: Option<usize>,
    /// How features are grouped: contiguous, interleaved, random, or a file with one group index per line, from 0
    /// [default: contiguous; random with --protocol]
    #[arg(long, value_name = "HOW|FILE")]
    grouping: Option<String>,
}

/// What to compute.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metric")]
pub struct MetricOptions {
    /// Family of metrics; the distance is taken under its worst member
    #[arg(long, value_parser = named::<MetricFamily>(&METRICS), default_value = "p")]
    metric: MetricFamily,
    #[command(flatten)]
    set: SetOptions,
    /// Seed of --grouping random [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Weight of the entropy of the plan in the objective; 0 means exact plans
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    entropy: f64,
}

/// What to compute, checked and with files read.
#[derive(Debug)]
pub struct Metric {
    set: MetricSet,
    rule: GroupingRule,
    groups: Option<usize>,
    seed: u64,
    entropy: f64,
    /// The parameters as they were given, for JSON.
    parameters: Map<String, Value>,
}

impl MetricOptions {
    /// The input files.
    pub fn inputs(&self) -> Vec<&Path> {
        self.set.inputs()
    }

    /// Reads prior and grouping, and checks what can be checked without the points.
    pub fn read(&self) -> Result<Metric, Failure> {
        let family = self.metric;
        self.set.note_unused(family.name(), [family]);
        let set = family.set(self.set.parameters_of([family])?)?;
        let (rule, groups) = (self.set.rule()?.unwrap_or_default(), self.set.groups);
        self.note_unused_grouping(&rule);
        let seed = self.seed.unwrap_or_default();
        // Errors that do not depend on the number of features are reported before files are read.
        if let (GroupingRule::Interleaved | GroupingRule::Random, None) = (&rule, groups) {
            rule.group(1, None, seed)?;
        }
        let mut parameters = self.set.json(&set, &rule, seed);
        parameters.insert("entropy".into(), json!(self.entropy));
        Ok(Metric { parameters, set, rule, groups, seed, entropy: self.entropy })
    }

    /// Notes options of the grouping that have no effect.
    fn note_unused_grouping(&self, rule: &GroupingRule) {
        if self.seed.is_some() && *rule != GroupingRule::Random {
            say!(
                "rot: note: --seed has no effect with groups that are {}; it belongs to random",
                rule.name()
            );
        }
        if self.set.grouping.is_some() && self.set.groups.is_none() && *rule == GroupingRule::Contiguous {
            say!(
                "rot: note: --grouping contiguous has no effect without --groups: every feature is its own group"
            );
        }
    }
}

impl SetOptions {
    /// The values that may be input files; some are names instead.
    pub fn inputs(&self) -> Vec<&Path> {
        [&self.prior, &self.grouping].into_iter().flatten().map(Path::new).collect()
    }

    /// The parameters; the prior's file is read only if one of the families has a prior.
    pub fn parameters_of(
        &self,
        families: impl IntoIterator<Item = MetricFamily>,
    ) -> Result<SetParameters, Failure> {
        let default = SetParameters::default();
        let parameters = SetParameters {
            k: self.k.unwrap_or(default.k),
            rho: self.rho.unwrap_or(default.rho),
            lambda: self.lambda.unwrap_or(default.lambda),
            prior: None,
        };
        parameters.check()?;
        let wanted = families.into_iter().any(MetricFamily::has_prior);
        Ok(SetParameters { prior: if wanted { self.read_prior()? } else { None }, ..parameters })
    }

    /// Notes each parameter that none of the families has.
    pub fn note_unused(&self, what: &str, families: impl IntoIterator<Item = MetricFamily>) {
        use MetricFamily::{Ds, Features, Kl, P, PPower, Rkp, Srw};
        let families: Vec<MetricFamily> = families.into_iter().collect();
        let parameters: [(&str, bool, &[MetricFamily]); 4] = [
            ("--k", self.k.is_some(), &[P, PPower, Srw]),
            ("--rho", self.rho.is_some(), &[Rkp]),
            ("--lambda", self.lambda.is_some(), &[Kl, Ds, Features]),
            ("--prior", self.prior.is_some(), &[Kl, Ds]),
        ];
        for (option, is_given, owners) in parameters {
            if is_given && !families.iter().any(|family| owners.contains(family)) {
                let names: Vec<_> = owners.iter().map(|family| family.name()).collect();
                let names = match &names[..] {
                    [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
                    names => names.concat(),
                };
                say!("rot: note: {option} has no effect with {what}; it belongs to {names}");
            }
        }
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

    /// How features are grouped, if it is given: a rule by name, or the groups in a file.
    pub fn rule(&self) -> Result<Option<GroupingRule>, Failure> {
        let Some(given) = self.grouping.as_deref() else { return Ok(None) };
        let named = given.parse().ok();
        let rule = named.map_or_else(|| read_groups(Path::new(given)).map(GroupingRule::Explicit), Ok)?;
        Ok(Some(rule))
    }

    /// The parameters as they were given, for JSON.
    fn json(&self, set: &MetricSet, rule: &GroupingRule, seed: u64) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        match set {
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
            _ => None,
        };
        if self.groups.is_some() || *rule != GroupingRule::Contiguous {
            put("grouping", json!(self.grouping.as_deref().unwrap_or(rule.name())));
            if *rule == GroupingRule::Random {
                put("seed", json!(seed));
            }
        }
        map
    }
}

impl Metric {
    /// The grouping of `dim` features.
    pub fn grouping(&self, dim: usize) -> Result<Grouping, Failure> {
        Ok(self.rule.group(dim, self.groups, self.seed)?)
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
