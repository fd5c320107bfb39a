//! The loops. Sums use a fixed number of lanes, so that the source code alone sets the order of additions, whatever the
//! number of threads.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use super::scalar::{exp32, exp64, ln64};

/// The functions that exist in both precisions.
macro_rules! precision {
    ($name:ident, $real:ty, $exp:ident, $lanes:literal) => {
        pub(super) mod $name {
            use super::*;

            const LANES: usize = $lanes;
            /// Number of terms per partial sum, before it is added in `f64`: a multiple of the lanes that fits in L1.
            const CHUNK: usize = 512;

            #[multiversion(targets("x86_64+avx512f+avx512dq+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn exponents(
                x: &mut [$real],
                s: &[$real],
                c: &[$real],
                inverse: $real,
            ) -> $real {
                let mut tops = [<$real>::NEG_INFINITY; LANES];
                let (x_blocks, x_rest) = x.as_chunks_mut::<LANES>();
                let (s_blocks, s_rest) = s.as_chunks::<LANES>();
                let (c_blocks, c_rest) = c.as_chunks::<LANES>();
                for ((x, s), c) in x_blocks.iter_mut().zip(s_blocks).zip(c_blocks) {
                    for lane in 0..LANES {
                        x[lane] = s[lane] - c[lane] * inverse;
                        tops[lane] = if x[lane] > tops[lane] { x[lane] } else { tops[lane] };
                    }
                }
                let mut top = tops.into_iter().fold(<$real>::NEG_INFINITY, <$real>::max);
                for ((x, s), c) in x_rest.iter_mut().zip(s_rest).zip(c_rest) {
                    *x = s - c * inverse;
                    top = top.max(*x);
                }
                top
            }

            #[multiversion(targets("x86_64+avx512f+avx512dq+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn exp_shifted(x: &mut [$real], shift: $real) -> f64 {
                const FUSED: bool = target_cfg_f!(target_feature = "fma");
                let mut sum = 0.0;
                for chunk in x.chunks_mut(CHUNK) {
                    for x in chunk.iter_mut() {
                        *x = $exp::<FUSED>(*x - shift);
                    }
                    sum += lane_sum(chunk);
                }
                sum
            }

            #[multiversion(targets("x86_64+avx512f+avx512dq+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn exp_exponents(
                x: &mut [$real],
                s: &[$real],
                c: &[$real],
                inverse: $real,
                shift: $real,
            ) -> f64 {
                const FUSED: bool = target_cfg_f!(target_feature = "fma");
                let mut sum = 0.0;
                for ((x, s), c) in x.chunks_mut(CHUNK).zip(s.chunks(CHUNK)).zip(c.chunks(CHUNK)) {
                    for ((x, s), c) in x.iter_mut().zip(s).zip(c) {
                        *x = $exp::<FUSED>(s - c * inverse - shift);
                    }
                    sum += lane_sum(x);
                }
                sum
            }

            #[multiversion(targets("x86_64+avx512f+avx512dq+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn softmax_columns(
                shares: &mut [$real],
                logs: &mut [$real],
                c: &[$real],
                g: &[$real],
                inverse: $real,
                top: &mut [$real],
                sum: &mut [$real],
            ) {
                const FUSED: bool = target_cfg_f!(target_feature = "fma");
                let width = top.len();
                top.fill(<$real>::NEG_INFINITY);
                for ((logs, c), g) in logs.chunks_exact_mut(width).zip(c.chunks_exact(width)).zip(g) {
                    for ((x, c), top) in logs.iter_mut().zip(c).zip(top.iter_mut()) {
                        *x = g - c * inverse;
                        *top = if *x > *top { *x } else { *top };
                    }
                }
                sum.fill(0.0);
                for (shares, logs) in shares.chunks_exact_mut(width).zip(logs.chunks_exact_mut(width)) {
                    for (((e, x), top), sum) in shares.iter_mut().zip(logs).zip(&*top).zip(sum.iter_mut()) {
                        *x -= top;
                        *e = $exp::<FUSED>(*x);
                        *sum += *e;
                    }
                }
                for (top, sum) in top.iter_mut().zip(sum.iter_mut()) {
                    *top = sum.ln();
                    *sum = 1.0 / *sum;
                }
                for (shares, logs) in shares.chunks_exact_mut(width).zip(logs.chunks_exact_mut(width)) {
                    for (((e, x), log), inverse) in shares.iter_mut().zip(logs).zip(&*top).zip(&*sum) {
                        *e *= inverse;
                        *x -= log;
                    }
                }
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn multiply(y: &mut [$real], x: &[$real]) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y *= x);
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn complete_costs(c: &mut [$real], alpha: $real, beta: &[$real]) {
                c.iter_mut().zip(beta).for_each(|(c, beta)| *c = alpha + beta - 2.0 * *c);
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn extremes(x: &[$real]) -> (f64, f64) {
                let (mut lows, mut highs) = ([<$real>::INFINITY; LANES], [<$real>::NEG_INFINITY; LANES]);
                // x − x is 0 for finite numbers and NaN otherwise.
                let mut odd = [0.0; LANES];
                let (blocks, rest) = x.as_chunks::<LANES>();
                for block in blocks {
                    for lane in 0..LANES {
                        let x = block[lane];
                        lows[lane] = if x < lows[lane] { x } else { lows[lane] };
                        highs[lane] = if x > highs[lane] { x } else { highs[lane] };
                        odd[lane] += x - x;
                    }
                }
                let mut extremes = (<$real>::INFINITY, <$real>::NEG_INFINITY);
                for x in lows.into_iter().chain(highs).chain(rest.iter().copied()).filter(|x| x.is_finite()) {
                    extremes = (extremes.0.min(x), extremes.1.max(x));
                }
                let odd = odd.into_iter().sum::<$real>() + rest.iter().map(|x| x - x).sum::<$real>();
                (f64::from(extremes.0 + odd), f64::from(extremes.1 + odd))
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn hold_single(y: &mut [f32], x: &[$real], scale: $real) {
                for (y, x) in y.iter_mut().zip(x) {
                    let scaled = x * scale;
                    *y = if scaled < f32::MIN_POSITIVE as $real { 0.0 } else { scaled as f32 };
                }
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn hold_double(y: &mut [f64], x: &[$real], scale: f64) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = f64::from(*x) * scale);
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn dot(x: &[$real], y: &[$real]) -> f64 {
                const FUSED: bool = target_cfg_f!(target_feature = "fma");
                // Enough lanes to hide the latency of additions.
                const WIDE: usize = 4 * LANES;
                let mut sum = 0.0;
                for (x, y) in x.chunks(8 * CHUNK).zip(y.chunks(8 * CHUNK)) {
                    let mut sums = [0.0; WIDE];
                    let (x_blocks, x_rest) = x.as_chunks::<WIDE>();
                    let (y_blocks, y_rest) = y.as_chunks::<WIDE>();
                    for (x, y) in x_blocks.iter().zip(y_blocks) {
                        for lane in 0..WIDE {
                            let (x, y) = (x[lane], y[lane]);
                            sums[lane] = if FUSED { x.mul_add(y, sums[lane]) } else { x * y + sums[lane] };
                        }
                    }
                    for lane in 0..LANES {
                        sums[lane] = (sums[lane] + sums[lane + LANES])
                            + (sums[lane + 2 * LANES] + sums[lane + 3 * LANES]);
                    }
                    let rest = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum::<$real>();
                    sum += f64::from(sums[..LANES].iter().sum::<$real>() + rest);
                }
                sum
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn total(x: &[$real]) -> f64 {
                let mut sum = 0.0;
                for chunk in x.chunks(CHUNK) {
                    sum += lane_sum(chunk);
                }
                sum
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn add_constant(y: &mut [$real], a: $real) {
                y.iter_mut().for_each(|y| *y += a);
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn add_own(y: &mut [$real], a: $real, x: &[$real]) {
                const FUSED: bool = target_cfg_f!(target_feature = "fma");
                y.iter_mut()
                    .zip(x)
                    .for_each(|(y, x)| *y = if FUSED { a.mul_add(*x, *y) } else { a * x + *y });
            }

            #[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn add_scaled(y: &mut [f64], a: f64, x: &[$real]) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y += a * f64::from(*x));
            }

            #[multiversion(targets("x86_64+avx512f+avx512dq+fma", "x86_64+avx2+fma"))]
            pub(in super::super) fn entropy(x: &[$real]) -> f64 {
                const FUSED: bool = target_cfg_f!(target_feature = "fma");
                let mut sum = 0.0;
                let mut terms = [0.0; CHUNK];
                for chunk in x.chunks(CHUNK) {
                    for (term, x) in terms.iter_mut().zip(chunk) {
                        let x = f64::from(*x);
                        *term = if x == 0.0 { 0.0 } else { x * ln64::<FUSED>(x) };
                    }
                    let mut sums = [0.0; 8];
                    let (blocks, rest) = terms[..chunk.len()].as_chunks::<8>();
                    for block in blocks {
                        for lane in 0..8 {
                            sums[lane] += block[lane];
                        }
                    }
                    sum += sums.into_iter().sum::<f64>() + rest.iter().sum::<f64>();
                }
                sum
            }

            /// Σ x_j, lane by lane.
            #[inline(always)]
            fn lane_sum(x: &[$real]) -> f64 {
                let mut sums = [0.0; LANES];
                let (blocks, rest) = x.as_chunks::<LANES>();
                for block in blocks {
                    for lane in 0..LANES {
                        sums[lane] += block[lane];
                    }
                }
                f64::from(sums.into_iter().sum::<$real>() + rest.iter().sum::<$real>())
            }
        }
    };
}

precision!(double, f64, exp64, 8);
precision!(single, f32, exp32, 16);

/// min_j (x_j − y_j).
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
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

/// y_j ← min(y_j, x_j − c).
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
pub(crate) fn lower_to_differences(y: &mut [f64], x: &[f64], c: f64) {
    for (y, x) in y.iter_mut().zip(x) {
        let difference = x - c;
        *y = if difference < *y { difference } else { *y };
    }
}

/// y_j ← min(y_j, x_j − c), with `place` recorded where the minimum changes. Places are `f64` like y, so that both use
/// registers of the same width.
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
pub(crate) fn lower_with_places(y: &mut [f64], places: &mut [f64], x: &[f64], c: f64, place: f64) {
    for ((y, at), x) in y.iter_mut().zip(places).zip(x) {
        let difference = x - c;
        let less = difference < *y;
        *y = if less { difference } else { *y };
        *at = if less { place } else { *at };
    }
}

/// The length of the blocks of [`block_minima`].
pub(crate) const MINIMA_BLOCK: usize = 32;

/// For every block of 32 numbers, min_j (x_j − y_j) and min_j (x_j − y_j − t_j).
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
pub(crate) fn block_minima(x: &[f64], y: &[f64], t: &[f64], out: &mut [(f64, f64)]) {
    const LANES: usize = 8;
    let blocks = x.chunks(MINIMA_BLOCK).zip(y.chunks(MINIMA_BLOCK)).zip(t.chunks(MINIMA_BLOCK));
    for (((x, y), t), out) in blocks.zip(out) {
        let (mut least, mut beyond) = ([f64::INFINITY; LANES], [f64::INFINITY; LANES]);
        let (x_blocks, x_rest) = x.as_chunks::<LANES>();
        let (y_blocks, y_rest) = y.as_chunks::<LANES>();
        let (t_blocks, t_rest) = t.as_chunks::<LANES>();
        for ((x, y), t) in x_blocks.iter().zip(y_blocks).zip(t_blocks) {
            for lane in 0..LANES {
                let difference = x[lane] - y[lane];
                let further = difference - t[lane];
                least[lane] = if difference < least[lane] { difference } else { least[lane] };
                beyond[lane] = if further < beyond[lane] { further } else { beyond[lane] };
            }
        }
        *out = (
            least.into_iter().fold(f64::INFINITY, f64::min),
            beyond.into_iter().fold(f64::INFINITY, f64::min),
        );
        for ((x, y), t) in x_rest.iter().zip(y_rest).zip(t_rest) {
            *out = (out.0.min(x - y), out.1.min(x - y - t));
        }
    }
}

/// Puts x_j − y_j − c into (first_j, second_j), the two smallest so far.
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
pub(crate) fn two_smallest_differences(first: &mut [f64], second: &mut [f64], x: &[f64], y: &[f64], c: f64) {
    for (((first, second), x), y) in first.iter_mut().zip(second).zip(x).zip(y) {
        let difference = x - y - c;
        let larger = if difference > *first { difference } else { *first };
        *second = if larger < *second { larger } else { *second };
        *first = if difference < *first { difference } else { *first };
    }
}

/// x_j ← c · y_j · x_j + d · t_j.
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
pub(crate) fn scale_and_add(x: &mut [f64], (c, y): (f64, &[f64]), (d, t): (f64, &[f64])) {
    x.iter_mut().zip(y).zip(t).for_each(|((x, y), t)| *x = c * y * *x + d * t);
}
