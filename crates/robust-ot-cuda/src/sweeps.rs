//! Sweeps over a streamed problem: u from v, v from u, and the measurement of their plan.

use std::f64::consts::LN_2;

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice};
use ndarray::{Array1, Array2, Zip};
use robust_ot::Result;
use robust_ot::device::{EntropicAnswer, EntropicTask};

use crate::arguments::address;
use crate::compile::Source;
use crate::device::Device;
use crate::launch::{THREADS, grid, launch};
use crate::side::{COLUMNS, ROWS, Side, parts};

/// Features multiplied at a time in half precision.
const CHUNK: usize = 64;
/// Tiles in flight to a multiprocessor.
const STAGES: usize = 3;
/// The largest scaled coordinate for which half precision is used.
const LARGEST_HALF: f64 = 30_000.0;
/// An error must shrink by this factor to count as progress.
const PROGRESS: f64 = 0.95;
/// Sweeps without progress after which the error is at the floor of its precision.
const PATIENCE: usize = 30;
/// Sweeps between checks of the error, since each check waits for the GPU.
const LOOK: usize = 4;

/// How accurately sweeps compute z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Accuracy {
    /// Factors rounded to 11 bits.
    Coarse,
    /// Factors rounded to 22 bits.
    Fine,
    Double,
}

#[derive(Debug)]
pub(crate) struct Kernels {
    /// Coarse and fine, each for at most 64 features and for more.
    half: [[CudaFunction; 2]; 2],
    double: CudaFunction,
    join: CudaFunction,
    take: CudaFunction,
    halve: CudaFunction,
    measure: CudaFunction,
    join_parts: CudaFunction,
}

impl Kernels {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let kernel = |name| device.kernel(Source::Transport, name);
        let half = |name| {
            let kernel = kernel(name)?;
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            kernel
                .set_attribute(attribute, shared_bytes(Accuracy::Fine) as i32)
                .map_err(|error| device.failed(name, error))?;
            Ok(kernel)
        };
        Ok(Self {
            half: [
                [half("sweep_coarse")?, half("sweep_coarse_wide")?],
                [half("sweep_fine")?, half("sweep_fine_wide")?],
            ],
            double: kernel("sweep_double")?,
            join: kernel("join_sweep")?,
            take: kernel("take_sweep")?,
            halve: kernel("halve")?,
            measure: kernel("measure_plan")?,
            join_parts: kernel("join_parts")?,
        })
    }
}

/// The state of one solve.
pub(crate) struct Solve<'a> {
    device: &'a Device,
    kernels: &'a Kernels,
    task: EntropicTask<'a>,
    dim: usize,
    padded_dim: usize,
    rows: Side,
    columns: Side,
    fault: CudaSlice<u32>,
    /// The regularization that points are scaled for.
    lambda: f64,
}

impl<'a> Solve<'a> {
    pub(crate) fn new(device: &'a Device, kernels: &'a Kernels, task: EntropicTask<'a>) -> Result<Self> {
        let dim = task.x.ncols();
        let padded_dim = dim.next_multiple_of(CHUNK);
        let parts = |own: usize, other: usize| parts(device, own, ROWS.1, other);
        let (m, n) = (task.x.nrows(), task.y.nrows());
        Ok(Self {
            device,
            kernels,
            task,
            dim,
            padded_dim,
            rows: Side::new(device, task.source_weights, m, dim, padded_dim, parts(m, n))?,
            columns: Side::new(device, task.target_weights, n, dim, padded_dim, parts(n, m))?,
            fault: device.stream().alloc_zeros(1).map_err(|error| device.failed("a buffer", error))?,
            lambda: task.regularization,
        })
    }

    /// Scales points for λ, sets v from old potentials or from g = 0, and sweeps the rows once in double precision.
    pub(crate) fn start(&mut self, last: Option<Array1<f64>>, lambda: f64) -> Result<()> {
        self.scale(lambda)?;
        let EntropicTask { beta, .. } = self.task;
        let level = match &last {
            Some(g) => (beta - g) / (lambda * LN_2),
            None => beta / (lambda * LN_2),
        };
        self.set_level(level)?;
        self.rows(Accuracy::Double)
    }

    /// Changes λ and keeps the potentials.
    pub(crate) fn rescale(&mut self, lambda: f64) -> Result<()> {
        let old = self.download(&self.columns.level)? * (self.lambda / lambda);
        self.scale(lambda)?;
        self.set_level(old)?;
        self.rows(Accuracy::Double)
    }

    fn set_level(&mut self, level: Array1<f64>) -> Result<()> {
        let failed = |error| self.device.failed("potentials", error);
        let level = level.to_vec();
        self.device.stream().memcpy_htod(&level, &mut self.columns.found).map_err(failed)?;
        self.take(Sides::Columns)
    }

    /// Scales the points of both sides so that x · y = z, in double and in half precision. Both sides get the same largest
    /// coordinate, so that neither leaves the range of half precision earlier than necessary.
    fn scale(&mut self, lambda: f64) -> Result<()> {
        self.lambda = lambda;
        let EntropicTask { x, y, .. } = self.task;
        let largest = |points: &Array2<f64>| points.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        let both = 2.0 / (lambda * LN_2);
        let (of_x, of_y) = (largest(x), largest(y));
        // Points that are all at the center need no scaling.
        let own = if of_x > 0.0 && of_y > 0.0 { (both * of_y / of_x).sqrt() } else { 1.0 };
        let stream = self.device.stream();
        for (side, points, factor) in [(&mut self.rows, x, own), (&mut self.columns, y, both / own)] {
            let scaled: Vec<f64> = points.iter().map(|x| x * factor).collect();
            let failed = |error| self.device.failed("the points", error);
            stream.memcpy_htod(&scaled, &mut side.points).map_err(failed)?;
            let at = |buffer| address(self.device, buffer);
            launch!(
                self.device,
                stream,
                &self.kernels.halve,
                grid((4 * self.device.processors(), 1), THREADS, 0),
                address(self.device, &side.points),
                side.count as u32,
                self.dim as u32,
                side.padded as u32,
                self.padded_dim as u32,
                1.0_f64,
                at(&side.hi),
                at(&side.lo)
            )?;
        }
        Ok(())
    }

    /// Whether half precision can hold the points.
    fn fits_half(&self) -> bool {
        let EntropicTask { x, y, .. } = self.task;
        let largest = |points: &Array2<f64>| points.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        (2.0 / (self.lambda * LN_2) * largest(x) * largest(y)).sqrt() < LARGEST_HALF
    }

    /// Sweeps until the marginal error is within the tolerance or at the floor of the accuracy; returns the number of
    /// sweeps.
    pub(crate) fn iterate(&mut self, accuracy: &mut Accuracy, tolerance: f64, most: usize) -> Result<usize> {
        if !self.fits_half() {
            *accuracy = Accuracy::Double;
        }
        let (mut best, mut best_at) = (f64::INFINITY, 0);
        for sweep in 1..=most {
            self.columns(*accuracy)?;
            let look = *accuracy == Accuracy::Double || sweep % LOOK == 0 || sweep == most || sweep < LOOK;
            let error = if look { Some(self.error()?) } else { None };
            self.rows(*accuracy)?;
            let Some(error) = error else { continue };
            if self.faulty()? {
                // Shifts were too far off for single precision: the sweep is repeated in double precision.
                self.rows(Accuracy::Double)?;
                self.columns(Accuracy::Double)?;
                self.rows(Accuracy::Double)?;
                continue;
            }
            if error < PROGRESS * best {
                (best, best_at) = (error, sweep);
            }
            if error <= tolerance || sweep >= best_at + PATIENCE || self.task.interrupt.is_raised() {
                return Ok(sweep);
            }
        }
        Ok(most)
    }

    pub(crate) fn rows(&mut self, accuracy: Accuracy) -> Result<()> {
        self.sweep(Sides::Rows, accuracy)?;
        self.take(Sides::Rows)
    }

    pub(crate) fn columns(&mut self, accuracy: Accuracy) -> Result<()> {
        self.sweep(Sides::Columns, accuracy)?;
        self.take(Sides::Columns)
    }

    /// Computes the next v without taking it: b 2^{found − v} are the column sums.
    pub(crate) fn columns_apart(&mut self) -> Result<()> {
        self.sweep(Sides::Columns, Accuracy::Double)
    }

    /// Computes log₂ of the sums of one side.
    fn sweep(&self, which: Sides, accuracy: Accuracy) -> Result<()> {
        let (own, other) = match which {
            Sides::Rows => (&self.rows, &self.columns),
            Sides::Columns => (&self.columns, &self.rows),
        };
        let Self { device, kernels, .. } = self;
        let stream = device.stream();
        let (count, parts) = (own.count as u32, parts(device, own.count, ROWS.1, other.count));
        let mut tops = 0;
        let sums = address(device, &own.sums);
        let mut used = parts;
        if accuracy == Accuracy::Double {
            tops = address(device, &own.tops);
            launch!(
                device,
                stream,
                &kernels.double,
                grid((own.count.div_ceil(ROWS.1), parts), THREADS, 0),
                address(device, &own.points),
                address(device, &other.points),
                address(device, &other.offsets),
                count,
                other.count as u32,
                self.dim as u32,
                tops,
                sums
            )?;
        } else {
            used = crate::side::parts(device, own.count, ROWS.0, other.count).min(parts);
            let wide = usize::from(self.padded_dim > CHUNK);
            let kernel = &kernels.half[usize::from(accuracy == Accuracy::Fine)][wide];
            let tiles = (other.padded / COLUMNS) as u32;
            launch!(
                device,
                stream,
                kernel,
                grid((own.padded / ROWS.0, used), 128, shared_bytes(accuracy)),
                address(device, &own.hi),
                address(device, &own.lo),
                address(device, &other.hi),
                address(device, &other.lo),
                address(device, &other.half_offsets),
                address(device, &own.shifts),
                count,
                tiles,
                self.padded_dim as u32,
                sums
            )?;
        }
        launch!(
            device,
            stream,
            &kernels.join,
            grid((own.count.div_ceil(256), 1), 256, 0),
            tops,
            address(device, &own.shifts),
            sums,
            count,
            used as u32,
            address(device, &own.found),
            address(device, &self.fault)
        )
    }

    fn take(&self, which: Sides) -> Result<()> {
        let side = if which == Sides::Rows { &self.rows } else { &self.columns };
        let device = self.device;
        launch!(
            device,
            device.stream(),
            &self.kernels.take,
            grid((side.padded.div_ceil(256), 1), 256, 0),
            address(device, &side.logs),
            address(device, &side.weights),
            address(device, &side.found),
            address(device, &side.level),
            side.count as u32,
            side.padded as u32,
            address(device, &side.offsets),
            address(device, &side.half_offsets),
            address(device, &side.shifts),
            address(device, &side.errors)
        )
    }

    /// The marginal error found by the last sweep over the columns.
    fn error(&self) -> Result<f64> {
        Ok(self.download(&self.columns.errors)?.sum())
    }

    /// The marginal error of v, after [`Solve::columns_apart`].
    pub(crate) fn true_error(&self) -> Result<f64> {
        let sums = self.column_sums()?;
        Ok(Zip::from(&sums).and(self.task.target_weights).fold(0.0, |error, sum, b| error + (sum - b).abs()))
    }

    fn column_sums(&self) -> Result<Array1<f64>> {
        let (found, level) = (self.download(&self.columns.found)?, self.download(&self.columns.level)?);
        let raised = (found - level).mapv(f64::exp2);
        // A zero weight has zero mass, whatever its factor.
        Ok(Zip::from(self.task.target_weights)
            .and(&raised)
            .map_collect(|&b, &x| if b > 0.0 { b * x } else { 0.0 }))
    }

    fn faulty(&mut self) -> Result<bool> {
        let failed = |error| self.device.failed("a sweep", error);
        let stream = self.device.stream();
        let fault = stream.clone_dtoh(&self.fault).map_err(failed)?;
        stream.synchronize().map_err(failed)?;
        if fault[0] != 0 {
            stream.memset_zeros(&mut self.fault).map_err(failed)?;
        }
        Ok(fault[0] != 0)
    }

    /// Measures the plan of u and v, with columns scaled down to their marginals, after [`Solve::columns_apart`].
    pub(crate) fn measure(&mut self) -> Result<EntropicAnswer> {
        let columns = self.column_sums()?;
        let EntropicTask { target_weights, alpha, beta, .. } = self.task;
        let (device, kernels) = (self.device, self.kernels);
        let (m, n, dim) = (self.rows.count, self.columns.count, self.dim);
        let offsets = self.download(&self.columns.offsets)?;
        let scaled = Zip::from(&offsets)
            .and(&columns)
            .and(target_weights)
            .map_collect(|&offset, &sum, &b| if sum > b { offset + (b / sum).log2() } else { offset });
        let failed = |error| device.failed("the plan", error);
        let stream = device.stream();
        let scaled = stream.clone_htod(&scaled.to_vec()).map_err(failed)?;
        let parts = parts(device, m, ROWS.1, n);
        let bytes = 8 * parts * m * (dim + 2);
        let workspace = |count: usize| {
            stream.alloc_zeros::<f64>(parts * count).map_err(|error| {
                device.out_of_memory("the plan", bytes, "fewer points or features need less", error)
            })
        };
        let (row_sums, entropies, spread) = (workspace(m)?, workspace(m)?, workspace(m * dim)?);
        // T itself: the target points without their scaling factor.
        let targets = self.unscaled_targets()?;
        launch!(
            device,
            stream,
            &kernels.measure,
            {
                let mut config = grid((m.div_ceil(ROWS.1), parts), THREADS, 0);
                config.grid_dim.2 = dim.div_ceil(COLUMNS) as u32;
                config
            },
            address(device, &self.rows.points),
            address(device, &self.columns.points),
            address(device, &targets),
            address(device, &self.rows.offsets),
            address(device, &scaled),
            m as u32,
            n as u32,
            dim as u32,
            address(device, &row_sums),
            address(device, &entropies),
            address(device, &spread)
        )?;
        for (numbers, count) in [(&row_sums, m), (&entropies, m), (&spread, m * dim)] {
            let config = grid((4 * device.processors(), 1), THREADS, 0);
            launch!(
                device,
                stream,
                &kernels.join_parts,
                config,
                address(device, numbers),
                count as u64,
                parts as u32
            )?;
        }
        let host = |numbers: &CudaSlice<f64>, count: usize| {
            let found = stream.clone_dtoh(&numbers.slice(..count)).map_err(failed)?;
            stream.synchronize().map_err(failed)?;
            Ok::<_, robust_ot::Error>(Array1::from_vec(found))
        };
        let spread = host(&spread, m * dim)?.into_shape_with_order((m, dim)).expect("as many numbers");
        let (u, v) = (self.download(&self.rows.level)?, self.download(&self.columns.level)?);
        let potential = |norms: &Array1<f64>, level: Array1<f64>| norms - &(level * (self.lambda * LN_2));
        Ok(EntropicAnswer {
            f: potential(alpha, u),
            g: potential(beta, v),
            columns,
            row_sums: host(&row_sums, m)?,
            spread,
            entropy: LN_2 * host(&entropies, m)?.sum(),
        })
    }

    fn unscaled_targets(&self) -> Result<CudaSlice<f64>> {
        let y = self.task.y.as_standard_layout();
        let numbers = y.as_slice().unwrap_or_default();
        self.device.stream().clone_htod(numbers).map_err(|error| self.device.failed("the points", error))
    }

    fn download(&self, numbers: &CudaSlice<f64>) -> Result<Array1<f64>> {
        let failed = |error| self.device.failed("reading back", error);
        let stream = self.device.stream();
        let found = stream.clone_dtoh(numbers).map_err(failed)?;
        stream.synchronize().map_err(failed)?;
        Ok(Array1::from_vec(found))
    }

    pub(crate) fn wait(&self) -> Result<()> {
        self.device.stream().synchronize().map_err(|error| self.device.failed("a sweep", error))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sides {
    Rows,
    Columns,
}

fn shared_bytes(accuracy: Accuracy) -> usize {
    let factors = if accuracy == Accuracy::Fine { 2 } else { 1 };
    STAGES * (factors * COLUMNS * CHUNK * size_of::<u16>() + COLUMNS * size_of::<f32>())
}
