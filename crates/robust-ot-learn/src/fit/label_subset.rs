//! Rows with some of their labels.

use robust_ot::Result;
use robust_ot::loss::Targets;

use crate::dataset::Dataset;
use crate::selection::counts;

/// With fewer rows per label than this, the defaults are better than what so few rows choose.
const FEWEST_ROWS: f64 = 8.0;

/// The rows that have one of these labels, with these labels alone.
pub(super) fn only(data: &Dataset, labels: &[usize]) -> Result<Dataset> {
    let targets = data.targets();
    let mut places = vec![None; targets.labels()];
    labels.iter().enumerate().for_each(|(place, &label)| places[label] = Some(place));
    let of = |row: usize| targets.row(row).iter().filter_map(|&label| places[label]).collect::<Vec<_>>();
    let rows: Vec<usize> = (0..data.rows()).filter(|&row| !of(row).is_empty()).collect();
    let kept = Targets::new(labels.len(), rows.iter().map(|&row| of(row)))?;
    let features =
        if rows.len() == data.rows() { data.features().clone() } else { data.features().select(&rows) };
    let found = Dataset::new(features, kept)?;
    match data.weights() {
        None => Ok(found),
        Some(weights) => found.with_weights(rows.iter().map(|&row| weights[row]).collect()),
    }
}

/// The rows with these labels alone, and with one more label for rows that have none of them.
pub(super) fn with_rest(data: &Dataset, labels: &[usize]) -> Result<Dataset> {
    let rows = (0..data.rows()).map(|row| {
        let of_row = data.targets().row(row).iter().filter_map(|label| labels.binary_search(label).ok());
        let of_row: Vec<usize> = of_row.collect();
        if of_row.is_empty() { vec![labels.len()] } else { of_row }
    });
    Dataset::new(data.features().clone(), Targets::new(labels.len() + 1, rows)?)
}

/// Whether the labels that have rows have so few that the defaults are better than what these choose.
pub(crate) fn too_few_to_choose(data: &Dataset) -> bool {
    let counts = counts(data.targets());
    let seen = counts.iter().filter(|count| **count > 0).count();
    (counts.iter().sum::<usize>() as f64) < FEWEST_ROWS * seen as f64
}
