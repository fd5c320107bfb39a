//! A chunk of the rows of a batch, from predictions to gradients, on one thread: a handful of matrix products.
//!
//! The plans are those of the first metric; `bracket` replaces them by the optimal ones where the settings ask for it.

use ndarray::{Array2, ArrayView2, ArrayViewMut1, ArrayViewMut2};

use super::columns::{Columns, From, Problem, Until};
use super::labels::Labels;
use super::settings::LossSettings;
use super::targets::Targets;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::kernels::Real;
use crate::linalg::{product_into, row as row_of};
use crate::metric::{Buffers, WorstCase};

/// The rows `first..first + rows` of a batch.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, T> {
    pub(super) labels: &'a Labels<T>,
    pub(super) settings: &'a LossSettings,
    pub(super) targets: &'a Targets,
    pub(super) first: usize,
    /// ln h, rows × L.
    pub(super) log_predictions: &'a [T],
    /// Iterations end once this is raised.
    pub(super) interrupt: Option<&'a Interrupt>,
}

/// Buffers for the rows of a chunk.
#[derive(Default)]
pub(super) struct Chunk<T> {
    /// h, rows × L.
    pub(super) predictions: Vec<T>,
    /// Σ_p h_p G_p over the labels p that are not true, rows × r(r+1)/2.
    pub(super) diagonals: Vec<T>,
    /// M with doubled off-diagonals, rows × r(r+1)/2.
    packed: Vec<T>,
    /// h without the true labels, rows × L.
    pub(super) others: Vec<T>,
    /// ⟨M, G_p⟩, rows × L.
    pub(super) own_costs: Vec<T>,
    /// C_pq, one line of L numbers per true label.
    pub(super) costs: Vec<T>,
    /// γ_pq, one line of L numbers per true label.
    pub(super) masses: Vec<T>,
    /// l_q M, one line of d numbers per true label.
    mapped: Vec<T>,
    /// Σ_p γ_pq l_p, one line of d numbers per true label.
    moved: Vec<T>,
    /// The vectors of a row's true labels.
    true_labels: Vec<T>,
    /// A matrix of size r × r.
    square: Vec<T>,
    pub(super) plan: Plan<T>,
    pub(super) measured: Vec<Measured>,
    pub(super) columns: Columns<T>,
    pub(super) workspace: Buffers,
}

/// Plans: γ_pq = h_p s_pq, one line of L numbers per true label.
#[derive(Default)]
pub(super) struct Plan<T> {
    shares: Vec<T>,
    /// ln s, exact where s underflows.
    pub(super) logs: Vec<T>,
}

/// V of a plan, its worst case, and Σ γ ln γ.
pub(super) struct Measured {
    pub(super) moment: Array2<f64>,
    pub(super) worst: WorstCase,
    pub(super) entropy: f64,
}

impl Measured {
    pub(super) fn workspace(size: usize) -> Self {
        Self { moment: Array2::zeros((size, size)), worst: WorstCase::workspace(size), entropy: 0.0 }
    }
}

impl<T> Rows<'_, T> {
    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.is_some_and(Interrupt::is_raised)
    }

    pub(super) fn count(&self) -> usize {
        self.log_predictions.len() / self.width()
    }

    /// L.
    pub(super) fn width(&self) -> usize {
        self.labels.points.nrows()
    }

    /// The range of a row's lines among those of the chunk.
    fn places(&self, row: usize) -> std::ops::Range<usize> {
        let start = self.targets.places(self.first).start;
        let places = self.targets.places(self.first + row);
        places.start - start..places.end - start
    }

    /// The range of the numbers in a row's lines, `width` per line.
    fn span(&self, row: usize, width: usize) -> std::ops::Range<usize> {
        let places = self.places(row);
        places.start * width..places.end * width
    }

    pub(super) fn truth(&self, row: usize) -> &[usize] {
        self.targets.row(self.first + row)
    }

    pub(super) fn line_count(&self) -> usize {
        self.places(self.count() - 1).end
    }
}

impl<T: Real> Chunk<T> {
    /// Losses, their errors, and gradients of all rows.
    pub(super) fn solve(&mut self, rows: Rows<T>, outs: Outs<T>) -> Result<()> {
        if rows.settings.brackets() && rows.line_count() > rows.count() {
            return self.bracket_each(rows, outs);
        }
        self.predict(rows);
        let single = rows.line_count() == rows.count();
        if single {
            // Single-label rows: Π(h, e_c) has only one plan.
            self.masses.clear();
            self.masses.extend_from_slice(&self.predictions);
            fill(&mut self.plan.logs, self.masses.len(), T::default());
        } else {
            self.first_costs(rows);
            let LossSettings { sinkhorn: iterations, tolerance, .. } = *rows.settings;
            self.oracle(rows, From::Zero, Until { iterations, tolerance });
        }
        self.measure(rows);
        self.evaluate(rows)?;
        self.worst_costs(rows);
        let Outs { losses, errors, gradients } = outs;
        let results = losses.into_iter().zip(errors).zip(gradients.chunks_exact_mut(rows.width()));
        for (row, ((loss, error), gradient)) in results.enumerate() {
            let Measured { worst, entropy, .. } = &self.measured[row];
            *loss = worst.value + rows.settings.entropy * entropy;
            *error = if rows.truth(row).len() == 1 { 0.0 } else { f64::INFINITY };
            self.slopes(rows, row, gradient);
        }
        Ok(())
    }

    /// (1/n_y) Σ_q C_pq + λ ln γ_pq, where ln γ_pq = ln h_p + ln s_pq, without its mean.
    pub(super) fn slopes(&self, rows: Rows<T>, row: usize, gradient: &mut [T]) {
        let (width, entropy) = (rows.width(), rows.settings.entropy);
        let share = 1.0 / rows.truth(row).len() as f64;
        gradient.fill(T::default());
        T::add_own(gradient, T::nearest(entropy), &rows.log_predictions[row * width..][..width]);
        let span = rows.span(row, width);
        let lines =
            self.costs[span.clone()].chunks_exact(width).zip(self.plan.logs[span].chunks_exact(width));
        for (costs, logs) in lines {
            T::add_own(gradient, T::nearest(share), costs);
            T::add_own(gradient, T::nearest(share * entropy), logs);
        }
        let mean = T::total(gradient) / width as f64;
        T::add_constant(gradient, T::nearest(-mean));
    }

    /// The plan of the only row, L × n_y, and its worst metric, after [`Chunk::solve`].
    pub(super) fn explain(&self, rows: Rows<T>) -> (Array2<f64>, Array2<f64>) {
        let (width, count) = (rows.width(), rows.truth(0).len());
        let plan = Array2::from_shape_fn((width, count), |(p, q)| {
            let share = if count == 1 { 1.0 } else { self.plan.shares[q * width + p].into() };
            share * self.predictions[p].into()
        });
        (plan, self.measured[0].worst.metric.clone())
    }

    pub(super) fn predict(&mut self, rows: Rows<T>) {
        let Labels { grams, .. } = rows.labels;
        self.predictions.clear();
        self.predictions.extend_from_slice(rows.log_predictions);
        T::exp_shifted(&mut self.predictions, T::default());
        self.others.clear();
        self.others.extend_from_slice(&self.predictions);
        for (row, others) in self.others.chunks_exact_mut(rows.width()).enumerate() {
            rows.truth(row).iter().for_each(|&label| others[label] = T::default());
        }
        fill(&mut self.diagonals, rows.count() * grams.ncols(), T::default());
        multiply((&self.others, rows.count()), grams.view(), &mut self.diagonals);
    }

    /// The costs of the first metric.
    fn first_costs(&mut self, rows: Rows<T>) {
        let (labels, width) = (rows.labels, rows.width());
        self.costs.clear();
        if let Some(table) = &labels.first_costs {
            for row in 0..rows.count() {
                rows.truth(row).iter().for_each(|&label| self.costs.extend_from_slice(row_of(table, label)));
            }
            return;
        }
        self.mapped.clear();
        for row in 0..rows.count() {
            for &label in rows.truth(row) {
                self.mapped.extend_from_slice(row_of(&labels.first_moved, label));
            }
        }
        fill(&mut self.costs, rows.line_count() * width, T::default());
        multiply((&self.mapped, rows.line_count()), labels.points.t(), &mut self.costs);
        for line in self.costs.chunks_exact_mut(width) {
            T::complete_costs(line, T::default(), &labels.first_own);
        }
    }

    /// C(M)_pq of every row's worst metric, minus the part that is the same for all p: ⟨M, G_p⟩ − 2 ⟨l_p, M l_q⟩.
    pub(super) fn worst_costs(&mut self, rows: Rows<T>) {
        let Labels { points, grams, size, .. } = rows.labels;
        let (width, dim) = (rows.width(), points.ncols());
        self.packed.clear();
        self.mapped.clear();
        self.mapped.resize(rows.line_count() * dim, T::default());
        for (row, current) in self.measured[..rows.count()].iter().enumerate() {
            let metric = &current.worst.metric;
            for a in 0..*size {
                self.packed.push(T::nearest(metric[[a, a]]));
                self.packed.extend((a + 1..*size).map(|b| T::nearest(2.0 * metric[[a, b]])));
            }
            self.square.clear();
            self.square.extend(metric.iter().map(|m| T::nearest(*m)));
            gather(&mut self.true_labels, points, rows.truth(row));
            let slots = self.true_labels.len() / size;
            let metric = view(&self.square, *size);
            multiply((&self.true_labels, slots), metric, &mut self.mapped[rows.span(row, dim)]);
        }
        fill(&mut self.own_costs, rows.count() * width, T::default());
        multiply((&self.packed, rows.count()), grams.t(), &mut self.own_costs);
        fill(&mut self.costs, rows.line_count() * width, T::default());
        multiply((&self.mapped, rows.line_count()), points.t(), &mut self.costs);
        for (row, own) in self.own_costs.chunks_exact(width).enumerate() {
            let lines = self.costs[rows.span(row, width)].chunks_exact_mut(width);
            lines.for_each(|line| T::complete_costs(line, T::default(), own));
        }
    }

    /// Finds the entropic plans for the costs, and their masses.
    pub(super) fn oracle(&mut self, rows: Rows<T>, from: From, until: Until) {
        let width = rows.width();
        for numbers in [&mut self.plan.shares, &mut self.plan.logs] {
            fill(numbers, self.costs.len(), T::default());
        }
        self.masses.clear();
        for (row, prediction) in self.predictions.chunks_exact(width).enumerate() {
            let span = rows.span(row, width);
            let mut problem = Problem {
                prediction,
                costs: &self.costs[span.clone()],
                regularization: rows.settings.linear_entropy(),
                shares: &mut self.plan.shares[span.clone()],
                logs: &mut self.plan.logs[span.clone()],
            };
            self.columns.solve(&mut problem, from, until);
            self.masses.extend_from_slice(&self.plan.shares[span.clone()]);
            self.masses[span].chunks_exact_mut(width).for_each(|line| T::multiply(line, prediction));
        }
    }

    /// Computes V and Σ γ ln γ of every row. With Γ all plans stacked, Y = Γ E has all cross moments.
    ///
    /// Mass that stays on a true label adds nothing to V, but may be nearly all of the mass. It is removed from Γ beforehand;
    /// otherwise V would be a difference of large numbers, mostly rounding.
    pub(super) fn measure(&mut self, rows: Rows<T>) {
        let Labels { points, grams, size, .. } = rows.labels;
        let Self {
            predictions, diagonals, masses, plan, moved, true_labels, square: cross, measured, ..
        } = self;
        let (width, dim) = (rows.width(), points.ncols());
        if measured.len() < rows.count() {
            measured.resize_with(rows.count(), || Measured::workspace(*size));
        }
        for (row, prediction) in predictions.chunks_exact(width).enumerate() {
            let span = rows.span(row, width);
            let log_prediction = &rows.log_predictions[row * width..][..width];
            let mut entropy = T::dot(prediction, log_prediction);
            let lines = masses[span.clone()].chunks_exact_mut(width).zip(plan.logs[span].chunks_exact(width));
            for ((masses, logs), &label) in lines.zip(rows.truth(row)) {
                entropy += T::dot(masses, logs);
                masses[label] = T::default();
            }
            measured[row].entropy = entropy;
        }
        fill(moved, rows.line_count() * dim, T::default());
        multiply((masses, rows.line_count()), points.view(), moved);
        for (row, Measured { moment, .. }) in measured.iter_mut().enumerate().take(rows.count()) {
            // cross = Σ_q Y_qᵀ E_q.
            gather(true_labels, points, rows.truth(row));
            fill(cross, size * size, T::default());
            let spread = view(&moved[rows.span(row, dim)], *size);
            product_into(view_mut(cross, *size), spread.t(), view(true_labels, *size));
            // V = Σ_p (Σ_q γ_pq) G_p + Σ_q (Σ_p γ_pq) G_q − cross − crossᵀ, in the order of the packed triangle.
            let own = &diagonals[row * grams.ncols()..][..grams.ncols()];
            let mut place = 0;
            for a in 0..*size {
                for b in a..*size {
                    let crossing = cross[a * size + b].into() + cross[b * size + a].into();
                    moment[[a, b]] = own[place].into() - crossing;
                    place += 1;
                }
            }
            let lines = &masses[rows.span(row, width)];
            for (line, &label) in lines.chunks_exact(width).zip(rows.truth(row)) {
                // The mass that comes to the label from others, and the mass that goes from it to others.
                let gone: f64 = lines.chunks_exact(width).map(|line| line[label].into()).sum();
                let mass = T::total(line) + gone;
                let mut grams = row_of(grams, label).iter();
                for a in 0..*size {
                    for (v, gram) in moment.row_mut(a).iter_mut().skip(a).zip(&mut grams) {
                        *v += mass * (*gram).into();
                    }
                }
            }
            for a in 0..*size {
                for b in 0..a {
                    moment[[a, b]] = moment[[b, a]];
                }
            }
        }
    }
    /// The worst cases of all moments.
    fn evaluate(&mut self, rows: Rows<T>) -> Result<()> {
        let (set, buffers) = (&rows.labels.set, &mut self.workspace);
        self.measured[..rows.count()]
            .iter_mut()
            .try_for_each(|Measured { moment, worst, .. }| set.evaluate_into(moment, worst, buffers))
    }
}

/// What [`Chunk::solve`] finds.
pub(super) struct Outs<'a, T> {
    pub(super) losses: ArrayViewMut1<'a, f64>,
    /// How far the losses may lie above W; infinite where that is not known.
    pub(super) errors: ArrayViewMut1<'a, f64>,
    pub(super) gradients: &'a mut [T],
}

/// out = A B, where A has `rows` rows.
fn multiply<T: Real>((a, rows): (&[T], usize), b: ArrayView2<T>, out: &mut [T]) {
    product_into(view_mut(out, b.ncols()), view(a, a.len() / rows), b);
}

fn view<T>(numbers: &[T], columns: usize) -> ArrayView2<'_, T> {
    ArrayView2::from_shape((numbers.len() / columns, columns), numbers).expect("whole rows")
}

fn view_mut<T>(numbers: &mut [T], columns: usize) -> ArrayViewMut2<'_, T> {
    ArrayViewMut2::from_shape((numbers.len() / columns, columns), numbers).expect("whole rows")
}

/// Copies the vectors of some labels, one after another.
fn gather<T: Real>(out: &mut Vec<T>, points: &Array2<T>, labels: &[usize]) {
    out.clear();
    labels.iter().for_each(|&label| out.extend_from_slice(row_of(points, label)));
}

fn fill<T: Copy>(numbers: &mut Vec<T>, count: usize, value: T) {
    numbers.clear();
    numbers.resize(count, value);
}
