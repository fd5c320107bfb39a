//! Training compared with a plain f64 implementation, and with interrupted, rearranged and resumed runs.

use std::path::Path;

use ndarray::{Array1, Array2, Axis, array};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Grouping, MetricSet};
use robust_ot_learn::data::{Features, Sparse};
use robust_ot_learn::{
    Dataset, Model, Objective, Optimizer, Output, Preprocessing, Reduction, RowLength, Schedule, Scores,
    SoftTargets, Standardization, TrainSettings, Trainer, sample_per_class,
};

const LABELS: usize = 6;

/// Standard normal numbers.
fn normal(rows: usize, columns: usize, rng: &mut impl Rng) -> Array2<f64> {
    Array2::from_shape_simple_fn((rows, columns), || StandardNormal.sample(rng))
}

/// Rows with one to three labels, and features that partly separate them.
fn data(rows: usize, columns: usize, seed: u64) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut features = normal(rows, columns, &mut rng).mapv(|x| x as f32);
    let labels: Vec<Vec<usize>> = (0..rows)
        .map(|row| {
            let mut labels: Vec<usize> = (0..=row % 3).map(|_| rng.random_range(0..LABELS)).collect();
            labels.sort_unstable();
            labels.dedup();
            labels.iter().for_each(|&label| features[[row, label % columns]] += 2.0);
            labels
        })
        .collect();
    Dataset::new(Features::Dense(features), Targets::new(LABELS, &labels).unwrap()).unwrap()
}

fn vectors() -> Array2<f64> {
    let mut vectors = normal(LABELS, 4, &mut ChaCha8Rng::seed_from_u64(3));
    vectors.rows_mut().into_iter().for_each(|mut row| row /= row.dot(&row).sqrt());
    vectors
}

fn robust<T: robust_ot::transport::Real>(settings: LossSettings) -> RobustLoss<T> {
    RobustLoss::new(&vectors(), &Grouping::contiguous(4, 2).unwrap(), settings).unwrap()
}

fn soft() -> SoftTargets {
    let set = MetricSet::P { k: 1 };
    let soft = SoftTargets::transported(&vectors(), &Grouping::none(4), &set, 0.4, 0.2, None).unwrap();
    soft.with_smoothing(0.1).unwrap()
}

fn objectives() -> Vec<Objective> {
    vec![
        Objective::cross_entropy(LABELS),
        Objective::binary(LABELS),
        Objective::mix(0.0, 1.0, robust(LossSettings::truncated())).unwrap(),
        Objective::mix(0.5, 3.0, robust(LossSettings::truncated())).unwrap().with_targets(soft()),
        Objective::binary(LABELS).with_targets(soft()),
    ]
}

fn train(data: &Dataset, objective: &Objective, settings: &TrainSettings) -> Model {
    let mut trainer = Trainer::new(data, None, objective, settings.clone()).unwrap();
    while trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
    trainer.into_model(names()).unwrap()
}

fn names() -> Vec<String> {
    (0..LABELS).map(|label| format!("label {label}")).collect()
}

/// Full-batch gradient descent in f64, with separately written derivatives.
fn reference(data: &Dataset, which: usize, settings: &TrainSettings) -> (Array2<f64>, Array1<f64>) {
    let Features::Dense(x) = data.features() else { unreachable!() };
    let x = x.mapv(f64::from);
    let (targets, rows) = (data.targets(), data.rows());
    let (mut w, mut b) = (Array2::zeros((x.ncols(), LABELS)), Array1::<f64>::zeros(LABELS));
    let (ce, ot) = [(1.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.5, 3.0), (0.0, 0.0)][which];
    let soft = if which >= 3 { soft() } else { SoftTargets::hard() };
    let robust = robust::<f64>(LossSettings::truncated());
    for _ in 0..settings.epochs {
        let z = x.dot(&w) + &b;
        let mut g = Array2::zeros((rows, LABELS));
        let mut h = z.mapv(f64::exp);
        h.rows_mut().into_iter().for_each(|mut row| row /= row.sum());
        let found = robust.loss_gradient(h.mapv(f64::ln).view(), targets).unwrap();
        for row in 0..rows {
            let mu: Vec<f64> = soft.target(LABELS, targets.row(row)).iter().map(|x| f64::from(*x)).collect();
            let mean = h.row(row).dot(&found.gradients.row(row));
            for p in 0..LABELS {
                g[[row, p]] = if which == 1 || which == 4 {
                    let wanted = (mu[p] * targets.row(row).len() as f64).min(1.0);
                    1.0 / (1.0 + (-z[[row, p]]).exp()) - wanted
                } else {
                    ce * (h[[row, p]] - mu[p]) + ot * h[[row, p]] * (found.gradients[[row, p]] - mean)
                };
            }
        }
        g /= rows as f64;
        w = &w * (1.0 - 2.0 * settings.learning_rate * settings.weight_decay)
            - settings.learning_rate * x.t().dot(&g);
        b = &b - settings.learning_rate * g.sum_axis(Axis(0));
    }
    (w, b)
}

#[test]
fn single_precision_follows_double_precision() {
    let data = data(50, 7, 1);
    let settings = TrainSettings {
        optimizer: Optimizer::Sgd { momentum: 0.0 },
        learning_rate: 0.5,
        weight_decay: 0.01,
        batch: 50,
        epochs: 10,
        ..Default::default()
    };
    for (which, objective) in objectives().iter().enumerate() {
        let model = train(&data, objective, &settings);
        let (w, b) = reference(&data, which, &settings);
        let error = (&model.weights().mapv(f64::from) - &w).fold(0.0_f64, |top, x| top.max(x.abs()));
        let bias = model
            .bias()
            .unwrap()
            .iter()
            .zip(&b)
            .fold(0.0_f64, |top, (x, y)| top.max((f64::from(*x) - y).abs()));
        assert!(w.fold(0.0_f64, |top, x| top.max(x.abs())) > 0.01, "objective {which} learned nothing");
        assert!(error < 3e-5 && bias < 3e-5, "objective {which}: {error:e} {bias:e}");
    }
}

#[test]
fn sparse_features_learn_what_dense_ones_do() {
    let dense = data(60, 9, 4);
    let Features::Dense(x) = dense.features() else { unreachable!() };
    // Some features of each row are set to zero.
    let x = Array2::from_shape_fn(x.dim(), |(i, j)| if (i + 2 * j) % 3 == 0 { x[[i, j]] } else { 0.0 });
    let mut sparse = Sparse::empty(x.ncols());
    for row in x.rows() {
        let (places, values): (Vec<u32>, Vec<f32>) =
            row.iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(j, x)| (j as u32, *x)).unzip();
        sparse.push(&places, &values).unwrap();
    }
    let dense = Dataset::new(Features::Dense(x), dense.targets().clone()).unwrap();
    let sparse = Dataset::new(Features::Sparse(sparse), dense.targets().clone()).unwrap();
    let settings = TrainSettings { batch: 16, epochs: 5, ..Default::default() };
    for objective in objectives() {
        let (one, other) = (train(&dense, &objective, &settings), train(&sparse, &objective, &settings));
        let apart = (&one.weights() - &other.weights()).fold(0.0_f32, |top, x| top.max(x.abs()));
        assert!(apart < 1e-5, "{apart:e}");
        let probabilities =
            |model: &Model, data: &Dataset| model.probabilities(data.features().clone()).unwrap();
        let apart = (probabilities(&one, &dense) - probabilities(&other, &sparse))
            .fold(0.0_f64, |top, x| top.max(x.abs()));
        assert!(apart < 1e-5, "{apart:e}");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    // Wide enough that products and updates are split into several blocks.
    let data = data(230, 300, 5);
    let settings = TrainSettings { batch: 100, epochs: 3, ..Default::default() };
    for objective in objectives() {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| train(&data, &objective, &settings))
        };
        let (one, three) = (run(1), run(3));
        assert_eq!(bits(&one), bits(&three));
    }
}

fn bits(model: &Model) -> Vec<u32> {
    let numbers =
        model.weights().iter().chain(model.bias().unwrap()).map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(numbers.iter().any(|x| *x != 0));
    numbers
}

fn resumed(
    train: &Dataset,
    held: &Dataset,
    objective: &Objective,
    settings: &TrainSettings,
    stop: usize,
    dir: &Path,
) -> Model {
    let path = dir.join("checkpoint.safetensors");
    let mut trainer = Trainer::new(train, Some(held), objective, settings.clone()).unwrap();
    for _ in 0..stop {
        trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap();
    }
    trainer.save(&path).unwrap();
    let mut trainer = Trainer::new(train, Some(held), objective, settings.clone()).unwrap();
    trainer.restore(&path).unwrap();
    assert_eq!(trainer.history().len(), stop);
    while trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
    trainer.into_model(names()).unwrap()
}

#[test]
fn a_run_that_was_resumed_ends_where_the_other_ends() {
    let dir = tempfile::tempdir().unwrap();
    let all = data(90, 8, 6);
    let (train_data, held) = all.split(0.3, 1).unwrap();
    let objective = Objective::mix(1.0, 2.0, robust(LossSettings::default())).unwrap();
    for (optimizer, schedule) in [
        (Optimizer::Adam, Schedule::Cosine),
        (Optimizer::Sgd { momentum: 0.9 }, Schedule::Constant),
        (Optimizer::Sgd { momentum: 0.0 }, Schedule::Linear),
    ] {
        let settings = TrainSettings {
            optimizer,
            schedule,
            learning_rate: 0.05,
            batch: 20,
            epochs: 6,
            patience: Some(4),
            ..Default::default()
        };
        let whole = resumed(&train_data, &held, &objective, &settings, 0, dir.path());
        for stop in 1..6 {
            let parts = resumed(&train_data, &held, &objective, &settings, stop, dir.path());
            assert_eq!(bits(&whole), bits(&parts), "stopped after {stop}");
        }
    }
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint.safetensors");
    let (first, second) = (data(30, 5, 7), data(30, 5, 8));
    let (ce, bce) = (Objective::cross_entropy(LABELS), Objective::binary(LABELS));
    let settings = TrainSettings::default();
    let mut trainer = Trainer::new(&first, None, &ce, settings.clone()).unwrap();
    trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap();
    trainer.save(&path).unwrap();
    let refusal = |data: &Dataset, objective: &Objective, settings: TrainSettings| {
        Trainer::new(data, None, objective, settings)
            .unwrap()
            .restore(&path)
            .map_err(|error| error.to_string())
    };
    assert!(refusal(&second, &ce, settings.clone()).unwrap_err().contains("other data"));
    assert!(refusal(&first, &bce, settings.clone()).unwrap_err().contains("another loss"));
    let faster = TrainSettings { learning_rate: 0.5, ..settings.clone() };
    assert!(refusal(&first, &ce, faster).unwrap_err().contains("other settings"));
    // With a constant learning rate, earlier epochs do not depend on the number of epochs.
    assert!(refusal(&first, &ce, TrainSettings { epochs: 99, ..settings }).is_ok());
    assert!(
        Model::load(&path)
            .unwrap_err()
            .to_string()
            .contains("must be a robust-ot model, but is a checkpoint")
    );
}

#[test]
fn patience_ends_a_run_and_the_best_weights_are_kept() {
    let all = data(80, 6, 9);
    let (train_data, held) = all.split(0.5, 2).unwrap();
    let objective = Objective::cross_entropy(LABELS);
    let settings = TrainSettings { learning_rate: 0.3, epochs: 200, patience: Some(5), ..Default::default() };
    let mut trainer = Trainer::new(&train_data, Some(&held), &objective, settings.clone()).unwrap();
    while trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
    let aucs: Vec<f64> = trainer.history().iter().map(|epoch| epoch.validation_auc.unwrap()).collect();
    let best = trainer.best_epoch().unwrap();
    assert!(aucs.len() < 200 && aucs.len() == best + 5);
    let largest = aucs.iter().copied().fold(0.0, f64::max);
    assert_eq!(aucs.iter().position(|auc| *auc >= largest).unwrap() + 1, best);
    let model = trainer.into_model(names()).unwrap();
    let probabilities = model.probabilities(held.features().clone()).unwrap();
    let scores = Scores::of(probabilities.view(), held.targets(), None).unwrap();
    assert!((scores.auc.unwrap() - largest).abs() < 1e-15);
    assert!(Trainer::new(&train_data, None, &objective, settings).is_err());
}

#[test]
fn divergence_has_a_name_and_a_place() {
    let data = data(40, 5, 10);
    let objective = Objective::cross_entropy(LABELS);
    let settings = TrainSettings {
        optimizer: Optimizer::Sgd { momentum: 0.0 },
        learning_rate: 1e38,
        reduction: Reduction::Sum,
        ..Default::default()
    };
    let mut trainer = Trainer::new(&data, None, &objective, settings).unwrap();
    let error = loop {
        match trainer.epoch(&Interrupt::default(), |_, _| ()) {
            Ok(epoch) => assert!(epoch.is_some(), "it did not diverge"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, Error::Diverged { .. }) && error.to_string().contains("smaller learning rate"),
        "{error}"
    );
}

#[test]
fn an_interrupt_ends_an_epoch() {
    let data = data(40, 5, 11);
    let objective = Objective::cross_entropy(LABELS);
    let mut trainer =
        Trainer::new(&data, None, &objective, TrainSettings { batch: 10, ..Default::default() }).unwrap();
    let interrupt = Interrupt::default();
    let mut seen = 0;
    let found = trainer.epoch(&interrupt, |done, all| {
        assert_eq!(all, 4);
        seen = done;
        if done == 2 {
            interrupt.raise();
        }
    });
    assert!(found.unwrap().is_none() && seen == 2 && trainer.history().is_empty());
}

#[test]
fn transported_targets_solve_their_problem() {
    // γ_q minimizes ⟨C, γ⟩ + τ KL(γ ‖ 1): no other distribution over labels costs less.
    let (vectors, tau) = (vectors(), 0.3);
    let soft =
        SoftTargets::transported(&vectors, &Grouping::none(4), &MetricSet::W2, 1.0, tau, None).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    for q in 0..LABELS {
        let cost = |p: usize| {
            let apart = &vectors.row(p) - &vectors.row(q);
            apart.dot(&apart)
        };
        let value = |mass: &[f64]| {
            mass.iter().enumerate().map(|(p, m)| m * cost(p) + tau * (m * m.ln() - m)).sum::<f64>()
        };
        let found: Vec<f64> = soft.target(LABELS, &[q]).iter().map(|x| f64::from(*x)).collect();
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        for _ in 0..20 {
            let mut other: Vec<f64> = found.iter().map(|m| m * (0.3 * rng.random::<f64>()).exp()).collect();
            let sum: f64 = other.iter().sum();
            other.iter_mut().for_each(|m| *m /= sum);
            assert!(value(&other) >= value(&found) - 1e-6);
        }
    }
    // At nearly zero temperature all mass stays where it is, and several labels share it.
    let cold =
        SoftTargets::transported(&vectors, &Grouping::none(4), &MetricSet::W2, 0.5, 1e-6, None).unwrap();
    assert_eq!(cold.target(3.max(LABELS), &[1, 4]), SoftTargets::hard().target(LABELS, &[1, 4]));
}

#[test]
fn the_robust_metric_of_transported_targets_is_worst_for_where_they_go() {
    let (vectors, tau, set) = (vectors(), 0.2, MetricSet::P { k: 1 });
    let frequencies = Array1::from_vec(vec![5.0, 1.0, 1.0, 2.0, 1.0, 1.0]);
    let soft =
        SoftTargets::transported(&vectors, &Grouping::none(4), &set, 1.0, tau, Some(&frequencies)).unwrap();
    let share = &frequencies / frequencies.sum();
    let mut moment = Array2::zeros((4, 4));
    for q in 0..LABELS {
        for (p, mass) in soft.target(LABELS, &[q]).iter().enumerate() {
            let apart = (&vectors.row(p) - &vectors.row(q)).insert_axis(Axis(1));
            moment = moment + apart.dot(&apart.t()) * (share[q] * f64::from(*mass));
        }
    }
    let metric = set.worst_case(&moment).unwrap().metric;
    for q in 0..LABELS {
        let powers: Array1<f64> = (0..LABELS)
            .map(|p| {
                let apart = &vectors.row(p) - &vectors.row(q);
                (-apart.dot(&metric.dot(&apart)) / tau).exp()
            })
            .collect();
        let wanted = &powers / powers.sum();
        for (found, wanted) in soft.target(LABELS, &[q]).iter().zip(&wanted) {
            assert!((f64::from(*found) - wanted).abs() < 1e-4, "{found} is not {wanted}");
        }
    }
}

#[test]
fn a_model_file_gives_the_model_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let mut data = data(40, 5, 13);
    let raw = data.features().clone();
    let preprocessing = Preprocessing {
        standardization: Some(Standardization::of(&raw)),
        row_length: Some(RowLength::new(3.0).unwrap()),
    };
    assert_eq!(data.preprocess(&preprocessing).unwrap(), 0);
    let mut model = train(&data, &Objective::binary(LABELS), &TrainSettings::default());
    model.preprocessing = preprocessing;
    model.label_vectors = Some(vectors());
    model.about.robust =
        Some(LossSettings { set: MetricSet::Rkp { rho: f64::INFINITY }, ..Default::default() });
    model.about.loss = "rkp".into();
    model.save(&path).unwrap();
    let found = Model::load(&path).unwrap();
    assert_eq!(found, model);
    assert_eq!(found.output(), Output::Sigmoid);
    // Raw features are preprocessed; preprocessed ones are not.
    assert_eq!(
        found.probabilities(raw).unwrap(),
        model.probabilities_of_preprocessed(data.features()).unwrap()
    );
    let narrow = found.probabilities(Features::Dense(array![[1.0, 2.0]])).unwrap_err().to_string();
    assert!(narrow.contains("5 columns wide, as in training, but is 2 wide"), "{narrow}");
}

#[test]
fn samples_per_class_are_random_disjoint_and_refused_where_rows_are_too_few() {
    let targets = Targets::new(3, (0..30).map(|row| [row % 3])).unwrap();
    let (chosen, left) = sample_per_class(&targets, 4, 1).unwrap();
    for label in 0..3 {
        assert_eq!(chosen.iter().filter(|row| targets.row(**row) == [label]).count(), 4);
    }
    let mut all = [chosen.clone(), left].concat();
    all.sort_unstable();
    assert_eq!(all, (0..30).collect::<Vec<_>>());
    assert_ne!(chosen, sample_per_class(&targets, 4, 2).unwrap().0);
    assert!(
        sample_per_class(&targets, 11, 1)
            .unwrap_err()
            .to_string()
            .contains("from 1 to the 10 rows of label 0")
    );
    let many = Targets::new(3, [vec![0], vec![1, 2]]).unwrap();
    assert!(sample_per_class(&many, 1, 1).unwrap_err().to_string().contains("have one label"));
}
