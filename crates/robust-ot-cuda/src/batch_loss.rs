//! Cross-entropy and the robust loss of predictions that another library holds on the device, on that library's stream and in
//! memory that it lends: nothing is allocated, copied or waited for, so that CUDA graphs can capture it.

use cudarc::driver::sys::{self, CUfunction_attribute};
use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr};
use ndarray::{Array2, Axis, concatenate};
use robust_ot::Result;
use robust_ot::loss::{Labels, LossSettings, RobustLoss};

use crate::arguments::{DeviceSet, Set};
use crate::compile::Source;
use crate::device::Device;
use crate::held::{Held, Number};
use crate::label_loss::{TABLE_BYTES, check_iterations};
use crate::launch::{grid, launch};
use crate::workspace::Layout;

/// Bytes of static shared memory of the kernel `plan_rows`, rounded up.
const STATIC_SHARED: usize = 12 << 10;
/// Bytes of shared memory per label of a row; see kernels/loss.cu.
const SHARED_PER_LABEL: usize = 48;
/// Rows and columns that one block of `multiply` computes, and its threads.
const TILE: usize = 64;
const PRODUCT_THREADS: u32 = 64;
/// Threads of a block on the tensor cores.
const TENSOR_THREADS: u32 = 128;
/// Slices of a product are at least this long, and at most so many.
const LEAST_SLICE: usize = 128;
const MOST_SLICES: usize = 8;
/// Blocks per multiprocessor that products aim at.
const WAVES: usize = 2;

/// The types of targets, with the numbers that kernels/loss.cu knows them by.
///
/// ```
/// assert_eq!(robust_ot_cuda::TargetKind::Classes as u64, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// A class index per row, 64 bits.
    Classes,
    /// A number of 8 bits for every label.
    Bytes,
    /// A whole number of 64 bits for every label.
    Whole,
    /// A number of single precision for every label.
    Single,
    /// A number of double precision for every label.
    Double,
}

/// The size of a batch.
///
/// ```
/// let shape = robust_ot_cuda::BatchShape { rows: 128, most: 8 };
/// assert_eq!(shape.rows * shape.most, 1024); // lines that buffers have room for
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShape {
    /// Rows.
    pub rows: usize,
    /// The most true labels of a row. A row that has more gets NaN.
    pub most: usize,
}

/// Addresses of another library's arrays on the device, row-major without gaps, in the precision of the loss.
#[derive(Debug, Clone, Copy)]
pub struct BatchAddresses {
    /// Logits, rows × L.
    pub input: u64,
    /// Targets: rows classes, or non-negative numbers, rows × L.
    pub target: u64,
    /// How targets are stored.
    pub kind: TargetKind,
    /// Where the losses go, one per row.
    pub losses: u64,
    /// Where their gradients in the logits go, rows × L.
    pub slopes: u64,
    /// [`BatchLoss::workspace`] bytes, aligned to 256.
    pub workspace: u64,
}

/// α_ce CE + α_ot W of every row, with its gradient in the logits.
///
/// A row that cannot be computed (a logit or a target that is not a number, no label or too many, a metric out of range) gets NaN,
/// in its loss and in its gradient.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Grouping;
/// use robust_ot::loss::{LossSettings, RobustLoss};
/// use robust_ot_cuda::{BatchLoss, Device};
///
/// let loss = RobustLoss::<f32>::new(&array![[0.0], [1.0]], &Grouping::none(1), LossSettings::default())?;
/// if let Ok(device) = Device::open(0, None) {
///     println!("{:?}", BatchLoss::new(&device, &loss, [1.0, 5.0])?);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct BatchLoss {
    device: Device,
    settings: LossSettings,
    /// α_ce and α_ot.
    mix: [f64; 2],
    set: DeviceSet,
    /// Bytes of a number.
    real: usize,
    labels: usize,
    size: usize,
    dim: usize,
    points: Held,
    grams: Held,
    /// [G | E]ᵀ, (r(r+1)/2 + d) × L.
    both: Held,
    first: First,
    kernels: Kernels,
    processors: usize,
    /// The most labels of a row.
    most: usize,
}

/// The costs that every solve starts from.
#[derive(Debug)]
enum First {
    Table(Held),
    /// l_q M, ⟨M, G_p⟩, and the transposed points.
    Factors {
        moved: Held,
        own: Held,
        points: Held,
    },
}

#[derive(Debug)]
struct Kernels {
    read_rows: CudaFunction,
    plan_rows: CudaFunction,
    measure_rows: CudaFunction,
    finish_rows: CudaFunction,
    /// With its threads.
    multiply: (CudaFunction, u32),
}

/// See kernels/loss.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Batch {
    width: u64,
    most: u64,
    size: u64,
    dim: u64,
    parts: u64,
    part_stride: u64,
    diagonal_parts: u64,
    diagonal_stride: u64,
    slope_parts: u64,
    slope_stride: u64,
    kind: u64,
    iterations: u64,
    linear_entropy: f64,
    tolerance: f64,
    entropy: f64,
    cross_entropy: f64,
    transport: f64,
    set: Set,
    input: u64,
    target: u64,
    points: u64,
    grams: u64,
    table: u64,
    total: u64,
    counts: u64,
    starts: u64,
    labels: u64,
    weights: u64,
    masses: u64,
    line_labels: u64,
    entropies: u64,
    crosses: u64,
    faults: u64,
    scratch: u64,
    h: u64,
    logs: u64,
    tilts: u64,
    costs: u64,
    shares: u64,
    spread: u64,
    diagonals: u64,
    mean_costs: u64,
    factors: u64,
    slopes: u64,
    losses: u64,
}

/// See kernels/product.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Product {
    a: u64,
    gather: u64,
    b: u64,
    out: u64,
    own: u64,
    found: u64,
    rows: u64,
    inner: u64,
    columns: u64,
    slice: u64,
    stride: u64,
}

// SAFETY: plain numbers, with the same C layout as in CUDA.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Batch {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Product {}

/// The numbers of parts that sums are computed in.
#[derive(Debug, Clone, Copy)]
struct Parts {
    spread: usize,
    diagonals: usize,
    slopes: usize,
}

impl BatchLoss {
    /// Copies the labels to the device. `mix` holds the weights of cross-entropy and of transport.
    ///
    /// # Errors
    /// When the device does not support the settings, or is out of memory.
    pub fn new<T: Number>(device: &Device, loss: &RobustLoss<T>, mix: [f64; 2]) -> Result<Self> {
        let _turn = device.turn();
        let device = &device.fork()?;
        let Labels { points, grams, size, set, first_moved, first_own, first_costs } = loss.geometry();
        let real = size_of::<T>();
        let source = if real == size_of::<f32>() { Source::LossSingle } else { Source::LossDouble };
        let upload = |numbers: &[T]| Held::new(device, "the labels", numbers);
        let flat = |array: &Array2<T>| array.as_standard_layout().iter().copied().collect::<Vec<T>>();
        let transposed = |array: &Array2<T>| array.t().iter().copied().collect::<Vec<T>>();
        let both = concatenate![Axis(1), *grams, *points];
        let labels = points.nrows();
        let first = match first_costs {
            Some(table) if real * labels * labels <= TABLE_BYTES => First::Table(upload(&flat(table))?),
            _ => First::Factors {
                moved: upload(&flat(first_moved))?,
                own: upload(first_own)?,
                points: upload(&transposed(points))?,
            },
        };
        let kernel = |name| device.kernel(source, name);
        let kernels = Kernels {
            read_rows: kernel("read_rows")?,
            plan_rows: kernel("plan_rows")?,
            measure_rows: kernel("measure_rows")?,
            finish_rows: kernel("finish_rows")?,
            // Double precision has no tensor cores that are worth it.
            multiply: match source {
                Source::LossSingle => (kernel("multiply_tensor")?, TENSOR_THREADS),
                _ => (kernel("multiply")?, PRODUCT_THREADS),
            },
        };
        let shared = device.shared_memory().saturating_sub(STATIC_SHARED);
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        kernels
            .plan_rows
            .set_attribute(attribute, shared as i32)
            .map_err(|error| device.failed("plan_rows", error))?;
        let made = Self {
            settings: loss.settings().clone(),
            mix,
            set: DeviceSet::with_spectral(device, set, *size)?,
            real,
            labels,
            size: *size,
            dim: points.ncols(),
            points: upload(&flat(points))?,
            grams: upload(&flat(grams))?,
            both: upload(&transposed(&both))?,
            first,
            kernels,
            processors: device.processors(),
            most: shared / SHARED_PER_LABEL,
            device: device.clone(),
        };
        // Streams of other libraries do not wait for this one.
        device.stream().synchronize().map_err(|error| device.failed("the labels", error))?;
        Ok(made)
    }

    /// The bytes of workspace that a batch needs.
    ///
    /// # Errors
    /// When the device or the settings do not allow so many labels per row.
    pub fn workspace(&self, shape: BatchShape) -> Result<usize> {
        if shape.most > self.most {
            let (most, found) = (self.most, shape.most);
            return Err(self
                .device
                .refusal(format!("max_labels must be at most {most} on this device, but is {found}")));
        }
        check_iterations(&self.settings, shape.most)?;
        let mut layout = Layout::from(0);
        self.batch(shape, self.parts(shape.rows), &mut layout);
        Ok(layout.bytes())
    }

    /// Enqueues the losses and gradients of a batch on a CUDA stream.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Safety
    /// The stream must belong to this device. The addresses must be of device memory that the stream may read and write, as
    /// large as [`BatchAddresses`] says. [`BatchLoss::workspace`] must have allowed the shape. This value must outlive graphs
    /// that have captured the work.
    #[allow(unsafe_code)]
    pub unsafe fn enqueue(&self, stream: u64, shape: BatchShape, at: BatchAddresses) -> Result<()> {
        let Self { device, kernels, labels, size, dim, .. } = self;
        let BatchShape { rows, most } = shape;
        if rows == 0 {
            return Ok(());
        }
        // SAFETY: the caller guarantees that the stream belongs to this device.
        let stream = &unsafe { device.context().wrap_borrowed_stream(stream as *mut _) };
        let parts = self.parts(rows);
        let batch = Batch {
            input: at.input,
            target: at.target,
            kind: at.kind as u64,
            slopes: at.slopes,
            losses: at.losses,
            ..self.batch(shape, parts, &mut Layout::from(at.workspace))
        };
        let (triangle, lines) = (size * (size + 1) / 2, rows * most);
        let failed = |error| device.failed("a batch", error);
        let threads = self.threads(rows);
        device.context().bind_to_thread().map_err(failed)?;
        // SAFETY: the counter is in the workspace, and the stream is as above.
        let cleared = unsafe { sys::cuMemsetD32Async(batch.total, 0, 1, stream.cu_stream()) };
        cleared.result().map_err(failed)?;
        launch!(device, stream, &kernels.read_rows, grid((rows, 1), threads, 0), batch)?;
        if let First::Factors { moved, own, points } = &self.first {
            let product = Product {
                gather: batch.line_labels,
                own: own.address(),
                found: batch.total,
                ..Product::new((moved, points), batch.costs, (lines, *dim, *labels))
            };
            // With one label there is nothing to solve.
            if most > 1 {
                self.multiply(stream, product, 1)?;
            }
        }
        let shared = SHARED_PER_LABEL * most;
        launch!(device, stream, &kernels.plan_rows, grid((rows, 1), threads, shared), batch)?;
        let spread = Product {
            found: batch.total,
            ..Product::of((batch.shares, self.points.address()), batch.spread, (lines, *labels, *dim))
        };
        self.multiply(stream, spread, parts.spread)?;
        let diagonals = (batch.slopes, self.grams.address());
        let diagonals = Product::of(diagonals, batch.diagonals, (rows, *labels, triangle));
        self.multiply(stream, diagonals, parts.diagonals)?;
        launch!(device, stream, &kernels.measure_rows, grid((rows, 1), 256, 0), batch)?;
        // Σ_q ŷ_q C_pq = ⟨M, G_p⟩ − 2 ⟨l_p, Σ_q ŷ_q l_q M⟩, one product.
        let slopes = (batch.factors, self.both.address());
        let slopes = Product::of(slopes, batch.mean_costs, (rows, triangle + dim, *labels));
        self.multiply(stream, slopes, parts.slopes)?;
        launch!(device, stream, &kernels.finish_rows, grid((rows, 1), threads, 0), batch)
    }

    /// Threads of a block that works on a row.
    fn threads(&self, rows: usize) -> u32 {
        match self.labels {
            4096.. => 1024,
            512.. if rows <= 2 * self.processors => 512,
            _ => 256,
        }
    }

    /// Few rows make few tiles, whose products are cut into slices. Lines are at least as many as rows.
    fn parts(&self, rows: usize) -> Parts {
        let triangle = self.size * (self.size + 1) / 2;
        let slices = |inner: usize, columns: usize| {
            let tiles = rows.div_ceil(TILE).max(1) * columns.div_ceil(TILE);
            let wanted = (WAVES * self.processors).div_ceil(tiles);
            wanted.min(inner / LEAST_SLICE).clamp(1, MOST_SLICES)
        };
        Parts {
            spread: slices(self.labels, self.dim),
            diagonals: slices(self.labels, triangle),
            slopes: slices(triangle + self.dim, self.labels),
        }
    }

    fn multiply(&self, stream: &CudaStream, product: Product, parts: usize) -> Result<()> {
        let Product { rows, inner, columns, .. } = product;
        let product = Product { slice: inner.div_ceil(parts as u64), stride: rows * columns, ..product };
        let tiles = (rows as usize).div_ceil(TILE) * (columns as usize).div_ceil(TILE);
        let (multiply, threads) = &self.kernels.multiply;
        launch!(self.device, stream, multiply, grid((tiles, parts), *threads, 0), product)
    }

    /// The batch without its inputs and outputs, with buffers laid out one after another.
    fn batch(&self, BatchShape { rows, most }: BatchShape, parts: Parts, layout: &mut Layout) -> Batch {
        let Self { settings, labels, size, dim, real, .. } = self;
        let (lines, triangle) = (rows * most, size * (size + 1) / 2);
        let stored = matches!(self.first, First::Factors { .. }) && most > 1;
        Batch {
            width: *labels as u64,
            most: most as u64,
            size: *size as u64,
            dim: *dim as u64,
            parts: parts.spread as u64,
            part_stride: (lines * dim) as u64,
            diagonal_parts: parts.diagonals as u64,
            diagonal_stride: (rows * triangle) as u64,
            slope_parts: parts.slopes as u64,
            slope_stride: (rows * labels) as u64,
            kind: 0,
            iterations: settings.sinkhorn as u64,
            linear_entropy: settings.linear_entropy(),
            tolerance: settings.tolerance,
            entropy: settings.entropy,
            cross_entropy: self.mix[0],
            transport: self.mix[1],
            set: self.set.set,
            input: 0,
            target: 0,
            points: self.points.address(),
            grams: self.grams.address(),
            table: match &self.first {
                First::Table(table) => table.address(),
                First::Factors { .. } => 0,
            },
            total: layout.take(1, size_of::<u32>()),
            counts: layout.take(rows, size_of::<u32>()),
            starts: layout.take(rows, size_of::<u32>()),
            labels: layout.take(lines, size_of::<u32>()),
            weights: layout.take(lines, size_of::<f64>()),
            masses: layout.take(lines, size_of::<f64>()),
            line_labels: layout.take(lines, size_of::<u32>()),
            entropies: layout.take(rows, size_of::<f64>()),
            crosses: layout.take(rows, size_of::<f64>()),
            faults: layout.take(rows, size_of::<u64>()),
            scratch: layout.take(rows * (3 * size * size + 3 * size), size_of::<f64>()),
            h: layout.take(rows * labels, *real),
            logs: layout.take(rows * labels, *real),
            tilts: layout.take(rows * labels, *real),
            costs: layout.take(if stored { lines * labels } else { 0 }, *real),
            shares: layout.take(lines * labels, *real),
            spread: layout.take(parts.spread * lines * dim, *real),
            diagonals: layout.take(parts.diagonals * rows * triangle, *real),
            mean_costs: layout.take(parts.slopes * rows * labels, *real),
            factors: layout.take(rows * (triangle + dim), *real),
            slopes: 0,
            losses: 0,
        }
    }
}

impl Drop for BatchLoss {
    /// Waits for work on any stream that still reads the labels; a turn, because that would break a graph that another thread
    /// captures.
    fn drop(&mut self) {
        let _turn = self.device.turn();
        let _ = self.device.context().synchronize();
    }
}

impl Product {
    /// out = A B for row-major matrices of these sizes: rows, inner, columns.
    fn of((a, b): (u64, u64), out: u64, (rows, inner, columns): (usize, usize, usize)) -> Self {
        let (rows, inner, columns) = (rows as u64, inner as u64, columns as u64);
        Self { a, gather: 0, b, out, own: 0, found: 0, rows, inner, columns, slice: inner, stride: 0 }
    }

    fn new((a, b): (&Held, &Held), out: u64, sizes: (usize, usize, usize)) -> Self {
        Self::of((a.address(), b.address()), out, sizes)
    }
}
