//! Targets that spread mass beyond the true labels.
//!
//! With $\hat y$ uniform over the true labels, $\mu = (1-s)\bigl[(1-\beta)\hat y + \beta \gamma 1\bigr] + s/L$, where
//! $\gamma_{pq} = \hat y_q\,\mathrm{softmax}_p(-C_{pq}/\tau)$ solves $\min \langle C, \gamma\rangle + \tau\,
//! \mathrm{KL}(\gamma \Vert 1 \otimes \hat y)$ with the labels' marginal fixed: part of each true label's mass moves to its
//! neighbors.

use ndarray::{Array1, Array2, Axis};
use robust_ot::linalg::{inner, row as row_of};
use robust_ot::sets::Displacements;
use robust_ot::{Error, Grouping, Kernels, Measure, MetricSet, Result};

/// The most labels for which the table of moved mass, L × L numbers, is formed.
const MOST_LABELS: usize = 30_000;
/// The most rounds of metric and plan, and the relative change of the moment at which they have converged.
const ROUNDS: (usize, f64) = (200, 1e-8);

/// How the mass of the true labels is distributed.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Grouping, MetricSet};
/// use robust_ot_learn::SoftTargets;
///
/// // Cat and dog are close, truck is far.
/// let vectors = array![[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]];
/// let soft = SoftTargets::transported(&vectors, &Grouping::none(2), &MetricSet::W2, 0.5, 0.3, None)?;
/// let target = soft.target(3, &[0]);
/// assert!(target[0] > target[1] && target[1] > 100.0 * target[2]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SoftTargets {
    /// β, the fraction of mass that moves.
    pub(super) moved: f32,
    /// s, the fraction of mass that is uniform.
    pub(super) smoothing: f32,
    /// Row q is the distribution of label q's moved mass; `None` if no mass moves.
    pub(super) table: Option<Array2<f32>>,
}

impl SoftTargets {
    /// All mass on the true labels.
    ///
    /// ```
    /// use robust_ot_learn::SoftTargets;
    /// assert_eq!(SoftTargets::hard().target(3, &[0, 2]), [0.5, 0.0, 0.5]);
    /// ```
    pub fn hard() -> Self {
        Self { moved: 0.0, smoothing: 0.0, table: None }
    }

    /// Moves the fraction β of the mass to neighbors, at temperature τ. The metric is the worst of the set for this
    /// movement, where `frequencies` gives how often each label is true (uniform if absent).
    ///
    /// # Errors
    /// When β is outside [0, 1], τ is not positive, there are too many labels, or the set does not fit.
    pub fn transported(
        vectors: &Array2<f64>,
        grouping: &Grouping,
        set: &MetricSet,
        moved: f64,
        temperature: f64,
        frequencies: Option<&Array1<f64>>,
    ) -> Result<Self> {
        Self::check(moved, temperature)?;
        if moved <= 0.0 {
            return Ok(Self::hard());
        }
        let labels = vectors.nrows();
        if labels > MOST_LABELS {
            let rule = format!("0 with more than {MOST_LABELS} labels, whose table would not fit");
            return Err(Error::parameter("target_transport", rule, format!("{moved} with {labels}")));
        }
        let points = Measure::uniform(vectors.clone())?;
        let weights = match frequencies {
            None => points.clone(),
            Some(frequencies) => Measure::new(vectors.clone(), frequencies.clone())?,
        };
        let maps = Displacements::new(&points, &weights, grouping)?;
        let answer = |moment: &Array2<f64>| {
            let metric = set.worst_case(moment)?.metric;
            Ok(table_of(&maps.cost(&metric)?, temperature))
        };
        let mut moment = maps.independent_moment().clone();
        let mut table = answer(&moment)?;
        // W2 has a single metric. For other sets, metric and plan depend on each other. A larger moment leads to a
        // smaller next one, so the iteration may overshoot; steps are halved until it does not.
        let (mut step, mut before) = (1.0, f64::INFINITY);
        for _ in 0..if *set == MetricSet::W2 { 0 } else { ROUNDS.0 } {
            let change = moment_of(vectors, grouping, &table, weights.weights())? - &moment;
            let size = inner(&change, &change).sqrt();
            if size <= ROUNDS.1 * inner(&moment, &moment).sqrt() {
                break;
            }
            if size > 0.9 * before {
                step *= 0.5;
            }
            before = size;
            moment.scaled_add(step, &change);
            table = answer(&moment)?;
        }
        Ok(Self { moved: moved as f32, smoothing: 0.0, table: Some(table.mapv(|x| x as f32)) })
    }

    /// Refuses β and τ out of range.
    pub(crate) fn check(moved: f64, temperature: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&moved) {
            return Err(Error::parameter("target_transport", "from 0 to 1", moved));
        }
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::parameter("target_temperature", "positive and finite", temperature));
        }
        Ok(())
    }

    /// Spreads the fraction s of the mass uniformly over all labels.
    ///
    /// ```
    /// use robust_ot_learn::SoftTargets;
    /// assert_eq!(SoftTargets::hard().with_smoothing(0.5)?.target(4, &[1]), [0.125, 0.625, 0.125, 0.125]);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When s is outside [0, 1].
    pub fn with_smoothing(mut self, smoothing: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&smoothing) {
            return Err(Error::parameter("label_smoothing", "from 0 to 1", smoothing));
        }
        self.smoothing = smoothing as f32;
        Ok(self)
    }

    /// β, the fraction of mass that moves.
    pub fn moved(&self) -> f32 {
        self.moved
    }

    /// s, the fraction of mass that is uniform.
    pub fn smoothing(&self) -> f32 {
        self.smoothing
    }

    /// Row q is the distribution of label q's moved mass; `None` if no mass moves.
    pub fn table(&self) -> Option<&Array2<f32>> {
        self.table.as_ref()
    }

    /// μ of a row with these true labels.
    pub fn target(&self, labels: usize, truth: &[usize]) -> Vec<f32> {
        let mut out = vec![0.0; labels];
        self.add_to(&mut out, truth, 1.0);
        out
    }

    /// out ← out + a μ.
    pub(super) fn add_to(&self, out: &mut [f32], truth: &[usize], a: f32) {
        let (kept, share) = (1.0 - self.smoothing, a / truth.len() as f32);
        for &label in truth {
            if let Some(table) = &self.table {
                f32::add_own(out, kept * self.moved * share, row_of(table, label));
            }
            out[label] += kept * (1.0 - self.moved) * share;
        }
        if self.smoothing > 0.0 {
            f32::add_constant(out, a * self.smoothing / out.len() as f32);
        }
    }
}

/// softmax_p(−C_pq/τ), one row per q.
fn table_of(costs: &Array2<f64>, temperature: f64) -> Array2<f64> {
    let mut table = costs.t().as_standard_layout().into_owned();
    for mut row in table.rows_mut() {
        let least = row.fold(f64::INFINITY, |low, c| low.min(*c));
        row.mapv_inplace(|c| ((least - c) / temperature).exp());
        let sum = row.sum();
        row /= sum;
    }
    table
}

/// V of the plan that distributes label q's weight according to row q of the table.
fn moment_of(
    vectors: &Array2<f64>,
    grouping: &Grouping,
    table: &Array2<f64>,
    weights: &Array1<f64>,
) -> Result<Array2<f64>> {
    let mut plan = table.t().as_standard_layout().into_owned();
    plan.axis_iter_mut(Axis(0)).for_each(|mut row| row *= weights);
    let marginal = |axis| Measure::new(vectors.clone(), plan.sum_axis(axis));
    Displacements::new(&marginal(Axis(1))?, &marginal(Axis(0))?, grouping)?.moment(&plan)
}
