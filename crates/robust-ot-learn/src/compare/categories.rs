//! Text columns: shares of their values on both sides.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::Serialize;

use super::arrangements::Arrangements;
use super::ranking::p_value;

/// The share of one value on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// The value.
    pub value: String,
    /// The number of rows before.
    pub before: usize,
    /// The number of rows after.
    pub after: usize,
}

/// The change of a text column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Category {
    /// The name of the column.
    pub name: String,
    /// The p-value of the total variation between the shares, adjusted for the number of text columns (Holm).
    pub p_value: f64,
    /// The total variation: half the sum of |difference of shares|.
    pub distance: f64,
    /// The values, by falling |difference of shares|.
    pub shares: Vec<Share>,
}

impl Category {
    /// The values that occur on one side only.
    pub fn one_sided(&self) -> impl Iterator<Item = &Share> {
        self.shares.iter().filter(|share| share.before == 0 || share.after == 0)
    }
}

/// Judges text columns, each given by its name and the values of the rows before and after.
pub(super) fn judge_categories(
    columns: &[(String, Vec<String>)],
    before: usize,
    arrangements: &Arrangements,
) -> Vec<Category> {
    let mut found: Vec<Category> =
        columns.par_iter().map(|(name, values)| judge(name, values, before, arrangements)).collect();
    let p_values: Vec<f64> = found.iter().map(|category| category.p_value).collect();
    for (category, adjusted) in found.iter_mut().zip(holm(&p_values)) {
        category.p_value = adjusted;
    }
    found
}

fn judge(name: &str, values: &[String], before: usize, arrangements: &Arrangements) -> Category {
    let mut codes = HashMap::new();
    let coded: Vec<usize> = values
        .iter()
        .map(|value| {
            let next = codes.len();
            *codes.entry(value.as_str()).or_insert(next)
        })
        .collect();
    let counts = |number: usize| {
        let mut counts = vec![[0_usize; 2]; codes.len()];
        for (side, code) in arrangements.side(number).iter().zip(&coded) {
            counts[*code][usize::from(!side)] += 1;
        }
        counts
    };
    let distance = |counts: &[[usize; 2]]| {
        let totals = [0, 1].map(|side| counts.iter().map(|count| count[side]).sum::<usize>() as f64);
        let change = |count: &[usize; 2]| (count[0] as f64 / totals[0] - count[1] as f64 / totals[1]).abs();
        0.5 * counts.iter().map(change).sum::<f64>()
    };
    let all: Vec<f64> = (0..arrangements.len()).map(|number| distance(&counts(number))).collect();
    let after = values.len() - before;
    let mut names: Vec<(&str, usize)> = codes.iter().map(|(value, code)| (*value, *code)).collect();
    names.sort_unstable_by_key(|(_, code)| *code);
    let mut shares: Vec<Share> = names
        .into_iter()
        .zip(counts(0))
        .map(|((value, _), [before, after])| Share { value: value.to_owned(), before, after })
        .collect();
    let change =
        |share: &Share| (share.before as f64 / before as f64 - share.after as f64 / after as f64).abs();
    shares.sort_by(|x, y| change(y).total_cmp(&change(x)).then_with(|| x.value.cmp(&y.value)));
    Category { name: name.to_owned(), p_value: p_value(&all), distance: all[0], shares }
}

/// p-values adjusted for their number: the k-th least is multiplied by the number that are no smaller (Holm 1979).
///
/// ```
/// use robust_ot_learn::compare::holm;
/// assert_eq!(holm(&[0.5, 0.01, 0.02]), [0.5, 0.03, 0.04]);
/// ```
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&i, &j| p_values[i].total_cmp(&p_values[j]));
    let (mut adjusted, mut least) = (vec![0.0; p_values.len()], 0.0_f64);
    for (place, &at) in order.iter().enumerate() {
        least = least.max(((p_values.len() - place) as f64 * p_values[at]).min(1.0));
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;

    use super::*;
    use crate::compare::Exchange;

    #[test]
    fn a_new_value_is_found_and_its_p_value_is_exact() {
        let values: Vec<String> = ["a", "a", "a", "b", "b", "b"].map(str::to_owned).into();
        let arrangements = Arrangements::new((3, 3), &Exchange::Free, 99, 0).unwrap();
        let columns = [("kind".to_owned(), values)];
        let found = &judge_categories(&columns, 3, &arrangements)[0];
        // Two of the twenty arrangements separate the values.
        assert_relative_eq!(found.p_value, 0.1);
        assert_relative_eq!(found.distance, 1.0);
        assert_eq!(found.one_sided().count(), 2);
        assert_eq!(found.shares[0], Share { value: "a".into(), before: 3, after: 0 });
    }
}
