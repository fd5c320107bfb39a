//! Losses and gradients of a batch, as a handful of matrix products.

use ndarray::{Array1, Array2, ArrayView2, Axis};
use rayon::prelude::*;

use super::columns::{self, Columns};
use super::labels::Labels;
use super::settings::LossSettings;
use super::step::{entropy_of, entropy_slope, mix, search};
use super::targets::Targets;
use crate::error::{Error, Result};
use crate::grouping::Grouping;
use crate::kernels::Real;
use crate::linalg::{flat, flat_mut, inner, product, row as row_of};
use crate::metric::WorstCase;

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

/// What a batch comes to.
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
    /// ∇_h W of every row, along the simplex: each sums to zero.
    pub gradients: Array2<T>,
}

/// The plans of a batch: γ_pq = h_p s_pq, one line of L numbers for every true label.
struct Plans<T> {
    shares: Array2<T>,
    /// ln s, exact where s underflows.
    logs: Array2<T>,
}

/// A batch on its way.
struct Batch<'a, T> {
    targets: &'a Targets,
    log_predictions: Array2<T>,
    predictions: Array2<T>,
    /// Σ_p h_p G_p of every row.
    diagonals: Array2<T>,
}

/// V of every row's plan, what it costs at worst, and Σ γ ln γ.
struct Measured {
    moments: Vec<Array2<f64>>,
    worst: Vec<WorstCase>,
    entropies: Vec<f64>,
}

impl<T: Real> RobustLoss<T> {
    /// Takes one vector a label.
    ///
    /// # Errors
    /// When there are fewer than two labels, a vector is not finite, or grouping, metric set or settings do not fit.
    pub fn new(vectors: &Array2<f64>, grouping: &Grouping, settings: LossSettings) -> Result<Self> {
        settings.check()?;
        Ok(Self { labels: Labels::new(vectors, grouping, &settings.set)?, settings })
    }

    /// Number of labels L.
    pub fn labels(&self) -> usize {
        self.labels.points.nrows()
    }

    /// Losses and gradients for logarithms of predictions (log-softmax), one row a sample.
    ///
    /// A row with one label has one plan, and its loss is exact. Rows with more run as many iterations as the settings
    /// allow.
    ///
    /// # Errors
    /// When shapes differ, a logarithm is not finite, or the metric is not representable.
    pub fn loss_gradient(
        &self,
        log_predictions: ArrayView2<T>,
        targets: &Targets,
    ) -> Result<LossGradient<T>> {
        let batch = self.batch(log_predictions, targets)?;
        let (plans, measured) = self.solve(&batch)?;
        let metrics: Vec<_> = measured.worst.iter().map(|worst| &worst.metric).collect();
        let mut costs = self.costs(&metrics, targets);
        let entropy = self.settings.entropy;
        let losses =
            measured.worst.iter().zip(&measured.entropies).map(|(h, omega)| h.value + entropy * omega);
        let mut gradients = batch.log_predictions;
        let width = self.labels();
        let lines = by_rows(flat_mut(&mut costs), targets, width);
        let rows = gradients.axis_iter_mut(Axis(0)).into_par_iter().zip(lines).enumerate();
        rows.for_each(|(row, (mut gradient, costs))| {
            // (1/n_y) Σ_q C_pq + λ ln γ_pq, where ln γ_pq = ln h_p + ln s_pq, without its mean.
            let places = targets.places(row);
            let share = 1.0 / places.len() as f64;
            let logs = &flat(&plans.logs)[places.start * width..places.end * width];
            let mut sums: Vec<f64> = gradient.iter().map(|log| entropy * (*log).into()).collect();
            for (costs, logs) in costs.chunks_exact(width).zip(logs.chunks_exact(width)) {
                for ((sum, cost), log) in sums.iter_mut().zip(costs).zip(logs) {
                    *sum += share * ((*cost).into() + entropy * (*log).into());
                }
            }
            let mean = sums.iter().sum::<f64>() / width as f64;
            gradient.iter_mut().zip(sums).for_each(|(gradient, sum)| *gradient = T::nearest(sum - mean));
        });
        Ok(LossGradient { losses: losses.collect(), gradients })
    }

    fn batch<'a>(&self, log_predictions: ArrayView2<T>, targets: &'a Targets) -> Result<Batch<'a, T>> {
        let expected = (targets.rows(), self.labels());
        if log_predictions.dim() != expected || targets.labels() != self.labels() {
            let (rows, columns) = log_predictions.dim();
            return Err(Error::Shape {
                name: "the predictions",
                expected: format!(
                    "{} × {}, a row for each of the targets and a column a label",
                    expected.0, expected.1
                ),
                found: format!("{rows} × {columns}, with targets among {} labels", targets.labels()),
            });
        }
        if let Some(((row, column), value)) =
            log_predictions.indexed_iter().find(|(_, log)| !Into::<f64>::into(**log).is_finite())
        {
            return Err(Error::NotFinite {
                name: "logarithms of predictions",
                row,
                column,
                value: (*value).into(),
            });
        }
        let log_predictions = log_predictions.as_standard_layout().into_owned();
        let mut predictions = log_predictions.clone();
        T::exp_shifted(flat_mut(&mut predictions), T::default());
        let diagonals = product(predictions.view(), self.labels.grams.view());
        Ok(Batch { targets, log_predictions, predictions, diagonals })
    }

    /// Frank-Wolfe on all rows at once. The first plan is that of the first metric, which is the same for all.
    fn solve(&self, batch: &Batch<T>) -> Result<(Plans<T>, Measured)> {
        let LossSettings { entropy, frank_wolfe, tolerance, .. } = self.settings;
        let targets = batch.targets;
        let shape = (targets.indices().len(), self.labels());
        if (0..targets.rows()).all(|row| targets.row(row).len() == 1) {
            let shares = Array2::from_elem(shape, T::nearest(1.0));
            let plans = Plans { shares, logs: Array2::from_elem(shape, T::default()) };
            let measured = self.measure(batch, &plans)?;
            return Ok((plans, measured));
        }
        let first = vec![&self.labels.first_metric; targets.rows()];
        let mut plans = self.oracle(batch, &self.costs(&first, targets));
        let mut measured = self.measure(batch, &plans)?;
        for _ in 1..frank_wolfe {
            let metrics: Vec<_> = measured.worst.iter().map(|worst| &worst.metric).collect();
            let found = self.oracle(batch, &self.costs(&metrics, targets));
            let target = self.measure(batch, &found)?;
            let gap = |row: usize| {
                let metric = &measured.worst[row].metric;
                let scale = inner(metric, &measured.moments[row]);
                let descent = scale - inner(metric, &target.moments[row])
                    + entropy * (measured.entropies[row] - target.entropies[row]);
                descent / scale.max(f64::MIN_POSITIVE)
            };
            if (0..targets.rows()).all(|row| gap(row) <= tolerance) {
                break;
            }
            self.step(batch, &mut plans, &found, (&measured, &target))?;
            measured = self.measure(batch, &plans)?;
        }
        Ok((plans, measured))
    }

    /// C(M)_pq less what is the same for all p, a line of L numbers for every true label q:
    /// ⟨M, G_p⟩ − 2 ⟨l_p, M l_q⟩.
    fn costs(&self, metrics: &[&Array2<f64>], targets: &Targets) -> Array2<T> {
        let Labels { points, grams, size, .. } = &self.labels;
        let flat = Array2::from_shape_fn((metrics.len(), size * size), |(row, place)| {
            T::nearest(metrics[row][[place / size, place % size]])
        });
        let own = product(flat.view(), grams.t());
        let mut moved = Array2::from_elem((targets.indices().len(), points.ncols()), T::default());
        let lines = by_rows(flat_mut(&mut moved), targets, points.ncols());
        lines.into_par_iter().enumerate().for_each(|(row, lines)| {
            for (line, &label) in lines.chunks_exact_mut(points.ncols()).zip(targets.row(row)) {
                turn(line, row_of(points, label), metrics[row]);
            }
        });
        let mut costs = product(moved.view(), points.t());
        let lines = by_rows(flat_mut(&mut costs), targets, points.nrows());
        lines.into_par_iter().enumerate().for_each(|(row, lines)| {
            for line in lines.chunks_exact_mut(points.nrows()) {
                T::complete_costs(line, T::default(), row_of(&own, row));
            }
        });
        costs
    }

    /// The entropic plans for some costs.
    fn oracle(&self, batch: &Batch<T>, costs: &Array2<T>) -> Plans<T> {
        let width = self.labels();
        let LossSettings { sinkhorn, tolerance, .. } = self.settings;
        let mut shares = Array2::from_elem(costs.dim(), T::default());
        let mut logs = shares.clone();
        let shares_by_row = by_rows(flat_mut(&mut shares), batch.targets, width);
        let logs_by_row = by_rows(flat_mut(&mut logs), batch.targets, width);
        let costs = flat(costs);
        let rows = shares_by_row.into_par_iter().zip(logs_by_row).enumerate();
        rows.for_each_init(Columns::default, |columns, (row, (shares, logs))| {
            let places = batch.targets.places(row);
            let mut problem = columns::Problem {
                prediction: row_of(&batch.predictions, row),
                costs: &costs[places.start * width..places.end * width],
                regularisation: self.settings.oracle(),
                shares,
                logs,
            };
            columns.solve(&mut problem, sinkhorn, tolerance);
        });
        Plans { shares, logs }
    }

    /// V, h(V) and Σ γ ln γ of every row. With Γ all plans stacked, Y = Γ E has all cross moments.
    fn measure(&self, batch: &Batch<T>, plans: &Plans<T>) -> Result<Measured> {
        let Labels { points, grams, size, set, .. } = &self.labels;
        let (targets, width) = (batch.targets, self.labels());
        let mut masses = plans.shares.clone();
        let lines = by_rows(flat_mut(&mut masses), targets, width);
        lines.into_par_iter().enumerate().for_each(|(row, lines)| {
            let prediction = row_of(&batch.predictions, row);
            lines.chunks_exact_mut(width).for_each(|line| T::multiply(line, prediction));
        });
        let spread = product(masses.view(), points.view());
        let measure = |row: usize| {
            // V = Σ_p h_p G_p + Σ_q c_q G_q − cross − crossᵀ.
            let own = row_of(&batch.diagonals, row).iter().map(|x| Into::<f64>::into(*x));
            let mut moment = Array2::from_shape_vec((*size, *size), own.collect()).expect("r² numbers");
            let mut cross = Array2::zeros((*size, *size));
            let mut omega = entropy_of(batch.predictions.row(row), batch.log_predictions.row(row));
            for (place, &label) in targets.places(row).zip(targets.row(row)) {
                let line = row_of(&masses, place);
                omega += T::dot(line, row_of(&plans.logs, place));
                let mass: f64 = line.iter().map(|x| Into::<f64>::into(*x)).sum();
                T::add_scaled(flat_mut(&mut moment), mass, row_of(grams, label));
                add_cross(flat_mut(&mut cross), row_of(&spread, place), row_of(points, label), *size);
            }
            moment = moment - &cross - cross.t();
            let worst = set.evaluate(&moment)?;
            Ok((moment, worst, omega))
        };
        let measured = (0..targets.rows()).into_par_iter().map(measure).collect::<Result<Vec<_>>>()?;
        let mut out = Measured { moments: Vec::new(), worst: Vec::new(), entropies: Vec::new() };
        for (moment, worst, omega) in measured {
            out.moments.push(moment);
            out.worst.push(worst);
            out.entropies.push(omega);
        }
        Ok(out)
    }

    /// Moves every plan towards the one found, as far as the objective falls.
    fn step(
        &self,
        batch: &Batch<T>,
        plans: &mut Plans<T>,
        found: &Plans<T>,
        (from, to): (&Measured, &Measured),
    ) -> Result<()> {
        let width = self.labels();
        let shares = by_rows(flat_mut(&mut plans.shares), batch.targets, width);
        let logs = by_rows(flat_mut(&mut plans.logs), batch.targets, width);
        let (found_shares, found_logs) = (flat(&found.shares), flat(&found.logs));
        shares.into_par_iter().zip(logs).enumerate().try_for_each(|(row, (shares, logs))| {
            let places = batch.targets.places(row);
            if places.len() == 1 {
                return Ok(());
            }
            let range = places.start * width..places.end * width;
            let found = (&found_shares[range.clone()], &found_logs[range]);
            let prediction = batch.predictions.row(row);
            let direction = &to.moments[row] - &from.moments[row];
            let theta = search(|theta| {
                let there = &from.moments[row] + &(&direction * theta);
                let metric = self.labels.set.evaluate(&there)?.metric;
                let omega = entropy_slope(prediction, shares, found.0, theta);
                Ok(inner(&metric, &direction) + self.settings.entropy * omega)
            })?;
            mix((shares, logs), found, theta);
            Ok(())
        })
    }
}

/// The lines of each row, to be written in parallel.
fn by_rows<'a, T>(mut lines: &'a mut [T], targets: &Targets, width: usize) -> Vec<&'a mut [T]> {
    (0..targets.rows())
        .map(|row| {
            let (own, rest) = std::mem::take(&mut lines).split_at_mut(targets.row(row).len() * width);
            lines = rest;
            own
        })
        .collect()
}

/// out = l M, slot by slot.
fn turn<T: Real>(out: &mut [T], label: &[T], metric: &Array2<f64>) {
    let size = metric.nrows();
    let mut sums = vec![0.0; size];
    for (out, label) in out.chunks_exact_mut(size).zip(label.chunks_exact(size)) {
        sums.fill(0.0);
        for (x, line) in label.iter().zip(flat(metric).chunks_exact(size)) {
            let x: f64 = (*x).into();
            sums.iter_mut().zip(line).for_each(|(sum, m)| *sum += x * m);
        }
        out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = T::nearest(*sum));
    }
}

/// cross ← cross + YᵀE over slots.
fn add_cross<T: Real>(cross: &mut [f64], spread: &[T], label: &[T], size: usize) {
    for (spread, label) in spread.chunks_exact(size).zip(label.chunks_exact(size)) {
        for (y, line) in spread.iter().zip(cross.chunks_exact_mut(size)) {
            let y: f64 = (*y).into();
            line.iter_mut().zip(label).for_each(|(sum, x)| *sum += y * (*x).into());
        }
    }
}
