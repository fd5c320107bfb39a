//! The minimum of the squared error with the prior, in closed form for every λ:
//! $$W = Q\left[(Q^\top X_c^\top Y_c P) \circ \frac{\sigma_j}{\Lambda_i \sigma_j + \lambda}\right] P^\top,\qquad b = \bar y - W^\top \bar x,$$
//! with centered features $X_c^\top X_c = Q \Lambda Q^\top$ and the kernel $K = P \Sigma P^\top$.

use ndarray::{Array1, Array2, Axis};
use robust_ot::Result;
use robust_ot::linalg::product;

use super::spectrum::Spectrum;
use super::sums::Sums;
use super::whitened::{Penalty, rotate};
use crate::data::Features;
use crate::dataset::Dataset;
use crate::hidden_layer::logits;
use crate::objective::Objective;

/// The squared error of some training rows, ready for any penalty.
#[derive(Debug)]
pub(crate) struct Ridge {
    /// Qᵀ X_cᵀ Y_c, features × labels.
    moments: Array2<f32>,
    /// ȳ, or zeros without a bias.
    mean: Array1<f32>,
}

impl Ridge {
    /// Takes the moments of features and targets. `objective` must be the squared error, and the spectrum whole.
    pub(crate) fn new(
        data: &Dataset,
        objective: &Objective,
        spectrum: &Spectrum,
        with_bias: bool,
    ) -> Result<Self> {
        let (features, labels) = (data.features().columns(), objective.labels());
        let zeros = Array2::zeros((features, labels));
        let (mut moments, mut sums) = (zeros.clone(), vec![0.0; labels]);
        let out = moments.as_slice_mut().expect("new arrays are row-major");
        // At W = 0 and b = 0, the gradients are −XᵀY and −1ᵀY.
        Sums::new(data, objective).at(zeros.view(), &vec![0.0; labels], out, &mut sums)?;
        let sums = Array1::from(sums);
        for (mut row, &mean) in moments.outer_iter_mut().zip(&spectrum.mean) {
            row.scaled_add(-mean, &sums);
        }
        moments.mapv_inplace(|x| -x);
        let mut scratch = zeros;
        if let Some(vectors) = &spectrum.vectors {
            robust_ot::linalg::product_blocks(scratch.view_mut(), vectors.t(), moments.view());
            moments = scratch;
        }
        let weight = data.total_weight().max(f64::MIN_POSITIVE) as f32;
        let mean = if with_bias { sums.mapv(|sum| -sum / weight) } else { Array1::zeros(labels) };
        Ok(Self { moments, mean })
    }

    /// Qᵀ X_cᵀ Y_c P for one kernel, shared by all its penalties.
    pub(crate) fn in_kernel(&self, penalty: Penalty) -> Array2<f32> {
        let mut moments = self.moments.clone();
        rotate(&mut moments, &mut Array2::zeros(self.moments.dim()), None, penalty.kernel);
        moments
    }

    /// The logits of rows V = (x − x̄)ᵀ Q under a penalty.
    pub(crate) fn logits(
        &self,
        rows: &Array2<f32>,
        moments: &Array2<f32>,
        spectrum: &Spectrum,
        penalty: Penalty,
    ) -> Array2<f32> {
        let Penalty { kernel, free, l2 } = penalty;
        let sigma = kernel.values(free);
        let mut shrunk = moments.clone();
        for ((i, j), entry) in shrunk.indexed_iter_mut() {
            *entry *= (sigma[j] / (spectrum.values[i] * sigma[j] + l2)) as f32;
        }
        let mut logits = Array2::zeros((rows.nrows(), shrunk.ncols()));
        robust_ot::linalg::product_blocks(logits.view_mut(), rows.view(), shrunk.view());
        if let Some(vectors) = &kernel.vectors {
            logits = product(logits.view(), vectors.t());
        }
        logits + &self.mean
    }
}

/// V = (x − x̄)ᵀ Q for every row.
pub(crate) fn in_spectrum(features: &Features, spectrum: &Spectrum) -> Array2<f32> {
    let Some(vectors) = &spectrum.vectors else { return Array2::zeros((0, 0)) };
    let mean = Array1::from(spectrum.mean.clone()).insert_axis(Axis(0));
    logits(features, None, vectors.view(), None) - &product(mean.view(), vectors.view())
}
