//! Losses and gradients of a batch.

use ndarray::{Array1, Array2, ArrayView2, Axis};
use rayon::prelude::*;

use super::chunk::{Chunk, Outs, Rows};
use super::labels::Labels;
use super::settings::LossSettings;
use super::targets::Targets;
use super::workspace::LossWorkspace;
use crate::error::{Error, Result};
use crate::grouping::Grouping;
use crate::interrupt::Interrupt;
use crate::kernels::Real;
use crate::linalg::{flat, flat_mut};

/// Rows that one thread processes at a time: enough for its matrix products, few enough for its caches. The number is
/// fixed, so that results do not depend on the number of threads.
const ROWS_PER_CHUNK: usize = 16;

/// The robust loss between softmax predictions and true labels, with label vectors as geometry.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Grouping;
/// use robust_ot::loss::{LossSettings, RobustLoss, Targets};
///
/// // Cat and dog are close, truck is far.
/// let vectors = array![[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]];
/// let loss = RobustLoss::<f64>::new(&vectors, &Grouping::none(2), LossSettings::default())?;
/// let log_predictions = array![[0.1_f64, 0.8, 0.1], [0.1, 0.1, 0.8]].mapv(f64::ln);
/// let truth = Targets::new(3, [[0], [0]])?;
/// let found = loss.loss_gradient(log_predictions.view(), &truth)?;
/// assert!(found.losses[0] < found.losses[1]); // taking a cat for a dog costs less than for a truck
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RobustLoss<T: Real = f64> {
    labels: Labels<T>,
    settings: LossSettings,
}

/// The losses and gradients of a batch.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Grouping;
/// use robust_ot::loss::{LossSettings, RobustLoss, Targets};
///
/// let loss = RobustLoss::<f64>::new(&array![[0.0], [1.0]], &Grouping::none(1), LossSettings::default())?;
/// let found = loss.loss_gradient(array![[0.5_f64.ln(), 0.5_f64.ln()]].view(), &Targets::new(2, [[0]])?)?;
/// assert!(found.gradients[[0, 1]] > 0.0 && found.gradients.sum().abs() < 1e-15);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LossGradient<T> {
    /// W of every row.
    pub losses: Array1<f64>,
    /// How far each loss may lie above W: 0 for rows with one label, the gap of a solve to a tolerance, and infinite where
    /// iterations are truncated, of which nothing is known.
    pub errors: Array1<f64>,
    /// ∇_h W of every row, along the simplex: each sums to zero.
    pub gradients: Array2<T>,
}

/// The plan and the metric behind the loss of one row; see [`RobustLoss::explain`].
#[derive(Debug, Clone)]
pub struct LossPlan {
    /// W.
    pub loss: f64,
    /// How far it may lie above W, as in [`LossGradient::errors`].
    pub error: f64,
    /// γ, labels × true labels: how much of the prediction goes to each true label.
    pub plan: Array2<f64>,
    /// The worst metric, r × r.
    pub metric: Array2<f64>,
}

impl<T: Real> From<LossWorkspace<T>> for LossGradient<T> {
    fn from(LossWorkspace { losses, errors, gradients, .. }: LossWorkspace<T>) -> Self {
        Self { losses, errors, gradients }
    }
}

impl<T: Real> RobustLoss<T> {
    /// Takes one vector per label.
    ///
    /// # Errors
    /// When there are fewer than two labels, a vector is not finite, or the grouping, metric set or settings do not fit.
    pub fn new(vectors: &Array2<f64>, grouping: &Grouping, settings: LossSettings) -> Result<Self> {
        settings.check()?;
        Ok(Self { labels: Labels::new(vectors, grouping, &settings.set)?, settings })
    }

    /// Number of labels L.
    pub fn labels(&self) -> usize {
        self.labels.points.nrows()
    }

    /// The settings of this loss.
    pub fn settings(&self) -> &LossSettings {
        &self.settings
    }

    /// The labels as points, with the quantities that are precomputed for them.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::Grouping;
    /// use robust_ot::loss::{LossSettings, RobustLoss};
    ///
    /// let loss = RobustLoss::<f64>::new(&array![[0.0], [2.0]], &Grouping::none(1), LossSettings::default())?;
    /// assert_eq!(loss.geometry().grams, array![[1.0], [1.0]]); // relative to their mean
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    pub fn geometry(&self) -> &Labels<T> {
        &self.labels
    }

    /// Losses and gradients for logarithms of predictions (log-softmax), one row per sample.
    ///
    /// A row with one label has only one plan, so its loss is exact. Rows with more labels iterate until they reach the
    /// tolerance of the settings, or as often as these say; `errors` tells how far they came.
    ///
    /// # Errors
    /// When shapes differ, a logarithm is not finite, or the metric is not representable.
    pub fn loss_gradient(
        &self,
        log_predictions: ArrayView2<T>,
        targets: &Targets,
    ) -> Result<LossGradient<T>> {
        let mut workspace = LossWorkspace::default();
        self.loss_gradient_in(log_predictions, targets, &mut workspace)?;
        Ok(workspace.into())
    }

    /// [`RobustLoss::loss_gradient`] that stops when interrupted; the remaining rows are not computed.
    ///
    /// # Errors
    /// As [`RobustLoss::loss_gradient`].
    pub fn loss_gradient_until(
        &self,
        log_predictions: ArrayView2<T>,
        targets: &Targets,
        interrupt: &Interrupt,
    ) -> Result<LossGradient<T>> {
        let mut workspace = LossWorkspace::default();
        self.fill(log_predictions, targets, &mut workspace, Some(interrupt))?;
        Ok(workspace.into())
    }

    /// [`RobustLoss::loss_gradient`] into a workspace that is reused.
    ///
    /// # Errors
    /// As [`RobustLoss::loss_gradient`]. The workspace then holds nothing of use.
    pub fn loss_gradient_in(
        &self,
        log_predictions: ArrayView2<T>,
        targets: &Targets,
        workspace: &mut LossWorkspace<T>,
    ) -> Result<()> {
        self.fill(log_predictions, targets, workspace, None)
    }

    fn fill(
        &self,
        log_predictions: ArrayView2<T>,
        targets: &Targets,
        workspace: &mut LossWorkspace<T>,
        interrupt: Option<&Interrupt>,
    ) -> Result<()> {
        let log_predictions = log_predictions.as_standard_layout();
        let logs = flat(&log_predictions);
        self.check(log_predictions.view(), logs, targets)?;
        let width = self.labels();
        workspace.resize(targets.rows(), width, ROWS_PER_CHUNK);
        let LossWorkspace { losses, errors, gradients, chunks } = workspace;
        let errors = errors.axis_chunks_iter_mut(Axis(0), ROWS_PER_CHUNK).into_par_iter();
        let losses = losses.axis_chunks_iter_mut(Axis(0), ROWS_PER_CHUNK).into_par_iter();
        let outs = losses.zip(errors).zip(chunks);
        let numbers = ROWS_PER_CHUNK * width;
        let ins = logs.par_chunks(numbers).zip(flat_mut(gradients).par_chunks_mut(numbers));
        outs.zip(ins).enumerate().try_for_each(
            |(at, (((losses, errors), chunk), (log_predictions, gradients)))| {
                let (labels, settings, first) = (&self.labels, &self.settings, at * ROWS_PER_CHUNK);
                let rows = Rows { labels, settings, targets, first, log_predictions, interrupt };
                let outs = Outs { losses, errors, gradients };
                if rows.interrupted() { Ok(()) } else { chunk.solve(rows, outs) }
            },
        )
    }

    /// The plan and the worst metric behind the loss of every row.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot::Grouping;
    /// use robust_ot::loss::{LossSettings, RobustLoss, Targets};
    ///
    /// let vectors = array![[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]];
    /// let loss = RobustLoss::<f64>::new(&vectors, &Grouping::none(2), LossSettings::default())?;
    /// let logs = array![[0.7_f64, 0.2, 0.1]].mapv(f64::ln);
    /// let found = &loss.explain(logs.view(), &Targets::new(3, [[0, 2]])?)?[0];
    /// assert_eq!((found.plan.dim(), found.metric.dim()), ((3, 2), (2, 2)));
    /// assert!((found.plan.row(0).sum() - 0.7).abs() < 1e-9); // rows of the plan are the prediction
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`RobustLoss::loss_gradient`].
    pub fn explain(&self, log_predictions: ArrayView2<T>, targets: &Targets) -> Result<Vec<LossPlan>> {
        let log_predictions = log_predictions.as_standard_layout();
        let logs = flat(&log_predictions);
        self.check(log_predictions.view(), logs, targets)?;
        let width = self.labels();
        let interrupt = None;
        let found = logs.par_chunks(width).enumerate().map(|(first, log_predictions)| {
            let (labels, settings) = (&self.labels, &self.settings);
            let rows = Rows { labels, settings, targets, first, log_predictions, interrupt };
            let (mut loss, mut error, mut gradients) =
                (Array1::zeros(1), Array1::zeros(1), vec![T::default(); width]);
            let outs = Outs { losses: loss.view_mut(), errors: error.view_mut(), gradients: &mut gradients };
            let mut chunk = Chunk::default();
            chunk.solve(rows, outs)?;
            let (plan, metric) = chunk.explain(rows);
            Ok(LossPlan { loss: loss[0], error: error[0], plan, metric })
        });
        found.collect()
    }

    fn check(&self, log_predictions: ArrayView2<T>, logs: &[T], targets: &Targets) -> Result<()> {
        let expected = (targets.rows(), self.labels());
        if log_predictions.dim() != expected || targets.labels() != self.labels() {
            let (rows, columns) = log_predictions.dim();
            return Err(Error::Shape {
                name: "the predictions",
                expected: format!(
                    "{} × {}, one row per sample and one column per label",
                    expected.0, expected.1
                ),
                found: format!("{rows} × {columns}, with targets among {} labels", targets.labels()),
            });
        }
        // The extremes are NaN when any number is not finite.
        if logs.is_empty() || T::extremes(logs).0.is_finite() {
            return Ok(());
        }
        let odd = log_predictions.indexed_iter().find(|(_, log)| !Into::<f64>::into(**log).is_finite());
        odd.map_or(Ok(()), |((row, column), value)| {
            Err(Error::NotFinite { name: "logarithms of predictions", row, column, value: (*value).into() })
        })
    }
}
