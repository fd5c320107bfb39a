//! Many pairs at once on the GPU, compared with one pair at a time on the CPU.

mod common;

use common::{device, matrix, rng, with_far_points};
use ndarray::Array1;
use rand::RngExt;
use robust_ot::device::{Corpus, solve_pairs_on};
use robust_ot::sets::Prior;
use robust_ot::solve::{Interrupt, PairDistance, PairSettings};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Status};
use robust_ot_cuda::{Device, Pairs};

fn measures(count: usize, most: usize, dim: usize, seed: u64) -> Vec<Measure> {
    let mut rng = rng(seed);
    (0..count as u64)
        .map(|at| {
            let points = rng.random_range(1..=most);
            let mut weights: Array1<f64> = (0..points).map(|_| rng.random_range(0.1..1.0)).collect();
            if points > 3 {
                weights[2] = 0.0;
            }
            let sum = weights.sum();
            Measure::new(matrix(points, dim, seed + 100 * at) + 0.3 * at as f64 / count as f64, weights / sum)
                .unwrap()
        })
        .collect()
}

fn all(count: usize) -> Vec<(usize, usize)> {
    (0..count).flat_map(|i| (i..count).map(move |j| (i, j))).collect()
}

fn solve(
    device: &Device,
    measures: &[Measure],
    grouping: &Grouping,
    set: &MetricSet,
    entropy: f64,
) -> Vec<PairDistance> {
    let every: Vec<&Measure> = measures.iter().collect();
    let corpus = Corpus::new(&every, grouping).unwrap();
    let settings = PairSettings {
        measures: &every,
        grouping: corpus.grouping(),
        set,
        entropy,
        settings: &Settings::default(),
    };
    let mut oracle = Pairs::new(device, &corpus).unwrap();
    let found =
        solve_pairs_on(&mut oracle, &corpus, &all(measures.len()), settings, &Interrupt::default(), &|_| ());
    found.unwrap().into_iter().map(|found| found.unwrap()).collect()
}

#[test]
fn pairs_bracket_those_of_the_processor() {
    let Some(device) = device("pairs") else { return };
    let sets = [
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::P { k: 2 },
        MetricSet::Kl { lambda: 3.0, prior: Prior::Eye },
        MetricSet::Ds { lambda: 1.0, prior: Prior::Ones },
        MetricSet::Features { lambda: 0.5 },
        MetricSet::Rkp { rho: 2.0 },
    ];
    for (seed, set) in sets.into_iter().enumerate() {
        // The last two are too large for shared memory, in part and as a whole.
        for (count, most, dim, groups) in
            [(8, 40, 12, 4), (5, 100, 30, 5), (6, 9, 7, 7), (3, 190, 5, 5), (2, 3300, 2, 2)]
        {
            if most > 1000 && set != (MetricSet::P { k: 1 }) {
                continue;
            }
            let grouping =
                if groups == dim { Grouping::none(dim) } else { Grouping::random(dim, groups, 3).unwrap() };
            let measures = measures(count, most, dim, seed as u64);
            for entropy in [0.5, 0.05] {
                let found = solve(&device, &measures, &grouping, &set, entropy);
                for (&(i, j), found) in all(count).iter().zip(&found) {
                    let problem =
                        Problem::grouped(&measures[i], &measures[j], set.clone(), &grouping).unwrap();
                    let wanted = problem.with_entropy(entropy).unwrap().solve(&Settings::default()).unwrap();
                    let what = format!(
                        "{set:?}, entropy {entropy}, {} × {} points: [{}, {}] {} and [{}, {}] {}",
                        measures[i].len(),
                        measures[j].len(),
                        found.lower_bound,
                        found.value,
                        found.status,
                        wanted.lower_bound,
                        wanted.value,
                        wanted.status
                    );
                    assert!(found.lower_bound <= wanted.value && wanted.lower_bound <= found.value, "{what}");
                    // If there is almost nothing to transport, rounding may end the solve.
                    if wanted.status == Status::Converged && found.value - found.lower_bound > 1e-11 {
                        assert_eq!(found.status, Status::Converged, "{what}");
                    }
                    assert!(
                        (found.value - wanted.value).abs() <= 2e-4 * (wanted.transport_cost + entropy),
                        "{what}"
                    );
                }
                assert_eq!(found, solve(&device, &measures, &grouping, &set, entropy), "two runs differ");
            }
        }
    }
}

#[test]
fn far_points_of_little_weight_are_bracketed() {
    let Some(device) = device("far points") else { return };
    let sets = [
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::P { k: 2 },
        MetricSet::PPower { k: 1 },
        MetricSet::Features { lambda: 0.5 },
        MetricSet::Srw { k: 1 },
        MetricSet::Rkp { rho: 2.0 },
    ];
    let (count, mut on_device, mut forced) = (6, 0, 0);
    for seed in 0..2 {
        for dim in [1, 3] {
            let measures: Vec<Measure> =
                (0..count).map(|at| with_far_points(1 + 4 * at, dim, 1000 * seed + 10 * at as u64)).collect();
            for (set, entropy) in sets.iter().flat_map(|set| [1.0, 0.5].map(|entropy| (set, entropy))) {
                let found = solve(&device, &measures, &Grouping::none(dim), set, entropy);
                for (&(i, j), found) in all(count).iter().zip(&found) {
                    on_device += usize::from(!found.on_cpu);
                    let problem = Problem::new(&measures[i], &measures[j], set.clone()).unwrap();
                    let wanted = problem.with_entropy(entropy).unwrap().solve(&Settings::default()).unwrap();
                    let what =
                        format!("{set:?}, entropy {entropy}, seed {seed}, dim {dim}, {i} {j}: {found:?}");
                    let bracket = (wanted.lower_bound, wanted.value);
                    assert!(
                        found.lower_bound <= bracket.1 && bracket.0 <= found.value,
                        "{what}, {bracket:?}"
                    );
                    // From one point there is one plan only.
                    if *set == MetricSet::W2 && i == 0 {
                        forced += 1;
                        let (truth, rounding) = from_one_point(&measures[0], &measures[j], entropy);
                        let below = found.lower_bound <= truth + rounding;
                        assert!(below && truth - rounding <= found.value, "{what}, {truth} ± {rounding:e}");
                    }
                }
            }
        }
    }
    assert!(on_device > 0 && forced > 0, "{on_device} pairs on the device, {forced} forced");
}

/// Σ b ‖s − t‖² + λ Σ b ln b, and a bound on its rounding.
fn from_one_point(source: &Measure, target: &Measure, entropy: f64) -> (f64, f64) {
    let terms = target.points().outer_iter().zip(target.weights()).flat_map(|(t, &b)| {
        let apart = &t - &source.points().row(0);
        [b * apart.dot(&apart), entropy * b * b.ln()]
    });
    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
    (sum, 4.0 * f64::EPSILON * (target.len() + target.dim()) as f64 * size)
}

#[test]
fn a_pair_that_cannot_be_solved_is_alone_in_that() {
    let Some(device) = device("one bad pair") else { return };
    let mut measures = measures(4, 10, 3, 5);
    measures.push(Measure::uniform(matrix(5, 3, 1) + 1000.0).unwrap());
    let grouping = Grouping::none(3);
    let every: Vec<&Measure> = measures.iter().collect();
    let corpus = Corpus::new(&every, &grouping).unwrap();
    let set = MetricSet::Kl { lambda: 1.0, prior: Prior::Eye };
    let settings = PairSettings {
        measures: &every,
        grouping: corpus.grouping(),
        set: &set,
        entropy: 0.1,
        settings: &Settings::default(),
    };
    let mut oracle = Pairs::new(&device, &corpus).unwrap();
    let found =
        solve_pairs_on(&mut oracle, &corpus, &all(5), settings, &Interrupt::default(), &|_| ()).unwrap();
    for (&(i, j), found) in all(5).iter().zip(&found) {
        assert_eq!(found.is_err(), j == 4 && i != 4, "{i} {j}: {found:?}");
    }
}

#[test]
fn near_pairs_far_from_all_others_converge() {
    let Some(device) = device("far clusters") else { return };
    let near = measures(3, 10, 2, 7);
    let far =
        near.iter().map(|measure| Measure::new(measure.points() + 1e6, measure.weights().clone()).unwrap());
    let measures: Vec<Measure> = near.iter().cloned().chain(far).collect();
    for found in solve(&device, &measures, &Grouping::none(2), &MetricSet::W2, 0.1) {
        assert_eq!(found.status, Status::Converged, "{found:?}");
    }
}
