//! Two samples with ten features, one of which shifted: the worst metric gives it the largest weight.
//!
//! Run: `cargo run --release -p robust-ot --example distance`

use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::{Measure, MetricSet, Problem, Settings};

fn main() -> robust_ot::Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut normal = || Array2::<f64>::from_shape_simple_fn((300, 10), || StandardNormal.sample(&mut rng));
    let (before, mut after) = (normal(), normal());
    after.column_mut(2).mapv_inplace(|x| x + 1.0);

    let (before, after) = (Measure::uniform(before)?, Measure::uniform(after)?);
    let settings = Settings::default().with_tolerance(1e-6);
    let solution = Problem::new(&before, &after, MetricSet::P { k: 1 })?.solve(&settings)?;

    println!(
        "{:.6} ≤ W ≤ {:.6} after {} oracle calls",
        solution.lower_bound, solution.value, solution.oracle_calls
    );
    for feature in 0..10 {
        println!("feature {feature}: weight {:.3}", solution.metric[[feature, feature]]);
    }
    Ok(())
}
