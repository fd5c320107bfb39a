//! The labels as points: what every prediction is measured with.

use ndarray::Array2;

use crate::displacement::Displacements;
use crate::error::{Error, Result};
use crate::grouping::Grouping;
use crate::kernels::Real;
use crate::linalg::Eigen;
use crate::measure::Measure;
use crate::metric::MetricSet;

/// Eigenvalues below this part of the largest are no dimensions of the labels.
const NO_DIMENSION: f64 = 1e-12;

/// Label vectors laid out by groups, with G_p = E_pᵀE_p of each.
#[derive(Debug, Clone)]
pub(super) struct Labels<T> {
    /// L × (slots · r).
    pub(super) points: Array2<T>,
    /// L × r².
    pub(super) grams: Array2<T>,
    /// r.
    pub(super) size: usize,
    pub(super) set: MetricSet,
    /// M* of the moment of the uniform plan over all pairs of labels: where every solve begins.
    pub(super) first_metric: Array2<f64>,
}

impl<T: Real> Labels<T> {
    pub(super) fn new(vectors: &Array2<f64>, grouping: &Grouping, set: &MetricSet) -> Result<Self> {
        if vectors.nrows() < 2 {
            return Err(Error::Label {
                row: 0,
                rule: "be told from another: there must be 2 labels".into(),
                found: format!("there are {}", vectors.nrows()),
            });
        }
        let vectors = Measure::uniform(vectors.clone())?;
        let mut maps = Displacements::new(&vectors, &vectors, grouping)?;
        let mut set = set.clone();
        if set.is_spectral() && grouping.slots() == 1 && vectors.len() <= vectors.dim() {
            // Spectral sets are blind to rotations: L points have at most L − 1 dimensions.
            let seen = Measure::uniform(coordinates(maps.points().0)?)?;
            maps = Displacements::new(&seen, &seen, &Grouping::none(seen.dim()))?;
            if let MetricSet::Srw { k } = &mut set {
                *k = (*k).min(seen.dim());
            }
        }
        set.check(maps.size())?;
        let first_metric = set.evaluate(maps.independent_moment())?.metric;
        let (points, size) = (maps.points().0, maps.size());
        let grams = Array2::from_shape_fn((points.nrows(), size * size), |(p, place)| {
            let (a, b) = (place / size, place % size);
            let slots = (0..points.ncols() / size).map(|slot| slot * size);
            T::nearest(slots.map(|slot| points[[p, slot + a]] * points[[p, slot + b]]).sum())
        });
        Ok(Self { points: points.mapv(T::nearest), grams, size, set, first_metric })
    }
}

/// Coordinates with the same differences, in as few dimensions as the points have: X Xᵀ = Q Λ Qᵀ gives Q √Λ.
fn coordinates(points: &Array2<f64>) -> Result<Array2<f64>> {
    let eigen = Eigen::new(&points.dot(&points.t()))?;
    let largest = eigen.values.fold(0.0_f64, |top, w| top.max(*w));
    let kept: Vec<usize> =
        (0..eigen.values.len()).filter(|&i| eigen.values[i] > NO_DIMENSION * largest).collect();
    let kept = if kept.is_empty() { vec![0] } else { kept };
    Ok(Array2::from_shape_fn((points.nrows(), kept.len()), |(p, i)| {
        eigen.vectors[[p, kept[i]]] * eigen.values[kept[i]].max(0.0).sqrt()
    }))
}
