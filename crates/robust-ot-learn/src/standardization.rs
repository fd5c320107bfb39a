//! Scaling of features to mean zero and variance one, fitted to one set of rows and applied to others.

use robust_ot::{Error, Result};

use crate::data::Features;

/// x ← (x − mean) / deviation. Sparse features stay sparse: they are not centered, only divided by √(mean of squares).
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::Standardization;
///
/// let mut features = Features::Dense(array![[1.0, 5.0], [3.0, 5.0]]);
/// let found = Standardization::of(&features);
/// found.apply(&mut features)?;
/// assert_eq!(features, Features::Dense(array![[-1.0, 0.0], [1.0, 0.0]])); // a constant is only centered
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Standardization {
    /// The mean to subtract; `None` if features are not centered.
    pub(super) mean: Option<Vec<f32>>,
    /// The factor of each feature.
    pub(super) scale: Vec<f32>,
}

impl Standardization {
    /// Multiplies every feature by one factor.
    ///
    /// ```
    /// let bytes = robust_ot_learn::Standardization::factor(784, 1.0 / 255.0);
    /// ```
    pub fn factor(columns: usize, factor: f32) -> Self {
        Self { mean: None, scale: vec![factor; columns] }
    }

    /// Whether features are centered.
    pub fn is_centered(&self) -> bool {
        self.mean.is_some()
    }

    /// Fits the standardization to these features.
    pub fn of(features: &Features) -> Self {
        let (rows, columns) = (features.rows() as f64, features.columns());
        match features {
            Features::Dense(array) => {
                let mut mean = vec![0.0; columns];
                array
                    .rows()
                    .into_iter()
                    .for_each(|row| mean.iter_mut().zip(row).for_each(|(m, x)| *m += f64::from(*x)));
                mean.iter_mut().for_each(|m| *m /= rows);
                let mut variance = vec![0.0; columns];
                for row in array.rows() {
                    for ((v, x), m) in variance.iter_mut().zip(row).zip(&mean) {
                        *v += (f64::from(*x) - m).powi(2) / rows;
                    }
                }
                // The rounding error of a constant feature is not a deviation.
                let pairs = variance.iter().zip(&mean);
                let scale = pairs.map(|(v, m)| inverse(v.sqrt(), 1e-7 * m.abs())).collect();
                Self { mean: Some(mean.iter().map(|m| *m as f32).collect()), scale }
            }
            Features::Sparse(sparse) => {
                let mut squares = vec![0.0; columns];
                for row in 0..sparse.rows() {
                    let (places, values) = sparse.row(row);
                    for (&place, &x) in places.iter().zip(values) {
                        squares[place as usize] += f64::from(x).powi(2) / rows;
                    }
                }
                Self { mean: None, scale: squares.iter().map(|s: &f64| inverse(s.sqrt(), 0.0)).collect() }
            }
        }
    }

    /// Standardizes features in place.
    ///
    /// # Errors
    /// When the number of features differs, or sparse features would be centered.
    pub fn apply(&self, features: &mut Features) -> Result<()> {
        if features.columns() != self.scale.len() {
            return Err(Error::Shape {
                name: "the features",
                expected: format!("{} columns wide, as in training", self.scale.len()),
                found: format!("{} wide", features.columns()),
            });
        }
        match (features, &self.mean) {
            (Features::Dense(array), mean) => {
                for mut row in array.rows_mut() {
                    if let Some(mean) = mean {
                        row.iter_mut().zip(mean).for_each(|(x, mean)| *x -= mean);
                    }
                    row.iter_mut().zip(&self.scale).for_each(|(x, scale)| *x *= scale);
                }
                Ok(())
            }
            (Features::Sparse(sparse), None) => {
                sparse.scale_columns(&self.scale);
                Ok(())
            }
            (Features::Sparse(_), Some(_)) => Err(Error::Shape {
                name: "the features",
                expected: "dense, as in training, where they were centered".into(),
                found: "sparse".into(),
            }),
        }
    }
}

/// 1/x, or 1 if x is at most `nothing` or too small to invert.
fn inverse(x: f64, nothing: f64) -> f32 {
    let inverse = (1.0 / x) as f32;
    if x > nothing && inverse.is_finite() { inverse } else { 1.0 }
}
