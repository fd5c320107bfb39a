//! The number types of costs.

use std::fmt::Debug;

use super::slices::{double, single};

/// A number type for costs and plans: `f64`, or `f32` for half the memory and about twice the speed. Potentials and sums
/// are `f64` in both cases. The trait is sealed: there are no other implementations.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot::transport::Sinkhorn;
///
/// let mut sinkhorn = Sinkhorn::new(&[0.5, 0.5], &[0.5, 0.5], 0.1)?;
/// let costs = array![[0.0_f32, 1.0], [1.0, 0.0]];
/// let report = sinkhorn.solve(&costs, 1e-6, 1000, &Interrupt::default())?;
/// assert!(report.converged);
/// # Ok::<(), robust_ot::Error>(())
/// ```
pub trait Real:
    sealed::Kernels
    + Copy
    + Debug
    + Default
    + Send
    + Sync
    + PartialOrd
    + Into<f64>
    + faer::traits::ComplexField
    + 'static
{
    /// The name of the type in messages.
    const NAME: &'static str;
    /// The distance from 1 to the next number.
    const EPSILON: f64;

    /// Rounds to the nearest number of this type.
    fn nearest(x: f64) -> Self;
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const EPSILON: f64 = f64::EPSILON;

    fn nearest(x: f64) -> Self {
        x
    }
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const EPSILON: f64 = f32::EPSILON as f64;

    fn nearest(x: f64) -> Self {
        x as f32
    }
}

pub(crate) mod sealed {
    /// The loops over slices of one number type.
    pub trait Kernels: Sized {
        /// x_j ← s_j − c_j · inverse; returns the maximum.
        fn exponents(x: &mut [Self], s: &[Self], c: &[Self], inverse: Self) -> Self;
        /// x_j ← e^{x_j − shift}; returns the sum.
        fn exp_shifted(x: &mut [Self], shift: Self) -> f64;
        /// x_j ← e^{s_j − c_j · inverse − shift}; returns the sum.
        fn exp_exponents(x: &mut [Self], s: &[Self], c: &[Self], inverse: Self, shift: Self) -> f64;
        /// Softmax over the rows q of g_q − c_qp · inverse, for every column p, and its logarithm. `workspace` is a workspace
        /// of two numbers per column.
        fn softmax_columns(
            shares: &mut [Self],
            logs: &mut [Self],
            c: &[Self],
            g: &[Self],
            inverse: Self,
            workspace: (&mut [Self], &mut [Self]),
        );
        /// y_j ← y_j x_j.
        fn multiply(y: &mut [Self], x: &[Self]);
        /// c_j ← α + β_j − 2 c_j.
        fn complete_costs(c: &mut [Self], alpha: Self, beta: &[Self]);
        /// The smallest and the largest; NaN if any number is not finite.
        fn extremes(x: &[Self]) -> (f64, f64);
        /// y_j ← x_j · scale in single precision; numbers below its range become 0.
        fn hold_single(y: &mut [f32], x: &[Self], scale: f64);
        /// y_j ← x_j · scale in double precision.
        fn hold_double(y: &mut [f64], x: &[Self], scale: f64);
        /// Σ x_j y_j.
        fn dot(x: &[Self], y: &[Self]) -> f64;
        /// Σ x_j.
        fn total(x: &[Self]) -> f64;
        /// y_j ← y_j + a.
        fn add_constant(y: &mut [Self], a: Self);
        /// y ← y + a x, all in one precision.
        fn add_own(y: &mut [Self], a: Self, x: &[Self]);
        /// y ← y + a x.
        fn add_scaled(y: &mut [f64], a: f64, x: &[Self]);
        /// Σ x_j ln x_j for x ≥ 0.
        fn entropy(x: &[Self]) -> f64;
        /// The same numbers, if they are in double precision.
        fn doubles(x: &[Self]) -> Option<&[f64]>;
    }
}

macro_rules! kernels {
    ($real:ty, $module:ident, $doubles:expr) => {
        impl sealed::Kernels for $real {
            fn exponents(x: &mut [Self], s: &[Self], c: &[Self], inverse: Self) -> Self {
                $module::exponents(x, s, c, inverse)
            }

            fn exp_shifted(x: &mut [Self], shift: Self) -> f64 {
                $module::exp_shifted(x, shift)
            }

            fn exp_exponents(x: &mut [Self], s: &[Self], c: &[Self], inverse: Self, shift: Self) -> f64 {
                $module::exp_exponents(x, s, c, inverse, shift)
            }

            fn softmax_columns(
                shares: &mut [Self],
                logs: &mut [Self],
                c: &[Self],
                g: &[Self],
                inverse: Self,
                (top, sum): (&mut [Self], &mut [Self]),
            ) {
                $module::softmax_columns(shares, logs, c, g, inverse, top, sum);
            }

            fn multiply(y: &mut [Self], x: &[Self]) {
                $module::multiply(y, x);
            }

            fn complete_costs(c: &mut [Self], alpha: Self, beta: &[Self]) {
                $module::complete_costs(c, alpha, beta);
            }

            fn extremes(x: &[Self]) -> (f64, f64) {
                $module::extremes(x)
            }

            fn hold_single(y: &mut [f32], x: &[Self], scale: f64) {
                $module::hold_single(y, x, scale as $real);
            }

            fn hold_double(y: &mut [f64], x: &[Self], scale: f64) {
                $module::hold_double(y, x, scale);
            }

            fn dot(x: &[Self], y: &[Self]) -> f64 {
                $module::dot(x, y)
            }

            fn total(x: &[Self]) -> f64 {
                $module::total(x)
            }

            fn add_constant(y: &mut [Self], a: Self) {
                $module::add_constant(y, a);
            }

            fn add_own(y: &mut [Self], a: Self, x: &[Self]) {
                $module::add_own(y, a, x);
            }

            fn add_scaled(y: &mut [f64], a: f64, x: &[Self]) {
                $module::add_scaled(y, a, x);
            }

            fn entropy(x: &[Self]) -> f64 {
                $module::entropy(x)
            }

            fn doubles(x: &[Self]) -> Option<&[f64]> {
                $doubles(x)
            }
        }
    };
}

kernels!(f64, double, Some);
kernels!(f32, single, |_| None);
