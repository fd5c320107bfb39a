//! Entropic transport of many points: costs are formed tile by tile when they are needed, and nothing of size m × n is stored.
//!
//! In base-2 logarithms, $\gamma_{ij} = 2^{o_i + o_j + z_{ij}}$ with $z = 2 X Y^\top / (\lambda \ln 2)$, $o_i = \log_2 a_i - u_i$ and
//! $o_j = \log_2 b_j - v_j$. A sweep over the rows makes $u_i = \log_2 \sum_j 2^{o_j + z_{ij}}$, one over the columns v. Sweeps run on the
//! matrix units; whatever bounds rest on is measured in double precision.

use ndarray::Array1;
use robust_ot::{EntropicAnswer, EntropicOracle, EntropicTask, Result};

use crate::device::Device;
use crate::sweeps::{Accuracy, Kernels, Solve};

/// The most sweeps of one solve.
const MOST_SWEEPS: usize = 10_000;
/// λ below this part of the largest cost is reached in stages, each a quarter of the one before,
const LARGE: f64 = 1.0 / 64.0;
const SCALING: f64 = 4.0;
/// of so many sweeps at most, each left at this error.
const STAGE: (usize, f64) = (50, 1e-2);

/// An oracle for [`robust_ot::Problem::solve_on`].
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Interrupt, Measure, MetricSet, Problem, Settings};
/// use robust_ot_cuda::{Device, Streamed};
///
/// let source = Measure::uniform(array![[0.0, 0.0], [1.0, 0.0]])?;
/// let target = Measure::uniform(array![[0.0, 2.0], [1.0, 2.0]])?;
/// let problem = Problem::new(&source, &target, MetricSet::P { k: 1 })?.with_entropy(0.1)?;
/// if let Ok(device) = Device::open(0, None) {
///     let oracle = Box::new(Streamed::new(&device)?);
///     let solution = problem.solve_on(oracle, &Settings::default(), &Interrupt::default())?;
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
    /// For problems of any size.
    ///
    /// # Errors
    /// When the kernels do not compile.
    pub fn new(device: &Device) -> Result<Self> {
        let _turn = device.turn();
        let device = device.fork()?;
        let kernels = Kernels::new(&device)?;
        Ok(Self { device, kernels, last: None })
    }

    /// Seconds of one sweep over the rows and one over the columns, on the matrix units; the mean of `count` after one that is not
    /// timed. Fine sweeps have factors of 22 bits, the others of 11.
    ///
    /// # Errors
    /// When the device fails.
    pub fn time_sweeps(&self, task: &EntropicTask<'_>, count: usize, fine: bool) -> Result<f64> {
        let _turn = self.device.turn();
        let mut solve = Solve::new(&self.device, &self.kernels, *task)?;
        let accuracy = if fine { Accuracy::Fine } else { Accuracy::Coarse };
        solve.start(None, task.regularisation)?;
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
        // Potentials of other points are none.
        self.last = self.last.take().filter(|g| g.len() == task.y.nrows());
        let mut accuracy = Accuracy::Coarse;
        let mut stage = largest / SCALING;
        if self.last.is_none() && task.regularisation < LARGE * largest {
            solve.start(None, stage)?;
            while stage > task.regularisation {
                solve.iterate(&mut accuracy, STAGE.1, STAGE.0)?;
                let next = (stage / SCALING).max(task.regularisation);
                solve.rescale(next)?;
                if next <= task.regularisation {
                    break;
                }
                stage = next;
            }
        } else {
            solve.start(self.last.take(), task.regularisation)?;
        }
        let mut left = MOST_SWEEPS;
        loop {
            left -= solve.iterate(&mut accuracy, task.tolerance, left)?.min(left);
            // Exact u for this v, and the column sums that they give.
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
