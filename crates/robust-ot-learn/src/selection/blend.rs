//! Sums of the logits of two models: z = a z₁/σ₁ + (1 − a) z₂/σ₂, with σ the standard deviation of a model's logits of the
//! held-out rows, so that the share a does not depend on the scale of either. A sum of linear models is a linear model.

use ndarray::{Array2, Zip};
use serde::{Deserialize, Serialize};

use super::search::Part;
use crate::label_kernel::Prior;
use crate::objective::Objective;

/// The shares of the first model that are tried.
const SHARES: [f64; 3] = [0.25, 0.5, 0.75];

/// One of the models whose sum a model is.
///
/// ```
/// use robust_ot_learn::{BlendPart, Prior};
/// let part = BlendPart { loss: "bce".into(), share: 0.5, factor: 0.2, prior: Prior::NONE, l2: 0.1 };
/// assert!(part.share < 1.0);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlendPart {
    /// The loss.
    pub loss: String,
    /// Its share in units of the spread of its logits.
    pub share: f64,
    /// The factor of its weights and biases.
    pub factor: f64,
    /// The prior on its weights.
    pub prior: Prior,
    /// λ.
    pub l2: f64,
}

impl BlendPart {
    pub(crate) fn of(bases: &[(&'static str, Objective)], part: &Part) -> Self {
        let Part { base, prior, l2, share, factor } = *part;
        Self { loss: bases[base].0.to_owned(), share, factor, prior, l2 }
    }
}

/// The losses of a sum with their shares, such as `0.5 bce + 0.5 square`.
pub(crate) fn blend_name(bases: &[(&'static str, Objective)], parts: &[Part]) -> String {
    let words: Vec<String> =
        parts.iter().map(|part| format!("{} {}", part.share, bases[part.base].0)).collect();
    words.join(" + ")
}

/// A sum of two models.
#[derive(Debug)]
pub(super) struct Mixture {
    /// a and 1 − a.
    pub(super) shares: [f64; 2],
    /// a/σ₁ and (1 − a)/σ₂.
    pub(super) factors: [f64; 2],
    /// Of the held-out rows.
    pub(super) logits: Array2<f32>,
}

/// The sums of two models by their logits of the same rows. None if all logits of a model are equal, or not finite.
pub(super) fn mixtures<'a>(
    first: &'a Array2<f32>,
    second: &'a Array2<f32>,
) -> impl Iterator<Item = Mixture> + 'a {
    let spreads = [first, second].map(spread);
    let usable = spreads.iter().all(|spread| *spread > 0.0 && spread.is_finite());
    SHARES.iter().filter(move |_| usable).map(move |&share| {
        let shares = [share, 1.0 - share];
        let factors = [shares[0] / spreads[0], shares[1] / spreads[1]];
        let logits = Zip::from(first)
            .and(second)
            .map_collect(|x, y| (factors[0] * f64::from(*x) + factors[1] * f64::from(*y)) as f32);
        Mixture { shares, factors, logits }
    })
}

/// The standard deviation of all logits.
fn spread(logits: &Array2<f32>) -> f64 {
    let count = logits.len() as f64;
    let mean = logits.iter().map(|z| f64::from(*z)).sum::<f64>() / count;
    (logits.iter().map(|z| (f64::from(*z) - mean).powi(2)).sum::<f64>() / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn shares_do_not_depend_on_the_scale_of_a_model() {
        let (x, y) = (array![[1.0_f32, -2.0], [0.5, 3.0]], array![[0.25_f32, 1.0], [-4.0, 2.0]]);
        for (plain, scaled) in mixtures(&x, &y).zip(mixtures(&x, &(&y * 64.0))) {
            assert_eq!(plain.logits, scaled.logits);
            assert!((plain.factors[1] - 64.0 * scaled.factors[1]).abs() < 1e-12);
        }
    }

    #[test]
    fn a_model_with_itself_is_that_model_in_units_of_its_spread() {
        let x = array![[1.0_f32, -1.0], [3.0, -3.0]];
        let all: Vec<Mixture> = mixtures(&x, &x).collect();
        assert_eq!(all.len(), SHARES.len());
        for mixture in all {
            assert!((mixture.shares.iter().sum::<f64>() - 1.0).abs() < 1e-15);
            for (found, wanted) in mixture.logits.iter().zip(&x / 5.0_f32.sqrt()) {
                assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
            }
        }
    }

    #[test]
    fn a_model_that_says_nothing_is_in_no_sum() {
        let x = array![[1.0_f32, -1.0], [3.0, -3.0]];
        assert_eq!(mixtures(&x, &Array2::zeros((2, 2))).count(), 0);
        assert_eq!(mixtures(&x, &array![[f32::NAN, 0.0], [0.0, 0.0]]).count(), 0);
    }
}
