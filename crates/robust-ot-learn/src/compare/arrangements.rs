//! The arrangements of rows into two sides that are as likely as the observed one if nothing has changed.

use ndarray::{Array2, ArrayView1};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robust_ot::{Error, Result};

use super::exchange::{Exchange, Stratum};

/// The most arrangements times rows that are kept, one byte each.
const LARGEST: usize = 1 << 32;

/// Which rows are before, for each arrangement; the observed one comes first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arrangements {
    sides: Array2<bool>,
    /// Whether these are all that there are.
    pub exhaustive: bool,
}

impl Arrangements {
    /// The observed arrangement and `permutations` random ones; all there are, if they are no more than that.
    pub(super) fn new(
        (before, after): (usize, usize),
        exchange: &Exchange,
        permutations: usize,
        seed: u64,
    ) -> Result<Self> {
        let rows = before + after;
        let strata = exchange.strata(before, after)?;
        let all = strata.iter().map(Stratum::choices).product::<f64>();
        if all < 2.0 {
            return Err(Error::Conflict {
                name: "exchange",
                rule: "leave more than one arrangement of the rows".into(),
                found: "no row can change sides".into(),
            });
        }
        let exhaustive = all <= permutations as f64 + 1.0;
        let count = if exhaustive { all as usize } else { permutations + 1 };
        if count.saturating_mul(rows) > LARGEST {
            let rule = format!("at most {} for {rows} rows", LARGEST / rows - 1);
            return Err(Error::parameter("permutations", rule, permutations));
        }
        let mut sides = Array2::from_elem((count, rows), false);
        sides.row_mut(0).iter_mut().take(before).for_each(|side| *side = true);
        if exhaustive {
            let mut chosen: Vec<Vec<usize>> = strata.iter().map(|s| (0..s.before).collect()).collect();
            for mut side in sides.rows_mut().into_iter().skip(1) {
                // The odometer starts at the observed arrangement and ends before it comes back to it.
                for (stratum, chosen) in strata.iter().zip(&mut chosen) {
                    if next_combination(chosen, stratum.units.len()) {
                        break;
                    }
                }
                for (stratum, chosen) in strata.iter().zip(&chosen) {
                    chosen.iter().flat_map(|&unit| &stratum.units[unit]).for_each(|&row| side[row] = true);
                }
            }
        } else {
            for (number, mut side) in sides.rows_mut().into_iter().enumerate().skip(1) {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream(number as u64);
                for Stratum { units, before } in &strata {
                    let mut order: Vec<usize> = (0..units.len()).collect();
                    let (chosen, _) = order.partial_shuffle(&mut rng, *before);
                    chosen.iter().flat_map(|unit| &units[*unit]).for_each(|&row| side[row] = true);
                }
            }
        }
        Ok(Self { sides, exhaustive })
    }

    /// The number of arrangements, with the observed one.
    pub(super) fn len(&self) -> usize {
        self.sides.nrows()
    }

    /// Whether each row is before, in an arrangement.
    pub(super) fn side(&self, arrangement: usize) -> ArrayView1<'_, bool> {
        self.sides.row(arrangement)
    }

    /// Weights ±1 / (number of rows of the side) of the rows in these arrangements: arrangements × rows.
    pub(super) fn signed_weights(&self, arrangements: std::ops::Range<usize>) -> Array2<f64> {
        let mut weights = Array2::zeros((arrangements.len(), self.sides.ncols()));
        for (mut weights, number) in weights.rows_mut().into_iter().zip(arrangements) {
            let side = self.side(number);
            let before = side.iter().filter(|side| **side).count() as f64;
            let after = side.len() as f64 - before;
            for (weight, side) in weights.iter_mut().zip(side) {
                *weight = if *side { 1.0 / before } else { -1.0 / after };
            }
        }
        weights
    }
}

impl Stratum {
    /// n! / (k! (n − k)!) for k of n units; rounded where it is large.
    fn choices(&self) -> f64 {
        let (n, k) = (self.units.len(), self.before.min(self.units.len() - self.before));
        (0..k).fold(1.0, |choices, i| (choices * (n - i) as f64 / (i + 1) as f64).round())
    }
}

/// The next k of n numbers in lexicographic order, and whether there is one; else the first again.
fn next_combination(chosen: &mut [usize], n: usize) -> bool {
    let k = chosen.len();
    let Some(at) = (0..k).rev().find(|&at| chosen[at] < n - k + at) else {
        chosen.iter_mut().enumerate().for_each(|(at, place)| *place = at);
        return false;
    };
    let first = chosen[at] + 1;
    chosen[at..].iter_mut().zip(first..).for_each(|(place, value)| *place = value);
    true
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn distinct(arrangements: &Arrangements) -> HashSet<Vec<bool>> {
        arrangements.sides.rows().into_iter().map(|row| row.to_vec()).collect()
    }

    #[test]
    fn few_arrangements_are_all_listed_once() {
        for (sides, exchange, expected) in [
            ((3, 4), Exchange::Free, 35),
            ((4, 4), Exchange::Pairs, 16),
            ((3, 3), Exchange::Strata(vec![0, 0, 1, 0, 1, 1]), 9),
            ((3, 2), Exchange::Blocks(vec![0, 0, 1, 2, 3]), 6),
        ] {
            let found = Arrangements::new(sides, &exchange, 99, 1).unwrap();
            assert!(found.exhaustive);
            assert_eq!((found.len(), distinct(&found).len()), (expected, expected), "{exchange:?}");
            assert!(found.side(0).iter().take(sides.0).all(|side| *side));
        }
    }

    #[test]
    fn random_arrangements_keep_the_sizes_of_the_sides() {
        let found = Arrangements::new((5, 9), &Exchange::Free, 99, 7).unwrap();
        assert!(!found.exhaustive && found.len() == 100 && distinct(&found).len() > 90);
        assert!((0..100).all(|b| found.side(b).iter().filter(|side| **side).count() == 5));
        assert_eq!(found, Arrangements::new((5, 9), &Exchange::Free, 99, 7).unwrap());
        assert_ne!(found, Arrangements::new((5, 9), &Exchange::Free, 99, 8).unwrap());
        let weights = found.signed_weights(0..100);
        assert!(weights.rows().into_iter().all(|row| row.sum().abs() < 1e-15));
        let strata = vec![0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1];
        let found = Arrangements::new((5, 9), &Exchange::Strata(strata.clone()), 50, 7).unwrap();
        for b in 0..51 {
            let first = found.side(b).iter().zip(&strata).filter(|(side, s)| **side && **s == 0).count();
            assert_eq!(first, 2);
        }
    }

    #[test]
    fn every_row_is_before_equally_often() {
        let found = Arrangements::new((10, 30), &Exchange::Free, 4000, 3).unwrap();
        for row in 0..40 {
            let share = (1..4001).filter(|&b| found.side(b)[row]).count() as f64 / 4000.0;
            // Four standard errors.
            assert!((share - 0.25).abs() < 4.0 * (0.25_f64 * 0.75 / 4000.0).sqrt(), "{row}: {share}");
        }
    }

    #[test]
    fn rows_that_cannot_change_sides_and_too_many_arrangements_are_refused() {
        let message = |exchange: Exchange, permutations| {
            Arrangements::new((1, 1), &exchange, permutations, 0).unwrap_err().to_string()
        };
        assert!(message(Exchange::Strata(vec![0, 1]), 9).contains("no row can change sides"));
        let many = Arrangements::new((100, 100), &Exchange::Free, usize::MAX - 1, 0).unwrap_err().to_string();
        assert!(many.starts_with("permutations must be at most"), "{many}");
    }
}
