//! The robust loss of a batch on the device: [`robust_ot::loss::RobustLoss`] as a handful of products and kernels.

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream};
use ndarray::{Axis, concatenate};
use robust_ot::loss::{Labels, LossSettings, RobustLoss};
use robust_ot::{Error, Result};

use crate::arguments::{DeviceSet, Truth, address};
use crate::blas::{Blas, Matrix};
use crate::compile::Source;
use crate::device::Device;
use crate::launch::{THREADS, grid, launch, rows};

/// The most labels whose table of first costs is kept on the device.
const TABLE_BYTES: usize = 4 << 30;

/// Shared memory that the kernel of plans has of its own.
const STATIC_SHARED: usize = 12 << 10;
/// Newton steps are for rows of at most so many labels; see kernels/labels.cu.
const NEWTON_LABELS: usize = 32;

/// The labels on the device, and room for a batch.
#[derive(Debug)]
pub(crate) struct LabelLoss {
    device: Device,
    settings: LossSettings,
    pub(crate) set: DeviceSet,
    labels: usize,
    size: usize,
    dim: usize,
    points: CudaSlice<f32>,
    grams: CudaSlice<f32>,
    /// [G | E], L × (r(r+1)/2 + d).
    both: CudaSlice<f32>,
    first: First,
    kernels: Kernels,
    /// Bytes of shared memory for the vectors of a row's labels.
    most_shared: usize,
    room: Room,
}

/// The costs that every solve begins with.
#[derive(Debug)]
enum First {
    Table(CudaSlice<f32>),
    Factors { moved: CudaSlice<f32>, own: CudaSlice<f32> },
}

#[derive(Debug)]
struct Kernels {
    gather_labels: CudaFunction,
    plans: CudaFunction,
    moments: CudaFunction,
    loss_slopes: CudaFunction,
}

/// For so many rows with so many lines.
#[derive(Debug)]
struct Room {
    rows: usize,
    lines: usize,
    /// Σ_p (Σ_q γ_pq) [G_p | E_p] over what moves, rows × (r(r+1)/2 + d).
    diagonals: CudaSlice<f32>,
    /// Lines × d.
    gathered: CudaSlice<f32>,
    /// Lines × L, where there is no table.
    costs: CudaSlice<f32>,
    shares: CudaSlice<f32>,
    logs: CudaSlice<f32>,
    /// Lines × d.
    spread: CudaSlice<f32>,
    masses: CudaSlice<f64>,
    entropies: CudaSlice<f64>,
    scratch: CudaSlice<f64>,
    factors: CudaSlice<f32>,
    slopes: CudaSlice<f32>,
    losses: CudaSlice<f64>,
}

/// The rows of a batch: how many, how many lines they have at most, and the most labels of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) lines: usize,
    pub(crate) most: usize,
}

impl LabelLoss {
    pub(crate) fn new(device: &Device, loss: &RobustLoss<f32>) -> Result<Self> {
        let Labels { points, grams, size, set, first_moved, first_own, first_costs } = loss.geometry();
        let settings = loss.settings().clone();
        if settings.frank_wolfe != 1 {
            let rule = "1 on a CUDA device, or the device the cpu";
            return Err(Error::parameter("frank_wolfe", rule, settings.frank_wolfe));
        }
        let stream = device.stream();
        let upload = |numbers: &[f32]| {
            stream.clone_htod(numbers).map_err(|error| {
                device.no_room("the labels", 4 * numbers.len(), "fewer labels need less", error)
            })
        };
        let flat =
            |array: &ndarray::Array2<f32>| array.as_standard_layout().iter().copied().collect::<Vec<f32>>();
        let set = DeviceSet::new(device, set, *size)?;
        let both = concatenate![Axis(1), *grams, *points];
        let labels = points.nrows();
        let first = match first_costs {
            Some(table) if 4 * labels * labels <= TABLE_BYTES => First::Table(upload(&flat(table))?),
            _ => First::Factors { moved: upload(&flat(first_moved))?, own: upload(first_own)? },
        };
        let kernel = |name| device.kernel(Source::Learning, name);
        let most_shared = device.shared_memory().saturating_sub(STATIC_SHARED);
        let kernels = Kernels {
            gather_labels: kernel("gather_labels")?,
            plans: kernel("plans")?,
            moments: kernel("moments")?,
            loss_slopes: kernel("loss_slopes")?,
        };
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        kernels
            .plans
            .set_attribute(attribute, most_shared as i32)
            .map_err(|error| device.failed("plans", error))?;
        Ok(Self {
            settings,
            set,
            labels,
            size: *size,
            dim: points.ncols(),
            points: upload(&flat(points))?,
            grams: upload(&flat(grams))?,
            both: upload(&flat(&both))?,
            first,
            kernels,
            most_shared,
            room: Room::new(device, 0, 0, (labels, *size, points.ncols()), false)?,
            device: device.clone(),
        })
    }

    /// Room for batches up to this size; graphs that were captured before must be captured again if it says so.
    pub(crate) fn reserve(&mut self, shape: Shape) -> Result<bool> {
        let shared = shared_bytes(shape.most);
        if shared > self.most_shared {
            let most = self.most_shared / shared_bytes(1);
            let found = shape.most;
            return Err(self
                .device
                .refusal(format!("a row must have at most {most} labels there, but one has {found}")));
        }
        if self.settings.tolerance > 0.0 && shape.most > NEWTON_LABELS {
            let rule = format!("0 on a CUDA device where a row has more than {NEWTON_LABELS} labels");
            return Err(Error::parameter("tolerance", rule, self.settings.tolerance));
        }
        if self.fits(shape.rows, shape.lines) {
            return Ok(false);
        }
        let (rows, lines) = (shape.rows.max(self.room.rows), shape.lines.max(self.room.lines));
        let stored = matches!(self.first, First::Factors { .. });
        self.room = Room::new(&self.device, 0, 0, (self.labels, self.size, self.dim), false)?;
        self.room = Room::new(&self.device, rows, lines, (self.labels, self.size, self.dim), stored)?;
        Ok(true)
    }

    /// Whether the room is large enough.
    pub(crate) fn fits(&self, rows: usize, lines: usize) -> bool {
        rows <= self.room.rows && lines <= self.room.lines
    }

    /// ∂W/∂h of every row, and W.
    pub(crate) fn outputs(&self) -> (u64, u64) {
        (address(&self.device, &self.room.slopes), address(&self.device, &self.room.losses))
    }

    /// Puts the loss of a batch on the stream: predictions and their logarithms are rows × L, and so are the slopes ∂W/∂h that it
    /// leaves beside the losses.
    pub(crate) fn enqueue(
        &self,
        (stream, blas): (&CudaStream, &Blas),
        truth: Truth,
        shape: Shape,
        (predictions, logs): (u64, u64),
        (slopes, losses): (u64, u64),
        fault: u64,
    ) -> Result<()> {
        let Self { device, settings, kernels, room, labels, dim, size, .. } = self;
        let at = |buffer: &CudaSlice<f32>| address(device, buffer);
        let at64 = |buffer: &CudaSlice<f64>| address(device, buffer);
        let Shape { rows: count, lines, most } = shape;
        let triangle = size * (size + 1) / 2;
        let wide = triangle + dim;
        let (width, width32) = (*labels, *labels as u32);
        let both = Matrix::new(at(&self.both), width, wide);
        let (costs, by_label, own) = match &self.first {
            First::Table(table) => (at(table), 1_i32, 0),
            First::Factors { moved, own } => {
                launch!(
                    device,
                    stream,
                    &kernels.gather_labels,
                    rows(count),
                    at(moved),
                    truth,
                    *dim as u32,
                    at(&room.gathered)
                )?;
                let gathered = Matrix::new(at(&room.gathered), lines, *dim);
                let points = Matrix::new(at(&self.points), width, *dim);
                blas.product(Matrix::new(at(&room.costs), lines, width), gathered, points.t())?;
                (at(&room.costs), 0, at(own))
            }
        };
        let inverse = (1.0 / settings.oracle()) as f32;
        let shared = shared_bytes(most);
        launch!(
            device,
            stream,
            &kernels.plans,
            grid((count, 1), THREADS, shared),
            predictions,
            logs,
            costs,
            by_label,
            own,
            truth,
            width32,
            inverse,
            settings.sinkhorn as u32,
            settings.tolerance,
            most as u32,
            at(&room.shares),
            at(&room.logs),
            // Until they are found, the room of the slopes is for the mass that leaves each label.
            slopes,
            at64(&room.masses),
            at64(&room.entropies)
        )?;
        let gone = Matrix::new(slopes, count, width);
        blas.product(Matrix::new(at(&room.diagonals), count, wide), gone, both)?;
        let shares = Matrix::new(at(&room.shares), lines, width);
        let points = Matrix::new(at(&self.points), width, *dim);
        blas.product(Matrix::new(at(&room.spread), lines, *dim), shares, points)?;
        launch!(
            device,
            stream,
            &kernels.moments,
            rows(count),
            at(&room.diagonals),
            wide as u32,
            at(&room.spread),
            at64(&room.masses),
            at(&self.grams),
            at(&self.points),
            truth,
            *size as u32,
            *dim as u32,
            self.set.set,
            settings.entropy,
            at64(&room.entropies),
            at64(&room.scratch),
            at(&room.factors),
            losses,
            fault
        )?;
        // (1/n_y) Σ_q C_pq = ⟨M, G_p⟩ − (2/n_y) ⟨l_p, Σ_q l_q M⟩, one product.
        let factors = Matrix::new(at(&room.factors), count, wide);
        blas.product(Matrix::new(slopes, count, width), factors, both.t())?;
        launch!(
            device,
            stream,
            &kernels.loss_slopes,
            rows(count),
            slopes,
            logs,
            at(&room.logs),
            truth,
            width32,
            settings.entropy as f32
        )
    }
}

/// Three numbers of double precision and one of single a label; see kernels/labels.cu.
fn shared_bytes(labels: usize) -> usize {
    labels * (3 * size_of::<f64>() + size_of::<f32>())
}

impl Room {
    fn new(
        device: &Device,
        rows: usize,
        lines: usize,
        (labels, size, dim): (usize, usize, usize),
        costs: bool,
    ) -> Result<Self> {
        let wide = size * (size + 1) / 2 + dim;
        let scratch = rows * (3 * size * size + 3 * size);
        let line = lines * labels;
        let single = rows * (2 * wide + labels) + lines * 2 * dim + line * (2 + usize::from(costs));
        let bytes = size_of::<f32>() * single + size_of::<f64>() * (scratch + lines + 2 * rows);
        let stream = device.stream();
        let cure = "a smaller batch needs less";
        let failed = |error| device.no_room("a batch of the robust loss", bytes, cure, error);
        // Nothing has no address.
        let single = |count: usize| stream.alloc_zeros::<f32>(count.max(1)).map_err(failed);
        let double = |count: usize| stream.alloc_zeros::<f64>(count.max(1)).map_err(failed);
        Ok(Self {
            rows,
            lines,
            diagonals: single(rows * wide)?,
            gathered: single(lines * dim)?,
            costs: single(if costs { line } else { 0 })?,
            shares: single(line)?,
            logs: single(line)?,
            spread: single(lines * dim)?,
            masses: double(lines)?,
            entropies: double(rows)?,
            scratch: double(scratch)?,
            factors: single(rows * wide)?,
            slopes: single(rows * labels)?,
            losses: double(rows)?,
        })
    }
}
