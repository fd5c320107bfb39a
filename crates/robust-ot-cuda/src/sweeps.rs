//! Sweeps over an entropic problem that is on the device: u from v, v from u, and the measurement of their plan.

use std::f64::consts::LN_2;

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, DeviceRepr};
use robust_ot::Result;
use robust_ot::solve::Interrupt;

use crate::compile::Source;
use crate::device::Device;
use crate::launch::{THREADS, grid, launch};
use crate::memory::{clear, download, upload};
use crate::side::{COLUMNS, Parted, ROWS, Side, parts};
use crate::workspace::Layout;

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
/// Faulty sweeps after which exponents count as too large for an accuracy.
const MOST_FAULTS: usize = 3;
/// Sweeps between checks of the error, since each check waits for the GPU.
const LOOK: usize = 4;
/// λ below this fraction of the largest cost is reached in stages.
const LARGE: f64 = 1.0 / 64.0;
/// Each stage divides λ by this factor.
const SCALING: f64 = 4.0;
/// The most sweeps of a stage, and the error at which it ends.
const STAGE: (usize, f64) = (50, 1e-2);

/// Bytes of shared memory of the kernels that measure plans: two squares of 64 lines of 68 numbers, and 64 of 20.
const MEASURE_SHARED: usize = size_of::<f64>() * 64 * (2 * 68 + 20);

/// How accurately sweeps compute z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Accuracy {
    /// Factors rounded to 11 bits.
    Coarse,
    /// Factors rounded to 22 bits.
    Fine,
    Double,
}

impl Accuracy {
    fn finer(self) -> Self {
        if self == Self::Coarse { Self::Fine } else { Self::Double }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sides {
    Rows,
    Columns,
}

/// What ends a solve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop<'a> {
    pub(crate) tolerance: f64,
    pub(crate) max_sweeps: usize,
    pub(crate) interrupt: &'a Interrupt,
}

#[derive(Debug)]
pub(crate) struct Kernels {
    /// Coarse and fine, each for at most 64 features and for more.
    half: [[CudaFunction; 2]; 2],
    double: CudaFunction,
    join: CudaFunction,
    take: CudaFunction,
    halve: CudaFunction,
    combine: CudaFunction,
    largest: CudaFunction,
    keep_rows: CudaFunction,
    limit_columns: CudaFunction,
    measure: [CudaFunction; 2],
    join_parts: CudaFunction,
}

impl Kernels {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let kernel = |name| device.kernel(Source::Transport, name);
        let room = |kernel: CudaFunction, bytes: usize| {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let set = kernel.set_attribute(attribute, bytes as i32);
            set.map_err(|error| device.failed("shared memory", error))?;
            Ok::<_, robust_ot::Error>(kernel)
        };
        let half = |name| room(kernel(name)?, shared_bytes(Accuracy::Fine));
        Ok(Self {
            half: [
                [half("sweep_coarse")?, half("sweep_coarse_wide")?],
                [half("sweep_fine")?, half("sweep_fine_wide")?],
            ],
            double: kernel("sweep_double")?,
            join: kernel("join_sweep")?,
            take: kernel("take_sweep")?,
            halve: kernel("halve")?,
            combine: kernel("combine")?,
            largest: kernel("largest_number")?,
            keep_rows: kernel("keep_rows")?,
            limit_columns: kernel("limit_columns")?,
            measure: [
                room(kernel("measure_rows")?, MEASURE_SHARED)?,
                room(kernel("measure_columns")?, MEASURE_SHARED)?,
            ],
            join_parts: kernel("join_parts")?,
        })
    }
}

/// A problem between points x with lengths α and y with lengths β, where its buffers are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweeps {
    dim: usize,
    padded_dim: usize,
    pub(crate) rows: Side,
    pub(crate) columns: Side,
    /// The largest absolute numbers of x, y, α and β.
    largest: u64,
    /// Σ γ log₂ (γ / c) of the rows of a measured plan whose columns are scaled by c, and γ times the points of the other side, for as many parts as either side has.
    pub(crate) entropies: u64,
    pub(crate) spread: u64,
    /// The regularization that points are scaled for.
    pub(crate) lambda: f64,
    /// The largest absolute coordinates of x and y, and the largest cost.
    reach: (f64, f64),
    largest_cost: f64,
}

/// See kernels/sweep.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Plan {
    own: u64,
    other: u64,
    scale: f64,
    column_offsets: u64,
    row_tops: u64,
    row_factors: u64,
    column_factors: u64,
    moved: u64,
    sums: u64,
    entropies: u64,
    spread: u64,
    count: u32,
    others: u32,
    dim: u32,
}

// SAFETY: plain numbers, with the same C layout as in CUDA.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Plan {}

impl Sweeps {
    /// Takes space for m and n points.
    pub(crate) fn new(device: &Device, layout: &mut Layout, (m, n): (usize, usize), dim: usize) -> Self {
        let padded_dim = dim.next_multiple_of(CHUNK);
        let measured = |own: usize, other: usize| parts(device, Parted::Double, own, other);
        let (of_rows, of_columns) = (measured(m, n), measured(n, m));
        let most = |own: usize, other: usize| {
            let all = [Parted::Coarse, Parted::Fine, Parted::Double]
                .map(|parted| parts(device, parted, own, other));
            all.into_iter().max().unwrap_or(1)
        };
        let double = size_of::<f64>();
        Self {
            dim,
            padded_dim,
            rows: Side::new(layout, m, dim, padded_dim, most(m, n)),
            columns: Side::new(layout, n, dim, padded_dim, most(n, m)),
            largest: layout.take(4, double),
            entropies: layout.take(m * of_rows, double),
            spread: layout.take(dim * (m * of_rows).max(n * of_columns), double),
            lambda: 0.0,
            reach: (0.0, 0.0),
            largest_cost: 0.0,
        }
    }

    /// Sends the weights of both sides.
    pub(crate) fn set_weights(&self, device: &Device, weights: [&[f64]; 2]) -> Result<()> {
        for (side, weights) in [self.rows, self.columns].iter().zip(weights) {
            let logs: Vec<f64> = weights.iter().map(|w| w.log2()).collect();
            upload(device, side.weights, weights)?;
            upload(device, side.logs, &logs)?;
        }
        Ok(())
    }

    /// Learns the range of the points and of their lengths, after these have changed.
    pub(crate) fn survey(&mut self, device: &Device, kernels: &Kernels) -> Result<()> {
        clear(device, self.largest, 4 * size_of::<f64>())?;
        for (at, numbers, count) in [
            (0, self.rows.points, self.rows.count * self.dim),
            (1, self.columns.points, self.columns.count * self.dim),
            (2, self.rows.norms, self.rows.count),
            (3, self.columns.norms, self.columns.count),
        ] {
            let blocks = count.div_ceil(THREADS as usize).min(device.processors());
            launch!(
                device,
                device.stream(),
                &kernels.largest,
                grid((blocks, 1), THREADS, 0),
                numbers,
                count as u64,
                self.largest + 8 * at
            )?;
        }
        let found: Vec<f64> = download(device, self.largest, 4)?;
        self.reach = (found[0], found[1]);
        self.largest_cost = (found[2].sqrt() + found[3].sqrt()).powi(2);
        Ok(())
    }

    /// Sweeps until the marginal error, measured in double precision, is within the tolerance or at its floor, from g or from
    /// g = 0, and in stages of smaller and smaller λ if that is small. Leaves the plan ready to be measured.
    pub(crate) fn solve(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        lambda: f64,
        last: Option<u64>,
        stop: Stop<'_>,
    ) -> Result<()> {
        let mut accuracy = Accuracy::Coarse;
        let mut left = stop.max_sweeps;
        if last.is_none() && lambda < LARGE * self.largest_cost {
            let mut stage = self.largest_cost / SCALING;
            self.start(device, kernels, None, stage)?;
            while stage > lambda {
                // Every stage gets its share of the sweeps that are allowed.
                let stages = (stage / lambda).log(SCALING).ceil() as usize + 1;
                let most = STAGE.0.min(left / stages);
                let stop = Stop { tolerance: STAGE.1, max_sweeps: most, ..stop };
                left -= self.iterate(device, kernels, &mut accuracy, stop)?.min(left);
                stage = (stage / SCALING).max(lambda);
                self.rescale(device, kernels, stage)?;
            }
        } else {
            self.start(device, kernels, last, lambda)?;
        }
        // The plan's own error is measured once half precision sees no more than the tolerance.
        loop {
            let most = Stop { max_sweeps: left, ..stop };
            left -= self.iterate(device, kernels, &mut accuracy, most)?.min(left);
            let over = left == 0 || stop.interrupt.is_raised();
            if accuracy == Accuracy::Coarse && !over {
                accuracy = Accuracy::Fine;
                continue;
            }
            let error = self.settle(device, kernels)?;
            if over || error <= stop.tolerance || accuracy == Accuracy::Double {
                return Ok(());
            }
            accuracy = Accuracy::Double;
        }
    }

    /// Sets u and v from old potentials g or from f = g = 0.
    pub(crate) fn start(
        &mut self,
        device: &Device,
        kernels: &Kernels,
        last: Option<u64>,
        lambda: f64,
    ) -> Result<()> {
        self.scale(device, kernels, lambda)?;
        clear(device, self.fault(), size_of::<f64>())?;
        let unit = 1.0 / (lambda * LN_2);
        let less = (last.unwrap_or(0), unit);
        self.set_level(device, kernels, Sides::Columns, (self.columns.norms, unit), less)?;
        self.set_level(device, kernels, Sides::Rows, (self.rows.norms, unit), (0, 0.0))?;
        // Nothing is known of the shifts of rows that start from old potentials.
        self.rows(
            device,
            kernels,
            if last.is_some() { Accuracy::Double } else { self.widest(Accuracy::Coarse) },
        )
    }

    /// Changes λ and keeps the potentials.
    fn rescale(&mut self, device: &Device, kernels: &Kernels, lambda: f64) -> Result<()> {
        let ratio = self.lambda / lambda;
        self.scale(device, kernels, lambda)?;
        self.set_level(device, kernels, Sides::Columns, (self.columns.level, ratio), (0, 0.0))?;
        self.set_level(device, kernels, Sides::Rows, (self.rows.level, ratio), (0, 0.0))?;
        self.rows(device, kernels, self.widest(Accuracy::Coarse))
    }

    /// Sets u or v to x p − y q.
    fn set_level(
        &self,
        device: &Device,
        kernels: &Kernels,
        which: Sides,
        of: (u64, f64),
        less: (u64, f64),
    ) -> Result<()> {
        let side = self.side(which);
        combine(device, kernels, side.count, of, less, side.found)?;
        self.take(device, kernels, which)
    }

    /// The potential g of v.
    pub(crate) fn potential(&self, device: &Device, kernels: &Kernels, out: u64) -> Result<()> {
        let Side { count, norms, level, .. } = self.columns;
        combine(device, kernels, count, (norms, 1.0), (level, self.lambda * LN_2), out)
    }

    /// z = scale · x · y.
    fn factor(&self) -> f64 {
        2.0 / (self.lambda * LN_2)
    }

    /// Scales the points of both sides in half precision so that x · y = z. Both sides get the same largest coordinate, so that
    /// neither leaves the range of half precision earlier than necessary.
    fn scale(&mut self, device: &Device, kernels: &Kernels, lambda: f64) -> Result<()> {
        self.lambda = lambda;
        let (both, (of_x, of_y)) = (self.factor(), self.reach);
        // Points that are all at the center need no scaling.
        let own = if of_x > 0.0 && of_y > 0.0 { (both * of_y / of_x).sqrt() } else { 1.0 };
        if self.widest(Accuracy::Coarse) == Accuracy::Double {
            return Ok(());
        }
        for (side, factor) in [(&self.rows, own), (&self.columns, both / own)] {
            launch!(
                device,
                device.stream(),
                &kernels.halve,
                grid((4 * device.processors(), 1), THREADS, 0),
                side.points,
                side.count as u32,
                self.dim as u32,
                side.padded as u32,
                self.padded_dim as u32,
                factor,
                side.hi,
                side.lo
            )?;
        }
        Ok(())
    }

    /// The accuracy, or double precision where half precision cannot hold the points.
    fn widest(&self, accuracy: Accuracy) -> Accuracy {
        let fits = (self.factor() * self.reach.0 * self.reach.1).sqrt() < LARGEST_HALF;
        if fits { accuracy } else { Accuracy::Double }
    }

    /// Sweeps until the marginal error is within the tolerance or at the floor of the accuracy; returns the number of
    /// sweeps.
    fn iterate(
        &self,
        device: &Device,
        kernels: &Kernels,
        accuracy: &mut Accuracy,
        stop: Stop<'_>,
    ) -> Result<usize> {
        *accuracy = self.widest(*accuracy);
        let (mut best, mut best_at, mut faults) = (f64::INFINITY, 0, 0);
        for sweep in 1..=stop.max_sweeps {
            self.columns(device, kernels, *accuracy)?;
            let last = sweep == stop.max_sweeps;
            let look = *accuracy == Accuracy::Double || sweep % LOOK == 0 || last || sweep < LOOK;
            let error = if look { Some(self.error(device)?) } else { None };
            self.rows(device, kernels, *accuracy)?;
            let Some((error, faulty)) = error else { continue };
            if faulty {
                // Shifts were too far off for single precision: the sweep is repeated in double precision.
                clear(device, self.fault(), size_of::<f64>())?;
                self.rows(device, kernels, Accuracy::Double)?;
                self.columns(device, kernels, Accuracy::Double)?;
                self.rows(device, kernels, Accuracy::Double)?;
                faults += 1;
                if faults % MOST_FAULTS == 0 {
                    *accuracy = accuracy.finer();
                }
                continue;
            }
            if error < PROGRESS * best {
                (best, best_at) = (error, sweep);
            }
            if error <= stop.tolerance || sweep >= best_at + PATIENCE || stop.interrupt.is_raised() {
                return Ok(sweep);
            }
        }
        Ok(stop.max_sweeps)
    }

    pub(crate) fn rows(&self, device: &Device, kernels: &Kernels, accuracy: Accuracy) -> Result<()> {
        self.sweep(device, kernels, Sides::Rows, accuracy)?;
        self.take(device, kernels, Sides::Rows)
    }

    pub(crate) fn columns(&self, device: &Device, kernels: &Kernels, accuracy: Accuracy) -> Result<()> {
        self.sweep(device, kernels, Sides::Columns, accuracy)?;
        self.take(device, kernels, Sides::Columns)
    }

    fn side(&self, which: Sides) -> &Side {
        if which == Sides::Rows { &self.rows } else { &self.columns }
    }

    fn sides(&self, which: Sides) -> (&Side, &Side) {
        match which {
            Sides::Rows => (&self.rows, &self.columns),
            Sides::Columns => (&self.columns, &self.rows),
        }
    }

    /// Computes log₂ of the sums of one side.
    fn sweep(&self, device: &Device, kernels: &Kernels, which: Sides, accuracy: Accuracy) -> Result<()> {
        let (own, other) = self.sides(which);
        let stream = device.stream();
        let count = own.count as u32;
        let parted = match accuracy {
            Accuracy::Coarse => Parted::Coarse,
            Accuracy::Fine => Parted::Fine,
            Accuracy::Double => Parted::Double,
        };
        let used = parts(device, parted, own.count, other.count);
        let mut tops = 0;
        if accuracy == Accuracy::Double {
            tops = own.tops;
            launch!(
                device,
                stream,
                &kernels.double,
                grid((own.count.div_ceil(ROWS.1), used), THREADS, 0),
                own.points,
                other.points,
                self.factor(),
                other.offsets,
                count,
                other.count as u32,
                self.dim as u32,
                tops,
                own.sums
            )?;
        } else {
            let wide = usize::from(self.padded_dim > CHUNK);
            let kernel = &kernels.half[usize::from(accuracy == Accuracy::Fine)][wide];
            let tiles = (other.padded / COLUMNS) as u32;
            launch!(
                device,
                stream,
                kernel,
                grid((own.padded / ROWS.0, used), 128, shared_bytes(accuracy)),
                own.hi,
                own.lo,
                other.hi,
                other.lo,
                other.half_offsets,
                own.shifts,
                count,
                tiles,
                self.padded_dim as u32,
                own.sums
            )?;
        }
        launch!(
            device,
            stream,
            &kernels.join,
            grid((own.count.div_ceil(256), 1), 256, 0),
            tops,
            own.shifts,
            own.sums,
            count,
            used as u32,
            own.found,
            self.fault()
        )
    }

    fn take(&self, device: &Device, kernels: &Kernels, which: Sides) -> Result<()> {
        let side = self.side(which);
        launch!(
            device,
            device.stream(),
            &kernels.take,
            grid((side.padded.div_ceil(256), 1), 256, 0),
            side.logs,
            side.weights,
            side.found,
            side.level,
            side.count as u32,
            side.padded as u32,
            side.offsets,
            side.half_offsets,
            side.shifts,
            side.errors
        )
    }

    /// The address of a number that is not zero after a sweep in half precision whose shifts were too far off.
    fn fault(&self) -> u64 {
        self.columns.errors + (size_of::<f64>() * self.columns.padded.div_ceil(256)) as u64
    }

    /// The marginal error found by the last sweep over the columns, and whether any sweep since the last look was faulty.
    fn error(&self, device: &Device) -> Result<(f64, bool)> {
        let blocks = self.columns.padded.div_ceil(256);
        let found: Vec<f64> = download(device, self.columns.errors, blocks + 1)?;
        Ok((found[..blocks].iter().sum(), found[blocks].to_bits() != 0))
    }

    /// The exact u for v, what the plan's rows are computed from, and the sums of its columns, which it limits to their weights.
    /// Returns the marginal error.
    pub(crate) fn settle(&self, device: &Device, kernels: &Kernels) -> Result<f64> {
        self.rows(device, kernels, Accuracy::Double)?;
        let (rows, columns) = (&self.rows, &self.columns);
        launch!(
            device,
            device.stream(),
            &kernels.keep_rows,
            grid((rows.count.div_ceil(256), 1), 256, 0),
            rows.tops,
            rows.sums,
            rows.weights,
            rows.count as u32,
            parts(device, Parted::Double, rows.count, columns.count) as u32,
            rows.plan_tops,
            rows.factors
        )?;
        let of_columns = self.measure(device, kernels, Sides::Columns, (0, 0), false)?;
        let blocks = columns.count.div_ceil(256);
        launch!(
            device,
            device.stream(),
            &kernels.limit_columns,
            grid((blocks, 1), 256, 0),
            columns.totals,
            columns.weights,
            columns.count as u32,
            of_columns as u32,
            columns.factors,
            columns.errors
        )?;
        Ok(download::<f64>(device, columns.errors, blocks)?.iter().sum())
    }

    /// Measures the plan with its columns limited by c: row sums, Σ γ log₂ (γ / c) of the rows, and γ times points of the other side.
    pub(crate) fn measure_rows(&self, device: &Device, kernels: &Kernels, points: u64) -> Result<()> {
        let (m, used) = (
            self.rows.count,
            self.measure(device, kernels, Sides::Rows, (points, self.columns.factors), true)?,
        );
        for (numbers, count) in [(self.rows.totals, m), (self.entropies, m), (self.spread, m * self.dim)] {
            join(device, kernels, numbers, count, used)?;
        }
        Ok(())
    }

    /// γᵀ times points of the source, for the plan with its columns limited.
    pub(crate) fn measure_columns(&self, device: &Device, kernels: &Kernels, points: u64) -> Result<()> {
        let used = self.measure(device, kernels, Sides::Columns, (points, self.columns.factors), false)?;
        join(device, kernels, self.spread, self.columns.count * self.dim, used)
    }

    fn measure(
        &self,
        device: &Device,
        kernels: &Kernels,
        which: Sides,
        (moved, column_factors): (u64, u64),
        entropies: bool,
    ) -> Result<usize> {
        let (own, other) = self.sides(which);
        let parts = parts(device, Parted::Double, own.count, other.count);
        let plan = Plan {
            own: own.points,
            other: other.points,
            scale: self.factor(),
            column_offsets: self.columns.offsets,
            row_tops: self.rows.plan_tops,
            row_factors: self.rows.factors,
            column_factors,
            moved,
            sums: own.totals,
            entropies: if entropies { self.entropies } else { 0 },
            spread: self.spread,
            count: own.count as u32,
            others: other.count as u32,
            dim: self.dim as u32,
        };
        let mut config = grid((own.count.div_ceil(ROWS.1), parts), THREADS, MEASURE_SHARED);
        config.grid_dim.2 = if moved == 0 { 1 } else { self.dim.div_ceil(COLUMNS) as u32 };
        launch!(
            device,
            device.stream(),
            &kernels.measure[usize::from(which == Sides::Columns)],
            config,
            plan
        )?;
        Ok(parts)
    }
}

fn shared_bytes(accuracy: Accuracy) -> usize {
    let factors = if accuracy == Accuracy::Fine { 2 } else { 1 };
    STAGES * (factors * COLUMNS * CHUNK * size_of::<u16>() + COLUMNS * size_of::<f32>())
}

/// x p − y q.
fn combine(
    device: &Device,
    kernels: &Kernels,
    count: usize,
    (x, p): (u64, f64),
    (y, q): (u64, f64),
    out: u64,
) -> Result<()> {
    let config = grid((count.div_ceil(256), 1), 256, 0);
    launch!(device, device.stream(), &kernels.combine, config, x, p, y, q, count as u32, out)
}

/// Adds up the parts of some numbers into the first.
pub(crate) fn join(
    device: &Device,
    kernels: &Kernels,
    numbers: u64,
    count: usize,
    parts: usize,
) -> Result<()> {
    if parts == 1 {
        return Ok(());
    }
    let config = grid((4 * device.processors(), 1), THREADS, 0);
    launch!(device, device.stream(), &kernels.join_parts, config, numbers, count as u64, parts as u32)
}
