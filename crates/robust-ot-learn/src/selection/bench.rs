//! One scaling of the features, in folds: every candidate's logits of the held-out rows, and their scores.

use ndarray::{Array1, Array2, ArrayViewMut2, Axis, s};
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::folds::{Split, counts};
use super::held_out::HeldOut;
use crate::criterion::HeldScores;
use crate::dataset::Dataset;
use crate::fit::Preparation;
use crate::full_batch::{Linear, Penalty, Ridge, Spectrum, Stop, Whitened, in_spectrum, starts};
use crate::hidden_layer::logits;
use crate::label_kernel::{LabelKernel, PriorGeometry, gibbs};
use crate::label_means::label_means;
use crate::objective::{Objective, Output};

/// How far candidates are minimized: their scores settle long before their losses do.
const ROUGH: Stop = Stop { evaluations: 20, tolerance: 1e-4 };

/// The mean rows of labels, as the kernel takes them: a label without rows has the zero vector.
#[derive(Debug, Clone)]
pub(crate) struct RowsOfLabels(pub(crate) Array2<f64>);

impl RowsOfLabels {
    pub(crate) fn of(data: &Dataset) -> Result<Self> {
        let mut vectors = label_means(data)?;
        for (mut vector, count) in vectors.outer_iter_mut().zip(counts(data.targets())) {
            if count == 0 {
                vector.fill(0.0);
            }
        }
        Ok(Self(vectors))
    }
}

/// The kernel of a geometry at a temperature, without its free part.
pub(crate) fn kernel_of(
    geometry: PriorGeometry,
    temperature: f64,
    names: Option<&Array2<f64>>,
    rows: &RowsOfLabels,
) -> Result<LabelKernel> {
    let of = |vectors: &Array2<f64>| gibbs(vectors, vectors, temperature, true);
    let missing = || Error::Conflict {
        name: "label_prior",
        rule: "be none or rows without label vectors".into(),
        found: format!("it is {geometry}"),
    };
    match geometry {
        PriorGeometry::None => Ok(LabelKernel::independent(rows.0.nrows())),
        PriorGeometry::Names => LabelKernel::of(&of(names.ok_or_else(missing)?)),
        PriorGeometry::Rows => LabelKernel::of(&of(&rows.0)),
        PriorGeometry::Both => LabelKernel::of(&(0.5 * (of(names.ok_or_else(missing)?) + of(&rows.0)))),
    }
}

/// The rows of one turn, scaled, with everything that candidates share.
#[derive(Debug)]
struct Fold {
    train: Dataset,
    held: Dataset,
    spectrum: Spectrum,
    /// The closed form of the squared error, and the held-out rows in its basis.
    ridge: Option<(Ridge, Array2<f32>)>,
    rows: Option<RowsOfLabels>,
}

/// A loss and the objective it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) name: &'a str,
    pub(super) objective: &'a Objective,
}

/// The folds of the training rows under one scaling.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    folds: Vec<Fold>,
    held: HeldOut,
    names: Option<&'a Array2<f64>>,
    /// The label vectors, if semantic costs are wanted.
    costs: Option<&'a Array2<f64>>,
    with_bias: bool,
}

/// A geometry at one temperature, decomposed in every fold.
#[derive(Debug)]
pub(super) struct FoldKernels(Vec<LabelKernel>);

impl<'a> Bench<'a> {
    /// Prepares the folds, each scaled by its own training part, as the rows to predict will be: scaling by all rows would
    /// favor columns that hardly vary. `square` is the squared error with the targets of the fit.
    pub(super) fn new(
        splits: &[Split],
        (train, validation): (&Dataset, Option<&Dataset>),
        scaling: Preparation,
        (names, costs): (Option<&'a Array2<f64>>, Option<&'a Array2<f64>>),
        square: &Objective,
        with_bias: bool,
    ) -> Result<Self> {
        let mut folds = Vec::new();
        let parts: Vec<(Dataset, Dataset)> = match validation {
            Some(held) => vec![(train.clone(), held.clone())],
            None => {
                splits.iter().map(|split| (train.select(&split.train), train.select(&split.held))).collect()
            }
        };
        for (mut train, mut held) in parts {
            let preprocessing = scaling.of(&train);
            train.preprocess(&preprocessing)?;
            held.preprocess(&preprocessing)?;
            let spectrum = Spectrum::of(train.features(), train.weights(), with_bias)?;
            let ridge = spectrum.vectors.is_some().then(|| {
                let ridge = Ridge::new(&train, square, &spectrum, with_bias)?;
                Ok((ridge, in_spectrum(held.features(), &spectrum)))
            });
            let ridge = ridge.transpose()?;
            folds.push(Fold { train, held, spectrum, ridge, rows: None });
        }
        let held = HeldOut::of(folds.iter().map(|fold| (&fold.train, &fold.held)));
        Ok(Self { folds, held, names, costs, with_bias })
    }

    /// Whether the squared error has its closed form here.
    pub(super) fn has_ridge(&self) -> bool {
        self.folds[0].ridge.is_some()
    }

    /// The scale of λ for a base: the mean curvature of the loss of all rows.
    pub(super) fn unit(&self, base: Base) -> f64 {
        let Fold { train, spectrum, .. } = &self.folds[0];
        let moments = spectrum.scale();
        if base.objective.is_square() {
            return moments;
        }
        let rows = train.rows() as f64;
        let curvatures = counts(train.targets()).into_iter().map(|count| {
            let rate = count as f64 / rows;
            rate * (1.0 - rate)
        });
        moments * (curvatures.sum::<f64>() / train.targets().labels() as f64).max(f64::MIN_POSITIVE)
    }

    /// Decomposes a geometry in every fold.
    pub(super) fn kernels(&mut self, geometry: PriorGeometry, temperature: f64) -> Result<FoldKernels> {
        let names = self.names;
        let kernels = self.folds.iter_mut().map(|fold| {
            if fold.rows.is_none() {
                fold.rows = Some(RowsOfLabels::of(&fold.train)?);
            }
            let rows = fold.rows.as_ref().expect("computed above");
            kernel_of(geometry, temperature, names, rows)
        });
        kernels.collect::<Result<_>>().map(FoldKernels)
    }

    /// The logits of all held-out rows. L-BFGS starts from the models of `warm` and leaves its own there. `None` once
    /// interrupted.
    pub(super) fn logits(
        &self,
        base: Base,
        kernels: &FoldKernels,
        (free, l2): (f64, f64),
        warm: &mut [Option<Linear>],
        interrupt: &Interrupt,
    ) -> Result<Option<Array2<f32>>> {
        let labels = base.objective.labels();
        let mut all = Array2::zeros((self.truth().rows(), labels));
        let mut first = 0;
        // The rows of all folds are ranked together, so that a label's bias must not depend on how many of its rows a fold
        // happens to train on.
        let common = starts(self.truth(), base.objective);
        for ((fold, kernel), warm) in self.folds.iter().zip(&kernels.0).zip(warm) {
            if interrupt.is_raised() {
                return Ok(None);
            }
            let Fold { train, held, spectrum, ridge, .. } = fold;
            let penalty = Penalty { kernel, free, l2 };
            let mut out: ArrayViewMut2<f32> = all.slice_mut(s![first..first + held.rows(), ..]);
            first += held.rows();
            match ridge {
                Some((ridge, rows)) if base.objective.is_square() => {
                    out.assign(&ridge.logits(rows, &ridge.in_kernel(penalty), spectrum, penalty));
                }
                _ => {
                    let problem = Whitened::new(train, base.objective, spectrum, penalty, self.with_bias);
                    let (model, minimum) = problem.minimize(warm.as_ref(), ROUGH, interrupt, |_, _, _| ())?;
                    if minimum.interrupted {
                        return Ok(None);
                    }
                    let bias = Some(model.bias.as_slice());
                    out.assign(&logits(held.features(), None, model.weights.view(), bias));
                    *warm = Some(model);
                }
            }
            if self.with_bias && self.folds.len() > 1 {
                let own = starts(train.targets(), base.objective);
                let shift = Array1::from_iter(common.iter().zip(&own).map(|(common, own)| common - own));
                out += &shift;
            }
        }
        Ok(Some(all))
    }

    /// The scores of these logits as the model ranks labels: by probabilities.
    pub(super) fn scores(&self, base: Base, logits: &Array2<f32>) -> Result<HeldScores> {
        let mut scores = logits.mapv(f64::from);
        if base.objective.output() == Output::Softmax {
            for mut row in scores.axis_iter_mut(Axis(0)) {
                Output::Softmax.probabilities(row.as_slice_mut().expect("rows are contiguous"));
            }
        }
        self.held.scores(&scores, self.costs)
    }

    /// The true labels of all held-out rows.
    pub(super) fn truth(&self) -> &Targets {
        self.held.truth()
    }

    /// Places for one model per fold.
    pub(super) fn cold(&self) -> Vec<Option<Linear>> {
        vec![None; self.folds.len()]
    }
}
