//! Learns three animals and a truck from points in the plane, once with cross-entropy and once with the robust mix.
//!
//! Run: cargo run --release --example train

use ndarray::{Array2, array};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::data::Features;
use robust_ot::learn::{Dataset, Objective, Scores, TrainSettings, Trainer};
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::{Grouping, Interrupt};

fn main() -> robust_ot::Result<()> {
    let names = ["cat", "dog", "horse", "truck"].map(str::to_owned).to_vec();
    let vectors = array![[1.0, 0.1], [0.98, 0.2], [0.8, 0.6], [-1.0, 0.0]];
    let (train, test) = (clouds(400, 1)?, clouds(2000, 2)?);
    let robust = RobustLoss::new(&vectors, &Grouping::none(2), LossSettings::default())?;
    let settings = TrainSettings { learning_rate: 0.05, epochs: 100, ..TrainSettings::default() };
    for (what, objective) in
        [("cross-entropy", Objective::cross_entropy(4)), ("robust mix", Objective::mix(1.0, 5.0, robust)?)]
    {
        let mut trainer = Trainer::new(&train, None, &objective, settings.clone())?;
        while trainer.epoch(&Interrupt::default(), |_, _| ())?.is_some() {}
        let model = trainer.into_model(names.clone())?;
        let probabilities = model.probabilities(test.features().clone())?;
        let scores = Scores::of(probabilities.view(), test.targets(), Some(&vectors))?;
        let (auc, cost) = (scores.auc.unwrap_or(f64::NAN), scores.expected_cost.unwrap_or(f64::NAN));
        println!("{what}: AUC {auc:.4}, accuracy {:.4}, expected semantic cost {cost:.4}", scores.accuracy);
    }
    Ok(())
}

/// Four clouds that overlap.
fn clouds(rows: usize, seed: u64) -> robust_ot::Result<Dataset> {
    let centres = [[0.0, 0.0], [1.2, 0.3], [0.4, 1.4], [-1.0, 1.0]];
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut spread = || (0..6).map(|_| rng.random::<f32>() - 0.5).sum::<f32>();
    let points = Array2::from_shape_fn((rows, 2), |(row, axis)| centres[row % 4][axis] + spread());
    Dataset::new(Features::Dense(points), Targets::new(4, (0..rows).map(|row| [row % 4]))?)
}
