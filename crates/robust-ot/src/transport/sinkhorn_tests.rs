//! The entropic oracle against duality, the exact oracle and closed forms.

use approx::{assert_abs_diff_eq, assert_relative_eq};
use ndarray::{Array2, Axis, array};
use proptest::prelude::*;

use super::*;
use crate::testing::{matrix, measure, rng};
use crate::transport::NetworkSimplex;

fn feasible(sinkhorn: &Sinkhorn, cost: &Array2<f64>) -> Array2<f64> {
    sinkhorn.feasible_plan(&cost.into()).dense(&cost.into())
}

fn objective(plan: &Array2<f64>, cost: &Array2<f64>, lambda: f64) -> f64 {
    plan.iter().zip(cost).map(|(&x, c)| x * c + if x > 0.0 { lambda * x * x.ln() } else { 0.0 }).sum()
}

proptest! {
    #[test]
    fn the_bracket_is_sound_converged_or_not(
        m in 1usize..12, n in 1usize..12, lambda in -4.0..1.0f64, sweeps in 1usize..30, seed in 0u64..10_000,
    ) {
        let lambda = 10f64.powf(lambda);
        let (a, b) = (measure(m, 1, seed), measure(n, 1, seed + 1));
        let (a, b) = (a.weights().to_vec(), b.weights().to_vec());
        let cost = matrix(m, n, &mut rng(seed));
        let mut sinkhorn = Sinkhorn::new(&a, &b, lambda).unwrap();
        sinkhorn.solve(&cost, 0.0, sweeps, &Interrupt::default()).unwrap();
        let plan = feasible(&sinkhorn, &cost);
        // The plan is rounded to the marginals.
        prop_assert!(plan.iter().all(|x| *x >= 0.0));
        assert_abs_diff_eq!(plan.sum_axis(Axis(1)), Array1::from_vec(a.clone()), epsilon = 1e-12);
        assert_abs_diff_eq!(plan.sum_axis(Axis(0)), Array1::from_vec(b.clone()), epsilon = 1e-12);
        // The dual value lies below the optimum of a long run, and the plan's value above.
        let mut long = Sinkhorn::new(&a, &b, lambda).unwrap();
        long.solve(&cost, 1e-13, 100_000, &Interrupt::default()).unwrap();
        let optimum_below = long.dual_value();
        let optimum_above = objective(&feasible(&long, &cost), &cost, lambda);
        prop_assert!(sinkhorn.dual_value() <= optimum_above + 1e-10);
        prop_assert!(objective(&plan, &cost, lambda) >= optimum_below - 1e-10);
    }

    #[test]
    fn a_converged_solve_closes_the_gap(m in 1usize..10, n in 1usize..10, lambda in -2.0..1.0f64, seed in 0u64..10_000) {
        let lambda = 10f64.powf(lambda);
        let (a, b) = (measure(m, 1, seed).weights().to_vec(), measure(n, 1, seed + 1).weights().to_vec());
        let cost = matrix(m, n, &mut rng(seed));
        let mut sinkhorn = Sinkhorn::new(&a, &b, lambda).unwrap();
        let report = sinkhorn.solve(&cost, 1e-12, 100_000, &Interrupt::default()).unwrap();
        prop_assert!(report.converged, "{report:?}");
        let primal = objective(&feasible(&sinkhorn, &cost), &cost, lambda);
        assert_abs_diff_eq!(primal, sinkhorn.dual_value(), epsilon = 1e-9);
    }
}

#[test]
fn the_plan_of_two_points_has_its_closed_form() {
    // Symmetric 2 × 2: γ₁₁/γ₁₂ = e^{1/λ}.
    let mut sinkhorn = Sinkhorn::new(&[0.5, 0.5], &[0.5, 0.5], 0.2).unwrap();
    let cost = array![[0.0, 1.0], [1.0, 0.0]];
    sinkhorn.solve(&cost, 1e-15, 1000, &Interrupt::default()).unwrap();
    let plan = feasible(&sinkhorn, &cost);
    assert_relative_eq!(plan[[0, 0]] / plan[[0, 1]], 5f64.exp(), epsilon = 1e-10);
}

#[test]
fn a_small_regularization_approaches_the_exact_plan_without_nan() {
    let (m, n) = (40, 30);
    let (a, b) = (vec![1.0 / m as f64; m], vec![1.0 / n as f64; n]);
    let cost = matrix(m, n, &mut rng(3)).mapv(f64::abs);
    let exact = NetworkSimplex::new(&a, &b).unwrap().solve(&cost, &Interrupt::default()).unwrap();
    let exact: f64 = exact.plan.iter().map(|e| e.mass * cost[[e.row, e.column]]).sum();
    for lambda in [1e-2, 1e-4, 1e-6, 1e-9] {
        let mut sinkhorn = Sinkhorn::new(&a, &b, lambda).unwrap();
        sinkhorn.solve(&cost, 1e-6, 2000, &Interrupt::default()).unwrap();
        let plan = feasible(&sinkhorn, &cost);
        let transport: f64 = (&plan * &cost).sum();
        assert!(transport >= exact - 1e-12 && transport.is_finite(), "{lambda}: {transport} < {exact}");
        assert_abs_diff_eq!(plan.sum_axis(Axis(1)), Array1::from_vec(a.clone()), epsilon = 1e-15);
        assert_abs_diff_eq!(plan.sum_axis(Axis(0)), Array1::from_vec(b.clone()), epsilon = 1e-15);
        // λ Ω lies between −λ ln(mn) and 0, so the dual value bounds the exact cost from below.
        let slack = lambda * ((m * n) as f64).ln();
        assert!(
            sinkhorn.dual_value() <= exact + 1e-12 && sinkhorn.dual_value() >= exact - slack - 0.05,
            "{lambda}"
        );
    }
}

#[test]
fn a_warm_start_needs_fewer_sweeps() {
    let n = 60;
    let weights = vec![1.0 / n as f64; n];
    let cost = matrix(n, n, &mut rng(9)).mapv(f64::abs);
    let nearby = &cost + &(matrix(n, n, &mut rng(10)) * 1e-3);
    let mut warm = Sinkhorn::new(&weights, &weights, 0.02).unwrap();
    warm.solve(&cost, 1e-8, 10_000, &Interrupt::default()).unwrap();
    let warm = warm.solve(&nearby, 1e-8, 10_000, &Interrupt::default()).unwrap();
    let mut cold = Sinkhorn::new(&weights, &weights, 0.02).unwrap();
    let cold = cold.solve(&nearby, 1e-8, 10_000, &Interrupt::default()).unwrap();
    assert!(warm.converged && cold.converged && warm.iterations < cold.iterations, "{warm:?} {cold:?}");
}

#[test]
fn regularization_out_of_range_is_refused() {
    for lambda in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            Sinkhorn::<f64>::new(&[1.0], &[1.0], lambda),
            Err(Error::Parameter { name: "entropy", .. })
        ));
    }
}

/// Random points with costs |x − y|², in factors.
fn line(m: usize, n: usize) -> crate::transport::CostFactors {
    let (x, y) = (matrix(m, 3, &mut rng(21)), matrix(n, 3, &mut rng(22)));
    let squares = |points: &Array2<f64>| points.mapv(|x| x * x).sum_axis(Axis(1));
    let lengths = (squares(&x), squares(&y));
    crate::transport::CostFactors::new((x, y), lengths, true)
}

#[test]
fn single_precision_agrees_with_double() {
    let (m, n) = (70, 90);
    let (a, b) = (measure(m, 1, 4).weights().to_vec(), measure(n, 1, 5).weights().to_vec());
    let cost = matrix(m, n, &mut rng(6)).mapv(f64::abs);
    let narrow = cost.mapv(|c| c as f32);
    for lambda in [1.0, 0.05, 0.005] {
        let (mut double, mut single) =
            (Sinkhorn::new(&a, &b, lambda).unwrap(), Sinkhorn::new(&a, &b, lambda).unwrap());
        let ended = double.solve(&cost, 1e-10, 100_000, &Interrupt::default()).unwrap();
        assert!(ended.converged, "{lambda}: {ended:?}");
        let ended = single.solve(&narrow, 1e-5, 100_000, &Interrupt::default()).unwrap();
        assert!(ended.converged, "{lambda}: {ended:?}");
        assert_abs_diff_eq!(double.dual_value(), single.dual_value(), epsilon = 1e-5);
    }
}

#[test]
fn streamed_costs_and_no_held_plan_lead_to_the_same_optimum() {
    let (m, n) = (50, 40);
    let (a, b) = (measure(m, 1, 7).weights().to_vec(), measure(n, 1, 8).weights().to_vec());
    let factors = line(m, n);
    let cost = factors.matrix();
    for lambda in [1.0, 0.1] {
        let mut values = Vec::new();
        for memory in [usize::MAX, 0] {
            let mut stored = Sinkhorn::new(&a, &b, lambda).unwrap().with_memory(memory);
            let mut streamed = Sinkhorn::new(&a, &b, lambda).unwrap().with_memory(memory);
            let ended = stored.solve(&cost, 1e-11, 100_000, &Interrupt::default()).unwrap();
            assert!(ended.converged, "{lambda} {memory}: {ended:?}");
            let ended =
                streamed.solve(CostRows::Streamed(&factors), 1e-11, 100_000, &Interrupt::default()).unwrap();
            assert!(ended.converged, "{lambda} {memory}: {ended:?}");
            values.extend([stored.dual_value(), streamed.dual_value()]);
        }
        values.iter().for_each(|value| assert_abs_diff_eq!(*value, values[0], epsilon = 1e-9));
    }
}

#[test]
fn points_without_weight_take_no_part() {
    let cost = matrix(5, 4, &mut rng(11)).mapv(f64::abs);
    let (a, b) = ([0.25, 0.0, 0.5, 0.25, 0.0], [0.5, 0.0, 0.25, 0.25]);
    let mut sinkhorn = Sinkhorn::new(&a, &b, 1e-3).unwrap();
    assert!(sinkhorn.solve(&cost, 1e-10, 10_000, &Interrupt::default()).unwrap().converged);
    let plan = feasible(&sinkhorn, &cost);
    assert!(plan.iter().all(|x| x.is_finite()));
    assert_abs_diff_eq!(plan.sum_axis(Axis(1)).to_vec().as_slice(), a.as_slice(), epsilon = 1e-15);
    assert_abs_diff_eq!(plan.sum_axis(Axis(0)).to_vec().as_slice(), b.as_slice(), epsilon = 1e-15);
}

#[test]
fn hard_plateaus_are_left_by_scaling() {
    // A plan that is nearly decoupled: mass has to pass through entries of e^-90.
    let cost = array![[0.0, 1.0], [1.0, 0.05]];
    let mut sinkhorn = Sinkhorn::new(&[0.495, 0.505], &[0.505, 0.495], 0.0108).unwrap();
    let ended = sinkhorn.solve(&cost, 1e-12, 100_000, &Interrupt::default()).unwrap();
    assert!(ended.converged && ended.iterations < 2000, "{ended:?}");
}

#[test]
fn nearly_decoupled_plans_converge_to_the_last_digits() {
    // At λ = range/1500, parts of the plan are almost decoupled.
    let n = 120;
    let weights = vec![1.0 / n as f64; n];
    let (x, y) = (matrix(n, 4, &mut rng(41)), matrix(n, 4, &mut rng(42)));
    let cost = Array2::from_shape_fn((n, n), |(i, j)| (&x.row(i) - &y.row(j)).mapv(|d| d * d).sum());
    let range = cost.fold(0.0_f64, |top, c| top.max(*c));
    let mut sinkhorn = Sinkhorn::new(&weights, &weights, range / 1500.0).unwrap();
    let ended = sinkhorn.solve(&cost, 1e-11, 100_000, &Interrupt::default()).unwrap();
    assert!(ended.converged && ended.iterations < 10_000, "{ended:?}");
}

#[test]
fn newton_steps_need_no_held_plan() {
    // Nearly decoupled at λ = range/500, so that 10,000 sweeps alone do not get there.
    let n = 100;
    let weights = vec![1.0 / n as f64; n];
    let (x, y) = (matrix(n, 4, &mut rng(41)), matrix(n, 4, &mut rng(42)));
    let cost = Array2::from_shape_fn((n, n), |(i, j)| (&x.row(i) - &y.row(j)).mapv(|d| d * d).sum());
    let range = cost.fold(0.0_f64, |top, c| top.max(*c));
    let solve = |memory: usize| {
        let mut sinkhorn = Sinkhorn::new(&weights, &weights, range / 500.0).unwrap().with_memory(memory);
        let ended = sinkhorn.solve(&cost, 1e-11, 10_000, &Interrupt::default()).unwrap();
        (ended, sinkhorn.dual_value())
    };
    let ((held, value), (unheld, again)) = (solve(usize::MAX), solve(0));
    assert!(held.converged && unheld.converged, "{held:?} {unheld:?}");
    assert_abs_diff_eq!(value, again, epsilon = 1e-12);
}

#[test]
fn a_solve_that_starts_at_the_solution_is_there() {
    let (m, n) = (30, 20);
    let mut a = vec![1.0 / (m - 1) as f64; m];
    a[3] = 0.0;
    let b = vec![1.0 / n as f64; n];
    let cost = matrix(m, n, &mut rng(3));
    let solve = |start: Option<&(Array1<f64>, Array1<f64>)>| {
        let mut sinkhorn = Sinkhorn::<f64>::new(&a, &b, 0.01).unwrap();
        if let Some((f, g)) = start {
            sinkhorn.start_at(f.as_slice().unwrap(), g.as_slice().unwrap()).unwrap();
        }
        let report = sinkhorn.solve(&cost, 1e-10, 10_000, &Interrupt::default()).unwrap();
        assert!(report.converged);
        (report.iterations, sinkhorn.potentials())
    };
    let (cold, potentials) = solve(None);
    let (warm, again) = solve(Some(&potentials));
    assert!(warm <= 2 && cold > 10, "{warm} and {cold} iterations");
    for (x, y) in potentials.0.iter().zip(&again.0).filter(|(x, _)| x.is_finite()) {
        assert!((x - y).abs() < 1e-8);
    }
    let mut sinkhorn = Sinkhorn::<f64>::new(&a, &b, 0.01).unwrap();
    assert!(sinkhorn.start_at(&[0.0; 2], &[0.0; 20]).is_err());
    assert!(sinkhorn.start_at(&[f64::NAN; 30], &[0.0; 20]).is_err());
}
