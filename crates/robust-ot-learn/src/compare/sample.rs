//! The rows of two samples, with named columns.

use ndarray::{Array2, Axis, concatenate};
use robust_ot::{Error, Measure, Result};

use super::exchange::Exchange;
use super::settings::CompareSettings;

/// Two samples with the same columns.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::compare::Samples;
///
/// let samples = Samples {
///     before: array![[1.0], [2.0]],
///     after: array![[3.0], [4.0]],
///     names: vec!["height".into()],
///     ..Samples::default()
/// };
/// assert_eq!(samples.before.ncols(), samples.names.len());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    /// One row each.
    pub before: Array2<f64>,
    /// One row each, of the same columns.
    pub after: Array2<f64>,
    /// The names of the columns.
    pub names: Vec<String>,
    /// Groups of columns by name, if there are any: each column is in at most one.
    pub groups: Vec<(String, Vec<usize>)>,
    /// Text columns: name, and the values of the rows before, then of those after.
    pub categories: Vec<(String, Vec<String>)>,
    /// The stratum of each row before, then of each row after: values are taken relative to the mean of their stratum.
    pub center_by: Option<Vec<usize>>,
}

/// Samples ready for the statistics: pooled, without constant columns, scaled.
pub(super) struct Prepared {
    /// Rows before, then rows after.
    pub values: Array2<f64>,
    /// The same rows in their units.
    pub raw: Array2<f64>,
    pub before: usize,
    pub after: usize,
    pub names: Vec<String>,
    pub groups: Vec<(String, Vec<usize>)>,
    pub categories: Vec<(String, Vec<String>)>,
    /// The names of the constant columns, which are left out.
    pub constant: Vec<String>,
    pub exchange: Exchange,
    /// The rows that are used, of all rows before, then of all after.
    pub rows: [Vec<usize>; 2],
}

impl Samples {
    pub(super) fn prepare(&self, settings: &CompareSettings) -> Result<Prepared> {
        self.check()?;
        let counts = [self.before.nrows(), self.after.nrows()];
        settings.exchange.check(counts[0] + counts[1])?;
        let [before, after] = settings.exchange.some_rows(counts, settings.max_rows, settings.seed)?;
        let all: Vec<usize> =
            before.iter().copied().chain(after.iter().map(|row| row + self.before.nrows())).collect();
        let raw =
            concatenate![Axis(0), self.before.select(Axis(0), &before), self.after.select(Axis(0), &after)];
        let varies = |column: usize| {
            let column = raw.column(column);
            column.iter().any(|value| (value - column[0]).abs() > 0.0)
        };
        let (kept, constant): (Vec<usize>, Vec<usize>) = (0..raw.ncols()).partition(|column| varies(*column));
        if kept.is_empty() {
            return Err(Error::Conflict {
                name: "columns",
                rule: "vary".into(),
                found: format!("each of {} is constant", raw.ncols()),
            });
        }
        let raw = raw.select(Axis(1), &kept);
        let mut centered = raw.clone();
        if let Some(strata) = &self.center_by {
            let strata: Vec<usize> = all.iter().map(|&row| strata[row]).collect();
            center(&mut centered, &strata);
        }
        // One measure: the scale must not depend on which rows are before.
        let scaled = settings.scale.apply(vec![Measure::uniform(centered)?])?;
        let place = |column: &usize| kept.binary_search(column).ok();
        let groups = self
            .groups
            .iter()
            .map(|(name, columns)| (name.clone(), columns.iter().filter_map(place).collect::<Vec<usize>>()));
        let category = |(name, values): &(String, Vec<String>)| {
            (name.clone(), all.iter().map(|&row| values[row].clone()).collect())
        };
        let name = |&column: &usize| self.names[column].clone();
        Ok(Prepared {
            values: scaled[0].points().to_owned(),
            raw,
            before: before.len(),
            after: after.len(),
            names: kept.iter().map(name).collect(),
            groups: groups.filter(|(_, columns)| !columns.is_empty()).collect(),
            categories: self.categories.iter().map(category).collect(),
            constant: constant.iter().map(name).collect(),
            exchange: settings.exchange.of_rows(&all),
            rows: [before, after],
        })
    }

    fn check(&self) -> Result<()> {
        let columns = self.names.len();
        for (name, table) in [("before", &self.before), ("after", &self.after)] {
            if table.ncols() != columns {
                let (rule, found) = (format!("have {columns} columns"), format!("has {}", table.ncols()));
                return Err(Error::Conflict { name, rule, found });
            }
            if table.nrows() < 2 {
                let (rule, found) = ("have at least two rows".to_owned(), format!("has {}", table.nrows()));
                return Err(Error::Conflict { name, rule, found });
            }
        }
        let rows = self.before.nrows() + self.after.nrows();
        for (name, values) in &self.categories {
            if values.len() != rows {
                let (rule, found) =
                    (format!("have one value of '{name}' for each of {rows} rows"), values.len());
                let found = format!("there are {found}");
                return Err(Error::Conflict { name: "categories", rule, found });
            }
        }
        match &self.center_by {
            Some(strata) if strata.len() != rows => Err(Error::Conflict {
                name: "center_by",
                rule: format!("have one stratum for each of {rows} rows"),
                found: format!("has {}", strata.len()),
            }),
            _ => Ok(()),
        }
    }
}

/// Subtracts from every row the mean of the rows of its stratum.
fn center(values: &mut Array2<f64>, strata: &[usize]) {
    let count = strata.iter().max().map_or(0, |most| most + 1);
    let mut sums = Array2::<f64>::zeros((count, values.ncols()));
    let mut counts = vec![0.0; count];
    for (row, &stratum) in values.rows().into_iter().zip(strata) {
        sums.row_mut(stratum).scaled_add(1.0, &row);
        counts[stratum] += 1.0;
    }
    for (mut row, &stratum) in values.rows_mut().into_iter().zip(strata) {
        row.scaled_add(-1.0 / counts[stratum], &sums.row(stratum));
    }
}
