//! The robust loss of a batch on the device: [`robust_ot::loss::RobustLoss`] as a few matrix products and kernels.

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

/// The largest table of first costs, in bytes, that is kept on the device.
pub(crate) const TABLE_BYTES: usize = 4 << 30;

/// Bytes of static shared memory of the kernel `plans`.
const STATIC_SHARED: usize = 12 << 10;
/// The most labels of a row for which Newton steps are taken; see kernels/labels.cu.
const NEWTON_LABELS: usize = 32;

/// The labels on the device, and buffers for a batch.
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
    /// The most bytes of shared memory for the vectors of a row's labels.
    most_shared: usize,
    workspace: Buffers,
}

/// The costs that every solve starts from.
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

/// Buffers for `rows` rows with `lines` lines, one line per true label of a row.
#[derive(Debug)]
struct Buffers {
    rows: usize,
    lines: usize,
    /// Σ_p (Σ_q γ_pq) [G_p | E_p] over the mass that moves, rows × (r(r+1)/2 + d).
    diagonals: CudaSlice<f32>,
    /// Lines × d.
    gathered: CudaSlice<f32>,
    /// Lines × L, if there is no table.
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

/// The size of a batch: its rows, an upper bound on their lines, and the most labels of a row.
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
        let stream = device.stream();
        let upload = |numbers: &[f32]| {
            stream.clone_htod(numbers).map_err(|error| {
                device.out_of_memory("the labels", 4 * numbers.len(), "fewer labels need less", error)
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
            workspace: Buffers::new(device, 0, 0, (labels, *size, points.ncols()), false)?,
            device: device.clone(),
        })
    }

    /// Reserves buffers for batches up to this size. Returns true if they moved, so that graphs must be captured again.
    pub(crate) fn reserve(&mut self, shape: Shape) -> Result<bool> {
        let shared = shared_bytes(shape.most);
        if shared > self.most_shared {
            let most = self.most_shared / shared_bytes(1);
            let found = shape.most;
            return Err(self.device.refusal(format!(
                "a row must have at most {most} labels on this device, but one has {found}"
            )));
        }
        check_iterations(&self.settings, shape.most)?;
        if self.settings.tolerance > 0.0 && shape.most > NEWTON_LABELS {
            let rule = format!("0 on a CUDA device where a row has more than {NEWTON_LABELS} labels");
            return Err(Error::parameter("tolerance", rule, self.settings.tolerance));
        }
        if self.fits(shape.rows, shape.lines) {
            return Ok(false);
        }
        let (rows, lines) = (shape.rows.max(self.workspace.rows), shape.lines.max(self.workspace.lines));
        let stored = matches!(self.first, First::Factors { .. });
        self.workspace = Buffers::new(&self.device, 0, 0, (self.labels, self.size, self.dim), false)?;
        self.workspace = Buffers::new(&self.device, rows, lines, (self.labels, self.size, self.dim), stored)?;
        Ok(true)
    }

    /// Whether the buffers are large enough.
    pub(crate) fn fits(&self, rows: usize, lines: usize) -> bool {
        rows <= self.workspace.rows && lines <= self.workspace.lines
    }

    /// The addresses of ∂W/∂h and of W of every row.
    pub(crate) fn outputs(&self) -> (u64, u64) {
        (address(&self.device, &self.workspace.slopes), address(&self.device, &self.workspace.losses))
    }

    /// Enqueues the loss of a batch. Predictions and their logarithms are rows × L, and so are the gradients ∂W/∂h that
    /// it writes along with the losses.
    pub(crate) fn enqueue(
        &self,
        (stream, blas): (&CudaStream, &Blas),
        truth: Truth,
        shape: Shape,
        (predictions, logs): (u64, u64),
        (slopes, losses): (u64, u64),
        fault: u64,
    ) -> Result<()> {
        let Self { device, settings, kernels, workspace, labels, dim, size, .. } = self;
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
                    at(&workspace.gathered)
                )?;
                let gathered = Matrix::new(at(&workspace.gathered), lines, *dim);
                let points = Matrix::new(at(&self.points), width, *dim);
                blas.product(Matrix::new(at(&workspace.costs), lines, width), gathered, points.t())?;
                (at(&workspace.costs), 0, at(own))
            }
        };
        let inverse = (1.0 / settings.linear_entropy()) as f32;
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
            at(&workspace.shares),
            at(&workspace.logs),
            // Until the gradients are computed, their buffer holds the mass that leaves each label.
            slopes,
            at64(&workspace.masses),
            at64(&workspace.entropies)
        )?;
        let gone = Matrix::new(slopes, count, width);
        blas.product(Matrix::new(at(&workspace.diagonals), count, wide), gone, both)?;
        let shares = Matrix::new(at(&workspace.shares), lines, width);
        let points = Matrix::new(at(&self.points), width, *dim);
        blas.product(Matrix::new(at(&workspace.spread), lines, *dim), shares, points)?;
        launch!(
            device,
            stream,
            &kernels.moments,
            rows(count),
            at(&workspace.diagonals),
            wide as u32,
            at(&workspace.spread),
            at64(&workspace.masses),
            at(&self.grams),
            at(&self.points),
            truth,
            *size as u32,
            *dim as u32,
            self.set.set,
            settings.entropy,
            at64(&workspace.entropies),
            at64(&workspace.scratch),
            at(&workspace.factors),
            losses,
            fault
        )?;
        // (1/n_y) Σ_q C_pq = ⟨M, G_p⟩ − (2/n_y) ⟨l_p, Σ_q l_q M⟩, one product.
        let factors = Matrix::new(at(&workspace.factors), count, wide);
        blas.product(Matrix::new(slopes, count, width), factors, both.t())?;
        launch!(
            device,
            stream,
            &kernels.loss_slopes,
            rows(count),
            slopes,
            logs,
            at(&workspace.logs),
            truth,
            width32,
            settings.entropy as f32
        )
    }
}

/// Checks that rows of so many labels take the iterations that the device does.
pub(crate) fn check_iterations(settings: &LossSettings, most: usize) -> Result<()> {
    if settings.frank_wolfe != 1 && most > 1 {
        let rule = "1 on a CUDA device where rows have several labels (other values run on the cpu)";
        return Err(Error::parameter("frank_wolfe", rule, settings.frank_wolfe));
    }
    Ok(())
}

/// Three numbers of double precision and one of single precision per label; see kernels/labels.cu.
fn shared_bytes(labels: usize) -> usize {
    labels * (3 * size_of::<f64>() + size_of::<f32>())
}

impl Buffers {
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
        let failed = |error| device.out_of_memory("a batch of the robust loss", bytes, cure, error);
        // An empty buffer has no address.
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
