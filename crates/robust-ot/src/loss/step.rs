//! The Frank-Wolfe step of one row: choosing its length, and taking it.

use crate::error::Result;
use crate::kernels::Real;

/// Bisections of the interval in which the step is searched.
const HALVINGS: usize = 40;

/// The slope in θ of Σ_pq h_p s_pq ln s_pq at s = (1 − θ) s₀ + θ s₁.
pub(super) fn entropy_slope<T: Real>(prediction: &[T], from: &[T], to: &[T], theta: f64) -> f64 {
    let width = prediction.len();
    let mut sum = 0.0;
    for (from, to) in from.chunks_exact(width).zip(to.chunks_exact(width)) {
        for ((h, s), t) in prediction.iter().zip(from).zip(to) {
            let (s, t): (f64, f64) = ((*s).into(), (*t).into());
            let share = (1.0 - theta) * s + theta * t;
            if share > 0.0 {
                sum += Into::<f64>::into(*h) * (t - s) * share.ln();
            }
        }
    }
    sum
}

/// The point at which the slope of a convex function on [0, 1] changes sign, or an endpoint if it does not.
pub(super) fn search(mut slope: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    if slope(1.0)? <= 0.0 {
        return Ok(1.0);
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if slope(middle)? > 0.0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(low)
}

/// s ← (1 − θ) s + θ t, and ln s likewise, exact where s underflows.
pub(super) fn mix<T: Real>((shares, logs): (&mut [T], &mut [T]), (to, to_logs): (&[T], &[T]), theta: f64) {
    if theta <= 0.0 {
        return;
    }
    if theta >= 1.0 {
        shares.copy_from_slice(to);
        logs.copy_from_slice(to_logs);
        return;
    }
    for (((s, log), t), to_log) in shares.iter_mut().zip(logs).zip(to).zip(to_logs) {
        let mixed = (1.0 - theta) * Into::<f64>::into(*s) + theta * Into::<f64>::into(*t);
        let parts = (Into::<f64>::into(*log) + (-theta).ln_1p(), Into::<f64>::into(*to_log) + theta.ln());
        let (more, less) = if parts.0 >= parts.1 { parts } else { (parts.1, parts.0) };
        *s = T::nearest(mixed);
        *log = T::nearest(more + (less - more).exp().ln_1p());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_where_the_slope_vanishes_or_an_end() {
        for wanted in [-0.5, 0.0, 0.3, 0.77, 1.0, 2.0] {
            let found = search(|x| Ok(x - wanted)).unwrap();
            assert!((found - f64::clamp(wanted, 0.0, 1.0)).abs() < 1e-11, "{wanted}: {found}");
        }
    }

    #[test]
    fn mixing_keeps_logarithms_where_shares_underflow() {
        let (mut shares, mut logs) = (vec![0.0_f64, 0.25], vec![-1000.0, 0.25_f64.ln()]);
        mix((&mut shares, &mut logs), (&[0.0, 0.75], &[-1002.0, 0.75_f64.ln()]), 0.5);
        assert!((shares[1] - 0.5).abs() < 1e-15 && (logs[1] - 0.5_f64.ln()).abs() < 1e-15);
        assert!((logs[0] - (-1000.0 + (0.5 + 0.5 * (-2.0_f64).exp()).ln())).abs() < 1e-12);
    }
}
