//! Entropic transport of many points: costs are computed tile by tile when needed, and nothing of size m × n is stored.
//!
//! In base-2 logarithms, $\gamma_{ij} = 2^{o_i + o_j + z_{ij}}$ with $z = 2 X Y^\top / (\lambda \ln 2)$,
//! $o_i = \log_2 a_i - u_i$ and $o_j = \log_2 b_j - v_j$. A sweep over the rows computes
//! $u_i = \log_2 \sum_j 2^{o_j + z_{ij}}$; one over the columns computes v. Sweeps run on the tensor cores; everything that
//! bounds depend on is measured in double precision.

use ndarray::Array1;
use robust_ot::Result;
use robust_ot::device::{EntropicAnswer, EntropicOracle, EntropicTask};

use crate::device::Device;
use crate::sweeps::{Accuracy, Kernels, Solve};

/// The most sweeps of one solve.
const MOST_SWEEPS: usize = 10_000;
/// λ below this fraction of the largest cost is reached in stages.
const LARGE: f64 = 1.0 / 64.0;
/// Each stage divides λ by this factor.
const SCALING: f64 = 4.0;
/// The most sweeps of a stage, and the error at which it ends.
const STAGE: (usize, f64) = (50, 1e-2);

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
        Ok(Self { device, kernels, last: None })
    }

    /// Measures the seconds of one sweep over the rows and one over the columns, on the tensor cores: the mean of
    /// `count`, after one that is not timed. Fine sweeps use factors of 22 bits, the others of 11.
    ///
    /// # Errors
    /// When the device fails.
    pub fn time_sweeps(&self, task: &EntropicTask<'_>, count: usize, fine: bool) -> Result<f64> {
        let _turn = self.device.turn();
        let mut solve = Solve::new(&self.device, &self.kernels, *task)?;
        let accuracy = if fine { Accuracy::Fine } else { Accuracy::Coarse };
        solve.start(None, task.regularization)?;
        let both = |solve: &mut Solve| -> Result<()> {
            solve.columns(accuracy)?;
            solve.rows(accuracy)
        };
        both(&mut solve)?;
        solve.wait()?;
        let start = std::time::Instant::now();
        for _ in 0..count {
            both(&mut solve)?;
        }
        solve.wait()?;
        Ok(start.elapsed().as_secs_f64() / count as f64)
    }
}

impl EntropicOracle for Streamed {
    fn solve(&mut self, task: &EntropicTask<'_>) -> Result<EntropicAnswer> {
        let device = self.device.clone();
        let _turn = device.turn();
        let mut solve = Solve::new(&self.device, &self.kernels, *task)?;
        let largest = {
            let top = |norms: &Array1<f64>| norms.fold(0.0_f64, |top, x| top.max(*x)).sqrt();
            (top(task.alpha) + top(task.beta)).powi(2)
        };
        // Potentials of another number of points cannot be reused.
        self.last = self.last.take().filter(|g| g.len() == task.y.nrows());
        let mut accuracy = Accuracy::Coarse;
        let mut stage = largest / SCALING;
        if self.last.is_none() && task.regularization < LARGE * largest {
            solve.start(None, stage)?;
            while stage > task.regularization {
                solve.iterate(&mut accuracy, STAGE.1, STAGE.0)?;
                let next = (stage / SCALING).max(task.regularization);
                solve.rescale(next)?;
                if next <= task.regularization {
                    break;
                }
                stage = next;
            }
        } else {
            solve.start(self.last.take(), task.regularization)?;
        }
        let mut left = MOST_SWEEPS;
        loop {
            left -= solve.iterate(&mut accuracy, task.tolerance, left)?.min(left);
            // The exact u for this v, and the resulting column sums.
            solve.rows(Accuracy::Double)?;
            solve.columns_apart()?;
            let error = solve.true_error()?;
            let enough = error <= task.tolerance || left == 0 || task.interrupt.is_raised();
            if enough || accuracy == Accuracy::Double {
                break;
            }
            accuracy = if accuracy == Accuracy::Coarse { Accuracy::Fine } else { Accuracy::Double };
        }
        let answer = solve.measure()?;
        self.last = Some(answer.g.clone());
        Ok(answer)
    }
}
