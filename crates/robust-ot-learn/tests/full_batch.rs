//! Fits over all rows at once: optimality conditions and closed forms, computed here in double precision.

use ndarray::{Array1, Array2, Axis, array};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;
use robust_ot_learn::data::{Features, Sparse};
use robust_ot_learn::{
    Columns, Criterion, Dataset, FitEvent, FitSettings, Fitted, FullFit, LossName, Method, Model, Optimizer,
    Preparation, PriorChoice, PriorGeometry, Samples, StreamingFit, Tried,
};

type Change = fn(&mut FitSettings);

const TEMPERATURE: f64 = 0.7;
const FREE: f64 = 0.4;

/// By what candidates are compared.
fn sum(tried: &Tried) -> f64 {
    Criterion::Rank.of(&tried.scores())
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|label| format!("label {label}")).collect()
}

/// Rows whose labels depend on them; the last of `labels` labels has no row.
fn data(rows: usize, features: usize, labels: usize, seed: u64) -> (Array2<f32>, Vec<Vec<usize>>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let x = Array2::from_shape_simple_fn((rows, features), || rng.random_range(-1.0..1.0_f32) + 0.3);
    let truth = x.outer_iter().enumerate().map(|(row, x)| {
        let second = usize::from(x[0] > 0.3) + 2 * usize::from(x[1] > 0.3);
        let mut of_row = vec![row % (labels - 1), second % (labels - 1)];
        of_row.sort_unstable();
        of_row.dedup();
        of_row
    });
    let truth = truth.collect();
    (x, truth)
}

fn vectors(labels: usize) -> Array2<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(99);
    let mut vectors = Array2::from_shape_simple_fn((labels, 4), || rng.random_range(-1.0..1.0_f64));
    vectors.outer_iter_mut().for_each(|mut row| {
        let length = row.dot(&row).sqrt();
        row /= length;
    });
    vectors
}

fn fixed(loss: LossName, geometry: PriorGeometry) -> FitSettings {
    let (temperature, free) =
        if geometry == PriorGeometry::None { (None, None) } else { (Some(TEMPERATURE), Some(FREE)) };
    let mut settings = FitSettings { validation: Some(0.0), ..FitSettings::default() };
    settings.loss.name = Some(loss);
    settings.prior = PriorChoice { geometry: Some(geometry), temperature, free, l2: Some(0.8) };
    settings.preparation =
        Preparation { columns_stated: true, row_length_stated: true, ..Preparation::default() };
    settings
}

fn fit(
    settings: &FitSettings,
    x: Features,
    truth: &[Vec<usize>],
    vectors: Option<Array2<f64>>,
    labels: usize,
) -> Fitted {
    let train = Dataset::new(x, Targets::new(labels, truth).unwrap()).unwrap();
    let samples = Samples { label_vectors: vectors, ..Samples::new(train, names(labels)) };
    settings.fit(samples).unwrap()
}

/// K of labels, with the center of the labels before the last, by its definition.
fn kernel(vectors: &Array2<f64>) -> Array2<f64> {
    let seen = vectors.nrows() - 1;
    let mean = vectors.slice(ndarray::s![..seen, ..]).mean_axis(Axis(0)).unwrap();
    let unit: Vec<Array1<f64>> = vectors
        .outer_iter()
        .map(|row| {
            let moved = &row - &mean;
            let length = moved.dot(&moved).sqrt();
            moved / length
        })
        .collect();
    Array2::from_shape_fn((seen + 1, seen + 1), |(p, q)| {
        let moved = &unit[p] - &unit[q];
        let own = if p == q { FREE } else { 0.0 };
        ((-moved.dot(&moved) / TEMPERATURE).exp() + own) / (1.0 + FREE)
    })
}

/// A⁻¹ B by Gauss-Jordan elimination with pivots.
fn solve(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let (mut a, mut b) = (a.clone(), b.clone());
    let n = a.nrows();
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| a[[*i, k]].abs().total_cmp(&a[[*j, k]].abs())).unwrap();
        for column in 0..n {
            a.swap([k, column], [pivot, column]);
        }
        for column in 0..b.ncols() {
            b.swap([k, column], [pivot, column]);
        }
        let scale = a[[k, k]];
        a.row_mut(k).mapv_inplace(|x| x / scale);
        b.row_mut(k).mapv_inplace(|x| x / scale);
        for row in (0..n).filter(|row| *row != k) {
            let factor = a[[row, k]];
            let (of_a, of_b) = (a.row(k).to_owned(), b.row(k).to_owned());
            a.row_mut(row).scaled_add(-factor, &of_a);
            b.row_mut(row).scaled_add(-factor, &of_b);
        }
    }
    b
}

/// Xᵀ G and 1ᵀ G, for the derivatives G of the loss by the logits.
fn gradients(
    model: &Model,
    x: &Array2<f32>,
    truth: &[Vec<usize>],
    loss: LossName,
) -> (Array2<f64>, Array1<f64>) {
    let x = x.mapv(f64::from);
    let bias = Array1::from(model.bias().unwrap().to_vec()).mapv(f64::from);
    let mut g = x.dot(&model.weights().mapv(f64::from)) + &bias;
    for (mut row, labels) in g.outer_iter_mut().zip(truth) {
        match loss {
            LossName::CrossEntropy => {
                let top = row.fold(f64::NEG_INFINITY, |top, z| top.max(*z));
                row.mapv_inplace(|z| (z - top).exp());
                let sum = row.sum();
                row /= sum;
                labels.iter().for_each(|label| row[*label] -= 1.0 / labels.len() as f64);
            }
            LossName::BinaryCrossEntropy => {
                row.mapv_inplace(|z| 1.0 / (1.0 + (-z).exp()));
                labels.iter().for_each(|label| row[*label] -= 1.0);
            }
            _ => labels.iter().for_each(|label| row[*label] -= 1.0),
        }
    }
    (x.t().dot(&g), g.sum_axis(Axis(0)))
}

#[test]
fn weights_are_stationary_points_of_the_penalized_loss() {
    let labels = 5;
    let (x, truth) = data(60, 6, labels, 1);
    let kernel = kernel(&vectors(labels));
    let seen: Vec<usize> = (0..labels - 1).collect();
    for loss in [LossName::BinaryCrossEntropy, LossName::CrossEntropy, LossName::Square] {
        let settings = fixed(loss, PriorGeometry::Names);
        let Fitted { model, .. } =
            fit(&settings, Features::Dense(x.clone()), &truth, Some(vectors(labels)), labels);
        assert!(model.about.gap.unwrap() < 1e-6, "{loss}: {:?}", model.about.gap);
        // λ W K⁻¹ over all labels: minus the gradient of the loss for labels with rows, zero for the one without.
        let pull = solve(&kernel, &model.weights().mapv(f64::from).t().to_owned()).t().to_owned() * 0.8;
        let without = Model::new(
            model.weights().select(Axis(1), &seen),
            Some(model.bias().unwrap()[..labels - 1].to_vec()),
            model.output(),
            names(labels - 1),
        );
        let (of_weights, of_bias) = gradients(&without.unwrap(), &x, &truth, loss);
        let scale = of_weights.iter().fold(0.0_f64, |top, g| top.max(g.abs()));
        for ((row, label), force) in pull.indexed_iter() {
            let gradient = if label < labels - 1 { of_weights[[row, label]] } else { 0.0 };
            assert!((force + gradient).abs() < 5e-3 * scale, "{loss} {row} {label}: {force} {gradient}");
        }
        assert!(of_bias.iter().all(|g| g.abs() < 5e-3 * scale), "{loss}: {of_bias}");
    }
}

#[test]
fn squares_without_a_prior_are_ridge_regression() {
    let labels = 4;
    let (x, truth) = data(40, 5, labels, 2);
    let settings = fixed(LossName::Square, PriorGeometry::None);
    let truth: Vec<Vec<usize>> = truth;
    let model = fit(&settings, Features::Dense(x.clone()), &truth, None, labels).model;
    let x = x.mapv(f64::from);
    let mut y = Array2::<f64>::zeros((40, labels));
    truth.iter().enumerate().for_each(|(row, labels)| labels.iter().for_each(|label| y[[row, *label]] = 1.0));
    let (x_mean, y_mean) = (x.mean_axis(Axis(0)).unwrap(), y.mean_axis(Axis(0)).unwrap());
    let (centered, y) = (&x - &x_mean, &y - &y_mean);
    let moments = centered.t().dot(&centered) + 0.8 * Array2::<f64>::eye(5);
    let weights = solve(&moments, &centered.t().dot(&y));
    let bias = &y_mean - &x_mean.dot(&weights);
    for ((row, label), found) in model.weights().indexed_iter().filter(|((_, label), _)| *label < labels - 1)
    {
        assert!((f64::from(*found) - weights[[row, label]]).abs() < 1e-5, "{row} {label}");
        assert!((f64::from(model.bias().unwrap()[label]) - bias[label]).abs() < 1e-5, "{label}");
    }
}

#[test]
fn sparse_rows_give_the_same_model() {
    let (x, truth) = data(50, 6, 4, 3);
    let x = x.mapv(|x| if x > 0.4 { x } else { 0.0 });
    let mut sparse = Sparse::empty(6);
    for row in x.outer_iter() {
        let places: Vec<u32> = (0..6).filter(|place| row[*place as usize] != 0.0).collect();
        let values: Vec<f32> = places.iter().map(|place| row[*place as usize]).collect();
        sparse.push(&places, &values).unwrap();
    }
    let settings = fixed(LossName::BinaryCrossEntropy, PriorGeometry::Rows);
    let [dense, sparse] = [Features::Dense(x), Features::Sparse(sparse)]
        .map(|features| fit(&settings, features, &truth, None, 4).model);
    for (x, y) in dense.weights().iter().zip(sparse.weights()) {
        assert!((x - y).abs() < 2e-3, "{x} {y}");
    }
}

#[test]
fn a_label_added_later_has_the_weights_of_one_known_before() {
    let labels = 5;
    let (x, truth) = data(60, 6, labels, 4);
    let settings = fixed(LossName::BinaryCrossEntropy, PriorGeometry::Names);
    let all = vectors(labels);
    let whole = fit(&settings, Features::Dense(x.clone()), &truth, Some(all.clone()), labels).model;
    let known = all.select(Axis(0), &[0, 1, 2, 3]);
    let mut model = fit(&settings, Features::Dense(x), &truth, Some(known), labels - 1).model;
    assert_eq!(model.about.label_rows.len(), labels - 1);
    model.extend(vec!["label 4".into()], &all.select(Axis(0), &[4])).unwrap();
    assert_eq!(
        (model.label_names(), &model.about.label_rows),
        (whole.label_names(), &whole.about.label_rows)
    );
    for (x, y) in model.weights().iter().zip(whole.weights()) {
        assert!((x - y).abs() < 1e-6, "{x} {y}");
    }
    assert_eq!(model.bias().unwrap(), whole.bias().unwrap());
    assert!(model.is_seen(3) && !model.is_seen(4));
    // A model is written and read with everything that extends it further.
    assert_eq!(Model::from_bytes(&model.to_bytes().unwrap()).unwrap(), model);
    let again = model.extend(vec!["label 4".into()], &all.select(Axis(0), &[4])).unwrap_err().to_string();
    assert!(again.contains("label 4"), "{again}");
    let zero = model.extend(vec!["new".into()], &Array2::zeros((1, 4))).unwrap_err().to_string();
    assert!(zero.contains("'new' has none"), "{zero}");
    let short = model.extend(vec!["new".into()], &array![[1.0]]).unwrap_err().to_string();
    assert!(short.contains("1 × 4") && short.contains("1 × 1"), "{short}");
}

#[test]
fn the_choice_is_the_same_for_any_number_of_threads() {
    let (x, truth) = data(120, 6, 5, 5);
    let fitted = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (x, truth) = (Features::Dense(x.clone()), truth.clone());
        pool.install(|| {
            fit(&FitSettings::default(), x, &truth, Some(vectors(5)), 5).model.to_bytes().unwrap()
        })
    };
    assert!(fitted(1) == fitted(3));
}

#[test]
fn what_is_chosen_is_the_best_candidate() {
    let (x, truth) = data(200, 6, 5, 6);
    let Fitted { model, notes, .. } =
        fit(&FitSettings::default(), Features::Dense(x.clone()), &truth, Some(vectors(5)), 5);
    assert!(notes.is_empty(), "{notes:?}");
    let about = &model.about;
    let best = about.tried.iter().map(sum).fold(0.0, f64::max);
    let chosen = about.tried.iter().find(|tried| sum(tried) >= best).unwrap();
    assert_eq!(
        (chosen.loss.as_str(), Some(chosen.prior), Some(chosen.l2)),
        (about.loss.as_str(), about.prior, about.l2)
    );
    assert_eq!(chosen.row_length, model.preprocessing.row_length);
    for geometry in [PriorGeometry::None, PriorGeometry::Names, PriorGeometry::Rows, PriorGeometry::Both] {
        assert!(about.tried.iter().any(|tried| tried.prior.geometry == geometry), "{geometry}");
    }
    // What is stated is not varied.
    let mut settings = FitSettings {
        prior: PriorChoice { geometry: Some(PriorGeometry::Rows), l2: Some(2.0), ..PriorChoice::default() },
        preparation: Preparation {
            columns: Columns::Standardize,
            columns_stated: true,
            ..Preparation::default()
        },
        ..FitSettings::default()
    };
    settings.loss.name = Some(LossName::Square);
    let about = fit(&settings, Features::Dense(x), &truth, None, 5).model.about;
    assert_eq!(
        (about.prior.unwrap().geometry, about.l2, about.loss.as_str()),
        (PriorGeometry::Rows, Some(2.0), "square")
    );
    assert!(about.tried.iter().all(|tried| tried.columns == "standardize" && tried.loss == "square"));
    assert!(about.calibration.is_some());
}

#[test]
fn few_rows_are_not_held_out() {
    let (x, truth) = data(10, 3, 4, 7);
    for (vectors, geometry) in [(None, PriorGeometry::Rows), (Some(vectors(4)), PriorGeometry::Both)] {
        let features = Features::Dense(x.clone());
        let Fitted { model, notes, .. } = fit(&FitSettings::default(), features, &truth, vectors, 4);
        assert!(model.about.tried.is_empty());
        assert_eq!(model.about.prior.map(|prior| prior.geometry), Some(geometry));
        assert!(notes[0].contains("too few rows per label"), "{notes:?}");
    }
}

#[test]
fn a_fit_interrupted_while_it_minimizes_keeps_its_last_iteration() {
    let (x, truth) = data(100, 6, 5, 8);
    let train = Dataset::new(Features::Dense(x.clone()), Targets::new(5, &truth).unwrap()).unwrap();
    let run = |stop: usize| {
        let mut settings = FitSettings::default();
        settings.loss.name = Some(LossName::CrossEntropy);
        let fit = FullFit::new(&settings, Samples::new(train.clone(), names(5))).unwrap();
        let interrupt = Interrupt::default();
        let found = fit.run(&interrupt, &mut |event| match event {
            FitEvent::Iteration(epoch) if epoch.epoch == stop => interrupt.raise(),
            _ => (),
        });
        found.unwrap().unwrap()
    };
    let (early, whole) = (run(1), run(usize::MAX));
    assert!(whole.history.len() > 1, "{}", whole.history.len());
    assert!(early.model.about.interrupted && !whole.model.about.interrupted);
    assert_eq!((early.history.len(), early.model.about.epochs), (1, 1));
    assert_eq!(early.history[0].loss.to_bits(), whole.history[0].loss.to_bits());
    assert!(early.model.about.gap > whole.model.about.gap);
    // The choices were made, and the weights are on their way.
    assert_eq!(early.model.about.tried.len(), whole.model.about.tried.len());
    let right = |fitted: &Fitted| {
        let probabilities = fitted.model.probabilities(Features::Dense(x.clone())).unwrap();
        robust_ot_learn::score::accuracy(probabilities.view(), &Targets::new(5, &truth).unwrap()).unwrap()
    };
    assert!(right(&early) > 0.5 && right(&early) <= right(&whole), "{} {}", right(&early), right(&whole));
    // A file says so, and one without the mark is of a whole run.
    let copy = Model::from_bytes(&early.model.to_bytes().unwrap()).unwrap();
    assert!(copy.about.interrupted);
}

#[test]
fn a_fit_interrupted_while_it_chooses_returns_nothing() {
    let (x, truth) = data(100, 6, 5, 8);
    let train = Dataset::new(Features::Dense(x), Targets::new(5, &truth).unwrap()).unwrap();
    let fit = FullFit::new(&FitSettings::default(), Samples::new(train, names(5))).unwrap();
    let interrupt = Interrupt::default();
    let mut tried = 0;
    let found = fit.run(&interrupt, &mut |event| {
        if let FitEvent::Tried(_) = event {
            tried += 1;
            if tried == 3 {
                interrupt.raise();
            }
        }
    });
    assert!(found.unwrap().is_none());
    assert_eq!(tried, 3);
}

#[test]
fn settings_of_the_other_method_are_refused() {
    let with = |change: Change| {
        let mut settings = FitSettings::default();
        change(&mut settings);
        settings
    };
    let refused: [(Change, &str); 8] = [
        (|s| s.prior.l2 = Some(0.0), "l2 must be positive and finite, but is 0"),
        (|s| s.prior.l2 = Some(f64::NAN), "l2 must be positive and finite, but is NaN"),
        (|s| s.prior.free = Some(-1.0), "prior_free must be finite and not negative, but is -1"),
        (
            |s| s.prior.temperature = Some(f64::INFINITY),
            "prior_temperature must be positive and finite, but is inf",
        ),
        (
            |s| {
                s.prior.geometry = Some(PriorGeometry::None);
                s.prior.free = Some(0.5);
            },
            "prior_free must go with a prior, but the prior is none",
        ),
        (
            |s| {
                s.training.optimizer = Some(Optimizer::Adam);
                s.prior.l2 = Some(1.0);
            },
            "l2 must go with the optimizer lbfgs, but training takes stochastic steps",
        ),
        (
            |s| {
                s.training.method = Some(Method::FullBatch);
                s.training.epochs = Some(3);
            },
            "epochs must go with the optimizer adam, adamw or sgd, but it is lbfgs",
        ),
        (
            |s| {
                s.training.epochs = Some(3);
                s.loss.name = Some(LossName::Square);
            },
            "loss must be another than square with stochastic steps, but it is square",
        ),
    ];
    for (change, message) in refused {
        assert_eq!(with(change).check().unwrap_err().to_string(), message);
    }
    let (x, truth) = data(60, 3, 4, 9);
    let train = Dataset::new(Features::Dense(x), Targets::new(4, &truth).unwrap()).unwrap();
    let samples = Samples::new(train, names(4));
    let without = with(|s| s.prior.geometry = Some(PriorGeometry::Names)).fit(samples.clone()).unwrap_err();
    assert_eq!(
        without.to_string(),
        "label_prior must be none or rows without label vectors, but it is names"
    );
    let streamed = StreamingFit::new(&with(|s| s.prior.l2 = Some(1.0)), samples.clone()).unwrap_err();
    assert!(streamed.to_string().contains("where rows arrive in parts"), "{streamed}");
    let small = with(|s| s.memory = robust_ot_learn::Memory(10));
    let refused = FullFit::new(&small, samples.clone()).unwrap_err().to_string();
    assert!(refused.contains("adam takes a sixth"), "{refused}");
    // Nobody asked for all rows at once: a model that does not fit is trained in steps.
    assert_eq!(small.method_for(&samples.train).0, Method::Stochastic);
}

#[test]
fn methods_follow_from_what_is_given() {
    let method = |change: Change| {
        let mut settings = FitSettings::default();
        change(&mut settings);
        settings.method()
    };
    assert_eq!(method(|_| ()), Method::FullBatch);
    assert_eq!(method(|s| s.loss.name = Some(LossName::CrossEntropy)), Method::FullBatch);
    assert_eq!(method(|s| s.loss.name = Some(LossName::Mix)), Method::Stochastic);
    assert_eq!(method(|s| s.loss.mix_ot = Some(2.0)), Method::Stochastic);
    assert_eq!(method(|s| s.training.batch = Some(10)), Method::Stochastic);
    assert_eq!(method(|s| s.protocol = Some(robust_ot_learn::Protocol::Paper)), Method::Stochastic);
    let both: Change = |s| {
        s.loss.name = Some(LossName::Mix);
        s.prior.geometry = Some(PriorGeometry::Rows);
    };
    assert_eq!(method(both), Method::FullBatch);
}
