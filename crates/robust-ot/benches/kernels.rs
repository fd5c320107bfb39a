//! Nanoseconds per element: `cargo bench --bench kernels`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use robust_ot::Kernels;

/// The length of a row that stays in the L1 cache.
const N: usize = 1000;

fn exponentials(c: &mut Criterion) {
    let mut group = c.benchmark_group("exp");
    group.throughput(Throughput::Elements(N as u64));
    let start: Vec<f64> = (0..N).map(|i| -(i as f64) * 0.05).collect();
    let narrow: Vec<f32> = start.iter().map(|x| *x as f32).collect();
    let (mut x, mut y) = (start.clone(), narrow.clone());
    group.bench_function("std f64", |b| {
        b.iter(|| start.iter().zip(&mut x).map(|(from, to)| *to = black_box(*from).exp()).count());
    });
    group.bench_function("f64", |b| {
        b.iter(|| {
            x.copy_from_slice(&start);
            black_box(f64::exp_shifted(&mut x, 0.0))
        });
    });
    group.bench_function("f32", |b| {
        b.iter(|| {
            y.copy_from_slice(&narrow);
            black_box(f32::exp_shifted(&mut y, 0.0))
        });
    });
    group.finish();
}

fn reductions(c: &mut Criterion) {
    let mut group = c.benchmark_group("reductions");
    group.throughput(Throughput::Elements(N as u64));
    let x: Vec<f64> = (0..N).map(|i| 1.0 / (1.0 + i as f64)).collect();
    let narrow: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let std = |x: &[f64]| x.iter().map(|x| x * x.ln()).sum::<f64>();
    group.bench_function("Σ x ln x, std", |b| b.iter(|| black_box(std(black_box(&x)))));
    group.bench_function("Σ x ln x, f64", |b| b.iter(|| black_box(f64::entropy(black_box(&x)))));
    group.bench_function("Σ x y, f64", |b| b.iter(|| black_box(f64::dot(black_box(&x), &x))));
    group.bench_function("Σ x y, f32", |b| b.iter(|| black_box(f32::dot(black_box(&narrow), &narrow))));
    let mut sum = x.clone();
    group.bench_function("y + a x, f64", |b| b.iter(|| f64::add_own(black_box(&mut sum), 1e-9, &x)));
    group.finish();
}

criterion_group!(benches, exponentials, reductions);
criterion_main!(benches);
