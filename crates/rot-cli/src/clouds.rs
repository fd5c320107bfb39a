//! Point clouds from files: columns chosen and matched by name, rows with gaps left out, features scaled.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use ndarray::Array1;
use robust_ot::{Error, Measure};
use robust_ot_learn::data::{
    Header, Matching, Points, TableOptions, match_columns, read_points, read_vector,
};
use robust_ot_learn::{Scale, Uneven};

use crate::explain::naming;
use crate::failure::Failure;
use crate::input::{Input, Inputs, Names, is_scaled};
use crate::output::ending;
use crate::point_options::PointOptions;

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Reads point clouds, with weights from files where given. Columns are matched by name and features scaled.
pub fn read_clouds(
    paths: &[PathBuf],
    options: &PointOptions,
    weights: &[Option<PathBuf>],
) -> Result<Inputs, Failure> {
    let table = options.table();
    check_use(paths, &table)?;
    let mut all = paths.iter().map(|path| read(path, &table)).collect::<Result<Vec<_>, Failure>>()?;
    table.check_dropped(&all)?;
    note_left_out(paths, &all);
    let columns = match_tables(paths, &mut all)?;
    let (mut measures, mut names) = (Vec::new(), Vec::new());
    for ((path, points), weights) in paths.iter().zip(all).zip(weights) {
        let rows = points.table.values.nrows() + points.missing_rows.len();
        let gaps = points.missing_rows.len();
        names.push((points.table.names.clone(), kept_rows(&points.missing_rows, rows), gaps));
        measures.push(measure(path, points, weights.as_deref(), rows)?);
    }
    same_dim(paths, &measures)?;
    let measures = scale(options.scale, measures, names.iter().find_map(|(features, ..)| features.as_ref()))?;
    let side =
        |((path, measure), (features, rows, gaps)): ((&PathBuf, Measure), (_, Vec<usize>, usize))| Input {
            path: path.clone(),
            measure,
            names: Names::Rows(rows),
            missing_rows: gaps,
            unknown: Vec::new(),
            features,
        };
    let sides = paths.iter().zip(measures).zip(names).map(side).collect();
    Ok(Inputs { sides, columns: Some(columns) })
}

/// Refuses what standard input and arrays cannot do.
fn check_use(paths: &[PathBuf], table: &TableOptions) -> Result<(), Failure> {
    if paths.iter().filter(|path| is_standard_input(path)).count() > 1 {
        let message = "- must be only one of the inputs, but standard input is given twice";
        return Err(Failure::Input(message.into()));
    }
    if table.header != Header::Auto
        && paths.iter().all(|path| ["npy", "parquet"].contains(&ending(path).as_str()))
    {
        let message = "--header must be absent where every input is .npy or .parquet, but is given";
        return Err(Failure::Input(message.into()));
    }
    Ok(())
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

fn read(path: &Path, table: &TableOptions) -> Result<Points, Failure> {
    if is_standard_input(path) {
        return Ok(Points::read(Box::new(BufReader::new(io::stdin())), path, table)?);
    }
    Ok(read_points(path, table)?)
}

/// Notes the rows with gaps and the index columns that are left out.
fn note_left_out(paths: &[PathBuf], all: &[Points]) {
    for (path, points) in paths.iter().zip(all).filter(|(_, points)| !points.missing_rows.is_empty()) {
        let (gaps, rows) = (points.missing_rows.len(), points.table.values.nrows());
        let place = path.display();
        say!("rot: note: {place}: {gaps} of {} rows have missing values and are left out", rows + gaps);
    }
    let labels: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    let indexed = labels.iter().zip(all).filter(|(_, points)| points.has_index);
    let indexed: Vec<&str> = indexed.map(|(label, _)| label.as_str()).collect();
    if !indexed.is_empty() {
        say!("rot: note: the first column of {} is taken for an index and left out", some_of(&indexed));
    }
}

/// The rows without gaps, from 0.
fn kept_rows(missing: &[usize], rows: usize) -> Vec<usize> {
    let mut missing = missing.iter().peekable();
    (0..rows).filter(|row| missing.next_if_eq(&row).is_none()).collect()
}

/// A measure with the weights of a file, of a column, or equal ones.
fn measure(path: &Path, points: Points, file: Option<&Path>, rows: usize) -> Result<Measure, Failure> {
    let place = path.display().to_string();
    let kept = kept_rows(&points.missing_rows, rows);
    let (weights, place) = match file {
        None => (points.weights, place),
        Some(file) => {
            let weights = read_vector(file)?;
            // Rows with gaps have weights in the file, too.
            let fits = weights.len() == rows;
            let chosen = || kept.iter().map(|&row| weights[row]).collect::<Array1<f64>>();
            let weights = if fits { chosen() } else { weights };
            (Some(weights), format!("{} with {place}", file.display()))
        }
    };
    let measure = match weights {
        None => return Measure::uniform(points.table.values).map_err(|error| Failure::about(&place, &error)),
        Some(weights) => Measure::new(points.table.values, weights),
    };
    let measure = measure.map_err(|error| Failure::about(&place, &error))?;
    if is_scaled(&measure) {
        let (place, mass) = (file.unwrap_or(path).display(), measure.mass());
        say!("rot: note: {place}: weights sum to {mass}; they were scaled to sum to 1");
    }
    Ok(measure)
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
        let naming = naming(names.map(Vec::as_slice));
        let (wide, narrow) = (naming.feature(widest), naming.feature(narrowest));
        say!(
            "rot: note: {wide} varies {ratio:.0} times as much as {narrow} and dominates the distance; --scale std puts features on one scale"
        );
    }
    Ok(scale.apply(measures)?)
}

/// Puts the columns of all tables in the order of the first one with names, and notes how they were matched if that is not
/// obvious.
fn match_tables(paths: &[PathBuf], tables: &mut [Points]) -> Result<Matching, Failure> {
    let labels: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    let named = labels.iter().zip(&*tables);
    let named: Vec<_> =
        named.map(|(label, points)| (label.as_str(), points.table.names.as_deref())).collect();
    let found = match_columns(&named)?;
    let which = |chosen: &dyn Fn(usize) -> bool| -> Vec<&str> {
        (0..labels.len()).filter(|&at| chosen(at)).map(|at| labels[at].as_str()).collect()
    };
    let reordered = which(&|at| found.orders[at].is_some());
    if !reordered.is_empty() {
        say!("rot: note: columns are matched by name; their order differs in {}", some_of(&reordered));
    }
    let nameless = which(&|at| tables[at].table.names.is_none());
    if !nameless.is_empty() && nameless.len() < tables.len() {
        say!("rot: note: columns are matched by position in {}, without a header", some_of(&nameless));
    }
    for (Points { table, .. }, order) in tables.iter_mut().zip(found.orders) {
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
