//! The simplex on a shortlist against duality and the dense simplex.

use ndarray::{Array2, Axis};
use proptest::prelude::*;
use rand::RngExt;

use super::tests::{assert_optimal, cost_of, weights};
use super::*;
use crate::displacement::Displacements;
use crate::testing::{matrix, rng};
use crate::{Grouping, Measure};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Points {
    Cube,
    Clusters,
    Plane,
    Grid,
    Apart,
}

fn points(kind: Points, count: usize, seed: u64) -> Array2<f64> {
    let mut rng = rng(seed);
    match kind {
        Points::Cube => matrix(count, 6, &mut rng),
        Points::Clusters => {
            let centers = matrix(5, 6, &mut rng);
            let of_point = |mut row: ndarray::ArrayViewMut1<f64>, rng: &mut rand_chacha::ChaCha8Rng| {
                let center = rng.random_range(0..5);
                row *= 0.05;
                row += &centers.row(center);
            };
            let mut points = matrix(count, 6, &mut rng);
            points.rows_mut().into_iter().for_each(|row| of_point(row, &mut rng));
            points
        }
        Points::Plane => matrix(count, 2, &mut rng),
        Points::Grid => matrix(count, 2, &mut rng).mapv(|x| (4.0 * x).round()),
        Points::Apart => matrix(count, 2, &mut rng) + 1e3 * (seed % 2) as f64,
    }
}

fn squared_distances(x: &Array2<f64>, y: &Array2<f64>) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        x.row(i).iter().zip(y.row(j)).map(|(x, y)| (x - y).powi(2)).sum()
    })
}

fn listed(a: &[f64], b: &[f64]) -> NetworkSimplex {
    let mut simplex = NetworkSimplex::new(a, b).unwrap();
    simplex.shortlist.smallest = 0;
    simplex
}

fn assert_equals_dense(a: &[f64], b: &[f64], cost: &Array2<f64>, solution: &SimplexSolution) {
    assert!(solution.optimal);
    assert_optimal(a, b, cost, solution);
    let mut dense = NetworkSimplex::new(a, b).unwrap();
    dense.shortlist.smallest = usize::MAX;
    let dense = dense.solve(cost, &Interrupt::default()).unwrap();
    let (found, expected) = (cost_of(&solution.plan, cost), cost_of(&dense.plan, cost));
    let mass: f64 = a.iter().sum();
    let largest = cost.iter().fold(0.0_f64, |top, c| top.max(c.abs()));
    assert!(
        (found - expected).abs() <= 1e-12 * expected.abs() + 1e-14 * largest * mass,
        "{found} {expected}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_list_leads_to_the_dense_optimum(
        (m, n) in (40usize..160, 40usize..160),
        kind in prop::sample::select(vec![Points::Cube, Points::Clusters, Points::Plane, Points::Grid, Points::Apart]),
        tied in any::<bool>(),
        heavy in any::<bool>(),
        seed in 0u64..10_000,
    ) {
        let (mut a, mut b) = weights(m, n, tied, 2 * seed);
        if heavy {
            (a[1], b[1]) = (a[1] + m as f64, b[1] + m as f64);
        }
        let (x, y) = (points(kind, m, 2 * seed), points(kind, n, 2 * seed + 1));
        let cost = squared_distances(&x, &y);
        let mut simplex = listed(&a, &b);
        let solution = simplex.solve(&cost, &Interrupt::default()).unwrap();
        assert_equals_dense(&a, &b, &cost, &solution);
        prop_assert!(kind == Points::Grid || simplex.shortlist.is_in_use());
        // A slightly different metric keeps list and tree; unrelated costs must not be solved by an old list alone.
        let near = squared_distances(&(&x * 1.01), &y);
        assert_equals_dense(&a, &b, &near, &simplex.solve(&near, &Interrupt::default()).unwrap());
        let far = matrix(m, n, &mut rng(seed + 7));
        assert_equals_dense(&a, &b, &far, &simplex.solve(&far, &Interrupt::default()).unwrap());
    }

    #[test]
    fn costs_without_structure_are_solved_too(n in 40usize..160, uniform in any::<bool>(), scale in -100.0..100.0f64, seed in 0u64..10_000) {
        let (a, b) = if uniform { (vec![1.0; n], vec![1.0; n]) } else { weights(n, n, false, seed) };
        let cost = matrix(n, n, &mut rng(seed)) * 10f64.powf(scale);
        let mut simplex = listed(&a, &b);
        assert_equals_dense(&a, &b, &cost, &simplex.solve(&cost, &Interrupt::default()).unwrap());
    }
}

/// The two point clouds as a transport problem with streamed costs.
fn maps(x: &Array2<f64>, y: &Array2<f64>) -> Displacements {
    let measure = |points: &Array2<f64>| Measure::uniform(points.clone()).unwrap();
    Displacements::new(&measure(x), &measure(y), &Grouping::none(x.ncols())).unwrap()
}

#[test]
fn streamed_costs_are_solved_by_a_list_ties_or_not() {
    for (kind, seed) in [(Points::Cube, 1), (Points::Clusters, 2), (Points::Grid, 3), (Points::Plane, 4)] {
        let (m, n) = (150, 90);
        let (a, b) = weights(m, n, kind == Points::Grid, seed);
        let (x, y) = (points(kind, m, 2 * seed), points(kind, n, 2 * seed + 1));
        let maps = maps(&x, &y);
        let eye = Array2::eye(x.ncols());
        let (cost, factors) = (maps.cost(&eye).unwrap(), maps.factors(&eye).unwrap());
        let mut simplex = listed(&a, &b);
        for _ in 0..2 {
            let solution = simplex.solve(CostRows::Streamed(&factors), &Interrupt::default()).unwrap();
            assert_equals_dense(&a, &b, &cost, &solution);
            assert!(simplex.shortlist.is_in_use());
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_solution() {
    let (m, n) = (500, 420);
    let (a, b) = weights(m, n, false, 5);
    let cost = squared_distances(&points(Points::Clusters, m, 4), &points(Points::Clusters, n, 5));
    let near = cost.mapv(|c| c * c);
    let solve = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut simplex = listed(&a, &b);
            let first = simplex.solve(&cost, &Interrupt::default()).unwrap();
            assert!(simplex.shortlist.is_in_use());
            (first, simplex.solve(&near, &Interrupt::default()).unwrap())
        })
    };
    let (one, three) = (solve(1), solve(3));
    for (one, three) in [(&one.0, &three.0), (&one.1, &three.1)] {
        assert_eq!(one.pivots, three.pivots);
        assert_eq!(one.plan, three.plan);
        assert_eq!(one.source_potential, three.source_potential);
        assert_eq!(one.target_potential, three.target_potential);
    }
}

#[test]
fn a_stopped_solve_leaves_a_feasible_plan_and_the_next_one_finishes() {
    let n = 120;
    let (a, b) = weights(n, n, false, 8);
    let cost = squared_distances(&points(Points::Cube, n, 8), &points(Points::Cube, n, 9));
    let mut simplex = listed(&a, &b);
    let check = |solution: &SimplexSolution| {
        assert!(!solution.optimal);
        let mut plan = Array2::<f64>::zeros((n, n));
        solution.plan.iter().for_each(|e| plan[[e.row, e.column]] += e.mass);
        for (axis, weights) in [(Axis(1), &a), (Axis(0), &b)] {
            assert!(plan.sum_axis(axis).iter().zip(weights).all(|(x, w)| (x - w).abs() < 1e-13));
        }
        for ((i, j), c) in cost.indexed_iter() {
            assert!(solution.source_potential[i] + solution.target_potential[j] <= c + 1e-12);
        }
    };
    let raised = Interrupt::default();
    raised.raise();
    check(&simplex.solve(&cost, &raised).unwrap());
    simplex.limit_pivots(3);
    check(&simplex.solve(&cost, &Interrupt::default()).unwrap());
    simplex.limit_pivots(usize::MAX);
    assert_equals_dense(&a, &b, &cost, &simplex.solve(&cost, &Interrupt::default()).unwrap());
}

#[test]
fn equal_costs_leave_nothing_to_list() {
    let mut simplex = listed(&[1.0; 50], &[1.0; 50]);
    let cost = Array2::ones((50, 50));
    assert_equals_dense(&[1.0; 50], &[1.0; 50], &cost, &simplex.solve(&cost, &Interrupt::default()).unwrap());
    assert!(!simplex.shortlist.is_in_use());
}
