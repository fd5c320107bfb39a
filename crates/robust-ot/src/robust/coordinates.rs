//! The points of a solve and their features: points are centered, laid out as slots × groups, and for spectral sets
//! possibly given in coordinates of their span.

use ndarray::{Array1, Array2};

use super::span::Span;
use crate::displacement::lay_out;
use crate::grouping::Grouping;

/// How a solve sees the features of its points.
#[derive(Debug)]
pub(super) struct Coordinates {
    /// What is subtracted from every point.
    pub(super) center: Array1<f64>,
    pub(super) grouping: Grouping,
    pub(super) span: Option<Span>,
}

impl Coordinates {
    /// Points of so many numbers, as they are.
    pub(super) fn identity(dim: usize) -> Self {
        Self { center: Array1::zeros(dim), grouping: Grouping::none(dim), span: None }
    }

    /// Points as the solve sees them.
    pub(super) fn seen(&self, points: &Array2<f64>) -> Array2<f64> {
        let laid = lay_out(points, &self.center, &self.grouping);
        match &self.span {
            Some(span) => span.seen(&laid),
            None => laid,
        }
    }

    /// Differences of points, laid out by groups in all dimensions.
    pub(super) fn laid_out(&self, seen: Array2<f64>) -> Array2<f64> {
        match &self.span {
            Some(span) => span.unseen(&seen),
            None => seen,
        }
    }
}
