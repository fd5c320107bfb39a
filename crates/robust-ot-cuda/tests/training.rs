//! Training on the GPU compared with training on the CPU.

mod common;

use common::{device, matrix, rng};
use ndarray::{Array2, array};
use rand::RngExt;
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::sets::Prior;
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Grouping, MetricSet, Result};
use robust_ot_cuda::{Device, Precision, Training, logits, product_rounding};
use robust_ot_learn::data::{Features, Sparse};
use robust_ot_learn::{
    Dataset, Model, Objective, Optimizer, Reduction, Schedule, SoftTargets, TrainSettings, Trainer,
};

const ROWS: usize = 70;
const FEATURES: usize = 13;
const LABELS: usize = 37;
const DIM: usize = 12;

/// Rows with up to `most` labels.
fn data(most: usize, seed: u64) -> Dataset {
    let mut rng = rng(seed);
    let features = matrix(ROWS, FEATURES, seed + 1).mapv(|x| x as f32);
    let rows = (0..ROWS).map(|_| {
        let count = rng.random_range(1..=most);
        let mut labels: Vec<usize> = (0..LABELS).collect();
        (0..count).map(|_| labels.swap_remove(rng.random_range(0..labels.len()))).collect::<Vec<_>>()
    });
    Dataset::new(Features::Dense(features), Targets::new(LABELS, rows).unwrap()).unwrap()
}

fn settings(optimizer: Optimizer) -> TrainSettings {
    TrainSettings { optimizer, learning_rate: 0.05, batch: 16, epochs: 3, ..Default::default() }
}

fn robust(set: MetricSet, seed: u64, settings: LossSettings) -> RobustLoss<f32> {
    let grouping = Grouping::random(DIM, 4, seed).unwrap();
    RobustLoss::new(&matrix(LABELS, DIM, seed), &grouping, LossSettings { set, ..settings }).unwrap()
}

/// Runs all epochs, on the GPU if one is given.
fn train(
    data: &Dataset,
    objective: &Objective,
    settings: &TrainSettings,
    on: Option<(&Device, bool)>,
) -> Result<(Model, Vec<f64>)> {
    let mut trainer = Trainer::new(data, None, objective, settings.clone())?;
    if let Some((device, streamed)) = on {
        let engine = if streamed {
            Training::streamed(device, data, objective, settings, Precision::F32)?
        } else {
            Training::new(device, data, objective, settings, Precision::F32)?
        };
        assert_eq!(engine.is_streamed(), streamed);
        trainer = trainer.with_engine(Box::new(engine))?;
    }
    let mut losses = Vec::new();
    while let Some(epoch) = trainer.epoch(&Interrupt::default(), |_, _| ())? {
        losses.push(epoch.loss);
    }
    let names = (0..objective.labels()).map(|label| label.to_string()).collect();
    Ok((trainer.into_model(names)?, losses))
}

fn close(found: &Array2<f32>, wanted: &Array2<f32>, tolerance: f64, what: &str) {
    let norm = |array: &Array2<f32>| array.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let error = norm(&(found - wanted)) / norm(wanted);
    assert!(error <= tolerance, "{what}: relative error {error:e}");
}

fn compare(device: &Device, data: &Dataset, objective: &Objective, settings: &TrainSettings, what: &str) {
    let (wanted, wanted_losses) = train(data, objective, settings, None).unwrap();
    let (found, losses) = train(data, objective, settings, Some((device, false))).unwrap();
    close(&found.weights().to_owned(), &wanted.weights().to_owned(), 1e-4, what);
    for (found, wanted) in losses.iter().zip(&wanted_losses) {
        assert!((found - wanted).abs() <= 1e-4 * wanted.abs(), "{what}: loss {found}, not {wanted}");
    }
    let (again, _) = train(data, objective, settings, Some((device, false))).unwrap();
    assert_eq!(found.weights(), again.weights(), "{what}: two runs differ");
    let (streamed, _) = train(data, objective, settings, Some((device, true))).unwrap();
    assert_eq!(found.weights(), streamed.weights(), "{what}: streamed rows differ");
}

fn sets() -> Vec<MetricSet> {
    let prior = Prior::Matrix(array![
        [1.0, 0.2, 0.0, 0.1],
        [0.2, 1.0, 0.3, 0.0],
        [0.0, 0.3, 1.0, 0.0],
        [0.1, 0.0, 0.0, 1.0]
    ]);
    vec![
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::P { k: 3 },
        MetricSet::PPower { k: 1 },
        MetricSet::PPower { k: 2 },
        MetricSet::Kl { lambda: 2.0, prior: Prior::Eye },
        MetricSet::Kl { lambda: 2.0, prior: prior.clone() },
        MetricSet::Ds { lambda: 0.5, prior: Prior::Ones },
        MetricSet::Ds { lambda: 1.0, prior },
        MetricSet::Features { lambda: 0.3 },
    ]
}

#[test]
fn every_set_trains_as_on_the_processor() {
    let Some(device) = device("training") else { return };
    for (seed, set) in sets().into_iter().enumerate() {
        for most in [1, 5, 12] {
            let data = data(most, seed as u64);
            let settings_of_loss =
                LossSettings { entropy: 0.1, oracle_entropy: Some(0.3), ..LossSettings::truncated() };
            let objective =
                Objective::mix(1.0, 2.0, robust(set.clone(), seed as u64, settings_of_loss)).unwrap();
            let optimizer =
                [Optimizer::Adam, Optimizer::Sgd { momentum: 0.0 }, Optimizer::Sgd { momentum: 0.9 }]
                    [seed % 3];
            compare(
                &device,
                &data,
                &objective,
                &settings(optimizer),
                &format!("{set:?}, up to {most} labels, {optimizer}"),
            );
        }
    }
}

#[test]
fn little_that_moves_is_seen_as_on_the_processor() {
    let Some(device) = device("little moves") else { return };
    // Every label is true, and ten iterations leave nearly all mass in place.
    let features = matrix(ROWS, FEATURES, 5).mapv(|x| x as f32);
    let targets = Targets::new(3, vec![vec![0, 1, 2]; ROWS]).unwrap();
    let data = Dataset::new(Features::Dense(features), targets).unwrap();
    for set in [MetricSet::P { k: 1 }, MetricSet::P { k: 3 }, MetricSet::Features { lambda: 0.3 }] {
        let loss = LossSettings { set: set.clone(), ..LossSettings::truncated() };
        let robust = RobustLoss::new(&matrix(3, 4, 6), &Grouping::none(4), loss).unwrap();
        let objective = Objective::mix(1.0, 5.0, robust).unwrap();
        let settings = TrainSettings { epochs: 10, ..settings(Optimizer::Sgd { momentum: 0.9 }) };
        compare(&device, &data, &objective, &settings, &format!("{set}, every label true"));
    }
}

#[test]
fn sinkhorn_to_a_tolerance_is_that_of_the_processor() {
    let Some(device) = device("tolerance") else { return };
    for most in [4, 12] {
        let loss = LossSettings {
            entropy: 0.05,
            frank_wolfe: 1,
            sinkhorn: 100,
            tolerance: 1e-4,
            ..Default::default()
        };
        let objective = Objective::mix(0.5, 1.0, robust(MetricSet::P { k: 1 }, 3, loss)).unwrap();
        compare(
            &device,
            &data(most, 9),
            &objective,
            &settings(Optimizer::Sgd { momentum: 0.0 }),
            "to a tolerance",
        );
    }
}

#[test]
fn other_losses_and_settings_agree() {
    let Some(device) = device("other losses") else { return };
    let data = data(4, 5);
    let soft = SoftTargets::transported(
        &matrix(LABELS, DIM, 2),
        &Grouping::none(DIM),
        &MetricSet::W2,
        0.4,
        0.3,
        None,
    )
    .unwrap();
    let soft = soft.with_smoothing(0.1).unwrap();
    let plain = TrainSettings {
        bias: false,
        reduction: Reduction::Sum,
        schedule: Schedule::Cosine,
        weight_decay: 0.01,
        start: 0.3,
        learning_rate: 0.01,
        ..settings(Optimizer::Adam)
    };
    for objective in [Objective::cross_entropy(LABELS), Objective::binary(LABELS)] {
        for objective in [objective.clone(), objective.with_targets(soft.clone())] {
            compare(&device, &data, &objective, &plain, "plain");
            compare(&device, &data, &objective, &settings(Optimizer::Adam), "with a bias");
        }
    }
    let with_soft =
        Objective::mix(1.0, 1.0, robust(MetricSet::P { k: 1 }, 1, LossSettings::truncated())).unwrap();
    compare(
        &device,
        &data,
        &with_soft.with_targets(soft),
        &settings(Optimizer::Adam),
        "mix with soft targets",
    );
}

#[test]
fn sparse_rows_are_dense_rows() {
    let Some(device) = device("sparse") else { return };
    let dense = data(3, 6);
    let Features::Dense(numbers) = dense.features() else { unreachable!() };
    let numbers = numbers.mapv(|x| if x.abs() < 0.5 { 0.0 } else { x });
    let mut sparse = Sparse::empty(FEATURES);
    for row in numbers.outer_iter() {
        let kept: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).filter(|(_, x)| *x != 0.0).collect();
        let (indices, values): (Vec<u32>, Vec<f32>) = kept.into_iter().unzip();
        sparse.push(&indices, &values).unwrap();
    }
    let objective = Objective::cross_entropy(LABELS);
    let run = |features: Features, streamed| {
        let data = Dataset::new(features, dense.targets().clone()).unwrap();
        train(&data, &objective, &settings(Optimizer::Adam), Some((&device, streamed))).unwrap().0
    };
    let wanted = run(Features::Dense(numbers.clone()), false);
    for streamed in [false, true] {
        assert_eq!(run(Features::Sparse(sparse.clone()), streamed).weights(), wanted.weights());
    }
    let by_card = logits(&device, &Features::Sparse(sparse), wanted.weights(), wanted.bias()).unwrap();
    close(&by_card, &wanted.logits(Features::Dense(numbers)).unwrap(), 1e-5, "logits");
}

#[test]
fn validation_and_checkpoints_go_through_the_card() {
    let Some(device) = device("validation") else { return };
    let (train, held) = data(3, 7).split(0.3, 1).unwrap();
    let objective = Objective::cross_entropy(LABELS);
    let settings = settings(Optimizer::Adam);
    let begin = || {
        let engine = Training::new(&device, &train, &objective, &settings, Precision::F32).unwrap();
        let trainer = Trainer::new(&train, Some(&held), &objective, settings.clone()).unwrap();
        trainer.with_engine(Box::new(engine)).unwrap()
    };
    let path = std::env::temp_dir().join(format!("robust-ot-cuda-{}.safetensors", std::process::id()));
    let names = || (0..LABELS).map(|label| label.to_string()).collect::<Vec<_>>();
    let mut whole = begin();
    whole.epoch(&Interrupt::default(), |_, _| ()).unwrap();
    whole.save(&path).unwrap();
    while whole.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
    let mut resumed = begin();
    resumed.restore(&path).unwrap();
    while resumed.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
    assert!(whole.history().iter().all(|epoch| epoch.validation_auc.is_some()));
    assert_eq!(whole.best_epoch(), resumed.best_epoch());
    assert_eq!(whole.into_model(names()).unwrap().weights(), resumed.into_model(names()).unwrap().weights());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_goes_wrong_is_said() {
    let Some(device) = device("what goes wrong") else { return };
    let data = data(3, 8);
    let objective = Objective::cross_entropy(LABELS);
    let optimizer = Optimizer::Sgd { momentum: 0.0 };
    let wild = TrainSettings { learning_rate: 3e38, reduction: Reduction::Sum, ..settings(optimizer) };
    let error = train(&data, &objective, &wild, Some((&device, false))).expect_err("weights overflow");
    assert!(matches!(error, Error::Diverged { epoch: 1, .. }), "{error}");
    let train_on = |robust, on| {
        let objective = Objective::mix(1.0, 1.0, robust).unwrap();
        train(&data, &objective, &settings(Optimizer::Adam), on).err()
    };
    // A λ with which training overflows on the CPU, although the labels themselves do not.
    let grouping = Grouping::random(DIM, 4, 1).unwrap();
    let loss = |lambda| {
        let set = MetricSet::Kl { lambda, prior: Prior::Eye };
        RobustLoss::new(&matrix(LABELS, DIM, 1), &grouping, LossSettings { set, ..LossSettings::truncated() })
    };
    let overflows = |lambda: &f64| {
        loss(*lambda).is_ok_and(|loss| matches!(train_on(loss, None), Some(Error::Overflow { .. })))
    };
    let lambda = (0..200).map(|step| 0.01 * 0.98_f64.powi(step)).find(overflows).expect("some λ overflows");
    let overflow =
        train_on(loss(lambda).unwrap(), Some((&device, false))).expect("it also overflows on the GPU");
    assert!(matches!(overflow, Error::Overflow { largest, .. } if largest > 600.0 * lambda), "{overflow}");
    let srw = robust(MetricSet::Srw { k: 2 }, 1, LossSettings::truncated());
    let refused = train_on(srw, Some((&device, false))).expect("srw is refused").to_string();
    assert!(refused.contains("CUDA") && refused.contains("srw"), "{refused}");
    let beyond = Device::open(Device::count(), None).unwrap_err().to_string();
    assert!(beyond.contains("below"), "{beyond}");
}

#[test]
fn too_little_memory_says_how_much_is_needed() {
    let Some(device) = device("out of memory") else { return };
    // Five lines per row, of 5000 numbers each, for all rows at once: 200 GB and more.
    let (rows, labels) = (2_000_000, 5000);
    let truth = Targets::new(labels, (0..rows).map(|row| [row % 1000, 1000, 2000, 3000, 4000])).unwrap();
    let data = Dataset::new(Features::Dense(Array2::ones((rows, 1))), truth).unwrap();
    let loss =
        RobustLoss::new(&matrix(labels, DIM, 1), &Grouping::none(DIM), LossSettings::truncated()).unwrap();
    let objective = Objective::mix(1.0, 1.0, loss).unwrap();
    let settings = TrainSettings { batch: rows, ..settings(Optimizer::Adam) };
    let engine = Training::new(&device, &data, &objective, &settings, Precision::F32).unwrap();
    let mut trainer =
        Trainer::new(&data, None, &objective, settings).unwrap().with_engine(Box::new(engine)).unwrap();
    let error = trainer.epoch(&Interrupt::default(), |_, _| ()).expect_err("it does not fit").to_string();
    drop(trainer);
    assert!(error.contains("GB") && error.contains("a smaller batch needs less"), "{error}");
    // The device remains usable.
    let small = self::data(3, 1);
    let objective = Objective::cross_entropy(LABELS);
    train(&small, &objective, &self::settings(Optimizer::Adam), Some((&device, false))).unwrap();
}

#[test]
fn an_interrupt_ends_an_epoch() {
    let Some(device) = device("interrupt") else { return };
    let data = data(3, 8);
    let (objective, settings) = (Objective::cross_entropy(LABELS), settings(Optimizer::Adam));
    let engine = Training::new(&device, &data, &objective, &settings, Precision::F32).unwrap();
    let mut trainer =
        Trainer::new(&data, None, &objective, settings).unwrap().with_engine(Box::new(engine)).unwrap();
    let interrupt = Interrupt::default();
    assert!(trainer.epoch(&interrupt, |_, _| interrupt.raise()).unwrap().is_none());
}

#[test]
fn rounded_products_train_nearly_alike() {
    let Some(device) = device("tf32") else { return };
    let data = data(3, 8);
    let (objective, settings) = (Objective::cross_entropy(LABELS), settings(Optimizer::Adam));
    let (exact, _) = train(&data, &objective, &settings, Some((&device, false))).unwrap();
    let engine = Training::new(&device, &data, &objective, &settings, Precision::Tf32).unwrap();
    let mut trainer =
        Trainer::new(&data, None, &objective, settings).unwrap().with_engine(Box::new(engine)).unwrap();
    while trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
    let rounded = trainer.into_model((0..LABELS).map(|label| label.to_string()).collect()).unwrap();
    close(&rounded.weights().to_owned(), &exact.weights().to_owned(), 2e-2, "tf32");
    let moved = product_rounding(&device, data.features(), exact.weights()).unwrap();
    assert!(moved < 1e-3, "{moved}");
}

#[test]
fn threads_share_a_card() {
    let Some(device) = device("threads") else { return };
    let data = data(3, 4);
    let objective =
        Objective::mix(1.0, 1.0, robust(MetricSet::P { k: 1 }, 1, LossSettings::truncated())).unwrap();
    let settings = settings(Optimizer::Adam);
    let (alone, _) = train(&data, &objective, &settings, Some((&device, false))).unwrap();
    std::thread::scope(|scope| {
        let work = || train(&data, &objective, &settings, Some((&device, false))).unwrap().0;
        let running: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        running.into_iter().for_each(|run| assert_eq!(run.join().unwrap().weights(), alone.weights()));
    });
}
