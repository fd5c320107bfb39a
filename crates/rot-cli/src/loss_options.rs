//! The options of the loss, and the library values they stand for.

use clap::Args;
use robust_ot::sets::MetricFamily;
use robust_ot_learn::{Geometry, LossChoice, LossName, MixBase, Protocol, TargetChoice};

use crate::failure::Failure;
use crate::metric_options::{METRICS, SetOptions};
use crate::parse::named;

/// The losses.
const LOSSES: [(&str, &str); 13] = [
    ("mix", "Cross-entropy plus robust transport with the entry-wise norm ball"),
    ("ce", "Cross-entropy"),
    ("bce", "Binary cross-entropy of each label separately"),
    (
        "asl",
        "Asymmetric loss: bce with a focus on labels that are hard, for rows with several labels; in steps (adam or sgd)",
    ),
    ("square", "Squared error of each label separately (ridge), calibrated on held-out rows"),
    ("p", "W_P, --k"),
    ("p-power", "The 2k-th power of p, --k"),
    ("kl", "W_KL, --lambda, --prior"),
    ("ds", "W_DS, --lambda, --prior"),
    ("w2", "W2²"),
    ("features", "Weights on individual features or groups, --lambda"),
    ("srw", "Subspace robust, --k dimensions"),
    ("rkp", "Schatten norm ball, --rho"),
];

/// What transport is mixed with.
const BASES: [(&str, &str); 2] =
    [("ce", "Cross-entropy"), ("asl", "The asymmetric loss; probabilities are then those of a sigmoid")];

/// Which labels are close.
const GEOMETRIES: [(&str, &str); 2] = [
    ("names", "--label-vectors, or one-hot"),
    ("rows", "The mean features of the training rows with each label, relative to the mean of all rows"),
];

/// What is minimized.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Loss")]
pub struct LossOptions {
    /// The loss; a metric's name means transport alone, unless --mix-ce is given [default: chosen among ce, bce, square
    /// and sums of the last two on held-out rows; mix with the optimizer adam or sgd; p with --protocol]
    #[arg(long, value_parser = named::<LossName>(&LOSSES))]
    loss: Option<LossName>,
    /// Weight of --mix-base [default: 1 with mix, 0 with a metric's name]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    mix_ce: Option<f64>,
    /// Weight of transport [default: 5 with mix, 1 with a metric's name]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    mix_ot: Option<f64>,
    /// What transport is mixed with
    #[arg(long, value_parser = named::<MixBase>(&BASES), default_value = "ce")]
    mix_base: MixBase,
    /// Power of 1 − p for true labels in asl [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    asl_positive: Option<f64>,
    /// Power of p − margin for other labels in asl [default: 4]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    asl_negative: Option<f64>,
    /// Probability up to which a label that is not true costs nothing in asl [default: 0.05]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    asl_margin: Option<f64>,
    /// Weight of the entropy of the plan in the loss
    #[arg(long, value_name = "X", default_value_t = LossChoice::default().entropy, allow_negative_numbers = true)]
    entropy: f64,
    /// Entropic regularization of the inner linear problems [default: --entropy; 0.2 with --protocol]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    oracle_entropy: Option<f64>,
    /// Relative gap at which the transport of a row with several labels is found; 0 takes all iterations, whatever they
    /// reach [default: 0.001; 0 with --protocol or --oracle-entropy]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    loss_tolerance: Option<f64>,
    /// Most Frank-Wolfe iterations per loss [default: 100; 1 where --loss-tolerance is 0]
    #[arg(long, value_name = "N")]
    fw_iterations: Option<usize>,
    /// Most Sinkhorn iterations per linear problem [default: 1000; 10 where --loss-tolerance is 0]
    #[arg(long, value_name = "N")]
    sinkhorn_iterations: Option<usize>,
    /// Seed of --grouping random [default: --seed]
    #[arg(long, value_name = "N")]
    group_seed: Option<u64>,
    /// What defines which labels are close in the loss; scores always use --label-vectors
    #[arg(long, value_parser = named::<Geometry>(&GEOMETRIES), default_value = "names")]
    geometry: Geometry,
    /// Fraction of each true label's mass that moves to its neighbors in the targets of cross-entropy
    #[arg(long, value_name = "BETA", default_value_t = TargetChoice::default().transport, allow_negative_numbers = true)]
    target_transport: f64,
    /// Temperature of the softmax over costs: how far this mass moves
    #[arg(long, value_name = "TAU", default_value_t = TargetChoice::default().temperature, allow_negative_numbers = true)]
    target_temperature: f64,
    /// Metric set whose costs decide where this mass moves
    #[arg(long, value_parser = named::<MetricFamily>(&METRICS), default_value = "w2")]
    target_metric: MetricFamily,
    /// What defines which labels are neighbors [default: --geometry]
    #[arg(long, value_parser = named::<Geometry>(&GEOMETRIES))]
    target_geometry: Option<Geometry>,
    /// Fraction of the targets that is spread evenly over all labels
    #[arg(long, value_name = "X", default_value_t = TargetChoice::default().smoothing, allow_negative_numbers = true)]
    label_smoothing: f64,
}

impl LossOptions {
    /// The choices, with prior and grouping read from their files.
    pub fn read(
        &self,
        sets: &SetOptions,
        protocol: Option<Protocol>,
    ) -> Result<(LossChoice, TargetChoice), Failure> {
        let targets = TargetChoice {
            transport: self.target_transport,
            temperature: self.target_temperature,
            metric: self.target_metric,
            geometry: self.target_geometry,
            smoothing: self.label_smoothing,
        };
        let loss = LossChoice {
            name: self.loss,
            mix_ce: self.mix_ce,
            mix_ot: self.mix_ot,
            mix_base: self.mix_base,
            asl_positive: self.asl_positive,
            asl_negative: self.asl_negative,
            asl_margin: self.asl_margin,
            groups: sets.groups,
            grouping: sets.rule()?,
            group_seed: self.group_seed,
            entropy: self.entropy,
            oracle_entropy: self.oracle_entropy,
            frank_wolfe: self.fw_iterations,
            sinkhorn: self.sinkhorn_iterations,
            tolerance: self.loss_tolerance,
            geometry: self.geometry,
            ..LossChoice::default()
        };
        let name = loss.name_under(protocol);
        let of_targets = (targets.transport > 0.0).then_some(targets.metric);
        let families = name.family().into_iter().chain(of_targets);
        sets.note_unused(name.name(), families.clone());
        self.note_unused(name, sets);
        let parameters = sets.parameters_of(families)?;
        Ok((LossChoice { parameters, ..loss }, targets))
    }

    /// Notes options of transport that have another value than their default and no effect.
    fn note_unused(&self, name: LossName, sets: &SetOptions) {
        let (loss, targets) = (LossChoice::default(), TargetChoice::default());
        let moves = self.target_transport > 0.0;
        // Without --loss, held-out rows choose it.
        let transports = moves || self.loss.is_none() || name.family().is_some();
        let of_loss = [
            ("--entropy", self.entropy.total_cmp(&loss.entropy).is_ne()),
            ("--oracle-entropy", self.oracle_entropy.is_some()),
            ("--fw-iterations", self.fw_iterations != loss.frank_wolfe),
            ("--sinkhorn-iterations", self.sinkhorn_iterations != loss.sinkhorn),
            ("--geometry", self.geometry != loss.geometry),
            ("--groups", sets.groups.is_some()),
        ];
        let of_targets = [
            ("--target-temperature", self.target_temperature.total_cmp(&targets.temperature).is_ne()),
            ("--target-metric", self.target_metric != targets.metric),
            ("--target-geometry", self.target_geometry.is_some()),
        ];
        for (option, _) in of_loss.iter().filter(|(_, given)| *given && !transports) {
            say!(
                "rot: note: {option} has no effect with {}; it belongs to losses with transport",
                name.name()
            );
        }
        for (option, _) in of_targets.iter().filter(|(_, given)| *given && !moves) {
            say!("rot: note: {option} has no effect without --target-transport");
        }
    }
}
