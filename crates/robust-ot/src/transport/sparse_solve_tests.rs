//! Transport along allowed arcs against the simplex on all arcs, where a forbidden arc costs more than any path, and against
//! weak duality.

use ndarray::Array2;
use proptest::prelude::*;
use rand::RngExt;

use super::super::simplex::tests::{cost_of, weights};
use super::*;
use crate::testing::{matrix, rng};

/// The finite entries of a matrix.
fn sparse(costs: &Array2<f64>) -> SparseCosts {
    let (mut starts, mut columns, mut kept) = (vec![0], Vec::new(), Vec::new());
    for row in costs.rows() {
        for (j, &cost) in row.iter().enumerate().filter(|(_, cost)| cost.is_finite()) {
            columns.push(j as u32);
            kept.push(cost);
        }
        starts.push(columns.len());
    }
    SparseCosts::new(costs.dim(), starts, columns, kept).unwrap()
}

fn solve(a: &[f64], b: &[f64], costs: &Array2<f64>) -> Result<SimplexSolution> {
    NetworkSimplex::new(a, b)?.solve_sparse(&sparse(costs), &Interrupt::default())
}

/// Checks marginals, that only allowed arcs are used, dual feasibility and strong duality, which together prove optimality.
fn assert_optimal(a: &[f64], b: &[f64], costs: &Array2<f64>, found: &SimplexSolution) {
    assert!(found.optimal);
    let (mut rows, mut columns) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    for entry in &found.plan {
        rows[entry.row] += entry.mass;
        columns[entry.column] += entry.mass;
    }
    let mass: f64 = a.iter().sum();
    rows.iter().zip(a).chain(columns.iter().zip(b)).for_each(|(x, y)| assert!((x - y).abs() < 1e-14 * mass));
    let primal = cost_of(&found.plan, costs);
    let largest = costs.iter().filter(|c| c.is_finite()).fold(0.0_f64, |top, c| top.max(c.abs()));
    for ((i, j), c) in costs.indexed_iter() {
        assert!(c - found.source_potential[i] - found.target_potential[j] >= -1e-14 * largest);
    }
    let sum = |weights: &[f64], potential: &Array1<f64>| {
        weights.iter().zip(potential).map(|(w, p)| w * p).sum::<f64>()
    };
    let dual = sum(a, &found.source_potential) + sum(b, &found.target_potential);
    assert!((primal - dual).abs() <= 1e-12 * largest * mass, "{primal} {dual}");
}

proptest! {
    #[test]
    fn the_optimum_is_that_of_costs_no_plan_would_pay_for_forbidden_arcs(
        m in 1usize..9, n in 1usize..9, share in 0.2f64..1.0, tied in any::<bool>(), seed in 0u64..10_000,
    ) {
        let (a, b) = weights(m, n, tied, seed);
        let mut rng = rng(seed);
        let mut costs = matrix(m, n, &mut rng);
        costs.mapv_inplace(|c| if tied { c.round() } else { c });
        costs.mapv_inplace(|c| if rng.random_range(0.0..1.0) < share { c } else { f64::INFINITY });
        let filled = costs.mapv(|c| if c.is_finite() { c } else { 1e3 });
        let dense = NetworkSimplex::new(&a, &b).unwrap().solve(&filled, &Interrupt::default()).unwrap();
        let mass: f64 = a.iter().sum();
        let forbidden: f64 =
            dense.plan.iter().filter(|e| !costs[[e.row, e.column]].is_finite()).map(|e| e.mass).sum();
        match solve(&a, &b, &costs) {
            Ok(found) => {
                prop_assert!(forbidden <= 1e-14 * mass);
                assert_optimal(&a, &b, &costs, &found);
                let (found, dense) = (cost_of(&found.plan, &costs), cost_of(&dense.plan, &filled));
                prop_assert!((found - dense).abs() <= 1e-11 * mass, "{} {}", found, dense);
            }
            Err(Error::Unreachable { left, .. }) => {
                prop_assert!(forbidden > 1e-15 * mass && left <= forbidden * (1.0 + 1e-9));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn parts_that_no_arc_connects_may_differ_by_the_rounding_of_their_weights() {
    let (a, b) = ([0.1 + 0.2, 0.7], [0.3, 0.7]);
    assert!(a[0] > b[0]);
    let costs = ndarray::array![[1.0, f64::INFINITY], [f64::INFINITY, 2.0]];
    let found = solve(&a, &b, &costs).unwrap();
    assert_optimal(&a, &b, &costs, &found);
    let error = solve(&[0.3 + 1e-12, 0.7 - 1e-12], &b, &costs).unwrap_err().to_string();
    assert!(
        error
            .starts_with("the allowed arcs must have a plan with the given weights, but a mass of 1.000e-12"),
        "{error}"
    );
    assert!(error.ends_with("of row 1 (counting from 1) has nowhere to go"), "{error}");
}

#[test]
fn long_cycles_of_two_arcs_per_point_turn_either_way() {
    // Arcs (i, i) and (i, i + 1) of a ring have two perfect matchings; the cheaper one wins, however long the ring.
    let n = 3000;
    for (straight, turned) in [(1.0, 2.0), (2.0, 1.0)] {
        let mut arcs: Vec<Vec<(u32, f64)>> =
            (0..n).map(|i| vec![(i as u32, straight), (((i + 1) % n) as u32, turned)]).collect();
        arcs.iter_mut().for_each(|row| row.sort_by_key(|arc| arc.0));
        let starts = (0..=n).map(|i| 2 * i).collect();
        let (columns, costs) = arcs.into_iter().flatten().unzip();
        let costs = SparseCosts::new((n, n), starts, columns, costs).unwrap();
        let uniform = vec![1.0 / n as f64; n];
        let mut simplex = NetworkSimplex::new(&uniform, &uniform).unwrap();
        let found = simplex.solve_sparse(&costs, &Interrupt::default()).unwrap();
        let cost: f64 = found.plan.iter().map(|e| e.mass * costs.get(e.row, e.column).unwrap()).sum();
        assert!(found.optimal && (cost - 1.0).abs() < 1e-12, "{cost}");
    }
}

#[test]
fn a_solve_on_arcs_leaves_nothing_behind() {
    let (a, b) = weights(6, 7, false, 1);
    let costs = matrix(6, 7, &mut rng(2));
    let mut simplex = NetworkSimplex::new(&a, &b).unwrap();
    let alone = simplex.solve_sparse(&sparse(&costs), &Interrupt::default()).unwrap();
    let dense = simplex.solve(&costs, &Interrupt::default()).unwrap();
    let again = simplex.solve_sparse(&sparse(&costs), &Interrupt::default()).unwrap();
    assert!((cost_of(&dense.plan, &costs) - cost_of(&alone.plan, &costs)).abs() < 1e-13);
    assert_eq!(alone.plan, again.plan);
}

#[test]
fn arcs_out_of_order_or_out_of_range_and_costs_that_are_not_finite_are_refused() {
    let new = |starts: &[usize], columns: &[u32], costs: &[f64]| {
        SparseCosts::new((2, 2), starts.to_vec(), columns.to_vec(), costs.to_vec()).unwrap_err().to_string()
    };
    assert!(new(&[0, 1], &[0], &[1.0]).starts_with("starts must be 3 numbers"));
    assert!(new(&[0, 2, 1], &[0], &[1.0]).starts_with("starts must be"));
    assert!(new(&[0, 2, 3], &[0, 0, 1], &[1.0; 3]).contains("rising and below 2 in row 1, but is 0"));
    assert!(new(&[0, 1, 2], &[0, 2], &[1.0; 2]).contains("rising and below 2 in row 2, but is 2"));
    assert!(new(&[0, 1, 2], &[0, 1], &[1.0, f64::NAN]).contains("row 2, column 2 is NaN"));
}
