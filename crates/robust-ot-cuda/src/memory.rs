//! Copies between the host and addresses on the device.

use cudarc::driver::{DeviceRepr, result};
use robust_ot::Result;

use crate::device::Device;

/// Copies numbers to the device, where there must be room for them.
pub(crate) fn upload<T: DeviceRepr>(device: &Device, to: u64, numbers: &[T]) -> Result<()> {
    let stream = device.stream();
    let copy = || {
        stream.context().bind_to_thread()?;
        // SAFETY: callers pass addresses of buffers of a layout that has this many numbers of room. The driver has read the
        // slice, which is pageable memory, when it returns.
        #[allow(unsafe_code)]
        unsafe {
            result::memcpy_htod_async(to, numbers, stream.cu_stream())
        }
    };
    copy().map_err(|error| device.failed("sending numbers", error))
}

/// Copies so many numbers from the device, after all work on its stream.
pub(crate) fn download<T: DeviceRepr + Clone + Default>(
    device: &Device,
    from: u64,
    count: usize,
) -> Result<Vec<T>> {
    let stream = device.stream();
    let mut numbers = vec![T::default(); count];
    let copy = |numbers: &mut [T]| {
        stream.context().bind_to_thread()?;
        // SAFETY: callers pass addresses of buffers of a layout that hold this many numbers. The slice outlives the copy, which
        // has ended when the stream is synchronized.
        #[allow(unsafe_code)]
        unsafe { result::memcpy_dtoh_async(numbers, from, stream.cu_stream()) }?;
        stream.synchronize()
    };
    copy(&mut numbers).map_err(|error| device.failed("reading back", error))?;
    Ok(numbers)
}

/// Sets bytes to zero.
pub(crate) fn clear(device: &Device, at: u64, bytes: usize) -> Result<()> {
    let stream = device.stream();
    let set = || {
        stream.context().bind_to_thread()?;
        // SAFETY: callers pass addresses of buffers of a layout that are this long.
        #[allow(unsafe_code)]
        unsafe {
            result::memset_d8_async(at, 0, bytes, stream.cu_stream())
        }
    };
    set().map_err(|error| device.failed("clearing memory", error))
}
