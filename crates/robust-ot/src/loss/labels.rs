//! The labels as points: the geometry in which every prediction is measured.

use ndarray::{Array1, Array2, Axis};

use crate::displacement::Displacements;
use crate::error::{Error, Result};
use crate::grouping::Grouping;
use crate::kernels::Real;
use crate::linalg::{Eigen, product};
use crate::measure::Measure;
use crate::metric::MetricSet;

/// Eigenvalues below this fraction of the largest do not count as dimensions of the labels.
const NO_DIMENSION: f64 = 1e-12;

/// The largest size of the table of costs, as a multiple of the size of the vectors with their G.
const TABLE: usize = 4;

/// Label vectors laid out by groups, with G_p = E_pᵀE_p of each: all that a loss knows about its labels.
#[derive(Debug, Clone)]
pub struct Labels<T> {
    /// The label vectors, L × (slots · r).
    pub points: Array2<T>,
    /// The upper triangles of all G_p, row by row: L × r(r+1)/2.
    pub grams: Array2<T>,
    /// The size r of moments and metrics.
    pub size: usize,
    /// The metric set as it is evaluated, which may be simpler than the requested one.
    pub set: MetricSet,
    /// l_q M for the first metric M of every solve: the worst metric of the uniform plan over all pairs of labels.
    pub first_moved: Array2<T>,
    /// ⟨M, G_p⟩ for the first metric M.
    pub first_own: Vec<T>,
    /// The costs of the first metric, row q to all p, minus the part that is the same for all p. Kept only if the table is
    /// not too large compared to the rest.
    pub first_costs: Option<Array2<T>>,
}

impl<T: Real> Labels<T> {
    pub(super) fn new(vectors: &Array2<f64>, grouping: &Grouping, set: &MetricSet) -> Result<Self> {
        if vectors.nrows() < 2 {
            return Err(Error::Shape {
                name: "the label vectors",
                expected: "those of at least 2 labels".into(),
                found: format!("{} × {}", vectors.nrows(), vectors.ncols()),
            });
        }
        let vectors = Measure::uniform(vectors.clone())?;
        let mut set = set.clone();
        set.check(grouping.groups())?;
        let mut maps = Displacements::new(&vectors, &vectors, grouping)?;
        if set.is_spectral() && grouping.slots() == 1 && vectors.len() <= vectors.dim() {
            // Spectral sets are invariant under rotations, and L points span at most L − 1 dimensions.
            let seen = Measure::uniform(coordinates(maps.points().0)?)?;
            maps = Displacements::new(&seen, &seen, &Grouping::none(seen.dim()))?;
        }
        if let MetricSet::Srw { k } = set
            && k >= maps.size()
        {
            // k covers all dimensions, so there is nothing left to choose.
            set = MetricSet::W2;
        }
        if set == MetricSet::W2 {
            // tr V is the same for any grouping; a single group takes the least work.
            maps = Displacements::new(&vectors, &vectors, &Grouping::contiguous(vectors.dim(), 1)?)?;
        }
        let metric = set.evaluate(maps.independent_moment())?.metric;
        let (points, size) = (maps.points().0, maps.size());
        let triangle: Vec<(usize, usize)> = (0..size).flat_map(|a| (a..size).map(move |b| (a, b))).collect();
        let slots = points.ncols() / size;
        let grams = Array2::from_shape_fn((points.nrows(), triangle.len()), |(p, place)| {
            let (a, b) = triangle[place];
            (0..slots).map(|slot| points[[p, slot * size + a]] * points[[p, slot * size + b]]).sum::<f64>()
        });
        let weights =
            triangle.iter().map(|&(a, b)| if a == b { metric[[a, a]] } else { 2.0 * metric[[a, b]] });
        let own = grams.dot(&weights.collect::<Array1<f64>>());
        let by_slots = points.view().into_shape_with_order((points.nrows() * slots, size));
        let moved = product(by_slots.expect("points are slots of r numbers").view(), metric.view());
        let moved = moved.into_shape_with_order(points.dim()).expect("the shape has as many numbers");
        let costs = (points.nrows() <= TABLE * (points.ncols() + triangle.len())).then(|| {
            let mut costs = product(moved.view(), points.t());
            costs
                .axis_iter_mut(Axis(0))
                .for_each(|mut line| line.zip_mut_with(&own, |c, own| *c = own - 2.0 * *c));
            costs.mapv(T::nearest)
        });
        let grams = grams.mapv(T::nearest);
        if !grams.iter().all(|gram| Into::<f64>::into(*gram).is_finite()) {
            let largest = points.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
            let rule = format!("small enough for their squares to be finite in {}", T::NAME);
            return Err(Error::parameter("label_vectors", rule, format!("{largest:e}")));
        }
        Ok(Self {
            points: points.mapv(T::nearest),
            grams,
            size,
            set,
            first_moved: moved.mapv(T::nearest),
            first_own: own.iter().map(|x| T::nearest(*x)).collect(),
            first_costs: costs,
        })
    }
}

/// Coordinates of the points up to a rotation, in as few dimensions as the points span: X Xᵀ = Q Λ Qᵀ gives Q √Λ.
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
