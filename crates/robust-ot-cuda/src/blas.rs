//! Matrix products by cuBLAS, row-major and in single precision.

use std::str::FromStr;
use std::sync::Arc;

use cudarc::cublas::{CudaBlas, result::CublasError, sys};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use robust_ot::{Error, Result};

use crate::device::Device;

/// Bytes of cuBLAS workspace, allocated once so that graphs can be captured and results do not change from run to run.
const WORKSPACE_BYTES: usize = 32 << 20;

/// How accurately single-precision products are computed.
///
/// ```
/// assert_eq!(robust_ot_cuda::Precision::default(), robust_ot_cuda::Precision::F32);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Full single precision.
    #[default]
    F32,
    /// On the tensor cores, with factors rounded to 11 bits: faster, with relative errors near 5e-4.
    Tf32,
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(Self::F32),
            "tf32" => Ok(Self::Tf32),
            other => Err(Error::parameter("precision", "f32 or tf32", other)),
        }
    }
}

/// Products on the stream of one device.
pub(crate) struct Blas {
    /// `Some` until it is returned to the device.
    handle: Option<CudaBlas>,
    device: Device,
    /// Kept alive while cuBLAS holds its address.
    _room: CudaSlice<u8>,
}

/// A row-major matrix in device memory.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Whether its transpose is used.
    pub(crate) transposed: bool,
}

impl Matrix {
    pub(crate) fn new(address: u64, rows: usize, columns: usize) -> Self {
        Self { address, rows, columns, transposed: false }
    }

    pub(crate) fn t(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    fn shape(self) -> (usize, usize) {
        if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    fn operation(self) -> sys::cublasOperation_t {
        if self.transposed {
            sys::cublasOperation_t::CUBLAS_OP_T
        } else {
            sys::cublasOperation_t::CUBLAS_OP_N
        }
    }
}

impl std::fmt::Debug for Blas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blas").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Blas {
    pub(crate) fn new(device: &Device, precision: Precision) -> Result<Self> {
        Self::on(device, device.stream(), precision)
    }

    /// As [`Blas::new`], on another stream of the same device.
    #[allow(unsafe_code)]
    pub(crate) fn on(device: &Device, stream: &Arc<CudaStream>, precision: Precision) -> Result<Self> {
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(device.refusal(
                "cuBLAS must be installed, but libcublas cannot be loaded; it is part of the CUDA toolkit and of the Python \
                 package nvidia-cublas",
            ));
        }
        let workspace = stream
            .alloc_zeros::<u8>(WORKSPACE_BYTES)
            .map_err(|error| device.failed("the cuBLAS workspace", error))?;
        let unused = device.handles().pop();
        let blas = match unused {
            None => CudaBlas::new(stream.clone()).map_err(|error| refusal(device, error))?,
            Some(mut blas) => {
                // SAFETY: nothing else uses the handle, and the stream belongs to its GPU.
                unsafe { blas.set_stream(stream.clone()) }.map_err(|error| refusal(device, error))?;
                blas
            }
        };
        let address = workspace.device_ptr(stream).0;
        // SAFETY: the handle is alive, and the workspace lives as long as it does.
        unsafe {
            let set = sys::cublasSetWorkspace_v2(*blas.handle(), address as *mut _, WORKSPACE_BYTES);
            set.result().map_err(|error| refusal(device, error))?;
        }
        let found = Self { handle: Some(blas), device: device.clone(), _room: workspace };
        found.set_precision(precision)?;
        Ok(found)
    }

    fn raw(&self) -> sys::cublasHandle_t {
        self.handle.as_ref().map_or(std::ptr::null_mut(), |handle| *handle.handle())
    }

    #[allow(unsafe_code)]
    pub(crate) fn set_precision(&self, precision: Precision) -> Result<()> {
        let mode = match precision {
            Precision::F32 => sys::cublasMath_t::CUBLAS_DEFAULT_MATH,
            Precision::Tf32 => sys::cublasMath_t::CUBLAS_TF32_TENSOR_OP_MATH,
        };
        // SAFETY: the handle is alive.
        unsafe { sys::cublasSetMathMode(self.raw(), mode).result() }
            .map_err(|error| refusal(&self.device, error))
    }

    /// out = A B.
    #[allow(unsafe_code)]
    pub(crate) fn product(&self, out: Matrix, a: Matrix, b: Matrix) -> Result<()> {
        let ((m, k), (also_k, n)) = (a.shape(), b.shape());
        assert!(
            k == also_k && (out.rows, out.columns) == (m, n) && !out.transposed,
            "the shapes of a product must match"
        );
        let (one, zero) = (1.0_f32, 0.0_f32);
        // cuBLAS is column-major, so it computes outᵀ = Bᵀ Aᵀ.
        // SAFETY: the addresses are those of buffers at least as large as their shapes, and the handle is alive.
        unsafe {
            sys::cublasSgemm_v2(
                self.raw(),
                b.operation(),
                a.operation(),
                n as i32,
                m as i32,
                k as i32,
                &raw const one,
                b.address as *const f32,
                b.columns as i32,
                a.address as *const f32,
                a.columns as i32,
                &raw const zero,
                out.address as *mut f32,
                out.columns as i32,
            )
            .result()
        }
        .map_err(|error| refusal(&self.device, error))
    }
}

fn refusal(device: &Device, error: CublasError) -> Error {
    device.refusal(format!("cuBLAS: {error:?}"))
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.device.handles().extend(self.handle.take());
    }
}
