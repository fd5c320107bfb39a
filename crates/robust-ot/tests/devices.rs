//! Oracles of other devices, simulated by plain loops: their bounds are sound however rough the oracle is.

use ndarray::{Array1, Array2, Axis, array};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::device::{
    CloudAnswer, CloudMoments, CloudOracle, CloudTask, CloudWeights, Corpus, EntropicAnswer, EntropicOracle,
    EntropicTask, PairAnswers, PairOracle, PairRound, solve_cloud_on, solve_pairs_on,
};
use robust_ot::solve::{Interrupt, PairSettings, SolveOptions};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Result, Settings, Status};

/// An oracle that stops after a fixed number of Sinkhorn sweeps, in double precision.
#[derive(Debug)]
struct Rough {
    sweeps: usize,
}

/// f and the plan for g: row sums are exact.
fn plan_of(task: &EntropicTask, g: &Array1<f64>) -> (Array1<f64>, Array2<f64>) {
    let EntropicTask {
        source_weights: a, target_weights: b, x, y, alpha, beta, regularization: lambda, ..
    } = *task;
    let cost = |i: usize, j: usize| alpha[i] + beta[j] - 2.0 * x.row(i).dot(&y.row(j));
    let f: Array1<f64> = (0..a.len())
        .map(|i| {
            let terms: Vec<f64> = (0..b.len()).map(|j| b[j].ln() + (g[j] - cost(i, j)) / lambda).collect();
            let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            -lambda * (top + terms.iter().map(|t| (t - top).exp()).sum::<f64>().ln())
        })
        .collect();
    let plan = Array2::from_shape_fn((a.len(), b.len()), |(i, j)| {
        if a[i] * b[j] == 0.0 { 0.0 } else { a[i] * b[j] * ((f[i] + g[j] - cost(i, j)) / lambda).exp() }
    });
    (f, plan)
}

impl EntropicOracle for Rough {
    fn solve(&mut self, task: &EntropicTask<'_>) -> Result<EntropicAnswer> {
        let b = task.target_weights;
        let mut g = Array1::zeros(b.len());
        for _ in 0..self.sweeps {
            let columns = plan_of(task, &g).1.sum_axis(Axis(0));
            for j in (0..b.len()).filter(|&j| b[j] > 0.0) {
                g[j] += task.regularization * (b[j] / columns[j]).ln();
            }
        }
        let (f, mut plan) = plan_of(task, &g);
        let columns = plan.sum_axis(Axis(0));
        for (j, mut column) in plan.axis_iter_mut(Axis(1)).enumerate() {
            if columns[j] > b[j] {
                column *= b[j] / columns[j];
            }
        }
        let entropy = plan.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum();
        Ok(EntropicAnswer {
            f,
            g,
            columns,
            row_sums: plan.sum_axis(Axis(1)),
            spread: plan.dot(task.y),
            entropy,
        })
    }
}

/// The same for pairs of a corpus.
#[derive(Debug)]
struct RoughPairs<'a> {
    corpus: &'a Corpus,
    sweeps: usize,
}

impl PairOracle for RoughPairs<'_> {
    fn solve(&mut self, round: &PairRound<'_>) -> Result<PairAnswers> {
        let (corpus, size) = (self.corpus, self.corpus.size());
        let mut found = PairAnswers::default();
        for (at, &(i, j)) in round.pairs.iter().enumerate() {
            let metric = &round.metrics[at * size * size..][..size * size];
            let metric = Array2::from_shape_vec((size, size), metric.to_vec()).unwrap();
            let by_slots =
                |points: &Array2<f64>| points.to_shape((points.len() / size, size)).unwrap().to_owned();
            let moved = |points: &Array2<f64>| {
                by_slots(points).dot(&metric).to_shape(points.dim()).unwrap().to_owned()
            };
            let (s, t) = (corpus.points(i), corpus.points(j));
            let lengths = |points: &Array2<f64>| (points * &moved(points)).sum_axis(Axis(1));
            let (a, b) = (corpus.weights(i), corpus.weights(j));
            let task = EntropicTask {
                source_weights: a,
                target_weights: b,
                x: &moved(s),
                y: t,
                alpha: &lengths(s),
                beta: &lengths(t),
                regularization: round.regularization,
                tolerance: round.tolerances[at],
                max_sweeps: self.sweeps,
                interrupt: &Interrupt::default(),
            };
            let answer = Rough { sweeps: self.sweeps }.solve(&task)?;
            // The missing mass goes to rows and columns that are below their weights.
            let (_, mut plan) = plan_of(&task, &answer.g);
            // Exponents are rounded relative to their size, so the sums are those of the plan itself.
            for (axis, weights) in [(0, a), (1, b)] {
                for (mut masses, &weight) in plan.axis_iter_mut(Axis(axis)).zip(weights) {
                    let sum = masses.sum();
                    if sum > weight {
                        masses *= weight / sum;
                    }
                }
            }
            let lack = |wanted: &Array1<f64>, axis| (wanted - &plan.sum_axis(axis)).mapv(|x| x.max(0.0));
            let (rows, columns) = (lack(a, Axis(1)), lack(b, Axis(0)));
            let missing = columns.sum().max(f64::MIN_POSITIVE);
            found.unplaced.push(unplaced((s, &rows), (t, &columns)));
            let plan =
                Array2::from_shape_fn(plan.dim(), |(i, j)| plan[[i, j]] + rows[i] * columns[j] / missing);
            let cross = by_slots(s).t().dot(&by_slots(&plan.dot(t)));
            found.crosses.extend(cross.iter());
            found.entropies.push(plan.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum());
            let terms = |weights: &Array1<f64>, potential: &Array1<f64>| -> Vec<f64> {
                let positive = weights.iter().zip(potential).filter(|(w, _)| **w > 0.0);
                positive.map(|(w, f)| w * (f + round.regularization * w.ln())).collect()
            };
            let terms = [terms(a, &answer.f), terms(b, &answer.g)].concat();
            found.duals.push(terms.iter().sum());
            found.sizes.push(terms.iter().map(|x| x.abs()).sum());
        }
        Ok(found)
    }
}

/// A bound on what a plan lacks in the moment once each row has got its lack in proportion to those of the columns.
fn unplaced((s, rows): (&Array2<f64>, &Array1<f64>), (t, columns): (&Array2<f64>, &Array1<f64>)) -> f64 {
    let lengths = |points: &Array2<f64>| points.map_axis(Axis(1), |point| point.dot(&point).sqrt());
    let longest = |points: &Array2<f64>| lengths(points).fold(0.0_f64, |top, x| top.max(*x));
    let missing = columns.sum();
    if missing > 0.0 {
        let share = (rows.sum() - missing).abs() / missing;
        2.0 * share * columns.dot(&lengths(t)) * longest(s)
    } else {
        2.0 * rows.dot(&lengths(s)) * longest(t)
    }
}

fn measure(count: usize, dim: usize, seed: u64) -> Measure {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let points = Array2::from_shape_fn((count, dim), |_| rng.random_range(-1.0..1.0));
    let mut weights: Array1<f64> = (0..count).map(|_| rng.random_range(0.1..1.0)).collect();
    if count > 2 {
        weights[1] = 0.0;
    }
    Measure::new(points, weights).unwrap()
}

fn sets() -> [MetricSet; 4] {
    [MetricSet::W2, MetricSet::P { k: 2 }, MetricSet::Features { lambda: 0.3 }, MetricSet::Srw { k: 1 }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rough_oracles_make_wide_brackets_and_never_wrong_ones(
        (m, n, sweeps) in (1usize..12, 1usize..12, 0usize..6), which in 0usize..4, seed in 0u64..1000,
    ) {
        let (source, target) = (measure(m, 6, seed), measure(n, 6, seed + 1));
        let set = sets()[which].clone();
        let problem = Problem::grouped(&source, &target, set, &Grouping::contiguous(6, 3).unwrap()).unwrap();
        let problem = problem.with_entropy(0.2).unwrap();
        let exact = problem.solve(&Settings::default().with_tolerance(1e-7)).unwrap();
        let settings = Settings::default().with_max_iterations(5);
        let rough = problem.solve_with(&settings, SolveOptions { device: Some(Box::new(Rough { sweeps })), ..Default::default() }).unwrap();
        prop_assert!(rough.lower_bound <= exact.value && exact.lower_bound <= rough.value,
            "[{}, {}] and [{}, {}]", rough.lower_bound, rough.value, exact.lower_bound, exact.value);
    }
}

#[test]
fn a_stalled_oracle_leaves_the_bracket_of_the_exact_plan_at_least() {
    for (seed, set) in (0..5).flat_map(|seed| sets().into_iter().map(move |set| (seed, set))) {
        let (source, target) = (measure(9, 3, seed), measure(8, 3, seed + 100));
        let plain = Problem::new(&source, &target, set.clone()).unwrap();
        let exact = plain.solve(&Settings::default()).unwrap();
        let powers = |mass: f64| if mass > 0.0 { mass * mass.ln() } else { 0.0 };
        let of_weights: f64 = source.weights().iter().chain(target.weights()).map(|&w| powers(w)).sum();
        let of_plan: f64 = exact.dense_plan().iter().map(|&mass| powers(mass)).sum();
        for entropy in [1e-6, 1e-3, 0.1] {
            let problem = plain.clone().with_entropy(entropy).unwrap();
            let device = Some(Box::new(Rough { sweeps: 0 }) as Box<dyn EntropicOracle>);
            let options = SolveOptions { device, ..SolveOptions::default() };
            let stalled = problem.solve_with(&Settings::default(), options).unwrap();
            let best = problem.solve(&Settings::default().with_tolerance(1e-8)).unwrap();
            let width = exact.gap + entropy * (of_plan - of_weights);
            let what = format!("{set}, entropy {entropy}: {stalled}");
            assert_ne!(stalled.iterations, 1, "{what}");
            assert!(stalled.gap <= width + 1e-12, "{what}, {width:e}");
            assert!(stalled.lower_bound <= best.value && stalled.value >= best.lower_bound, "{what}, {best}");
            assert_eq!(stalled.status == Status::Converged, stalled.relative_gap <= 1e-4, "{what}");
            assert_eq!(stalled.history.last().unwrap().value.to_bits(), stalled.value.to_bits());
        }
    }
}

#[test]
fn an_oracle_that_converges_finds_what_the_processor_finds() {
    let (source, target) = (measure(15, 4, 1), measure(11, 4, 2));
    for set in sets() {
        let problem = Problem::new(&source, &target, set.clone()).unwrap().with_entropy(0.3).unwrap();
        let wanted = problem.solve(&Settings::default()).unwrap();
        let oracle = Box::new(Rough { sweeps: 300 });
        let found = problem
            .solve_with(&Settings::default(), SolveOptions { device: Some(oracle), ..Default::default() })
            .unwrap();
        assert_eq!(found.status, Status::Converged, "{set:?}");
        assert!((found.value - wanted.value).abs() <= 1e-4 * (found.transport_cost + wanted.transport_cost));
    }
}

#[test]
fn pairs_of_a_corpus_are_bracketed_one_by_one() {
    let measures: Vec<Measure> = (0..6).map(|at| measure(3 + at, 6, at as u64)).collect();
    let grouping = Grouping::random(6, 3, 1).unwrap();
    let all: Vec<&Measure> = measures.iter().collect();
    let corpus = Corpus::new(&all, &grouping).unwrap();
    let pairs: Vec<_> = (0..6).flat_map(|i| (i..6).map(move |j| (i, j))).collect();
    for set in sets() {
        for sweeps in [1, 1000] {
            let settings = Settings::default();
            let wanted = PairSettings {
                measures: &all,
                grouping: corpus.grouping(),
                set: &set,
                entropy: 0.5,
                settings: &settings,
            };
            let mut oracle = RoughPairs { corpus: &corpus, sweeps };
            let found =
                solve_pairs_on(&mut oracle, &corpus, &pairs, wanted, &Interrupt::default(), &|_| ()).unwrap();
            for (&(i, j), found) in pairs.iter().zip(found) {
                let found = found.unwrap();
                let problem = Problem::grouped(&measures[i], &measures[j], set.clone(), &grouping).unwrap();
                let exact = problem.with_entropy(0.5).unwrap().solve(&settings).unwrap();
                let what = format!(
                    "{set:?} {i} {j} after {sweeps} sweeps: {found:?}, {} {}",
                    exact.lower_bound, exact.value
                );
                assert!(found.lower_bound <= exact.value && exact.lower_bound <= found.value, "{what}");
                // The CPU finishes the pairs for which one sweep is not enough.
                assert_eq!(found.status, Status::Converged, "{what}");
                assert!(sweeps == 1 || i == j || !found.on_cpu, "{what}");
            }
        }
    }
}

/// The same for one pair whose measures are a corpus.
#[derive(Debug)]
struct RoughClouds<'a>(RoughPairs<'a>);

impl CloudOracle for RoughClouds<'_> {
    fn moments(&mut self) -> Result<CloudMoments> {
        let corpus = self.0.corpus;
        let by_slots = |points: &Array2<f64>| {
            points.to_shape((points.len() / corpus.size(), corpus.size())).unwrap().to_owned()
        };
        let mut shared = Array2::zeros((corpus.size(), corpus.size()));
        let mean = |at: usize| corpus.weights(at).dot(corpus.points(at));
        for at in 0..2 {
            let weighted = corpus.points(at) * &corpus.weights(at).view().insert_axis(Axis(1));
            shared += &by_slots(&weighted).t().dot(&by_slots(corpus.points(at)));
        }
        Ok(CloudMoments { shared, means: (mean(0), mean(1)) })
    }

    fn solve(&mut self, task: &CloudTask<'_>) -> Result<CloudAnswer> {
        self.0.sweeps = task.max_sweeps;
        let found = self.0.solve(&PairRound {
            slots: &[0],
            pairs: &[(0, 1)],
            metrics: &task.metric.iter().copied().collect::<Vec<_>>(),
            tolerances: &[task.tolerance],
            regularization: task.regularization,
            fresh: true,
            most: 1,
        })?;
        Ok(CloudAnswer {
            cross: Array2::from_shape_vec(task.metric.dim(), found.crosses).unwrap(),
            entropy: found.entropies[0],
            dual: found.duals[0],
            dual_rounding: 100.0 * f64::EPSILON * found.sizes[0],
            unplaced: found.unplaced[0],
        })
    }
}

#[test]
fn clouds_are_bracketed_after_any_number_of_sweeps() {
    let grouping = Grouping::random(6, 3, 1).unwrap();
    for (seed, set) in sets().into_iter().enumerate() {
        let measures = [measure(9, 6, seed as u64), measure(14, 6, seed as u64 + 50)];
        let corpus = Corpus::new(&measures.each_ref(), &grouping).unwrap();
        let weights =
            measures.each_ref().map(|measure| CloudWeights::new(measure.weights().clone()).unwrap());
        let problem = Problem::grouped(&measures[0], &measures[1], set.clone(), &grouping).unwrap();
        let exact =
            problem.with_entropy(0.3).unwrap().solve(&Settings::default().with_tolerance(1e-7)).unwrap();
        let mut gaps = Vec::new();
        for sweeps in [1, 3, 300] {
            let settings = Settings::default()
                .with_max_sweeps(sweeps)
                .with_max_iterations(if sweeps == 300 { 100 } else { 1 });
            let mut oracle = RoughClouds(RoughPairs { corpus: &corpus, sweeps });
            let sides = (&weights[0], &weights[1]);
            let found =
                solve_cloud_on(&mut oracle, sides, &grouping, (&set, 0.3), &settings, &Interrupt::default());
            let found = found.unwrap().unwrap();
            assert!(
                found.lower_bound <= exact.value && exact.lower_bound <= found.value,
                "{set:?} after {sweeps} sweeps: {found:?}, {exact}"
            );
            let shares: f64 = found.plans.iter().map(|plan| plan.weight).sum();
            assert!(
                (shares - 1.0).abs() < 1e-12 && found.plans.iter().all(|plan| plan.call < found.iterations)
            );
            gaps.push(found.value - found.lower_bound);
            if sweeps == 300 {
                assert_eq!(found.status, Status::Converged, "{set:?}");
            }
        }
        assert!(gaps[0] > gaps[2], "{set:?}: {gaps:?}");
    }
}

/// Points of which some are the farther the less they weigh, w ‖x‖² being at most about one.
fn with_far_points(count: usize, dim: usize, seed: u64) -> Measure {
    let plain = measure(count, dim, seed);
    let (mut points, mut weights) = (plain.points().clone(), plain.weights().clone());
    let mut rng = ChaCha8Rng::seed_from_u64(seed + 1);
    for at in (0..count).step_by(2) {
        let power = rng.random_range(8..=16);
        weights[at] *= 10f64.powi(-power);
        points.row_mut(at).mapv_inplace(|x| x * 10f64.powi((power / 2).min(6)));
    }
    Measure::new(points, weights).unwrap()
}

#[test]
fn far_points_of_little_weight_are_bracketed_in_pairs() {
    let count = 7;
    for (seed, entropy) in [200, 300].into_iter().flat_map(|seed| [1.0, 0.1].map(|entropy| (seed, entropy))) {
        let measures: Vec<Measure> =
            (0..count).map(|at| with_far_points(1 + 2 * at, 2, seed + 10 * at as u64)).collect();
        let all: Vec<&Measure> = measures.iter().collect();
        let corpus = Corpus::new(&all, &Grouping::none(2)).unwrap();
        let pairs: Vec<_> = (0..count).flat_map(|i| (i..count).map(move |j| (i, j))).collect();
        for set in sets() {
            let (settings, grouping) = (Settings::default(), corpus.grouping());
            let wanted = PairSettings { measures: &all, grouping, set: &set, entropy, settings: &settings };
            let mut oracle = RoughPairs { corpus: &corpus, sweeps: 100 };
            let found = solve_pairs_on(&mut oracle, &corpus, &pairs, wanted, &Interrupt::default(), &|_| ());
            for (&(i, j), found) in pairs.iter().zip(found.unwrap()) {
                let found = found.unwrap();
                let problem = Problem::new(&measures[i], &measures[j], set.clone()).unwrap();
                let wanted = problem.with_entropy(entropy).unwrap().solve(&settings).unwrap();
                assert!(
                    found.lower_bound <= wanted.value && wanted.lower_bound <= found.value,
                    "{set:?}, entropy {entropy}, seed {seed}, {i} {j}: {found:?}, [{}, {}]",
                    wanted.lower_bound,
                    wanted.value
                );
            }
        }
    }
}

#[test]
fn pairs_left_to_the_processor_have_all_their_digits() {
    // Relative to the mean of all, the points of the first two are rounded to a grid of 1e-4.
    let near = [array![[0.1], [0.7]], array![[0.35], [0.9]], array![[3e12]]];
    let measures = near.map(|points| Measure::uniform(points).unwrap());
    let (all, settings) = (measures.each_ref(), Settings::default());
    let corpus = Corpus::new(&all, &Grouping::none(1)).unwrap();
    let wanted = PairSettings {
        measures: &all,
        grouping: corpus.grouping(),
        set: &MetricSet::W2,
        entropy: 0.1,
        settings: &settings,
    };
    let mut oracle = RoughPairs { corpus: &corpus, sweeps: 1000 };
    let found =
        solve_pairs_on(&mut oracle, &corpus, &[(0, 1)], wanted, &Interrupt::default(), &|_| ()).unwrap();
    let found = found[0].as_ref().unwrap();
    let exact = Problem::new(all[0], all[1], MetricSet::W2).unwrap().with_entropy(0.1).unwrap();
    let exact = exact.solve(&Settings::default().with_tolerance(1e-9)).unwrap();
    assert!(
        found.lower_bound <= exact.value && exact.lower_bound <= found.value,
        "{found:?}, {}",
        exact.value
    );
    assert_eq!(found.status, Status::Converged);
}

#[test]
fn pairs_that_do_not_fit_are_refused() {
    let measures = [measure(3, 2, 1), measure(4, 2, 2)];
    let corpus = Corpus::new(&measures.each_ref(), &Grouping::none(2)).unwrap();
    let (all, settings) = (measures.each_ref(), Settings::default());
    for (measures, entropy, told) in [
        (&all[..], 0.0, "entropy must be positive"),
        (&all[..1], 0.1, "measures must be the 2 measures of the corpus"),
    ] {
        let wanted = PairSettings {
            measures,
            grouping: corpus.grouping(),
            set: &MetricSet::W2,
            entropy,
            settings: &settings,
        };
        let mut oracle = RoughPairs { corpus: &corpus, sweeps: 1 };
        let refused = solve_pairs_on(&mut oracle, &corpus, &[(0, 1)], wanted, &Interrupt::default(), &|_| ());
        assert!(refused.unwrap_err().to_string().contains(told), "{told}");
    }
}

/// A device whose exponentials are out of range.
#[derive(Debug)]
struct OutOfRange;

impl PairOracle for OutOfRange {
    fn solve(&mut self, round: &PairRound<'_>) -> Result<PairAnswers> {
        let count = round.slots.len();
        let bad = |numbers: usize| vec![f64::NAN; numbers];
        let (crosses, entropies) = (bad(round.metrics.len()), bad(count));
        Ok(PairAnswers { crosses, entropies, duals: bad(count), sizes: bad(count), unplaced: bad(count) })
    }
}

#[test]
fn pairs_beyond_the_range_of_a_device_are_left_to_the_cpu() {
    let measures = [measure(3, 2, 1), measure(4, 2, 2)];
    let (all, settings) = (measures.each_ref(), Settings::default());
    let corpus = Corpus::new(&all, &Grouping::none(2)).unwrap();
    let set = MetricSet::P { k: 1 };
    let grouping = corpus.grouping();
    let wanted = PairSettings { measures: &all, grouping, set: &set, entropy: 0.1, settings: &settings };
    let interrupt = Interrupt::default();
    let found = solve_pairs_on(&mut OutOfRange, &corpus, &[(0, 1)], wanted, &interrupt, &|_| ()).unwrap();
    let found = found[0].as_ref().unwrap();
    let alone =
        Problem::new(all[0], all[1], set).unwrap().with_entropy(0.1).unwrap().solve(&settings).unwrap();
    assert!(found.on_cpu);
    assert_eq!((found.value, found.lower_bound), (alone.value, alone.lower_bound));
}
