//! Measures read from files, with names for their points and features.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use robust_ot::Measure;
use robust_ot_learn::data::{Embedded, Embeddings, Histogram, Matching};

use crate::clouds::read_clouds;
use crate::failure::Failure;
use crate::point_options::PointOptions;

/// The maximum number of unknown words listed by name.
const LISTED: usize = 20;

/// What the points of a measure are called.
#[derive(Debug)]
pub enum Names {
    /// The words of a text.
    Words(Vec<String>),
    /// The rows of a table, from 0; there are fewer than in the table if rows with gaps are left out.
    Rows(Vec<usize>),
}

/// A measure with the names of its points and features.
#[derive(Debug)]
pub struct Input {
    pub path: PathBuf,
    pub measure: Measure,
    pub names: Names,
    /// The number of rows with missing values, which are left out.
    pub missing_rows: usize,
    /// The words of a text without a vector.
    pub unknown: Vec<String>,
    /// The header of a table.
    pub features: Option<Vec<String>>,
}

impl Input {
    /// The name of point i: its word, or its row, from 1.
    pub fn point(&self, i: usize) -> String {
        match &self.names {
            Names::Words(words) => words[i].clone(),
            Names::Rows(rows) => format!("row {}", rows[i] + 1),
        }
    }

    /// The name of point i in a file for programs: its word, or the number of its row, from 1.
    pub fn key(&self, i: usize) -> String {
        match &self.names {
            Names::Words(words) => words[i].clone(),
            Names::Rows(rows) => (rows[i] + 1).to_string(),
        }
    }

    /// The file name without folder and extension.
    pub fn label(&self) -> String {
        if self.path.as_os_str() == "-" {
            return "stdin".to_owned();
        }
        self.path
            .file_stem()
            .map_or_else(|| self.path.display().to_string(), |s| s.to_string_lossy().into_owned())
    }
}

/// Measures, and what decided which of their columns correspond; nothing for texts.
pub struct Inputs {
    pub sides: Vec<Input>,
    pub columns: Option<Matching>,
}

/// Reads word counts and the vectors of their words. The vector file is read once.
pub fn read_texts(paths: &[PathBuf], vectors: &Path) -> Result<Vec<Input>, Failure> {
    let texts = paths.iter().map(|path| Histogram::read(path)).collect::<Result<Vec<_>, _>>()?;
    let wanted: HashSet<&str> = texts.iter().flat_map(|text| text.words.iter().map(String::as_str)).collect();
    let embeddings = Embeddings::read(vectors, &wanted)?;
    let embed = |(path, text): (&PathBuf, &Histogram)| {
        let Embedded { measure, words, unknown } = text.embed(&embeddings, path)?;
        Ok(Input {
            path: path.clone(),
            measure,
            names: Names::Words(words),
            missing_rows: 0,
            unknown,
            features: None,
        })
    };
    let inputs = paths.iter().zip(&texts).map(embed).collect::<Result<Vec<_>, Failure>>()?;
    inputs.iter().for_each(say_unknown);
    if inputs.iter().any(|input| is_scaled(&input.measure)) {
        say!("rot: note: the word counts of each text were scaled to sum to 1");
    }
    Ok(inputs)
}

/// Reads texts if word vectors are given, point clouds otherwise.
pub fn read_all(
    paths: &[PathBuf],
    vectors: Option<&Path>,
    points: &PointOptions,
    weights: &[Option<PathBuf>],
) -> Result<Inputs, Failure> {
    match vectors {
        None => read_clouds(paths, points, weights),
        Some(_) if weights.iter().any(Option::is_some) => Err(Failure::Input(
            "--source-weights and --target-weights are for points; with --embeddings the counts are the weights".into(),
        )),
        Some(vectors) => Ok(Inputs { sides: read_texts(paths, vectors)?, columns: None }),
    }
}

/// Whether the weights had to be scaled to sum to one.
pub fn is_scaled(measure: &Measure) -> bool {
    (measure.mass() - 1.0).abs() > 1e-9
}

fn say_unknown(input: &Input) {
    let Input { path, unknown, measure, .. } = input;
    if !unknown.is_empty() {
        let listed: Vec<_> = unknown.iter().take(LISTED).map(String::as_str).collect();
        let more = if unknown.len() > LISTED { ", … (--json lists all)" } else { "" };
        let (count, total) = (unknown.len(), unknown.len() + measure.len());
        let (place, listed) = (path.display(), listed.join(", "));
        say!("rot: note: {place}: {count} of {total} words have no vector and are left out: {listed}{more}");
    }
}
