//! The parameters of a trained model as keywords of the classifier.

use numpy::ToPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use robust_ot::loss::LossSettings;
use robust_ot::sets::{MetricFamily, Prior};
use robust_ot::{Grouping, MetricSet};
use robust_ot_learn::{
    About, Asymmetric, HiddenSettings, LossChoice, Model, Optimizer, PriorGeometry, TrainSettings,
};

/// The keywords, without settings that the model does not record or that have no keyword.
pub fn model_keywords<'py>(py: Python<'py>, model: &Model) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    let About { label_smoothing, target_transport, target_temperature, target_metric, .. } = &model.about;
    // A sum of two models has no keyword: it is what the default may choose.
    let chosen_sum = !model.about.blend.is_empty();
    let loss = if chosen_sum { "" } else { &model.about.loss };
    for (name, value) in [("loss", loss), ("target_metric", target_metric)] {
        if !value.is_empty() {
            keywords.set_item(name, value)?;
        }
    }
    for (name, value) in
        [("geometry", &model.about.geometry), ("target_geometry", &model.about.target_geometry)]
    {
        if !value.is_empty() {
            keywords.set_item(name, value)?;
        }
    }
    keywords.set_item("label_smoothing", label_smoothing)?;
    keywords.set_item("target_transport", target_transport)?;
    if *target_temperature > 0.0 {
        keywords.set_item("target_temperature", target_temperature)?;
    }
    if let Some(Asymmetric { positive, negative, margin }) = model.about.asymmetric {
        keywords.set_item("asl_positive", positive)?;
        keywords.set_item("asl_negative", negative)?;
        keywords.set_item("asl_margin", margin)?;
        keywords.set_item("mix_base", if model.about.robust.is_some() { "asl" } else { "ce" })?;
    }
    keywords.set_item("standardize", model.preprocessing.standardization.is_some())?;
    keywords.set_item("row_length", model.preprocessing.row_length.map(f64::from))?;
    if let (Some(prior), false) = (model.about.prior, chosen_sum) {
        keywords.set_item("label_prior", prior.geometry.name())?;
        if prior.geometry != PriorGeometry::None {
            keywords.set_item("prior_temperature", prior.temperature)?;
            keywords.set_item("prior_free", prior.free)?;
        }
        // With a hidden layer, weight_decay is the strength.
        model.about.l2.map_or(Ok(()), |l2| keywords.set_item("l2", l2))?;
    }
    if let Some(robust) = &model.about.robust {
        transport(&keywords, &model.about, robust)?;
    }
    if let Some(training) = &model.about.training {
        self::training(&keywords, training)?;
    }
    Ok(keywords)
}

fn transport(keywords: &Bound<'_, PyDict>, about: &About, robust: &LossSettings) -> PyResult<()> {
    keywords.set_item("mix_ce", about.mix_ce)?;
    keywords.set_item("mix_ot", about.mix_ot)?;
    keywords.set_item("entropy", robust.entropy)?;
    keywords.set_item("oracle_entropy", robust.oracle_entropy)?;
    keywords.set_item("fw_iterations", robust.frank_wolfe)?;
    keywords.set_item("sinkhorn_iterations", robust.sinkhorn)?;
    keywords.set_item("loss_tolerance", robust.tolerance)?;
    if let Some(assignment) = &about.groups {
        grouping(keywords, assignment, robust.set.family())?;
    }
    match &robust.set {
        MetricSet::P { k } | MetricSet::PPower { k } => keywords.set_item("k", k),
        MetricSet::Srw { k } => keywords.set_item("k", k),
        MetricSet::Rkp { rho } => keywords.set_item("rho", rho),
        MetricSet::Features { lambda } => keywords.set_item("lam", lambda),
        MetricSet::Kl { lambda, prior } | MetricSet::Ds { lambda, prior } => {
            keywords.set_item("lam", lambda)?;
            match prior {
                Prior::Eye => keywords.set_item("prior", "eye"),
                Prior::Ones => keywords.set_item("prior", "ones"),
                Prior::Matrix(matrix) => keywords.set_item("prior", matrix.to_pyarray(keywords.py())),
            }
        }
        _ => Ok(()),
    }
}

/// Neighboring features in groups need only their number, and the usual number not even that.
fn grouping(keywords: &Bound<'_, PyDict>, assignment: &[usize], family: MetricFamily) -> PyResult<()> {
    let dim = assignment.len();
    let groups = assignment.iter().max().map_or(0, |largest| largest + 1);
    if Grouping::contiguous(dim, groups).is_ok_and(|found| found.assignment() == assignment) {
        let usual = LossChoice::default_groups(family, dim).unwrap_or(dim);
        return if groups == usual { Ok(()) } else { keywords.set_item("groups", groups) };
    }
    keywords.set_item("grouping", assignment.to_pyarray(keywords.py()))
}

fn training(keywords: &Bound<'_, PyDict>, training: &TrainSettings) -> PyResult<()> {
    match training.optimizer {
        Optimizer::Adam => keywords.set_item("optimizer", "adam")?,
        Optimizer::AdamW => keywords.set_item("optimizer", "adamw")?,
        Optimizer::Sgd { momentum } => {
            keywords.set_item("optimizer", "sgd")?;
            keywords.set_item("momentum", momentum)?;
        }
    }
    if let Some(HiddenSettings { units, dropout, input_dropout }) = training.hidden {
        keywords.set_item("hidden", units)?;
        keywords.set_item("dropout", dropout)?;
        keywords.set_item("input_dropout", input_dropout)?;
    }
    keywords.set_item("lr", training.learning_rate)?;
    keywords.set_item("schedule", training.schedule.to_string())?;
    keywords.set_item("batch", training.batch)?;
    keywords.set_item("epochs", training.epochs)?;
    keywords.set_item("weight_decay", training.weight_decay)?;
    keywords.set_item("bias", training.bias)?;
    keywords.set_item("patience", training.patience)?;
    keywords.set_item("random_state", training.seed)
}
