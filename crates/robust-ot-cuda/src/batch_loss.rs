//! The robust loss of predictions that another library holds on the device, on that library's stream.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaSlice, CudaStream};
use robust_ot::loss::{RobustLoss, Targets};
use robust_ot::{MetricSet, Result};

use crate::arguments::{NO_FAULT, Truth, address, fault};
use crate::blas::{Blas, Precision};
use crate::device::Device;
use crate::label_loss::{LabelLoss, Shape};

/// Addresses of another library's arrays on the device, row-major without gaps.
#[derive(Debug, Clone, Copy)]
pub struct BatchAddresses {
    /// ln h, rows × L, single precision.
    pub log_predictions: u64,
    /// h, rows × L, single precision.
    pub predictions: u64,
    /// Where ∂W/∂h goes, rows × L, single precision.
    pub gradients: u64,
    /// Where W goes, one per row, double precision.
    pub losses: u64,
}

/// [`RobustLoss::loss_gradient`] for predictions that are already on the device: only the true labels are copied.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Grouping;
/// use robust_ot::loss::{LossSettings, RobustLoss};
/// use robust_ot_cuda::{BatchLoss, Device};
///
/// let loss = RobustLoss::new(&array![[0.0], [1.0]], &Grouping::none(1), LossSettings::default())?;
/// if let Ok(device) = Device::open(0, None) {
///     println!("{:?}", BatchLoss::new(&device, &loss)?);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct BatchLoss {
    device: Device,
    loss: LabelLoss,
    /// Whether the metric set can be out of range, which is checked after every batch.
    can_fail: bool,
    workspace: Buffers,
    streams: HashMap<u64, Stream>,
    /// Recorded at the end of the last batch, on any stream: the next batch uses the same buffers.
    done: Done,
}

#[derive(Debug)]
struct Buffers {
    order: CudaSlice<u32>,
    starts: CudaSlice<u32>,
    indices: CudaSlice<u32>,
    lines: CudaSlice<u32>,
    step: CudaSlice<u32>,
    fault: CudaSlice<u64>,
}

#[derive(Debug)]
struct Stream {
    stream: Arc<CudaStream>,
    blas: Blas,
}

struct Done(CudaEvent);

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Done")
    }
}

impl BatchLoss {
    /// Copies the labels to the device.
    ///
    /// # Errors
    /// When the device does not support the metric set or the settings, or is out of memory.
    pub fn new(device: &Device, loss: &RobustLoss<f32>) -> Result<Self> {
        let _turn = device.turn();
        let device = &device.fork()?;
        let can_fail = matches!(
            loss.geometry().set,
            MetricSet::Kl { .. } | MetricSet::Ds { .. } | MetricSet::PPower { .. }
        );
        let failed = |error| device.failed("a batch", error);
        let done = device.context().new_event(None).map_err(failed)?;
        Ok(Self {
            device: device.clone(),
            loss: LabelLoss::new(device, loss)?,
            can_fail,
            workspace: Buffers::new(device, 0, 0)?,
            streams: HashMap::new(),
            done: Done(done),
        })
    }

    /// Enqueues the losses and gradients of a batch on a CUDA stream.
    ///
    /// # Errors
    /// When the device is out of memory or fails, or the metric is not representable.
    ///
    /// # Safety
    /// The stream must belong to this device and live as long as this value. The addresses must be of device memory that
    /// the stream may read and write, rows × L numbers each (and one loss per row).
    #[allow(unsafe_code)]
    pub unsafe fn enqueue(&mut self, stream: u64, targets: &Targets, batch: BatchAddresses) -> Result<()> {
        let device = self.device.clone();
        let _turn = device.turn();
        let failed = |error| device.failed("a batch", error);
        let (rows, mut lines, mut most) = (targets.rows(), Vec::new(), 0);
        if rows == 0 {
            return Ok(());
        }
        let (mut starts, mut indices) = (vec![0_u32], Vec::new());
        for row in 0..rows {
            let labels = targets.row(row);
            lines.push(indices.len() as u32);
            indices.extend(labels.iter().map(|&label| label as u32));
            starts.push(indices.len() as u32);
            most = most.max(labels.len());
        }
        if let std::collections::hash_map::Entry::Vacant(e) = self.streams.entry(stream) {
            // SAFETY: the caller guarantees that the stream belongs to this device and stays alive.
            let found = unsafe { device.context().wrap_borrowed_stream(stream as *mut _) };
            let blas = Blas::on(&device, &found, Precision::F32)?;
            e.insert(Stream { stream: found, blas });
        }
        // Buffers are allocated on the device's own stream; the streams that use them wait for that.
        if !self.loss.fits(rows, indices.len())
            || self.workspace.order.len() < rows
            || self.workspace.indices.len() < indices.len()
        {
            self.done.0.synchronize().map_err(failed)?;
        }
        let grown = self.loss.reserve(Shape { rows, lines: indices.len(), most })?;
        if self.workspace.order.len() < rows || self.workspace.indices.len() < indices.len() {
            self.workspace = Buffers::new(&device, rows, indices.len())?;
            device.stream().synchronize().map_err(failed)?;
        } else if grown {
            device.stream().synchronize().map_err(failed)?;
        }
        let Stream { stream, blas } = &self.streams[&stream];
        stream.wait(&self.done.0).map_err(failed)?;
        let Buffers { order, starts: row_starts, indices: labels, lines: row_lines, step, fault: faults } =
            &mut self.workspace;
        let rows_in_order: Vec<u32> = (0..rows as u32).collect();
        for (to, from) in [
            (&mut *order, &rows_in_order),
            (&mut *row_starts, &starts),
            (&mut *labels, &indices),
            (&mut *row_lines, &lines),
        ] {
            stream.memcpy_htod(from, &mut to.slice_mut(..from.len())).map_err(failed)?;
        }
        stream.memcpy_htod(&[NO_FAULT], faults).map_err(failed)?;
        let at = |numbers: &CudaSlice<u32>| address(&device, numbers);
        let truth = Truth {
            order: at(order),
            starts: at(row_starts),
            indices: at(labels),
            lines: at(row_lines),
            step: at(step),
            batch: rows as u32,
        };
        let shape = Shape { rows, lines: indices.len(), most };
        let BatchAddresses { log_predictions, predictions, gradients, losses } = batch;
        let ins = (predictions, log_predictions);
        self.loss.enqueue(
            (stream, blas),
            truth,
            shape,
            ins,
            (gradients, losses),
            address(&device, faults),
        )?;
        self.done.0.record(stream).map_err(failed)?;
        if self.can_fail {
            let found = stream.clone_dtoh(faults).map_err(failed)?;
            stream.synchronize().map_err(failed)?;
            fault(found[0], Some(&self.loss.set), 1)?;
        }
        Ok(())
    }
}

impl Drop for BatchLoss {
    /// Waits for work that still uses the buffers.
    fn drop(&mut self) {
        let _ = self.done.0.synchronize();
    }
}

impl Buffers {
    fn new(device: &Device, rows: usize, labels: usize) -> Result<Self> {
        let stream = device.stream();
        let failed = |error| device.failed("buffers for true labels", error);
        let whole = |count: usize| stream.alloc_zeros::<u32>(count.max(1)).map_err(failed);
        Ok(Self {
            order: whole(rows)?,
            starts: whole(rows + 1)?,
            indices: whole(labels)?,
            lines: whole(rows)?,
            step: whole(1)?,
            fault: stream.alloc_zeros(1).map_err(failed)?,
        })
    }
}
