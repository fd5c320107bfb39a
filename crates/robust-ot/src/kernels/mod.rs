//! Element-wise kernels on slices, compiled for several instruction sets and selected at run time.

mod real;
#[expect(clippy::inline_always, reason = "they must be compiled for the instruction set of their caller")]
mod scalar;
mod slices;
#[cfg(test)]
#[expect(clippy::float_cmp, reason = "special values and small integers are exact")]
mod tests;

pub use self::real::Real;
pub(crate) use self::real::sealed;
pub(crate) use self::slices::{
    MINIMA_BLOCK, block_minima, lower_to_differences, lower_with_places, scale_and_add, smallest_difference,
    two_smallest_differences,
};
