//! Peak rates of an H200, measured on one or derived from its clock.

/// Single-precision products, FLOP/s (cuBLAS, 4096³).
pub const SINGLE: f64 = 51e12;
/// Half-precision products on the tensor cores, FLOP/s (8192³).
pub const HALF: f64 = 788e12;
/// Double-precision multiply-adds, FLOP/s: 64 per clock and multiprocessor.
pub const DOUBLE: f64 = 2.0 * 64.0 * 132.0 * 1.98e9;
/// Bytes per second, read and written.
pub const BYTES: f64 = 4.3e12;
/// Powers of two per second: 16 per clock and multiprocessor.
pub const POWERS: f64 = 16.0 * 132.0 * 1.98e9;
