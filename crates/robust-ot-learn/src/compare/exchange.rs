//! Which rows may change sides if nothing has changed.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robust_ot::{Error, Result};

/// What is exchangeable under the null hypothesis that both samples come from one distribution.
///
/// | exchange | under the null hypothesis |
/// |---|---|
/// | `Free` (default) | all rows are independent |
/// | `Pairs` | row i before and row i after belong together; each pair may be swapped |
/// | `Strata` | rows change sides within their stratum only |
/// | `Blocks` | rows of one block stay together, as repeated measurements of one patient do |
///
/// Labels of strata and blocks are those of the rows before, then those after.
///
/// ```
/// use robust_ot_learn::compare::Exchange;
/// assert_eq!(Exchange::default(), Exchange::Free);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Exchange {
    /// All rows are independent.
    #[default]
    Free,
    /// Row i before and row i after are a pair.
    Pairs,
    /// The stratum of every row.
    Strata(Vec<usize>),
    /// The block of every row; all rows of a block are on one side.
    Blocks(Vec<usize>),
}

/// Units that change sides as a whole, within one stratum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stratum {
    /// The rows of each unit. Those that are before come first.
    pub units: Vec<Vec<usize>>,
    /// The number of units that are before.
    pub before: usize,
}

impl Exchange {
    /// The rows of each side that are used, in order: all, or `most` of them at random; of pairs, both rows.
    pub(super) fn some_rows(&self, counts: [usize; 2], most: usize, seed: u64) -> Result<[Vec<usize>; 2]> {
        if most < 2 {
            return Err(Error::parameter("max_rows", "at least 2", most));
        }
        let largest = counts[0].max(counts[1]);
        if matches!(self, Self::Blocks(_)) && largest > most {
            return Err(Error::Conflict {
                name: "max_rows",
                rule: format!("be at least {largest} where rows form blocks"),
                found: format!("is {most}"),
            });
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut some = |count: usize| {
            let mut rows: Vec<usize> = (0..count).collect();
            let (chosen, _) = rows.partial_shuffle(&mut rng, most);
            chosen.sort_unstable();
            chosen.to_vec()
        };
        let before = some(counts[0]);
        let after =
            if *self == Self::Pairs && counts[0] == counts[1] { before.clone() } else { some(counts[1]) };
        Ok([before, after])
    }

    /// The same exchange of some of the rows before, then after.
    pub(super) fn of_rows(&self, rows: &[usize]) -> Self {
        let some = |labels: &[usize]| rows.iter().map(|&row| labels[row]).collect();
        match self {
            Self::Free | Self::Pairs => self.clone(),
            Self::Strata(labels) => Self::Strata(some(labels)),
            Self::Blocks(labels) => Self::Blocks(some(labels)),
        }
    }

    /// Refuses labels that are not one for each row.
    pub(super) fn check(&self, rows: usize) -> Result<()> {
        match self {
            Self::Free | Self::Pairs => Ok(()),
            Self::Strata(labels) => check_length("strata", labels, rows),
            Self::Blocks(labels) => check_length("blocks", labels, rows),
        }
    }

    /// The strata of a comparison with this many rows on each side.
    pub(super) fn strata(&self, before: usize, after: usize) -> Result<Vec<Stratum>> {
        let rows = before + after;
        let single = |rows: &mut dyn Iterator<Item = usize>| rows.map(|row| vec![row]).collect::<Vec<_>>();
        match self {
            Self::Free => Ok(vec![Stratum { units: single(&mut (0..rows)), before }]),
            Self::Pairs if before != after => Err(Error::Conflict {
                name: "exchange",
                rule: "have as many rows before as after where rows are paired".into(),
                found: format!("there are {before} and {after}"),
            }),
            Self::Pairs => {
                let pair = |row| Stratum { units: vec![vec![row], vec![row + before]], before: 1 };
                Ok((0..before).map(pair).collect())
            }
            Self::Strata(labels) => {
                self.check(rows)?;
                let members = grouped(labels);
                let stratum = |rows: Vec<usize>| {
                    let first = rows.iter().filter(|row| **row < before).count();
                    Stratum { units: single(&mut rows.into_iter()), before: first }
                };
                Ok(members.into_iter().map(stratum).collect())
            }
            Self::Blocks(labels) => {
                self.check(rows)?;
                let units = grouped(labels);
                let (first, second): (Vec<_>, Vec<_>) = units.into_iter().partition(|rows| rows[0] < before);
                if let Some(rows) = first.iter().find(|rows| rows.last().is_some_and(|row| *row >= before)) {
                    return Err(Error::Conflict {
                        name: "blocks",
                        rule: "lie on one side each".into(),
                        found: format!(
                            "row {} before and row {} after are of one block (rows count from 1)",
                            rows[0] + 1,
                            rows[rows.len() - 1] - before + 1
                        ),
                    });
                }
                let before = first.len();
                Ok(vec![Stratum { units: first.into_iter().chain(second).collect(), before }])
            }
        }
    }
}

fn check_length(name: &'static str, labels: &[usize], rows: usize) -> Result<()> {
    if labels.len() == rows {
        return Ok(());
    }
    let (rule, found) = (format!("have one label for each of {rows} rows"), format!("has {}", labels.len()));
    Err(Error::Conflict { name, rule, found })
}

/// The rows of every label, in the order in which labels occur.
fn grouped(labels: &[usize]) -> Vec<Vec<usize>> {
    let mut place = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (row, label) in labels.iter().enumerate() {
        let at = *place.entry(label).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(row);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_exchanged_as_said() {
        let free = Exchange::Free.strata(1, 2).unwrap();
        assert_eq!(free, [Stratum { units: vec![vec![0], vec![1], vec![2]], before: 1 }]);
        let pairs = Exchange::Pairs.strata(2, 2).unwrap();
        assert_eq!(pairs[1], Stratum { units: vec![vec![1], vec![3]], before: 1 });
        let strata = Exchange::Strata(vec![7, 5, 7, 7]).strata(2, 2).unwrap();
        assert_eq!(strata[0], Stratum { units: vec![vec![0], vec![2], vec![3]], before: 1 });
        assert_eq!(strata[1], Stratum { units: vec![vec![1]], before: 1 });
        let blocks = Exchange::Blocks(vec![1, 1, 2, 3]).strata(2, 2).unwrap();
        assert_eq!(blocks, [Stratum { units: vec![vec![0, 1], vec![2], vec![3]], before: 1 }]);
    }

    /// A choice of rows keeps pairs together and takes the label of each row along.
    #[test]
    fn some_rows_are_exchanged_like_all() {
        let [before, after] = Exchange::Pairs.some_rows([40, 40], 10, 3).unwrap();
        assert!(before == after && before.len() == 10 && before.is_sorted());
        let strata = Exchange::Strata((0..9).collect());
        let [before, after] = strata.some_rows([6, 3], 4, 0).unwrap();
        assert_eq!((before.len(), after), (4, vec![0, 1, 2]));
        assert_eq!(strata.of_rows(&[8, 2]), Exchange::Strata(vec![8, 2]));
        let blocks = Exchange::Blocks(vec![0; 9]).some_rows([6, 3], 4, 0).unwrap_err().to_string();
        assert_eq!(blocks, "max_rows must be at least 6 where rows form blocks, but is 4");
    }

    #[test]
    fn what_cannot_be_exchanged_is_refused() {
        let message =
            |exchange: Exchange, after| exchange.strata(2, after).map(|_| ()).unwrap_err().to_string();
        assert!(message(Exchange::Pairs, 3).contains("there are 2 and 3"));
        assert!(message(Exchange::Strata(vec![0]), 2).contains("one label for each of 4 rows"));
        let message = message(Exchange::Blocks(vec![0, 1, 1, 2]), 2);
        assert_eq!(
            message,
            "blocks must lie on one side each, but row 2 before and row 1 after are of one block (rows count from 1)"
        );
    }
}
