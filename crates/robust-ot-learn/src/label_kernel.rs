//! The prior on the weights, $W K^{-1/2} \sim$ independent normal numbers, whose covariance between labels is the Gibbs
//! kernel of entropic transport between them:
//! $$K_{pq} = \frac{e^{-C_{pq}/\tau} + \eta\,[p = q]}{1 + \eta},\qquad C_{pq} = \lVert l_p - l_q\rVert^2.$$
//!
//! Near labels share weights, as far as the free part η allows: the penalty is $\lambda \operatorname{tr}(W K^{-1} W^\top)$
//! where plain L2 has $\lambda \lVert W\rVert^2$.

use std::fmt;
use std::str::FromStr;

use ndarray::{Array1, Array2, Axis};
use robust_ot::linalg::{Eigen, product};
use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::data::to_length_one;

/// What the label costs C of the prior come from.
///
/// ```
/// use robust_ot_learn::PriorGeometry;
/// assert_eq!("rows".parse::<PriorGeometry>()?, PriorGeometry::Rows);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriorGeometry {
    /// No costs: labels are independent, and the prior is plain L2.
    None,
    /// The vectors of the label names.
    Names,
    /// The mean features of the rows with each label.
    Rows,
    /// The mean of the kernels of names and of rows.
    Both,
}

impl PriorGeometry {
    /// The name in model files, on the command line and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Names => "names",
            Self::Rows => "rows",
            Self::Both => "both",
        }
    }

    /// Whether it needs vectors of the label names.
    pub fn has_names(self) -> bool {
        matches!(self, Self::Names | Self::Both)
    }
}

impl fmt::Display for PriorGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PriorGeometry {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::None, Self::Names, Self::Rows, Self::Both]
            .into_iter()
            .find(|geometry| geometry.name() == name)
            .ok_or_else(|| Error::parameter("label_prior", "none, names, rows or both", name))
    }
}

/// A prior on the weights.
///
/// ```
/// use robust_ot_learn::{Prior, PriorGeometry};
/// assert_eq!(Prior::NONE.geometry, PriorGeometry::None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// What the label costs come from.
    pub geometry: PriorGeometry,
    /// τ, the temperature of the kernel.
    pub temperature: f64,
    /// η, the part of each label that is its own.
    pub free: f64,
}

impl Prior {
    /// Plain L2.
    pub const NONE: Self = Self { geometry: PriorGeometry::None, temperature: 1.0, free: 1.0 };
}

/// The vectors of labels as the kernel takes them: relative to the mean of the labels in `counted`, and of length one. A
/// label without a vector keeps the zero vector.
pub(super) fn centered(vectors: &Array2<f64>, counted: &[usize]) -> Array2<f64> {
    let known = |row: &usize| vectors.row(*row).iter().any(|x| *x != 0.0);
    let counted: Vec<usize> = counted.iter().copied().filter(known).collect();
    let mean = vectors.select(Axis(0), &counted).mean_axis(Axis(0));
    let mean = mean.unwrap_or_else(|| Array1::zeros(vectors.ncols()));
    let mut found = vectors.clone();
    for (row, mut vector) in found.outer_iter_mut().enumerate() {
        if known(&row) {
            vector -= &mean;
        }
    }
    to_length_one(&mut found);
    found
}

/// e^(−‖l_p − l_q‖²/τ) between the rows of two tables of vectors. A zero vector is unlike all others, and like itself only
/// on the diagonal, which `same` marks.
pub(super) fn gibbs(left: &Array2<f64>, right: &Array2<f64>, temperature: f64, same: bool) -> Array2<f64> {
    let squares = |vectors: &Array2<f64>| vectors.outer_iter().map(|row| row.dot(&row)).collect::<Vec<f64>>();
    let (of_left, of_right) = (squares(left), squares(right));
    let mut kernel = product(left.view(), right.t());
    for ((p, q), entry) in kernel.indexed_iter_mut() {
        *entry = if same && p == q {
            1.0
        } else if of_left[p] > 0.0 && of_right[q] > 0.0 {
            (-(of_left[p] + of_right[q] - 2.0 * *entry).max(0.0) / temperature).exp()
        } else {
            0.0
        };
    }
    kernel
}

/// The eigenvectors of a label kernel, which do not depend on η, and its eigenvalues.
#[derive(Debug, Clone)]
pub(super) struct LabelKernel {
    /// P, labels × labels; `None` for independent labels.
    pub(super) vectors: Option<Array2<f32>>,
    /// The eigenvalues of the kernel without its free part, none negative.
    similar: Vec<f64>,
}

impl LabelKernel {
    /// K = I.
    pub(super) fn independent(labels: usize) -> Self {
        Self { vectors: None, similar: vec![1.0; labels] }
    }

    /// Decomposes a kernel without its free part.
    pub(super) fn of(kernel: &Array2<f64>) -> Result<Self> {
        let Eigen { values, vectors } = Eigen::new(kernel)?;
        let vectors = vectors.mapv(|x| x as f32).as_standard_layout().into_owned();
        Ok(Self { vectors: Some(vectors), similar: values.iter().map(|value| value.max(0.0)).collect() })
    }

    /// σ, the eigenvalues of K with a free part η.
    pub(super) fn values(&self, free: f64) -> Vec<f64> {
        self.similar.iter().map(|value| (value + free) / (1.0 + free)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_kernel_is_a_covariance_with_unit_variances() {
        let vectors = testing::matrix(9, 4, &mut testing::rng(1));
        let vectors = centered(&vectors, &(0..9).collect::<Vec<_>>());
        let kernel = gibbs(&vectors, &vectors, 0.5, true);
        let eigen = LabelKernel::of(&kernel).unwrap();
        let basis = eigen.vectors.as_ref().unwrap().mapv(f64::from);
        for free in [0.0, 0.3, 2.0] {
            let values = eigen.values(free);
            assert!(values.iter().all(|value| *value >= 0.0));
            let scaled = &basis * &Array1::from(values);
            let rebuilt = product(scaled.view(), basis.t());
            for ((p, q), found) in rebuilt.indexed_iter() {
                let own = if p == q { free } else { 0.0 };
                let wanted = (kernel[[p, q]] + own) / (1.0 + free);
                assert!((found - wanted).abs() < 1e-5, "{p} {q}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn labels_without_a_vector_are_independent() {
        let mut vectors = testing::matrix(5, 3, &mut testing::rng(2));
        vectors.row_mut(2).fill(0.0);
        let vectors = centered(&vectors, &[0, 1, 2, 3, 4]);
        let kernel = gibbs(&vectors, &vectors, 0.5, true);
        for label in 0..5 {
            assert!((kernel[[2, label]] - f64::from(u8::from(label == 2))).abs() < 1e-15);
        }
        // Moving or scaling all vectors changes nothing.
        let moved = centered(&(&testing::matrix(5, 3, &mut testing::rng(3)) * 3.0 + 7.0), &[0, 1, 2, 3, 4]);
        let still = centered(&testing::matrix(5, 3, &mut testing::rng(3)), &[0, 1, 2, 3, 4]);
        assert!((&moved - &still).iter().all(|x| x.abs() < 1e-12));
    }
}
