//! Models with a hidden layer: what they can learn, the same bits for any number of threads and after a checkpoint, files, and
//! settings that are refused.

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;
use robust_ot_learn::data::{Features, Sparse};
use robust_ot_learn::{
    Dataset, FitRun, FitSettings, HiddenChoice, HiddenSettings, Learner, LossChoice, LossName, Method, Model,
    Objective, Optimizer, PriorChoice, PriorGeometry, Protocol, Samples, StreamingFit, TrainSettings,
    TrainingChoice,
};

const LABELS: usize = 3;

/// Rows in the quadrants of a plane, among other numbers: diagonal quadrants have the same label, which no line separates.
fn quadrants(rows: usize, columns: usize) -> Samples {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let x: Array2<f32> = Array2::from_shape_simple_fn((rows, columns), || rng.random_range(-1.0..1.0));
    let truth: Vec<[usize; 1]> = x.outer_iter().map(|row| [usize::from(row[0] * row[1] > 0.0)]).collect();
    let targets = Targets::new(2, truth).unwrap();
    let names = vec!["different".into(), "same".into()];
    Samples::new(Dataset::new(Features::Dense(x), targets).unwrap(), names)
}

/// Rows with several labels, whose names have vectors.
fn tags(rows: usize, sparse: bool) -> Samples {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut number = || if rng.random_bool(0.3) { rng.random_range(0.1..1.0) } else { 0.0_f32 };
    // Wide enough that products and updates are split into several blocks.
    let x = Array2::from_shape_simple_fn((rows, 300), &mut number);
    let truth = (0..rows).map(|row| if x[[row, 0]] > 0.0 { vec![0, 1 + row % 2] } else { vec![1 + row % 2] });
    let targets = Targets::new(LABELS, truth).unwrap();
    let features = if sparse {
        let mut found = Sparse::empty(300);
        for row in x.outer_iter() {
            let places: Vec<u32> = (0..300).filter(|place| row[*place as usize] != 0.0).collect();
            let values: Vec<f32> = places.iter().map(|place| row[*place as usize]).collect();
            found.push(&places, &values).unwrap();
        }
        Features::Sparse(found)
    } else {
        Features::Dense(x)
    };
    let vectors = ndarray::array![[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]];
    let names = ["a", "b", "c"].map(String::from).to_vec();
    Samples { label_vectors: Some(vectors), ..Samples::new(Dataset::new(features, targets).unwrap(), names) }
}

fn settings(units: usize, epochs: usize) -> FitSettings {
    let loss = LossChoice { name: Some(LossName::BinaryCrossEntropy), ..LossChoice::default() };
    let hidden = HiddenChoice { units: Some(units), ..HiddenChoice::default() };
    let training = TrainingChoice { hidden, epochs: Some(epochs), ..TrainingChoice::default() };
    FitSettings { loss, training, ..FitSettings::default() }
}

fn bits(model: &Model) -> Vec<u32> {
    let layer = model.hidden().unwrap();
    let numbers =
        model.weights().into_iter().chain(model.bias().unwrap()).chain(&layer.weights).chain(&layer.bias);
    numbers.map(|x| x.to_bits()).collect()
}

#[test]
fn it_learns_what_no_linear_model_can() {
    let samples = quadrants(600, 2);
    let hit = |settings: FitSettings| {
        let model = settings.fit(samples.clone()).unwrap().model;
        let found = model.probabilities(samples.train.features().clone()).unwrap();
        let right = (0..600).filter(|&row| found[[row, samples.train.targets().row(row)[0]]] > 0.5);
        right.count() as f64 / 600.0
    };
    let mut deep = settings(64, 100);
    deep.loss.name = Some(LossName::CrossEntropy);
    deep.training.learning_rate = Some(0.01);
    let mut linear = deep.clone();
    linear.training.hidden = HiddenChoice::default();
    let (deep, linear) = (hit(deep), hit(linear));
    assert!(deep > 0.95 && linear < 0.65, "{deep} {linear}");
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for sparse in [false, true] {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| settings(200, 3).fit(tags(230, sparse)).unwrap().model)
        };
        assert_eq!(bits(&run(1)), bits(&run(3)), "sparse: {sparse}");
    }
}

#[test]
fn sparse_rows_are_dense_rows() {
    // Dropout leaves out the same numbers of both.
    let [dense, sparse] = [false, true].map(|sparse| settings(40, 3).fit(tags(230, sparse)).unwrap().model);
    for (x, y) in dense.weights().iter().zip(sparse.weights()) {
        assert!((x - y).abs() < 1e-4, "{x} {y}");
    }
}

#[test]
fn a_run_that_was_resumed_ends_where_the_other_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint.safetensors");
    for optimizer in [Optimizer::AdamW, Optimizer::Adam, Optimizer::Sgd { momentum: 0.9 }] {
        let mut settings = settings(30, 5);
        settings.training.optimizer = Some(optimizer);
        let run = FitRun::new(&settings, tags(230, false)).unwrap();
        let finished = |stop: usize| {
            let mut trainer = run.trainer().unwrap();
            for _ in 0..stop {
                trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap();
            }
            trainer.save(&path).unwrap();
            let mut trainer = run.trainer().unwrap();
            trainer.restore(&path).unwrap();
            assert_eq!(trainer.history().len(), stop);
            while trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
            run.finish(trainer).unwrap().model
        };
        let whole = bits(&finished(0));
        for stop in 1..5 {
            assert_eq!(whole, bits(&finished(stop)), "{optimizer}, stopped after {stop}");
        }
        // The checkpoint of a run with another dropout, or another prior, is of another run.
        let mut trainer = run.trainer().unwrap();
        trainer.save(&path).unwrap();
        let refusal = |settings: &FitSettings| {
            let run = FitRun::new(settings, tags(230, false)).unwrap();
            run.trainer().unwrap().restore(&path).unwrap_err().to_string()
        };
        let mut other = settings.clone();
        other.training.hidden.dropout = Some(0.25);
        assert!(refusal(&other).contains("other settings"));
        let mut other = settings.clone();
        other.prior.geometry = Some(PriorGeometry::Rows);
        assert!(refusal(&other).contains("another loss"));
        let mut other = settings.clone();
        other.training.hidden = HiddenChoice::default();
        assert!(refusal(&other).contains("hidden layer") || refusal(&other).contains("another loss"));
    }
}

#[test]
fn a_file_keeps_the_model_and_says_that_it_is_newer() {
    let model = settings(20, 2).fit(tags(230, false)).unwrap().model;
    let bytes = model.to_bytes().unwrap();
    assert_eq!(Model::from_bytes(&bytes).unwrap(), model);
    assert_eq!((model.features(), model.weights().dim()), (300, (20, LABELS)));
    let header = |bytes: &[u8], told: &str| String::from_utf8_lossy(bytes).contains(told);
    assert!(header(&bytes, "\\\"version\\\":3"));
    // Files without a hidden layer stay as they were, so that earlier programs read them.
    let mut linear = settings(20, 2);
    linear.training.hidden = HiddenChoice::default();
    assert!(header(&linear.fit(tags(230, false)).unwrap().model.to_bytes().unwrap(), "\\\"version\\\":2"));
    let HiddenSettings { units, dropout, input_dropout } = model.about.training.unwrap().hidden.unwrap();
    assert_eq!((units, dropout, input_dropout), (20, 0.5, 0.2));
    let prior = model.about.prior.unwrap();
    assert_eq!((prior.geometry, prior.temperature, prior.free), (PriorGeometry::Names, 0.5, 1.0));
}

#[test]
fn logits_are_those_of_the_formula() {
    let samples = tags(50, false);
    let model = settings(10, 2).fit(samples.clone()).unwrap().model;
    let Features::Dense(x) = samples.train.features() else { unreachable!() };
    let layer = model.hidden().unwrap();
    let hidden = (x.mapv(f64::from).dot(&layer.weights.mapv(f64::from))
        + &ndarray::Array1::from_iter(layer.bias.iter().map(|b| f64::from(*b))))
        .mapv(|h| h.max(0.0));
    let wanted = hidden.dot(&model.weights().mapv(f64::from))
        + &ndarray::Array1::from_iter(model.bias().unwrap().iter().map(|b| f64::from(*b)));
    let found = model.logits(Features::Dense(x.clone())).unwrap().mapv(f64::from);
    assert!((&found - &wanted).iter().all(|off| off.abs() < 1e-4));
    // Another device gets the outputs of the layer in place of the features.
    let by = model.probabilities_by(&Features::Dense(x.clone()), |inputs, weights, bias| {
        assert_eq!((inputs.columns(), weights.dim(), bias.unwrap().len()), (10, (10, LABELS), LABELS));
        Ok(found.mapv(|z| z as f32))
    });
    assert_eq!(by.unwrap(), model.probabilities(Features::Dense(x.clone())).unwrap());
}

#[test]
fn a_prior_between_unlike_labels_is_none() {
    let fit = |prior: PriorChoice| {
        let mut settings = settings(30, 3);
        settings.prior = prior;
        settings.fit(tags(230, false)).unwrap().model
    };
    let none = fit(PriorChoice { geometry: Some(PriorGeometry::None), ..PriorChoice::default() });
    // At a low temperature, K = I.
    let cold = fit(PriorChoice { temperature: Some(1e-3), ..PriorChoice::default() });
    for (x, y) in none.weights().iter().zip(cold.weights()) {
        assert!((x - y).abs() < 1e-3, "{x} {y}");
    }
    let usual = fit(PriorChoice::default());
    let apart = usual.weights().iter().zip(none.weights()).any(|(x, y)| (x - y).abs() > 1e-3);
    assert!(apart, "the default prior has no effect");
}

#[test]
fn rows_in_parts_and_new_labels_are_refused() {
    let told = StreamingFit::new(&settings(8, 1), tags(50, false)).unwrap_err().to_string();
    assert_eq!(told, "hidden must be absent where rows arrive in parts, but is 8");
    let hidden = Some(HiddenSettings::new(8));
    let settings_of = TrainSettings { hidden, ..TrainSettings::default() };
    let told = Learner::new(4, Objective::cross_entropy(2), settings_of).unwrap_err().to_string();
    assert_eq!(told, "hidden must be absent where rows arrive in parts, but is 8");
    let mut model = settings(8, 1).fit(tags(50, false)).unwrap().model;
    let told = model.extend(vec!["d".into()], &ndarray::array![[0.0, 1.0]]).unwrap_err().to_string();
    assert!(told.contains("be trained by lbfgs"), "{told}");
}

/// A setting that is changed.
type Change = fn(&mut FitSettings);

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let of = |change: Change| {
        let mut changed = settings(16, 2);
        change(&mut changed);
        changed.check().unwrap_err().to_string()
    };
    let cases: [(Change, &str); 9] = [
        (|s| s.training.hidden.units = Some(0), "hidden must be at least 1, but is 0"),
        (|s| s.training.hidden.dropout = Some(1.0), "dropout must be from 0 to less than 1, but is 1"),
        (|s| s.training.hidden.dropout = Some(f64::NAN), "dropout must be from 0 to less than 1, but is NaN"),
        (
            |s| s.training.hidden.input_dropout = Some(-0.1),
            "input_dropout must be from 0 to less than 1, but is -0.1",
        ),
        (
            |s| s.training.hidden = HiddenChoice { units: None, dropout: Some(0.5), input_dropout: None },
            "dropout must go with a hidden layer, but hidden is not given",
        ),
        (
            |s| s.training.method = Some(Method::FullBatch),
            "hidden must go with the optimizer adam, adamw or sgd, but it is lbfgs",
        ),
        (
            |s| s.prior.l2 = Some(2.0),
            "l2 must be auto with a hidden layer, whose prior has the strength weight_decay, but is 2",
        ),
        (
            |s| s.protocol = Some(Protocol::Paper),
            "hidden must be absent with a protocol, but the protocol is paper",
        ),
        (|s| s.prior.free = Some(-1.0), "prior_free must be finite and not negative, but is -1"),
    ];
    for (change, told) in cases {
        assert_eq!(of(change), told);
    }
}
