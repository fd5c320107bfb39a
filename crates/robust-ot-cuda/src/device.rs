//! A GPU: opened by its index, with compiled kernels and a stream.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::cublas::CudaBlas;
use cudarc::driver::{self, CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, sys};
use cudarc::nvrtc::Ptx;
use robust_ot::{Error, Result};

use crate::blas::{Blas, Precision};
use crate::compile::{self, Source};

/// The minimum CUDA version that the driver must support.
const OLDEST_DRIVER: i32 = 12_000;
/// The oldest compute capability whose tensor cores support the half-precision products used here.
const OLDEST_CAPABILITY: (i32, i32) = (8, 0);

/// A CUDA device.
///
/// ```
/// use robust_ot_cuda::Device;
/// match Device::open(0, None) {
///     Ok(device) => println!("{device}"),
///     Err(error) => println!("no GPU: {error}"), // names what is missing
/// }
/// ```
#[derive(Clone)]
pub struct Device {
    gpu: Arc<Gpu>,
    /// The stream that runs this handle's work, in order.
    stream: Arc<CudaStream>,
}

/// The GPUs of this process. Each is opened once and stays open, so that its kernels are compiled once and all threads share
/// one lock.
static GPUS: Mutex<Vec<Arc<Gpu>>> = Mutex::new(Vec::new());

struct Gpu {
    /// The process that opened the GPU: a forked process cannot use what its parent has opened.
    process: u32,
    index: usize,
    name: String,
    capability: (i32, i32),
    context: Arc<CudaContext>,
    cache: Option<PathBuf>,
    modules: [OnceLock<Arc<CudaModule>>; Source::COUNT],
    /// Held while a thread compiles, so that only one does.
    compiling: Mutex<()>,
    /// The lock of [`Device::turn`].
    turn: Mutex<()>,
    /// Unused cuBLAS handles, kept because destroying one waits for the whole GPU, which would break a graph that another
    /// thread captures.
    handles: Mutex<Vec<CudaBlas>>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.gpu.index, self.gpu.name)
    }
}

impl Device {
    /// The number of GPUs; 0 without a driver.
    pub fn count() -> usize {
        // SAFETY: only looks for the library; nothing is called.
        #[allow(unsafe_code)]
        let present = unsafe { sys::is_culib_present() };
        if present { CudaContext::device_count().map_or(0, |count| count.max(0) as usize) } else { 0 }
    }

    /// Opens the GPU with this index, or reuses it if it is already open. Compiled kernels are kept in the folder, if one
    /// is given.
    ///
    /// # Errors
    /// When there is no driver, the driver or the GPU is too old, or there is no such GPU.
    pub fn open(index: usize, cache: Option<&Path>) -> Result<Self> {
        let refuse = |problem: String| Err(Error::Device { device: format!("cuda:{index}"), problem });
        // SAFETY: as in `count`.
        #[allow(unsafe_code)]
        if !unsafe { sys::is_culib_present() } {
            return refuse("an NVIDIA driver must be installed, but libcuda cannot be loaded".into());
        }
        let mut version = 0;
        // SAFETY: writes one integer; the function is in every driver and needs no context.
        #[allow(unsafe_code)]
        let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) };
        if asked == sys::CUresult::CUDA_SUCCESS && version < OLDEST_DRIVER {
            let (wanted, found) = (version_name(OLDEST_DRIVER), version_name(version));
            return refuse(format!("the driver must support CUDA {wanted} or later, but supports {found}"));
        }
        if let Err(error) = driver::result::init() {
            return refuse(format!("the driver failed to start: {}", describe(error)));
        }
        let count = Self::count();
        if index >= count {
            return refuse(format!("the index of a GPU must be below {count}, the number of GPUs"));
        }
        let process = std::process::id();
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = gpus.iter().find(|gpu| (gpu.process, gpu.index) == (process, index)) {
            let stream = gpu.context.new_stream();
            return stream.map_or_else(
                |error| refuse(describe(error)),
                |stream| Ok(Self { gpu: gpu.clone(), stream }),
            );
        }
        let open = || -> std::result::Result<Self, DriverError> {
            let context = CudaContext::new(index)?;
            // SAFETY: all work of a device is on its one stream, or explicitly ordered with it, so buffers need no events.
            #[allow(unsafe_code)]
            unsafe {
                context.disable_event_tracking();
            }
            let stream = context.new_stream()?;
            let gpu = Gpu {
                process,
                index,
                name: context.name()?,
                capability: context.compute_capability()?,
                context,
                cache: cache.map(Path::to_path_buf),
                modules: std::array::from_fn(|_| OnceLock::new()),
                compiling: Mutex::new(()),
                turn: Mutex::new(()),
                handles: Mutex::new(Vec::new()),
            };
            Ok(Self { gpu: Arc::new(gpu), stream })
        };
        let device = match open() {
            Ok(device) => device,
            Err(error) => return refuse(describe(error)),
        };
        if device.gpu.capability < OLDEST_CAPABILITY {
            let (major, minor) = device.gpu.capability;
            return refuse(format!(
                "the GPU must have compute capability {}.{} or more, but {} has {major}.{minor}",
                OLDEST_CAPABILITY.0, OLDEST_CAPABILITY.1, device.gpu.name
            ));
        }
        gpus.push(device.gpu.clone());
        Ok(device)
    }

    /// Locks the GPU for this thread: much of CUDA (memory, modules, cuBLAS) may not be used while another thread
    /// captures a graph.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.gpu.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unused cuBLAS handles, to take from and return to.
    pub(crate) fn handles(&self) -> MutexGuard<'_, Vec<CudaBlas>> {
        self.gpu.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another handle to the same GPU, with its own stream.
    ///
    /// # Errors
    /// When the GPU does not respond.
    pub fn fork(&self) -> Result<Self> {
        let stream = self.gpu.context.new_stream().map_err(|error| self.failed("a stream", error))?;
        Ok(Self { gpu: self.gpu.clone(), stream })
    }

    /// This GPU with a stream of another library, which must outlive the handle.
    ///
    /// # Safety
    /// The stream must belong to this GPU.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn on_stream(&self, stream: u64) -> Self {
        // SAFETY: the caller guarantees that the stream belongs to this GPU and outlives its use.
        let stream = unsafe { self.gpu.context.wrap_borrowed_stream(stream as *mut _) };
        Self { gpu: self.gpu.clone(), stream }
    }

    /// Checks that everything needed for computing is available: kernels, compiled if necessary, and cuBLAS.
    ///
    /// # Errors
    /// Names what is missing.
    pub fn check(&self) -> Result<()> {
        let _turn = self.turn();
        for (source, kernel) in [
            (Source::Learning, "next_step"),
            (Source::Transport, "join_sweep"),
            (Source::Pairs, "solve_pairs"),
        ] {
            self.kernel(source, kernel)?;
        }
        Blas::new(self, Precision::F32).map(|_| ())
    }

    /// The index of the GPU.
    pub fn index(&self) -> usize {
        self.gpu.index
    }

    /// The name of the GPU.
    pub fn name(&self) -> &str {
        &self.gpu.name
    }

    /// Bytes of its memory: free, and in total.
    ///
    /// # Errors
    /// When the GPU does not respond.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.gpu.context.mem_get_info().map_err(|error| self.failed("memory", error))
    }

    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.gpu.context
    }

    /// Number of multiprocessors.
    pub(crate) fn processors(&self) -> usize {
        let count = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        self.gpu.context.attribute(count).map_or(1, |count| count.max(1) as usize)
    }

    /// The most bytes of shared memory that a block may request.
    pub(crate) fn shared_memory(&self) -> usize {
        let most = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.gpu.context.attribute(most).map_or(48 << 10, |most| most.max(0) as usize)
    }

    /// Loads a kernel, compiling its source on first use.
    pub(crate) fn kernel(&self, source: Source, name: &str) -> Result<CudaFunction> {
        let Gpu { modules, compiling, context, cache, capability, .. } = &*self.gpu;
        let slot = &modules[source as usize];
        let module = if let Some(module) = slot.get() {
            module
        } else {
            let _one = compiling.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.get().is_none() {
                let binary = compile::binary(source, *capability, cache.as_deref())
                    .map_err(|problem| self.refusal(problem))?;
                let module = context
                    .load_module(Ptx::from_binary(binary))
                    .map_err(|error| self.failed("loading kernels", error))?;
                let _ = slot.set(module);
            }
            slot.get().expect("just set")
        };
        module.load_function(name).map_err(|error| self.failed(name, error))
    }

    /// A driver error, with what it concerns.
    pub(crate) fn failed(&self, what: &str, error: DriverError) -> Error {
        self.refusal(format!("{what}: {}", describe(error)))
    }

    pub(crate) fn refusal(&self, problem: impl Into<String>) -> Error {
        Error::Device { device: format!("cuda:{}", self.gpu.index), problem: problem.into() }
    }

    /// An out-of-memory error, with what was needed and what would need less; any other error as it is.
    pub(crate) fn out_of_memory(&self, what: &str, bytes: usize, cure: &str, error: DriverError) -> Error {
        if error.0 != sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return self.failed(what, error);
        }
        let gigabytes = |bytes: usize| bytes as f64 / 1e9;
        let (free, all) = self.memory().unwrap_or_default();
        self.refusal(format!(
            "{what}: {:.2} GB are needed, but {:.2} of {:.2} GB are free; {cure}",
            gigabytes(bytes),
            gigabytes(free),
            gigabytes(all)
        ))
    }
}

fn version_name(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn describe(error: DriverError) -> String {
    let text = error.error_string().ok().and_then(|text| text.to_str().ok()).unwrap_or("unknown error");
    let name = error.error_name().ok().and_then(|name| name.to_str().ok()).unwrap_or("?");
    format!("{text} ({name})")
}
