//! A chunk of the rows of a batch, from predictions to gradients, on one thread: a handful of matrix products.

use ndarray::{Array2, ArrayView2, ArrayViewMut1, ArrayViewMut2};

use super::columns::{Columns, Problem};
use super::labels::Labels;
use super::settings::LossSettings;
use super::step::{entropy_slope, mix, search};
use super::targets::Targets;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::kernels::Real;
use crate::linalg::{inner, product_into, row as row_of};
use crate::metric::{Buffers, WorstCase};

/// Within this many tolerances of zero, a gap says that both plans are optimal as far as the plan found is.
const SETTLED: f64 = 100.0;
/// A gap of at most this many units of rounding counts as zero.
const ROUNDING: f64 = 8.0;

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
    predictions: Vec<T>,
    /// Σ_p h_p G_p over the labels p that are not true, rows × r(r+1)/2.
    diagonals: Vec<T>,
    /// M with doubled off-diagonals, rows × r(r+1)/2.
    packed: Vec<T>,
    /// h without the true labels, rows × L.
    others: Vec<T>,
    /// ⟨M, G_p⟩, rows × L.
    own_costs: Vec<T>,
    /// C_pq, one line of L numbers per true label.
    costs: Vec<T>,
    /// γ_pq, one line of L numbers per true label.
    masses: Vec<T>,
    /// l_q M, one line of d numbers per true label.
    mapped: Vec<T>,
    /// Σ_p γ_pq l_p, one line of d numbers per true label.
    moved: Vec<T>,
    /// The vectors of a row's true labels.
    true_labels: Vec<T>,
    /// A matrix of size r × r.
    square: Vec<T>,
    plan: Plan<T>,
    found: Plan<T>,
    /// Whether the plan found is as good as the row's own.
    settled: Vec<bool>,
    at_current: Vec<Measured>,
    at_found: Vec<Measured>,
    probe: Option<Measured>,
    columns: Columns<T>,
    workspace: Buffers,
}

/// Plans: γ_pq = h_p s_pq, one line of L numbers per true label.
#[derive(Default)]
struct Plan<T> {
    shares: Vec<T>,
    /// ln s, exact where s underflows.
    logs: Vec<T>,
}

/// V of a plan, its worst case, and Σ γ ln γ.
struct Measured {
    moment: Array2<f64>,
    worst: WorstCase,
    entropy: f64,
}

impl Measured {
    fn workspace(size: usize) -> Self {
        Self { moment: Array2::zeros((size, size)), worst: WorstCase::workspace(size), entropy: 0.0 }
    }
}

impl<T> Rows<'_, T> {
    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.is_some_and(Interrupt::is_raised)
    }

    fn count(&self) -> usize {
        self.log_predictions.len() / self.width()
    }

    /// L.
    fn width(&self) -> usize {
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

    fn truth(&self, row: usize) -> &[usize] {
        self.targets.row(self.first + row)
    }

    fn line_count(&self) -> usize {
        self.places(self.count() - 1).end
    }
}

impl<T: Real> Chunk<T> {
    /// Losses and gradients of all rows.
    pub(super) fn solve(
        &mut self,
        rows: Rows<T>,
        losses: ArrayViewMut1<f64>,
        gradients: &mut [T],
    ) -> Result<()> {
        self.predict(rows);
        self.settled.clear();
        self.settled.resize(rows.count(), false);
        if rows.line_count() == rows.count() {
            // Single-label rows: Π(h, e_c) has only one plan.
            self.masses.clear();
            self.masses.extend_from_slice(&self.predictions);
            fill(&mut self.plan.logs, self.masses.len(), T::default());
            measure(rows, self.parts(Candidate::Current))?;
        } else {
            self.frank_wolfe(rows)?;
        }
        let entropy = rows.settings.entropy;
        for (loss, current) in losses.into_iter().zip(&self.at_current) {
            *loss = current.worst.value + entropy * current.entropy;
        }
        self.worst_costs(rows);
        let width = rows.width();
        let outs = gradients.chunks_exact_mut(width).zip(rows.log_predictions.chunks_exact(width));
        for (row, (gradient, log_prediction)) in outs.enumerate() {
            // (1/n_y) Σ_q C_pq + λ ln γ_pq, where ln γ_pq = ln h_p + ln s_pq, without its mean.
            let share = 1.0 / rows.truth(row).len() as f64;
            gradient.fill(T::default());
            T::add_own(gradient, T::nearest(entropy), log_prediction);
            let span = rows.span(row, width);
            let lines = self.costs[span.clone()].chunks_exact(width);
            // Where almost no mass moves, only the logarithms of the plan found are consistent with this metric's costs.
            let fits = self.settled[row] && rows.settings.linear_entropy().to_bits() == entropy.to_bits();
            let plan = if fits { &self.found } else { &self.plan };
            for (costs, logs) in lines.zip(plan.logs[span].chunks_exact(width)) {
                T::add_own(gradient, T::nearest(share), costs);
                T::add_own(gradient, T::nearest(share * entropy), logs);
            }
            let mean = T::total(gradient) / width as f64;
            T::add_constant(gradient, T::nearest(-mean));
        }
        Ok(())
    }

    /// The plan of a row, L × n_y, and its worst metric, after [`Chunk::solve`].
    pub(super) fn explain(&self, rows: Rows<T>, row: usize) -> (Array2<f64>, Array2<f64>) {
        let width = rows.width();
        let prediction = &self.predictions[row * width..][..width];
        let single = rows.line_count() == rows.count();
        let shares = &self.plan.shares;
        let start = rows.span(row, width).start;
        let plan = Array2::from_shape_fn((width, rows.truth(row).len()), |(p, q)| {
            let share = if single { 1.0 } else { shares[start + q * width + p].into() };
            share * prediction[p].into()
        });
        (plan, self.at_current[row].worst.metric.clone())
    }

    fn predict(&mut self, rows: Rows<T>) {
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

    /// Runs Frank-Wolfe on all rows. The first plan is that of the first metric, which is the same for all rows.
    fn frank_wolfe(&mut self, rows: Rows<T>) -> Result<()> {
        self.first_costs(rows);
        self.oracle(rows, Candidate::Current);
        measure(rows, self.parts(Candidate::Current))?;
        for _ in 1..rows.settings.frank_wolfe {
            if rows.interrupted() {
                break;
            }
            self.worst_costs(rows);
            self.oracle(rows, Candidate::Found);
            measure(rows, self.parts(Candidate::Found))?;
            if !self.step(rows)? {
                break;
            }
            let predictions = self.predictions.chunks_exact(rows.width());
            self.masses.clear();
            self.masses.extend_from_slice(&self.plan.shares);
            for (row, prediction) in predictions.enumerate() {
                let span = rows.span(row, rows.width());
                self.masses[span].chunks_exact_mut(rows.width()).for_each(|l| T::multiply(l, prediction));
            }
            measure(rows, self.parts(Candidate::Current))?;
        }
        Ok(())
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
    fn worst_costs(&mut self, rows: Rows<T>) {
        let Labels { points, grams, size, .. } = rows.labels;
        let (width, dim) = (rows.width(), points.ncols());
        self.packed.clear();
        self.mapped.clear();
        self.mapped.resize(rows.line_count() * dim, T::default());
        for (row, current) in self.at_current[..rows.count()].iter().enumerate() {
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
    fn oracle(&mut self, rows: Rows<T>, candidate: Candidate) {
        let width = rows.width();
        let plan = if candidate == Candidate::Current { &mut self.plan } else { &mut self.found };
        for numbers in [&mut plan.shares, &mut plan.logs] {
            fill(numbers, self.costs.len(), T::default());
        }
        self.masses.clear();
        for (row, prediction) in self.predictions.chunks_exact(width).enumerate() {
            let span = rows.span(row, width);
            let mut problem = Problem {
                prediction,
                costs: &self.costs[span.clone()],
                regularization: rows.settings.linear_entropy(),
                shares: &mut plan.shares[span.clone()],
                logs: &mut plan.logs[span.clone()],
            };
            self.columns.solve(&mut problem, rows.settings.sinkhorn, rows.settings.tolerance);
            self.masses.extend_from_slice(&plan.shares[span.clone()]);
            self.masses[span].chunks_exact_mut(width).for_each(|line| T::multiply(line, prediction));
        }
    }

    /// Moves every plan toward the one found, as far as the objective decreases. Returns whether any plan had to move.
    fn step(&mut self, rows: Rows<T>) -> Result<bool> {
        let Labels { size, set, .. } = rows.labels;
        let LossSettings { entropy, tolerance, .. } = *rows.settings;
        let (mut any, least) = (false, tolerance.max(ROUNDING * T::EPSILON));
        let width = rows.width();
        let Measured { moment: direction, worst: probe, .. } =
            self.probe.get_or_insert_with(|| Measured::workspace(*size));
        for (row, prediction) in self.predictions.chunks_exact(width).enumerate() {
            if rows.truth(row).len() == 1 {
                continue;
            }
            let span = rows.span(row, width);
            let gap = relative_gap(&self.at_current[row], &self.at_found[row], entropy);
            // A gap far below zero means that the plan found is not optimal either; its own tolerance makes it a little negative.
            self.settled[row] = gap.abs() <= least.max(SETTLED * tolerance);
            if gap <= least {
                continue;
            }
            any = true;
            let (from, to) = (&self.at_current[row].moment, &mut self.at_found[row].moment);
            direction.assign(to);
            *direction -= from;
            let shares = &self.plan.shares[span.clone()];
            let found = (&self.found.shares[span.clone()], &self.found.logs[span.clone()]);
            let theta = search(|theta| {
                to.assign(from);
                to.scaled_add(theta, direction);
                set.evaluate_into(to, probe, &mut self.workspace)?;
                let omega = entropy_slope(prediction, shares, found.0, theta);
                Ok(inner(&probe.metric, direction) + entropy * omega)
            })?;
            let plan = (&mut self.plan.shares[span.clone()], &mut self.plan.logs[span]);
            mix(plan, found, theta);
        }
        Ok(any)
    }

    fn parts(&mut self, candidate: Candidate) -> Parts<'_, T> {
        let (plan, measured) = match candidate {
            Candidate::Current => (&self.plan, &mut self.at_current),
            Candidate::Found => (&self.found, &mut self.at_found),
        };
        Parts {
            predictions: &self.predictions,
            diagonals: &self.diagonals,
            masses: &mut self.masses,
            logs: &plan.logs,
            moved: &mut self.moved,
            true_labels: &mut self.true_labels,
            cross: &mut self.square,
            measured,
            workspace: &mut self.workspace,
        }
    }
}

/// The current plan, or the one that was found.
#[derive(Clone, Copy, PartialEq)]
enum Candidate {
    Current,
    Found,
}

/// The decrease that moving to another plan promises, relative to the cost of this one.
fn relative_gap(current: &Measured, found: &Measured, entropy: f64) -> f64 {
    let metric = &current.worst.metric;
    let scale = inner(metric, &current.moment);
    let descent = scale - inner(metric, &found.moment) + entropy * (current.entropy - found.entropy);
    descent / scale.max(f64::MIN_POSITIVE)
}

/// The buffers that [`measure`] reads and writes.
struct Parts<'a, T> {
    predictions: &'a [T],
    diagonals: &'a [T],
    masses: &'a mut [T],
    logs: &'a [T],
    moved: &'a mut Vec<T>,
    true_labels: &'a mut Vec<T>,
    cross: &'a mut Vec<T>,
    measured: &'a mut Vec<Measured>,
    workspace: &'a mut Buffers,
}

/// Computes V, h(V) and Σ γ ln γ of every row. With Γ all plans stacked, Y = Γ E has all cross moments.
///
/// Mass that stays on a true label adds nothing to V, but may be nearly all of the mass. It is removed from Γ beforehand;
/// otherwise V would be a difference of large numbers, mostly rounding.
fn measure<T: Real>(rows: Rows<T>, parts: Parts<T>) -> Result<()> {
    let Labels { points, grams, size, set, .. } = rows.labels;
    let Parts { predictions, diagonals, masses, logs, moved, true_labels, cross, measured, workspace } =
        parts;
    let (width, dim) = (rows.width(), points.ncols());
    if measured.len() < rows.count() {
        measured.resize_with(rows.count(), || Measured::workspace(*size));
    }
    for (row, prediction) in predictions.chunks_exact(width).enumerate() {
        let span = rows.span(row, width);
        let log_prediction = &rows.log_predictions[row * width..][..width];
        let mut entropy = T::dot(prediction, log_prediction);
        let lines = masses[span.clone()].chunks_exact_mut(width).zip(logs[span].chunks_exact(width));
        for ((masses, logs), &label) in lines.zip(rows.truth(row)) {
            entropy += T::dot(masses, logs);
            masses[label] = T::default();
        }
        measured[row].entropy = entropy;
    }
    fill(moved, rows.line_count() * dim, T::default());
    multiply((masses, rows.line_count()), points.view(), moved);
    for (row, Measured { moment, worst, .. }) in measured.iter_mut().enumerate().take(rows.count()) {
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
        set.evaluate_into(moment, worst, workspace)?;
    }
    Ok(())
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
