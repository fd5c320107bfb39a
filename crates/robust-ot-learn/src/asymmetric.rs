//! The asymmetric loss of rows with several labels (Ridnik et al. 2021): binary cross-entropy in which each side is focused by
//! itself, so that the many labels that a row clearly lacks do not outweigh the few that it has. With $p = \sigma(z)$ and
//! $s = \max(p - m, 0)$,
//! $$\ell(z, t) = -t\,(1 - p)^{\gamma_+} \ln p - (1 - t)\,s^{\gamma_-} \ln(1 - s).$$

use robust_ot::{Error, Kernels, Result};
use serde::{Deserialize, Serialize};

/// Parameters of the asymmetric loss.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `positive` | 0 | γ₊, the power of 1 − p for labels that are true | [0, ∞) |
/// | `negative` | 4 | γ₋, the power of p − m for labels that are not | [0, ∞) |
/// | `margin` | 0.05 | m, the probability up to which a label that is not true costs nothing | [0, 1) |
///
/// ```
/// use robust_ot_learn::Asymmetric;
/// assert!(Asymmetric { margin: 1.0, ..Default::default() }.check().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Asymmetric {
    /// γ₊.
    pub positive: f64,
    /// γ₋.
    pub negative: f64,
    /// m.
    pub margin: f64,
}

impl Default for Asymmetric {
    fn default() -> Self {
        Self { positive: 0.0, negative: 4.0, margin: 0.05 }
    }
}

impl Asymmetric {
    /// Checks the ranges of the table above.
    ///
    /// # Errors
    /// When a parameter is outside its range.
    pub fn check(&self) -> Result<()> {
        for (name, power) in [("asl_positive", self.positive), ("asl_negative", self.negative)] {
            if !(power >= 0.0 && power.is_finite()) {
                return Err(Error::parameter(name, "finite and not negative", power));
            }
        }
        if !(0.0..1.0).contains(&self.margin) {
            return Err(Error::parameter("asl_margin", "from 0 to less than 1", self.margin));
        }
        Ok(())
    }

    /// The loss of a row, summed over labels; the logits become their derivatives. `powers` is a buffer.
    pub(super) fn row(&self, logits: &mut [f32], target: &[f32], powers: &mut [f32]) -> f64 {
        powers.iter_mut().zip(&*logits).for_each(|(power, z)| *power = -z.abs());
        f32::exp_shifted(powers, 0.0);
        let mut loss = 0.0;
        for ((z, t), power) in logits.iter_mut().zip(target).zip(powers) {
            let logit = f64::from(*z);
            let (small, t) = (f64::from(*power), f64::from(*t));
            // p and 1 − p, the smaller without cancellation.
            let (likely, unlikely) = (1.0 / (1.0 + small), small / (1.0 + small));
            let (p, q) = if logit >= 0.0 { (likely, unlikely) } else { (unlikely, likely) };
            let mut slope = 0.0;
            if t > 0.0 {
                let (value, derivative) = self.of_true(p, q, small.ln_1p() + (-logit).max(0.0));
                loss += t * value;
                slope += t * derivative;
            }
            // Most labels of a trained model end here.
            if t < 1.0 && p > self.margin {
                let (value, derivative) = self.of_false(p, q, small.ln_1p() + logit.max(0.0));
                loss += (1.0 - t) * value;
                slope += (1.0 - t) * derivative;
            }
            *z = slope as f32;
        }
        loss
    }

    /// q^γ₊ c with c = −ln p, and its derivative −q^γ₊ (q + γ₊ p c).
    fn of_true(&self, p: f64, q: f64, cost: f64) -> (f64, f64) {
        let focus = power(q, self.positive);
        (focus * cost, -focus * (q + self.positive * p * cost))
    }

    /// s^γ₋ c with c = −ln(1 − s), and its derivative p q s^γ₋ (1 / (1 − s) + γ₋ c / s). Without a margin c is `plain`, which is
    /// finite where q is zero.
    fn of_false(&self, p: f64, q: f64, plain: f64) -> (f64, f64) {
        let Self { negative, margin, .. } = *self;
        let s = p - margin;
        let focus = power(s, negative);
        if margin > 0.0 {
            let cost = -(-s).ln_1p();
            return (focus * cost, p * q * focus * (1.0 / (q + margin) + negative * cost / s));
        }
        (focus * plain, focus * (p + negative * q * plain))
    }
}

/// x^γ, without logarithms for the whole powers that are usual.
fn power(x: f64, exponent: f64) -> f64 {
    const USUAL: f64 = 8.0;
    if exponent.fract() == 0.0 && exponent <= USUAL { x.powi(exponent as i32) } else { x.powf(exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula as it is printed.
    fn textbook(loss: &Asymmetric, z: f64, t: f64) -> f64 {
        let p = 1.0 / (1.0 + (-z).exp());
        let s = (p - loss.margin).max(0.0);
        -t * (1.0 - p).powf(loss.positive) * p.ln() - (1.0 - t) * s.powf(loss.negative) * (1.0 - s).ln()
    }

    const CASES: [(f64, f64, f64); 6] = [
        (0.0, 4.0, 0.05),
        (0.0, 0.0, 0.0),
        (1.0, 4.0, 0.0),
        (2.0, 2.5, 0.2),
        (0.5, 0.5, 0.01),
        (0.0, 12.0, 0.3),
    ];

    #[test]
    fn derivatives_are_the_slopes_of_the_printed_formula() {
        for (positive, negative, margin) in CASES {
            let loss = Asymmetric { positive, negative, margin };
            let edge = (margin / (1.0 - margin)).ln();
            for t in [0.0_f32, 0.3, 1.0] {
                for at in -60..=60 {
                    let z = f64::from(at) / 7.0;
                    // With γ₋ ≤ 1 the slope jumps, or is infinite, where the margin ends.
                    if (z - edge).abs() < 1e-3 {
                        continue;
                    }
                    let (mut row, mut powers) = ([z as f32], [0.0]);
                    let value = loss.row(&mut row, &[t], &mut powers);
                    // The logit that single precision holds.
                    let (z, t) = (f64::from(z as f32), f64::from(t));
                    let step = 1e-5;
                    let slope = (textbook(&loss, z + step, t) - textbook(&loss, z - step, t)) / (2.0 * step);
                    let wanted = textbook(&loss, z, t);
                    assert!(
                        (value - wanted).abs() < 1e-5 * (1.0 + wanted),
                        "{loss:?} {z} {t}: {value} {wanted}"
                    );
                    let found = f64::from(row[0]);
                    assert!(
                        (found - slope).abs() < 1e-5 * (1.0 + slope.abs()),
                        "{loss:?} {z} {t}: {found} {slope}"
                    );
                }
            }
        }
    }

    #[test]
    fn labels_below_the_margin_cost_nothing() {
        let mut row = [-3.0, -30.0, -100.0];
        let value = Asymmetric::default().row(&mut row, &[0.0; 3], &mut [0.0; 3]);
        assert_eq!((value.to_bits(), row.map(f32::to_bits)), (0, [0; 3]));
    }

    #[test]
    fn confident_mistakes_have_finite_losses() {
        for (positive, negative, margin) in CASES {
            let loss = Asymmetric { positive, negative, margin };
            let mut row = [200.0, -200.0, 200.0, -200.0];
            let value = loss.row(&mut row, &[0.0, 1.0, 1.0, 0.0], &mut [0.0; 4]);
            assert!(value.is_finite() && row.iter().all(|g| g.is_finite()), "{loss:?}: {value} {row:?}");
        }
        // Without powers and margin it is binary cross-entropy, whose slopes are those of lines there.
        let plain = Asymmetric { positive: 0.0, negative: 0.0, margin: 0.0 };
        let mut row = [200.0, -200.0];
        let value = plain.row(&mut row, &[0.0, 1.0], &mut [0.0; 2]);
        assert!((value - 400.0).abs() < 1e-9, "{value}");
        assert_eq!(row.map(f32::to_bits), [1.0, -1.0].map(f32::to_bits));
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let usual = Asymmetric::default();
        for (broken, told) in [
            (
                Asymmetric { positive: -1.0, ..usual },
                "asl_positive must be finite and not negative, but is -1",
            ),
            (
                Asymmetric { negative: f64::NAN, ..usual },
                "asl_negative must be finite and not negative, but is NaN",
            ),
            (Asymmetric { margin: 1.0, ..usual }, "asl_margin must be from 0 to less than 1, but is 1"),
        ] {
            assert_eq!(broken.check().unwrap_err().to_string(), told);
        }
    }
}
