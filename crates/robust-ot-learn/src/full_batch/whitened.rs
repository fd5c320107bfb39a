//! The penalized loss of a linear model,
//! $$f(W, b) = \sum_i \ell(W^\top x_i + b, y_i) + \tfrac\lambda2 \operatorname{tr}(W K^{-1} W^\top),$$
//! in coordinates in which its curvature is nearly the identity.
//!
//! With moments QΛQᵀ of the features, a kernel PΣPᵀ of the labels and c_j the mean curvature of ℓ in the direction of
//! label eigenvector j, the Hessian is close to diagonal in B: W = Q (S ∘ B) Pᵀ, S_ij² = σ_j / (c_j Λ_i σ_j + λ), and the
//! penalty is ½ Σ λ / (c_j Λ_i σ_j + λ) B_ij². For the squared error, c = 1 and the Hessian is exactly the identity.

use ndarray::Array2;
use robust_ot::linalg::{flat, product_blocks};
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;
use robust_ot::{Kernels, Result};

use super::lbfgs::{Minimum, Stop, minimize};
use super::spectrum::Spectrum;
use super::sums::Sums;
use crate::dataset::Dataset;
use crate::label_kernel::LabelKernel;
use crate::objective::{Objective, Output};

/// The weights and biases of a linear model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Linear {
    /// Features × labels.
    pub(crate) weights: Array2<f32>,
    pub(crate) bias: Vec<f32>,
}

/// The penalty λ/2 tr(W K⁻¹ Wᵀ).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Penalty<'a> {
    pub(crate) kernel: &'a LabelKernel,
    /// η, the free part of the kernel.
    pub(crate) free: f64,
    /// λ.
    pub(crate) l2: f64,
}

/// The penalized loss as a function of B and the scaled biases.
#[derive(Debug)]
pub(crate) struct Whitened<'a> {
    sums: Sums<'a>,
    spectrum: &'a Spectrum,
    kernel: &'a LabelKernel,
    with_bias: bool,
    /// S, features × labels.
    scales: Array2<f32>,
    /// λ / (c_j Λ_i σ_j + λ).
    decay: Vec<f32>,
    /// The step of each bias.
    bias_scales: Vec<f32>,
    /// The biases that B = 0 starts from.
    start: Vec<f32>,
    model: Linear,
    scratch: Array2<f32>,
    of_weights: Array2<f32>,
    of_bias: Vec<f32>,
}

impl<'a> Whitened<'a> {
    pub(crate) fn new(
        data: &'a Dataset,
        objective: &'a Objective,
        spectrum: &'a Spectrum,
        penalty: Penalty<'a>,
        with_bias: bool,
    ) -> Self {
        let Penalty { kernel, free, l2 } = penalty;
        let (features, labels) = (data.features().columns(), objective.labels());
        let rates = rates(data.targets());
        let curvatures: Vec<f64> =
            rates.iter().map(|f| if objective.is_square() { 1.0 } else { f * (1.0 - f) }).collect();
        let of_kernel = in_kernel(&curvatures, kernel);
        let sigma = kernel.values(free);
        let mut scales = Array2::zeros((features, labels));
        let mut decay = vec![0.0; features * labels];
        for ((i, j), scale) in scales.indexed_iter_mut() {
            let curvature = of_kernel[j] * spectrum.values[i] * sigma[j] + l2;
            *scale = (sigma[j] / curvature).sqrt() as f32;
            decay[i * labels + j] = (l2 / curvature) as f32;
        }
        let rows = data.total_weight().max(f64::from(f32::MIN_POSITIVE));
        let bias_scales = curvatures.iter().map(|c| (1.0 / (rows * c)).sqrt() as f32).collect();
        let zeros = || Array2::zeros((features, labels));
        Self {
            sums: Sums::new(data, objective),
            spectrum,
            kernel,
            with_bias,
            scales,
            decay,
            bias_scales,
            start: if with_bias { starts(data.targets(), objective) } else { vec![0.0; labels] },
            model: Linear { weights: zeros(), bias: vec![0.0; labels] },
            scratch: zeros(),
            of_weights: zeros(),
            of_bias: vec![0.0; labels],
        }
    }

    /// Minimizes from these weights, or from zero. Returns the model with the point it was found at.
    pub(crate) fn minimize(
        mut self,
        from: Option<&Linear>,
        stop: Stop,
        interrupt: &Interrupt,
        progress: impl FnMut(usize, f64, f64),
    ) -> Result<(Linear, Minimum)> {
        let start = self.point_of(from);
        let minimum = minimize(start, |point, out| self.evaluate(point, out), stop, interrupt, progress)?;
        self.place(&minimum.point);
        Ok((self.model, minimum))
    }

    fn evaluate(&mut self, point: &[f32], out: &mut [f32]) -> Result<f64> {
        self.place(point);
        let (whitened, _) = point.split_at(self.decay.len());
        let (of_whitened, of_scaled) = out.split_at_mut(self.decay.len());
        let of_weights = self.of_weights.as_slice_mut().expect("buffers are row-major");
        let loss =
            self.sums.at(self.model.weights.view(), &self.model.bias, of_weights, &mut self.of_bias)?;
        // With centered features, x̄ leaves the gradient as it leaves the logits.
        for (mut row, &mean) in self.of_weights.outer_iter_mut().zip(&self.spectrum.mean) {
            f32::add_own(row.as_slice_mut().expect("rows are contiguous"), -mean, &self.of_bias);
        }
        self.rotate_back();
        let mut penalty = 0.0;
        let gradients = of_whitened.iter_mut().zip(flat(&self.scratch)).zip(flat(&self.scales));
        for (((out, gradient), scale), (b, decay)) in gradients.zip(whitened.iter().zip(&self.decay)) {
            *out = gradient * scale + decay * b;
            penalty += f64::from(decay * b) * f64::from(*b);
        }
        if self.with_bias {
            let pairs = self.of_bias.iter().zip(&self.bias_scales);
            of_scaled.iter_mut().zip(pairs).for_each(|(out, (g, scale))| *out = g * scale);
        }
        Ok(loss + 0.5 * penalty)
    }

    /// Sets the model to a point: W = Q (S ∘ B) Pᵀ, b = b′ − x̄ᵀ W.
    fn place(&mut self, point: &[f32]) {
        let (whitened, scaled) = point.split_at(self.decay.len());
        let weights = self.model.weights.as_slice_mut().expect("buffers are row-major");
        weights.iter_mut().zip(whitened.iter().zip(flat(&self.scales))).for_each(|(w, (b, s))| *w = b * s);
        if let Some(vectors) = &self.spectrum.vectors {
            product_blocks(self.scratch.view_mut(), vectors.view(), self.model.weights.view());
            std::mem::swap(&mut self.scratch, &mut self.model.weights);
        }
        if let Some(vectors) = &self.kernel.vectors {
            product_blocks(self.scratch.view_mut(), self.model.weights.view(), vectors.t());
            std::mem::swap(&mut self.scratch, &mut self.model.weights);
        }
        self.model.bias.copy_from_slice(&self.start);
        if self.with_bias {
            let pairs = scaled.iter().zip(&self.bias_scales);
            self.model.bias.iter_mut().zip(pairs).for_each(|(bias, (b, scale))| *bias += b * scale);
        }
        for (row, &mean) in self.model.weights.outer_iter().zip(&self.spectrum.mean) {
            f32::add_own(&mut self.model.bias, -mean, row.to_slice().expect("rows are contiguous"));
        }
    }

    /// Leaves Qᵀ ∇W P in `scratch`.
    fn rotate_back(&mut self) {
        rotate(&mut self.of_weights, &mut self.scratch, self.spectrum.vectors.as_ref(), self.kernel);
        std::mem::swap(&mut self.of_weights, &mut self.scratch);
    }

    /// The point of a model, B = (Qᵀ W P) / S; zero without one.
    fn point_of(&mut self, model: Option<&Linear>) -> Vec<f32> {
        let labels = self.start.len();
        let mut point = vec![0.0; self.decay.len() + if self.with_bias { labels } else { 0 }];
        let Some(Linear { weights, bias }) = model else { return point };
        let mut bias = bias.clone();
        for (row, &mean) in weights.outer_iter().zip(&self.spectrum.mean) {
            f32::add_own(&mut bias, mean, row.to_slice().expect("rows are contiguous"));
        }
        let (whitened, scaled) = point.split_at_mut(self.decay.len());
        self.of_weights.assign(weights);
        self.rotate_back();
        let pairs = flat(&self.scratch).iter().zip(flat(&self.scales));
        whitened.iter_mut().zip(pairs).for_each(|(b, (w, s))| *b = if *s > 0.0 { w / s } else { 0.0 });
        let scaled = scaled.iter_mut().zip(bias.iter().zip(&self.start));
        scaled.zip(&self.bias_scales).for_each(|((out, (b, start)), scale)| *out = (b - start) / scale);
        point
    }
}

/// Replaces M with Qᵀ M P.
pub(crate) fn rotate(
    matrix: &mut Array2<f32>,
    scratch: &mut Array2<f32>,
    spectrum: Option<&Array2<f32>>,
    kernel: &LabelKernel,
) {
    if let Some(vectors) = spectrum {
        product_blocks(scratch.view_mut(), vectors.t(), matrix.view());
        std::mem::swap(scratch, matrix);
    }
    if let Some(vectors) = &kernel.vectors {
        product_blocks(scratch.view_mut(), matrix.view(), vectors.view());
        std::mem::swap(scratch, matrix);
    }
}

/// The fraction of the rows that have each label, kept from 0 and 1 by half a row.
fn rates(targets: &Targets) -> Vec<f64> {
    let mut counts = vec![0.5; targets.labels()];
    (0..targets.rows()).for_each(|row| targets.row(row).iter().for_each(|&label| counts[label] += 1.0));
    counts.iter().map(|count| count / (targets.rows() as f64 + 1.0)).collect()
}

/// The biases that predict the rate of every label where all weights are zero.
pub(crate) fn starts(targets: &Targets, objective: &Objective) -> Vec<f32> {
    let of = |rate: f64| match objective.output() {
        _ if objective.is_square() => rate,
        Output::Softmax => rate.ln(),
        Output::Sigmoid => (rate / (1.0 - rate)).ln(),
    };
    rates(targets).into_iter().map(|rate| of(rate) as f32).collect()
}

/// diag(Pᵀ diag(c) P): the mean curvature along every label eigenvector.
fn in_kernel(curvatures: &[f64], kernel: &LabelKernel) -> Vec<f64> {
    let Some(vectors) = &kernel.vectors else { return curvatures.to_vec() };
    let mut found = vec![0.0; curvatures.len()];
    for (row, c) in vectors.outer_iter().zip(curvatures) {
        found.iter_mut().zip(row).for_each(|(sum, p)| *sum += f64::from(p * p) * c);
    }
    found
}
