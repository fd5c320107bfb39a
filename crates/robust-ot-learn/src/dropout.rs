//! Dropout: every number is zero with probability p, and 1 / (1 − p) times itself otherwise.
//!
//! Which numbers are dropped depends on the seed, the step, the row of the batch and the column alone, so that neither the
//! number of threads nor a checkpoint changes it, nor whether features are dense or sparse.

/// What is dropped in one layer in one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dropout {
    key: u64,
    /// p, in parts of 2³².
    threshold: u64,
    scale: f32,
}

impl Dropout {
    /// Nothing is dropped where the rate is 0.
    pub(super) fn new(rate: f64, seed: u64, step: u64, layer: u64) -> Option<Self> {
        let key = scramble(scramble(scramble(seed) ^ step) ^ layer);
        let threshold = (rate * (1_u64 << 32) as f64) as u64;
        (rate > 0.0).then(|| Self { key, threshold, scale: Self::scale(rate) })
    }

    /// 1 / (1 − p).
    pub(super) fn scale(rate: f64) -> f32 {
        (1.0 / (1.0 - rate)) as f32
    }

    /// Drops numbers of a row.
    pub(super) fn apply(self, row: usize, numbers: &mut [f32]) {
        for (pair, numbers) in numbers.chunks_mut(2).enumerate() {
            let bits = self.bits(row, pair);
            for (number, bits) in numbers.iter_mut().zip([bits & 0xffff_ffff, bits >> 32]) {
                *number *= if bits >= self.threshold { self.scale } else { 0.0 };
            }
        }
    }

    /// Drops numbers of a row whose columns are given.
    pub(super) fn apply_sparse(self, row: usize, columns: &[u32], numbers: &mut [f32]) {
        for (column, number) in columns.iter().zip(numbers) {
            let bits = self.bits(row, *column as usize / 2) >> (32 * (column % 2));
            *number *= if bits & 0xffff_ffff >= self.threshold { self.scale } else { 0.0 };
        }
    }

    /// The random bits of two neighboring columns.
    fn bits(self, row: usize, pair: usize) -> u64 {
        scramble(self.key.wrapping_add((row as u64) << 32).wrapping_add(pair as u64))
    }
}

/// The output function of SplitMix64, of numbers in the distances of its steps.
fn scramble(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rate: f64, key: (u64, u64, u64), row: usize) -> Vec<f32> {
        let mut numbers = vec![1.0; 10_001];
        if let Some(dropout) = Dropout::new(rate, key.0, key.1, key.2) {
            dropout.apply(row, &mut numbers);
        }
        numbers
    }

    #[test]
    fn a_fraction_is_dropped_and_the_mean_is_kept() {
        assert!(Dropout::new(0.0, 1, 2, 3).is_none());
        for rate in [0.1, 0.5, 0.9] {
            let found = kept(rate, (7, 11, 0), 3);
            let scale = (1.0 / (1.0 - rate)) as f32;
            assert!(found.iter().all(|x| *x == 0.0 || x.to_bits() == scale.to_bits()));
            let count = found.len() as f64;
            let dropped = found.iter().filter(|x| **x == 0.0).count() as f64 / count;
            // Five standard deviations.
            assert!((dropped - rate).abs() < 5.0 * (rate * (1.0 - rate) / count).sqrt(), "{rate}: {dropped}");
        }
    }

    #[test]
    fn seeds_steps_layers_and_rows_are_independent() {
        let one = kept(0.5, (1, 1, 1), 1);
        let others = [((2, 1, 1), 1), ((1, 2, 1), 1), ((1, 1, 2), 1), ((1, 1, 1), 2)];
        for (key, row) in others {
            let other = kept(0.5, key, row);
            let both = one.iter().zip(&other).filter(|(x, y)| x.to_bits() == y.to_bits());
            let same = both.count() as f64 / one.len() as f64;
            assert!((same - 0.5).abs() < 0.025, "{key:?} {row}: {same}");
        }
        assert_eq!(one, kept(0.5, (1, 1, 1), 1));
    }

    #[test]
    fn sparse_rows_drop_what_dense_rows_drop() {
        let dropout = Dropout::new(0.3, 5, 6, 7).unwrap();
        let mut dense = vec![1.0; 100];
        dropout.apply(9, &mut dense);
        let columns: Vec<u32> = (0..100).filter(|column| column % 7 != 3).collect();
        let mut sparse = vec![1.0; columns.len()];
        dropout.apply_sparse(9, &columns, &mut sparse);
        assert!(
            columns.iter().zip(&sparse).all(|(&column, x)| x.to_bits() == dense[column as usize].to_bits())
        );
    }
}
