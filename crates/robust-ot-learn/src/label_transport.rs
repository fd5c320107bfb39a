//! Transport from a prediction to labels, under the metric set that a model was trained with.

use ndarray::{Array2, ArrayView1, Axis};
use rayon::prelude::*;
use robust_ot::loss::Targets;
use robust_ot::{Grouping, Measure, MetricSet, Problem, Result, Settings, Solution};

use crate::model::Model;

/// Relative gap of these plans. It is loose, because the plans are for display, not for further computation.
const TOLERANCE: f64 = 1e-2;

/// The transport between predictions and labels that a model was trained with; W2² if its loss has none.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::{LabelTransport, Model, Output};
///
/// let names = vec!["near".into(), "nearer".into(), "far".into()];
/// let mut model = Model::new(array![[0.0, 0.0, 0.0]], None, Output::Softmax, names)?;
/// model.label_vectors = Some(array![[0.0], [1.0], [5.0]]);
/// let transport = LabelTransport::of(&model)?.expect("the model has label vectors");
/// let found = transport.to(array![0.0, 1.0, 0.0].view(), &[0])?;
/// assert!((found.value - 1.0).abs() < 1e-9);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct LabelTransport<'a> {
    /// The label vectors.
    pub vectors: &'a Array2<f64>,
    /// The groups of their features.
    pub grouping: Grouping,
    set: MetricSet,
    entropy: f64,
}

/// The mean worst metric between predictions and truths; `None` for a model without transport in its loss.
///
/// # Errors
/// When the model's geometry is invalid.
pub fn mean_metric(
    model: &Model,
    probabilities: &Array2<f64>,
    truth: &Targets,
) -> Result<Option<Array2<f64>>> {
    if model.about.robust.is_none() {
        return Ok(None);
    }
    let Some(transport) = LabelTransport::of(model)? else { return Ok(None) };
    let solve =
        |row: usize| transport.to(probabilities.row(row), truth.row(row)).map(|solution| solution.metric);
    let metrics = (0..truth.rows()).into_par_iter().map(solve).collect::<Result<Vec<_>>>()?;
    let mut mean = Array2::<f64>::zeros((transport.grouping.groups(), transport.grouping.groups()));
    metrics.iter().for_each(|metric| mean += metric);
    Ok(Some(mean / truth.rows().max(1) as f64))
}

impl<'a> LabelTransport<'a> {
    /// The transport of a model; `None` without label vectors.
    ///
    /// # Errors
    /// When the model's groups or metric set do not fit its vectors.
    pub fn of(model: &'a Model) -> Result<Option<Self>> {
        let Some(vectors) = model.geometry.as_ref().or(model.label_vectors.as_ref()) else { return Ok(None) };
        let about = &model.about;
        let grouping = match &about.groups {
            Some(groups) if groups.len() == vectors.ncols() => Grouping::explicit(groups.clone())?,
            _ => Grouping::none(vectors.ncols()),
        };
        let (set, entropy) = match &about.robust {
            Some(robust) => {
                robust.check()?;
                robust.set.check(grouping.groups())?;
                (robust.set.clone(), robust.entropy)
            }
            None => (MetricSet::W2, 0.0),
        };
        Ok(Some(Self { vectors, grouping, set, entropy }))
    }

    /// The metric set.
    pub fn set(&self) -> &MetricSet {
        &self.set
    }

    /// The plan from a prediction to some labels of equal weight.
    ///
    /// # Errors
    /// When the prediction is not a measure on the labels.
    pub fn to(&self, row: ArrayView1<f64>, labels: &[usize]) -> Result<Solution> {
        let source = Measure::new(self.vectors.clone(), row.to_owned())?;
        let target = Measure::uniform(self.vectors.select(Axis(0), labels))?;
        let problem = Problem::grouped(&source, &target, self.set.clone(), &self.grouping)?;
        problem.with_entropy(self.entropy)?.solve(&Settings::default().with_tolerance(TOLERANCE))
    }
}
