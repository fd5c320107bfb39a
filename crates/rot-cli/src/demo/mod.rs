//! `rot demo`: what robust transport tells that plain transport and cross-entropy do not, on data shipped inside.

mod digits;
mod sensors;

use crate::failure::Failure;

/// Distances first, then learning.
pub fn run() -> Result<(), Failure> {
    sensors::run()?;
    digits::run()
}
