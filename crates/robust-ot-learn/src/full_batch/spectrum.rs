//! The second moments of the features, $\sum_i (x_i - \bar x)(x_i - \bar x)^\top = Q \Lambda Q^\top$: the curvature of the
//! squared error, and up to a factor a model of that of other losses.

use ndarray::{Array1, Array2, ArrayView2, Axis};
use robust_ot::Result;
use robust_ot::linalg::{Eigen, product};

use crate::data::Features;

/// With more features than this, only the diagonal of the moments is used: decomposing all of them would take longer
/// than the iterations it saves.
pub(crate) const MOST_FEATURES: usize = 2048;
/// Rows that are copied at a time.
const ROWS: usize = 1024;

/// The moments of features about their mean.
#[derive(Debug, Clone)]
pub(crate) struct Spectrum {
    /// x̄, or zeros for models without a bias, whose features are not centered.
    pub(crate) mean: Vec<f32>,
    /// Q; `None` if only the diagonal is used.
    pub(crate) vectors: Option<Array2<f32>>,
    /// Λ, none negative.
    pub(crate) values: Vec<f64>,
}

impl Spectrum {
    /// Computes the moments of these rows, each times its weight if there are weights.
    pub(crate) fn of(features: &Features, weights: Option<&[f32]>, centered: bool) -> Result<Self> {
        let columns = features.columns();
        let mean = if centered { mean_of(features, weights) } else { vec![0.0; columns] };
        let single = mean.iter().map(|x| *x as f32).collect();
        if columns > MOST_FEATURES {
            return Ok(Self { mean: single, vectors: None, values: variances(features, weights, &mean) });
        }
        let Eigen { values, vectors } = Eigen::new(&moments(features, weights, &mean))?;
        let vectors = vectors.mapv(|x| x as f32).as_standard_layout().into_owned();
        Ok(Self {
            mean: single,
            vectors: Some(vectors),
            values: values.iter().map(|value| value.max(0.0)).collect(),
        })
    }

    /// The mean of Λ, the scale of the moments; 1 where all features are constant.
    pub(crate) fn scale(&self) -> f64 {
        let mean = self.values.iter().sum::<f64>() / self.values.len().max(1) as f64;
        if mean > 0.0 { mean } else { 1.0 }
    }
}

fn weight_of(weights: Option<&[f32]>, row: usize) -> f64 {
    weights.map_or(1.0, |weights| f64::from(weights[row]))
}

/// Σ w_i.
fn total(weights: Option<&[f32]>, rows: usize) -> f64 {
    weights.map_or(rows as f64, |weights| weights.iter().map(|w| f64::from(*w)).sum())
}

fn mean_of(features: &Features, weights: Option<&[f32]>) -> Vec<f64> {
    let mut sums = vec![0.0; features.columns()];
    match features {
        Features::Dense(all) => {
            for (row, numbers) in all.outer_iter().enumerate() {
                let weight = weight_of(weights, row);
                sums.iter_mut().zip(numbers).for_each(|(sum, x)| *sum += weight * f64::from(*x));
            }
        }
        Features::Sparse(all) => {
            for row in 0..all.rows() {
                let weight = weight_of(weights, row);
                let (columns, values) = all.row(row);
                columns.iter().zip(values).for_each(|(c, x)| sums[*c as usize] += weight * f64::from(*x));
            }
        }
    }
    // Where all rows of a part weigh nothing, the mean does not matter.
    let total = total(weights, features.rows()).max(f64::MIN_POSITIVE);
    sums.iter_mut().for_each(|sum| *sum /= total);
    sums
}

fn variances(features: &Features, weights: Option<&[f32]>, mean: &[f64]) -> Vec<f64> {
    let total = total(weights, features.rows());
    let mut sums = vec![0.0; mean.len()];
    match features {
        Features::Dense(all) => {
            for (row, numbers) in all.outer_iter().enumerate() {
                let weight = weight_of(weights, row);
                let pairs = numbers.iter().zip(mean);
                sums.iter_mut()
                    .zip(pairs)
                    .for_each(|(sum, (x, m))| *sum += weight * (f64::from(*x) - m).powi(2));
            }
        }
        Features::Sparse(all) => {
            for row in 0..all.rows() {
                let weight = weight_of(weights, row);
                let (columns, values) = all.row(row);
                let pairs = columns.iter().zip(values);
                pairs.for_each(|(c, x)| sums[*c as usize] += weight * f64::from(*x).powi(2));
            }
            sums.iter_mut().zip(mean).for_each(|(sum, m)| *sum = (*sum - total * m * m).max(0.0));
        }
    }
    sums
}

/// Σ w_i (x_i − x̄)(x_i − x̄)ᵀ.
fn moments(features: &Features, weights: Option<&[f32]>, mean: &[f64]) -> Array2<f64> {
    let columns = mean.len();
    let mut sum = Array2::<f64>::zeros((columns, columns));
    match features {
        Features::Dense(all) => {
            let mean = Array1::from(mean.to_vec());
            for (chunk, rows) in all.axis_chunks_iter(Axis(0), ROWS).enumerate() {
                let mut centered = rows.mapv(f64::from) - &mean;
                for (row, mut numbers) in centered.outer_iter_mut().enumerate().filter(|_| weights.is_some())
                {
                    numbers *= weight_of(weights, chunk * ROWS + row).sqrt();
                }
                sum += &gram(centered.view());
            }
        }
        Features::Sparse(all) => {
            for row in 0..all.rows() {
                let weight = weight_of(weights, row);
                let (columns, values) = all.row(row);
                for (c, x) in columns.iter().zip(values) {
                    let mut out = sum.row_mut(*c as usize);
                    columns
                        .iter()
                        .zip(values)
                        .for_each(|(d, y)| out[*d as usize] += weight * f64::from(*x) * f64::from(*y));
                }
            }
            let total = total(weights, all.rows());
            for (mut out, left) in sum.outer_iter_mut().zip(mean) {
                out.iter_mut().zip(mean).for_each(|(entry, right)| *entry -= total * left * right);
            }
        }
    }
    sum
}

fn gram(rows: ArrayView2<f64>) -> Array2<f64> {
    product(rows.t(), rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Sparse;
    use crate::testing;

    #[test]
    fn dense_and_sparse_features_have_the_same_moments() {
        let dense =
            testing::matrix(30, 6, &mut testing::rng(5)).mapv(|x| if x > 0.2 { x as f32 } else { 0.0 });
        let mut sparse = Sparse::empty(6);
        for row in dense.outer_iter() {
            let places: Vec<u32> = (0..6).filter(|c| row[*c as usize] != 0.0).collect();
            let values: Vec<f32> = places.iter().map(|c| row[*c as usize]).collect();
            sparse.push(&places, &values).unwrap();
        }
        let both = [Features::Dense(dense.clone()), Features::Sparse(sparse)];
        let weights: Vec<f32> = (0..30).map(|row| 0.5 * (row % 4) as f32).collect();
        for weights in [None, Some(&weights[..])] {
            compare(&both, weights);
        }
    }

    fn compare(both: &[Features; 2], weights: Option<&[f32]>) {
        let [of_dense, of_sparse] = both.each_ref().map(|features| {
            let mean = mean_of(features, weights);
            let spectrum = Spectrum::of(features, weights, true).unwrap();
            (moments(features, weights, &mean), variances(features, weights, &mean), spectrum)
        });
        assert!((&of_dense.0 - &of_sparse.0).iter().all(|x| x.abs() < 1e-10));
        for (column, (x, y)) in of_dense.1.iter().zip(&of_sparse.1).enumerate() {
            assert!((x - y).abs() < 1e-10 && (x - of_dense.0[[column, column]]).abs() < 1e-10);
        }
        for (x, y) in of_dense.2.values.iter().zip(&of_sparse.2.values) {
            assert!((x - y).abs() < 1e-10);
        }
        let trace: f64 = of_dense.1.iter().sum();
        assert!((of_dense.2.scale() * 6.0 - trace).abs() < 1e-9 * trace);
    }
}
