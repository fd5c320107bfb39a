//! How fast an H200 can be at best: rates that were measured on one, or follow from its clock.

/// Single-precision products, FLOP/s (cuBLAS, 4096³).
pub const SINGLE: f64 = 51e12;
/// Products of half precision on the matrix units, FLOP/s (8192³).
pub const HALF: f64 = 788e12;
/// Double-precision multiply-adds, FLOP/s: 64 a clock and multiprocessor.
pub const DOUBLE: f64 = 2.0 * 64.0 * 132.0 * 1.98e9;
/// Bytes a second, read and written.
pub const BYTES: f64 = 4.3e12;
/// Powers of two a second: 16 a clock and multiprocessor.
pub const POWERS: f64 = 16.0 * 132.0 * 1.98e9;
