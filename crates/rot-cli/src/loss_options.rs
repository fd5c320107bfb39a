//! Which loss is trained with, and the library values that stand for it.

use clap::{Args, ValueEnum};
use ndarray::{Array1, Array2};
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::{Grouping, MetricSet};
use robust_ot_learn::{About, Dataset, Objective, SoftTargets};

use crate::failure::Failure;
use crate::geometry::{Geometries, Geometry};
use crate::metric_options::{Groups, MetricName, SetOptions};
use crate::protocol::Protocol;

/// The entropy of the paper's linear problems.
const ORACLE_ENTROPY_OF_THE_PAPER: f64 = 0.2;
/// Groups of the label vectors' features where none are asked for.
const GROUPS: usize = 10;
/// The weight of transport in the mix. With ten groups, and on five data sets (docs/learning.md), it gave an AUC no lower
/// than cross-entropy's and a lower semantic cost.
pub const MIX_OT: f64 = 5.0;

/// What a value is called on the command line.
fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned())
}

/// The losses by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LossName {
    /// Cross-entropy and robust transport with the entry-wise norm ball: the default
    Mix,
    /// Cross-entropy
    Ce,
    /// Binary cross-entropy of every label by itself
    Bce,
    /// W_P, --k
    P,
    /// Its 2k-th power, --k
    PPower,
    /// W_KL, --lambda, --prior
    Kl,
    /// W_DS, --lambda, --prior
    Ds,
    /// W2²
    W2,
    /// Weights on single features or groups, --lambda
    Features,
    /// Subspace robust, --k dimensions
    Srw,
    /// Schatten norm ball, --rho
    Rkp,
}

impl LossName {
    /// The metric set of its transport, if it has one.
    fn metric(self) -> Option<MetricName> {
        match self {
            Self::Ce | Self::Bce => None,
            Self::Mix | Self::P => Some(MetricName::P),
            Self::PPower => Some(MetricName::PPower),
            Self::Kl => Some(MetricName::Kl),
            Self::Ds => Some(MetricName::Ds),
            Self::W2 => Some(MetricName::W2),
            Self::Features => Some(MetricName::Features),
            Self::Srw => Some(MetricName::Srw),
            Self::Rkp => Some(MetricName::Rkp),
        }
    }

    fn name(self) -> String {
        value_name(self)
    }
}

/// What is trained with, and what a model keeps of it.
pub struct Trained {
    /// What is minimised.
    pub objective: Objective,
    /// What a model says of it.
    pub about: About,
    /// The vectors of the labels, where they were made for the loss.
    pub geometry: Option<Array2<f64>>,
}

/// What is minimised.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Loss")]
pub struct LossOptions {
    /// The loss; a metric's name trains with its transport alone unless --mix-ce is given [default: mix; p with --protocol]
    #[arg(long, value_enum)]
    loss: Option<LossName>,
    /// Weight of cross-entropy beside transport [default: 1 with mix, 0 with a metric's name]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    mix_ce: Option<f64>,
    /// Weight of transport [default: 5 with mix, 1 with a metric's name]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    mix_ot: Option<f64>,
    /// Weight of the entropy of the plan in the loss
    #[arg(long, value_name = "X", default_value_t = 0.02, allow_negative_numbers = true)]
    entropy: f64,
    /// Regularisation of the linear problems inside [default: --entropy; 0.2 in the paper]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    oracle_entropy: Option<f64>,
    /// Frank-Wolfe iterations of each loss
    #[arg(long, value_name = "N", default_value_t = 1)]
    fw_iterations: usize,
    /// Sinkhorn iterations of each linear problem
    #[arg(long, value_name = "N", default_value_t = 10)]
    sinkhorn_iterations: usize,
    /// Seed of --grouping random [default: --seed]
    #[arg(long, value_name = "N")]
    group_seed: Option<u64>,
    /// Which labels are near each other, for the loss; scores always go by --label-vectors
    #[arg(long, value_enum, default_value = "names")]
    geometry: Geometry,
    /// Part of each true label's mass that moves to its neighbours in the targets of cross-entropy
    #[arg(long, value_name = "BETA", default_value_t = 0.0, allow_negative_numbers = true)]
    target_transport: f64,
    /// How far it moves: the temperature of the softmax over costs
    #[arg(long, value_name = "TAU", default_value_t = 0.3, allow_negative_numbers = true)]
    target_temperature: f64,
    /// The metric set whose costs it moves by
    #[arg(long, value_enum, default_value = "w2")]
    target_metric: MetricName,
    /// Which labels are neighbours [default: --geometry]
    #[arg(long, value_enum)]
    target_geometry: Option<Geometry>,
    /// Part of the targets that is spread over all labels alike
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    label_smoothing: f64,
}

impl LossOptions {
    /// The objective, and what a model says of it. Without vectors, labels are one-hot.
    pub fn read(
        &self,
        sets: &SetOptions,
        protocol: Option<Protocol>,
        seed: u64,
        train: &Dataset,
        vectors: Option<&Array2<f64>>,
    ) -> Result<Trained, Failure> {
        let targets = train.targets();
        let (labels, seed) = (targets.labels(), self.group_seed.unwrap_or(seed));
        let loss = self.loss.unwrap_or(if protocol.is_some() { LossName::P } else { LossName::Mix });
        self.check(loss, sets)?;
        let by_targets = self.target_geometry.unwrap_or(self.geometry);
        // Who asks for vectors, and of which kind.
        let (of_loss, of_targets) = (loss.metric().is_some(), self.target_transport > 0.0);
        let asked = [of_loss.then_some(self.geometry), of_targets.then_some(by_targets)];
        let geometries = Geometries::new(asked, train, vectors)?;
        let mut about = About {
            loss: loss.name(),
            geometry: if of_loss { value_name(self.geometry) } else { String::new() },
            target_geometry: if of_targets { value_name(by_targets) } else { String::new() },
            target_transport: self.target_transport,
            target_temperature: self.target_temperature,
            target_metric: value_name(self.target_metric),
            label_smoothing: self.label_smoothing,
            ..About::default()
        };
        let objective = match loss.metric() {
            None if loss == LossName::Bce => Objective::binary(labels),
            None => {
                about.mix_ce = 1.0;
                Objective::cross_entropy(labels)
            }
            Some(metric) => self.transport(
                (loss, metric),
                sets,
                protocol,
                seed,
                geometries.of(self.geometry),
                &mut about,
            )?,
        };
        let soft = self.soft_targets(sets, seed, targets, geometries.of(by_targets))?;
        // What explains a prediction is what the loss went by; without one, what its targets did.
        let explains = if of_loss { self.geometry } else { by_targets };
        let geometry = geometries.rows.filter(|_| explains == Geometry::Rows);
        Ok(Trained { objective: objective.with_targets(soft), about, geometry })
    }

    fn settings(&self, set: MetricSet) -> LossSettings {
        LossSettings {
            set,
            entropy: self.entropy,
            oracle_entropy: self.oracle_entropy,
            frank_wolfe: self.fw_iterations,
            sinkhorn: self.sinkhorn_iterations,
            tolerance: 0.0,
        }
    }

    /// Out of range is refused even where a value does nothing.
    fn check(&self, loss: LossName, sets: &SetOptions) -> Result<(), Failure> {
        if sets.groups == Some(0) {
            return Err(Failure::Input("--groups must be at least 1, but is 0".into()));
        }
        sets.check_ranges(loss.metric().unwrap_or(MetricName::Kl))?;
        self.settings(MetricSet::W2).check()?;
        let given = [("--mix-ce", self.mix_ce), ("--mix-ot", self.mix_ot)];
        match given.into_iter().find(|(_, weight)| weight.is_some()) {
            Some((option, _)) if loss.metric().is_none() => Err(Failure::Input(format!(
                "{option} must go with a loss that has transport, but --loss is {}",
                loss.name()
            ))),
            _ => Ok(()),
        }
    }

    fn transport(
        &self,
        (loss, metric): (LossName, MetricName),
        sets: &SetOptions,
        protocol: Option<Protocol>,
        seed: u64,
        vectors: &Array2<f64>,
        about: &mut About,
    ) -> Result<Objective, Failure> {
        let metric = protocol.map_or(metric, |protocol| protocol.metric(metric));
        let set = sets.set(metric)?;
        let grouping = grouping(metric, sets, protocol, seed, vectors.ncols())?;
        let mut settings = self.settings(set);
        if protocol.is_some() {
            settings.oracle_entropy.get_or_insert(ORACLE_ENTROPY_OF_THE_PAPER);
        }
        let (ce, ot) = if loss == LossName::Mix { (1.0, MIX_OT) } else { (0.0, 1.0) };
        let (ce, mut ot) = (self.mix_ce.unwrap_or(ce), self.mix_ot.unwrap_or(ot));
        if protocol == Some(Protocol::AuthorsCode) && matches!(settings.set, MetricSet::Ds { .. }) {
            // Row sums 1/r instead of 1 divide metric and costs by r, which is a loss 1/r as large at r times the entropies.
            let r = grouping.groups() as f64;
            settings.entropy *= r;
            settings.oracle_entropy = settings.oracle_entropy.map(|entropy| entropy * r);
            ot /= r;
        }
        about.mix_ce = ce;
        about.mix_ot = ot;
        about.groups = Some(grouping.assignment().to_vec());
        about.robust = Some(settings.clone());
        Ok(Objective::mix(ce, ot, RobustLoss::new(vectors, &grouping, settings)?)?)
    }

    fn soft_targets(
        &self,
        sets: &SetOptions,
        seed: u64,
        targets: &Targets,
        vectors: &Array2<f64>,
    ) -> Result<SoftTargets, Failure> {
        // Out of range is refused even where it would do nothing.
        let (grouping, set) = if self.target_transport > 0.0 {
            (grouping(self.target_metric, sets, None, seed, vectors.ncols())?, sets.set(self.target_metric)?)
        } else {
            (Grouping::none(vectors.ncols()), MetricSet::W2)
        };
        let mut frequencies = Array1::zeros(targets.labels());
        for row in 0..targets.rows() {
            let truth = targets.row(row);
            truth.iter().for_each(|&label| frequencies[label] += 1.0 / truth.len() as f64);
        }
        let (moved, temperature) = (self.target_transport, self.target_temperature);
        let soft =
            SoftTargets::transported(vectors, &grouping, &set, moved, temperature, Some(&frequencies))?;
        Ok(soft.with_smoothing(self.label_smoothing)?)
    }
}

/// The groups of the label vectors' features: those asked for, or ten where the metric would be large without.
fn grouping(
    metric: MetricName,
    sets: &SetOptions,
    protocol: Option<Protocol>,
    seed: u64,
    dim: usize,
) -> Result<Grouping, Failure> {
    let mut sets = sets.clone();
    let spectral = matches!(metric, MetricName::Srw | MetricName::Rkp);
    let named = matches!(sets.grouping.as_deref(), None | Some("contiguous" | "interleaved" | "random"));
    if sets.groups.is_none() && !spectral && named {
        sets.groups = Some(GROUPS.min(dim));
    }
    if protocol.is_some() && sets.grouping.is_none() && sets.groups.is_some() {
        sets.grouping = Some("random".into());
    }
    let groups: Groups = sets.groups(seed)?;
    groups.of(dim)
}

/// The loss with its parameters, in a few words.
pub fn describe_loss(about: &About) -> String {
    let mut parts = Vec::new();
    if about.mix_ce > 0.0 {
        parts.push(format!("{} · cross-entropy", about.mix_ce));
    }
    if let Some(robust) = &about.robust {
        let groups = about
            .groups
            .as_ref()
            .and_then(|groups| groups.iter().max())
            .map_or(0, |top| top.saturating_add(1));
        let whose = if about.geometry == "rows" { " of the rows" } else { "" };
        parts.push(format!("{} · {} in {groups} groups{whose}", about.mix_ot, robust.set));
    }
    if parts.is_empty() {
        parts.push("binary cross-entropy".into());
    }
    let mut words = vec![parts.join(" + ")];
    if about.target_transport > 0.0 {
        let About { target_transport, target_temperature, target_metric, .. } = about;
        let whose = if about.target_geometry == "rows" { "rows" } else { "names" };
        words.push(format!(
            "{target_transport} of each target moved by {target_metric} of the {whose} at {target_temperature}"
        ));
    }
    if about.label_smoothing > 0.0 {
        words.push(format!("label smoothing {}", about.label_smoothing));
    }
    words.join(", ")
}
