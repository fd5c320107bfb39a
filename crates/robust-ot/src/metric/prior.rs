//! The prior $M_0$ of the KL and doubly stochastic sets.

use std::fmt;

use ndarray::Array2;

use crate::error::{Error, Result};
use crate::linalg::Eigen;

/// How far, relative to the largest entry, a prior may be from being symmetric or positive semi-definite.
const TOLERANCE: f64 = 1e-10;

/// The metric with zero penalty: symmetric, positive semi-definite, without negative entries.
///
/// ```
/// use ndarray::array;
/// use robust_ot::sets::Prior;
///
/// assert!(Prior::Matrix(array![[1.0, 0.5], [0.5, 1.0]]).check(2).is_ok());
/// assert!(Prior::Matrix(array![[1.0, 2.0], [2.0, 1.0]]).check(2).is_err()); // an eigenvalue is −1
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Prior {
    /// The identity: features do not interact.
    Eye,
    /// 11ᵀ: every pair of features may interact.
    Ones,
    /// Any symmetric positive semi-definite matrix without negative entries; zeros stay zero.
    Matrix(Array2<f64>),
}

impl Prior {
    /// Checks the prior for metrics of size r × r.
    ///
    /// # Errors
    /// When a matrix has the wrong size, is not finite, has a negative entry, is not symmetric or not
    /// positive semi-definite.
    pub fn check(&self, size: usize) -> Result<()> {
        let Self::Matrix(matrix) = self else { return Ok(()) };
        let refuse = |rule: &str, found: String| Err(Error::Prior { rule: rule.into(), found });
        let (rows, columns) = matrix.dim();
        if (rows, columns) != (size, size) {
            return refuse(&format!("{size} × {size}"), format!("is {rows} × {columns}"));
        }
        let found = |a: usize, b: usize, value: f64| format!("row {}, column {} is {value}", a + 1, b + 1);
        if let Some(((a, b), &value)) = matrix.indexed_iter().find(|(_, x)| !(x.is_finite() && **x >= 0.0)) {
            return refuse("finite with no negative entry", found(a, b, value));
        }
        let largest = matrix.iter().copied().fold(0.0, f64::max);
        for ((a, b), &value) in matrix.indexed_iter() {
            if (value - matrix[[b, a]]).abs() > TOLERANCE * largest {
                let other = found(b, a, matrix[[b, a]]);
                return refuse("symmetric", format!("{} and {other}", found(a, b, value)));
            }
        }
        if size == 0 {
            return refuse("not empty", "has no entries".into());
        }
        let smallest = Eigen::new(matrix)?.values[0];
        if smallest < -TOLERANCE * largest {
            return refuse("positive semi-definite", format!("has the eigenvalue {smallest:.6}"));
        }
        Ok(())
    }

    /// Checks that a doubly stochastic scaling exists: every positive entry must lie on a positive permutation. For
    /// a positive semi-definite matrix without negative entries a positive diagonal is enough (swap a and b, keep the
    /// rest), and a zero on the diagonal means a zero row.
    pub(crate) fn check_total_support(&self, size: usize) -> Result<()> {
        match (0..size).find(|&a| self.entry(a, a) <= 0.0) {
            None => Ok(()),
            Some(a) => Err(Error::Prior {
                rule: "without a zero row, so that it can be scaled to row sums of one".into(),
                found: format!("row {} is zero", a + 1),
            }),
        }
    }

    /// One entry of M₀.
    ///
    /// # Panics
    /// When the prior is a matrix and has no such entry.
    pub fn entry(&self, a: usize, b: usize) -> f64 {
        match self {
            Self::Eye => f64::from(u8::from(a == b)),
            Self::Ones => 1.0,
            Self::Matrix(matrix) => matrix[[a, b]],
        }
    }

    /// Σ_ab M₀_ab for size r × r.
    pub(crate) fn total(&self, size: usize) -> f64 {
        match self {
            Self::Eye => size as f64,
            Self::Ones => (size * size) as f64,
            Self::Matrix(matrix) => matrix.sum(),
        }
    }
}

impl fmt::Display for Prior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eye => "eye",
            Self::Ones => "ones",
            Self::Matrix(_) => "matrix",
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn message(matrix: Array2<f64>) -> String {
        Prior::Matrix(matrix).check(2).unwrap_err().to_string()
    }

    #[test]
    fn each_broken_prior_is_named() {
        assert!(message(array![[1.0]]).contains("must be 2 × 2, but is 1 × 1"));
        assert!(message(array![[1.0, f64::NAN], [0.0, 1.0]]).contains("row 1, column 2 is NaN"));
        assert!(message(array![[1.0, -0.1], [-0.1, 1.0]]).contains("no negative entry"));
        assert!(message(array![[1.0, 0.5], [0.2, 1.0]]).contains("symmetric"));
        assert!(message(array![[1.0, 2.0], [2.0, 1.0]]).contains("eigenvalue -1"));
        let zero_row = Prior::Matrix(array![[0.0, 0.0], [0.0, 1.0]]);
        assert!(zero_row.check(2).is_ok());
        assert!(zero_row.check_total_support(2).unwrap_err().to_string().contains("row 1 is zero"));
    }
}
