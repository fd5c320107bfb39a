//! Distances between two clouds that another library keeps on the device, with their gradients: only matrices between groups of
//! features and a few numbers travel.

use cudarc::driver::{CudaFunction, DeviceRepr};
use ndarray::{Array1, Array2};
use robust_ot::device::{CloudAnswer, CloudDistance, CloudMoments, CloudOracle, CloudTask, CloudWeights};
use robust_ot::{Grouping, Result};

use crate::compile::Source;
use crate::device::Device;
use crate::launch::{THREADS, grid, launch};
use crate::memory::{clear, download, upload};
use crate::side::Side;
use crate::sweeps::{Kernels, Stop, Sweeps, join};
use crate::workspace::Layout;

/// Parts that sums over points are divided into.
const PARTS: usize = 256;
/// Groups per side of a tile of `sum_moments`.
const TILE: usize = 64;
/// Threads of `complete_plan`, and their lanes.
const COMPLETE_THREADS: u32 = 1024;
/// The numbers of `complete_plan`; see kernels/clouds.cu.
const RESULTS: usize = 7;

/// Where the points of two clouds are: contiguous, one row per point, in single or double precision.
#[derive(Debug, Clone, Copy)]
pub struct CloudPoints {
    /// The address of the source points.
    pub source: u64,
    /// The address of the target points.
    pub target: u64,
    /// Whether both are in single precision.
    pub single: bool,
}

/// Where gradients go, in the precision of the points; 0 for those that are not wanted.
#[derive(Debug, Clone, Copy)]
pub struct CloudSlopes {
    /// As many numbers as the source points.
    pub source: u64,
    /// As many numbers as the target points.
    pub target: u64,
    /// One number per source point.
    pub source_weights: u64,
    /// One number per target point.
    pub target_weights: u64,
}

/// An oracle for [`robust_ot::device::solve_cloud_on`].
///
/// ```
/// use ndarray::Array1;
/// use robust_ot::Grouping;
/// use robust_ot::device::CloudWeights;
/// use robust_ot_cuda::{Clouds, Device};
///
/// let weights = CloudWeights::new(Array1::ones(1000))?;
/// if let Ok(device) = Device::open(0, None) {
///     let bytes = Clouds::workspace(&device, (&weights, &weights), &Grouping::none(64));
///     println!("between 1000 and 1000 points: {bytes} bytes");
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct Clouds {
    device: Device,
    sweeping: Kernels,
    kernels: CloudKernels,
    grouping: Grouping,
    masses: (f64, f64),
    single: bool,
    at: Addresses,
    /// λ, and the potentials g of every call.
    calls: Vec<(f64, cudarc::driver::CudaSlice<f64>)>,
    /// The metric for which x = S M was computed last, with the call and λ whose plan is settled.
    moved: Option<Array2<f64>>,
    settled: Option<usize>,
}

#[derive(Debug)]
struct CloudKernels {
    lay_out: CudaFunction,
    sum_points: CudaFunction,
    center: CudaFunction,
    lengths: CudaFunction,
    sum_moments: CudaFunction,
    move_points: CudaFunction,
    complete: CudaFunction,
    add_moves: CudaFunction,
    point_slopes: CudaFunction,
    weight_slopes: CudaFunction,
}

/// Buffers in the workspace.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    sweeps: Sweeps,
    positions: u64,
    /// The source points laid out; those of the target are `sweeps.columns.points`.
    source: u64,
    lengths: [u64; 2],
    metric: u64,
    /// Parts of sums over points, of which the first gets the sum.
    sums: [u64; 2],
    moments: u64,
    lacks: u64,
    shares: u64,
    results: u64,
    moves: [u64; 2],
}

/// See kernels/clouds.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Measured {
    source_weights: u64,
    target_weights: u64,
    row_sums: u64,
    column_totals: u64,
    column_factors: u64,
    entropies: u64,
    alpha: u64,
    beta: u64,
    u: u64,
    v: u64,
    source_lengths: u64,
    target_lengths: u64,
    lacks: u64,
    shares: u64,
    results: u64,
    lambda: f64,
    m: u32,
    n: u32,
}

// SAFETY: plain numbers, with the same C layout as in CUDA.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Measured {}

impl Addresses {
    fn new(device: &Device, layout: &mut Layout, (m, n): (usize, usize), grouping: &Grouping) -> Self {
        let (groups, double) = (grouping.groups(), size_of::<f64>());
        let dim = grouping.slots() * groups;
        Self {
            sweeps: Sweeps::new(device, layout, (m, n), dim),
            positions: layout.take(grouping.dim(), size_of::<u32>()),
            source: layout.take(m * dim, double),
            lengths: [m, n].map(|count| layout.take(count, double)),
            metric: layout.take(groups * groups, double),
            sums: [0; 2].map(|_| layout.take(PARTS * dim, double)),
            moments: layout.take(PARTS * groups * groups, double),
            lacks: layout.take(m, double),
            shares: layout.take(n, double),
            results: layout.take(RESULTS, double),
            moves: [m, n].map(|count| layout.take(count * dim, double)),
        }
    }
}

impl Clouds {
    /// The bytes of workspace that clouds with these weights need.
    pub fn workspace(
        device: &Device,
        (source, target): (&CloudWeights, &CloudWeights),
        grouping: &Grouping,
    ) -> usize {
        let mut layout = Layout::from(0);
        let shape = (source.weights().len(), target.weights().len());
        Addresses::new(device, &mut layout, shape, grouping);
        layout.bytes()
    }

    /// Lays the points out on a CUDA stream, which does all work of this value.
    ///
    /// # Errors
    /// When the kernels do not compile, or the device fails.
    ///
    /// # Safety
    /// The stream must belong to this device and outlive this value. The addresses must be of device memory that the stream may
    /// read and write: the points as [`CloudPoints`] says, and a workspace of [`Clouds::workspace`] bytes.
    #[allow(unsafe_code)]
    pub unsafe fn new(
        device: &Device,
        stream: u64,
        points: CloudPoints,
        (source, target): (&CloudWeights, &CloudWeights),
        grouping: &Grouping,
        workspace: u64,
    ) -> Result<Self> {
        let _turn = device.turn();
        // SAFETY: the caller guarantees that the stream belongs to this device and outlives this value.
        let device = unsafe { device.on_stream(stream) };
        let kernel = |name| device.kernel(Source::Transport, name);
        let kernels = CloudKernels {
            lay_out: kernel("lay_out")?,
            sum_points: kernel("sum_points")?,
            center: kernel("center_points")?,
            lengths: kernel("point_lengths")?,
            sum_moments: kernel("sum_moments")?,
            move_points: kernel("move_points")?,
            complete: kernel("complete_plan")?,
            add_moves: kernel("add_moves")?,
            point_slopes: kernel("point_slopes")?,
            weight_slopes: kernel("weight_slopes")?,
        };
        let shape = (source.weights().len(), target.weights().len());
        let at = Addresses::new(&device, &mut Layout::from(workspace), shape, grouping);
        let found = Self {
            sweeping: Kernels::new(&device)?,
            kernels,
            grouping: grouping.clone(),
            masses: (source.mass(), target.mass()),
            single: points.single,
            at,
            calls: Vec::new(),
            moved: None,
            settled: None,
            device,
        };
        let positions: Vec<u32> = (0..grouping.dim()).map(|f| grouping.position(f) as u32).collect();
        upload(&found.device, at.positions, &positions)?;
        at.sweeps.set_weights(
            &found.device,
            [source, target].map(|w| w.weights().as_slice().unwrap_or_default()),
        )?;
        found.lay_out([points.source, points.target])?;
        Ok(found)
    }

    /// Slots · groups, the numbers of a point.
    fn dim(&self) -> usize {
        self.grouping.slots() * self.grouping.groups()
    }

    /// Both sides, with the addresses of their points as laid out.
    fn sides(&self) -> [(Side, u64); 2] {
        let Sweeps { rows, columns, .. } = self.at.sweeps;
        [(rows, self.at.source), (columns, columns.points)]
    }

    /// The grid of kernels that go through all numbers.
    fn wide(&self) -> cudarc::driver::LaunchConfig {
        grid((4 * self.device.processors(), 1), THREADS, 0)
    }

    /// The grid of kernels with one warp per point.
    fn warps(count: usize) -> cudarc::driver::LaunchConfig {
        grid((count.div_ceil(THREADS as usize / 32), 1), THREADS, 0)
    }

    fn lay_out(&self, points: [u64; 2]) -> Result<()> {
        let Self { device, kernels, at, .. } = self;
        let (features, dim, stream) = (self.grouping.dim() as u32, self.dim(), device.stream());
        for ((side, laid), from) in self.sides().into_iter().zip(points) {
            clear(device, laid, 8 * side.count * dim)?;
            let (count, single) = (side.count as u32, u32::from(self.single));
            launch!(
                device,
                stream,
                &kernels.lay_out,
                self.wide(),
                from,
                single,
                at.positions,
                count,
                features,
                dim as u32,
                laid
            )?;
        }
        self.sum([at.sweeps.rows.weights, at.sweeps.columns.weights], [at.source, at.sweeps.columns.points])?;
        for ((side, laid), lengths) in self.sides().into_iter().zip(at.lengths) {
            let count = side.count as u32;
            let [mean, other] = at.sums;
            launch!(device, stream, &kernels.center, self.wide(), laid, mean, other, count, dim as u32)?;
            launch!(
                device,
                stream,
                &kernels.lengths,
                Self::warps(side.count),
                laid,
                count,
                dim as u32,
                lengths
            )?;
        }
        Ok(())
    }

    /// Σ w x over the points of both sides, into the first parts of `sums`.
    fn sum(&self, weights: [u64; 2], points: [u64; 2]) -> Result<()> {
        let (Self { device, kernels, at, sweeping, .. }, dim) = (self, self.dim());
        for (which, (side, _)) in self.sides().into_iter().enumerate() {
            let (count, out, parts) = (side.count as u32, at.sums[which], PARTS.min(side.count));
            let config = grid((parts, 1), THREADS, 0);
            let (points, weights) = (points[which], weights[which]);
            launch!(
                device,
                device.stream(),
                &kernels.sum_points,
                config,
                points,
                weights,
                count,
                dim as u32,
                out
            )?;
            join(device, sweeping, out, dim, parts)?;
        }
        Ok(())
    }

    /// Σ w pᵀ q over slots of points, r × r.
    fn moment(&self, p: u64, weights: u64, q: u64, count: usize) -> Result<Array2<f64>> {
        let Self { device, kernels, at, grouping, sweeping, .. } = self;
        let (groups, slots) = (grouping.groups(), grouping.slots());
        let lines = count * slots;
        let (parts, across) = (PARTS.min(lines.div_ceil(16)), groups.div_ceil(TILE));
        launch!(
            device,
            device.stream(),
            &kernels.sum_moments,
            grid((parts, across * across), THREADS, 0),
            p,
            weights,
            q,
            lines as u64,
            slots as u32,
            groups as u32,
            at.moments
        )?;
        join(device, sweeping, at.moments, groups * groups, parts)?;
        let found = download(device, at.moments, groups * groups)?;
        Ok(Array2::from_shape_vec((groups, groups), found).expect("r² numbers"))
    }

    /// x = S M, α and β.
    fn move_points(&mut self, metric: &Array2<f64>) -> Result<()> {
        if self.moved.as_ref() == Some(metric) {
            return Ok(());
        }
        self.settled = None;
        let (Self { device, kernels, at, .. }, dim) = (&*self, self.dim() as u32);
        upload(device, at.metric, metric.as_standard_layout().as_slice().unwrap_or_default())?;
        let groups = self.grouping.groups() as u32;
        for ((side, laid), out) in self.sides().into_iter().zip([at.sweeps.rows.points, 0]) {
            let (config, count) = (Self::warps(side.count), side.count as u32);
            launch!(
                device,
                device.stream(),
                &kernels.move_points,
                config,
                laid,
                at.metric,
                count,
                dim,
                groups,
                out,
                side.norms
            )?;
        }
        self.at.sweeps.survey(&self.device, &self.sweeping)?;
        self.moved = Some(metric.clone());
        Ok(())
    }

    /// Completes the measured plan and reads the numbers that this leads to.
    fn complete(&self, lambda: f64) -> Result<Vec<f64>> {
        let Self { device, kernels, at, .. } = self;
        let Sweeps { rows, columns, entropies, .. } = at.sweeps;
        let measured = Measured {
            source_weights: rows.weights,
            target_weights: columns.weights,
            row_sums: rows.totals,
            column_totals: columns.totals,
            column_factors: columns.factors,
            entropies,
            alpha: rows.norms,
            beta: columns.norms,
            u: rows.level,
            v: columns.level,
            source_lengths: at.lengths[0],
            target_lengths: at.lengths[1],
            lacks: at.lacks,
            shares: at.shares,
            results: at.results,
            lambda,
            m: rows.count as u32,
            n: columns.count as u32,
        };
        let config = grid((1, 1), COMPLETE_THREADS, 0);
        launch!(device, device.stream(), &kernels.complete, config, measured)?;
        // Σ e_i s_i and Σ e'_j t_j.
        self.sum([at.lacks, at.shares], [at.source, columns.points])?;
        download(device, at.results, RESULTS)
    }

    /// Writes the gradient of a distance that this value returned.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Safety
    /// The addresses must be 0 or of device memory that the stream may write, as large as [`CloudSlopes`] says.
    #[allow(unsafe_code)]
    pub unsafe fn gradient(&mut self, found: &CloudDistance, out: CloudSlopes) -> Result<()> {
        let device = self.device.clone();
        let _turn = device.turn();
        let (dim, groups) = (self.dim(), self.grouping.groups() as u32);
        let single = u32::from(self.single);
        // First, since the last call's potentials are there yet.
        let wanted = [out.source_weights, out.target_weights];
        if wanted != [0; 2] {
            let (call, metric) = &found.potentials;
            self.restore(*call, metric)?;
            let results = self.complete(self.calls[*call].0)?;
            let lambda = self.calls[*call].0;
            let masses = [self.masses.0, self.masses.1];
            for (which, (side, _)) in self.sides().into_iter().enumerate().filter(|(at, _)| wanted[*at] != 0)
            {
                launch!(
                    device,
                    device.stream(),
                    &self.kernels.weight_slopes,
                    grid((side.count.div_ceil(256), 1), 256, 0),
                    side.norms,
                    side.level,
                    side.weights,
                    lambda,
                    results[SOURCE_DUAL + which],
                    masses[which],
                    single,
                    side.count as u32,
                    wanted[which]
                )?;
            }
        }
        let wanted = [out.source, out.target];
        for (side, &moves) in self.sides().iter().zip(&self.at.moves) {
            clear(&device, moves, 8 * side.0.count * dim)?;
        }
        if wanted != [0; 2] {
            for plan in &found.plans {
                self.restore(plan.call, &plan.metric)?;
                self.add_moves(plan.weight, wanted)?;
            }
            upload(
                &device,
                self.at.metric,
                found.metric.as_standard_layout().as_slice().unwrap_or_default(),
            )?;
        }
        for (which, (side, _)) in self.sides().into_iter().enumerate().filter(|(at, _)| wanted[*at] != 0) {
            launch!(
                device,
                device.stream(),
                &self.kernels.point_slopes,
                self.wide(),
                self.at.moves[which],
                self.at.metric,
                self.at.positions,
                single,
                side.count as u32,
                self.grouping.dim() as u32,
                dim as u32,
                groups,
                wanted[which]
            )?;
        }
        device.stream().synchronize().map_err(|error| device.failed("a gradient", error))
    }

    /// Makes the plan of a call the current one.
    fn restore(&mut self, call: usize, metric: &Array2<f64>) -> Result<()> {
        if self.settled == Some(call) {
            return Ok(());
        }
        let device = self.device.clone();
        self.move_points(metric)?;
        let (lambda, potentials) = &self.calls[call];
        let g = crate::arguments::address(&device, potentials);
        self.at.sweeps.start(&device, &self.sweeping, Some(g), *lambda)?;
        self.at.sweeps.settle(&device, &self.sweeping)?;
        self.at.sweeps.measure_rows(&device, &self.sweeping, self.at.sweeps.columns.points)?;
        self.complete(self.calls[call].0)?;
        self.settled = Some(call);
        Ok(())
    }

    /// Adds what the current plan moves the points by.
    fn add_moves(&mut self, weight: f64, wanted: [u64; 2]) -> Result<()> {
        let (Self { device, kernels, at, sweeping, .. }, dim) = (&*self, self.dim() as u32);
        let Sweeps { spread, .. } = at.sweeps;
        let lacks = [at.lacks, at.shares];
        // The plan gives a source point the sum over columns, and the other way round.
        let completes = [at.sums[1], at.sums[0]];
        for (which, (side, laid)) in self.sides().into_iter().enumerate().filter(|(at, _)| wanted[*at] != 0) {
            if which == 1 {
                at.sweeps.measure_columns(device, sweeping, at.source)?;
            }
            launch!(
                device,
                device.stream(),
                &kernels.add_moves,
                self.wide(),
                laid,
                side.weights,
                spread,
                lacks[which],
                completes[which],
                weight,
                side.count as u32,
                dim,
                at.moves[which]
            )?;
        }
        // The spread and the totals are those of the columns now.
        self.settled = None;
        Ok(())
    }
}

/// Where results are; see kernels/clouds.cu.
const ENTROPY: usize = 1;
const SOURCE_DUAL: usize = 2;
const TARGET_DUAL: usize = 3;
const SIZE: usize = 4;
const UNPLACED: usize = 5;

impl CloudOracle for Clouds {
    fn moments(&mut self) -> Result<CloudMoments> {
        let device = self.device.clone();
        let _turn = device.turn();
        let groups = self.grouping.groups();
        let mut shared = Array2::zeros((groups, groups));
        for (side, laid) in self.sides() {
            shared += &self.moment(laid, side.weights, laid, side.count)?;
        }
        let points = self.sides().map(|(_, laid)| laid);
        self.sum(self.sides().map(|(side, _)| side.weights), points)?;
        let mean = |at: usize| download(&device, self.at.sums[at], self.dim()).map(Array1::from_vec);
        Ok(CloudMoments { shared, means: (mean(0)?, mean(1)?) })
    }

    fn solve(&mut self, task: &CloudTask<'_>) -> Result<CloudAnswer> {
        let device = self.device.clone();
        let _turn = device.turn();
        self.move_points(task.metric)?;
        let last = self.calls.last().map(|(_, g)| crate::arguments::address(&device, g));
        let CloudTask { regularization, tolerance, max_sweeps, interrupt, .. } = *task;
        let stop = Stop { tolerance, max_sweeps, interrupt };
        self.at.sweeps.solve(&device, &self.sweeping, regularization, last, stop)?;
        let (m, n) = (self.at.sweeps.rows.count, self.at.sweeps.columns.count);
        let kept = device.stream().alloc_zeros::<f64>(n);
        let kept =
            kept.map_err(|error| device.out_of_memory("potentials", 8 * n, "fewer points need less", error))?;
        self.at.sweeps.potential(&device, &self.sweeping, crate::arguments::address(&device, &kept))?;
        self.calls.push((regularization, kept));
        self.at.sweeps.measure_rows(&device, &self.sweeping, self.at.sweeps.columns.points)?;
        let results = self.complete(regularization)?;
        self.settled = Some(self.calls.len() - 1);
        let mut cross = self.moment(self.at.source, 0, self.at.sweeps.spread, m)?;
        // What completes the plan is e e'ᵀ with the sums Σ e_i s_i and Σ e'_j t_j.
        let (groups, slots) = (self.grouping.groups(), self.grouping.slots());
        let numbers = |at: usize| {
            let found = download(&device, self.at.sums[at], self.dim())?;
            Ok::<_, robust_ot::Error>(
                Array2::from_shape_vec((slots, groups), found).expect("as many numbers"),
            )
        };
        cross += &numbers(0)?.t().dot(&numbers(1)?);
        Ok(CloudAnswer {
            cross,
            entropy: results[ENTROPY],
            dual: results[SOURCE_DUAL] + results[TARGET_DUAL],
            // A thread adds some terms one after the other, then warps and blocks do.
            dual_rounding: ((m.max(n) / COMPLETE_THREADS as usize + 64) as f64)
                * f64::EPSILON
                * results[SIZE],
            unplaced: results[UNPLACED],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_where_the_kernel_puts_them() {
        let text = Source::Transport.text();
        let names = text.split("enum { ").nth(1).and_then(|rest| rest.split(" }").next()).expect("an enum");
        let names: Vec<&str> = names.split(", ").collect();
        assert_eq!(names.len(), RESULTS);
        for (name, at) in [
            ("ENTROPY", ENTROPY),
            ("SOURCE_DUAL", SOURCE_DUAL),
            ("TARGET_DUAL", TARGET_DUAL),
            ("SIZE", SIZE),
            ("UNPLACED", UNPLACED),
        ] {
            assert_eq!(names[at], name);
        }
    }
}
