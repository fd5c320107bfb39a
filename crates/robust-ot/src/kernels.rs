//! Element-wise work on slices, compiled for the instruction sets at hand and chosen when it runs.

use multiversion::multiversion;

/// Below this, e^x counts as 0: it is under 1e-307, and the bit tricks end here.
const LOWEST: f64 = -708.0;
const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts, the first with enough trailing zeros that its product with an exponent is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Adding 1.5 · 2⁵² rounds to an integer and leaves it in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// x_j ← e^{x_j − shift} for x_j ≤ shift; returns the sum.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2+fma"))]
pub(crate) fn exp_shifted(x: &mut [f64], shift: f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (blocks, rest) = x.as_chunks_mut::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            block[lane] = exp(block[lane] - shift);
            sums[lane] += block[lane];
        }
    }
    let mut sum = sums.into_iter().sum();
    for x in rest {
        *x = exp(*x - shift);
        sum += *x;
    }
    sum
}

/// e^x for x ≤ 700 within 2 ulp: x = k ln 2 + r with |r| ≤ ½ ln 2, Taylor in r, k into the exponent.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it must be compiled for the instruction set of its caller")]
fn exp(x: f64) -> f64 {
    let rounded = x.max(LOWEST) * LOG2_E + ROUNDER;
    let k = rounded - ROUNDER;
    let r = (x.max(LOWEST) - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut sum = 1.0 / 6_227_020_800.0;
    for inverse in [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * r + inverse;
    }
    let power = f64::from_bits((rounded.to_bits().wrapping_add(1023)) << 52);
    if x < LOWEST { 0.0 } else { sum * power }
}

/// max_j (s_j − c_j · inverse), written to x on the way.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2+fma"))]
pub(crate) fn exponents(x: &mut [f64], s: &[f64], c: &[f64], inverse: f64) -> f64 {
    const LANES: usize = 8;
    let mut tops = [f64::NEG_INFINITY; LANES];
    let (x_blocks, x_rest) = x.as_chunks_mut::<LANES>();
    let (s_blocks, s_rest) = s.as_chunks::<LANES>();
    let (c_blocks, c_rest) = c.as_chunks::<LANES>();
    for ((x, s), c) in x_blocks.iter_mut().zip(s_blocks).zip(c_blocks) {
        for lane in 0..LANES {
            x[lane] = s[lane] - c[lane] * inverse;
            tops[lane] = if x[lane] > tops[lane] { x[lane] } else { tops[lane] };
        }
    }
    let mut top = tops.into_iter().fold(f64::NEG_INFINITY, f64::max);
    for ((x, s), c) in x_rest.iter_mut().zip(s_rest).zip(c_rest) {
        *x = s - c * inverse;
        top = top.max(*x);
    }
    top
}

/// y ← y + a x.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub(crate) fn add_scaled(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// Σ x_j y_j.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    let (y_blocks, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.into_iter().sum::<f64>() + x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum::<f64>()
}

/// min_j (x_j − y_j).
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
pub(crate) fn smallest_difference(x: &[f64], y: &[f64]) -> f64 {
    const LANES: usize = 16;
    let mut lanes = [f64::INFINITY; LANES];
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    let (y_blocks, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for lane in 0..LANES {
            let difference = x[lane] - y[lane];
            lanes[lane] = if difference < lanes[lane] { difference } else { lanes[lane] };
        }
    }
    let rest = x_rest.iter().zip(y_rest).fold(f64::INFINITY, |best, (x, y)| best.min(x - y));
    lanes.into_iter().fold(rest, f64::min)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "small integers are exact")]
mod tests {
    use super::*;

    #[test]
    fn exponentials_agree_with_std_down_to_the_tail() {
        let inputs: Vec<f64> =
            (0..200_000).map(|i| -f64::from(i) * 0.003_57).chain([-0.0, -1e-300, -1e-17]).collect();
        let mut powers = inputs.clone();
        let sum = exp_shifted(&mut powers, 0.0);
        for (x, power) in inputs.iter().zip(&powers) {
            let expected = if *x < LOWEST { 0.0 } else { x.exp() };
            assert!(
                (power - expected).abs() <= 4.0 * f64::EPSILON * expected,
                "e^{x} = {power}, not {expected}"
            );
        }
        assert!((sum - inputs.iter().map(|x| x.exp()).sum::<f64>()).abs() < 1e-9 * sum);
        let mut far = [f64::NEG_INFINITY, -1e300, 3.0];
        assert_eq!(exp_shifted(&mut far, 3.0), 1.0);
        assert_eq!(far, [0.0, 0.0, 1.0]);
    }

    #[test]
    fn reductions_agree_with_plain_loops_for_every_length() {
        for n in 0..40 {
            let x: Vec<f64> = (0..n).map(|i| f64::from(i * 7 % 11) - 3.0).collect();
            let y: Vec<f64> = (0..n).map(|i| f64::from(i * 5 % 13) - 4.0).collect();
            let differences = || x.iter().zip(&y).map(|(x, y)| x - y);
            assert_eq!(smallest_difference(&x, &y), differences().fold(f64::INFINITY, f64::min));
            let mut out = vec![f64::NAN; x.len()];
            assert_eq!(exponents(&mut out, &x, &y, 1.0), differences().fold(f64::NEG_INFINITY, f64::max));
            assert_eq!(out, differences().collect::<Vec<_>>());
            assert_eq!(dot(&x, &y), x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>());
            let mut sum = x.clone();
            add_scaled(&mut sum, 2.0, &y);
            assert_eq!(sum, x.iter().zip(&y).map(|(x, y)| x + 2.0 * y).collect::<Vec<_>>());
        }
    }
}
