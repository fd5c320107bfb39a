//! Seconds per epoch.

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::solve::Interrupt;
use robust_ot::{Grouping, MetricSet};
use robust_ot_cuda::{Device, Precision, Training};
use robust_ot_learn::data::Features;
use robust_ot_learn::{Dataset, Objective, TrainSettings, Trainer};

use crate::floor;

/// Number of timed epochs, after one that is not timed.
const EPOCHS: usize = 11;
/// Dimension of the label vectors.
const DIM: usize = 300;

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    rows: usize,
    features: usize,
    labels: usize,
    groups: usize,
    batch: usize,
    precision: Precision,
    /// The target for an epoch.
    wanted: &'static str,
}

pub fn run(device: &Device) {
    let flickr = Case {
        name: "Flickr size, batch 150",
        rows: 10_000,
        features: 4096,
        labels: 1000,
        groups: 20,
        batch: 150,
        precision: Precision::F32,
        wanted: "30 ms",
    };
    let wide = Case {
        name: "many labels, batch 150",
        features: 1024,
        labels: 20_000,
        groups: 10,
        wanted: "1000 ms, 20 GB",
        ..flickr
    };
    for case in [
        flickr,
        Case { name: "Flickr size, batch 1000", batch: 1000, wanted: "15 ms", ..flickr },
        Case { name: "Flickr size, batch 150, tf32", precision: Precision::Tf32, wanted: "", ..flickr },
        Case {
            name: "Flickr size, batch 1000, tf32",
            batch: 1000,
            precision: Precision::Tf32,
            wanted: "",
            ..flickr
        },
        wide,
    ] {
        case.time(device);
    }
}

impl Case {
    fn time(&self, device: &Device) {
        let Self { name, rows, features, labels, groups, batch, precision, wanted } = *self;
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let numbers = Array2::from_shape_fn((rows, features), |_| rng.random_range(-1.0_f32..1.0));
        let truth = (0..rows).map(|_| {
            let mut found = Vec::new();
            while found.len() < 5 {
                let label = rng.random_range(0..labels);
                if !found.contains(&label) {
                    found.push(label);
                }
            }
            found
        });
        let truth = Targets::new(labels, truth.collect::<Vec<_>>()).expect("labels are in range");
        let data = Dataset::new(Features::Dense(numbers), truth).expect("numbers are finite");
        let mut vectors = Array2::from_shape_fn((labels, DIM), |_| rng.random_range(-1.0_f64..1.0));
        vectors.outer_iter_mut().for_each(|mut vector| {
            let length = vector.dot(&vector).sqrt();
            vector /= length;
        });
        let grouping = Grouping::random(DIM, groups, 1).expect("groups are fewer than features");
        let set = LossSettings {
            set: MetricSet::P { k: 1 },
            oracle_entropy: Some(0.2),
            ..LossSettings::truncated()
        };
        let robust = RobustLoss::new(&vectors, &grouping, set).expect("vectors are finite");
        let objective = Objective::mix(1.0, 1.0, robust).expect("weights are positive");
        let settings = TrainSettings { batch, epochs: EPOCHS + 1, ..Default::default() };
        let engine = Training::new(device, &data, &objective, &settings, precision).expect("it fits");
        let trainer = Trainer::new(&data, None, &objective, settings).expect("settings are in range");
        let mut trainer = trainer.with_engine(Box::new(engine)).expect("the GPU responds");
        let mut seconds: Vec<f64> = (0..=EPOCHS)
            .map(|_| {
                let epoch = trainer.epoch(&Interrupt::default(), |_, _| ()).expect("training goes well");
                epoch.map_or(0.0, |epoch| epoch.seconds)
            })
            .skip(1)
            .collect();
        let (free, all) = device.memory().expect("the GPU responds");
        seconds.sort_by(f64::total_cmp);
        println!(
            "| an epoch, {name} ({rows} rows, {features} features, {labels} labels, five per row, r = {groups}) | {:.1} ms ({:.1} to {:.1}), \
             {:.1} GB of GPU memory in use | {:.1} ms | {wanted} |",
            1e3 * seconds[EPOCHS / 2],
            1e3 * seconds[0],
            1e3 * seconds[EPOCHS - 1],
            (all - free) as f64 / 1e9,
            1e3 * self.floor()
        );
    }
    /// The time of X W and Xᵀ G; h [G | E], Γ E and [M | Z][G | E]ᵀ of the loss; and what Adam reads and writes.
    fn floor(&self) -> f64 {
        let Self { rows, features, labels, groups, batch, .. } = *self;
        let wide = groups * (groups + 1) / 2 + DIM;
        let a_row = 2.0 * labels as f64 * (2 * features + 5 * DIM + 2 * wide) as f64;
        let steps = rows.div_ceil(batch) as f64;
        rows as f64 * a_row / floor::SINGLE + steps * (8 * 4 * features * labels) as f64 / floor::BYTES
    }
}
