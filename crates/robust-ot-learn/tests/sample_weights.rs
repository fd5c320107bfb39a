//! Weights of rows: whole weights are repeated rows, for every loss and both ways to minimize it.

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;
use robust_ot_learn::data::{Features, Sparse};
use robust_ot_learn::{
    Columns, Dataset, FitSettings, Learner, LossChoice, LossName, Model, Objective, Preparation, PriorChoice,
    PriorGeometry, Samples, TrainSettings, Trainer,
};

const ROWS: usize = 60;
const LABELS: usize = 3;

fn times(row: usize) -> usize {
    [1, 2, 0, 3][row % 4]
}

/// The rows with their weights, and the rows repeated as often, dense or sparse.
fn both(sparse: bool) -> [Dataset; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let x: Array2<f32> = Array2::from_shape_simple_fn((ROWS, 4), || rng.random_range(-1.0..1.0));
    let label =
        |row: usize| usize::from(x[[row, 0]] > 0.3) + usize::from(x[[row, 1]] + 0.3 * x[[row, 2]] > 0.2);
    let dataset = |rows: Vec<usize>| {
        let chosen = x.select(ndarray::Axis(0), &rows);
        let features = if sparse {
            let mut found = Sparse::empty(4);
            let add = |row: ndarray::ArrayView1<f32>| found.push(&[0, 1, 2, 3], &row.to_vec()).unwrap();
            chosen.outer_iter().for_each(add);
            Features::Sparse(found)
        } else {
            Features::Dense(chosen)
        };
        Dataset::new(features, Targets::new(LABELS, rows.iter().map(|&row| [label(row)])).unwrap()).unwrap()
    };
    let weighted =
        dataset((0..ROWS).collect()).with_weights((0..ROWS).map(|row| times(row) as f32).collect());
    let repeated = dataset((0..ROWS).flat_map(|row| vec![row; times(row)]).collect());
    [weighted.unwrap(), repeated]
}

fn names() -> Vec<String> {
    ["a", "b", "c"].map(String::from).to_vec()
}

fn far(one: &Model, other: &Model) -> f32 {
    let weights = one.weights().into_iter().zip(other.weights()).map(|(x, y)| (x - y).abs());
    let biases = one.bias().unwrap().iter().zip(other.bias().unwrap()).map(|(x, y)| (x - y).abs());
    weights.chain(biases).fold(0.0, f32::max)
}

#[test]
fn weights_over_all_rows_are_repeated_rows() {
    let preparation = Preparation {
        columns: Columns::AsGiven,
        columns_stated: true,
        row_length_stated: true,
        row_length: None,
    };
    for sparse in [false, true] {
        for name in [LossName::CrossEntropy, LossName::BinaryCrossEntropy, LossName::Square] {
            let settings = FitSettings {
                loss: LossChoice { name: Some(name), ..LossChoice::default() },
                prior: PriorChoice {
                    geometry: Some(PriorGeometry::None),
                    l2: Some(0.7),
                    ..PriorChoice::default()
                },
                preparation,
                validation: Some(0.0),
                ..FitSettings::default()
            };
            let [weighted, repeated] =
                both(sparse).map(|rows| settings.fit(Samples::new(rows, names())).unwrap().model);
            // Of a softmax, biases are known up to a constant.
            let [one, other] = [weighted, repeated]
                .map(|model| model.probabilities(both(sparse)[0].features().clone()).unwrap());
            let apart = (&one - &other).iter().fold(0.0_f64, |top, off| top.max(off.abs()));
            assert!(apart < 1e-3, "{name}, sparse: {sparse}: {apart}");
        }
    }
}

#[test]
fn steps_over_all_rows_follow_repeated_rows_and_not_the_scale_of_weights() {
    let [weighted, repeated] = both(false);
    let tenfold = weighted.weights().unwrap().iter().map(|w| 10.0 * w).collect();
    let tenfold = weighted.clone().with_weights(tenfold).unwrap();
    let objective = Objective::binary(LABELS);
    let run = |rows: &Dataset| {
        let settings =
            TrainSettings { batch: 1000, epochs: 30, learning_rate: 0.05, ..TrainSettings::default() };
        let mut trainer = Trainer::new(rows, None, &objective, settings).unwrap();
        while trainer.epoch(&Interrupt::default(), |_, _| ()).unwrap().is_some() {}
        let loss = trainer.history().last().unwrap().loss;
        (trainer.into_model(names()).unwrap(), loss)
    };
    let [weighted, repeated, tenfold] = [run(&weighted), run(&repeated), run(&tenfold)];
    for (other, loss) in [repeated, tenfold] {
        assert!(far(&weighted.0, &other) < 1e-4 && (weighted.1 - loss).abs() < 1e-5, "{loss}");
    }
}

#[test]
fn gradients_of_weighted_rows_are_sums() {
    let [weighted, repeated] = both(true);
    let learner = Learner::new(4, Objective::cross_entropy(LABELS), TrainSettings::default()).unwrap();
    let (one, other) = (learner.gradient(&weighted).unwrap(), learner.gradient(&repeated).unwrap());
    assert!((one.loss - other.loss).abs() < 1e-4);
    assert!(one.weights.iter().zip(&other.weights).all(|(x, y)| (x - y).abs() < 1e-4));
}

#[test]
fn parts_keep_their_weights() {
    let [weighted, _] = both(false);
    let (kept, held) = weighted.split(0.3, 5).unwrap();
    let mut whole = kept.clone();
    whole.append(&held).unwrap();
    assert!((whole.total_weight() - weighted.total_weight()).abs() < 1e-9);
    assert_eq!(weighted.select(&[3, 2, 1]).weights(), Some([3.0, 0.0, 2.0].as_slice()));
    let mut plain = both(true)[1].clone();
    let rows = plain.rows() as f64;
    plain.append(&both(true)[0]).unwrap();
    assert!((plain.total_weight() - rows - weighted.total_weight()).abs() < 1e-9);
}

#[test]
fn weights_that_are_none_are_refused() {
    for (weights, told) in [
        (vec![1.0; ROWS - 1], "the sample weights must be 60, one per row, but is 59"),
        (vec![-1.0; ROWS], "sample_weights must be finite and not negative, but is -1 in row 1"),
        (vec![f32::NAN; ROWS], "sample_weights must be finite and not negative, but is NaN in row 1"),
        (vec![0.0; ROWS], "sample_weights must be positive in some row, but is zero in all"),
    ] {
        let found = both(false)[1].select(&(0..ROWS).collect::<Vec<_>>()).with_weights(weights);
        assert_eq!(found.unwrap_err().to_string(), told);
    }
}
