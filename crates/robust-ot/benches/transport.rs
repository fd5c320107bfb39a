//! The two oracles and the two products of a robust distance: `cargo bench --bench transport`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use robust_ot::sets::Displacements;
use robust_ot::solve::Interrupt;
use robust_ot::transport::{NetworkSimplex, Sinkhorn};
use robust_ot::{Grouping, Measure};

/// Number of features.
const D: usize = 30;

fn clouds(n: usize) -> Displacements {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(n as u64);
    let mut cloud = |shift: f64| {
        let points = Array2::from_shape_simple_fn((n, D), || rng.random_range(-1.0..1.0) + shift);
        Measure::uniform(points).expect("points are finite")
    };
    Displacements::new(&cloud(0.0), &cloud(0.3), &Grouping::none(D)).expect("dimensions agree")
}

fn transport(c: &mut Criterion) {
    let never = Interrupt::default();
    let mut group = c.benchmark_group("transport");
    group.sample_size(10);
    for n in [200, 1000] {
        let maps = clouds(n);
        let (eye, weights) = (Array2::eye(D), vec![1.0 / n as f64; n]);
        let mut turned = eye.clone();
        turned[[0, 0]] = 1.05;
        let (cost, nearby) = (maps.cost(&eye).expect("size"), maps.cost(&turned).expect("size"));
        group.bench_function(BenchmarkId::new("costs", n), |b| b.iter(|| maps.cost(&eye)));
        let plan = Array2::from_elem((n, n), 1.0 / (n * n) as f64);
        group.bench_function(BenchmarkId::new("moment", n), |b| b.iter(|| maps.moment(&plan)));
        let solve =
            |simplex: &mut NetworkSimplex, cost| simplex.solve(cost, &never).expect("costs are finite");
        let fresh = || NetworkSimplex::new(&weights, &weights).expect("weights are valid");
        group.bench_function(BenchmarkId::new("simplex, cold", n), |b| b.iter(|| solve(&mut fresh(), &cost)));
        let mut solved = fresh();
        solve(&mut solved, &cost);
        group.bench_function(BenchmarkId::new("simplex, warm", n), |b| {
            b.iter(|| solve(&mut solved.clone(), &nearby));
        });
        let narrow = cost.mapv(|c| c as f32);
        let lambda = 0.05 * cost.mean().unwrap_or(1.0);
        group.bench_function(BenchmarkId::new("sinkhorn f64", n), |b| {
            b.iter(|| Sinkhorn::new(&weights, &weights, lambda)?.solve(&cost, 1e-5, 1000, &never));
        });
        group.bench_function(BenchmarkId::new("sinkhorn f32", n), |b| {
            b.iter(|| Sinkhorn::new(&weights, &weights, lambda)?.solve(&narrow, 1e-5, 1000, &never));
        });
    }
    group.finish();
}

criterion_group!(benches, transport);
criterion_main!(benches);
