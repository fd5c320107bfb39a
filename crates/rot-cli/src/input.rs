//! Measures read from files, with names for their points and features.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use robust_ot::Measure;
use robust_ot_learn::data::{Embedded, Embeddings, Histogram, read_points, read_vector};

use crate::failure::Failure;

/// The maximum number of unknown words listed by name.
const LISTED: usize = 20;

/// A measure with the names of its points and features.
#[derive(Debug)]
pub struct Input {
    pub path: PathBuf,
    pub measure: Measure,
    /// The words of a text.
    pub words: Option<Vec<String>>,
    /// The words of a text without a vector.
    pub unknown: Vec<String>,
    /// The header of a table.
    pub features: Option<Vec<String>>,
}

impl Input {
    /// The name of point i.
    pub fn point(&self, i: usize) -> String {
        self.words.as_ref().map_or_else(|| format!("row {}", i + 1), |words| words[i].clone())
    }

    /// The file name without folder and extension.
    pub fn label(&self) -> String {
        self.path
            .file_stem()
            .map_or_else(|| self.path.display().to_string(), |s| s.to_string_lossy().into_owned())
    }
}

/// Reads point clouds, with weights from files where given.
pub fn read_clouds(paths: &[PathBuf], weights: &[Option<PathBuf>]) -> Result<Vec<Input>, Failure> {
    let read = |(path, weights): (&PathBuf, &Option<PathBuf>)| {
        let table = read_points(path)?;
        let place = path.display().to_string();
        let (measure, place) = match weights {
            None => (Measure::uniform(table.values), place),
            Some(file) => {
                let weights = read_vector(file)?;
                (Measure::new(table.values, weights), format!("{} with {place}", file.display()))
            }
        };
        let measure = measure.map_err(|error| Failure::about(&place, &error))?;
        if let Some(file) = weights
            && is_scaled(&measure)
        {
            let (place, mass) = (file.display(), measure.mass());
            say!("rot: note: {place}: weights sum to {mass}; they were scaled to sum to 1");
        }
        Ok(Input { path: path.clone(), measure, words: None, unknown: Vec::new(), features: table.names })
    };
    paths.iter().zip(weights).map(read).collect()
}

/// Reads word counts and the vectors of their words. The vector file is read once.
pub fn read_texts(paths: &[PathBuf], vectors: &Path) -> Result<Vec<Input>, Failure> {
    let texts = paths.iter().map(|path| Histogram::read(path)).collect::<Result<Vec<_>, _>>()?;
    let wanted: HashSet<&str> = texts.iter().flat_map(|text| text.words.iter().map(String::as_str)).collect();
    let embeddings = Embeddings::read(vectors, &wanted)?;
    let embed = |(path, text): (&PathBuf, &Histogram)| {
        let Embedded { measure, words, unknown } = text.embed(&embeddings, path)?;
        Ok(Input { path: path.clone(), measure, words: Some(words), unknown, features: None })
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
    weights: &[Option<PathBuf>],
) -> Result<Vec<Input>, Failure> {
    match vectors {
        None => read_clouds(paths, weights),
        Some(_) if weights.iter().any(Option::is_some) => Err(Failure::Input(
            "--source-weights and --target-weights are for points; with --embeddings the counts are the weights".into(),
        )),
        Some(vectors) => read_texts(paths, vectors),
    }
}

fn is_scaled(measure: &Measure) -> bool {
    (measure.mass() - 1.0).abs() > 1e-9
}

fn say_unknown(input: &Input) {
    let Input { path, unknown, words, .. } = input;
    if !unknown.is_empty() {
        let listed: Vec<_> = unknown.iter().take(LISTED).map(String::as_str).collect();
        let more = if unknown.len() > LISTED { ", … (--json lists all)" } else { "" };
        let (count, total) = (unknown.len(), unknown.len() + words.as_ref().map_or(0, Vec::len));
        let (place, listed) = (path.display(), listed.join(", "));
        say!("rot: note: {place}: {count} of {total} words have no vector and are left out: {listed}{more}");
    }
}
