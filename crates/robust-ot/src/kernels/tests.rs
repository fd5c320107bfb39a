use proptest::prelude::*;

use super::real::sealed::Kernels;
use super::scalar::{exp32, exp64, ln64};
use super::{lower_to_differences, lower_with_places, smallest_difference};

fn exp_of<T: Kernels + Copy>(x: T, zero: T) -> T {
    // Long enough for the vector loop; all entries must agree.
    let mut powers = [x; 19];
    T::exp_shifted(&mut powers, zero);
    powers[0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    // The loops use the best instruction set of this machine; here both kinds of arithmetic are tested, number by number.
    #[test]
    fn fused_and_plain_arithmetic_both_agree_with_std(x in -708.0_f64..709.0, y in 1e-300_f64..1e300) {
        for power in [exp64::<true>(x), exp64::<false>(x)] {
            prop_assert!((power - x.exp()).abs() <= 2.0 * f64::EPSILON * x.exp(), "e^{} = {}", x, power);
        }
        let near = x.clamp(-87.0, 88.0) as f32;
        for power in [exp32::<true>(near), exp32::<false>(near)] {
            let expected = f64::from(near).exp();
            prop_assert!((f64::from(power) - expected).abs() <= 2.0 * f64::from(f32::EPSILON) * expected);
        }
        for log in [ln64::<true>(y), ln64::<false>(y)] {
            prop_assert!((log - y.ln()).abs() <= 4.0 * f64::EPSILON * y.ln().abs() + 1e-16, "ln {} = {}", y, log);
        }
    }

    #[test]
    fn exponentials_of_any_double_agree_with_std(bits: u64) {
        let x = f64::from_bits(bits);
        let (power, expected) = (exp_of(x, 0.0), x.exp());
        if x.is_nan() {
            prop_assert!(power.is_nan());
        } else if x < -708.0 {
            prop_assert_eq!(power, 0.0);
        } else if x > 709.0 {
            prop_assert_eq!(power, f64::INFINITY);
        } else {
            prop_assert!((power - expected).abs() <= 2.0 * f64::EPSILON * expected, "e^{} = {}", x, power);
        }
    }

    #[test]
    fn exponentials_agree_with_std_where_they_matter(x in -710.0_f64..711.0) {
        let expected = if x < -708.0 { 0.0 } else if x > 709.0 { f64::INFINITY } else { x.exp() };
        let power = exp_of(x, 0.0);
        prop_assert!(power == expected || (power - expected).abs() <= 2.0 * f64::EPSILON * expected, "e^{} = {}", x, power);
    }

    #[test]
    fn single_exponentials_agree_with_std(bits: u32, near in -89.0_f32..90.0) {
        for x in [f32::from_bits(bits), near] {
            let power = exp_of(x, 0.0);
            let expected = f64::from(x).exp();
            if x.is_nan() {
                prop_assert!(power.is_nan());
            } else if x < -87.0 {
                prop_assert_eq!(power, 0.0);
            } else if x > 88.0 {
                prop_assert_eq!(power, f32::INFINITY);
            } else {
                let error = (f64::from(power) - expected).abs();
                prop_assert!(error <= 2.0 * f64::from(f32::EPSILON) * expected, "e^{} = {}", x, power);
            }
        }
    }

    #[test]
    fn entropies_agree_with_std(bits: u64, near in 0.0_f64..4.0) {
        for x in [f64::from_bits(bits & (u64::MAX >> 1)), near] {
            let entropy = f64::entropy(&[x; 9]) / 9.0;
            if !x.is_finite() {
                prop_assert!(entropy.is_nan() == x.is_nan());
            } else if x < 1e300 {
                let expected = if x < f64::MIN_POSITIVE { 0.0 } else { x * x.ln() };
                let size = 4.0 * f64::EPSILON * expected.abs() + 1e-16 * x + 1e-300;
                prop_assert!((entropy - expected).abs() <= size, "{} ln {} = {}", x, x, entropy);
            }
        }
    }
}

#[test]
fn special_values_come_out_as_they_should() {
    for (x, expected) in [(f64::NEG_INFINITY, 0.0), (f64::INFINITY, f64::INFINITY), (0.0, 1.0), (-0.0, 1.0)] {
        assert_eq!(exp_of(x, 0.0).to_bits(), expected.to_bits());
    }
    assert_eq!(f64::entropy(&[0.0, 1.0, 0.0]), 0.0);
    assert!(f64::entropy(&[0.5, f64::NAN]).is_nan());
    assert_eq!(f64::extremes(&[2.0, -1.0, 5.0]), (-1.0, 5.0));
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!((0..20).all(|place| {
            let mut numbers = [1.0; 20];
            numbers[place] = odd;
            f64::extremes(&numbers).0.is_nan()
        }));
    }
    let mut far = [f64::NEG_INFINITY, -1e300, 3.0];
    assert_eq!(f64::exp_shifted(&mut far, 3.0), 1.0);
    assert_eq!(far, [0.0, 0.0, 1.0]);
}

#[test]
fn reductions_agree_with_plain_loops_for_every_length() {
    for n in 0..80 {
        let x: Vec<f64> = (0..n).map(|i| f64::from(i * 7 % 11) - 3.0).collect();
        let y: Vec<f64> = (0..n).map(|i| f64::from(i * 5 % 13) - 4.0).collect();
        let (x32, y32): (Vec<_>, Vec<_>) = x.iter().zip(&y).map(|(&x, &y)| (x as f32, y as f32)).unzip();
        let differences = || x.iter().zip(&y).map(|(x, y)| x - y);
        let top = differences().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(smallest_difference(&x, &y), differences().fold(f64::INFINITY, f64::min));
        let mut lowered = y.clone();
        lower_to_differences(&mut lowered, &x, 1.5);
        assert_eq!(lowered, x.iter().zip(&y).map(|(x, y)| y.min(x - 1.5)).collect::<Vec<_>>());
        let (mut least, mut places) = (y.clone(), vec![7.0; y.len()]);
        lower_with_places(&mut least, &mut places, &x, 1.5, 3.0);
        assert_eq!(least, lowered);
        let expected = x.iter().zip(&y).map(|(x, y)| if x - 1.5 < *y { 3.0 } else { 7.0 });
        assert_eq!(places, expected.collect::<Vec<_>>());
        let (mut out, mut out32) = (vec![f64::NAN; x.len()], vec![f32::NAN; x.len()]);
        assert_eq!(f64::exponents(&mut out, &x, &y, 1.0), top);
        assert_eq!(f64::from(f32::exponents(&mut out32, &x32, &y32, 1.0)), top);
        assert_eq!(out, differences().collect::<Vec<_>>());
        let mut powers = vec![f64::NAN; x.len()];
        let sum = f64::exp_exponents(&mut powers, &x, &y, 1.0, 2.0);
        let apart = f64::exp_shifted(&mut out.clone(), 2.0);
        assert!(
            (sum - apart).abs() <= 1e-14 * sum
                && powers.iter().zip(&out).all(|(e, x)| (e.ln() - (x - 2.0)).abs() < 1e-13)
        );
        assert!(out.iter().zip(&out32).all(|(x, y)| *x == f64::from(*y)));
        let dot = x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>();
        assert_eq!((f64::dot(&x, &y), f32::dot(&x32, &y32)), (dot, dot));
        let expected: Vec<_> = x.iter().zip(&y).map(|(x, y)| x + 2.0 * y).collect();
        let (mut sum, mut sum32) = (x.clone(), x.clone());
        f64::add_scaled(&mut sum, 2.0, &y);
        f32::add_scaled(&mut sum32, 2.0, &y32);
        assert_eq!((&sum, &sum32), (&expected, &expected));
        let (mut own, mut own32) = (x.clone(), x32.clone());
        f64::add_own(&mut own, 2.0, &y);
        f32::add_own(&mut own32, 2.0, &y32);
        assert_eq!(own, expected);
        assert!(own32.iter().zip(&expected).all(|(x, y)| f64::from(*x) == *y));
        let mut costs = x.clone();
        f64::complete_costs(&mut costs, 3.0, &y);
        assert_eq!(costs, x.iter().zip(&y).map(|(x, y)| 3.0 + y - 2.0 * x).collect::<Vec<_>>());
    }
}
