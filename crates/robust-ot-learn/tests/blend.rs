//! The sum of two models: chosen where it is best on held-out rows, and the sum of what each part would be alone.

use ndarray::{Array1, Array2};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot_learn::data::Features;
use robust_ot_learn::{
    BlendPart, Criterion, Dataset, FitSettings, Fitted, LossName, Model, Prior, PriorGeometry, Samples, Tried,
};

const LABELS: usize = 8;
/// By what candidates are compared.
fn sum(tried: &Tried) -> f64 {
    Criterion::Rank.of(&tried.scores())
}

/// A seed whose rows a sum of both losses predicts best.
const SEED: u64 = 2;

/// Rows with one to three of eight labels each, by noisy scores of few of their features; some labels are rare.
fn data(seed: u64) -> (Array2<f32>, Targets) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let x = Array2::from_shape_simple_fn((300, 20), || rng.random_range(-1.0..1.0_f32));
    let centers = Array2::from_shape_simple_fn((20, LABELS), || rng.random_range(-1.0..1.0_f32));
    let truth = x.outer_iter().map(|row| {
        let mut scores: Vec<(usize, f32)> = row.dot(&centers).into_iter().enumerate().collect();
        scores.iter_mut().for_each(|(label, score)| {
            *score += 2.0 * rng.random_range(-1.0..1.0_f32) - 0.3 * *label as f32;
        });
        scores.sort_by(|x, y| y.1.total_cmp(&x.1));
        let mut of_row: Vec<usize> =
            scores[..rng.random_range(1..4)].iter().map(|(label, _)| *label).collect();
        of_row.sort_unstable();
        of_row
    });
    let truth: Vec<Vec<usize>> = truth.collect();
    (x, Targets::new(LABELS, &truth).unwrap())
}

fn fit(settings: &FitSettings, (x, truth): (Array2<f32>, Targets)) -> Fitted {
    let names = (0..LABELS).map(|label| format!("label {label}")).collect();
    let train = Dataset::new(Features::Dense(x), truth).unwrap();
    settings.fit(Samples::new(train, names)).unwrap()
}

/// The model that a part is alone.
fn alone(part: &BlendPart, whole: &Model, rows: (Array2<f32>, Targets)) -> Model {
    let mut settings = FitSettings { validation: Some(0.0), ..FitSettings::default() };
    settings.loss.name = Some(part.loss.parse::<LossName>().unwrap());
    settings.prior.geometry = Some(part.prior.geometry);
    if part.prior.geometry != PriorGeometry::None {
        settings.prior.temperature = Some(part.prior.temperature);
        settings.prior.free = Some(part.prior.free);
    }
    settings.prior.l2 = Some(part.l2);
    settings.preparation.row_length = whole.preprocessing.row_length;
    settings.preparation.row_length_stated = true;
    settings.preparation.columns_stated = true;
    fit(&settings, rows).model
}

#[test]
fn a_chosen_sum_is_that_of_its_parts_alone() {
    let Fitted { model, history, .. } = fit(&FitSettings::default(), data(SEED));
    let about = &model.about;
    let [first, second] = &about.blend[..] else { panic!("{} was chosen", about.loss) };
    assert!(model.preprocessing.standardization.is_none(), "`alone` takes columns as they are");
    assert_eq!(about.loss, format!("{} {} + {} {}", first.share, first.loss, second.share, second.loss));
    assert_eq!((about.prior, about.l2), (Some(first.prior), Some(first.l2)));
    assert!((first.share + second.share - 1.0).abs() < 1e-12);
    // It was the best of all candidates, and each part the best of its loss, with a prior or without.
    let row_length = model.preprocessing.row_length;
    let tried = about.tried.iter();
    let of_scaling =
        tried.clone().filter(|tried| tried.columns == "as-given" && tried.row_length == row_length);
    let best = tried.max_by(|x, y| sum(x).total_cmp(&sum(y))).unwrap();
    assert_eq!((&best.loss, Some(best.prior), Some(best.l2)), (&about.loss, about.prior, about.l2));
    let plain = |prior: Prior| prior.geometry == PriorGeometry::None;
    for part in [first, second] {
        let rivals = of_scaling
            .clone()
            .filter(|tried| tried.loss == part.loss && plain(tried.prior) == plain(part.prior));
        let rival = rivals.max_by(|x, y| sum(x).total_cmp(&sum(y))).unwrap();
        assert_eq!((rival.prior, rival.l2), (part.prior, part.l2));
    }
    // W = a (f₁ W₁ + f₂ W₂), b = a (f₁ b₁ + f₂ b₂) + c, with a and c of the calibration.
    let parts = [alone(first, &model, data(SEED)), alone(second, &model, data(SEED))];
    let calibration = about.calibration.unwrap();
    let summed =
        |x: f32, y: f32| calibration.slope * (first.factor * f64::from(x) + second.factor * f64::from(y));
    let close = |found: f32, wanted: f64| (f64::from(found) - wanted).abs() < 1e-4 * wanted.abs().max(1.0);
    for (place, found) in model.weights().indexed_iter() {
        let wanted = summed(parts[0].weights()[place], parts[1].weights()[place]);
        assert!(close(*found, wanted), "{found} {wanted}");
    }
    let biases = Array1::from(model.bias().unwrap().to_vec());
    for (label, found) in biases.indexed_iter() {
        let wanted =
            summed(parts[0].bias().unwrap()[label], parts[1].bias().unwrap()[label]) + calibration.offset;
        assert!(close(*found, wanted), "{found} {wanted}");
    }
    // Both were minimized.
    assert_eq!(history.len(), parts.iter().map(|part| part.about.epochs).sum::<usize>());
    assert!(
        about.gap.unwrap() >= parts.iter().map(|part| part.about.gap.unwrap()).fold(0.0, f64::max) * 0.99
    );
    // A file keeps all of that.
    assert_eq!(Model::from_bytes(&model.to_bytes().unwrap()).unwrap(), model);
}

#[test]
fn one_model_is_no_sum() {
    let mut settings = FitSettings::default();
    settings.loss.name = Some(LossName::BinaryCrossEntropy);
    settings.prior.geometry = Some(PriorGeometry::None);
    let about = fit(&settings, data(SEED)).model.about;
    assert!(about.blend.is_empty() && about.loss == "bce");
    assert!(about.tried.iter().all(|tried| !tried.loss.contains('+')));
}
