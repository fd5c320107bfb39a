//! Comparisons within each value of a column, and of all values together.

use std::collections::BTreeMap;

use ndarray::Axis;
use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::categories::holm;
use super::comparison::{Comparison, compare};
use super::exchange::Exchange;
use super::sample::Samples;
use super::settings::CompareSettings;

/// The comparison within one value.
#[derive(Debug, Clone)]
pub struct Within {
    /// The value.
    pub value: String,
    /// The numbers of its rows, before and after.
    pub rows: [usize; 2],
    /// The comparison and its p-value adjusted for the number of values (Holm); absent with fewer than two rows on a side.
    pub comparison: Option<(Comparison, f64)>,
}

/// Compares all rows whose value occurs on both sides at least twice, each relative to the mean of its value and exchanged
/// within it; then each value alone. `values` has one value for each row before, then for each row after. `None` once
/// interrupted.
///
/// ```
/// use ndarray::Array2;
/// use robust_ot::solve::Interrupt;
/// use robust_ot_learn::compare::{CompareSettings, Samples, compare_within};
///
/// let before = Array2::from_shape_fn((40, 1), |(i, _)| (i % 2 * 50 + i % 7) as f64);
/// let after = Array2::from_shape_fn((40, 1), |(i, _)| (i % 2 * 50 + i % 7 + i % 2 * 9) as f64);
/// let samples = Samples { before, after, names: vec!["x".into()], ..Samples::default() };
/// let values: Vec<String> = (0..80).map(|i| if i % 2 == 0 { "even" } else { "odd" }.into()).collect();
/// let found = compare_within(&samples, &values, &CompareSettings::default(), &Interrupt::default(), &|_| ())?;
/// let (all, each) = found.unwrap();
/// assert!(all.differs && each[0].value == "even");
/// assert!(each[0].comparison.as_ref().unwrap().1 > 0.05 && each[1].comparison.as_ref().unwrap().1 < 0.05);
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When no value has two rows on both sides, or as for [`compare`].
pub fn compare_within(
    samples: &Samples,
    values: &[String],
    settings: &CompareSettings,
    interrupt: &Interrupt,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Option<(Comparison, Vec<Within>)>> {
    let first = samples.before.nrows();
    let mut rows: BTreeMap<&str, [Vec<usize>; 2]> = BTreeMap::new();
    for (row, value) in values.iter().enumerate() {
        let side = usize::from(row >= first);
        rows.entry(value).or_default()[side].push(row - side * first);
    }
    let usable = |sides: &[Vec<usize>; 2]| sides.iter().all(|side| side.len() >= 2);
    let kept = |side: usize| {
        let kept = rows.values().filter(|sides| usable(sides)).flat_map(|sides| sides[side].clone());
        let mut kept: Vec<usize> = kept.collect();
        kept.sort_unstable();
        kept
    };
    let kept = [kept(0), kept(1)];
    if kept[0].is_empty() {
        return Err(Error::Conflict {
            name: "by",
            rule: "have a value with two rows on both sides".into(),
            found: format!("none of {} values has", rows.len()),
        });
    }
    let codes: BTreeMap<&str, usize> = rows.keys().enumerate().map(|(code, value)| (*value, code)).collect();
    let code = |row: usize| codes[values[row].as_str()];
    let strata: Vec<usize> =
        kept[0].iter().map(|&row| code(row)).chain(kept[1].iter().map(|&row| code(row + first))).collect();
    let together = Samples { center_by: Some(strata.clone()), ..samples.select(&kept) };
    let in_strata = CompareSettings { exchange: Exchange::Strata(strata), ..settings.clone() };
    let Some(mut all) = compare(&together, &in_strata, interrupt, done)? else { return Ok(None) };
    all.rows_given = [first, values.len() - first];
    all.number_rows(&kept);
    let mut each = Vec::new();
    for (value, sides) in &rows {
        let counts = [sides[0].len(), sides[1].len()];
        let mut within = Within { value: (*value).to_owned(), rows: counts, comparison: None };
        if usable(sides) {
            let free = CompareSettings { exchange: Exchange::Free, ..settings.clone() };
            match compare(&samples.select(sides), &free, interrupt, done) {
                Ok(Some(mut found)) => {
                    found.number_rows(sides);
                    within.comparison = Some((found, 1.0));
                }
                Ok(None) => return Ok(None),
                // All columns are constant within this value: there is nothing to compare.
                Err(Error::Conflict { name: "columns", .. }) => {}
                Err(error) => return Err(error),
            }
        }
        each.push(within);
    }
    let p_values: Vec<f64> =
        each.iter().filter_map(|within| Some(within.comparison.as_ref()?.0.p_value)).collect();
    let compared = each.iter_mut().filter_map(|within| within.comparison.as_mut());
    compared.zip(holm(&p_values)).for_each(|((_, adjusted), p_value)| *adjusted = p_value);
    Ok(Some((all, each)))
}

impl Comparison {
    /// Numbers rows as in the tables from which these were taken.
    fn number_rows(&mut self, rows: &[Vec<usize>; 2]) {
        for moved in &mut self.moved {
            (moved.before, moved.after) = (rows[0][moved.before], rows[1][moved.after]);
        }
    }
}

impl Samples {
    /// Some rows of each side.
    fn select(&self, rows: &[Vec<usize>; 2]) -> Self {
        let first = self.before.nrows();
        let pooled: Vec<usize> =
            rows[0].iter().copied().chain(rows[1].iter().map(|row| row + first)).collect();
        let category = |(name, values): &(String, Vec<String>)| {
            (name.clone(), pooled.iter().map(|&row| values[row].clone()).collect())
        };
        Self {
            before: self.before.select(Axis(0), &rows[0]),
            after: self.after.select(Axis(0), &rows[1]),
            names: self.names.clone(),
            groups: self.groups.clone(),
            categories: self.categories.iter().map(category).collect(),
            center_by: None,
        }
    }
}
