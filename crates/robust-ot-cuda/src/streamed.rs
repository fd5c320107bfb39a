//! Entropic transport of many points: costs are computed tile by tile when needed, and nothing of size m × n is stored.
//!
//! In base-2 logarithms, $\gamma_{ij} = 2^{o_i + o_j + z_{ij}}$ with $z = 2 X Y^\top / (\lambda \ln 2)$,
//! $o_i = \log_2 a_i - u_i$ and $o_j = \log_2 b_j - v_j$. A sweep over the rows computes
//! $u_i = \log_2 \sum_j 2^{o_j + z_{ij}}$; one over the columns computes v. Sweeps run on the tensor cores; everything that
//! bounds depend on is measured in double precision.

use std::f64::consts::LN_2;

use cudarc::driver::CudaSlice;
use ndarray::{Array1, Array2};
use robust_ot::Result;
use robust_ot::device::{EntropicAnswer, EntropicOracle, EntropicTask};

use crate::arguments::address;
use crate::device::Device;
use crate::memory::{download, upload};
use crate::sweeps::{Accuracy, Kernels, Stop, Sweeps};
use crate::workspace::Layout;

/// An oracle for [`robust_ot::Problem::solve_with`].
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::SolveOptions;
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
/// use robust_ot_cuda::{Device, Streamed};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
/// let target = Measure::uniform(array![[0.0, 2.0], [1.0, 2.0]])?;
/// let problem = Problem::new(&source, &target, MetricSet::P { k: 1 })?.with_entropy(0.1)?;
/// if let Ok(device) = Device::open(0, None) {
///     let oracle = Box::new(Streamed::new(&device)?);
///     let solution = problem.solve_with(&Settings::default(), SolveOptions { device: Some(oracle), ..Default::default() })?;
///     assert!(solution.lower_bound <= solution.value);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct Streamed {
    device: Device,
    kernels: Kernels,
    /// The buffers of the last solve, kept for the next.
    memory: Option<CudaSlice<u8>>,
    /// g of the last solve.
    last: Option<Array1<f64>>,
}

impl Streamed {
    /// Creates an oracle for problems of any size.
    ///
    /// # Errors
    /// When the kernels do not compile.
    pub fn new(device: &Device) -> Result<Self> {
        let _turn = device.turn();
        let device = device.fork()?;
        let kernels = Kernels::new(&device)?;
        Ok(Self { device, kernels, memory: None, last: None })
    }

    /// Measures the seconds of one sweep over the rows and one over the columns, on the tensor cores: the mean of
    /// `count`, after one that is not timed. Fine sweeps use factors of 22 bits, the others of 11.
    ///
    /// # Errors
    /// When the device fails.
    pub fn time_sweeps(&mut self, task: &EntropicTask<'_>, count: usize, fine: bool) -> Result<f64> {
        let device = self.device.clone();
        let _turn = device.turn();
        let (mut sweeps, _) = self.prepare(task)?;
        let kernels = &self.kernels;
        let accuracy = if fine { Accuracy::Fine } else { Accuracy::Coarse };
        sweeps.start(&device, kernels, None, task.regularization)?;
        let both = || -> Result<()> {
            sweeps.columns(&device, kernels, accuracy)?;
            sweeps.rows(&device, kernels, accuracy)
        };
        let wait = || device.stream().synchronize().map_err(|error| device.failed("a sweep", error));
        both()?;
        wait()?;
        let start = std::time::Instant::now();
        for _ in 0..count {
            both()?;
        }
        wait()?;
        Ok(start.elapsed().as_secs_f64() / count as f64)
    }

    /// Sends a problem to the device; also returns the address of g of the last one, if there is one.
    fn prepare(&mut self, task: &EntropicTask<'_>) -> Result<(Sweeps, Option<u64>)> {
        let device = &self.device;
        let (shape, dim) = ((task.x.nrows(), task.y.nrows()), task.x.ncols());
        let lay_out = |first: u64| {
            let mut layout = Layout::from(first);
            let sweeps = Sweeps::new(device, &mut layout, shape, dim);
            let last = layout.take(shape.1, size_of::<f64>());
            (sweeps, last, layout.bytes())
        };
        let (_, _, bytes) = lay_out(0);
        if self.memory.as_ref().is_none_or(|memory| memory.len() < bytes) {
            self.memory = None;
            let made = device.stream().alloc_zeros(bytes);
            self.memory = Some(made.map_err(|error| {
                device.out_of_memory("the points", bytes, "fewer points or features need less", error)
            })?);
        }
        let (mut sweeps, last, _) = lay_out(self.memory.as_ref().map_or(0, |memory| address(device, memory)));
        for (side, points, norms) in
            [(&sweeps.rows, task.x, task.alpha), (&sweeps.columns, task.y, task.beta)]
        {
            upload(device, side.points, points.as_standard_layout().as_slice().unwrap_or_default())?;
            upload(device, side.norms, &norms.to_vec())?;
        }
        sweeps.set_weights(device, [&task.source_weights.to_vec(), &task.target_weights.to_vec()])?;
        sweeps.survey(device, &self.kernels)?;
        // Potentials of another number of points cannot be reused.
        let kept = self.last.take().filter(|g| g.len() == shape.1);
        let kept = kept.map(|g| upload(device, last, &g.to_vec())).transpose()?.map(|()| last);
        Ok((sweeps, kept))
    }
}

impl EntropicOracle for Streamed {
    fn solve(&mut self, task: &EntropicTask<'_>) -> Result<EntropicAnswer> {
        let device = self.device.clone();
        let _turn = device.turn();
        let (mut sweeps, last) = self.prepare(task)?;
        let EntropicTask { tolerance, max_sweeps, interrupt, .. } = *task;
        let stop = Stop { tolerance, max_sweeps, interrupt };
        sweeps.solve(&device, &self.kernels, task.regularization, last, stop)?;
        sweeps.measure_rows(&device, &self.kernels, sweeps.columns.points)?;
        let (m, n, dim) = (task.x.nrows(), task.y.nrows(), task.x.ncols());
        let numbers = |at: u64, count: usize| download::<f64>(&device, at, count).map(Array1::from_vec);
        let potential = |norms: &Array1<f64>, level: Array1<f64>| norms - &(level * (sweeps.lambda * LN_2));
        let g = potential(task.beta, numbers(sweeps.columns.level, n)?);
        self.last = Some(g.clone());
        let columns = numbers(sweeps.columns.totals, n)?;
        // The measured entropy is that of γ / c with the factors c of the columns.
        let of_factors = columns.iter().zip(task.target_weights).filter(|(sum, b)| sum > b);
        let of_factors: f64 =
            of_factors.map(|(sum, b)| if *b > 0.0 { b * (b / sum).log2() } else { 0.0 }).sum();
        Ok(EntropicAnswer {
            f: potential(task.alpha, numbers(sweeps.rows.level, m)?),
            g,
            columns,
            row_sums: numbers(sweeps.rows.totals, m)?,
            spread: Array2::from_shape_vec((m, dim), download(&device, sweeps.spread, m * dim)?)
                .expect("as many numbers"),
            entropy: LN_2 * (numbers(sweeps.entropies, m)?.sum() + of_factors),
        })
    }
}
