//! Which rows are held out, in turn.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;

/// Up to this number of products of a row, a feature and a label, time does not matter.
pub(crate) const SMALL: f64 = 3e6;
/// Up to this number of products, every row is held out once, in this many folds; beyond the last line, a fifth of the
/// rows is held out once.
const FOLDS: [(f64, usize); 2] = [(2e8, 5), (1e9, 3)];
/// Up to this number of rows, if time does not matter, folds are drawn this many times: scores of few rows depend on who is
/// held out together.
const REPEATED: (usize, u64) = (500, 3);
/// The fraction that a single fold holds out.
const HELD_OUT: f64 = 0.2;

/// The rows of one turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Split {
    pub(crate) train: Vec<usize>,
    pub(crate) held: Vec<usize>,
}

impl Split {
    /// Holds out this fraction of the rows once or, without one, as much as the work allows. Every label's rows are
    /// spread evenly over the parts, from the rarest label on. No split is made if no label has a row on either side.
    pub(crate) fn all(targets: &Targets, part: Option<f64>, work: f64, seed: u64) -> Vec<Self> {
        let folds = FOLDS.into_iter().find(|(most, _)| work <= *most).map(|(_, folds)| folds);
        let most = counts(targets).into_iter().max().unwrap_or(0);
        let splits = match (part, folds) {
            (None, Some(folds)) => {
                let folds = folds.min(most);
                let few = work <= SMALL && targets.rows() <= REPEATED.0;
                let draws = if few { REPEATED.1 } else { 1 };
                let of_draw = |draw: u64| {
                    let order = spread(targets, seed.wrapping_add(draw));
                    (0..folds).map(|fold| Self::of(&order, |place| place % folds == fold)).collect::<Vec<_>>()
                };
                (0..draws).flat_map(of_draw).collect()
            }
            (part, _) => {
                let every = 1.0 / part.unwrap_or(HELD_OUT);
                vec![Self::of(&spread(targets, seed), |place| (place as f64 % every) + 1.0 >= every)]
            }
        };
        let possible =
            most > 1 && splits.iter().all(|split: &Self| !split.train.is_empty() && !split.held.is_empty());
        if possible { splits } else { Vec::new() }
    }

    fn of(order: &[usize], is_held: impl Fn(usize) -> bool) -> Self {
        let (mut train, mut held) = (Vec::new(), Vec::new());
        for (place, &row) in order.iter().enumerate() {
            if is_held(place) { held.push(row) } else { train.push(row) }
        }
        train.sort_unstable();
        held.sort_unstable();
        Self { train, held }
    }
}

/// The number of rows with each label.
pub(crate) fn counts(targets: &Targets) -> Vec<usize> {
    let mut counts = vec![0; targets.labels()];
    (0..targets.rows()).for_each(|row| targets.row(row).iter().for_each(|&label| counts[label] += 1));
    counts
}

/// The rows in random order, those with the same rarest label together.
fn spread(targets: &Targets, seed: u64) -> Vec<usize> {
    let counts = counts(targets);
    let mut order: Vec<usize> = (0..targets.rows()).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let rarest = |row: &usize| targets.row(*row).iter().map(|&label| (counts[label], label)).min();
    order.sort_by_key(rarest);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_held_out_once_and_labels_are_spread() {
        let targets = Targets::new(4, (0..40).map(|row| [row % 4])).unwrap();
        let splits = Split::all(&targets, None, 1e8, 3);
        assert_eq!(splits.len(), 5);
        let mut held: Vec<usize> = splits.iter().flat_map(|split| split.held.clone()).collect();
        held.sort_unstable();
        assert_eq!(held, (0..40).collect::<Vec<_>>());
        for Split { train, held } in &splits {
            assert_eq!((train.len(), held.len()), (32, 8));
            assert!(held.iter().all(|row| !train.contains(row)));
            (0..4).for_each(|label| assert_eq!(held.iter().filter(|row| **row % 4 == label).count(), 2));
        }
    }

    #[test]
    fn folds_of_few_rows_are_drawn_again() {
        let targets = Targets::new(4, (0..40).map(|row| [row % 4])).unwrap();
        let splits = Split::all(&targets, None, 1.0, 3);
        assert_eq!(splits.len(), 15);
        assert_eq!(splits[..5], Split::all(&targets, None, 1e8, 3));
        for draw in splits.chunks(5) {
            let mut held: Vec<usize> = draw.iter().flat_map(|split| split.held.clone()).collect();
            held.sort_unstable();
            assert_eq!(held, (0..40).collect::<Vec<_>>());
        }
        assert_ne!(splits[0], splits[5]);
        let more = Targets::new(4, (0..504).map(|row| [row % 4])).unwrap();
        assert_eq!(Split::all(&more, None, 1.0, 3).len(), 5);
    }

    #[test]
    fn a_part_is_held_out_once() {
        let targets = Targets::new(2, (0..100).map(|row| [row % 2])).unwrap();
        for (part, wanted) in [(Some(0.1), 10), (Some(0.25), 25), (None, 20)] {
            let [split] = &Split::all(&targets, part, 1e12, 0)[..] else { panic!("one split") };
            assert_eq!((split.held.len(), split.train.len()), (wanted, 100 - wanted));
        }
        // One row per label: nothing can be compared.
        let single = Targets::new(5, (0..5).map(|row| [row])).unwrap();
        assert!(Split::all(&single, None, 1.0, 0).is_empty());
        // Two rows per label: one of them is held out in turn.
        let double = Targets::new(5, (0..10).map(|row| [row % 5])).unwrap();
        assert_eq!(Split::all(&double, None, 1e8, 0).len(), 2);
    }
}
