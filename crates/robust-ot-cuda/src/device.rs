//! One card: opened by its number, with its kernels compiled and a stream to work on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::cublas::CudaBlas;
use cudarc::driver::{self, CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, sys};
use cudarc::nvrtc::Ptx;
use robust_ot::{Error, Result};

use crate::blas::{Blas, Precision};
use crate::compile::{self, Source};

/// The oldest CUDA that the driver may stand for.
const OLDEST_DRIVER: i32 = 12_000;
/// The oldest card whose matrix units know the products of half precision that are used here.
const OLDEST_CARD: (i32, i32) = (8, 0);

/// A CUDA device.
///
/// ```
/// use robust_ot_cuda::Device;
/// match Device::open(0, None) {
///     Ok(device) => println!("{device}"),
///     Err(error) => println!("no card: {error}"), // says what is missing
/// }
/// ```
#[derive(Clone)]
pub struct Device {
    card: Arc<Card>,
    /// What this handle's work is put on, in order.
    stream: Arc<CudaStream>,
}

/// The cards of this process, each opened once and for good: its kernels are compiled, and whose turn it is is one matter.
static CARDS: Mutex<Vec<Arc<Card>>> = Mutex::new(Vec::new());

struct Card {
    /// A forked process cannot use what its parent has opened.
    process: u32,
    index: usize,
    name: String,
    capability: (i32, i32),
    context: Arc<CudaContext>,
    cache: Option<PathBuf>,
    modules: [OnceLock<Arc<CudaModule>>; Source::COUNT],
    /// Only one thread compiles.
    compiling: Mutex<()>,
    /// Whose turn it is; see [`Device::turn`].
    turn: Mutex<()>,
    /// Handles of cuBLAS that nobody uses: to destroy one waits for the whole card, which would spoil what another thread captures.
    handles: Mutex<Vec<CudaBlas>>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.card.index, self.card.name)
    }
}

impl Device {
    /// How many cards there are; none where there is no driver.
    pub fn count() -> usize {
        // SAFETY: looks for the library and leaves it; nothing is called.
        #[allow(unsafe_code)]
        let present = unsafe { sys::is_culib_present() };
        if present { CudaContext::device_count().map_or(0, |count| count.max(0) as usize) } else { 0 }
    }

    /// Opens the card of this number, or takes the one that is open. Kernels that it compiles are kept in the folder, if one is given.
    ///
    /// # Errors
    /// When there is no driver, it is too old, or there is no such card.
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
            return refuse(format!(
                "the driver must be one of CUDA {wanted} or later, but is one of {found}"
            ));
        }
        if let Err(error) = driver::result::init() {
            return refuse(format!("the driver does not start: {}", describe(error)));
        }
        let count = Self::count();
        if index >= count {
            return refuse(format!("the number of a card must be below {count}, the cards there are"));
        }
        let process = std::process::id();
        let mut cards = CARDS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(card) = cards.iter().find(|card| (card.process, card.index) == (process, index)) {
            let stream = card.context.new_stream();
            return stream.map_or_else(
                |error| refuse(describe(error)),
                |stream| Ok(Self { card: card.clone(), stream }),
            );
        }
        let open = || -> std::result::Result<Self, DriverError> {
            let context = CudaContext::new(index)?;
            // SAFETY: all work of a device is on its one stream, or ordered with it by hand, so that no event is needed between buffers.
            #[allow(unsafe_code)]
            unsafe {
                context.disable_event_tracking();
            }
            let stream = context.new_stream()?;
            let card = Card {
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
            Ok(Self { card: Arc::new(card), stream })
        };
        let device = match open() {
            Ok(device) => device,
            Err(error) => return refuse(describe(error)),
        };
        if device.card.capability < OLDEST_CARD {
            let (major, minor) = device.card.capability;
            return refuse(format!(
                "the card must have compute capability {}.{} or more, but {} has {major}.{minor}",
                OLDEST_CARD.0, OLDEST_CARD.1, device.card.name
            ));
        }
        cards.push(device.card.clone());
        Ok(device)
    }

    /// Threads share a card by turns: much of CUDA (memory, modules, cuBLAS) may not be used while another thread captures a graph.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.card.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles of cuBLAS to take from and to give back to.
    pub(crate) fn handles(&self) -> MutexGuard<'_, Vec<CudaBlas>> {
        self.card.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another handle of the same card, whose work is put on a stream of its own.
    ///
    /// # Errors
    /// When the card does not answer.
    pub fn fork(&self) -> Result<Self> {
        let stream = self.card.context.new_stream().map_err(|error| self.failed("a stream", error))?;
        Ok(Self { card: self.card.clone(), stream })
    }

    /// Finds out whether everything is there that computing needs: kernels, compiled if they must be, and cuBLAS.
    ///
    /// # Errors
    /// With what is missing.
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

    /// The number of the card.
    pub fn index(&self) -> usize {
        self.card.index
    }

    /// What the card is called.
    pub fn name(&self) -> &str {
        &self.card.name
    }

    /// Bytes of its memory that are free, and all there are.
    ///
    /// # Errors
    /// When the card does not answer.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.card.context.mem_get_info().map_err(|error| self.failed("memory", error))
    }

    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.card.context
    }

    /// Multiprocessors.
    pub(crate) fn processors(&self) -> usize {
        let count = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        self.card.context.attribute(count).map_or(1, |count| count.max(1) as usize)
    }

    /// Bytes of shared memory that a block may have, if it asks.
    pub(crate) fn shared_memory(&self) -> usize {
        let most = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        self.card.context.attribute(most).map_or(48 << 10, |most| most.max(0) as usize)
    }

    /// A kernel, compiled if it is the first of its source.
    pub(crate) fn kernel(&self, source: Source, name: &str) -> Result<CudaFunction> {
        let Card { modules, compiling, context, cache, capability, .. } = &*self.card;
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

    /// An error of the driver while something was done.
    pub(crate) fn failed(&self, what: &str, error: DriverError) -> Error {
        self.refusal(format!("{what}: {}", describe(error)))
    }

    pub(crate) fn refusal(&self, problem: impl Into<String>) -> Error {
        Error::Device { device: format!("cuda:{}", self.card.index), problem: problem.into() }
    }

    /// Out of memory, with what was needed and what would need less; any other error as it is.
    pub(crate) fn no_room(&self, what: &str, bytes: usize, cure: &str, error: DriverError) -> Error {
        if error.0 != sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return self.failed(what, error);
        }
        let gigabytes = |bytes: usize| bytes as f64 / 1e9;
        let (free, all) = self.memory().unwrap_or_default();
        self.refusal(format!(
            "{what} needs {:.2} GB, but {:.2} of {:.2} GB are free; {cure}",
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
