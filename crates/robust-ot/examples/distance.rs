//! Which features drive the difference between two clouds? Run with `cargo run --release --example distance`.

use ndarray::Array2;
use robust_ot::{Measure, MetricSet, Problem, Settings};

fn main() -> robust_ot::Result<()> {
    // Fifty points on a spiral; in the second cloud the third feature has grown.
    let spiral = |stretch: f64| {
        Array2::from_shape_fn((50, 3), |(i, feature)| {
            let angle = i as f64 * 0.4;
            [angle.cos(), angle.sin(), stretch * angle / 10.0][feature]
        })
    };
    let (before, after) = (Measure::uniform(spiral(1.0))?, Measure::uniform(spiral(2.0))?);

    for set in
        [MetricSet::W2, MetricSet::P { k: 1 }, MetricSet::Features { lambda: 0.1 }, MetricSet::Srw { k: 1 }]
    {
        let solution = Problem::new(&before, &after, set.clone())?.solve(&Settings::default())?;
        println!(
            "{set:24} {:.4} ≤ W ≤ {:.4}, {} after {} oracle calls, weights {:.3}",
            solution.lower_bound,
            solution.value,
            solution.status,
            solution.oracle_calls,
            solution.metric.diag()
        );
    }
    Ok(())
}
