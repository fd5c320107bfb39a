//! The exponential and the logarithm of one number, written so that loops over them vectorize: no branches, no tables,
//! no calls. Coefficients come from `tools/fit_kernels.py`.
//!
//! `FUSED` means that the caller's instruction set has fused multiply-add; without it, `mul_add` would be a call.

#[inline(always)]
fn fma64<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn fma32<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// e^x within 2 ulp for −708 ≤ x ≤ 709; 0 below, ∞ above, NaN for NaN. With x = k ln 2 + r and |r| ≤ ½ ln 2, it is a
/// polynomial in r, with k added to the exponent bits.
#[inline(always)]
pub(super) fn exp64<const FUSED: bool>(x: f64) -> f64 {
    const LOWEST: f64 = -708.0;
    const HIGHEST: f64 = 709.0;
    // ln 2 in two parts, the first with enough trailing zeros that its product with k is exact.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Adding 1.5 · 2⁵² rounds to an integer and leaves it in the low bits.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    let within = if x < LOWEST { LOWEST } else { x };
    let within = if within > HIGHEST { HIGHEST } else { within };
    let rounded = fma64::<FUSED>(within, std::f64::consts::LOG2_E, ROUNDER);
    let k = rounded - ROUNDER;
    let r = fma64::<FUSED>(k, -LN_2_LOW, fma64::<FUSED>(k, -LN_2_HIGH, within));
    let mut sum = 2.511_003_771_657_357_6e-8;
    sum = fma64::<FUSED>(sum, r, 2.763_263_978_288_121e-7);
    sum = fma64::<FUSED>(sum, r, 2.755_724_091_828_004_6e-6);
    sum = fma64::<FUSED>(sum, r, 2.480_148_548_193_976_4e-5);
    sum = fma64::<FUSED>(sum, r, 1.984_126_989_004_739_3e-4);
    sum = fma64::<FUSED>(sum, r, 1.388_888_895_231_513_8e-3);
    sum = fma64::<FUSED>(sum, r, 8.333_333_333_319_6e-3);
    sum = fma64::<FUSED>(sum, r, 4.166_666_666_648_809e-2);
    sum = fma64::<FUSED>(sum, r, 0.166_666_666_666_666_8);
    sum = fma64::<FUSED>(sum, r, 0.500_000_000_000_001_8);
    sum = fma64::<FUSED>(sum, r, 1.0);
    sum = fma64::<FUSED>(sum, r, 1.0);
    let power = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    let y = if x < LOWEST { 0.0 } else { sum * power };
    if x > HIGHEST { f64::INFINITY } else { y }
}

/// e^x within 2 ulp for −87 ≤ x ≤ 88; 0 below, ∞ above, NaN for NaN.
#[inline(always)]
pub(super) fn exp32<const FUSED: bool>(x: f32) -> f32 {
    const LOWEST: f32 = -87.0;
    const HIGHEST: f32 = 88.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // 1.5 · 2²³.
    const ROUNDER: f32 = 12_582_912.0;
    let within = if x < LOWEST { LOWEST } else { x };
    let within = if within > HIGHEST { HIGHEST } else { within };
    let rounded = fma32::<FUSED>(within, std::f32::consts::LOG2_E, ROUNDER);
    let k = rounded - ROUNDER;
    let r = fma32::<FUSED>(k, -LN_2_LOW, fma32::<FUSED>(k, -LN_2_HIGH, within));
    let mut sum = 1.394_110_8e-3;
    sum = fma32::<FUSED>(sum, r, 8.375_126e-3);
    sum = fma32::<FUSED>(sum, r, 4.166_635e-2);
    sum = fma32::<FUSED>(sum, r, 0.166_664_16);
    sum = fma32::<FUSED>(sum, r, 0.5);
    sum = fma32::<FUSED>(sum, r, 1.0);
    sum = fma32::<FUSED>(sum, r, 1.0);
    let power = f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    let y = if x < LOWEST { 0.0 } else { sum * power };
    if x > HIGHEST { f32::INFINITY } else { y }
}

/// ln x within 4 ulp for normal x. Agrees with std for 0, ∞ and NaN; NaN below 0; a subnormal number counts as the
/// smallest normal one. x = 2^k m with m in [√½, √2), and ln m = 2 artanh s, s = (m − 1)/(m + 1).
#[inline(always)]
pub(super) fn ln64<const FUSED: bool>(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // The bits of √½, so that k counts from there.
    const ROOT: u64 = 0x3FE6_A09E_667F_3BCD;
    const MANTISSA: u64 = (1 << 52) - 1;
    // 2⁵² + 2⁵¹, whose low bits can hold an integer.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    let within = if x < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { x };
    let offset = within.to_bits().wrapping_sub(ROOT);
    let m = f64::from_bits((offset & MANTISSA).wrapping_add(ROOT));
    // An arithmetic shift would do, but not every instruction set has one for 64-bit lanes; a bias keeps the sign.
    let biased = offset.wrapping_add(1024 << 52) >> 52;
    let k = f64::from_bits(ROUNDER.to_bits() + biased) - (ROUNDER + 1024.0);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 6.631_052_602_896_481e-2;
    sum = fma64::<FUSED>(sum, z, 6.624_381_457_222_236e-2);
    sum = fma64::<FUSED>(sum, z, 7.693_580_466_838_078e-2);
    sum = fma64::<FUSED>(sum, z, 9.090_886_868_920_983e-2);
    sum = fma64::<FUSED>(sum, z, 0.111_111_113_384_658_8);
    sum = fma64::<FUSED>(sum, z, 0.142_857_142_844_095_56);
    sum = fma64::<FUSED>(sum, z, 0.200_000_000_000_037_47);
    sum = fma64::<FUSED>(sum, z, 0.333_333_333_333_333_3);
    let tail = 2.0 * s * z * sum;
    let y = fma64::<FUSED>(k, LN_2_HIGH, fma64::<FUSED>(k, LN_2_LOW, fma64::<FUSED>(2.0, s, tail)));
    special64(x, y)
}

#[inline(always)]
fn special64(x: f64, y: f64) -> f64 {
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x == f64::INFINITY { f64::INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}
