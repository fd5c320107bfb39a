//! Barycenters: closed forms, stationarity, descent, and the same answer for any number of threads.

mod common;

use common::{measure, normal};
use ndarray::{Array1, Array2, Axis, array};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use robust_ot::barycenter::{Barycenter, BarycenterSettings, Barycenters};
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Grouping, Measure, MetricSet, Settings, Status};

fn clouds(count: usize, n: usize, d: usize, seed: u64) -> Vec<Measure> {
    (0..count as u64)
        .map(|l| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed + l);
            let shift = normal(1, d, &mut rng);
            Measure::uniform(normal(n, d, &mut rng) + &shift).unwrap()
        })
        .collect()
}

fn find(problem: &Barycenters<'_>, points: usize) -> Barycenter {
    let start = problem.start(points, 0).unwrap();
    problem.free_support(&start, &BarycenterSettings::default(), &Interrupt::default()).unwrap()
}

#[test]
fn one_point_of_w2_is_the_mean_and_its_value_the_variance() {
    let clouds = clouds(3, 7, 4, 1);
    let measures: Vec<&Measure> = clouds.iter().collect();
    let problem =
        Barycenters::new(&measures, Some(&[1.0, 2.0, 1.0]), MetricSet::W2, &Grouping::none(4)).unwrap();
    let found = find(&problem, 1);
    let means: Vec<Array1<f64>> =
        clouds.iter().map(|cloud| cloud.points().mean_axis(Axis(0)).unwrap()).collect();
    let mean = (&means[0] + &(&means[1] * 2.0) + &means[2]) / 4.0;
    assert!((&found.measure.points().row(0) - &mean).iter().all(|x| x.abs() < 1e-12));
    let spread = |cloud: &Measure| (cloud.points() - &mean).mapv(|x| x * x).sum() / 7.0;
    let expected = (spread(&clouds[0]) + 2.0 * spread(&clouds[1]) + spread(&clouds[2])) / 4.0;
    assert!((found.value - expected).abs() < 1e-12 * expected);
    assert_eq!(found.status, Status::Converged);
}

#[test]
fn translates_of_one_cloud_meet_in_the_middle() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let points = normal(9, 3, &mut rng);
    let shifts = [array![0.0, 0.0, 0.0], array![3.0, 0.0, -1.0]];
    let clouds = shifts.each_ref().map(|shift| Measure::uniform(&points + shift).unwrap());
    for set in [MetricSet::W2, MetricSet::P { k: 1 }, MetricSet::Srw { k: 1 }] {
        let measures: Vec<&Measure> = clouds.iter().collect();
        let problem = Barycenters::new(&measures, None, set.clone(), &Grouping::none(3)).unwrap();
        let found = find(&problem, 9);
        let middle = &points + &((&shifts[0] + &shifts[1]) * 0.5);
        assert!((found.measure.points() - &middle).iter().all(|x| x.abs() < 1e-3), "{set:?}");
        // Halfway along a displacement v, each distance is h(v vᵀ / 4), which is |v|² / 4 for these sets.
        assert!((found.value - 2.5).abs() < 1e-4, "{set:?}: {}", found.value);
    }
}

#[test]
fn every_step_descends_and_the_end_is_stationary() {
    let clouds = [measure(12, 5, 1), measure(9, 5, 2), measure(10, 5, 3)];
    let measures: Vec<&Measure> = clouds.iter().collect();
    for set in common::sets(5) {
        for entropy in [0.0, 0.1] {
            let problem = Barycenters::new(&measures, None, set.clone(), &Grouping::none(5)).unwrap();
            let found = find(&problem.with_entropy(entropy).unwrap(), 6);
            assert!(found.lower_bound <= found.value);
            let scale = found.distances.iter().map(|s| s.transport_cost).sum::<f64>() + entropy;
            assert!(
                found.history.windows(2).all(|pair| pair[1] <= pair[0] + 1e-4 * scale),
                "{set:?}: {:?}",
                found.history
            );
            assert!(found.history.last() < found.history.first(), "{set:?}");
            let direct: f64 = found.distances.iter().map(|s| s.value).sum::<f64>() / 3.0;
            assert!((direct - found.value).abs() < 1e-12 * scale, "{set:?}");
            if found.status == Status::Converged {
                let force = found
                    .distances
                    .iter()
                    .fold(Array2::<f64>::zeros((6, 5)), |sum, s| sum + s.gradient().target_points);
                let single = found.distances[0].gradient().target_points.mapv(f64::abs).sum();
                assert!(force.mapv(f64::abs).sum() < 0.05 * single, "{set:?} {entropy}: {force} {single}");
            }
        }
    }
}

#[test]
fn fixed_points_get_their_weights_back() {
    // A measure is its own barycenter as entropy vanishes.
    let support = array![[0.0], [1.0], [2.0], [5.0]];
    let only = Measure::new(support.clone(), array![0.4, 0.1, 0.3, 0.2]).unwrap();
    let measures = [&only];
    let problem = Barycenters::new(&measures, None, MetricSet::W2, &Grouping::none(1))
        .unwrap()
        .with_entropy(0.02)
        .unwrap();
    let settings = BarycenterSettings::default()
        .with_solve(Settings::default().with_tolerance(1e-10))
        .with_max_steps(500);
    let found = problem.fixed_support(&support, &settings, &Interrupt::default()).unwrap();
    assert!((found.measure.weights() - only.weights()).iter().all(|x| x.abs() < 1e-6), "{:?}", found.measure);
    let without = Barycenters::new(&measures, None, MetricSet::W2, &Grouping::none(1)).unwrap();
    assert!(matches!(
        without.fixed_support(&support, &settings, &Interrupt::default()),
        Err(Error::Parameter { name: "entropy", .. })
    ));
}

#[test]
fn threads_and_repetition_change_nothing() {
    let clouds = clouds(4, 15, 3, 9);
    let measures: Vec<&Measure> = clouds.iter().collect();
    let problem = Barycenters::new(&measures, None, MetricSet::P { k: 1 }, &Grouping::none(3)).unwrap();
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (first, second) = (find(&problem, 10), alone.install(|| find(&problem, 10)));
    assert_eq!(first.measure, second.measure);
    assert_eq!(first.history, second.history);
}

#[test]
fn an_interrupt_and_the_limit_of_steps_end_the_search() {
    let clouds = clouds(2, 8, 2, 4);
    let measures: Vec<&Measure> = clouds.iter().collect();
    let problem = Barycenters::new(&measures, None, MetricSet::W2, &Grouping::none(2)).unwrap();
    let start = problem.start(8, 0).unwrap();
    let interrupt = Interrupt::default();
    let none = BarycenterSettings::default().with_max_steps(0);
    let found = problem.free_support(&start, &none, &interrupt).unwrap();
    assert_eq!((found.status, found.history.len()), (Status::MaxIterations, 1));
    assert_eq!(found.measure, start);
    interrupt.raise();
    let found = problem.free_support(&start, &BarycenterSettings::default(), &interrupt).unwrap();
    assert_eq!(found.status, Status::Interrupted);
}

#[test]
fn bad_input_is_refused() {
    let clouds = clouds(2, 3, 2, 0);
    let other = measure(3, 4, 1);
    let measures: Vec<&Measure> = clouds.iter().collect();
    let plain = |measures, weights| Barycenters::new(measures, weights, MetricSet::W2, &Grouping::none(2));
    assert!(matches!(plain(&[], None), Err(Error::Parameter { name: "measures", .. })));
    let mixed = [measures[0], &other];
    assert!(matches!(plain(&mixed, None), Err(Error::Dimension { .. })));
    assert!(matches!(plain(&measures, Some(&[1.0])), Err(Error::WeightCount { weights: 1, points: 2 })));
    assert!(matches!(plain(&measures, Some(&[1.0, -1.0])), Err(Error::Weight { index: 1, .. })));
    assert!(matches!(plain(&measures, Some(&[0.0, 0.0])), Err(Error::Mass { .. })));
    let problem = plain(&measures, None).unwrap();
    assert!(matches!(problem.start(0, 0), Err(Error::Parameter { name: "points", .. })));
    let settings = BarycenterSettings::default();
    assert!(matches!(
        problem.free_support(&other, &settings, &Interrupt::default()),
        Err(Error::Dimension { .. })
    ));
}
