//! Random problems by number: `cargo test` tries a fixed number of them, `make soak` goes on for `SOAK_SECONDS` per test from
//! `SOAK_SEED`. A failure names its problem's seed; that seed with one second reproduces it.

use std::time::{Duration, Instant};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use robust_ot::MetricSet;
use robust_ot::sets::Prior;

/// Number of problems between two looks at the clock.
const ROUND: u64 = 64;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("SOAK_SECONDS and SOAK_SEED are whole numbers"))
}

/// Tries `usual` problems, or as many as fit into the stated time, and prints how many.
pub fn soak(what: &str, usual: u64, try_one: impl Fn(u64) + Sync) {
    let (start, first) = (Instant::now(), number("SOAK_SEED").unwrap_or(0));
    let time = number("SOAK_SECONDS").map(Duration::from_secs);
    let mut tried = 0;
    while time.map_or(tried < usual, |time| start.elapsed() < time) {
        let many = if time.is_some() { ROUND } else { usual };
        (first + tried..first + tried + many).into_par_iter().for_each(&try_one);
        tried += many;
    }
    println!(
        "{what}: {tried} problems from seed {first} in {:.0} s, no violation",
        start.elapsed().as_secs_f64()
    );
}

/// A set of any kind for metrics of size r × r.
#[allow(dead_code, reason = "not every test binary draws sets")]
pub fn draw_set(r: usize, lambda: f64, rng: &mut ChaCha8Rng) -> MetricSet {
    let prior = if rng.random_bool(0.5) { Prior::Eye } else { Prior::Ones };
    match rng.random_range(0..9) {
        0 => MetricSet::W2,
        1 => MetricSet::P { k: rng.random_range(1..4) },
        2 => MetricSet::PPower { k: rng.random_range(1..3) },
        3 => MetricSet::Kl { lambda, prior },
        4 => MetricSet::Ds { lambda, prior: Prior::Ones },
        5 => MetricSet::Features { lambda },
        6 => MetricSet::Srw { k: rng.random_range(1..=r) },
        7 => MetricSet::Rkp { rho: rng.random_range(1.0..5.0) },
        _ => MetricSet::Rkp { rho: f64::INFINITY },
    }
}
