//! The errors of the library. Not converging is a [`Status`](crate::Status), never an error.

use std::path::PathBuf;

/// Everything the library rejects. Each variant carries the rule and the value that breaks it.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Error, Measure};
///
/// let refused = Measure::new(array![[0.0], [1.0]], array![0.5, -0.5]);
/// assert!(matches!(refused, Err(Error::Weight { index: 1, .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A measure without points, or points without coordinates.
    #[error("a measure needs at least one point and one feature, but this one is {rows} × {columns}")]
    Empty {
        /// Number of points.
        rows: usize,
        /// Number of features.
        columns: usize,
    },
    /// A coordinate is NaN or infinite.
    #[error(
        "coordinates must be finite, but row {}, column {} is {value} (counting from 1)",
        row + 1,
        column + 1
    )]
    Coordinate {
        /// Row of the point, from 0.
        row: usize,
        /// Column of the feature, from 0.
        column: usize,
        /// The offending value.
        value: f64,
    },
    /// The squared distances of these coordinates overflow.
    #[error(
        "coordinates must stay below 1e150 in size so that squared distances are finite, but one is {value:e}"
    )]
    Magnitude {
        /// The largest coordinate in absolute value.
        value: f64,
    },
    /// A weight is negative, NaN or infinite.
    #[error("weights must be finite and not negative, but number {} is {value} (counting from 1)", index + 1)]
    Weight {
        /// Index of the weight, from 0.
        index: usize,
        /// The offending value.
        value: f64,
    },
    /// An entry of a table is NaN or infinite.
    #[error("{name} must be finite, but row {}, column {} is {value} (counting from 1)", row + 1, column + 1)]
    NotFinite {
        /// What the table contains.
        name: &'static str,
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// The offending value.
        value: f64,
    },
    /// The true labels of a sample are invalid.
    #[error("a sample must {rule}, but in row {} {found} (rows count from 1, labels from 0)", row + 1)]
    Label {
        /// Row of the sample, from 0.
        row: usize,
        /// The rule.
        rule: String,
        /// What was found instead.
        found: String,
    },
    /// Training diverged: the loss or the logits are no longer finite.
    #[error(
        "training diverged: {what} became {value} in epoch {epoch}, batch {batch}; a smaller learning rate is the usual cure"
    )]
    Diverged {
        /// What is not finite.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The epoch, from 1.
        epoch: usize,
        /// The batch within it, from 1.
        batch: usize,
    },
    /// A compute device is missing, out of memory, or failed.
    #[error("{device}: {problem}")]
    Device {
        /// The device.
        device: String,
        /// The rule, and what was found instead.
        problem: String,
    },
    /// The weights do not have a positive finite sum.
    #[error("weights must have a positive finite sum, but it is {sum}")]
    Mass {
        /// The sum.
        sum: f64,
    },
    /// The number of weights is not the number of points.
    #[error("there must be one weight per point, but there are {weights} weights for {points} points")]
    WeightCount {
        /// Number of weights.
        weights: usize,
        /// Number of points.
        points: usize,
    },
    /// Source and target have different numbers of features.
    #[error(
        "source and target must have the same number of features, but have {source_dim} and {target_dim}"
    )]
    Dimension {
        /// Features of the source.
        source_dim: usize,
        /// Features of the target.
        target_dim: usize,
    },
    /// Source and target have different total mass.
    #[error("source and target must have the same total mass, but have {source_mass} and {target_mass}")]
    Balance {
        /// Sum of the source weights.
        source_mass: f64,
        /// Sum of the target weights.
        target_mass: f64,
    },
    /// A cost is NaN or infinite.
    #[error("costs must be finite, but row {}, column {} is {value} (counting from 1)", row + 1, column + 1)]
    Cost {
        /// Row of the cost, from 0.
        row: usize,
        /// Column of the cost, from 0.
        column: usize,
        /// The offending value.
        value: f64,
    },
    /// The allowed arcs do not carry all the mass.
    #[error(
        "the allowed arcs must have a plan with the given weights, but a mass of {left:.3e} of row {} (counting from 1) has nowhere to go",
        row + 1
    )]
    Unreachable {
        /// Row of the source point, from 0.
        row: usize,
        /// The mass that cannot move.
        left: f64,
    },
    /// Two settings contradict each other.
    #[error("{name} must {rule}, but {found}")]
    Conflict {
        /// The setting to change.
        name: &'static str,
        /// What must hold.
        rule: String,
        /// What the other setting is.
        found: String,
    },
    /// A parameter is outside its range.
    #[error("{name} must be {rule}, but is {value}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its range.
        rule: String,
        /// The offending value.
        value: String,
    },
    /// A prior matrix that does not fit its metric set.
    #[error("the prior must be {rule}, but {found}")]
    Prior {
        /// The rule.
        rule: String,
        /// What was found instead.
        found: String,
    },
    /// A group assignment that does not fit the features.
    #[error("the grouping must {rule}, but {found}")]
    Grouping {
        /// The rule.
        rule: String,
        /// What was found instead.
        found: String,
    },
    /// e^{V/λ} is not representable.
    #[error(
        "e^(V/λ) overflows with λ = {lambda}: V reaches {largest:e}; λ ≥ {safe:.3e} is safe for these points"
    )]
    Overflow {
        /// The requested λ.
        lambda: f64,
        /// The largest entry of V encountered.
        largest: f64,
        /// A λ for which no plan between these points overflows.
        safe: f64,
    },
    /// A support function is outside the range of f64.
    #[error("the metric set {set} is not representable at V entries up to {largest:e}; rescale the points")]
    Range {
        /// The metric set.
        set: &'static str,
        /// The largest entry of V.
        largest: f64,
    },
    /// The scaling of the doubly stochastic metric did not reach row sums of one.
    #[error(
        "the doubly stochastic metric could not be scaled: row sums differ from 1 by {residual:.1e} with λ = {lambda}; try a larger λ"
    )]
    Scaling {
        /// The requested λ.
        lambda: f64,
        /// The largest deviation of a row sum from one.
        residual: f64,
    },
    /// A matrix has the wrong shape.
    #[error("{name} must be {expected}, but is {found}")]
    Shape {
        /// The matrix.
        name: &'static str,
        /// The required shape.
        expected: String,
        /// The actual shape.
        found: String,
    },
    /// The eigendecomposition did not converge.
    #[error("the eigendecomposition of a {size} × {size} matrix did not converge")]
    Eigen {
        /// Size of the matrix.
        size: usize,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file does not have the expected format.
    #[error("{place}: {message}")]
    Format {
        /// The file, with the line number if it has lines.
        place: String,
        /// The rule and the offending value.
        message: String,
    },
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates the error for a parameter outside its range.
    ///
    /// ```
    /// let error = robust_ot::Error::parameter("k", "at least 1", 0);
    /// assert_eq!(error.to_string(), "k must be at least 1, but is 0");
    /// ```
    pub fn parameter(name: &'static str, rule: impl Into<String>, value: impl ToString) -> Self {
        Self::Parameter { name, rule: rule.into(), value: value.to_string() }
    }
}
