//! Numbers on the device whatever their precision.

use std::fmt;

use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};
use robust_ot::Result;

use crate::device::Device;

/// A precision of [`BatchLoss`](crate::BatchLoss).
pub trait Number: robust_ot::transport::Real + DeviceRepr {}

impl Number for f32 {}
impl Number for f64 {}

/// A buffer on the device, by its address.
pub(crate) struct Held {
    address: u64,
    /// Frees the buffer.
    _memory: Box<dyn Send + Sync>,
}

impl Held {
    /// Copies numbers to the device.
    pub(crate) fn new<T: Number>(device: &Device, what: &str, numbers: &[T]) -> Result<Self> {
        let stream = device.stream();
        let memory: CudaSlice<T> = stream.clone_htod(numbers).map_err(|error| {
            device.out_of_memory(what, size_of_val(numbers), "fewer labels need less", error)
        })?;
        let address = memory.device_ptr(stream).0;
        Ok(Self { address, _memory: Box::new(memory) })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({:#x})", self.address)
    }
}
