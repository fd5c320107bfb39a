//! W of single rows to a tolerance: Frank-Wolfe on moments, as for any other problem, with the few columns of the true labels
//! as the linear problem. Each call gives a plan, whose value bounds W from above, and the dual bound
//!
//! $$W \ge D(M) - \mathrm{penalty}(M), \qquad D(M) = \min_\gamma \langle C(M), \gamma\rangle + \lambda_\gamma \Omega(\gamma)
//!   = \lambda_\gamma \Big(\sum_p h_p \ln h_p + \sum_q \hat y_q g_q - \sum_p h_p n_p\Big).$$
//!
//! The gradient is that of D at the best metric: the potential of the predictions.

use ndarray::{Array1, Array2, Axis};

use super::chunk::{Chunk, Measured, Outs, Rows};
use super::columns::{From, Until};
use super::labels::Labels;
use crate::error::Result;
use crate::frame::{Frame, Rounding};
use crate::interrupt::Interrupt;
use crate::kernels::Real;
use crate::linalg::{inner, row as row_of};
use crate::measure::WeightRounding;
use crate::robust::{Descent, Vertex, VertexPlan, sharpened};

/// The marginal error of the first linear problem; later ones follow the gap.
const FIRST_TOLERANCE: f64 = 1e-3;

/// W of a row and how far it may lie above.
struct Bracket {
    loss: f64,
    error: f64,
}

/// A plan made feasible.
struct Feasible {
    /// An upper bound on Σ γ ln γ.
    entropy: f64,
    /// A lower bound on the linear problem, and the rounding that it allows for.
    dual: f64,
    rounding: f64,
}

impl<T: Real> Chunk<T> {
    /// Losses, errors and gradients of all rows, one row after another.
    pub(super) fn bracket_each(&mut self, rows: Rows<T>, outs: Outs<T>) -> Result<()> {
        let Outs { mut losses, mut errors, gradients } = outs;
        let width = rows.width();
        let lines = rows.log_predictions.chunks_exact(width).zip(gradients.chunks_exact_mut(width));
        for (row, (log_predictions, gradients)) in lines.enumerate() {
            if rows.interrupted() {
                break;
            }
            let single = Rows { first: rows.first + row, log_predictions, ..rows };
            let place = Axis(0);
            let (mut losses, mut errors) = (losses.view_mut(), errors.view_mut());
            losses.slice_axis_inplace(place, (row..=row).into());
            errors.slice_axis_inplace(place, (row..=row).into());
            if single.truth(0).len() == 1 {
                self.solve(single, Outs { losses, errors, gradients })?;
                continue;
            }
            self.predict(single);
            let found = self.bracket(single)?;
            (losses[0], errors[0]) = (found.loss, found.error);
            self.slopes(single, 0, gradients);
        }
        Ok(())
    }

    /// Brackets W of the only row, and leaves the costs, the plan and the metric of the best lower bound.
    fn bracket(&mut self, rows: Rows<T>) -> Result<Bracket> {
        let set = &rows.labels.set;
        let (entropy, settings) = (rows.settings.entropy, rows.settings.of_descent());
        let frame = self.frame(rows);
        let mut descent = Descent::new(set, entropy, &frame, &settings)?;
        if self.measured.is_empty() {
            self.measured.push(Measured::workspace(rows.labels.size));
        }
        let (never, mut from, mut tolerance) = (Interrupt::default(), From::Zero, FIRST_TOLERANCE);
        let mut best = (f64::NEG_INFINITY, descent.metric.clone());
        loop {
            let metric = descent.metric.clone();
            self.call(rows, &metric, from, tolerance);
            let Feasible { entropy: omega, dual, rounding } = self.feasible(rows, &frame, &metric);
            self.measure(rows);
            let moment = self.measured[0].moment.clone();
            let own_gap = inner(&metric, &moment) + entropy * omega - dual;
            // W to a tolerance: only the lower bound is charged for rounding.
            descent.take(Vertex::new(moment, 0.0, omega, VertexPlan::Forgotten), Vec::new(), dual)?;
            let last = descent.bounds.lower;
            let improved = last > best.0 || best.0 == f64::NEG_INFINITY;
            if improved {
                best = (last, metric);
            }
            tolerance = sharpened(tolerance, 0.0, own_gap, descent.outlook());
            from = From::Last;
            let interrupt = rows.interrupt.unwrap_or(&never);
            if descent.status(interrupt).is_some() || descent.at_rounding(rounding) {
                if !improved {
                    self.call(rows, &best.1, from, tolerance);
                }
                self.measured[0].worst.metric.assign(&best.1);
                return Ok(Bracket { loss: descent.bounds.value, error: descent.bounds.gap() });
            }
        }
    }

    /// Solves the linear problem of a metric.
    fn call(&mut self, rows: Rows<T>, metric: &Array2<f64>, from: From, tolerance: f64) {
        self.measured[0].worst.metric.assign(metric);
        self.worst_costs(rows);
        self.oracle(rows, from, Until { iterations: rows.settings.sinkhorn, tolerance });
    }

    /// Moves mass until the columns have their weights: those with too much mass are scaled down, by t_q, and what is left of
    /// each prediction is shared among the others. Then, by convexity, with δ the mass that moves,
    ///
    /// Ω ≤ Σ h ln h + Σ_q t_q Σ_p γ_pq ln s_pq + δ.
    fn feasible(&mut self, rows: Rows<T>, frame: &Frame, metric: &Array2<f64>) -> Feasible {
        let Self { predictions, masses, others: left, plan, columns, own_costs, costs, .. } = self;
        let width = rows.width();
        let regularization = rows.settings.entropy;
        let total = T::total(predictions);
        let wanted = total / columns.masses.len() as f64;
        let of_predictions = T::dot(predictions, rows.log_predictions);
        let mut entropy = of_predictions;
        left.fill(T::default());
        let mut missing = 0.0;
        for ((line, logs), mass) in
            masses.chunks_exact_mut(width).zip(plan.logs.chunks_exact(width)).zip(&columns.masses)
        {
            let of_line = T::dot(line, logs);
            let kept = (wanted / mass).min(1.0);
            entropy += kept * of_line;
            missing += (wanted - mass).max(0.0);
            if kept < 1.0 {
                T::add_own(left, T::nearest(1.0 - kept), line);
                line.iter_mut().for_each(|x| *x = T::nearest(kept * (*x).into()));
            }
        }
        if missing > 0.0 {
            for (line, mass) in masses.chunks_exact_mut(width).zip(&columns.masses) {
                let share = (wanted - mass).max(0.0) / missing;
                if share > 0.0 {
                    T::add_own(line, T::nearest(share), left);
                }
            }
        }
        entropy += T::total(left);
        let truth = rows.truth(0);
        let own: f64 = truth.iter().map(|&label| own_costs[label].into()).sum();
        let of_columns = columns.dual(predictions, costs, &plan.logs, regularization);
        let dual = regularization * (of_predictions + of_columns) + wanted * own;
        let rounding = frame.rounding(metric) * (T::EPSILON / f64::EPSILON);
        Feasible { entropy, dual: dual - rounding, rounding }
    }

    /// What bounds need to know about a row.
    fn frame(&self, rows: Rows<T>) -> Frame {
        let Labels { points, grams, size, .. } = rows.labels;
        let (size, truth) = (*size, rows.truth(0));
        let share = 1.0 / truth.len() as f64;
        let wanted = share * T::total(&self.predictions);
        let mut packed: Vec<f64> = self.diagonals.iter().map(|x| (*x).into()).collect();
        let (mut source, mut target) =
            (Array1::<f64>::zeros(points.ncols()), Array1::<f64>::zeros(points.ncols()));
        for (label, h) in self.predictions.iter().enumerate() {
            let slice = source.as_slice_mut().expect("new arrays are contiguous");
            T::add_scaled(slice, (*h).into(), row_of(points, label));
        }
        for &label in truth {
            let weight = wanted + self.predictions[label].into();
            T::add_scaled(&mut packed, weight, row_of(grams, label));
            T::add_scaled(
                target.as_slice_mut().expect("new arrays are contiguous"),
                share,
                row_of(points, label),
            );
        }
        let mut shared = Array2::zeros((size, size));
        let mut numbers = packed.into_iter();
        for a in 0..size {
            for b in a..size {
                let value = numbers.next().expect("a triangle of numbers");
                (shared[[a, b]], shared[[b, a]]) = (value, value);
            }
        }
        let slots = |x: Array1<f64>| {
            let shape = (x.len() / size, size);
            x.into_shape_with_order(shape).expect("whole slots")
        };
        let (source, target) = (slots(source), slots(target));
        let cross = source.t().dot(&target);
        let independent = &shared - &cross - cross.t();
        let rounding = Rounding { blur: 0.0, weights: [WeightRounding::default(); 2] };
        Frame { shared, independent, dim: points.ncols(), points: points.nrows() + truth.len(), rounding }
    }
}
