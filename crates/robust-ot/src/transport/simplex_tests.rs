//! The exact oracle against brute force, closed forms, duality and itself.

use ndarray::{Array2, array};
use proptest::prelude::*;

use super::*;
use crate::testing::{matrix, measure, rng};
use rand::RngExt;
use rand::seq::SliceRandom;

fn solve(a: &[f64], b: &[f64], cost: &Array2<f64>) -> SimplexSolution {
    NetworkSimplex::new(a, b).unwrap().solve(cost, &Interrupt::default()).unwrap()
}

pub(in crate::transport) fn cost_of(plan: &[PlanEntry], cost: &Array2<f64>) -> f64 {
    plan.iter().map(|e| e.mass * cost[[e.row, e.column]]).sum()
}

/// Checks marginals, sparsity, dual feasibility and strong duality, which together prove optimality.
pub(super) fn assert_optimal(a: &[f64], b: &[f64], cost: &Array2<f64>, solution: &SimplexSolution) {
    let mass: f64 = a.iter().sum();
    let (mut rows, mut columns) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    for e in &solution.plan {
        assert!(e.mass > 0.0);
        rows[e.row] += e.mass;
        columns[e.column] += e.mass;
    }
    rows.iter().zip(a).chain(columns.iter().zip(b)).for_each(|(x, y)| assert!((x - y).abs() < 1e-14 * mass));
    assert!(solution.plan.len() < a.len() + b.len());
    let largest = cost.iter().fold(0.0_f64, |top, c| top.max(c.abs()));
    for ((i, j), c) in cost.indexed_iter() {
        let slack = c - solution.source_potential[i] - solution.target_potential[j];
        assert!(slack >= -1e-14 * largest, "slack {slack}");
    }
    let dual: f64 = a.iter().zip(&solution.source_potential).map(|(a, f)| a * f).sum::<f64>()
        + b.iter().zip(&solution.target_potential).map(|(b, g)| b * g).sum::<f64>();
    let primal = cost_of(&solution.plan, cost);
    assert!((primal - dual).abs() <= 1e-12 * largest * mass, "{primal} {dual}");
}

/// The cheapest of all n! assignments.
fn best_permutation(cost: &Array2<f64>) -> f64 {
    fn go(cost: &Array2<f64>, row: usize, used: &mut Vec<bool>) -> f64 {
        if row == cost.nrows() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..cost.ncols() {
            if !used[column] {
                used[column] = true;
                best = best.min(cost[[row, column]] + go(cost, row + 1, used));
                used[column] = false;
            }
        }
        best
    }
    go(cost, 0, &mut vec![false; cost.ncols()])
}

/// Random weights with the same sum on both sides. Tied ones take few values, zero among them, so partial sums tie.
pub(in crate::transport) fn weights(m: usize, n: usize, tied: bool, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut rng = rng(seed);
    let draw = |rng: &mut rand_chacha::ChaCha8Rng| {
        if tied { f64::from(rng.random_range(0..3u8)) } else { rng.random_range(0.0..1.0) }
    };
    let mut a: Vec<f64> = (0..m).map(|_| draw(&mut rng)).collect();
    let mut b: Vec<f64> = (0..n).map(|_| draw(&mut rng)).collect();
    a[0] += 1.0;
    b[n - 1] += 1.0;
    let scale = a.iter().sum::<f64>() / b.iter().sum::<f64>();
    b.iter_mut().for_each(|b| *b *= scale);
    (a, b)
}

proptest! {
    #[test]
    fn uniform_weights_solve_the_assignment_problem(n in 1usize..7, tied in any::<bool>(), seed in 0u64..10_000) {
        let mut cost = matrix(n, n, &mut rng(seed));
        if tied {
            cost.mapv_inplace(|c| (c * 2.0).round());
        }
        let ones = vec![1.0; n];
        let solution = solve(&ones, &ones, &cost);
        assert_optimal(&ones, &ones, &cost, &solution);
        let best = best_permutation(&cost);
        prop_assert!((cost_of(&solution.plan, &cost) - best).abs() < 1e-12 * (1.0 + best.abs()));
    }

    #[test]
    fn points_on_a_line_are_matched_by_quantiles(m in 1usize..30, n in 1usize..30, tied in any::<bool>(), seed in 0u64..10_000) {
        let mut rng = rng(seed);
        let mut line = |n: usize| {
            let mut x: Vec<f64> = (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
            if tied { x.iter_mut().for_each(|x| *x = (*x * 3.0_f64).round()); }
            x.sort_by(f64::total_cmp);
            x
        };
        let (x, y) = (line(m), line(n));
        let (a, b) = weights(m, n, tied, seed);
        let cost = Array2::from_shape_fn((m, n), |(i, j)| (x[i] - y[j]).powi(2));
        let solution = solve(&a, &b, &cost);
        assert_optimal(&a, &b, &cost, &solution);
        // Quantile coupling: walk both cumulative sums.
        let (mut i, mut j, mut expected) = (0, 0, 0.0);
        let (mut left_a, mut left_b) = (a[0], b[0]);
        while i < m && j < n {
            let mass = left_a.min(left_b);
            expected += mass * cost[[i, j]];
            left_a -= mass;
            left_b -= mass;
            if left_a <= 1e-13 { i += 1; left_a = a.get(i).copied().unwrap_or(0.0); }
            if left_b <= 1e-13 { j += 1; left_b = b.get(j).copied().unwrap_or(0.0); }
        }
        prop_assert!((cost_of(&solution.plan, &cost) - expected).abs() < 1e-10 * (1.0 + expected));
    }

    #[test]
    fn any_problem_ends_with_a_proof(m in 1usize..40, n in 1usize..40, tied in any::<bool>(), scale in -150.0..150.0f64, seed in 0u64..10_000) {
        let mut cost = matrix(m, n, &mut rng(seed)) * 10f64.powf(scale);
        if tied {
            cost.mapv_inplace(|c| (c / 10f64.powf(scale) * 2.0).round() * 10f64.powf(scale));
        }
        let (a, b) = weights(m, n, tied, seed + 1);
        let mut simplex = NetworkSimplex::new(&a, &b).unwrap();
        let first = simplex.solve(&cost, &Interrupt::default()).unwrap();
        assert_optimal(&a, &b, &cost, &first);
        // Warm: other costs from the old basis, then the old costs again.
        let other = &cost + &(matrix(m, n, &mut rng(seed + 2)) * (0.1 * 10f64.powf(scale)));
        assert_optimal(&a, &b, &other, &simplex.solve(&other, &Interrupt::default()).unwrap());
        let again = simplex.solve(&cost, &Interrupt::default()).unwrap();
        assert_optimal(&a, &b, &cost, &again);
    }

    #[test]
    fn permuting_points_permutes_the_plan(n in 2usize..15, seed in 0u64..10_000) {
        let (a, b) = weights(n, n + 1, false, seed);
        let cost = matrix(n, n + 1, &mut rng(seed + 5));
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut rng(seed + 6));
        let mixed = Array2::from_shape_fn((n, n + 1), |(i, j)| cost[[order[i], j]]);
        let mixed_a: Vec<f64> = order.iter().map(|&i| a[i]).collect();
        let (plain, permuted) = (solve(&a, &b, &cost), solve(&mixed_a, &b, &mixed));
        // With random costs the optimal plan is unique.
        let mut back: Vec<_> = permuted.plan.iter().map(|e| (order[e.row], e.column, e.mass)).collect();
        back.sort_by_key(|&(i, j, _)| (i, j));
        prop_assert_eq!(back.len(), plain.plan.len());
        for ((i, j, mass), e) in back.into_iter().zip(&plain.plan) {
            prop_assert!((i, j) == (e.row, e.column) && (mass - e.mass).abs() < 1e-14);
        }
    }
}

#[test]
fn one_point_takes_everything() {
    let cost = array![[3.0, 1.0, 2.0]];
    let solution = solve(&[1.0], &[0.2, 0.3, 0.5], &cost);
    assert!((cost_of(&solution.plan, &cost) - 1.9).abs() < 1e-15);
    assert_eq!(solve(&[2.0], &[2.0], &array![[7.0]]).plan, [PlanEntry { row: 0, column: 0, mass: 2.0 }]);
}

#[test]
fn masses_that_differ_by_rounding_are_evened_out_and_others_refused() {
    let third = 1.0 / 3.0;
    let solution = solve(&[third, third, third], &[0.5, 0.5 + 1e-15], &Array2::ones((3, 2)));
    assert!((solution.plan.iter().map(|e| e.mass).sum::<f64>() - 1.0).abs() < 1e-14);
    let refused = NetworkSimplex::new(&[1.0], &[1.1]);
    assert!(matches!(refused, Err(crate::Error::Balance { .. })));
}

#[test]
fn weights_below_the_resolution_still_travel_to_their_best_place() {
    let tiny = 1e-40;
    let cost = array![[0.0, 5.0], [9.0, 1.0], [1e20, 2e20]];
    let solution = solve(&[0.5, 0.5, tiny], &[0.5, 0.5], &cost);
    let far: Vec<_> = solution.plan.iter().filter(|e| e.row == 2).collect();
    assert_eq!(far.len(), 1);
    assert_eq!((far[0].column, far[0].mass), (0, tiny));
}

#[test]
fn an_interrupted_solve_returns_a_feasible_plan_and_feasible_potentials() {
    let interrupt = Interrupt::default();
    interrupt.raise();
    let n = 300;
    let ones = vec![1.0; n];
    let cost = matrix(n, n, &mut rng(1)).mapv(|c| c + 1.0);
    let solution = NetworkSimplex::new(&ones, &ones).unwrap().solve(&cost, &interrupt).unwrap();
    assert!(!solution.optimal);
    let mut rows = vec![0.0; n];
    solution.plan.iter().for_each(|e| rows[e.row] += e.mass);
    assert!(rows.iter().all(|r| (r - 1.0).abs() < 1e-12));
    for ((i, j), c) in cost.indexed_iter() {
        assert!(solution.source_potential[i] + solution.target_potential[j] <= c + 1e-9);
    }
}

#[test]
fn costs_that_are_not_finite_or_not_of_this_shape_are_refused() {
    let mut simplex = NetworkSimplex::new(&[1.0, 1.0], &[2.0]).unwrap();
    let never = Interrupt::default();
    assert!(matches!(simplex.solve(&array![[1.0]], &never), Err(crate::Error::Shape { .. })));
    let nan = simplex.solve(&array![[1.0], [f64::NAN]], &never);
    assert!(matches!(nan, Err(crate::Error::Cost { row: 1, column: 0, .. })));
}

#[test]
fn streamed_costs_give_the_stored_optimum() {
    for (m, n, seed) in [(1, 1, 1), (40, 33, 2), (17, 90, 3)] {
        let (mut a, mut b) =
            (measure(m, 1, seed).weights().to_vec(), measure(n, 1, seed + 1).weights().to_vec());
        if m > 1 {
            // Points without weight are left out of the factors, too.
            (a[3], b[5]) = (0.0, 0.0);
            let (of_a, of_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
            a.iter_mut().for_each(|w| *w /= of_a);
            b.iter_mut().for_each(|w| *w /= of_b);
        }
        let (source, target) = (measure(m, 4, seed + 2), measure(n, 4, seed + 3));
        let maps =
            crate::displacement::Displacements::new(&source, &target, &crate::Grouping::none(4)).unwrap();
        let metric = crate::testing::metric(4, seed);
        let (cost, factors) = (maps.cost(&metric).unwrap(), maps.factors(&metric).unwrap());
        let objective = |solution: &SimplexSolution| -> f64 {
            solution.plan.iter().map(|e| e.mass * cost[[e.row, e.column]]).sum()
        };
        let stored = NetworkSimplex::new(&a, &b).unwrap().solve(&cost, &Interrupt::default()).unwrap();
        let mut simplex = NetworkSimplex::new(&a, &b).unwrap();
        for _ in 0..2 {
            let streamed = simplex.solve(CostRows::Streamed(&factors), &Interrupt::default()).unwrap();
            assert!(streamed.optimal);
            assert!((objective(&stored) - objective(&streamed)).abs() <= 1e-12 * objective(&stored).max(1.0));
        }
    }
}

#[test]
fn a_limit_of_pivots_holds_and_the_count_that_is_needed_suffices() {
    let n = 40;
    let ones = vec![1.0; n];
    let cost = matrix(n, n, &mut rng(5));
    let solve = |limit: Option<usize>| {
        let mut simplex = NetworkSimplex::new(&ones, &ones).unwrap();
        limit.into_iter().for_each(|pivots| simplex.limit_pivots(pivots));
        simplex.solve(&cost, &Interrupt::default()).unwrap()
    };
    let free = solve(None);
    assert_optimal(&ones, &ones, &cost, &free);
    let enough = solve(Some(free.pivots));
    assert!(enough.optimal);
    assert_eq!(enough.plan, free.plan);
    for limit in [0, 1, free.pivots - 1] {
        let stopped = solve(Some(limit));
        assert!(!stopped.optimal);
        assert_eq!(stopped.pivots, limit);
        let mut columns = vec![0.0; n];
        stopped.plan.iter().for_each(|e| columns[e.column] += e.mass);
        assert!(columns.iter().all(|c| (c - 1.0).abs() < 1e-12));
    }
}
