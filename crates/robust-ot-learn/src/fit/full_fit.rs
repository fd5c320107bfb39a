//! A fit over all rows at once: choose on held-out rows, then minimize over all rows.

use std::time::Instant;

use ndarray::{Array2, Axis};
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::hidden_labels::extension_of;
use super::label_subset::{only, too_few_to_choose};
use super::loss_choice::LossName;
use super::method::{decomposition_of, full_batch_bytes, work_of};
use super::objective::FitObjective;
use super::penalized::{Penalized, Reached, calibrate};
use super::preparation::Preparation;
use super::run::{Fitted, zero_rows_note};
use super::samples::Samples;
use super::settings::FitSettings;
use crate::criterion::Criterion;
use crate::dataset::Dataset;
use crate::extension::{Extension, extended};
use crate::full_batch::{Linear, Spectrum, Stop};
use crate::label_kernel::{PriorGeometry, centered};
use crate::memory::Memory;
use crate::model::{About, Model};
use crate::objective::Objective;
use crate::preprocessing::Preprocessing;
use crate::row_length::RowLength;
use crate::selection::{BlendPart, Chosen, Options, Part, SMALL, Search, Split, Tried, blend_name, counts};
use crate::threshold::answer_threshold;
use crate::trainer::Epoch;

/// Where the final minimization stops.
const FINE: Stop = Stop { evaluations: 400, tolerance: 1e-7 };
/// The most labels that a note lists by name.
const LISTED: usize = 20;

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
        let train = only(&samples.train, &seen)?;
        let validation = match &samples.validation {
            Some(rows) => Some(only(rows, &seen)?),
            None => None,
        };
        Ok(Self { settings: settings.clone(), samples, seen, train, validation, notes: Vec::new() })
    }

    /// Chooses, minimizes and describes the model. Interrupted while it minimizes, it returns the model of the iterations so
    /// far, marked in its `about`; before the first of them, `None`.
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
        let scaled = self.scaled(chosen.scaling)?;
        let start = Instant::now();
        let mut history: Vec<Epoch> = Vec::new();
        let rows = scaled.0.total_weight();
        let problem = Penalized {
            rows: &scaled.0,
            bases: &bases,
            parts: &chosen.parts,
            names: names.as_ref(),
            with_bias: self.with_bias(),
        };
        let (mut linear, reached) = problem.minimize(FINE, interrupt, |value| {
            let (loss, before) = (value / rows, history.iter().map(|epoch| epoch.seconds).sum::<f64>());
            let seconds = start.elapsed().as_secs_f64() - before;
            let epoch = Epoch {
                epoch: history.len() + 1,
                loss,
                seconds,
                validation_auc: None,
                validation_score: None,
            };
            tell(FitEvent::Iteration(&epoch));
            history.push(epoch);
        })?;
        if reached.interrupted && reached.iterations == 0 {
            return Ok(None);
        }
        if !reached.converged {
            let Reached { gap, iterations, .. } = reached;
            self.notes.push(format!("after {iterations} iterations the loss is still {gap:.1e} above its minimum, by the norm of its gradient"));
        }
        chosen.calibration.iter().for_each(|calibration| calibrate(&mut linear, *calibration));
        let extension = match &vectors {
            None => None,
            Some(vectors) => {
                let vectors = vectors.select(Axis(0), &self.seen);
                extension_of(problem, &vectors, &chosen, &linear, self.settings.seed, interrupt)?
            }
        };
        // Without an extension, labels without rows are as unlikely as the least likely of the others.
        let interrupted = reached.interrupted || vectors.is_some() && extension.is_none();
        let mut model = self.model(linear, &bases, &chosen, tried, extension, &scaled)?;
        model.about.epochs = history.len();
        model.about.gap = Some(reached.gap);
        model.about.interrupted = interrupted;
        Ok(Some(Fitted { model, history, notes: self.notes }))
    }

    /// The losses to choose from, with their objectives for the seen labels.
    fn bases(&self) -> Result<Vec<(&'static str, Objective)>> {
        let single = (0..self.train.rows()).all(|row| self.train.targets().row(row).len() == 1);
        let names = match self.settings.loss.name {
            Some(name) => vec![name],
            None if self.settings.loss.states_transport() => vec![LossName::Mix],
            // A softmax ranks labels without rows lower where another label is likely; separate odds do not.
            None if single && self.extends() => vec![LossName::CrossEntropy],
            None if single => vec![LossName::CrossEntropy, LossName::BinaryCrossEntropy, LossName::Square],
            None => vec![LossName::BinaryCrossEntropy, LossName::Square],
        };
        names.into_iter().map(|name| Ok((name.name(), self.objective(name)?.objective))).collect()
    }

    /// Whether labels without rows have vectors.
    fn extends(&self) -> bool {
        let Some(vectors) = &self.samples.label_vectors else { return false };
        (0..vectors.nrows()).any(|label| {
            self.seen.binary_search(&label).is_err() && vectors.row(label).iter().any(|x| *x != 0.0)
        })
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
        let Self { settings, samples, seen, train, validation, .. } = self;
        let geometries = settings.prior.geometries(names.is_some())?;
        let criterion = settings.select.unwrap_or(Criterion::Rank);
        criterion.check(names.is_some())?;
        let vectors = samples.label_vectors.as_ref().map(|all| all.select(Axis(0), seen));
        let work = work_of(train);
        let splits = match (settings.validation, &validation) {
            (Some(0.0), _) | (_, Some(_)) => Vec::new(),
            (None, None) if too_few_to_choose(train) => Vec::new(),
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
            criterion,
            costs: vectors.as_ref().filter(|_| criterion == Criterion::Semantic),
            with_bias: settings.training.bias.unwrap_or(true),
            work,
            thorough: work <= SMALL,
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
        let mut choices = scaling.choices().into_iter();
        let unit = choices.find(|choice| choice.row_length == Some(RowLength::ONE)).unwrap_or(scaling);
        let geometries = &options.geometries;
        // Names may say little about what rows look like, and few rows say little about labels: half of each.
        let preferred = [PriorGeometry::Both, PriorGeometry::Names, PriorGeometry::Rows];
        let geometry = preferred.into_iter().find(|one| geometries.contains(one)).unwrap_or(geometries[0]);
        let l2 = if let Some(l2) = options.l2 {
            l2
        } else {
            let scaled = self.scaled(unit)?.0;
            Spectrum::of(scaled.features(), scaled.weights(), options.with_bias)?.scale()
        };
        // Who holds nothing out knows that nothing is compared.
        if self.settings.validation.is_none() {
            let why = "there are too few rows per label to hold any out";
            self.notes.push(format!("{why}, so that loss, scaling, prior and L2 are the defaults"));
        }
        let parts = vec![Part::alone(0, self.settings.prior.unchosen(geometry), l2)];
        Ok(Chosen { parts, scaling: unit, calibration: None })
    }

    /// The rows of the final fit: all that were not given for validation alone.
    fn scaled(&mut self, scaling: Preparation) -> Result<(Dataset, Preprocessing)> {
        let preprocessing = scaling.of(&self.train);
        let mut scaled = self.train.clone();
        let zero = scaled.preprocess(&preprocessing)?;
        self.notes.extend(zero_rows_note(zero, scaled.rows(), "training rows"));
        Ok((scaled, preprocessing))
    }

    /// The model of all labels.
    fn model(
        &mut self,
        Linear { weights, bias }: Linear,
        bases: &[(&'static str, Objective)],
        chosen: &Chosen,
        tried: Vec<Tried>,
        extension: Option<Extension>,
        (scaled, preprocessing): &(Dataset, Preprocessing),
    ) -> Result<Model> {
        let Samples { label_names, label_vectors, dropped_labels, first_index, .. } = &self.samples;
        let labels = label_names.len();
        let (name, objective) = &bases[chosen.parts[0].base];
        let with_bias = self.with_bias() || chosen.calibration.is_some();
        let of_seen = self.seen.iter().map(|&label| label_names[label].clone()).collect();
        let of_seen =
            Model::new(weights.clone(), with_bias.then(|| bias.clone()), objective.output(), of_seen)?;
        let threshold = answer_threshold(&of_seen, scaled)?;
        let mut whole = Array2::zeros((weights.nrows(), labels));
        // A label without rows is as unlikely as the least likely of the others, unless its name says more.
        let least = bias.iter().copied().fold(f32::INFINITY, f32::min);
        let mut offsets = vec![least; labels];
        for (place, &label) in self.seen.iter().enumerate() {
            whole.column_mut(label).assign(&weights.column(place));
            offsets[label] = bias[place];
        }
        let unseen = (0..labels).filter(|label| self.seen.binary_search(label).is_err());
        let has_vector = |label: &usize| {
            label_vectors.as_ref().is_some_and(|vectors| vectors.row(*label).iter().any(|x| *x != 0.0))
        };
        let (named, unnamed): (Vec<usize>, Vec<usize>) = unseen.partition(has_vector);
        if let (Some(vectors), Some(extension), false) = (label_vectors, extension, named.is_empty()) {
            let (of_named, bias) =
                extended(&whole, Some(&offsets), vectors, (&self.seen, &named), extension)?;
            for (place, &label) in named.iter().enumerate() {
                whole.column_mut(label).assign(&of_named.column(place));
                offsets[label] = bias[place];
            }
        }
        if !unnamed.is_empty() {
            let names: Vec<&str> =
                unnamed.iter().take(LISTED).map(|&label| label_names[label].as_str()).collect();
            let more = if unnamed.len() > LISTED { ", …" } else { "" };
            let (count, names) = (unnamed.len(), names.join(", "));
            self.notes.push(format!(
                "{count} labels have neither a row nor a vector and cannot be predicted: {names}{more}"
            ));
        }
        let mut model =
            Model::new(whole, with_bias.then_some(offsets), objective.output(), label_names.clone())?;
        let loss: LossName = name.parse()?;
        let FitObjective { about, geometry, .. } = self.objective(loss)?;
        let mut label_rows = vec![0; labels];
        let found = counts(self.train.targets());
        self.seen.iter().zip(found).for_each(|(&label, count)| label_rows[label] = count);
        model.preprocessing = preprocessing.clone();
        model.label_vectors.clone_from(label_vectors);
        model.geometry = geometry.filter(|_| self.seen.len() == labels);
        let blend = match &chosen.parts[..] {
            [_] => Vec::new(),
            parts => parts.iter().map(|part| BlendPart::of(bases, part)).collect(),
        };
        model.about = About {
            threshold,
            loss: if blend.is_empty() { about.loss } else { blend_name(bases, &chosen.parts) },
            blend,
            prior: Some(chosen.parts[0].prior),
            l2: Some(chosen.parts[0].l2),
            calibration: chosen.calibration,
            select: (!tried.is_empty()).then(|| self.settings.select.unwrap_or(Criterion::Rank)),
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
