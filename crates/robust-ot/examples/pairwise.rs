//! All pairwise distances among samples whose mean drifts, solved in parallel: the same for any number of threads.
//!
//! Run: `cargo run --release -p robust-ot --example pairwise`

use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::solve::{Interrupt, PairSettings, solve_pairs};
use robust_ot::{Grouping, Measure, MetricSet, Settings};

const SAMPLES: usize = 5;

fn main() -> robust_ot::Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let samples = (0..SAMPLES).map(|drift| {
        let mut points = Array2::<f64>::from_shape_simple_fn((100, 6), || StandardNormal.sample(&mut rng));
        points.column_mut(0).mapv_inplace(|x| x + drift as f64);
        Measure::uniform(points)
    });
    let samples = samples.collect::<robust_ot::Result<Vec<_>>>()?;
    let pairs: Vec<(usize, usize)> = (0..SAMPLES).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
    let measures: Vec<&Measure> = samples.iter().collect();
    let (grouping, set, settings) = (Grouping::none(6), MetricSet::P { k: 1 }, Settings::default());
    let wanted = PairSettings {
        measures: &measures,
        grouping: &grouping,
        set: &set,
        entropy: 0.0,
        settings: &settings,
    };

    let found = solve_pairs(&pairs, wanted, &Interrupt::default(), &|_| ());
    for (&(i, j), solution) in pairs.iter().zip(found) {
        let solution = solution?;
        println!("{j} – {i}: {:8.4}, relative gap {:.1e}", solution.value, solution.relative_gap);
    }
    Ok(())
}
