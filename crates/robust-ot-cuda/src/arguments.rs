//! Kernel arguments, with the memory layout of the kernels.

use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};
use robust_ot::sets::Prior;
use robust_ot::{Error, MetricSet, Result};

use crate::device::Device;

/// The address of a buffer on the device; kernels take 0 for no buffer.
pub(crate) fn address<T>(device: &Device, buffer: &CudaSlice<T>) -> u64 {
    buffer.device_ptr(device.stream()).0
}

/// The true labels of the rows of an epoch; see kernels/batch.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Truth {
    pub(crate) order: u64,
    pub(crate) starts: u64,
    pub(crate) indices: u64,
    pub(crate) lines: u64,
    pub(crate) step: u64,
    pub(crate) batch: u32,
}

/// Soft targets; see kernels/batch.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Soft {
    pub(crate) moved: f32,
    pub(crate) smoothing: f32,
    pub(crate) table: u64,
}

/// A step of the optimizer; see kernels/batch.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Rates {
    pub(crate) rate: f32,
    pub(crate) square: f32,
}

/// A metric set; see kernels/metric.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Set {
    kind: i32,
    k: i32,
    lambda: f64,
    prior: u64,
}

// SAFETY: plain numbers, with the same C layout as in CUDA.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Truth {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Soft {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Rates {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Set {}

/// A metric set with its prior on the device.
#[derive(Debug)]
pub(crate) struct DeviceSet {
    pub(crate) set: Set,
    lambda: f64,
    _prior: Option<CudaSlice<f64>>,
}

impl DeviceSet {
    /// The sets that need no eigenvalues.
    pub(crate) fn new(device: &Device, set: &MetricSet, size: usize) -> Result<Self> {
        if matches!(set, MetricSet::Srw { .. } | MetricSet::Rkp { .. }) {
            let rule = "w2, p, p-power, kl, ds or features on a CUDA device (others run on the cpu)";
            return Err(Error::parameter("metric", rule, set.name()));
        }
        Self::with_spectral(device, set, size)
    }

    /// All sets.
    pub(crate) fn with_spectral(device: &Device, set: &MetricSet, size: usize) -> Result<Self> {
        let (kind, k, lambda, prior) = match set {
            MetricSet::W2 => (0, 0, 1.0, None),
            MetricSet::P { k } => (1, *k as i32, 1.0, None),
            MetricSet::PPower { k } => (2, *k as i32, 1.0, None),
            MetricSet::Kl { lambda, prior } => (3, 0, *lambda, Some(prior)),
            MetricSet::Ds { lambda, prior } => (4, 0, *lambda, Some(prior)),
            MetricSet::Features { lambda } => (5, 0, *lambda, None),
            MetricSet::Srw { k } => (6, *k as i32, 1.0, None),
            MetricSet::Rkp { rho } => (7, 0, *rho, None),
            _ => {
                let rule = "one of those known to this version on a CUDA device";
                return Err(Error::parameter("metric", rule, set.name()));
            }
        };
        let entry = |prior: &Prior, a: usize, b: usize| match prior {
            Prior::Eye => f64::from(u8::from(a == b)),
            Prior::Ones => 1.0,
            Prior::Matrix(matrix) => matrix[[a, b]],
        };
        let prior = prior
            .map(|prior| {
                let numbers: Vec<f64> =
                    (0..size * size).map(|at| entry(prior, at / size, at % size)).collect();
                device.stream().clone_htod(&numbers).map_err(|error| device.failed("the prior", error))
            })
            .transpose()?;
        let at = prior.as_ref().map_or(0, |prior| address(device, prior));
        Ok(Self { set: Set { kind, k, lambda, prior: at }, lambda, _prior: prior })
    }

    pub(crate) fn lambda(&self) -> f64 {
        self.lambda
    }
}

/// The fault number of a run without faults. A fault packs step, code and value, and the smallest wins; see
/// kernels/metric.cu.
pub(crate) const NO_FAULT: u64 = u64::MAX;

/// Converts a fault to an error of the library.
pub(crate) fn fault(found: u64, set: Option<&DeviceSet>, epoch: usize) -> Result<()> {
    if found == NO_FAULT {
        return Ok(());
    }
    let (step, code, value) = ((found >> 40) as usize, (found >> 32) & 0xff, f32::from_bits(!(found as u32)));
    let (value, lambda) = (f64::from(value), set.map_or(1.0, DeviceSet::lambda));
    let diverged = |what| Error::Diverged { what, value, epoch, batch: step + 1 };
    Err(match code {
        1 => diverged("a logit"),
        2 => Error::Overflow { lambda, largest: value, safe: value / 600.0 },
        3 => Error::Scaling { lambda, residual: value },
        5 => diverged("a weight"),
        6 => Error::Range { set: "p-power", largest: value },
        _ => diverged("the loss"),
    })
}
