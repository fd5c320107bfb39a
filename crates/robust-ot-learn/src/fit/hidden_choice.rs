//! The choice of a hidden layer.

use ndarray::{Array1, Array2};
use robust_ot::linalg::product;
use robust_ot::{Error, Result};

use super::prior_choice::PriorChoice;
use super::protocol::Protocol;
use crate::dataset::Dataset;
use crate::hidden_settings::HiddenSettings;
use crate::label_kernel::{LabelKernel, Prior, PriorGeometry, centered};
use crate::selection::{RowsOfLabels, kernel_of};

/// A hidden layer, none by default; the default dropout is that of [`HiddenSettings`].
///
/// ```
/// assert_eq!(robust_ot_learn::HiddenChoice::default().units, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HiddenChoice {
    /// Number of units.
    pub units: Option<usize>,
    /// The fraction of the units that a step leaves out.
    pub dropout: Option<f64>,
    /// The fraction of the features that a step leaves out.
    pub input_dropout: Option<f64>,
}

impl HiddenChoice {
    /// The layer it stands for.
    pub(super) fn settings(&self, protocol: Option<Protocol>) -> Result<Option<HiddenSettings>> {
        let conflict = |name, rule: &str, found: String| Error::Conflict { name, rule: rule.into(), found };
        let Some(units) = self.units else {
            let rates = [("dropout", self.dropout), ("input_dropout", self.input_dropout)];
            return match rates.into_iter().find(|(_, rate)| rate.is_some()) {
                Some((name, _)) => {
                    Err(conflict(name, "go with a hidden layer", "hidden is not given".into()))
                }
                None => Ok(None),
            };
        };
        if let Some(protocol) = protocol {
            return Err(conflict(
                "hidden",
                "be absent with a protocol",
                format!("the protocol is {protocol}"),
            ));
        }
        let usual = HiddenSettings::new(units);
        let settings = HiddenSettings {
            dropout: self.dropout.unwrap_or(usual.dropout),
            input_dropout: self.input_dropout.unwrap_or(usual.input_dropout),
            ..usual
        };
        settings.check()?;
        Ok(Some(settings))
    }
}

/// τ of the prior on the last layer.
const TEMPERATURE: f64 = 0.5;
/// η of the prior on the last layer.
const FREE: f64 = 1.0;

/// The prior on the weights of the last layer, and the root R = K^½ that makes them W = A R; by label vectors if there are some.
pub(super) fn last_layer_prior(
    choice: &PriorChoice,
    train: &Dataset,
    vectors: Option<&Array2<f64>>,
) -> Result<(Prior, Option<Array2<f32>>)> {
    let usual = if vectors.is_some() { PriorGeometry::Names } else { PriorGeometry::None };
    let geometry = choice.geometry.unwrap_or(usual);
    if geometry == PriorGeometry::None {
        return Ok((Prior::NONE, None));
    }
    let free = choice.free.unwrap_or(FREE);
    let prior = Prior { geometry, temperature: choice.temperature.unwrap_or(TEMPERATURE), free };
    let every: Vec<usize> = (0..train.targets().labels()).collect();
    let names = vectors.map(|vectors| centered(vectors, &every));
    let rows = match geometry {
        PriorGeometry::Names => RowsOfLabels(Array2::zeros((0, 0))),
        _ => RowsOfLabels::of(train)?,
    };
    let kernel = kernel_of(geometry, prior.temperature, names.as_ref(), &rows)?;
    Ok((prior, root_of(&kernel, free)))
}

/// K^½ = P Σ^½ Pᵀ.
fn root_of(kernel: &LabelKernel, free: f64) -> Option<Array2<f32>> {
    let vectors = kernel.vectors.as_ref()?.mapv(f64::from);
    let roots = Array1::from_iter(kernel.values(free).into_iter().map(f64::sqrt));
    let root = product((&vectors * &roots).view(), vectors.t());
    // Symmetric to the last bit, as the gradient takes it.
    Some((0.5 * (&root + &root.t())).mapv(|x| x as f32).as_standard_layout().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label_kernel::gibbs;
    use crate::testing;

    #[test]
    fn the_square_of_the_root_is_the_kernel() {
        let vectors = testing::matrix(8, 3, &mut testing::rng(4));
        let vectors = centered(&vectors, &(0..8).collect::<Vec<_>>());
        let kernel = gibbs(&vectors, &vectors, 0.5, true);
        let root = root_of(&LabelKernel::of(&kernel).unwrap(), 0.7).unwrap().mapv(f64::from);
        assert_eq!(root, root.t());
        for ((p, q), found) in root.dot(&root).indexed_iter() {
            let own = if p == q { 0.7 } else { 0.0 };
            let wanted = (kernel[[p, q]] + own) / 1.7;
            assert!((found - wanted).abs() < 1e-5, "{p} {q}: {found} {wanted}");
        }
    }
}
