//! A label geometry from the rows of each label, for names that say nothing about what rows look like.

use ndarray::{Array1, Array2, ArrayViewMut1, Axis, s};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::Result;
use robust_ot::linalg::{Eigen, product};

use crate::data::{Features, to_length_one};
use crate::dataset::Dataset;

/// Vectors with more columns than this are reduced to their principal components.
const MOST_COLUMNS: usize = 100;

/// $l_c \propto \frac1{|c|}\sum_{i \in c} x_i - \frac1n \sum_i x_i$: the mean features of a label's rows relative to the
/// mean of all rows, scaled to length one. With more than 100 features, $l_c$ holds the first 100 principal components
/// (or as many as there are labels, if fewer), rotated at random with a fixed seed so that groups of them have similar
/// weight.
///
/// A label without a direction of its own (no row has it, or all rows do) gets one that is orthogonal to those of the
/// others.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, label_means};
/// use robust_ot::loss::Targets;
///
/// let features = Features::Dense(array![[1.0, 0.0], [3.0, 0.0], [-2.0, 0.1], [-2.0, -0.1]]);
/// let vectors = label_means(&Dataset::new(features, Targets::new(2, [[0], [0], [1], [1]])?)?)?;
/// assert_eq!(vectors, array![[1.0, 0.0], [-1.0, 0.0]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the principal components cannot be found.
pub fn label_means(data: &Dataset) -> Result<Array2<f64>> {
    let (features, targets) = (data.features(), data.targets());
    let (rows, labels, columns) = (data.rows(), targets.labels(), features.columns());
    let mut counts = vec![0_u32; labels];
    let (mut means, mut all) = (Array2::<f64>::zeros((labels, columns)), Array1::<f64>::zeros(columns));
    for row in 0..rows {
        add_row(all.view_mut(), features, row);
        for &label in targets.row(row) {
            counts[label] += 1;
            add_row(means.row_mut(label), features, row);
        }
    }
    all /= rows as f64;
    for (mut mean, &count) in means.axis_iter_mut(Axis(0)).zip(&counts) {
        if count > 0 {
            mean /= f64::from(count);
            mean -= &all;
        }
    }
    to_length_one(&mut means);
    let own: Vec<bool> = means.outer_iter().map(|mean| mean.iter().any(|x| *x != 0.0)).collect();
    if columns > MOST_COLUMNS {
        let components = principal_components(&means)?;
        means = product(components.view(), rotation(components.ncols())?.view());
        to_length_one(&mut means);
    }
    if own.iter().all(|own| *own) {
        return Ok(means);
    }
    // Zeros, up to rounding, would be closer to all other labels than those are to each other.
    let without = means.outer_iter_mut().zip(&own).filter(|(_, own)| !**own);
    without.for_each(|(mut mean, _)| mean.fill(0.0));
    let apart: Array1<f64> = own.iter().map(|own| if *own { 0.0 } else { 1.0 }).collect();
    Ok(ndarray::concatenate![Axis(1), means, apart.insert_axis(Axis(1))])
}

fn add_row(mut sum: ArrayViewMut1<f64>, features: &Features, row: usize) {
    match features {
        Features::Dense(all) => sum.zip_mut_with(&all.row(row), |sum, &x| *sum += f64::from(x)),
        Features::Sparse(all) => {
            let (indices, values) = all.row(row);
            indices.iter().zip(values).for_each(|(&column, &x)| sum[column as usize] += f64::from(x));
        }
    }
}

/// A Q for the leading eigenvectors Q of AᵀA, computed from those of AAᵀ if A has fewer rows than columns.
fn principal_components(vectors: &Array2<f64>) -> Result<Array2<f64>> {
    let (labels, columns) = vectors.dim();
    let kept = MOST_COLUMNS.min(labels);
    if columns <= labels {
        let eigen = Eigen::new(&product(vectors.t(), vectors.view()))?;
        return Ok(product(vectors.view(), eigen.vectors.slice(s![.., columns - kept..;-1])));
    }
    let eigen = Eigen::new(&product(vectors.view(), vectors.t()))?;
    let mut components = eigen.vectors.slice(s![.., labels - kept..;-1]).to_owned();
    let largest = eigen.values.slice(s![labels - kept..;-1]);
    for (mut column, &value) in components.axis_iter_mut(Axis(1)).zip(&largest) {
        column *= value.max(0.0).sqrt();
    }
    Ok(components)
}

/// A rotation that spreads every direction over all coordinates: the eigenvectors of a random symmetric matrix.
fn rotation(size: usize) -> Result<Array2<f64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let random = Array2::from_shape_fn((size, size), |_| rng.random_range(-1.0..1.0));
    Ok(Eigen::new(&(&random + &random.t()))?.vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use robust_ot::loss::Targets;

    fn distances(vectors: &Array2<f64>) -> Vec<f64> {
        let n = vectors.nrows();
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        pairs.map(|(i, j)| (&vectors.row(i) - &vectors.row(j)).mapv(|x| x * x).sum()).collect()
    }

    #[test]
    fn components_keep_distances_that_lie_in_few_dimensions() {
        // Seven labels span at most seven dimensions: reducing 150 features loses nothing, whichever side is decomposed.
        let features = testing::matrix(40, 150, &mut testing::rng(3)).mapv(|x| x as f32);
        let targets = Targets::new(7, (0..40).map(|row| vec![row % 7, (row + 1 + row / 7) % 7])).unwrap();
        let data = Dataset::new(Features::Dense(features.clone()), targets.clone()).unwrap();
        let reduced = label_means(&data).unwrap();
        assert_eq!(reduced.dim(), (7, 7));
        let mean = features.mapv(f64::from).mean_axis(Axis(0)).unwrap();
        let mut whole = Array2::<f64>::zeros((7, 150));
        for label in 0..7 {
            let rows: Vec<usize> = (0..40).filter(|&row| targets.row(row).contains(&label)).collect();
            let of_label = features.select(Axis(0), &rows).mapv(f64::from).mean_axis(Axis(0)).unwrap();
            whole.row_mut(label).assign(&(of_label - &mean));
        }
        to_length_one(&mut whole);
        for (x, y) in distances(&reduced).iter().zip(distances(&whole)) {
            assert!((x - y).abs() < 1e-9, "{x} {y}");
        }
    }

    #[test]
    fn labels_without_rows_are_far_from_all() {
        let wide = testing::matrix(6, 120, &mut testing::rng(4)).mapv(|x| x as f32);
        let data = Dataset::new(Features::Dense(wide), Targets::new(9, (0..6).map(|row| [row])).unwrap());
        let vectors = label_means(&data.unwrap()).unwrap();
        assert_eq!(vectors.dim(), (9, 10));
        for (label, vector) in vectors.outer_iter().enumerate() {
            assert!((vector.dot(&vector) - 1.0).abs() < 1e-12);
            let others = (0..9).filter(|&other| (other < 6) != (label < 6));
            others.for_each(|other| assert!(vector.dot(&vectors.row(other)).abs() < 1e-12));
        }
        let features = Features::Dense(ndarray::array![[1.0, 0.0], [-1.0, 0.0]]);
        let data = Dataset::new(features, Targets::new(3, [[0], [1]]).unwrap()).unwrap();
        let vectors = label_means(&data).unwrap();
        assert_eq!(vectors, ndarray::array![[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]);
    }
}
