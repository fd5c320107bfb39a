//! $\min_{\theta \in [0,1]} h(V + \theta D) + \theta s$, from the root of its derivative.

use ndarray::Array2;

use super::model::Model;
use crate::error::{Error, Result};
use crate::linalg::inner;
use crate::metric::WorstCase;

/// The number of evaluations after which the bracket cannot shrink further; every second one at least halves it.
const MAX_EVALUATIONS: usize = 100;

/// The step θ at which the slope has fallen to `accuracy` times its initial value, and the worst case there. `worst` is
/// the worst case at θ = 0, `extra` the slope of the linear part.
///
/// The function is convex, so its slope increases with θ. A point where h is not representable is treated as too far.
pub(super) fn line_search(
    model: &Model,
    (moment, worst): (&Array2<f64>, WorstCase),
    direction: &Array2<f64>,
    extra: f64,
    accuracy: f64,
) -> Result<(f64, WorstCase)> {
    let slope_of = |worst: &WorstCase| inner(&worst.metric, direction) + extra;
    let evaluate = |theta: f64| match model.evaluate(&(moment + &(direction * theta))) {
        Ok(worst) => Ok(Some(worst)),
        Err(Error::Overflow { .. } | Error::Range { .. }) => Ok(None),
        Err(other) => Err(other),
    };
    let start = slope_of(&worst);
    if start >= 0.0 {
        return Ok((0.0, worst));
    }
    let enough = accuracy * start.abs();
    let end = match evaluate(1.0)? {
        Some(worst) if slope_of(&worst) <= enough => return Ok((1.0, worst)),
        worst => worst.map_or(f64::INFINITY, |worst| slope_of(&worst)),
    };
    let (mut low, mut at_low, mut high, mut at_high) = (0.0, start, 1.0, end);
    let mut worst_at_low = worst;
    for evaluation in 0..MAX_EVALUATIONS {
        // Secant and bisection steps alternate: fast near the root, and at least half as fast as bisection.
        let secant =
            if at_high.is_finite() && evaluation % 2 == 0 { at_low / (at_low - at_high) } else { 0.5 };
        let theta = low + (high - low) * secant.clamp(0.01, 0.99);
        let Some(worst) = evaluate(theta)? else {
            (high, at_high) = (theta, f64::INFINITY);
            continue;
        };
        let at = slope_of(&worst);
        if at.abs() <= enough || high - low <= f64::EPSILON {
            return Ok((theta, worst));
        }
        if at < 0.0 {
            (low, at_low, worst_at_low) = (theta, at, worst);
        } else {
            (high, at_high) = (theta, at);
        }
    }
    Ok((low, worst_at_low))
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::metric::MetricSet;

    #[test]
    fn the_slope_at_the_step_is_zero_however_steep_the_power() {
        for k in [1, 2, 8, 50] {
            let set = MetricSet::P { k };
            let model = Model::new(&set, true, &array![[1.0, 0.0], [0.0, 1.0]]);
            // From diag(1, 0.1) toward diag(0, 1): the norm is smallest where both entries are equal.
            let (from, direction) = (array![[1.0, 0.0], [0.0, 0.1]], array![[-1.0, 0.0], [0.0, 0.9]]);
            let start = set.evaluate(&from).unwrap();
            let (theta, at) = line_search(&model, (&from, start), &direction, 0.0, 1e-9).unwrap();
            assert!(inner(&at.metric, &direction).abs() <= 1e-8, "k = {k}: θ = {theta}");
            let again = set.worst_case(&(&from + &(&direction * theta))).unwrap();
            assert_eq!(at.metric, again.metric);
        }
    }
}
