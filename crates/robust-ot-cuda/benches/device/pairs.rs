//! All distances among 1000 documents of 100 words.

use std::time::Instant;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use robust_ot::Result;
use robust_ot::device::{Corpus, PairAnswers, PairOracle, PairRound, solve_pairs_on};
use robust_ot::solve::{Interrupt, PairSettings, solve_pairs};
use robust_ot::{Grouping, Measure, MetricSet, Settings};
use robust_ot_cuda::{Device, Pairs};

use crate::floor;

const DOCUMENTS: usize = 1000;
const WORDS: usize = 100;
const DIM: usize = 300;
const GROUPS: usize = 10;
/// Number of words, each with a vector.
const VOCABULARY: usize = 20_000;
const TOPICS: usize = 20;
/// Number of pairs that the CPU is timed on.
const COMPARED: usize = 2000;

pub fn run(device: &Device) {
    let documents = documents();
    let grouping = Grouping::contiguous(DIM, GROUPS).expect("fewer groups than features");
    let set = MetricSet::P { k: 1 };
    let pairs: Vec<_> = (0..DOCUMENTS).flat_map(|i| (i + 1..DOCUMENTS).map(move |j| (i, j))).collect();
    let settings = Settings::default();
    for entropy in [0.02, 0.005] {
        let start = Instant::now();
        let measures: Vec<_> = documents.iter().collect();
        let corpus = Corpus::new(&measures, &grouping).expect("sizes fit");
        let mut oracle = Timed { pairs: Pairs::new(device, &corpus).expect("it fits"), seconds: 0.0 };
        let wanted = PairSettings {
            measures: &measures,
            grouping: corpus.grouping(),
            set: &set,
            entropy,
            settings: &settings,
        };
        let found = solve_pairs_on(&mut oracle, &corpus, &pairs, wanted, &Interrupt::default(), &|_| ())
            .expect("it fits");
        let on_gpu = start.elapsed().as_secs_f64();
        let found: Vec<_> = found.into_iter().map(|found| found.expect("every pair is solved")).collect();
        let left = found.iter().filter(|found| found.on_cpu).count() as f64 / found.len() as f64;
        let calls: usize = found.iter().map(|found| found.iterations).sum();
        let gap = found.iter().fold(0.0_f64, |top, found| top.max(found.relative_gap));
        // Times the CPU on some of the pairs, evenly drawn, with two threads.
        let some: Vec<usize> = (0..COMPARED).map(|at| at * pairs.len() / COMPARED).collect();
        let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
        let start = Instant::now();
        let some_pairs: Vec<(usize, usize)> = some.iter().map(|&at| pairs[at]).collect();
        let on_cpu = two.install(|| solve_pairs(&some_pairs, wanted, &Interrupt::default(), &|_| ()));
        let on_cpu: Vec<f64> = on_cpu.into_iter().map(|pair| pair.expect("it is solved").value).collect();
        let expected = start.elapsed().as_secs_f64() / COMPARED as f64 * pairs.len() as f64;
        let apart = some
            .iter()
            .zip(&on_cpu)
            .fold(0.0_f64, |top, (&at, value)| top.max((found[at].value - value).abs() / value.abs()));
        // Costs and γT of every call.
        let least = calls as f64 * 2.0 * 2.0 * (WORDS * WORDS * DIM) as f64 / floor::DOUBLE;
        println!(
            "| {} pairs of {DOCUMENTS} documents of {WORDS} words, d = {DIM}, W_P r = {GROUPS}, entropy {entropy} | {on_gpu:.1} s, {:.1} of them on the \
             device, {:.2} calls per pair, {:.1} % of the pairs finished on the processor, relative gaps up to {gap:.1e}; {expected:.0} s on two CPU threads, extrapolated from {COMPARED} pairs, {:.0} times as long, \
             values differ by up to {apart:.1e} | {least:.1} s | ten times faster |",
            pairs.len(),
            oracle.seconds,
            calls as f64 / pairs.len() as f64,
            100.0 * left,
            expected / on_gpu
        );
    }
}

/// Pairs with the time that they take.
#[derive(Debug)]
struct Timed {
    pairs: Pairs,
    seconds: f64,
}

impl PairOracle for Timed {
    fn solve(&mut self, round: &PairRound<'_>) -> Result<PairAnswers> {
        let start = Instant::now();
        let found = self.pairs.solve(round);
        self.seconds += start.elapsed().as_secs_f64();
        found
    }
}

/// Documents of words around a topic, with vectors of length one.
fn documents() -> Vec<Measure> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let topics = Array2::from_shape_fn((TOPICS, DIM), |_| StandardNormal.sample(&mut rng));
    let mut words: Array2<f64> =
        Array2::from_shape_fn((VOCABULARY, DIM), |_| StandardNormal.sample(&mut rng));
    for (at, mut word) in words.outer_iter_mut().enumerate() {
        word.scaled_add(0.8, &topics.row(at % TOPICS));
        let length = word.dot(&word).sqrt();
        word /= length;
    }
    (0..DOCUMENTS)
        .map(|document| {
            let chosen: Vec<usize> = (0..WORDS)
                .map(|_| {
                    let topic =
                        if rng.random_bool(0.5) { document % TOPICS } else { rng.random_range(0..TOPICS) };
                    rng.random_range(0..VOCABULARY / TOPICS) * TOPICS + topic
                })
                .collect();
            Measure::uniform(words.select(ndarray::Axis(0), &chosen)).expect("finite")
        })
        .collect()
}
