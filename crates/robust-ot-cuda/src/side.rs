//! One side of a streamed problem on the device.

use cudarc::driver::CudaSlice;
use ndarray::Array1;
use robust_ot::Result;

use crate::device::Device;

/// Rows per block of the half-precision sweeps, and of the double-precision sweeps.
pub(crate) const ROWS: (usize, usize) = (128, 64);
/// Columns per tile of both kinds of sweeps.
pub(crate) const COLUMNS: usize = 64;
/// Blocks per multiprocessor that are enough: columns are divided into parts only until there are this many.
const BLOCKS_PER_PROCESSOR: usize = 4;
/// The most parts into which columns are divided.
const MOST_PARTS: usize = 64;

/// One side of the problem on the device.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) count: usize,
    pub(crate) padded: usize,
    /// Scaled so that x · y is z.
    pub(crate) points: CudaSlice<f64>,
    pub(crate) hi: CudaSlice<u16>,
    pub(crate) lo: CudaSlice<u16>,
    pub(crate) weights: CudaSlice<f64>,
    pub(crate) logs: CudaSlice<f64>,
    /// u or v.
    pub(crate) level: CudaSlice<f64>,
    pub(crate) found: CudaSlice<f64>,
    pub(crate) offsets: CudaSlice<f64>,
    pub(crate) half_offsets: CudaSlice<f32>,
    pub(crate) shifts: CudaSlice<f32>,
    pub(crate) tops: CudaSlice<f64>,
    pub(crate) sums: CudaSlice<f64>,
    pub(crate) errors: CudaSlice<f64>,
}

impl Side {
    pub(crate) fn new(
        device: &Device,
        weights: &Array1<f64>,
        count: usize,
        dim: usize,
        padded_dim: usize,
        parts: usize,
    ) -> Result<Self> {
        let padded = count.next_multiple_of(ROWS.0);
        let bytes = 8 * count * dim + 4 * padded * padded_dim + 8 * count * (5 + 2 * parts) + 8 * padded;
        let stream = device.stream();
        let failed =
            |error| device.out_of_memory("the points", bytes, "fewer points or features need less", error);
        let double = |count: usize| stream.alloc_zeros::<f64>(count).map_err(failed);
        let single = |count: usize| stream.alloc_zeros::<f32>(count).map_err(failed);
        let half = || stream.alloc_zeros::<u16>(padded * padded_dim).map_err(failed);
        let logs: Vec<f64> = weights.iter().map(|w| w.log2()).collect();
        Ok(Self {
            count,
            padded,
            points: double(count * dim)?,
            hi: half()?,
            lo: half()?,
            weights: stream.clone_htod(&weights.to_vec()).map_err(failed)?,
            logs: stream.clone_htod(&logs).map_err(failed)?,
            level: double(count)?,
            found: double(count)?,
            offsets: double(count)?,
            half_offsets: single(padded)?,
            shifts: single(padded)?,
            tops: double(count * parts)?,
            sums: double(count * parts)?,
            errors: double(padded.div_ceil(256))?,
        })
    }
}

/// The number of parts into which the other side's points are divided, so that all multiprocessors have work.
pub(crate) fn parts(device: &Device, count: usize, rows: usize, other: usize) -> usize {
    let blocks = count.div_ceil(rows);
    let wanted = (BLOCKS_PER_PROCESSOR * device.processors()).div_ceil(blocks);
    wanted.clamp(1, MOST_PARTS).min(other.div_ceil(COLUMNS))
}
