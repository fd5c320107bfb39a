//! Oracle calls dominate the cost of a solve; the corrective step keeps their number small.

mod common;

use common::stretched_clouds;
use robust_ot::{Grouping, MetricSet, Problem, Settings, Status};

/// The number of random data sets.
const DRAWS: u64 = 100;

/// The number of calls that a prototype of the corrective step needed on one such data set, by groups and metric set.
fn measured() -> Vec<(usize, MetricSet, usize)> {
    vec![
        (5, MetricSet::P { k: 1 }, 8),
        (5, MetricSet::P { k: 2 }, 4),
        (5, MetricSet::P { k: 4 }, 13),
        (5, MetricSet::Rkp { rho: 4.0 }, 11),
        (10, MetricSet::P { k: 1 }, 22),
        (10, MetricSet::P { k: 2 }, 10),
        (10, MetricSet::P { k: 4 }, 22),
        (10, MetricSet::Rkp { rho: 4.0 }, 41),
    ]
}

#[test]
fn corrective_steps_need_at_most_twice_the_calls_of_the_prototype() {
    let settings = Settings::default().with_tolerance(1e-6);
    for seed in 0..DRAWS {
        let (source, target) = stretched_clouds(150, 60, seed);
        for (groups, set, calls) in measured() {
            let grouping = Grouping::contiguous(60, groups).unwrap();
            let problem = Problem::grouped(&source, &target, set.clone(), &grouping).unwrap();
            let solution = problem.solve(&settings).unwrap();
            assert_eq!(solution.status, Status::Converged);
            assert!(
                solution.oracle_calls <= 2 * calls,
                "seed {seed}, r = {groups}, {set}: {} calls, more than twice {calls}",
                solution.oracle_calls
            );
        }
    }
}
