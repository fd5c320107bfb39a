//! Streamed entropic transport of 100,000 × 100,000 points.

use std::time::Instant;

use ndarray::{Array1, Array2, Axis};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::device::EntropicTask;
use robust_ot::solve::{Interrupt, SolveOptions};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings};
use robust_ot_cuda::{Device, Streamed};

use crate::floor;

const DIM: usize = 64;
const GROUPS: usize = 8;

pub fn run(device: &Device) {
    for points in [10_000, 50_000, 100_000] {
        let (x, y) = clouds(points);
        let entropy = 0.05 * median_cost(&x, &y);
        time_sweeps(device, &x, &y, entropy);
    }
    let (x, y) = clouds(100_000);
    let (source, target) = (Measure::uniform(x).expect("finite"), Measure::uniform(y).expect("finite"));
    let grouping = Grouping::contiguous(DIM, GROUPS).expect("fewer groups than features");
    // The worst metric of the independent plan defines the costs; their median sets the entropy.
    let set = MetricSet::P { k: 1 };
    let problem = Problem::grouped(&source, &target, set, &grouping).expect("sizes fit");
    let entropy = 0.05 * robust_median(&source, &target, &grouping);
    let problem = problem.with_entropy(entropy).expect("positive");
    let settings = Settings::default().with_tolerance(1e-2);
    let start = Instant::now();
    let oracle = Box::new(Streamed::new(device).expect("kernels compile"));
    let found = problem
        .solve_with(&settings, SolveOptions { device: Some(oracle), ..Default::default() })
        .expect("it fits");
    let (free, all) = device.memory().expect("the GPU responds");
    println!(
        "| entropic W_P, r = {GROUPS}, 100,000 × 100,000 points, d = {DIM}, entropy .05 · median | {}, relative gap {:.1e}, {:.2} s, {} oracle \
         calls, {:.2} GB of GPU memory in use | | gap 1e-2, 15 s, 2 GB |",
        found.status,
        found.relative_gap,
        start.elapsed().as_secs_f64(),
        found.oracle_calls,
        (all - free) as f64 / 1e9
    );
}

/// Standard normal points, and others that are rotated, stretched and shifted.
fn clouds(count: usize) -> (Array2<f64>, Array2<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(count as u64);
    let mut normal =
        |rows, columns| Array2::from_shape_fn((rows, columns), |_| StandardNormal.sample(&mut rng));
    let x: Array2<f64> = normal(count, DIM);
    let turn: Array2<f64> = Array2::eye(DIM) + normal(DIM, DIM) * 0.2;
    let mut y = normal(count, DIM).dot(&turn);
    y.slice_mut(ndarray::s![.., ..6]).mapv_inplace(|v| v + 0.5);
    (x, y)
}

fn median_cost(x: &Array2<f64>, y: &Array2<f64>) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut costs: Vec<f64> = (0..10_001)
        .map(|_| {
            let (i, j) = (rng.random_range(0..x.nrows()), rng.random_range(0..y.nrows()));
            (&x.row(i) - &y.row(j)).mapv(|v| v * v).sum()
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs[5000]
}

fn robust_median(source: &Measure, target: &Measure, grouping: &Grouping) -> f64 {
    let some: Vec<usize> = (0..500).collect();
    let part = |measure: &Measure| Measure::uniform(measure.points().select(Axis(0), &some)).expect("finite");
    let (source, target) = (part(source), part(target));
    let maps = robust_ot::sets::Displacements::new(&source, &target, grouping).expect("sizes fit");
    let metric = MetricSet::P { k: 1 }.worst_case(maps.independent_moment()).expect("finite").metric;
    let mut costs: Vec<f64> = maps.cost(&metric).expect("sizes fit").iter().copied().collect();
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn time_sweeps(device: &Device, x: &Array2<f64>, y: &Array2<f64>, entropy: f64) {
    let count = x.nrows();
    let weights = Array1::from_elem(count, 1.0 / count as f64);
    let norms = |points: &Array2<f64>| points.map_axis(Axis(1), |row| row.dot(&row));
    let task = EntropicTask {
        source_weights: &weights,
        target_weights: &weights,
        x,
        y,
        alpha: &norms(x),
        beta: &norms(y),
        regularization: entropy,
        tolerance: 0.0,
        max_sweeps: 10_000,
        interrupt: &Interrupt::default(),
    };
    let mut oracle = Streamed::new(device).expect("kernels compile");
    for fine in [false, true] {
        let seconds = oracle.time_sweeps(&task, 20, fine).expect("it fits");
        let entries = 2.0 * (count as f64).powi(2);
        let products = if fine { 3.0 } else { 1.0 } * 2.0 * DIM as f64 * entries / floor::HALF;
        let least = products.max(entries / floor::POWERS);
        let bits = if fine { 22 } else { 11 };
        let wanted = if count == 100_000 { "18 ms" } else { "" };
        println!(
            "| both potentials once, {count} × {count} points, d = {DIM}, factors of {bits} bits | {:.2} ms | {:.2} ms | {wanted} |",
            1e3 * seconds,
            1e3 * least
        );
    }
}
