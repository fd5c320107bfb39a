//! Spectral sets are invariant under rotations, so points can be given in coordinates of the span of their differences:
//! with few points in many dimensions, every eigenproblem becomes small.

use faer::Mat;
use ndarray::{Array1, Array2};

use super::solution::Solution;
use crate::displacement::Displacements;
use crate::frame::{OF_CENTERING, Rounding};
use crate::linalg::product;
use crate::metric::MetricSet;

/// An orthonormal basis of a space that contains all points, d × (m + n).
#[derive(Debug, Clone)]
pub(super) struct Span {
    basis: Array2<f64>,
    /// The requested k of a fantope; the span may have fewer dimensions.
    k: Option<usize>,
}

impl Span {
    /// The span, if it is smaller than the whole space.
    pub(super) fn of(maps: &Displacements, set: &MetricSet) -> Option<Self> {
        let (source, target) = maps.points();
        let (m, n, d) = (source.nrows(), target.nrows(), source.ncols());
        if d <= m + n {
            return None;
        }
        let columns = Mat::from_fn(d, m + n, |f, i| if i < m { source[[i, f]] } else { target[[i - m, f]] });
        let q = columns.qr().compute_thin_Q();
        Some(Self { basis: Array2::from_shape_fn((d, m + n), |(f, i)| q[(f, i)]), k: set.fantope() })
    }

    /// Points in coordinates of the span; what lies outside it is lost.
    pub(super) fn seen(&self, points: &Array2<f64>) -> Array2<f64> {
        product(points.view(), self.basis.view())
    }

    /// Points of the span in all d dimensions.
    pub(super) fn unseen(&self, points: &Array2<f64>) -> Array2<f64> {
        product(points.view(), self.basis.t())
    }

    /// Both point sets in coordinates of the span.
    pub(super) fn project(&self, maps: &Displacements, a: &Array1<f64>, b: &Array1<f64>) -> Displacements {
        let (source, target) = maps.points();
        // Each coordinate is a sum of d products, and Q is orthogonal up to about as much.
        let (d, size) = self.basis.dim();
        let blur = OF_CENTERING + d as f64 * (size as f64).sqrt() * f64::EPSILON;
        let rounding = Rounding { blur, ..maps.frame().rounding };
        Displacements::from_layout((self.seen(source), self.seen(target)), size, (a, b), rounding)
    }

    /// The metric set within the span: the k of a fantope is at most the dimension of the span.
    pub(super) fn restrict(&self, set: MetricSet) -> MetricSet {
        match set {
            MetricSet::Srw { k } => MetricSet::Srw { k: k.min(self.basis.ncols()) },
            other => other,
        }
    }

    /// Lifts metric and moment to all d dimensions. Where no displacement reaches, the metric is free: it makes up the
    /// rest of a fantope's trace there.
    pub(super) fn lift(&self, solution: &mut Solution) {
        let lift =
            |matrix: &Array2<f64>| product(product(self.basis.view(), matrix.view()).view(), self.basis.t());
        let (d, size) = self.basis.dim();
        solution.moment = lift(&solution.moment);
        solution.metric = lift(&solution.metric);
        if let Some(k) = self.k.filter(|&k| k > size) {
            let outside = Array2::<f64>::eye(d) - product(self.basis.view(), self.basis.t());
            solution.metric.scaled_add((k - size) as f64 / (d - size) as f64, &outside);
        }
    }
}
