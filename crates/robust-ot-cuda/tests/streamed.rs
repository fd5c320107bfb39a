//! Streamed entropic transport on the GPU, compared with the CPU and with its own formulas written out.

mod common;

use common::{device, matrix, rng, with_far_points};
use ndarray::{Array1, Array2, Axis, array};
use rand::RngExt;
use robust_ot::device::{EntropicAnswer, EntropicOracle, EntropicTask};
use robust_ot::solve::{Interrupt, SolveOptions};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Status};
use robust_ot_cuda::Streamed;

fn weights(count: usize, zeros: bool, seed: u64) -> Array1<f64> {
    let mut rng = rng(seed);
    let mut found: Array1<f64> = (0..count).map(|_| rng.random_range(0.1..1.0)).collect();
    if zeros {
        found.iter_mut().skip(1).step_by(3).for_each(|w| *w = 0.0);
    }
    let sum = found.sum();
    found / sum
}

/// Checks the answer against values computed from f and g alone.
fn check(task: &EntropicTask, found: &EntropicAnswer, what: &str) {
    let EntropicTask { source_weights: a, target_weights: b, x, y, alpha, beta, regularization, .. } = *task;
    let plan = Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        let cost = alpha[i] + beta[j] - 2.0 * x.row(i).dot(&y.row(j));
        if a[i] * b[j] == 0.0 {
            0.0
        } else {
            a[i] * b[j] * ((found.f[i] + found.g[j] - cost) / regularization).exp()
        }
    });
    let close = |found: &Array1<f64>, wanted: &Array1<f64>, name: &str| {
        let scale = wanted.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        let error = (found - wanted).iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        assert!(error <= 1e-9 * scale, "{what}: {name} off by {error:e} of {scale:e}");
    };
    close(&plan.sum_axis(Axis(1)), a, "rows");
    close(&found.columns, &plan.sum_axis(Axis(0)), "columns");
    let mut scaled = plan;
    for (j, mut column) in scaled.axis_iter_mut(Axis(1)).enumerate() {
        if found.columns[j] > b[j] {
            column *= b[j] / found.columns[j];
        }
    }
    close(&found.row_sums, &scaled.sum_axis(Axis(1)), "scaled rows");
    let spread = scaled.dot(y);
    close(&found.spread.iter().copied().collect(), &spread.iter().copied().collect(), "spread");
    let entropy: f64 = scaled.iter().filter(|g| **g > 0.0).map(|g| g * g.ln()).sum();
    assert!(
        (found.entropy - entropy).abs() <= 1e-9 * entropy.abs().max(1.0),
        "{what}: entropy {} not {entropy}",
        found.entropy
    );
}

#[test]
fn answers_are_what_their_potentials_say() {
    let Some(device) = device("answers") else { return };
    for (case, &(m, n, dim, zeros)) in [
        (1, 1, 1, false),
        (1, 7, 2, false),
        (130, 65, 3, true),
        (257, 300, 64, false),
        (200, 129, 65, true),
        (64, 640, 150, false),
    ]
    .iter()
    .enumerate()
    {
        for (entropy, tolerance) in [(2.0, 1e-3), (0.1, 1e-6), (0.005, 1e-9)] {
            let seed = case as u64;
            let (a, b) = (weights(m, zeros, seed), weights(n, zeros, seed + 1));
            let scale = 1.0 / (dim as f64).sqrt();
            let (x, y) = (matrix(m, dim, seed + 2) * scale, matrix(n, dim, seed + 3) * scale);
            let norms = |points: &Array2<f64>| points.map_axis(Axis(1), |row| row.dot(&row));
            let (alpha, beta) = (norms(&x), norms(&y));
            let interrupt = Interrupt::default();
            let task = EntropicTask {
                source_weights: &a,
                target_weights: &b,
                x: &x,
                y: &y,
                alpha: &alpha,
                beta: &beta,
                regularization: entropy,
                tolerance,
                max_sweeps: 10_000,
                interrupt: &interrupt,
            };
            let what = format!("{m} × {n}, {dim} features, entropy {entropy}");
            let mut oracle = Streamed::new(&device).unwrap();
            let found = oracle.solve(&task).unwrap();
            check(&task, &found, &what);
            let error: f64 = (&found.columns - &b).mapv(f64::abs).sum();
            assert!(error <= tolerance.max(1e-12) || entropy < 0.01, "{what}: marginal error {error:e}");
            let again = oracle.solve(&task).unwrap();
            check(&task, &again, &format!("{what}, again"));
            let afresh = Streamed::new(&device).unwrap().solve(&task).unwrap();
            assert_eq!(
                (found.f, found.g, found.spread),
                (afresh.f, afresh.g, afresh.spread),
                "{what}: two runs differ"
            );
        }
    }
}

#[test]
fn distances_bracket_those_of_the_processor() {
    let Some(device) = device("distances") else { return };
    let sets = [
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::P { k: 2 },
        MetricSet::Features { lambda: 0.5 },
        MetricSet::Srw { k: 2 },
        MetricSet::Rkp { rho: 2.0 },
    ];
    for (seed, set) in sets.into_iter().enumerate() {
        for (m, n, dim, groups) in [(150, 170, 12, 4), (90, 40, 30, 30), (33, 500, 80, 5)] {
            let seed = seed as u64;
            let measure = |count, seed| {
                Measure::new(matrix(count, dim, seed), weights(count, seed % 2 == 0, seed)).unwrap()
            };
            let (source, target) = (measure(m, seed), measure(n, seed + 9));
            let grouping =
                if groups == dim { Grouping::none(dim) } else { Grouping::contiguous(dim, groups).unwrap() };
            for entropy in [1.0, 0.05] {
                let problem = Problem::grouped(&source, &target, set.clone(), &grouping)
                    .unwrap()
                    .with_entropy(entropy)
                    .unwrap();
                let settings = Settings::default().with_tolerance(1e-4);
                let wanted = problem.solve(&settings).unwrap();
                let oracle = Box::new(Streamed::new(&device).unwrap());
                let found = problem
                    .solve_with(&settings, SolveOptions { device: Some(oracle), ..Default::default() })
                    .unwrap();
                let what = format!(
                    "{set:?}, {m} × {n}, entropy {entropy}: {} {} and {} {}",
                    wanted.lower_bound, wanted.value, found.lower_bound, found.value
                );
                assert_eq!(found.status, Status::Converged, "{what}");
                assert!(found.lower_bound <= wanted.value && wanted.lower_bound <= found.value, "{what}");
                assert!(
                    (found.value - wanted.value).abs()
                        <= 1e-4 * (wanted.transport_cost + found.transport_cost),
                    "{what}"
                );
                let plan = found.dense_plan();
                let error = (plan.sum_axis(Axis(0)) - target.weights()).mapv(f64::abs).sum();
                assert!(error < 1e-9, "{what}: the plan misses its columns by {error:e}");
            }
        }
    }
}

#[test]
fn far_points_of_little_weight_are_bracketed() {
    let Some(device) = device("far points") else { return };
    let sets =
        [MetricSet::W2, MetricSet::P { k: 1 }, MetricSet::Features { lambda: 0.5 }, MetricSet::Srw { k: 1 }];
    // Few digits are left for costs up to 1e13, so that solves end at rounding or here; bounds hold all the same.
    let settings = Settings::default().with_max_iterations(5);
    for seed in 0..2 {
        for (m, n, dim) in [(1, 9, 2), (7, 12, 1), (40, 33, 3), (70, 90, 5)] {
            let (source, target) = (with_far_points(m, dim, seed), with_far_points(n, dim, seed + 50));
            for (set, entropy) in sets.iter().flat_map(|set| [1.0, 0.5].map(|entropy| (set, entropy))) {
                let problem =
                    Problem::new(&source, &target, set.clone()).unwrap().with_entropy(entropy).unwrap();
                let wanted = problem.solve(&Settings::default()).unwrap();
                let oracle = Box::new(Streamed::new(&device).unwrap());
                let options = SolveOptions { device: Some(oracle), ..Default::default() };
                let found = problem.solve_with(&settings, options).unwrap();
                assert!(
                    found.lower_bound <= wanted.value && wanted.lower_bound <= found.value,
                    "{set:?}, {m} × {n}, {dim} features, entropy {entropy}, seed {seed}: {found}, {wanted}"
                );
            }
        }
    }
}

#[test]
fn scaled_and_moved_points_have_scaled_distances() {
    let Some(device) = device("metamorphic") else { return };
    let (points, others) = (matrix(300, 20, 1), matrix(200, 20, 2));
    let solve = |factor: f64, shift: f64| {
        let measure = |points: &Array2<f64>| Measure::uniform(points * factor + shift).unwrap();
        let problem = Problem::new(&measure(&points), &measure(&others), MetricSet::P { k: 1 }).unwrap();
        let problem = problem.with_entropy(0.3 * factor * factor).unwrap();
        let oracle = Box::new(Streamed::new(&device).unwrap());
        problem
            .solve_with(&Settings::default(), SolveOptions { device: Some(oracle), ..Default::default() })
            .unwrap()
            .unregularized_value
    };
    let plain = solve(1.0, 0.0);
    for (factor, shift) in [(1.0, 1e4), (1e-3, 0.0), (1e5, 0.0), (1e-40, 0.0), (1e40, 0.0)] {
        let found = solve(factor, shift) / (factor * factor);
        assert!(
            (found - plain).abs() <= 1e-3 * plain,
            "factor {factor}, shift {shift}: {found}, not {plain}"
        );
    }
}

#[test]
fn an_interrupt_leaves_what_there_is() {
    let Some(device) = device("interrupt") else { return };
    let (source, target) =
        (Measure::uniform(matrix(200, 3, 1)).unwrap(), Measure::uniform(matrix(200, 3, 2)).unwrap());
    let problem = Problem::new(&source, &target, MetricSet::P { k: 1 }).unwrap().with_entropy(0.01).unwrap();
    let interrupt = Interrupt::default();
    interrupt.raise();
    let found = problem
        .solve_with(
            &Settings::default(),
            SolveOptions {
                interrupt: Some(&interrupt),
                device: Some(Box::new(Streamed::new(&device).unwrap())),
                ..Default::default()
            },
        )
        .unwrap();
    assert_eq!(found.status, Status::Interrupted);
    assert!(found.lower_bound <= found.value);
}

#[test]
fn points_at_the_center_and_points_far_away_are_solved() {
    let Some(device) = device("odd points") else { return };
    let cases = [
        (array![[0.0]], array![[-1.0], [1.0]], 0.1),
        (array![[0.0]], array![[0.0], [1.0]], 0.01),
        (array![[0.0], [0.3]], array![[0.0], [1.0], [7.0]], 0.4),
        (array![[2.0, 1.0]], array![[2.0, 1.0]], 1.0),
    ];
    for (x, y, entropy) in cases {
        let (source, target) = (Measure::uniform(x).unwrap(), Measure::uniform(y).unwrap());
        let problem = Problem::new(&source, &target, MetricSet::W2).unwrap().with_entropy(entropy).unwrap();
        let wanted = problem.solve(&Settings::default()).unwrap();
        let oracle = Box::new(Streamed::new(&device).unwrap());
        let found = problem
            .solve_with(&Settings::default(), SolveOptions { device: Some(oracle), ..Default::default() })
            .unwrap();
        let what = format!(
            "entropy {entropy}: [{}, {}] and [{}, {}]",
            wanted.lower_bound, wanted.value, found.lower_bound, found.value
        );
        assert!(found.lower_bound <= wanted.value && wanted.lower_bound <= found.value, "{what}");
        assert!((found.value - wanted.value).abs() <= 1e-3, "{what}");
    }
}

#[test]
fn an_oracle_serves_one_problem_after_the_other() {
    let Some(device) = device("another problem") else { return };
    let mut oracle = Streamed::new(&device).unwrap();
    for (m, n) in [(100, 100), (100, 200), (7, 30)] {
        let (a, b) = (weights(m, false, 1), weights(n, false, 2));
        let (x, y) = (matrix(m, 5, 3), matrix(n, 5, 4));
        let norms = |points: &Array2<f64>| points.map_axis(Axis(1), |row| row.dot(&row));
        let task = EntropicTask {
            source_weights: &a,
            target_weights: &b,
            x: &x,
            y: &y,
            alpha: &norms(&x),
            beta: &norms(&y),
            regularization: 0.3,
            tolerance: 1e-6,
            max_sweeps: 10_000,
            interrupt: &Interrupt::default(),
        };
        check(&task, &oracle.solve(&task).unwrap(), &format!("{m} × {n}"));
    }
}
