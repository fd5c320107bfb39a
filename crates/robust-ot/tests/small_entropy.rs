//! Entropies far below the costs, where the plan is nearly exact: every solve still converges.

mod common;
mod soak;

use common::normal;
use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::sets::{Displacements, Prior};
use robust_ot::solve::Interrupt;
use robust_ot::transport::{NetworkSimplex, Sinkhorn};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings, Status};
use soak::{draw_set, soak};

fn clouds(m: usize, n: usize, d: usize, seed: u64) -> (Measure, Measure) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut cloud = |rows| Measure::uniform(normal(rows, d, &mut rng)).unwrap();
    (cloud(m), cloud(n))
}

#[test]
fn every_set_converges_and_agrees_with_the_exact_plan() {
    let sets = [
        MetricSet::W2,
        MetricSet::P { k: 1 },
        MetricSet::PPower { k: 1 },
        MetricSet::Kl { lambda: 5.0, prior: Prior::Eye },
        MetricSet::Ds { lambda: 5.0, prior: Prior::Ones },
        MetricSet::Features { lambda: 5.0 },
        MetricSet::Srw { k: 2 },
        MetricSet::Rkp { rho: 2.0 },
    ];
    for (m, n, seeds) in [(16, 17, 8), (40, 40, 1)] {
        for (seed, set) in (0..seeds).flat_map(|seed| sets.iter().map(move |set| (seed, set))) {
            let (source, target) = clouds(m, n, 5, seed);
            let plain = Problem::new(&source, &target, set.clone()).unwrap();
            let exact = plain.solve(&Settings::default()).unwrap();
            for (entropy, memory) in [(3e-4, usize::MAX), (3e-4, 0), (3e-3, usize::MAX), (3e-5, 0)] {
                let problem = plain.clone().with_entropy(entropy).unwrap();
                let solution = problem.solve(&Settings::default().with_memory(memory)).unwrap();
                let what = format!("{set}, {m} × {n}, seed {seed}, entropy {entropy}, memory {memory}");
                assert_eq!(solution.status, Status::Converged, "{what}: {}", solution.relative_gap);
                // −λ ln(mn) ≤ W_λ − W_0 ≤ 0.
                let most = entropy * ((m * n) as f64).ln();
                assert!(solution.lower_bound <= exact.value, "{what}");
                assert!(solution.value >= exact.lower_bound - most, "{what}");
            }
        }
    }
}

#[test]
fn plain_transport_converges_to_nine_digits() {
    for (m, n, seeds) in [(16, 17, 30), (40, 40, 5), (60, 53, 5)] {
        for seed in 0..seeds {
            let (source, target) = clouds(m, n, 5, seed);
            let maps = Displacements::new(&source, &target, &Grouping::none(5)).unwrap();
            let cost = maps.cost(&Array2::eye(5)).unwrap();
            let (a, b) = (source.weights().to_vec(), target.weights().to_vec());
            let never = Interrupt::default();
            let exact = NetworkSimplex::new(&a, &b).unwrap().solve(&cost, &never).unwrap();
            let exact: f64 = exact.plan.iter().map(|e| e.mass * cost[[e.row, e.column]]).sum();
            for (lambda, memory) in [(1e-5, 0), (3e-4, usize::MAX), (3e-4, 0), (1e-2, usize::MAX)] {
                let mut sinkhorn = Sinkhorn::new(&a, &b, lambda).unwrap().with_memory(memory);
                let report = sinkhorn.solve(&cost, 1e-9, 10_000, &never).unwrap();
                assert!(report.converged, "{m} × {n}, seed {seed}, λ = {lambda}, {memory}: {report:?}");
                let transport = (&sinkhorn.plan(&cost).unwrap() * &cost).sum();
                let most = lambda * ((m * n) as f64).ln();
                assert!((-1e-12..=most).contains(&(transport - exact)), "{transport} {exact}");
            }
        }
    }
}

/// H(a) + H(b), the largest −Σ γ ln γ of a plan.
fn largest_entropy(source: &Measure, target: &Measure) -> f64 {
    let of = |measure: &Measure| -measure.weights().iter().map(|w| w * w.ln()).sum::<f64>();
    of(source) + of(target)
}

#[test]
fn no_bracket_is_wider_than_that_of_the_exact_plan() {
    soak("small entropies", 24, |seed| {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        // Mostly small; one in fifty has a thousand points.
        let most =
            if std::env::var_os("SOAK_SECONDS").is_some() && rng.random_bool(0.02) { 1000.0 } else { 60.0 };
        let mut size = || 8f64.powf(rng.random_range(1.0..f64::ln(most) / f64::ln(8.0))) as usize;
        let (m, n) = (size(), size());
        let d = rng.random_range(1..7);
        let (source, target) = clouds(m, n, d, seed);
        let maps = Displacements::new(&source, &target, &Grouping::none(d)).unwrap();
        let mut costs = maps.cost(&Array2::eye(d)).unwrap().into_raw_vec_and_offset().0;
        costs.sort_by(f64::total_cmp);
        let entropy = costs[costs.len() / 2] * 10f64.powf(rng.random_range(-6.0..-3.0));
        let set = draw_set(d, rng.random_range(0.5..10.0), rng);
        let settings = Settings::default().with_memory(if rng.random_bool(0.3) { 0 } else { usize::MAX });
        let plain = Problem::new(&source, &target, set.clone()).unwrap();
        let what = format!("seed {seed}, {set}, {m} × {n}, d = {d}, entropy {entropy:e}");
        let Ok(found) = plain.clone().with_entropy(entropy).unwrap().solve(&settings) else { return };
        if found.status == Status::Converged {
            return;
        }
        let exact = plain.solve(&settings).unwrap();
        let omega: f64 = exact.plan().iter().map(|e| e.mass * e.mass.ln()).sum();
        let width = exact.gap + entropy * (largest_entropy(&source, &target) + omega);
        assert!(found.gap <= width * (1.0 + 1e-9), "{what}: {found}, the exact plan gives {width:e}");
    });
}
