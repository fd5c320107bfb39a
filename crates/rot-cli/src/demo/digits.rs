//! Handwritten digits with few training images: cross-entropy against the robust mix, which knows which digits look alike.

use std::io::{self, Write};
use std::time::Instant;

use ndarray::Array2;
use robust_ot::Grouping;
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::solve::Interrupt;
use robust_ot_learn::data::Features;
use robust_ot_learn::{
    Dataset, LossChoice, Model, Objective, Scores, TrainSettings, Trainer, sample_per_class,
};

use crate::failure::Failure;
use crate::score_table::score_table;

/// The images, written by tools/make_demo_digits.py; source and license are in the folder's README.
const IMAGES: &[u8] = include_bytes!("../../assets/digits/images.idx");
/// The digit of each image.
const LABELS: &[u8] = include_bytes!("../../assets/digits/labels.idx");
/// The name and the display segments of each digit.
const SEGMENTS: &str = include_str!("../../assets/digits/segments.vec");
/// Bytes in the headers of the two IDX files.
const HEADERS: (usize, usize) = (16, 8);
/// Pixels per image, 8 × 8.
const PIXELS: usize = 64;
/// Training images per digit.
const PER_DIGIT: usize = 10;

/// Trains both models and prints how their scores differ.
pub fn run() -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let start = Instant::now();
    let (names, vectors) = segments();
    let (train, test) = split(names.len())?;
    writeln!(
        out,
        "\nHandwritten digits: trained on {} images, tested on {} others. Two digits are close if they share most of the",
        train.rows(),
        test.rows()
    )?;
    writeln!(out, "segments that a seven-segment display lights for them.\n")?;
    let robust = RobustLoss::new(&vectors, &Grouping::none(vectors.ncols()), LossSettings::default())?;
    let plain = learn(&train, &Objective::cross_entropy(names.len()), &names)?;
    let mix = learn(&train, &Objective::mix(1.0, LossChoice::MIX_OT, robust)?, &names)?;
    let scores = |model: &Model| {
        let probabilities = model.probabilities_of_preprocessed(test.features())?;
        Scores::of(probabilities.view(), test.targets(), Some(&vectors))
    };
    let (plain, mix) = (scores(&plain)?, scores(&mix)?);
    writeln!(out, "{}\n", score_table(&[("cross-entropy", &plain), ("robust mix", &mix)]))?;
    let less = |of: fn(&Scores) -> Option<f64>| match (of(&plain), of(&mix)) {
        (Some(plain), Some(mix)) => 100.0 * (1.0 - mix / plain),
        _ => 0.0,
    };
    writeln!(
        out,
        "With the robust mix, the mass that predictions put on wrong digits costs {:.0} % less. Both took {:.1} s.\n",
        less(|scores| scores.expected_cost),
        start.elapsed().as_secs_f64()
    )?;
    writeln!(
        out,
        "Try it on your own files:  rot train --train-x x.npy --train-y tags.txt --label-vectors words.vec"
    )?;
    Ok(())
}

fn learn(train: &Dataset, objective: &Objective, names: &[String]) -> Result<Model, Failure> {
    let settings = TrainSettings { batch: 50, epochs: 100, ..TrainSettings::default() };
    let mut trainer = Trainer::new(train, None, objective, settings)?;
    while trainer.epoch(&Interrupt::default(), |_, _| ())?.is_some() {}
    Ok(trainer.into_model(names.to_vec())?)
}

/// Splits the images into a few of every digit for training and the rest for testing.
fn split(labels: usize) -> Result<(Dataset, Dataset), Failure> {
    let pixels: Vec<f32> = IMAGES[HEADERS.0..].iter().map(|x| f32::from(*x)).collect();
    let images = Array2::from_shape_vec((pixels.len() / PIXELS, PIXELS), pixels);
    let images = images.map_err(|error| Failure::Other(error.to_string()))?;
    let truth = LABELS[HEADERS.1..].iter().map(|label| [usize::from(*label)]);
    let all = Dataset::new(Features::Dense(images), Targets::new(labels, truth)?)?;
    let (chosen, left) = sample_per_class(all.targets(), PER_DIGIT, 0)?;
    Ok((all.select(&chosen), all.select(&left)))
}

/// The names of the digits, and their segments as vectors of length one.
fn segments() -> (Vec<String>, Array2<f64>) {
    let lines = SEGMENTS.lines().skip(1).filter_map(|line| line.split_once(' '));
    let (names, vectors): (Vec<String>, Vec<Vec<f64>>) = lines
        .map(|(name, numbers)| (name.to_owned(), numbers.split(' ').filter_map(|x| x.parse().ok()).collect()))
        .unzip();
    let width = vectors.first().map_or(0, Vec::len);
    let mut matrix = Array2::from_shape_fn((names.len(), width), |(label, segment)| vectors[label][segment]);
    matrix.rows_mut().into_iter().for_each(|mut row| row /= row.dot(&row).sqrt());
    (names, matrix)
}
