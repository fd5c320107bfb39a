//! Device buffers of training: weights and optimizer state, the true labels, and workspace for one batch.

use cudarc::driver::CudaSlice;
use robust_ot::Result;
use robust_ot_learn::{Dataset, Objective, Optimizer, Parameters, Step, TrainSettings};

use crate::arguments::{Rates, Truth, address};
use crate::device::Device;

/// Learned parameters and optimizer state, on the device.
#[derive(Debug)]
pub(crate) struct DeviceParameters {
    pub(crate) values: CudaSlice<f32>,
    pub(crate) first: CudaSlice<f32>,
    pub(crate) second: CudaSlice<f32>,
}

#[derive(Debug)]
pub(crate) struct TruthBuffers {
    pub(crate) order: CudaSlice<u32>,
    pub(crate) starts: CudaSlice<u32>,
    pub(crate) indices: CudaSlice<u32>,
    pub(crate) lines: CudaSlice<u32>,
    pub(crate) step: CudaSlice<u32>,
    /// The largest number of labels of a row.
    pub(crate) most: usize,
}

/// Buffers of one batch, and of one epoch.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) logits: CudaSlice<f32>,
    pub(crate) predictions: CudaSlice<f32>,
    pub(crate) gradients: CudaSlice<f32>,
    pub(crate) rates: CudaSlice<Rates>,
    pub(crate) losses: CudaSlice<f64>,
    pub(crate) fault: CudaSlice<u64>,
    pub(crate) table: Option<CudaSlice<f32>>,
}

pub(crate) fn rates_of(step: &Step) -> Rates {
    match step.optimizer {
        Optimizer::Sgd { .. } => Rates { rate: step.rate as f32, square: 0.0 },
        Optimizer::Adam | Optimizer::AdamW => {
            let (rate, square) = step.corrected();
            Rates { rate, square }
        }
    }
}

impl DeviceParameters {
    /// Rounds the size up to a multiple of four, so that kernels can update four numbers at a time.
    pub(crate) fn new(device: &Device, count: usize, optimizer: Optimizer) -> Result<Self> {
        let whole = count.next_multiple_of(4);
        let copies = 2
            + usize::from(optimizer != Optimizer::Sgd { momentum: 0.0 })
            + usize::from(optimizer == Optimizer::Adam);
        let alloc = |wanted: bool| {
            device.stream().alloc_zeros::<f32>(if wanted { whole } else { 4 }).map_err(|error| {
                device.out_of_memory(
                    "the model",
                    4 * copies * whole,
                    "fewer labels or features, or the optimizer sgd, need less",
                    error,
                )
            })
        };
        Ok(Self {
            values: alloc(true)?,
            first: alloc(optimizer != Optimizer::Sgd { momentum: 0.0 })?,
            second: alloc(optimizer == Optimizer::Adam)?,
        })
    }

    pub(crate) fn upload(&mut self, device: &Device, from: &Parameters) -> Result<()> {
        let failed = |error| device.failed("the weights", error);
        let Self { values, first, second } = self;
        for (to, from) in [(values, &from.values), (first, &from.first), (second, &from.second)] {
            if !from.is_empty() {
                device.stream().memcpy_htod(from, &mut to.slice_mut(..from.len())).map_err(failed)?;
            }
        }
        device.stream().synchronize().map_err(failed)
    }

    pub(crate) fn download(&self, device: &Device, to: &mut Parameters) -> Result<()> {
        let failed = |error| device.failed("the weights", error);
        let Self { values, first, second } = self;
        for (from, to) in [(values, &mut to.values), (first, &mut to.first), (second, &mut to.second)] {
            if !to.is_empty() {
                device.stream().memcpy_dtoh(&from.slice(..to.len()), to).map_err(failed)?;
            }
        }
        device.stream().synchronize().map_err(failed)
    }
}

impl TruthBuffers {
    pub(crate) fn new(device: &Device, train: &Dataset, settings: &TrainSettings) -> Result<Self> {
        let failed = |error| device.failed("the labels of the rows", error);
        let stream = device.stream();
        let (mut starts, mut indices, mut most) = (vec![0_u32], Vec::new(), 0);
        for row in 0..train.rows() {
            let labels = train.targets().row(row);
            most = most.max(labels.len());
            indices.extend(labels.iter().map(|&label| label as u32));
            starts.push(indices.len() as u32);
        }
        if train.rows().div_ceil(settings.batch) >= 1 << 24 {
            return Err(device.refusal("an epoch must have fewer than 16,777,216 batches on a CUDA device"));
        }
        Ok(Self {
            order: stream.alloc_zeros(train.rows()).map_err(failed)?,
            starts: stream.clone_htod(&starts).map_err(failed)?,
            indices: stream.clone_htod(&indices).map_err(failed)?,
            lines: stream.alloc_zeros(train.rows()).map_err(failed)?,
            step: stream.alloc_zeros(1).map_err(failed)?,
            most,
        })
    }

    pub(crate) fn truth(&self, device: &Device, batch: usize) -> Truth {
        let at = |buffer: &CudaSlice<u32>| address(device, buffer);
        Truth {
            order: at(&self.order),
            starts: at(&self.starts),
            indices: at(&self.indices),
            lines: at(&self.lines),
            step: at(&self.step),
            batch: batch as u32,
        }
    }
}

impl Buffers {
    pub(crate) fn new(
        device: &Device,
        train: &Dataset,
        objective: &Objective,
        settings: &TrainSettings,
        batch: usize,
    ) -> Result<Self> {
        let (features, labels) = (train.features().columns(), objective.labels());
        let stream = device.stream();
        let gradients = (features * labels).next_multiple_of(4);
        let bytes = 4 * (2 * batch * labels + gradients);
        let failed = |error| {
            device.out_of_memory("a batch and its gradient", bytes, "a smaller batch needs less", error)
        };
        let table = objective.targets().table().map(|table| {
            let numbers: Vec<f32> = table.iter().copied().collect();
            stream.clone_htod(&numbers).map_err(|error| {
                device.out_of_memory(
                    "the table of transported targets",
                    4 * numbers.len(),
                    "fewer labels need less",
                    error,
                )
            })
        });
        Ok(Self {
            logits: stream.alloc_zeros(batch * labels).map_err(failed)?,
            predictions: stream.alloc_zeros(batch * labels).map_err(failed)?,
            gradients: stream.alloc_zeros(gradients).map_err(failed)?,
            rates: rates_room(device, train.rows().div_ceil(settings.batch))?,
            losses: stream.alloc_zeros(train.rows()).map_err(failed)?,
            fault: stream.alloc_zeros(1).map_err(failed)?,
            table: table.transpose()?,
        })
    }
}

fn rates_room(device: &Device, steps: usize) -> Result<CudaSlice<Rates>> {
    device
        .stream()
        .clone_htod(&vec![Rates { rate: 0.0, square: 0.0 }; steps])
        .map_err(|error| device.failed("the steps", error))
}
