//! The features of a training set: on the device if they fit, otherwise streamed through two pinned buffers.

use cudarc::driver::{CudaEvent, CudaFunction, CudaSlice, CudaStream, PinnedHostSlice};
use robust_ot::Result;
use robust_ot_learn::data::Features;
use std::sync::Arc;

use crate::arguments::{Truth, address};
use crate::compile::Source;
use crate::device::Device;
use crate::launch::{THREADS, grid, launch, rows};

/// The fraction of the free memory that a training set may take.
const LARGEST_PART: f64 = 0.9;
/// Number of buffers that rows are streamed through.
const BUFFERS: usize = 2;

/// The source of batches.
#[derive(Debug)]
pub(crate) struct RowStore<'a> {
    device: Device,
    columns: usize,
    place: Place<'a>,
    /// X of a batch; two if rows are streamed.
    batches: Vec<CudaSlice<f32>>,
}

#[derive(Debug)]
enum Place<'a> {
    Dense { all: CudaSlice<f32>, gather: CudaFunction },
    Sparse { starts: CudaSlice<u64>, places: CudaSlice<u32>, values: CudaSlice<f32>, gather: CudaFunction },
    Streamed(Streamed<'a>),
}

struct Streamed<'a> {
    features: &'a Features,
    copies: Arc<CudaStream>,
    buffers: Vec<Buffer>,
}

struct Buffer {
    pinned: PinnedHostSlice<f32>,
    copied: CudaEvent,
    used: CudaEvent,
}

impl std::fmt::Debug for Streamed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streamed").field("rows", &self.features.rows()).finish_non_exhaustive()
    }
}

impl<'a> RowStore<'a> {
    /// Allocates buffers for batches of `batch` rows, and leaves `taken` bytes of memory to others. `resident` decides
    /// whether rows are kept on the device; by default they are if they fit.
    pub(crate) fn new(
        device: &Device,
        features: &'a Features,
        batch: usize,
        taken: usize,
        resident: Option<bool>,
    ) -> Result<Self> {
        let columns = features.columns();
        let stream = device.stream();
        let bytes = bytes_of(features);
        let workspace = (device.memory()?.0.saturating_sub(taken) as f64 * LARGEST_PART) as usize;
        let kernel = |name| device.kernel(Source::Learning, name);
        let failed = |error| {
            device.out_of_memory("the training set", bytes, "fewer rows or features need less", error)
        };
        let place = match features {
            _ if !resident.unwrap_or(bytes <= workspace) => {
                Place::Streamed(Streamed::new(device, features, batch)?)
            }
            Features::Dense(all) => {
                let all = all.as_standard_layout();
                let all = stream.clone_htod(all.as_slice().unwrap_or_default()).map_err(failed)?;
                Place::Dense { all, gather: kernel("gather_dense")? }
            }
            Features::Sparse(all) => {
                let (mut starts, mut places, mut values) = (vec![0_u64], Vec::new(), Vec::new());
                for row in 0..all.rows() {
                    let (indices, numbers) = all.row(row);
                    places.extend(indices.iter().copied());
                    values.extend_from_slice(numbers);
                    starts.push(places.len() as u64);
                }
                // An empty buffer has no address.
                if places.is_empty() {
                    (places, values) = (vec![0], vec![0.0]);
                }
                Place::Sparse {
                    starts: stream.clone_htod(&starts).map_err(failed)?,
                    places: stream.clone_htod(&places).map_err(failed)?,
                    values: stream.clone_htod(&values).map_err(failed)?,
                    gather: kernel("gather_sparse")?,
                }
            }
        };
        let count = if matches!(place, Place::Streamed(_)) { BUFFERS } else { 1 };
        let cure = "a smaller batch needs less";
        let batches = (0..count)
            .map(|_| stream.alloc_zeros::<f32>(batch * columns))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| device.out_of_memory("a batch", 4 * batch * columns, cure, error))?;
        Ok(Self { device: device.clone(), columns, place, batches })
    }

    /// Whether rows are streamed.
    pub(crate) fn is_streamed(&self) -> bool {
        matches!(self.place, Place::Streamed(_))
    }

    /// Number of buffers that batches alternate between.
    pub(crate) fn buffers(&self) -> usize {
        self.batches.len()
    }

    /// The address of X of a batch in one of the buffers.
    pub(crate) fn batch(&self, buffer: usize) -> u64 {
        address(&self.device, &self.batches[buffer])
    }

    /// Enqueues the gathering of a batch, if rows are on the device.
    pub(crate) fn gather(&self, truth: Truth, count: usize) -> Result<()> {
        let (device, columns, out) = (&self.device, self.columns as u32, self.batch(0));
        let stream = device.stream();
        match &self.place {
            Place::Dense { all, gather } => {
                let wide = self.columns.div_ceil(4 * THREADS as usize).max(1);
                launch!(
                    device,
                    stream,
                    gather,
                    grid((count, wide), THREADS, 0),
                    address(device, all),
                    truth,
                    columns,
                    out
                )
            }
            Place::Sparse { starts, places, values, gather } => {
                let (starts, places) = (address(device, starts), address(device, places));
                launch!(
                    device,
                    stream,
                    gather,
                    rows(count),
                    starts,
                    places,
                    address(device, values),
                    truth,
                    columns,
                    out
                )
            }
            Place::Streamed(_) => Ok(()),
        }
    }

    /// Copies the chosen rows to a buffer, once its old contents have been used; the stream waits for the copy.
    pub(crate) fn send(&mut self, buffer: usize, chosen: &[usize]) -> Result<()> {
        let Self { device, columns, place, batches } = self;
        let Place::Streamed(streamed) = place else { return Ok(()) };
        let failed = |error| device.failed("streaming rows", error);
        let Buffer { pinned, copied, used } = &mut streamed.buffers[buffer];
        copied.synchronize().map_err(failed)?;
        let numbers = pinned.as_mut_slice().map_err(failed)?;
        for (out, &row) in numbers.chunks_exact_mut(*columns).zip(chosen) {
            match streamed.features {
                Features::Dense(all) => out.iter_mut().zip(all.row(row)).for_each(|(out, x)| *out = *x),
                Features::Sparse(all) => {
                    out.fill(0.0);
                    let (indices, values) = all.row(row);
                    indices.iter().zip(values).for_each(|(&index, &value)| out[index as usize] = value);
                }
            }
        }
        streamed.copies.wait(used).map_err(failed)?;
        streamed.copies.memcpy_htod(&*pinned, &mut batches[buffer]).map_err(failed)?;
        copied.record(&streamed.copies).map_err(failed)?;
        device.stream().wait(copied).map_err(failed)
    }

    /// Marks a buffer as used by everything on the stream so far.
    pub(crate) fn used(&self, buffer: usize) -> Result<()> {
        let Place::Streamed(streamed) = &self.place else { return Ok(()) };
        let event = &streamed.buffers[buffer].used;
        event.record(self.device.stream()).map_err(|error| self.device.failed("streaming rows", error))
    }
}

impl Drop for RowStore<'_> {
    /// Takes a turn, because freeing pinned memory waits for the GPU.
    fn drop(&mut self) {
        if let Place::Streamed(streamed) = &mut self.place {
            let _turn = self.device.turn();
            streamed.buffers.clear();
        }
    }
}

impl<'a> Streamed<'a> {
    #[allow(unsafe_code)]
    fn new(device: &Device, features: &'a Features, batch: usize) -> Result<Self> {
        let context = device.context();
        let numbers = batch * features.columns();
        let make = || {
            let mut buffers = Vec::new();
            for _ in 0..BUFFERS {
                // SAFETY: written before it is read: whole batches are filled, and a shorter last one copies zeros or old
                // rows that no kernel reads.
                let mut pinned = unsafe { context.alloc_pinned::<f32>(numbers) }?;
                pinned.as_mut_slice()?.fill(0.0);
                buffers.push(Buffer {
                    pinned,
                    copied: context.new_event(None)?,
                    used: context.new_event(None)?,
                });
            }
            Ok(Self { features, copies: context.new_stream()?, buffers })
        };
        make().map_err(|error| {
            device.out_of_memory("pinned buffers", 4 * BUFFERS * numbers, "a smaller batch needs less", error)
        })
    }
}

/// Bytes that features take on the device.
fn bytes_of(features: &Features) -> usize {
    match features {
        Features::Dense(all) => 4 * all.len(),
        Features::Sparse(all) => {
            8 * (all.rows() + 1 + (0..all.rows()).map(|row| all.row(row).0.len()).sum::<usize>())
        }
    }
}
