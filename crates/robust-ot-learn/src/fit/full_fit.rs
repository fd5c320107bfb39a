//! A fit over all rows at once: choose on held-out rows, then minimize over all rows.

use std::time::Instant;

use ndarray::{Array2, Axis};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::loss_choice::LossName;
use super::method::{decomposition_of, full_batch_bytes, work_of};
use super::objective::FitObjective;
use super::preparation::Preparation;
use super::run::{Fitted, zero_rows_note};
use super::samples::Samples;
use super::settings::FitSettings;
use crate::dataset::Dataset;
use crate::extension::{Extension, extended};
use crate::full_batch::{Linear, Minimum, Penalty, Spectrum, Stop, Whitened};
use crate::label_kernel::{LabelKernel, Prior, PriorGeometry, centered};
use crate::memory::Memory;
use crate::model::{About, Model};
use crate::objective::{Objective, Output};
use crate::preprocessing::Preprocessing;
use crate::score::rank;
use crate::selection::{
    Calibration, Chosen, Options, RowsOfLabels, Search, Split, Tried, counts, kernel_of, offset_of,
};
use crate::threshold::answer_threshold;
use crate::trainer::Epoch;

/// Where the final minimization stops.
const FINE: Stop = Stop { evaluations: 400, tolerance: 1e-7 };
/// Where a minimization stops whose labels are only hidden to calibrate the others.
const ROUGH: Stop = Stop { evaluations: 40, tolerance: 1e-5 };
/// One label in this many is hidden to calibrate labels without rows.
const HIDDEN: usize = 5;
/// With fewer seen labels than this, none are hidden.
const FEWEST_LABELS: usize = 10;
/// The rows on which hidden labels are compared.
const HIDDEN_ROWS: usize = 2000;
/// With fewer rows per label than this, the defaults are better than what so few rows choose.
const FEWEST_ROWS: f64 = 8.0;
/// The temperatures and free parts that are tried on hidden labels.
const KERNELS: [(f64, f64); 6] = [(0.25, 0.1), (0.25, 0.3), (0.5, 0.3), (0.5, 1.0), (1.0, 0.3), (1.0, 1.0)];

/// What happens during a fit.
#[derive(Debug)]
#[non_exhaustive]
pub enum FitEvent<'a> {
    /// A candidate was scored on the held-out rows.
    Tried(&'a Tried),
    /// An iteration of the final minimization ended.
    Iteration(&'a Epoch),
}

/// A fit over all rows at once, ready to run.
///
/// ```
/// use ndarray::Array2;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, FitSettings, FullFit, Samples};
///
/// let rows = Array2::from_shape_fn((60, 2), |(row, column)| (row % (column + 2)) as f32);
/// let train = Dataset::new(Features::Dense(rows), Targets::new(2, (0..60).map(|row| [row % 2]))?)?;
/// let samples = Samples::new(train, vec!["even".into(), "odd".into()]);
/// let fit = FullFit::new(&FitSettings::default(), samples)?;
/// let fitted = fit.run(&Interrupt::default(), &mut |_| ())?.expect("nothing interrupts it");
/// assert!(fitted.model.about.gap < Some(1e-6));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct FullFit {
    settings: FitSettings,
    samples: Samples,
    /// The labels that training rows have.
    seen: Vec<usize>,
    /// The training rows, with the seen labels alone.
    train: Dataset,
    validation: Option<Dataset>,
    notes: Vec<String>,
}

impl FullFit {
    /// Checks the settings against the data.
    ///
    /// # Errors
    /// When a setting is out of range or does not fit the data.
    pub fn new(settings: &FitSettings, samples: Samples) -> Result<Self> {
        settings.check()?;
        let (features, labels) = (samples.train.features().columns(), samples.train.targets().labels());
        let bytes = full_batch_bytes(features, labels);
        if bytes > settings.memory.0 {
            return Err(Error::Shape {
                name: "a model of the optimizer lbfgs",
                expected: format!(
                    "small enough for {} of memory (adam takes a sixth of it)",
                    settings.memory
                ),
                found: format!("{features} features × {labels} labels, which take {}", Memory(bytes)),
            });
        }
        if samples.validation.is_some() && settings.validation.is_some() {
            return Err(Error::Conflict {
                name: "validation",
                rule: "go without validation rows of their own".into(),
                found: "both are given".into(),
            });
        }
        let seen: Vec<usize> = counts(samples.train.targets())
            .into_iter()
            .enumerate()
            .filter_map(|(label, count)| (count > 0).then_some(label))
            .collect();
        let (train, _) = only(&samples.train, &seen)?;
        let validation = match &samples.validation {
            Some(rows) => Some(only(rows, &seen)?.0),
            None => None,
        };
        Ok(Self { settings: settings.clone(), samples, seen, train, validation, notes: Vec::new() })
    }

    /// Chooses, minimizes and describes the model. Returns `None` once interrupted.
    ///
    /// # Errors
    /// When a loss does not fit the data.
    pub fn run(mut self, interrupt: &Interrupt, tell: &mut dyn FnMut(FitEvent)) -> Result<Option<Fitted>> {
        let bases = self.bases()?;
        let vectors = self.samples.label_vectors.clone();
        let names = vectors.as_ref().map(|vectors| {
            centered(&vectors.select(Axis(0), &self.seen), &(0..self.seen.len()).collect::<Vec<_>>())
        });
        let Some((chosen, tried)) = self.choose(&bases, names.as_ref(), interrupt, tell)? else {
            return Ok(None);
        };
        let (name, objective) = &bases[chosen.base];
        let scaled = self.scaled(chosen.scaling)?;
        let Chosen { prior, l2, .. } = chosen;
        let start = Instant::now();
        let mut history: Vec<Epoch> = Vec::new();
        let rows = scaled.0.rows() as f64;
        let found = minimize(
            &scaled.0,
            objective,
            (prior, l2),
            names.as_ref(),
            self.with_bias(),
            FINE,
            interrupt,
            |iteration, value| {
                let (loss, before) = (value / rows, history.iter().map(|epoch| epoch.seconds).sum::<f64>());
                let seconds = start.elapsed().as_secs_f64() - before;
                let epoch = Epoch { epoch: iteration, loss, seconds, validation_auc: None };
                tell(FitEvent::Iteration(&epoch));
                history.push(epoch);
            },
        )?;
        let Some((mut linear, minimum)) = found else { return Ok(None) };
        if !minimum.converged {
            let Minimum { gap, iterations, .. } = minimum;
            self.notes.push(format!("after {iterations} iterations the loss is still {gap:.1e} above its minimum, by the norm of its gradient"));
        }
        chosen.calibration.iter().for_each(|calibration| calibrate(&mut linear, *calibration));
        let extension = match &vectors {
            Some(vectors) => self.extension(&scaled.0, vectors, objective, (&chosen, &linear), interrupt)?,
            None => None,
        };
        if interrupt.is_raised() {
            return Ok(None);
        }
        let model = self.model(linear, (*name, objective), &chosen, tried, extension, &scaled)?;
        let mut model = model;
        model.about.epochs = history.len();
        model.about.gap = Some(minimum.gap);
        Ok(Some(Fitted { model, history, notes: self.notes }))
    }

    /// The losses to choose from, with their objectives for the seen labels.
    fn bases(&self) -> Result<Vec<(&'static str, Objective)>> {
        let single = (0..self.train.rows()).all(|row| self.train.targets().row(row).len() == 1);
        let names = match self.settings.loss.name {
            Some(name) => vec![name],
            None if self.settings.loss.states_transport() => vec![LossName::Mix],
            None if single => vec![LossName::CrossEntropy, LossName::BinaryCrossEntropy, LossName::Square],
            None => vec![LossName::BinaryCrossEntropy, LossName::Square],
        };
        names.into_iter().map(|name| Ok((name.name(), self.objective(name)?.objective))).collect()
    }

    fn objective(&self, name: LossName) -> Result<FitObjective> {
        let mut settings = self.settings.clone();
        settings.loss.name = Some(name);
        let vectors = self.samples.label_vectors.as_ref().map(|vectors| vectors.select(Axis(0), &self.seen));
        FitObjective::new(&settings, None, &self.train, vectors.as_ref())
    }

    fn with_bias(&self) -> bool {
        self.settings.training.bias.unwrap_or(true)
    }

    /// Chooses on held-out rows, if any can be held out.
    fn choose(
        &mut self,
        bases: &[(&'static str, Objective)],
        names: Option<&Array2<f64>>,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(FitEvent),
    ) -> Result<Option<(Chosen, Vec<Tried>)>> {
        let Self { settings, train, validation, .. } = self;
        let geometries = settings.prior.geometries(names.is_some())?;
        let work = work_of(train);
        let splits = match (settings.validation, &validation) {
            (Some(0.0), _) | (_, Some(_)) => Vec::new(),
            (None, None) if rows_per_label(train) < FEWEST_ROWS => Vec::new(),
            (part, None) => Split::all(train.targets(), part, work + decomposition_of(train), settings.seed),
        };
        let options = Options {
            bases: bases.to_vec(),
            scalings: settings.preparation.choices(),
            geometries,
            temperature: settings.prior.temperature,
            free: settings.prior.free,
            l2: settings.prior.l2,
            names,
            with_bias: settings.training.bias.unwrap_or(true),
            work,
        };
        if splits.is_empty() && validation.is_none() {
            return self.unchosen(&options).map(|chosen| Some((chosen, Vec::new())));
        }
        let square = self.objective(LossName::Square)?.objective;
        let rows = (&self.train, self.validation.as_ref(), &splits[..]);
        Search::run(&options, square, rows, interrupt, &mut |tried| tell(FitEvent::Tried(tried)))
    }

    /// The choice where no rows can be held out.
    fn unchosen(&mut self, options: &Options) -> Result<Chosen> {
        let scaling = self.settings.preparation;
        let unit = scaling.choices().get(1).copied().unwrap_or(scaling);
        let geometries = &options.geometries;
        let preferred = [PriorGeometry::Names, PriorGeometry::Rows];
        let geometry = preferred.into_iter().find(|one| geometries.contains(one)).unwrap_or(geometries[0]);
        let l2 = match options.l2 {
            Some(l2) => l2,
            None => Spectrum::of(self.scaled(unit)?.0.features(), options.with_bias)?.scale(),
        };
        let why = match self.settings.validation {
            Some(_) => "no rows are held out",
            None => "there are too few rows per label to hold any out",
        };
        self.notes.push(format!("{why}, so that loss, scaling, prior and L2 are the defaults"));
        Ok(Chosen {
            base: 0,
            scaling: unit,
            prior: self.settings.prior.unchosen(geometry),
            l2,
            calibration: None,
        })
    }

    /// The rows of the final fit: all that were not given for validation alone.
    fn scaled(&mut self, scaling: Preparation) -> Result<(Dataset, Preprocessing)> {
        let preprocessing = scaling.of(&self.train);
        let mut scaled = self.train.clone();
        let zero = scaled.preprocess(&preprocessing)?;
        self.notes.extend(zero_rows_note(zero, scaled.rows(), "training rows"));
        Ok((scaled, preprocessing))
    }

    /// Hides labels that have rows, and fits the weights, the factor and the offset of labels that have none.
    fn extension(
        &self,
        scaled: &Dataset,
        vectors: &Array2<f64>,
        objective: &Objective,
        (chosen, linear): (&Chosen, &Linear),
        interrupt: &Interrupt,
    ) -> Result<Option<Extension>> {
        let vectors = vectors.select(Axis(0), &self.seen);
        let known = |label: &usize| vectors.row(*label).iter().any(|x| *x != 0.0);
        let mut order: Vec<usize> = (0..self.seen.len()).filter(known).collect();
        let own = chosen.prior;
        // New labels are on average as likely as those with rows.
        let offset = mean(&linear.bias);
        let plain = Extension { temperature: own.temperature, free: own.free, offset, auc: None };
        if order.len() < FEWEST_LABELS {
            return Ok(Some(plain));
        }
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(self.settings.seed));
        let (mut hidden, mut kept) =
            (order[..order.len() / HIDDEN].to_vec(), order[order.len() / HIDDEN..].to_vec());
        kept.extend((0..self.seen.len()).filter(|label| !known(label)));
        hidden.sort_unstable();
        kept.sort_unstable();
        let Ok((rest, _)) = only(scaled, &kept) else { return Ok(Some(plain)) };
        let small = objective_of(objective, kept.len());
        let of_kept = vectors.select(Axis(0), &kept);
        let names = centered(&of_kept, &(0..kept.len()).collect::<Vec<_>>());
        let found = minimize(
            &rest,
            &small,
            (own, chosen.l2),
            Some(&names),
            self.with_bias(),
            ROUGH,
            interrupt,
            |_, _| (),
        )?;
        let Some((mut rest, _)) = found else { return Ok(None) };
        chosen.calibration.iter().for_each(|calibration| calibrate(&mut rest, *calibration));
        let Linear { weights, bias } = rest;
        let count = scaled.rows().min(HIDDEN_ROWS);
        let rows: Vec<usize> = (0..count).map(|at| at * scaled.rows() / count).collect();
        let compared = with_rest(&scaled.select(&rows), &hidden)?;
        let all = ndarray::concatenate![Axis(0), of_kept, vectors.select(Axis(0), &hidden)];
        let places: Vec<usize> = (0..kept.len()).collect();
        let new: Vec<usize> = (kept.len()..all.nrows()).collect();
        let mut best: Option<(f64, Extension, Array2<f64>)> = None;
        let kernels = if own.geometry == PriorGeometry::Names {
            vec![(own.temperature, own.free)]
        } else {
            KERNELS.to_vec()
        };
        for (temperature, free) in kernels {
            let tried = Extension { temperature, free, ..plain };
            let (weights, bias) = extended(&weights, Some(&bias), &all, (&places, &new), tried)?;
            let logits =
                crate::linear::logits(compared.features(), weights.view(), Some(&bias)).mapv(f64::from);
            let auc = auc_without_rest(&logits, compared.targets())?;
            if best.as_ref().is_none_or(|best| auc > best.0) {
                best = Some((auc, tried, logits));
            }
        }
        let Some((auc, extension, logits)) = best else { return Ok(Some(plain)) };
        let auc = auc.is_finite().then_some(auc);
        // A softmax has no odds of single labels.
        let offset = match objective.output() {
            Output::Sigmoid => offset_of(logits.view(), compared.targets()),
            Output::Softmax => plain.offset,
        };
        Ok(Some(Extension { offset, auc, ..extension }))
    }

    /// The model of all labels.
    fn model(
        &mut self,
        Linear { weights, bias }: Linear,
        (name, objective): (&str, &Objective),
        chosen: &Chosen,
        tried: Vec<Tried>,
        extension: Option<Extension>,
        (scaled, preprocessing): &(Dataset, Preprocessing),
    ) -> Result<Model> {
        let Samples { label_names, label_vectors, dropped_labels, first_index, .. } = &self.samples;
        let labels = label_names.len();
        let mut whole = Array2::zeros((weights.nrows(), labels));
        let mut offsets = vec![0.0; labels];
        for (place, &label) in self.seen.iter().enumerate() {
            whole.column_mut(label).assign(&weights.column(place));
            offsets[label] = bias[place];
        }
        let unseen: Vec<usize> =
            (0..labels).filter(|label| self.seen.binary_search(label).is_err()).collect();
        if !unseen.is_empty() {
            if let (Some(vectors), Some(extension)) = (label_vectors, extension) {
                let (of_unseen, bias) =
                    extended(&whole, Some(&offsets), vectors, (&self.seen, &unseen), extension)?;
                for (place, &label) in unseen.iter().enumerate() {
                    whole.column_mut(label).assign(&of_unseen.column(place));
                    offsets[label] = bias[place];
                }
            } else {
                let least = bias.iter().copied().fold(f32::INFINITY, f32::min);
                unseen.iter().for_each(|&label| offsets[label] = least);
            }
        }
        let bias = (self.with_bias() || chosen.calibration.is_some()).then_some(offsets);
        let mut model = Model::new(whole, bias, objective.output(), label_names.clone())?;
        let loss: LossName = name.parse()?;
        let FitObjective { about, geometry, .. } = self.objective(loss)?;
        if unseen.is_empty() {
            let threshold = answer_threshold(&model, scaled)?;
            model.about.threshold = threshold;
        }
        let mut label_rows = vec![0; labels];
        let found = counts(self.train.targets());
        self.seen.iter().zip(found).for_each(|(&label, count)| label_rows[label] = count);
        model.preprocessing = preprocessing.clone();
        model.label_vectors.clone_from(label_vectors);
        model.geometry = geometry.filter(|_| unseen.is_empty());
        model.about = About {
            threshold: model.about.threshold,
            prior: Some(chosen.prior),
            l2: Some(chosen.l2),
            calibration: chosen.calibration,
            tried,
            label_rows,
            extension,
            dropped_labels: dropped_labels.clone(),
            first_index: *first_index,
            device: About::CPU.to_owned(),
            ..about
        };
        Ok(model)
    }
}

/// The mean number of rows of a label.
fn rows_per_label(data: &Dataset) -> f64 {
    let pairs: usize = counts(data.targets()).into_iter().sum();
    pairs as f64 / data.targets().labels() as f64
}

fn mean(numbers: &[f32]) -> f64 {
    numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / numbers.len().max(1) as f64
}

/// Makes the logits z those of calibrated odds, a z + b.
fn calibrate(linear: &mut Linear, Calibration { slope, offset }: Calibration) {
    linear.weights.mapv_inplace(|w| (f64::from(w) * slope) as f32);
    linear.bias.iter_mut().for_each(|b| *b = (f64::from(*b) * slope + offset) as f32);
}

/// Minimizes the penalized loss of all rows, from zero.
#[expect(clippy::too_many_arguments, reason = "two callers in this file, with different rows and labels")]
fn minimize(
    scaled: &Dataset,
    objective: &Objective,
    (prior, l2): (Prior, f64),
    names: Option<&Array2<f64>>,
    with_bias: bool,
    stop: Stop,
    interrupt: &Interrupt,
    mut progress: impl FnMut(usize, f64),
) -> Result<Option<(Linear, Minimum)>> {
    let spectrum = Spectrum::of(scaled.features(), with_bias)?;
    let kernel: LabelKernel = match prior.geometry {
        PriorGeometry::None => LabelKernel::independent(objective.labels()),
        geometry => kernel_of(geometry, prior.temperature, names, &RowsOfLabels::of(scaled)?)?,
    };
    let penalty = Penalty { kernel: &kernel, free: prior.free, l2 };
    let problem = Whitened::new(scaled, objective, &spectrum, penalty, with_bias);
    problem.minimize(None, stop, interrupt, |iteration, value, _| progress(iteration, value))
}

/// The rows that have one of these labels, with these labels alone, and the places of the rows.
fn only(data: &Dataset, labels: &[usize]) -> Result<(Dataset, Vec<usize>)> {
    let targets = data.targets();
    let mut places = vec![None; targets.labels()];
    labels.iter().enumerate().for_each(|(place, &label)| places[label] = Some(place));
    let of = |row: usize| targets.row(row).iter().filter_map(|&label| places[label]).collect::<Vec<_>>();
    let rows: Vec<usize> = (0..data.rows()).filter(|&row| !of(row).is_empty()).collect();
    let kept = Targets::new(labels.len(), rows.iter().map(|&row| of(row)))?;
    let features =
        if rows.len() == data.rows() { data.features().clone() } else { data.features().select(&rows) };
    Ok((Dataset::new(features, kept)?, rows))
}

/// The rows with these labels alone, and with one more label for rows that have none of them.
fn with_rest(data: &Dataset, labels: &[usize]) -> Result<Dataset> {
    let rows = (0..data.rows()).map(|row| {
        let of_row = data.targets().row(row).iter().filter_map(|label| labels.binary_search(label).ok());
        let of_row: Vec<usize> = of_row.collect();
        if of_row.is_empty() { vec![labels.len()] } else { of_row }
    });
    Dataset::new(data.features().clone(), Targets::new(labels.len() + 1, rows)?)
}

/// The macro AUC of all labels but the last, which has no logits.
fn auc_without_rest(logits: &Array2<f64>, truth: &Targets) -> Result<f64> {
    let padded = ndarray::concatenate![Axis(1), *logits, Array2::zeros((logits.nrows(), 1))];
    let found = rank(padded.view(), truth)?;
    let rest = counts(truth)[logits.ncols()];
    // Equal scores have an AUC of one half.
    let counted = usize::from((1..truth.rows()).contains(&rest));
    let others = found.counted - counted;
    Ok((found.auc * found.counted as f64 - 0.5 * counted as f64) / others as f64)
}

/// The same base loss for another number of labels, with hard targets.
fn objective_of(objective: &Objective, labels: usize) -> Objective {
    match objective.output() {
        _ if objective.is_square() => Objective::square(labels),
        Output::Softmax => Objective::cross_entropy(labels),
        Output::Sigmoid => Objective::binary(labels),
    }
}
