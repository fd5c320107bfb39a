//! The theorems of the metric sets.

use approx::assert_abs_diff_eq;
use ndarray::{Array2, array};
use proptest::prelude::*;

use super::*;
use crate::testing::metric as random_psd;

/// One of every set, with every kind of prior.
fn sets(size: usize, seed: u64) -> Vec<MetricSet> {
    let prior = Prior::Matrix(random_psd(size, seed + 7).mapv(f64::abs) + Array2::<f64>::eye(size) * 5.0);
    vec![
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::P { k: 3 },
        MetricSet::PPower { k: 2 },
        MetricSet::Kl { lambda: 0.7, prior: Prior::Eye },
        MetricSet::Kl { lambda: 1.3, prior: Prior::Ones },
        MetricSet::Kl { lambda: 2.0, prior: prior.clone() },
        MetricSet::Ds { lambda: 0.5, prior: Prior::Ones },
        MetricSet::Ds { lambda: 1.0, prior },
        MetricSet::Features { lambda: 0.4 },
        MetricSet::Srw { k: 1 + seed as usize % size },
        MetricSet::Rkp { rho: 4.0 / 3.0 },
        MetricSet::Rkp { rho: 4.0 },
        MetricSet::Rkp { rho: f64::INFINITY },
    ]
}

fn penalty(set: &MetricSet, metric: &Array2<f64>) -> f64 {
    let kl = |lambda: f64, prior: &Prior| -> f64 {
        lambda
            * metric
                .indexed_iter()
                .map(|((a, b), &m)| {
                    let m0 = prior.entry(a, b);
                    let log = if m == 0.0 { 0.0 } else { m * (m / m0).ln() };
                    log - m + m0
                })
                .sum::<f64>()
    };
    match set {
        MetricSet::PPower { k } => {
            let two_k = f64::from(2 * k);
            let p = two_k / (two_k - 1.0);
            (two_k - 1.0) * metric.iter().map(|m| (m.abs() / two_k).powf(p)).sum::<f64>()
        }
        MetricSet::Kl { lambda, prior } | MetricSet::Ds { lambda, prior } => kl(*lambda, prior),
        // KL(M, I) over diagonal metrics of trace one.
        MetricSet::Features { lambda } => {
            lambda * metric.diag().iter().map(|m| m * m.max(1e-300).ln() - m + 1.0).sum::<f64>()
        }
        _ => 0.0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_value_is_attained_at_the_metric(size in 1usize..7, seed in 0u64..10_000) {
        let moment = random_psd(size, seed);
        for set in sets(size, seed) {
            let worst = set.worst_case(&moment).unwrap();
            let attained = inner(&moment, &worst.metric) - penalty(&set, &worst.metric);
            assert_abs_diff_eq!(worst.value, attained, epsilon = 1e-9 * (1.0 + attained.abs()));
        }
    }

    #[test]
    fn the_metric_is_positive_semi_definite_without_projection(size in 1usize..7, seed in 0u64..10_000) {
        let moment = random_psd(size, seed);
        for set in sets(size, seed) {
            let metric = set.worst_case(&moment).unwrap().metric;
            let eigen = Eigen::new(&metric).unwrap();
            prop_assert!(eigen.values[0] >= -1e-10 * eigen.values[size - 1].max(1e-10), "{set}: {:?}", eigen.values);
            prop_assert!(metric.indexed_iter().all(|((a, b), m)| (m - metric[[b, a]]).abs() <= 1e-12 * (1.0 + m.abs())));
        }
    }

    #[test]
    fn the_metric_is_the_gradient(size in 1usize..6, seed in 0u64..10_000) {
        let (moment, direction) = (random_psd(size, seed), random_psd(size, seed + 1));
        for set in sets(size, seed) {
            let worst = set.worst_case(&moment).unwrap();
            let at = |step: f64| set.worst_case(&(&moment + &(&direction * step))).unwrap();
            let slope = (at(1e-6).value - at(-1e-6).value) / 2e-6;
            let expected = inner(&worst.metric, &direction);
            prop_assert!((slope - expected).abs() <= 1e-4 * (1.0 + expected.abs()), "{set}: {slope} {expected}");
        }
    }

    #[test]
    fn the_curvature_is_the_derivative_of_the_metric(size in 1usize..6, seed in 0u64..10_000) {
        // Away from singular matrices, where differences of the Schatten norms lose their digits.
        let moment = random_psd(size, seed) + Array2::<f64>::eye(size) * 0.1;
        let directions: Vec<_> = (1..4).map(|other| random_psd(size, seed + other)).collect();
        for set in sets(size, seed).into_iter().filter(|set| set.fantope().is_none()) {
            let worst = set.worst_case(&moment).unwrap();
            let gram = set.curvature(&moment, &worst).gram(&directions);
            let turns = Array2::from_shape_fn(gram.dim(), |(i, j)| {
                let at = |step: f64| set.worst_case(&(&moment + &(&directions[j] * step))).unwrap().metric;
                inner(&directions[i], &((at(1e-6) - at(-1e-6)) / 2e-6))
            });
            let size = gram.iter().fold(1.0_f64, |top, x| top.max(x.abs()));
            assert_abs_diff_eq!(turns / size, gram / size, epsilon = 1e-3);
        }
    }

    #[test]
    fn no_other_metric_of_the_set_does_better(size in 1usize..6, seed in 0u64..10_000) {
        // M* of another moment is a member too.
        let (moment, other) = (random_psd(size, seed), random_psd(size, seed + 1));
        for set in sets(size, seed) {
            let worst = set.worst_case(&moment).unwrap();
            let rival = set.worst_case(&other).unwrap();
            let value = inner(&moment, &rival.metric) - set.penalty(&other, &rival);
            prop_assert!(value <= worst.value + 1e-9 * (1.0 + worst.value.abs()), "{set}: {value} > {}", worst.value);
        }
    }

    #[test]
    fn the_named_coincidences_hold(size in 1usize..7, seed in 0u64..10_000) {
        let moment = random_psd(size, seed);
        let same = |left: MetricSet, right: MetricSet| {
            let (left, right) = (left.worst_case(&moment).unwrap(), right.worst_case(&moment).unwrap());
            assert_abs_diff_eq!(left.value, right.value, epsilon = 1e-10 * (1.0 + left.value));
            assert_abs_diff_eq!(left.metric, right.metric, epsilon = 1e-8);
        };
        same(MetricSet::Rkp { rho: 1.0 }, MetricSet::W2);
        same(MetricSet::Rkp { rho: 2.0 }, MetricSet::P { k: 1 });
        same(MetricSet::Rkp { rho: f64::INFINITY }, MetricSet::Srw { k: 1 });
        same(MetricSet::Srw { k: size }, MetricSet::W2);
        same(MetricSet::Ds { lambda: 1.0, prior: Prior::Eye }, MetricSet::W2);
    }

    #[test]
    fn doubly_stochastic_rows_sum_to_one(size in 1usize..7, seed in 0u64..10_000, scale in -3.0..3.0f64) {
        let moment = random_psd(size, seed) * 10f64.powf(scale);
        let metric = MetricSet::Ds { lambda: 0.5, prior: Prior::Ones }.worst_case(&moment).unwrap().metric;
        prop_assert!(metric.rows().into_iter().all(|row| (row.sum() - 1.0).abs() < 1e-9));
    }
}

#[test]
fn nothing_breaks_at_zero_or_at_extreme_scales() {
    let moment = array![[2.0, 1.0], [1.0, 3.0]];
    for set in sets(2, 1) {
        let zero = set.worst_case(&Array2::zeros((2, 2))).unwrap();
        assert!(zero.value.is_finite() && zero.metric.iter().all(|m| m.is_finite()), "{set}");
    }
    for k in [1, 2, 50] {
        let large = MetricSet::P { k }.worst_case(&(&moment * 1e290)).unwrap();
        let small = MetricSet::P { k }.worst_case(&(&moment * 1e-290)).unwrap();
        assert_abs_diff_eq!(large.metric, small.metric, epsilon = 1e-12);
        assert_abs_diff_eq!(large.value / 1e290, small.value / 1e-290, epsilon = 1e-12);
    }
}

#[test]
fn what_is_not_representable_is_refused() {
    let moment = array![[1000.0, 0.0], [0.0, 1.0]];
    let kl = MetricSet::Kl { lambda: 1.0, prior: Prior::Eye };
    assert!(matches!(kl.worst_case(&moment), Err(Error::Overflow { .. })));
    let power = MetricSet::PPower { k: 200 };
    assert!(matches!(power.worst_case(&moment), Err(Error::Range { set: "p-power", .. })));
}

#[test]
fn each_parameter_out_of_range_is_refused() {
    for set in [
        MetricSet::P { k: 0 },
        MetricSet::PPower { k: 0 },
        MetricSet::P { k: u32::MAX },
        MetricSet::Kl { lambda: 0.0, prior: Prior::Eye },
        MetricSet::Ds { lambda: -1.0, prior: Prior::Ones },
        MetricSet::Features { lambda: f64::NAN },
        MetricSet::Srw { k: 0 },
        MetricSet::Srw { k: 4 },
        MetricSet::Rkp { rho: 0.5 },
        MetricSet::Rkp { rho: f64::NAN },
    ] {
        assert!(matches!(set.check(3), Err(Error::Parameter { .. })), "{set}");
    }
}

#[test]
fn row_sums_off_by_rounding_are_charged_by_each_scaling_and_not_by_their_sum() {
    // The scalings of the two features are u = ±3.45: their sum is zero.
    let prior = Prior::Matrix(array![[1e-3, 0.0], [0.0, 1e3]]);
    let set = MetricSet::Ds { lambda: 1.0, prior };
    let moment = array![[1e-3, 0.0], [0.0, 1e-3]];
    let worst = set.evaluate(&moment).unwrap();
    // Row sums that change by ±t change the penalty by this slope.
    let along = |t: f64| penalty(&set, &(&worst.metric + &array![[t, 0.0], [0.0, -t]]));
    let slope = ((along(1e-5) - along(-1e-5)) / 2e-5).abs();
    assert!(slope > 13.0, "{slope}");
    assert!(set.rounding(&moment, &worst) >= scaling::ROW_SUM_LIMIT * slope);
}
