//! One side of an entropic problem on the device.

use crate::device::Device;
use crate::workspace::Layout;

/// Rows per block of the half-precision sweeps, and of the double-precision sweeps.
pub(crate) const ROWS: (usize, usize) = (128, 64);
/// Columns per tile of both kinds of sweeps.
pub(crate) const COLUMNS: usize = 64;
/// The most parts into which columns are divided.
const MOST_PARTS: usize = 64;
/// What a further part costs, as a share of the time.
const PART: f64 = 0.002;

/// The kernels that divide the points of the other side into parts, by the blocks that a multiprocessor runs side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parted {
    Coarse,
    Fine,
    Double,
}

/// The addresses of the buffers of one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    pub(crate) count: usize,
    pub(crate) padded: usize,
    /// x or y, whose products are the costs.
    pub(crate) points: u64,
    /// α or β.
    pub(crate) norms: u64,
    /// The points in half precision, scaled so that products are z.
    pub(crate) hi: u64,
    pub(crate) lo: u64,
    pub(crate) weights: u64,
    pub(crate) logs: u64,
    /// u or v.
    pub(crate) level: u64,
    pub(crate) found: u64,
    pub(crate) offsets: u64,
    pub(crate) half_offsets: u64,
    pub(crate) shifts: u64,
    pub(crate) tops: u64,
    pub(crate) sums: u64,
    /// One number per block of `take_sweep`, then one that is not zero after a faulty sweep.
    pub(crate) errors: u64,
    /// What a measured plan is computed from: the top of a row, and the factor of a row or column.
    pub(crate) plan_tops: u64,
    pub(crate) factors: u64,
    /// The sums of the measured plan, one line for each part of the other side.
    pub(crate) totals: u64,
}

impl Side {
    pub(crate) fn new(
        layout: &mut Layout,
        count: usize,
        dim: usize,
        padded_dim: usize,
        parts: usize,
    ) -> Self {
        let padded = count.next_multiple_of(ROWS.0);
        let (double, single, half) = (size_of::<f64>(), size_of::<f32>(), size_of::<u16>());
        Self {
            count,
            padded,
            points: layout.take(count * dim, double),
            norms: layout.take(count, double),
            hi: layout.take(padded * padded_dim, half),
            lo: layout.take(padded * padded_dim, half),
            weights: layout.take(count, double),
            logs: layout.take(count, double),
            level: layout.take(count, double),
            found: layout.take(count, double),
            offsets: layout.take(count, double),
            half_offsets: layout.take(padded, single),
            shifts: layout.take(padded, single),
            tops: layout.take(count * parts, double),
            sums: layout.take(count * parts, double),
            errors: layout.take(padded.div_ceil(256) + 1, double),
            plan_tops: layout.take(count, double),
            factors: layout.take(count, double),
            totals: layout.take(count * parts, double),
        }
    }
}

/// The number of parts into which the other side's points are divided: the one with which blocks take the least time, since the last of
/// them rarely fill all multiprocessors.
pub(crate) fn parts(device: &Device, parted: Parted, count: usize, other: usize) -> usize {
    let (rows, side_by_side) = match parted {
        Parted::Coarse => (ROWS.0, 3),
        Parted::Fine => (ROWS.0, 2),
        Parted::Double => (ROWS.1, 2),
    };
    best_parts(count.div_ceil(rows), side_by_side * device.processors(), other.div_ceil(COLUMNS))
}

fn best_parts(blocks: usize, places: usize, tiles: usize) -> usize {
    let time = |parts: usize| {
        let rounds = (blocks * parts).div_ceil(places) as f64;
        rounds * tiles.div_ceil(parts) as f64 * (1.0 + PART * parts as f64)
    };
    (1..=MOST_PARTS.min(tiles).max(1)).min_by(|&one, &other| time(one).total_cmp(&time(other))).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::best_parts;

    #[test]
    fn blocks_fill_the_multiprocessors() {
        // One row of blocks is cut until there is one for each place; many rows are not cut.
        assert_eq!(best_parts(1, 32, 64), 32);
        assert_eq!(best_parts(3200, 32, 64), 1);
        // 79 rows in 5 parts are one block for nearly each of 396 places.
        assert_eq!(best_parts(79, 396, 157), 5);
        assert_eq!(best_parts(1, 396, 1), 1);
    }
}
