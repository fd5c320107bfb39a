//! The choice of the loss, and the objective it stands for.

use std::fmt;
use std::str::FromStr;

use ndarray::Array2;
use robust_ot::loss::{LossSettings, RobustLoss};
use robust_ot::sets::{GroupingRule, MetricFamily, SetParameters};
use robust_ot::{Error, Grouping, MetricSet, Result};

use super::geometry::Geometry;
use super::protocol::Protocol;
use crate::asymmetric::Asymmetric;
use crate::objective::Objective;

/// The paper's entropic regularization of the linear problems.
const ORACLE_ENTROPY_OF_THE_PAPER: f64 = 0.2;

/// The losses by name.
///
/// ```
/// use robust_ot::sets::MetricFamily;
/// use robust_ot_learn::LossName;
///
/// assert_eq!("ce".parse::<LossName>()?, LossName::CrossEntropy);
/// assert_eq!("kl".parse::<LossName>()?, LossName::Transport(MetricFamily::Kl));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossName {
    /// Cross-entropy plus transport with the entry-wise norm ball.
    Mix,
    /// Cross-entropy.
    CrossEntropy,
    /// Binary cross-entropy, summed over labels.
    BinaryCrossEntropy,
    /// Binary cross-entropy with a focus on hard labels and a margin, summed over labels: see [`Asymmetric`].
    Asymmetric,
    /// Half the squared error of the logits, summed over labels.
    Square,
    /// Transport with the sets of this family.
    Transport(MetricFamily),
}

impl LossName {
    /// The name in model files, on the command line and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mix => "mix",
            Self::CrossEntropy => "ce",
            Self::BinaryCrossEntropy => "bce",
            Self::Asymmetric => "asl",
            Self::Square => "square",
            Self::Transport(family) => family.name(),
        }
    }

    /// The family of its transport, if it has one.
    pub fn family(self) -> Option<MetricFamily> {
        match self {
            Self::CrossEntropy | Self::BinaryCrossEntropy | Self::Asymmetric | Self::Square => None,
            Self::Mix => Some(MetricFamily::P),
            Self::Transport(family) => Some(family),
        }
    }
}

impl fmt::Display for LossName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LossName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "mix" => Ok(Self::Mix),
            "ce" => Ok(Self::CrossEntropy),
            "bce" => Ok(Self::BinaryCrossEntropy),
            "asl" => Ok(Self::Asymmetric),
            "square" => Ok(Self::Square),
            other => other.parse().map(Self::Transport).map_err(|_| {
                Error::parameter(
                    "loss",
                    "mix, ce, bce, asl, square, p, p-power, kl, ds, w2, features, srw or rkp",
                    other,
                )
            }),
        }
    }
}

/// What a loss with transport is mixed with.
///
/// ```
/// use robust_ot_learn::MixBase;
/// assert_eq!("asl".parse::<MixBase>()?, MixBase::Asymmetric);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MixBase {
    /// Cross-entropy of a softmax.
    #[default]
    CrossEntropy,
    /// The asymmetric loss of a sigmoid.
    Asymmetric,
}

impl FromStr for MixBase {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "ce" => Ok(Self::CrossEntropy),
            "asl" => Ok(Self::Asymmetric),
            other => Err(Error::parameter("mix_base", "ce or asl", other)),
        }
    }
}

/// Which loss to train with.
///
/// | name | default | purpose |
/// |---|---|---|
/// | `name` | chosen among ce, bce, square and sums of the last two over all rows at once ([`Method`](super::Method)); else mix, or p with a [`Protocol`] | the loss |
/// | `mix_ce`, `mix_ot` | 1 and 5 with mix, 0 and 1 with a family's name | weights of the base and of transport |
/// | `mix_base` | ce | what transport is mixed with |
/// | `asl_positive`, `asl_negative`, `asl_margin` | those of [`Asymmetric`] | parameters of the asymmetric loss |
/// | `parameters` | k = 1, ρ = 2, λ = 1 | parameters of the metric set |
/// | `groups` | 10; no grouping for srw and rkp | number of groups of the label vectors' features |
/// | `grouping` | contiguous; random with a [`Protocol`] | how they are grouped |
/// | `group_seed` | seed of the fit | seed of random groups |
/// | `entropy` | 0.02 | weight of the entropy of the plan |
/// | `oracle_entropy` | `entropy`; 0.2 with a [`Protocol`] | entropic regularization of the inner linear problems |
/// | `frank_wolfe`, `sinkhorn` | 100, 1000; 1, 10 where the tolerance is 0 | most iterations per loss and per linear problem |
/// | `tolerance` | 1e-3; 0 with a [`Protocol`] or an `oracle_entropy` | relative gap at which W is found |
/// | `geometry` | names | which labels are close |
///
/// ```
/// assert_eq!(robust_ot_learn::LossChoice::default().entropy, 0.02);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LossChoice {
    /// The loss.
    pub name: Option<LossName>,
    /// α of the base.
    pub mix_ce: Option<f64>,
    /// α_ot.
    pub mix_ot: Option<f64>,
    /// What transport is mixed with.
    pub mix_base: MixBase,
    /// γ₊ of the asymmetric loss.
    pub asl_positive: Option<f64>,
    /// γ₋ of the asymmetric loss.
    pub asl_negative: Option<f64>,
    /// The margin of the asymmetric loss.
    pub asl_margin: Option<f64>,
    /// Parameters of the metric set.
    pub parameters: SetParameters,
    /// Number of groups.
    pub groups: Option<usize>,
    /// How features are grouped.
    pub grouping: Option<GroupingRule>,
    /// Seed of random groups.
    pub group_seed: Option<u64>,
    /// λ_γ.
    pub entropy: f64,
    /// Entropic regularization of the inner linear problems.
    pub oracle_entropy: Option<f64>,
    /// The most Frank-Wolfe iterations.
    pub frank_wolfe: Option<usize>,
    /// The most Sinkhorn iterations.
    pub sinkhorn: Option<usize>,
    /// The relative gap at which W is found; 0 for all iterations, whatever they reach.
    pub tolerance: Option<f64>,
    /// Which labels are close.
    pub geometry: Geometry,
}

impl Default for LossChoice {
    fn default() -> Self {
        Self {
            name: None,
            mix_ce: None,
            mix_ot: None,
            mix_base: MixBase::CrossEntropy,
            asl_positive: None,
            asl_negative: None,
            asl_margin: None,
            parameters: SetParameters::default(),
            groups: None,
            grouping: None,
            group_seed: None,
            entropy: 0.02,
            oracle_entropy: None,
            frank_wolfe: None,
            sinkhorn: None,
            tolerance: None,
            geometry: Geometry::Names,
        }
    }
}

/// An objective without its targets, and the parts that a model records.
pub(super) struct BuiltLoss {
    pub(super) objective: Objective,
    pub(super) mix_ce: f64,
    pub(super) mix_ot: f64,
    pub(super) groups: Option<Vec<usize>>,
    pub(super) robust: Option<LossSettings>,
    pub(super) asymmetric: Option<Asymmetric>,
}

impl LossChoice {
    /// The default number of groups of the label vectors' features.
    pub const GROUPS: usize = 10;
    /// The weight of transport in the mix. With ten groups, and on five data sets (docs/learning.md), it gave an AUC no
    /// lower than cross-entropy's and a lower semantic cost.
    pub const MIX_OT: f64 = 5.0;

    /// Whether an option is given that only losses with transport have.
    pub(super) fn states_transport(&self) -> bool {
        let usual = Self { name: self.name, ..Self::default() };
        *self != usual
    }

    /// The parameters of the asymmetric loss.
    fn asymmetric(&self) -> Asymmetric {
        let usual = Asymmetric::default();
        Asymmetric {
            positive: self.asl_positive.unwrap_or(usual.positive),
            negative: self.asl_negative.unwrap_or(usual.negative),
            margin: self.asl_margin.unwrap_or(usual.margin),
        }
    }

    /// Whether the asymmetric loss is minimized, alone or in a mix.
    pub(super) fn is_asymmetric(&self) -> bool {
        self.name == Some(LossName::Asymmetric) || self.mix_base == MixBase::Asymmetric
    }

    /// The loss of stochastic steps under a protocol.
    pub fn name_under(&self, protocol: Option<Protocol>) -> LossName {
        let usual = if protocol.is_some() { LossName::Transport(MetricFamily::P) } else { LossName::Mix };
        self.name.unwrap_or(usual)
    }

    /// Refuses values out of range, even where they have no effect.
    pub(super) fn check(&self, loss: LossName, protocol: Option<Protocol>) -> Result<()> {
        if self.groups == Some(0) {
            return Err(Error::parameter("groups", "at least 1", 0));
        }
        self.parameters.check()?;
        self.settings(MetricSet::W2, protocol).check()?;
        self.asymmetric().check()?;
        let given = [("mix_ce", self.mix_ce), ("mix_ot", self.mix_ot)];
        for (name, weight) in given {
            if let Some(weight) = weight.filter(|weight| !(*weight >= 0.0 && weight.is_finite())) {
                return Err(Error::parameter(name, "finite and not negative", weight));
            }
        }
        let conflict = |name, rule: &str| {
            Err(Error::Conflict { name, rule: rule.into(), found: format!("the loss is {loss}") })
        };
        let of_mix = given.map(|(name, weight)| (name, weight.is_some()));
        let of_mix = [of_mix[0], of_mix[1], ("mix_base", self.mix_base != MixBase::default())];
        if let Some((name, _)) = of_mix.into_iter().find(|(_, given)| *given && loss.family().is_none()) {
            return conflict(name, "go with a loss that has transport");
        }
        let of_base = [
            ("asl_positive", self.asl_positive),
            ("asl_negative", self.asl_negative),
            ("asl_margin", self.asl_margin),
        ];
        match of_base.into_iter().find(|(_, value)| value.is_some()) {
            Some((name, _)) if !self.is_asymmetric() => {
                conflict(name, "go with the loss or the mix_base asl")
            }
            _ => Ok(()),
        }
    }

    /// The objective for labels with these vectors.
    pub(super) fn build(
        &self,
        protocol: Option<Protocol>,
        seed: u64,
        labels: usize,
        vectors: &Array2<f64>,
    ) -> Result<BuiltLoss> {
        let loss = self.name_under(protocol);
        let plain = |objective, mix_ce| BuiltLoss {
            objective,
            mix_ce,
            mix_ot: 0.0,
            groups: None,
            robust: None,
            asymmetric: None,
        };
        match loss.family() {
            None if loss == LossName::BinaryCrossEntropy => Ok(plain(Objective::binary(labels), 0.0)),
            None if loss == LossName::Asymmetric => {
                let asymmetric = self.asymmetric();
                let objective = Objective::asymmetric(labels, asymmetric)?;
                Ok(BuiltLoss { asymmetric: Some(asymmetric), ..plain(objective, 0.0) })
            }
            None if loss == LossName::Square => Ok(plain(Objective::square(labels), 0.0)),
            None => Ok(plain(Objective::cross_entropy(labels), 1.0)),
            Some(family) => self.transport((loss, family), protocol, seed, vectors),
        }
    }

    fn transport(
        &self,
        (loss, family): (LossName, MetricFamily),
        protocol: Option<Protocol>,
        seed: u64,
        vectors: &Array2<f64>,
    ) -> Result<BuiltLoss> {
        let family = protocol.map_or(family, |protocol| protocol.family(family));
        let grouping = self.grouping(family, protocol, seed, vectors.ncols())?;
        let mut settings = self.settings(family.set(self.parameters.clone())?, protocol);
        let (ce, ot) = if loss == LossName::Mix { (1.0, Self::MIX_OT) } else { (0.0, 1.0) };
        let (mix_ce, mut mix_ot) = (self.mix_ce.unwrap_or(ce), self.mix_ot.unwrap_or(ot));
        if protocol == Some(Protocol::AuthorsCode) && matches!(settings.set, MetricSet::Ds { .. }) {
            // Row sums of 1/r instead of 1 divide metric and costs by r: a loss 1/r as large at r times the entropies.
            let r = grouping.groups() as f64;
            settings.entropy *= r;
            settings.oracle_entropy = settings.oracle_entropy.map(|entropy| entropy * r);
            mix_ot /= r;
        }
        let groups = Some(grouping.assignment().to_vec());
        let robust = Some(settings.clone());
        let mut objective = Objective::mix(mix_ce, mix_ot, RobustLoss::new(vectors, &grouping, settings)?)?;
        let asymmetric = (self.mix_base == MixBase::Asymmetric).then(|| self.asymmetric());
        if let Some(loss) = asymmetric {
            objective = objective.with_asymmetric(loss)?;
        }
        Ok(BuiltLoss { objective, mix_ce, mix_ot, groups, robust, asymmetric })
    }

    fn settings(&self, set: MetricSet, protocol: Option<Protocol>) -> LossSettings {
        let of_protocol = protocol.map(|_| (ORACLE_ENTROPY_OF_THE_PAPER, 0.0));
        let oracle_entropy = self.oracle_entropy.or(of_protocol.map(|(entropy, _)| entropy));
        let tolerance = self.tolerance.or(of_protocol.map(|(_, tolerance)| tolerance));
        let settings = LossSettings { set, entropy: self.entropy, oracle_entropy, ..LossSettings::default() };
        settings.with_iterations(self.frank_wolfe, self.sinkhorn, tolerance)
    }

    /// The groups of the label vectors' features: the given ones, or ten where the metric would otherwise be large.
    pub(super) fn grouping(
        &self,
        family: MetricFamily,
        protocol: Option<Protocol>,
        seed: u64,
        dim: usize,
    ) -> Result<Grouping> {
        let explicit = matches!(self.grouping, Some(GroupingRule::Explicit(_)));
        let groups = self.groups.or_else(|| Self::default_groups(family, dim).filter(|_| !explicit));
        let usual = if protocol.is_some() && groups.is_some() {
            GroupingRule::Random
        } else {
            GroupingRule::Contiguous
        };
        let rule = self.grouping.as_ref().unwrap_or(&usual);
        rule.group(dim, groups, self.group_seed.unwrap_or(seed))
    }

    /// The default number of groups for label vectors of this length; `None` for families that rotate freely.
    pub fn default_groups(family: MetricFamily, dim: usize) -> Option<usize> {
        let spectral = matches!(family, MetricFamily::Srw | MetricFamily::Rkp);
        (!spectral).then_some(Self::GROUPS.min(dim))
    }
}
