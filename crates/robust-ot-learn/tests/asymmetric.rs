//! The asymmetric loss of whole models: its gradient, its place in a mix, and where it is refused.

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::Grouping;
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot_learn::data::Features;
use robust_ot_learn::{
    Asymmetric, Dataset, FitSettings, Learner, LossChoice, LossName, Method, MixBase, Model, Objective,
    Output, PriorChoice, Samples, TrainSettings, TrainingChoice,
};

const ROWS: usize = 12;
const FEATURES: usize = 4;
const LABELS: usize = 5;

fn numbers(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Array2::from_shape_simple_fn((rows, columns), || rng.random_range(-1.0..1.0))
}

fn truths() -> Vec<Vec<usize>> {
    (0..ROWS).map(|row| if row % 3 == 0 { vec![row % LABELS] } else { vec![row % 2, 2 + row % 3] }).collect()
}

fn rows() -> Dataset {
    Dataset::new(Features::Dense(numbers(ROWS, FEATURES, 1)), Targets::new(LABELS, truths()).unwrap())
        .unwrap()
}

/// The gradient of the summed losses at some weights without a bias.
fn gradient(objective: Objective, weights: &Array2<f32>) -> (Vec<f32>, f64) {
    let settings = TrainSettings { bias: false, ..TrainSettings::default() };
    let output = objective.output();
    let mut learner = Learner::new(FEATURES, objective, settings).unwrap();
    let names = (0..LABELS).map(|label| label.to_string()).collect();
    learner.start_from(&Model::new(weights.clone(), None, output, names).unwrap()).unwrap();
    let found = learner.gradient(&rows()).unwrap();
    (found.weights, found.loss)
}

/// The summed losses in double precision, from the printed formula.
fn losses(weights: &Array2<f64>, Asymmetric { positive, negative, margin }: Asymmetric) -> f64 {
    let logits = numbers(ROWS, FEATURES, 1).mapv(f64::from).dot(weights);
    let truths = truths();
    let of = |((row, label), z): ((usize, usize), &f64)| {
        let p = 1.0 / (1.0 + (-z).exp());
        let s = (p - margin).max(0.0);
        if truths[row].contains(&label) {
            -(1.0 - p).powf(positive) * p.ln()
        } else {
            -s.powf(negative) * (1.0 - s).ln()
        }
    };
    logits.indexed_iter().map(of).sum()
}

#[test]
fn gradients_are_finite_differences_in_double_precision() {
    let weights = numbers(FEATURES, LABELS, 2) * 2.0;
    for loss in [Asymmetric::default(), Asymmetric { positive: 1.0, negative: 2.5, margin: 0.1 }] {
        let (found, value) = gradient(Objective::asymmetric(LABELS, loss).unwrap(), &weights);
        let at = weights.mapv(f64::from);
        assert!((value - losses(&at, loss)).abs() < 1e-5 * value, "{value}");
        for (place, found) in found.iter().enumerate() {
            let mut ends = [1e-5, -1e-5].map(|step| {
                let mut moved = at.clone();
                moved[[place / LABELS, place % LABELS]] += step;
                losses(&moved, loss)
            });
            ends.iter_mut().for_each(|end| *end /= 2e-5);
            let slope = ends[0] - ends[1];
            assert!(
                (f64::from(*found) - slope).abs() < 2e-5 * (1.0 + slope.abs()),
                "{place}: {found} {slope}"
            );
        }
    }
}

#[test]
fn without_powers_and_margin_it_is_binary_cross_entropy() {
    let weights = numbers(FEATURES, LABELS, 3);
    let none = Asymmetric { positive: 0.0, negative: 0.0, margin: 0.0 };
    let (plain, value) = gradient(Objective::binary(LABELS), &weights);
    let (found, same) = gradient(Objective::asymmetric(LABELS, none).unwrap(), &weights);
    assert!((value - same).abs() < 1e-5 * value);
    assert!(plain.iter().zip(&found).all(|(x, y)| (x - y).abs() < 1e-5));
}

#[test]
fn a_mix_is_the_sum_of_its_parts() {
    let vectors = numbers(LABELS, 3, 4).mapv(f64::from);
    let robust = || RobustLoss::new(&vectors, &Grouping::none(3), LossSettings::truncated()).unwrap();
    let weights = numbers(FEATURES, LABELS, 5);
    let loss = Asymmetric::default();
    let (base, of_base) = gradient(Objective::asymmetric(LABELS, loss).unwrap(), &weights);
    let (transport, of_transport) = gradient(Objective::mix(0.0, 1.0, robust()).unwrap(), &weights);
    let mix = Objective::mix(0.5, 3.0, robust()).unwrap().with_asymmetric(loss).unwrap();
    assert_eq!(mix.output(), Output::Sigmoid);
    let (found, value) = gradient(mix, &weights);
    let wanted = 0.5 * of_base + 3.0 * of_transport;
    assert!((value - wanted).abs() < 1e-5 * (1.0 + wanted.abs()), "{value} {wanted}");
    for ((found, base), transport) in found.iter().zip(&base).zip(&transport) {
        let wanted = 0.5 * base + 3.0 * transport;
        assert!((found - wanted).abs() < 2e-5 * (1.0 + wanted.abs()), "{found} {wanted}");
    }
}

#[test]
fn it_is_trained_in_steps_and_recorded() {
    let names = (0..LABELS).map(|label| label.to_string()).collect::<Vec<_>>();
    let loss =
        LossChoice { name: Some(LossName::Asymmetric), asl_margin: Some(0.1), ..LossChoice::default() };
    let settings = FitSettings { loss, ..FitSettings::default() };
    assert_eq!(settings.method(), Method::Stochastic);
    let model = settings.fit(Samples::new(rows(), names.clone())).unwrap().model;
    assert_eq!(model.about.asymmetric, Some(Asymmetric { margin: 0.1, ..Asymmetric::default() }));
    assert_eq!((model.output(), model.about.loss.as_str()), (Output::Sigmoid, "asl"));
    let mix = LossChoice { mix_base: MixBase::Asymmetric, ..LossChoice::default() };
    let model =
        FitSettings { loss: mix, ..FitSettings::default() }.fit(Samples::new(rows(), names)).unwrap().model;
    assert_eq!((model.output(), model.about.asymmetric), (Output::Sigmoid, Some(Asymmetric::default())));
    assert!(model.about.robust.is_some());
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let asl = LossChoice { name: Some(LossName::Asymmetric), ..LossChoice::default() };
    let usual = FitSettings::default();
    let lbfgs = TrainingChoice { method: Some(Method::FullBatch), ..TrainingChoice::default() };
    let not_convex = "loss must be convex for the optimizer lbfgs, and for a prior or L2 over all rows, but asl is not, and \
                      takes steps (adam or sgd)";
    let cases = [
        (FitSettings { loss: asl.clone(), training: lbfgs, ..usual.clone() }, not_convex),
        (
            FitSettings {
                loss: asl.clone(),
                prior: PriorChoice { l2: Some(1.0), ..PriorChoice::default() },
                ..usual.clone()
            },
            not_convex,
        ),
        (
            FitSettings { loss: LossChoice { asl_margin: Some(1.5), ..asl.clone() }, ..usual.clone() },
            "asl_margin must be from 0 to less than 1, but is 1.5",
        ),
        (
            FitSettings {
                loss: LossChoice { asl_negative: Some(2.0), ..LossChoice::default() },
                ..usual.clone()
            },
            "asl_negative must go with the loss or the mix_base asl, but the loss is mix",
        ),
        (
            FitSettings { loss: LossChoice { mix_base: MixBase::Asymmetric, ..asl }, ..usual },
            "mix_base must go with a loss that has transport, but the loss is asl",
        ),
    ];
    for (settings, told) in cases {
        assert_eq!(settings.check().unwrap_err().to_string(), told);
    }
}
