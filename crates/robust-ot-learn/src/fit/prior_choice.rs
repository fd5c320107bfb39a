//! The choice of the penalty on the weights.

use robust_ot::{Error, Result};

use crate::label_kernel::{Prior, PriorGeometry};

/// The penalty λ/2 tr(W K⁻¹ Wᵀ) on the weights, added to the summed losses of all rows. What is not given is chosen on
/// held-out rows.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `geometry` | chosen | what the label costs of the prior come from | |
/// | `temperature` | chosen | τ of the kernel e^(−C/τ) | (0, ∞) |
/// | `free` | chosen | η, the part of each label that is its own | [0, ∞) |
/// | `l2` | chosen | λ | (0, ∞) |
///
/// ```
/// assert_eq!(robust_ot_learn::PriorChoice::default().l2, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PriorChoice {
    /// What the label costs come from.
    pub geometry: Option<PriorGeometry>,
    /// τ.
    pub temperature: Option<f64>,
    /// η.
    pub free: Option<f64>,
    /// λ.
    pub l2: Option<f64>,
}

impl PriorChoice {
    /// Refuses values out of range.
    pub(super) fn check(&self) -> Result<()> {
        for (name, value) in [("prior_temperature", self.temperature), ("l2", self.l2)] {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && value.is_finite())) {
                return Err(Error::parameter(name, "positive and finite", value));
            }
        }
        if let Some(free) = self.free.filter(|free| !(*free >= 0.0 && free.is_finite())) {
            return Err(Error::parameter("prior_free", "finite and not negative", free));
        }
        let given = [("prior_temperature", self.temperature), ("prior_free", self.free)];
        match given.into_iter().find(|(_, value)| value.is_some()) {
            Some((name, _)) if self.geometry == Some(PriorGeometry::None) => Err(Error::Conflict {
                name,
                rule: "go with a prior".into(),
                found: "the prior is none".into(),
            }),
            _ => Ok(()),
        }
    }

    /// The geometries to choose from.
    pub(super) fn geometries(&self, has_names: bool) -> Result<Vec<PriorGeometry>> {
        match self.geometry {
            Some(geometry) if geometry.has_names() && !has_names => Err(Error::Conflict {
                name: "label_prior",
                rule: "be none or rows without label vectors".into(),
                found: format!("it is {geometry}"),
            }),
            Some(geometry) => Ok(vec![geometry]),
            None if has_names => {
                Ok(vec![PriorGeometry::None, PriorGeometry::Names, PriorGeometry::Rows, PriorGeometry::Both])
            }
            None => Ok(vec![PriorGeometry::None, PriorGeometry::Rows]),
        }
    }

    /// The prior where no rows can be held out to choose one.
    pub(super) fn unchosen(&self, geometry: PriorGeometry) -> Prior {
        Prior {
            geometry,
            temperature: self.temperature.unwrap_or(Self::TEMPERATURE),
            free: self.free.unwrap_or(Self::FREE),
        }
    }

    /// τ where no rows can be held out.
    const TEMPERATURE: f64 = 1.0;
    /// η where no rows can be held out.
    const FREE: f64 = 0.3;
}
