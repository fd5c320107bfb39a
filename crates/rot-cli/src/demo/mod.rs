//! `rot demo`: what robust transport shows that plain transport and cross-entropy do not, on built-in data.

mod digits;
mod sensors;

use crate::failure::Failure;

/// Runs the distance demo, then the learning demo.
pub fn run() -> Result<(), Failure> {
    sensors::run()?;
    digits::run()
}
