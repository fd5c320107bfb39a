//! The training objective: $\alpha_{ce}\,\mathrm{CE}(\mu, h) + \alpha_{ot}\,W(h, \hat y)$, where $h$ is the softmax of the
//! logits; binary cross-entropy or the asymmetric loss of each label separately; or half the squared error of the logits
//! themselves. The asymmetric loss can take the place of cross-entropy in the sum.

use ndarray::Array2;
use rayon::prelude::*;
use robust_ot::linalg::{flat, flat_mut, row as row_of};
use robust_ot::loss::{LossWorkspace, RobustLoss, Targets};
use robust_ot::{Error, Kernels, Result};
use serde::{Deserialize, Serialize};

use crate::asymmetric::Asymmetric;
use crate::fingerprint::Fingerprint;
use crate::soft_targets::SoftTargets;

/// How logits become probabilities.
///
/// ```
/// use robust_ot_learn::Output;
/// let mut row = [0.0, 0.0];
/// Output::Softmax.probabilities(&mut row);
/// assert_eq!(row, [0.5, 0.5]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// e^z / Σ e^z: labels share one unit of probability.
    Softmax,
    /// 1 / (1 + e^−z): labels have independent probabilities.
    Sigmoid,
}

impl Output {
    /// Turns one row of logits into probabilities, in place.
    pub fn probabilities(self, row: &mut [f64]) {
        match self {
            Self::Softmax => {
                let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum = f64::exp_shifted(row, top);
                row.iter_mut().for_each(|x| *x /= sum);
            }
            Self::Sigmoid => row.iter_mut().for_each(|x| {
                let power = (-x.abs()).exp();
                *x = if *x >= 0.0 { 1.0 / (1.0 + power) } else { power / (1.0 + power) };
            }),
        }
    }
}

/// The loss of a training run.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Grouping;
/// use robust_ot_learn::{Objective, Output};
/// use robust_ot::loss::{LossSettings, RobustLoss};
///
/// let robust = RobustLoss::new(&array![[0.0], [1.0]], &Grouping::none(1), LossSettings::default())?;
/// let mix = Objective::mix(1.0, 5.0, robust)?;
/// assert_eq!((mix.labels(), mix.output()), (2, Output::Softmax));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Objective {
    labels: usize,
    base: Base,
    /// α, the weight of the base in a sum with transport.
    cross_entropy: f32,
    /// α_ot, and W.
    transport: Option<(f32, RobustLoss<f32>)>,
    soft: SoftTargets,
    /// R = K^½ of the prior on the output weights, W = A R, of a model with a hidden layer.
    label_root: Option<Array2<f32>>,
}

/// The loss of a row's logits z with targets t.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Base {
    /// Functions of the softmax.
    Softmax,
    /// Σ ln(1 + e^z) − t z.
    Binary,
    /// ½ Σ (z − t)².
    Square,
    /// Binary cross-entropy with a focus and a margin.
    Asymmetric(Asymmetric),
}

/// Buffers reused from batch to batch.
#[derive(Debug, Default)]
pub(super) struct ObjectiveWorkspace {
    log_predictions: Array2<f32>,
    /// The gradient of a base of separate labels, in a sum with transport.
    of_base: Array2<f32>,
    robust: LossWorkspace<f32>,
    losses: Vec<f64>,
}

impl Objective {
    /// Cross-entropy with a softmax.
    pub fn cross_entropy(labels: usize) -> Self {
        let soft = SoftTargets::hard();
        Self { labels, base: Base::Softmax, cross_entropy: 1.0, transport: None, soft, label_root: None }
    }

    /// Binary cross-entropy, summed over labels, with a sigmoid.
    pub fn binary(labels: usize) -> Self {
        Self { base: Base::Binary, ..Self::cross_entropy(labels) }
    }

    /// ½ Σ (z − t)² over labels, with t = 1 for true labels and 0 for others. Its logits are no logarithms of odds until
    /// they are calibrated.
    ///
    /// ```
    /// use robust_ot_learn::{Objective, Output};
    /// assert_eq!(Objective::square(3).output(), Output::Sigmoid);
    /// ```
    pub fn square(labels: usize) -> Self {
        Self { base: Base::Square, ..Self::cross_entropy(labels) }
    }

    /// α_ce · cross-entropy + α_ot · W.
    ///
    /// # Errors
    /// When a weight is negative or not finite, or both are zero.
    pub fn mix(cross_entropy: f64, transport: f64, robust: RobustLoss<f32>) -> Result<Self> {
        for (name, value) in [("mix_ce", cross_entropy), ("mix_ot", transport)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::parameter(name, "finite and not negative", value));
            }
        }
        if cross_entropy + transport <= 0.0 {
            return Err(Error::parameter("mix_ce", "positive where mix_ot is 0", cross_entropy));
        }
        let base = Self::cross_entropy(robust.labels());
        Ok(Self { cross_entropy: cross_entropy as f32, transport: Some((transport as f32, robust)), ..base })
    }

    /// The asymmetric loss, summed over labels, with a sigmoid.
    ///
    /// ```
    /// use robust_ot_learn::{Asymmetric, Objective, Output};
    /// assert_eq!(Objective::asymmetric(3, Asymmetric::default())?.output(), Output::Sigmoid);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a parameter is out of range.
    pub fn asymmetric(labels: usize, loss: Asymmetric) -> Result<Self> {
        Self::cross_entropy(labels).with_asymmetric(loss)
    }

    /// The asymmetric loss in place of cross-entropy: α · ASL + α_ot · W in a mix. Probabilities are then those of a sigmoid,
    /// and W compares the softmax of the same logits with the true labels.
    ///
    /// # Errors
    /// When a parameter is out of range.
    pub fn with_asymmetric(self, loss: Asymmetric) -> Result<Self> {
        loss.check()?;
        Ok(Self { base: Base::Asymmetric(loss), ..self })
    }

    /// Takes the cross-entropy against these targets instead of the true labels alone.
    #[must_use]
    pub fn with_targets(mut self, soft: SoftTargets) -> Self {
        self.soft = soft;
        self
    }

    /// Output weights W = A R of a model with a hidden layer: plain decay of A is then λ tr(W K⁻¹ Wᵀ) with K = R².
    pub(super) fn with_label_root(self, label_root: Option<Array2<f32>>) -> Self {
        Self { label_root, ..self }
    }

    /// R, if there is a prior.
    pub(super) fn label_root(&self) -> Option<&Array2<f32>> {
        self.label_root.as_ref()
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// How its logits become probabilities.
    pub fn output(&self) -> Output {
        match self.base {
            Base::Softmax => Output::Softmax,
            Base::Binary | Base::Square | Base::Asymmetric(_) => Output::Sigmoid,
        }
    }

    /// Whether it is the squared error.
    pub fn is_square(&self) -> bool {
        self.base == Base::Square
    }

    /// The parameters of the asymmetric loss, if it is the base.
    pub fn asymmetric_base(&self) -> Option<Asymmetric> {
        match self.base {
            Base::Asymmetric(loss) => Some(loss),
            _ => None,
        }
    }

    /// α_ce, the weight of cross-entropy or of what takes its place.
    pub fn cross_entropy_weight(&self) -> f32 {
        self.cross_entropy
    }

    /// α_ot and W, if the objective includes transport.
    pub fn transport(&self) -> Option<(f32, &RobustLoss<f32>)> {
        self.transport.as_ref().map(|(weight, robust)| (*weight, robust))
    }

    /// The targets of the cross-entropy.
    pub fn targets(&self) -> &SoftTargets {
        &self.soft
    }

    /// Identifies the objective, to distinguish runs.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let mut found = Fingerprint::default();
        let SoftTargets { moved, smoothing, table } = &self.soft;
        found.add_text(&format!("{:?} {} {moved} {smoothing}", self.base, self.cross_entropy));
        if let Some((weight, robust)) = &self.transport {
            // Not Debug, which abbreviates large priors.
            let settings = serde_json::to_string(robust.settings()).unwrap_or_default();
            found.add_text(&format!("{weight} {settings} {}", robust.geometry().size));
            found.add_numbers(&robust.geometry().points);
        }
        table.iter().for_each(|table| found.add_numbers(table));
        self.label_root.iter().for_each(|root| found.add_numbers(root));
        found
    }

    /// Returns the summed losses of all rows, each times its weight, and replaces the logits with its gradient.
    pub(super) fn evaluate(
        &self,
        logits: &mut Array2<f32>,
        targets: &Targets,
        weights: Option<&[f32]>,
        workspace: &mut ObjectiveWorkspace,
    ) -> Result<f64> {
        self.evaluate_rows(logits, targets, workspace)?;
        if let Some(weights) = weights {
            let rows = flat_mut(logits).par_chunks_mut(self.labels).zip(&mut workspace.losses).zip(weights);
            rows.for_each(|((slopes, loss), weight)| {
                slopes.iter_mut().for_each(|slope| *slope *= weight);
                *loss *= f64::from(*weight);
            });
        }
        Ok(workspace.losses.iter().sum())
    }

    fn evaluate_rows(
        &self,
        logits: &mut Array2<f32>,
        targets: &Targets,
        workspace: &mut ObjectiveWorkspace,
    ) -> Result<()> {
        workspace.losses.resize(targets.rows(), 0.0);
        if self.base != Base::Softmax && self.transport.is_none() {
            self.separate_rows(logits, targets, &mut workspace.losses);
            return Ok(());
        }
        if self.base != Base::Softmax {
            hold(&mut workspace.of_base, logits);
            self.separate_rows(&mut workspace.of_base, targets, &mut workspace.losses);
        }
        hold(&mut workspace.log_predictions, logits);
        let width = self.labels;
        flat_mut(&mut workspace.log_predictions)
            .par_chunks_mut(width)
            .zip(flat_mut(logits).par_chunks_mut(width))
            .for_each(|(logs, predictions)| {
                let top = f32::extremes(logs).1 as f32;
                let sum = f32::exp_shifted(predictions, top);
                f32::add_constant(logs, -top - sum.ln() as f32);
                let inverse = (1.0 / sum) as f32;
                predictions.iter_mut().for_each(|h| *h *= inverse);
            });
        if let Some((_, robust)) = &self.transport {
            robust.loss_gradient_in(workspace.log_predictions.view(), targets, &mut workspace.robust)?;
        }
        match self.base {
            Base::Softmax => self.softmax_rows(logits, targets, workspace),
            _ => self.mixed_rows(logits, workspace),
        }
        Ok(())
    }

    /// Replaces h with α_ce (h − μ) + α_ot h ∘ (g − ⟨h, g⟩).
    fn softmax_rows(
        &self,
        predictions: &mut Array2<f32>,
        targets: &Targets,
        workspace: &mut ObjectiveWorkspace,
    ) {
        let ObjectiveWorkspace { log_predictions, robust, losses, .. } = workspace;
        let rows = flat_mut(predictions).par_chunks_mut(self.labels).zip(losses.par_iter_mut());
        let logs = flat_mut(log_predictions).par_chunks_mut(self.labels);
        rows.zip(logs).enumerate().for_each(|(row, ((h, loss), logs))| {
            let truth = targets.row(row);
            *loss = f64::from(self.cross_entropy) * self.cross_entropy_of(logs, truth);
            // The logarithms are no longer needed; their buffer now holds ∂/∂h.
            let slope = logs;
            match &self.transport {
                None => slope.fill(self.cross_entropy),
                Some((weight, _)) => {
                    *loss += f64::from(*weight) * robust.losses()[row];
                    let gradient = robust.gradients().row(row);
                    let gradient = gradient.to_slice().expect("rows are contiguous");
                    let mean = f32::dot(h, gradient) as f32;
                    slope.fill(self.cross_entropy - weight * mean);
                    f32::add_own(slope, *weight, gradient);
                }
            }
            f32::multiply(h, slope);
            if self.cross_entropy > 0.0 {
                self.soft.add_to(h, truth, -self.cross_entropy);
            }
        });
    }

    /// Replaces h with α ∇base + α_ot h ∘ (g − ⟨h, g⟩), and adds the losses in these proportions.
    fn mixed_rows(&self, predictions: &mut Array2<f32>, workspace: &mut ObjectiveWorkspace) {
        let Some((transport, _)) = &self.transport else { return };
        let ObjectiveWorkspace { of_base, robust, losses, .. } = workspace;
        let (base, robust) = (self.cross_entropy, &*robust);
        let rows = flat_mut(predictions).par_chunks_mut(self.labels).zip(losses.par_iter_mut());
        rows.zip(flat(of_base).par_chunks(self.labels)).enumerate().for_each(
            |(row, ((h, loss), of_base))| {
                *loss = f64::from(base) * *loss + f64::from(*transport) * robust.losses()[row];
                let gradient = robust.gradients().row(row);
                let gradient = gradient.to_slice().expect("rows are contiguous");
                let mean = f32::dot(h, gradient) as f32;
                for ((h, g), of_base) in h.iter_mut().zip(gradient).zip(of_base) {
                    *h = base * of_base + transport * *h * (g - mean);
                }
            },
        );
    }

    /// −Σ μ ln h.
    fn cross_entropy_of(&self, logs: &[f32], truth: &[usize]) -> f64 {
        let SoftTargets { moved, smoothing, table } = &self.soft;
        let (kept, moved) = (f64::from(1.0 - smoothing), f64::from(*moved));
        let share = 1.0 / truth.len() as f64;
        let mut sum = 0.0;
        for &label in truth {
            sum += kept * (1.0 - moved) * share * f64::from(logs[label]);
            if let Some(table) = table {
                sum += kept * moved * share * f32::dot(row_of(table, label), logs);
            }
        }
        if *smoothing > 0.0 {
            sum += f64::from(*smoothing) * f32::total(logs) / logs.len() as f64;
        }
        -sum
    }

    /// The losses of labels that do not share probability, with t = min(1, n_y μ): Σ ln(1 + e^z) − t z with the gradient
    /// σ(z) − t, ½ Σ (z − t)² with z − t, or the asymmetric loss.
    fn separate_rows(&self, logits: &mut Array2<f32>, targets: &Targets, losses: &mut [f64]) {
        let rows = flat_mut(logits).par_chunks_mut(self.labels).zip(losses.par_iter_mut()).enumerate();
        rows.for_each_init(
            || (vec![0.0; self.labels], vec![0.0; self.labels]),
            |(target, powers), (row, (logits, loss))| {
                self.write_target(targets.row(row), target);
                *loss = match self.base {
                    Base::Square => square(logits, target),
                    Base::Asymmetric(loss) => loss.row(logits, target, powers),
                    _ => binary(logits, target, powers),
                };
            },
        );
    }

    /// t = min(1, n_y μ) for one row.
    pub(super) fn write_target(&self, truth: &[usize], target: &mut [f32]) {
        target.fill(0.0);
        self.soft.add_to(target, truth, truth.len() as f32);
        target.iter_mut().for_each(|t| *t = t.min(1.0));
    }
}

/// Copies numbers into a buffer, which grows where it must.
fn hold(buffer: &mut Array2<f32>, numbers: &Array2<f32>) {
    if buffer.dim() == numbers.dim() {
        buffer.assign(numbers);
    } else {
        buffer.clone_from(numbers);
    }
}

/// Σ ln(1 + e^z) − t z = Σ max(z, 0) − t z + ln Π (1 + e^−|z|), which takes one logarithm per block of factors instead of
/// one per label. The logits become their derivatives; `powers` is a buffer.
fn binary(logits: &mut [f32], target: &[f32], powers: &mut [f32]) -> f64 {
    /// Each factor is at most 2, so the product of this many is finite.
    const FACTORS: usize = 512;
    powers.iter_mut().zip(&*logits).for_each(|(power, z)| *power = -z.abs());
    f32::exp_shifted(powers, 0.0);
    let mut loss = 0.0;
    for ((logits, target), powers) in
        logits.chunks_mut(FACTORS).zip(target.chunks(FACTORS)).zip(powers.chunks(FACTORS))
    {
        let (mut product, mut linear) = (1.0, 0.0);
        for ((z, t), power) in logits.iter_mut().zip(target).zip(powers) {
            product *= 1.0 + f64::from(*power);
            linear += f64::from(z.max(0.0)) - f64::from(*t) * f64::from(*z);
            let other = power / (1.0 + power);
            *z = if *z >= 0.0 { (1.0 - t) - other } else { other - t };
        }
        loss += product.ln() + linear;
    }
    loss
}

/// ½ Σ (z − t)²; the logits become their derivatives.
fn square(logits: &mut [f32], target: &[f32]) -> f64 {
    logits.iter_mut().zip(target).for_each(|(z, t)| *z -= t);
    0.5 * f32::dot(logits, logits)
}
