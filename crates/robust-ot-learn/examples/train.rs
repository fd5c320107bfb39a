//! Nine classes in three families, ten rows each: cross-entropy compared with its mix with robust transport.
//!
//! Run: `cargo run --release -p robust-ot-learn --example train`

use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::solve::Interrupt;
use robust_ot::{Grouping, Result};
use robust_ot_learn::data::Features;
use robust_ot_learn::{Dataset, Objective, Scores, TrainSettings, Trainer};

const CLASSES: usize = 9;
const FEATURES: usize = 20;

fn main() -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut normal = |rows: usize, columns: usize| {
        Array2::<f64>::from_shape_simple_fn((rows, columns), || StandardNormal.sample(&mut rng))
    };
    // A class center is that of its family plus a small offset; label vectors encode the families.
    let (families, own) = (normal(3, FEATURES), normal(CLASSES, FEATURES));
    let centers =
        Array2::from_shape_fn((CLASSES, FEATURES), |(c, f)| families[[c / 3, f]] + 0.5 * own[[c, f]]);
    let vectors =
        Array2::from_shape_fn((CLASSES, 3), |(c, axis)| f64::from(c / 3 == axis) + 0.1 * (c % 3) as f64);
    let mut sample = |rows: usize| {
        let noise = normal(rows, FEATURES);
        let row = |(row, f): (usize, usize)| (centers[[row % CLASSES, f]] + 1.5 * noise[[row, f]]) as f32;
        let features = Features::Dense(Array2::from_shape_fn((rows, FEATURES), row));
        Dataset::new(features, Targets::new(CLASSES, (0..rows).map(|row| [row % CLASSES]))?)
    };
    let (train, test) = (sample(10 * CLASSES)?, sample(200 * CLASSES)?);

    let robust = RobustLoss::new(&vectors, &Grouping::none(3), LossSettings::default())?;
    let names: Vec<String> =
        (0..CLASSES).map(|class| format!("{}{}", ["a", "b", "c"][class / 3], class % 3)).collect();
    for (name, objective) in
        [("cross-entropy", Objective::cross_entropy(CLASSES)), ("mix", Objective::mix(1.0, 5.0, robust)?)]
    {
        let settings = TrainSettings { epochs: 100, batch: 16, learning_rate: 0.01, ..Default::default() };
        let mut trainer = Trainer::new(&train, None, &objective, settings)?;
        while trainer.epoch(&Interrupt::default(), |_, _| ())?.is_some() {}
        let probabilities = trainer.into_model(names.clone())?.probabilities(test.features().clone())?;
        let scores = Scores::of(probabilities.view(), test.targets(), Some(&vectors))?;
        let (auc, cost) = (scores.auc.unwrap_or(f64::NAN), scores.expected_cost.unwrap_or(f64::NAN));
        println!("{name:>13}: AUC {auc:.4}, expected semantic cost {cost:.4}");
    }
    Ok(())
}
