//! Gradient descent with momentum, Adam, and AdamW.

use std::fmt;
use std::str::FromStr;

use multiversion::multiversion;
use rayon::prelude::*;
use robust_ot::Error;
use serde::{Deserialize, Serialize};

/// Decay rates of Adam's means of gradients and of squared gradients: the usual values.
const BETA: (f64, f64) = (0.9, 0.999);
/// Keeps Adam's steps finite where gradients vanish.
const EPSILON: f32 = 1e-8;

/// How a gradient becomes a step.
///
/// ```
/// use robust_ot_learn::Optimizer;
/// assert_eq!("adam".parse::<Optimizer>()?, Optimizer::Adam);
/// assert!("newton".parse::<Optimizer>().is_err());
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// w ← w − η v with v ← momentum · v + g.
    Sgd {
        /// The momentum, in [0, 1).
        momentum: f64,
    },
    /// Adam, with the usual decays 0.9 and 0.999.
    Adam,
    /// Adam whose weight decay is no part of the gradient: w ← (1 − η λ) w before each step.
    #[serde(rename = "adamw")]
    AdamW,
}

/// How the learning rate decays.
///
/// ```
/// use robust_ot_learn::Schedule;
/// assert_eq!(Schedule::Linear.factor(0.25), 0.75);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// It does not.
    #[default]
    Constant,
    /// Linearly to zero.
    Linear,
    /// Along half a cosine to zero.
    Cosine,
}

impl Schedule {
    /// The fraction of the learning rate that is left when the fraction `done` of all steps is done.
    pub fn factor(self, done: f64) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Linear => 1.0 - done,
            Self::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Cosine => "cosine",
        })
    }
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "constant" => Ok(Self::Constant),
            "linear" => Ok(Self::Linear),
            "cosine" => Ok(Self::Cosine),
            other => Err(Error::parameter("schedule", "constant, linear or cosine", other)),
        }
    }
}

impl FromStr for Optimizer {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "sgd" => Ok(Self::Sgd { momentum: 0.0 }),
            "adam" => Ok(Self::Adam),
            "adamw" => Ok(Self::AdamW),
            other => Err(Error::parameter("optimizer", "sgd, adam or adamw", other)),
        }
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sgd { momentum } if *momentum > 0.0 => write!(f, "sgd (momentum {momentum})"),
            Self::Sgd { .. } => f.write_str("sgd"),
            Self::Adam => f.write_str("adam"),
            Self::AdamW => f.write_str("adamw"),
        }
    }
}

/// One step of an optimizer.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// How the gradient becomes a step.
    pub optimizer: Optimizer,
    /// The learning rate η.
    pub rate: f64,
    /// λ of λ‖W‖², or of the decay of [`Optimizer::AdamW`].
    pub decay: f64,
    /// The number of the step, counted from 1.
    pub number: u64,
}

impl Step {
    /// The same step for parameters that do not decay.
    pub(super) fn without_decay(self) -> Self {
        Self { decay: 0.0, ..self }
    }

    /// The η' and c with which Adam's η m̂ / (√v̂ + ε) is η' m / (√(c v) + ε) in this step.
    ///
    /// ```
    /// use robust_ot_learn::{Optimizer, Step};
    /// let step = Step { optimizer: Optimizer::Adam, rate: 0.01, decay: 0.0, number: 1 };
    /// let (rate, square) = step.corrected();
    /// assert!((rate - 0.1).abs() < 1e-8 && (square - 1000.0).abs() < 0.1);
    /// ```
    pub fn corrected(&self) -> (f32, f32) {
        let correct = |beta: f64| 1.0 / (1.0 - beta.powf(self.number as f64));
        ((self.rate * correct(BETA.0)) as f32, correct(BETA.1) as f32)
    }
}

/// Learned parameters with their optimizer state.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The parameters.
    pub values: Vec<f32>,
    /// The velocity, or Adam's mean of gradients; empty for plain gradient descent.
    pub first: Vec<f32>,
    /// Adam's mean of squared gradients; empty for other optimizers.
    pub second: Vec<f32>,
    gradient: Vec<f32>,
}

impl Parameters {
    pub(super) fn new(values: Vec<f32>, optimizer: Optimizer) -> Self {
        let zeros = |wanted: bool| vec![0.0; if wanted { values.len() } else { 0 }];
        let first = zeros(optimizer != Optimizer::Sgd { momentum: 0.0 });
        let second = zeros(matches!(optimizer, Optimizer::Adam | Optimizer::AdamW));
        Self { gradient: vec![0.0; values.len()], values, first, second }
    }

    /// Computes the gradient block by block and takes the step of each block while its gradient is in cache.
    pub(super) fn step(&mut self, step: Step, block: usize, gradient: impl Fn(usize, &mut [f32]) + Sync) {
        let Self { values, first, second, gradient: workspace } = self;
        let blocks = values.par_chunks_mut(block).zip(workspace.par_chunks_mut(block)).enumerate();
        let rate = step.rate as f32;
        let decay = 2.0 * step.decay as f32;
        match step.optimizer {
            Optimizer::Sgd { momentum: 0.0 } => blocks.for_each(|(at, (values, workspace))| {
                gradient(at, workspace);
                descend(values, workspace, rate, decay);
            }),
            Optimizer::Sgd { momentum } => {
                blocks.zip(first.par_chunks_mut(block)).for_each(|((at, (values, workspace)), velocity)| {
                    gradient(at, workspace);
                    roll(values, workspace, velocity, (rate, momentum as f32, decay));
                });
            }
            Optimizer::Adam | Optimizer::AdamW => {
                // What is left of the weights, and what is added to the gradient.
                let (kept, decay) = match step.optimizer {
                    Optimizer::AdamW => ((1.0 - step.rate * step.decay) as f32, 0.0),
                    _ => (1.0, decay),
                };
                let (rate, square) = step.corrected();
                let moments = first.par_chunks_mut(block).zip(second.par_chunks_mut(block));
                blocks.zip(moments).for_each(|((at, (values, workspace)), moments)| {
                    gradient(at, workspace);
                    adapt(values, workspace, moments.0, moments.1, (rate, square, decay, kept));
                });
            }
        }
    }
}

#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn descend(values: &mut [f32], gradient: &[f32], rate: f32, decay: f32) {
    for (w, g) in values.iter_mut().zip(gradient) {
        *w -= rate * (g + decay * *w);
    }
}

#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn roll(values: &mut [f32], gradient: &[f32], velocity: &mut [f32], factors: (f32, f32, f32)) {
    let (rate, momentum, decay) = factors;
    for ((w, g), v) in values.iter_mut().zip(gradient).zip(velocity) {
        *v = momentum * *v + g + decay * *w;
        *w -= rate * *v;
    }
}

#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn adapt(
    values: &mut [f32],
    gradient: &[f32],
    mean: &mut [f32],
    squares: &mut [f32],
    factors: (f32, f32, f32, f32),
) {
    let (rate, square, decay, kept) = factors;
    let (old, old_square) = (BETA.0 as f32, BETA.1 as f32);
    // Rounded once: 1 − 0.999 in single precision would be off by 1e-5.
    let (new, new_square) = ((1.0 - BETA.0) as f32, (1.0 - BETA.1) as f32);
    for (((w, g), m), v) in values.iter_mut().zip(gradient).zip(mean).zip(squares) {
        let g = g + decay * *w;
        *m = old * *m + new * g;
        *v = old_square * *v + new_square * g * g;
        *w = kept * *w - rate * *m / ((square * *v).sqrt() + EPSILON);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a few steps on ½ a w² with the textbook rules in f64.
    #[test]
    fn each_rule_is_its_textbook() {
        let curvature = [1.0, 4.0, 0.25];
        let start = [1.0, -2.0, 3.0];
        let (rate, decay) = (0.1, 0.01);
        let descents = [0.0, 0.9].map(|momentum| Optimizer::Sgd { momentum });
        for optimizer in descents.into_iter().chain([Optimizer::Adam, Optimizer::AdamW]) {
            let mut found = Parameters::new(start.map(|x| x as f32).to_vec(), optimizer);
            let (mut w, mut m, mut v) = (start, [0.0; 3], [0.0; 3]);
            for number in 1..=20 {
                let at = found.values.clone();
                found.step(Step { optimizer, rate, decay, number }, 2, |block, out| {
                    for (place, out) in out.iter_mut().enumerate() {
                        *out = curvature[2 * block + place] as f32 * at[2 * block + place];
                    }
                });
                for i in 0..3 {
                    let decoupled = optimizer == Optimizer::AdamW;
                    let g = curvature[i] * w[i] + if decoupled { 0.0 } else { 2.0 * decay * w[i] };
                    let step: f64 = match optimizer {
                        Optimizer::Sgd { momentum } => {
                            m[i] = momentum * m[i] + g;
                            m[i]
                        }
                        Optimizer::Adam | Optimizer::AdamW => {
                            m[i] = 0.9 * m[i] + 0.1 * g;
                            v[i] = 0.999 * v[i] + 0.001 * g * g;
                            let (mean, square) = (
                                m[i] / (1.0 - 0.9_f64.powi(number as i32)),
                                v[i] / (1.0 - 0.999_f64.powi(number as i32)),
                            );
                            mean / (square.sqrt() + 1e-8)
                        }
                    };
                    w[i] *= if decoupled { 1.0 - rate * decay } else { 1.0 };
                    w[i] -= rate * step;
                }
            }
            for (found, wanted) in found.values.iter().zip(w) {
                assert!((f64::from(*found) - wanted).abs() < 1e-5, "{optimizer}: {found} is not {wanted}");
            }
        }
    }
}
