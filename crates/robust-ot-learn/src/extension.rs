//! Weights of labels that no row has, from the prior alone: $w = a W_{seen} K_{seen}^{-1} k$, the mean of the prior given the
//! weights of the other labels, times a factor. With a = 1 it is the minimum that training with these labels, and without
//! losses for them, would find; such weights are small, and in a softmax that matters.

use ndarray::{Array1, Array2, Axis};
use robust_ot::linalg::{Eigen, product};
use robust_ot::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::label_kernel::{centered, gibbs};
use crate::model::Model;

/// How a model gets weights for labels without rows.
///
/// ```
/// use robust_ot_learn::Extension;
/// let extension = Extension { temperature: 0.5, free: 0.3, slope: 1.0, offset: -4.0, auc: Some(0.7) };
/// assert!(extension.auc > Some(0.5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    /// τ of the kernel between label names.
    pub temperature: f64,
    /// η.
    pub free: f64,
    /// The factor that undoes the shrinkage of weights that come from other labels, as found by hiding labels: 1 unless
    /// labels share a softmax.
    #[serde(default = "one")]
    pub slope: f64,
    /// The bias, with which hidden labels were as frequent in the predictions as among the training rows.
    pub offset: f64,
    /// The macro AUC of the hidden labels on the training rows; absent if no label was hidden.
    pub auc: Option<f64>,
}

/// The slope of files that have none.
fn one() -> f64 {
    1.0
}

/// K_seen⁻¹ k, one column per new label. The vectors are those of the label names, with the center of the seen labels.
pub(crate) fn shares(
    seen: &Array2<f64>,
    new: &Array2<f64>,
    temperature: f64,
    free: f64,
) -> Result<Array2<f64>> {
    let Eigen { values, vectors } = Eigen::new(&gibbs(seen, seen, temperature, true))?;
    let mut inner = product(vectors.t(), gibbs(seen, new, temperature, false).view());
    for (mut row, value) in inner.outer_iter_mut().zip(&values) {
        // With η = 0 the kernel of equal vectors is singular, and its null space has no share.
        let value = value.max(0.0) + free;
        row.mapv_inplace(|x| if value > 1e-12 { x / value } else { 0.0 });
    }
    Ok(product(vectors.view(), inner.view()))
}

impl Model {
    /// Adds labels that no training row had, with weights from the prior over the vectors of label names.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use robust_ot::loss::Targets;
    /// use robust_ot_learn::data::Features;
    /// use robust_ot_learn::{Dataset, FitSettings, Samples};
    ///
    /// let rows = Array2::from_shape_fn((60, 2), |(row, column)| if row % 3 == column { 1.0 } else { 0.0 });
    /// let train = Dataset::new(Features::Dense(rows), Targets::new(3, (0..60).map(|row| [row % 3]))?)?;
    /// let names = ["cat", "dog", "car"].map(String::from).to_vec();
    /// let vectors = array![[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]];
    /// let samples = Samples { label_vectors: Some(vectors), ..Samples::new(train, names) };
    /// let mut model = FitSettings::default().fit(samples)?.model;
    /// model.extend(vec!["kitten".into()], &array![[0.99, 0.14]])?;
    /// assert_eq!(model.label_names()[3], "kitten");
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the model has no vectors of its label names, a vector has another length or is zero, or a name is not new.
    pub fn extend(&mut self, names: Vec<String>, vectors: &Array2<f64>) -> Result<()> {
        let refuse = |rule: &str, found: String| Error::Conflict {
            name: "a model to extend",
            rule: rule.into(),
            found,
        };
        let Some(known) = &self.label_vectors else {
            return Err(refuse("have vectors of its label names", "it has none".into()));
        };
        let Some(extension) = self.about.extension else {
            return Err(refuse(
                "be trained by lbfgs with label vectors and at least one label with rows",
                "it is not".into(),
            ));
        };
        if vectors.ncols() != known.ncols() || vectors.nrows() != names.len() {
            return Err(Error::Shape {
                name: "the new label vectors",
                expected: format!("{} × {}, one per new label", names.len(), known.ncols()),
                found: format!("{} × {}", vectors.nrows(), vectors.ncols()),
            });
        }
        let zero = |row: &usize| vectors.row(*row).iter().all(|x| *x == 0.0);
        if let Some(row) = (0..names.len()).find(zero) {
            return Err(refuse("get new labels with a vector", format!("'{}' has none", names[row])));
        }
        let mut unit = vectors.clone();
        crate::data::to_length_one(&mut unit);
        let all = ndarray::concatenate![Axis(0), *known, unit];
        let seen: Vec<usize> = (0..known.nrows()).filter(|&label| self.is_seen(label)).collect();
        let new: Vec<usize> = (known.nrows()..all.nrows()).collect();
        let (weights, bias) = extended(&self.weights, self.bias.as_deref(), &all, (&seen, &new), extension)?;
        let labels = [self.label_names.clone(), names].concat();
        let weights = ndarray::concatenate![Axis(1), self.weights, weights].as_standard_layout().into_owned();
        let bias = self.bias.as_ref().map(|own| [own.clone(), bias].concat());
        // Checks that names are new.
        let mut model = Self::new(weights, bias, self.output, labels)?;
        model.feature_names.clone_from(&self.feature_names);
        model.preprocessing = self.preprocessing.clone();
        model.about = self.about.clone();
        model.about.label_rows.resize(all.nrows(), 0);
        model.label_vectors = Some(all);
        *self = model;
        Ok(())
    }

    /// Whether training rows had this label.
    pub fn is_seen(&self, label: usize) -> bool {
        self.about.label_rows.get(label).is_none_or(|rows| *rows > 0)
    }
}

/// The weights and biases of new labels. `vectors` are those of all label names.
pub(crate) fn extended(
    weights: &Array2<f32>,
    bias: Option<&[f32]>,
    vectors: &Array2<f64>,
    (seen, new): (&[usize], &[usize]),
    extension: Extension,
) -> Result<(Array2<f32>, Vec<f32>)> {
    let Extension { temperature, free, slope, offset, .. } = extension;
    let centered = centered(vectors, seen);
    let (of_seen, of_new) = (centered.select(Axis(0), seen), centered.select(Axis(0), new));
    let shares = shares(&of_seen, &of_new, temperature, free)?.mapv(|x| (slope * x) as f32);
    let found = product(weights.select(Axis(1), seen).view(), shares.view());
    // b_j = b′_j − x̄ᵀ w_j: sharing the biases too, relative to their mean, centers the features of the new labels.
    let own: Vec<f32> = seen.iter().map(|&label| bias.map_or(0.0, |bias| bias[label])).collect();
    let mean = own.iter().sum::<f32>() / own.len().max(1) as f32;
    let relative = Array1::from_iter(own.iter().map(|b| b - mean)).insert_axis(Axis(0));
    let bias = product(relative.view(), shares.view()).mapv(|b| b + offset as f32);
    Ok((found, bias.row(0).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn shares_are_the_conditional_mean_of_the_prior() {
        // With K over all labels, the conditional mean of the last given the others minimizes the penalty over them.
        let vectors = testing::matrix(7, 4, &mut testing::rng(21));
        let all = centered(&vectors, &[0, 1, 2, 3, 4]);
        let (seen, new) = (all.select(Axis(0), &[0, 1, 2, 3, 4]), all.select(Axis(0), &[5, 6]));
        let (temperature, free) = (0.7, 0.4);
        let found = shares(&seen, &new, temperature, free).unwrap();
        let mut kernel = gibbs(&all, &all, temperature, true);
        kernel.diag_mut().mapv_inplace(|x| x + free);
        let Eigen { values, vectors: basis } = Eigen::new(&kernel).unwrap();
        let inverse = product((&basis / &values).view(), basis.t());
        let penalty = |w: &Array1<f64>| w.dot(&inverse.dot(w));
        let weights = testing::matrix(1, 5, &mut testing::rng(22)).row(0).to_owned();
        let best: Vec<f64> = (0..2).map(|label| weights.dot(&found.column(label))).collect();
        let whole = |a: f64, b: f64| Array1::from_iter(weights.iter().copied().chain([a, b]));
        let least = penalty(&whole(best[0], best[1]));
        for (da, db) in [(1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3), (1e-3, 1e-3)] {
            assert!(penalty(&whole(best[0] + da, best[1] + db)) > least);
        }
    }
}
