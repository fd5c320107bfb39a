//! Measures read from files, with names for their points and features.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use robust_ot::{Error, Measure};
use robust_ot_learn::data::{
    Embedded, Embeddings, Histogram, Matching, Table, match_columns, read_points, read_vector,
};
use robust_ot_learn::{Scale, Uneven};

use crate::explain::feature_name;
use crate::failure::Failure;
use crate::point_options::PointOptions;

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

/// Measures, and what decided which of their columns correspond; nothing for texts.
pub struct Inputs {
    pub sides: Vec<Input>,
    pub columns: Option<Matching>,
}

/// Reads point clouds, with weights from files where given. Columns are matched by name and features scaled.
pub fn read_clouds(
    paths: &[PathBuf],
    options: &PointOptions,
    weights: &[Option<PathBuf>],
) -> Result<Inputs, Failure> {
    let mut tables = paths.iter().map(|path| read_points(path)).collect::<Result<Vec<_>, _>>()?;
    let columns = match_tables(paths, &mut tables)?;
    let (mut measures, mut names) = (Vec::new(), Vec::new());
    for ((path, table), weights) in paths.iter().zip(tables).zip(weights) {
        names.push(table.names);
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
        measures.push(measure);
    }
    same_dim(paths, &measures)?;
    let measures = scale(options.scale, measures, names.iter().flatten().next())?;
    let side = |((path, measure), features): ((&PathBuf, Measure), Option<Vec<String>>)| Input {
        path: path.clone(),
        measure,
        words: None,
        unknown: Vec::new(),
        features,
    };
    let sides = paths.iter().zip(measures).zip(names).map(side).collect();
    Ok(Inputs { sides, columns: Some(columns) })
}

/// Fails unless all measures have the same number of features.
fn same_dim(paths: &[PathBuf], measures: &[Measure]) -> Result<(), Failure> {
    let source_dim = measures.first().map_or(0, Measure::dim);
    let other = measures.iter().zip(paths).find(|(measure, _)| measure.dim() != source_dim);
    other.map_or(Ok(()), |(measure, path)| {
        let place = format!("{} and {}", paths[0].display(), path.display());
        Err(Failure::about(&place, &Error::Dimension { source_dim, target_dim: measure.dim() }))
    })
}

/// Scales the features of all measures; without a scale, notes features whose spreads differ so much that one decides.
fn scale(scale: Scale, measures: Vec<Measure>, names: Option<&Vec<String>>) -> Result<Vec<Measure>, Failure> {
    if scale == Scale::None
        && let Some(Uneven { widest, narrowest, ratio }) = Uneven::among(&measures)?
    {
        let name = |f: usize| feature_name(names.map(Vec::as_slice), f);
        let (wide, narrow) = (name(widest), name(narrowest));
        say!(
            "rot: note: {wide} varies {ratio:.0} times as much as {narrow}, so it outweighs it; --scale std ends that"
        );
    }
    Ok(scale.apply(measures)?)
}

/// Puts the columns of all tables in the order of the first one with names, and notes how they were matched if that is not
/// obvious.
fn match_tables(paths: &[PathBuf], tables: &mut [Table]) -> Result<Matching, Failure> {
    let labels: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    let named: Vec<_> =
        labels.iter().zip(&*tables).map(|(label, table)| (label.as_str(), table.names.as_deref())).collect();
    let found = match_columns(&named)?;
    let which = |chosen: &dyn Fn(usize) -> bool| -> Vec<&str> {
        (0..labels.len()).filter(|&at| chosen(at)).map(|at| labels[at].as_str()).collect()
    };
    let reordered = which(&|at| found.orders[at].is_some());
    if !reordered.is_empty() {
        say!("rot: note: columns are matched by name; their order differs in {}", some_of(&reordered));
    }
    let nameless = which(&|at| tables[at].names.is_none());
    if !nameless.is_empty() && nameless.len() < tables.len() {
        say!("rot: note: columns are matched by position in {}, without a header", some_of(&nameless));
    }
    for (table, order) in tables.iter_mut().zip(found.orders) {
        if let Some(order) = order {
            *table = table.select(&order);
        }
    }
    Ok(found.by)
}

/// The first name, and how many more there are.
fn some_of(names: &[&str]) -> String {
    match names {
        [first, others @ ..] if !others.is_empty() => format!("{first} and {} more", others.len()),
        names => names.concat(),
    }
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
