//! The objective of a fit, and its description in the model.

use ndarray::Array2;
use robust_ot::Result;

use super::geometry::{Geometries, Geometry};
use super::loss_choice::BuiltLoss;
use super::settings::FitSettings;
use crate::dataset::Dataset;
use crate::model::About;
use crate::objective::Objective;
use crate::settings::TrainSettings;

/// An objective with its targets, and what the model records of it.
pub(super) struct FitObjective {
    pub(super) objective: Objective,
    /// Everything but the outcome of training.
    pub(super) about: About,
    /// The label vectors of the loss, where they were computed from the rows.
    pub(super) geometry: Option<Array2<f64>>,
}

impl FitObjective {
    /// The objective for these rows and label vectors; without vectors, labels are one-hot.
    pub(super) fn new(
        settings: &FitSettings,
        training: Option<TrainSettings>,
        train: &Dataset,
        vectors: Option<&Array2<f64>>,
    ) -> Result<Self> {
        let FitSettings { loss, targets, protocol, seed, memory, .. } = settings;
        let name = loss.name_under(*protocol);
        let target_geometry = targets.geometry.unwrap_or(loss.geometry);
        let (of_loss, of_targets) = (name.family().is_some(), targets.transport > 0.0);
        let needed = [of_loss.then_some(loss.geometry), of_targets.then_some(target_geometry)];
        let geometries = Geometries::new(needed, train, vectors, *memory)?;
        let truth = train.targets();
        let BuiltLoss { objective, mix_ce, mix_ot, groups, robust, asymmetric } =
            loss.build(*protocol, *seed, truth.labels(), geometries.of(loss.geometry))?;
        let soft = targets.targets(loss, *seed, truth, geometries.of(target_geometry))?;
        let named = |used: bool, geometry: Geometry| if used { geometry.name() } else { "" };
        let about = About {
            loss: name.name().into(),
            mix_ce,
            mix_ot,
            geometry: named(of_loss, loss.geometry).into(),
            target_geometry: named(of_targets, target_geometry).into(),
            robust,
            asymmetric,
            groups,
            target_transport: targets.transport,
            target_temperature: targets.temperature,
            target_metric: targets.metric.name().into(),
            label_smoothing: targets.smoothing,
            training,
            rows: train.rows(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..About::default()
        };
        // The geometry of the loss explains a prediction; without transport in the loss, that of the targets does.
        let explains = if of_loss { loss.geometry } else { target_geometry };
        let geometry = geometries.into_rows().filter(|_| explains == Geometry::Rows);
        Ok(Self { objective: objective.with_targets(soft), about, geometry })
    }
}
