//! Compilation of kernels by NVRTC, for the available GPU, with a cache on disk.

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::{result, sys};

const REDUCE: &str = include_str!("../kernels/reduce.cu");
const TILES: &str = include_str!("../kernels/tiles.cu");
const SPECTRAL: &str = include_str!("../kernels/spectral.cu");
const METRIC: &str = include_str!("../kernels/metric.cu");

/// The kernels that are compiled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Training and the loss.
    Learning,
    /// Entropic transport of many points.
    Transport,
    /// Many small problems.
    Pairs,
    /// The loss of another library's batch, in single precision.
    LossSingle,
    /// The same in double precision.
    LossDouble,
}

impl Source {
    /// The number of sources.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// All sources.
    ///
    /// ```
    /// for source in robust_ot_cuda::Source::ALL {
    ///     println!("{source:?}: {} characters", source.text().len());
    /// }
    /// ```
    pub const ALL: [Self; 5] =
        [Self::Learning, Self::Transport, Self::Pairs, Self::LossSingle, Self::LossDouble];

    /// The CUDA code.
    pub fn text(self) -> String {
        match self {
            Self::Learning => {
                let (batch, labels) =
                    (include_str!("../kernels/batch.cu"), include_str!("../kernels/labels.cu"));
                [REDUCE, SPECTRAL, METRIC, batch, labels].concat()
            }
            Self::Transport => {
                let (half, double) =
                    (include_str!("../kernels/sweep_half.cu"), include_str!("../kernels/sweep.cu"));
                [REDUCE, TILES, half, double, include_str!("../kernels/clouds.cu")].concat()
            }
            Self::Pairs => [REDUCE, TILES, include_str!("../kernels/pairs.cu")].concat(),
            Self::LossSingle => loss_in("float", include_str!("../kernels/product_tf32.cu")),
            Self::LossDouble => loss_in("double", ""),
        }
    }
}

/// The kernels of the loss in one precision.
fn loss_in(real: &str, on_tensor_cores: &str) -> String {
    let (product, loss) = (include_str!("../kernels/product.cu"), include_str!("../kernels/loss.cu"));
    let typed = format!("typedef {real} real;\n");
    [REDUCE, SPECTRAL, METRIC, &typed, product, on_tensor_cores, loss].concat()
}

/// The machine code of a source for a GPU of this compute capability, from the cache folder or from the compiler.
pub(crate) fn binary(
    source: Source,
    capability: (i32, i32),
    cache: Option<&Path>,
) -> Result<Vec<u8>, String> {
    let text = source.text();
    let kept = cache.map(|folder| kept_at(folder, source, &text, capability));
    if let Some(binary) =
        kept.as_ref().and_then(|path| fs::read(path).ok()).filter(|binary| !binary.is_empty())
    {
        return Ok(binary);
    }
    let binary = compile(&text, capability)?;
    if let Some(path) = kept {
        // If it cannot be cached, the only cost is a second next time.
        let _ = keep(&path, &binary);
    }
    Ok(binary)
}

fn kept_at(folder: &Path, source: Source, text: &str, (major, minor): (i32, i32)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (text, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    folder.join(format!("{source:?}-sm{major}{minor}-{:016x}.cubin", hasher.finish()).to_lowercase())
}

/// Writes a file atomically, even if other processes write it too.
fn keep(path: &Path, binary: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let own = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&own, binary)?;
    fs::rename(&own, path)
}

/// Compiles for one compute capability. Does not need a GPU.
///
/// ```no_run
/// use robust_ot_cuda::{Source, compile};
/// let binary = compile(&Source::Learning.text(), (9, 0))?;
/// assert!(!binary.is_empty());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// When NVRTC cannot be loaded, or with the log of the compiler.
#[allow(unsafe_code)]
pub fn compile(text: &str, (major, minor): (i32, i32)) -> Result<Vec<u8>, String> {
    // SAFETY: only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "the compiler NVRTC must be installed to compile kernels, but libnvrtc cannot be loaded; \
                    it is part of the CUDA toolkit and of the Python package nvidia-cuda-nvrtc"
                .into(),
        );
    }
    let said = |what: &str, error: &dyn std::fmt::Debug| format!("NVRTC: {what}: {error:?}");
    let text = CString::new(text).map_err(|error| said("the source", &error))?;
    let program =
        result::create_program(&text, Some(c"robust_ot.cu")).map_err(|error| said("creating", &error))?;
    let options = [
        format!("--gpu-architecture=sm_{major}{minor}"),
        "--std=c++17".to_owned(),
        "--extra-device-vectorization".to_owned(),
    ];
    // SAFETY: the program is alive until it is destroyed below, and buffers have the length that NVRTC reports.
    unsafe {
        let compiled = result::compile_program(program, &options);
        let outcome = match compiled {
            Ok(()) => machine_code(program).map_err(|error| said("reading the result", &error)),
            Err(error) => {
                let log: Vec<c_char> = result::get_program_log(program).unwrap_or_default();
                let log = if log.is_empty() {
                    String::new()
                } else {
                    CStr::from_ptr(log.as_ptr()).to_string_lossy().into_owned()
                };
                Err(format!("{}\n{log}", said("compiling", &error)))
            }
        };
        let _ = result::destroy_program(program);
        outcome
    }
}

/// SAFETY: the program must have been compiled.
#[allow(unsafe_code)]
unsafe fn machine_code(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the caller guarantees a compiled program; the buffer has the requested size.
    unsafe {
        sys::nvrtcGetCUBINSize(program, &raw mut size).result()?;
        let mut binary = vec![0_u8; size];
        sys::nvrtcGetCUBIN(program, binary.as_mut_ptr().cast()).result()?;
        Ok(binary)
    }
}
