//! Many small entropic problems at once, one block of the GPU each.

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, DeviceRepr};
use robust_ot::Result;
use robust_ot::device::{Corpus, PairAnswers, PairOracle, PairRound};

use crate::arguments::address;
use crate::compile::Source;
use crate::device::Device;
use crate::launch::{THREADS, grid, launch};

/// Blocks per multiprocessor that run side by side.
const BLOCKS_PER_PROCESSOR: usize = 2;
/// Vectors with one number per point that a block keeps in shared memory.
const VECTORS: usize = 9;
/// Bytes of static shared memory of the kernel.
const STATIC_SHARED: usize = 24 << 10;
/// The most sweeps of one solve; the next round continues from there.
const MOST_SWEEPS: u32 = 500;

/// An oracle for [`robust_ot::device::solve_pairs_on`].
///
/// ```
/// use ndarray::array;
/// use robust_ot::device::{Corpus, solve_pairs_on};
/// use robust_ot::solve::{Interrupt, PairSettings};
/// use robust_ot::{Grouping, Measure, MetricSet, Settings};
/// use robust_ot_cuda::{Device, Pairs};
///
/// let measures = [array![[0.0, 1.0]], array![[2.0, 1.0], [4.0, 1.0]]].map(|points| Measure::uniform(points).unwrap());
/// let corpus = Corpus::new(&measures.each_ref(), &Grouping::none(2))?;
/// if let Ok(device) = Device::open(0, None) {
///     let settings = PairSettings { measures: &measures.each_ref(), grouping: corpus.grouping(), set: &MetricSet::W2, entropy: 0.1, settings: &Settings::default() };
///     let mut oracle = Pairs::new(&device, &corpus)?;
///     let found = solve_pairs_on(&mut oracle, &corpus, &[(0, 1)], settings, &Interrupt::default(), &|_| ())?;
///     assert!(found[0].as_ref().unwrap().value > 0.0);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct Pairs {
    device: Device,
    kernel: CudaFunction,
    points: CudaSlice<f64>,
    starts: CudaSlice<u32>,
    weights: CudaSlice<f64>,
    /// ‖x‖ of every point.
    lengths: CudaSlice<f64>,
    dim: usize,
    size: usize,
    /// Number of points of the largest measure.
    most: usize,
    blocks: usize,
    shared: usize,
    /// See kernels/pairs.cu.
    in_shared: i32,
    scratch: CudaSlice<f64>,
    /// g of every slot.
    potentials: Option<CudaSlice<f64>>,
}

/// See kernels/pairs.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct CorpusArgument {
    points: u64,
    starts: u64,
    weights: u64,
    lengths: u64,
    dim: u32,
    size: u32,
}

/// See kernels/pairs.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Tasks {
    slots: u64,
    first: u64,
    second: u64,
    metrics: u64,
    tolerances: u64,
    count: u32,
}

/// See kernels/pairs.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Found {
    crosses: u64,
    entropies: u64,
    duals: u64,
    sizes: u64,
    unplaced: u64,
}

// SAFETY: plain numbers, with the same C layout as in CUDA.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for CorpusArgument {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Tasks {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Found {}

impl Pairs {
    /// Copies the corpus to the device.
    ///
    /// # Errors
    /// When the device is out of memory.
    pub fn new(device: &Device, corpus: &Corpus) -> Result<Self> {
        let _turn = device.turn();
        let device = &device.fork()?;
        let (dim, size) = (corpus.dim(), corpus.size());
        let (mut points, mut weights, mut lengths, mut starts) =
            (Vec::new(), Vec::new(), Vec::new(), vec![0_u32]);
        for measure in 0..corpus.len() {
            points.extend(corpus.points(measure).iter().copied());
            weights.extend(corpus.weights(measure).iter().copied());
            lengths.extend(corpus.points(measure).outer_iter().map(|point| point.dot(&point).sqrt()));
            starts.push(weights.len() as u32);
        }
        let most = (0..corpus.len()).map(|measure| corpus.weights(measure).len()).max().unwrap_or(1);
        // Shared memory holds the vectors if they fit, then also z.
        let (vectors, z) = (8 * VECTORS * most, 8 * most * most);
        let allowed = device.shared_memory().saturating_sub(STATIC_SHARED);
        let (in_shared, shared) = match vectors {
            vectors if vectors + z <= allowed => (2, vectors + z),
            vectors if vectors <= allowed => (1, vectors),
            _ => (0, 0),
        };
        let kernel = device.kernel(Source::Pairs, "solve_pairs")?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // All that there is, since the kernel is shared with other corpora.
        kernel
            .set_attribute(attribute, allowed as i32)
            .map_err(|error| device.failed("solve_pairs", error))?;
        let blocks = BLOCKS_PER_PROCESSOR * device.processors();
        let a_block = 2 * most * dim
            + if in_shared == 2 { 0 } else { most * most }
            + if in_shared == 0 { VECTORS * most } else { 0 };
        let bytes = 8 * (points.len() + 2 * weights.len() + blocks * a_block);
        let stream = device.stream();
        let failed =
            |error| device.out_of_memory("the measures", bytes, "fewer or smaller measures need less", error);
        Ok(Self {
            device: device.clone(),
            kernel,
            points: stream.clone_htod(&points).map_err(failed)?,
            starts: stream.clone_htod(&starts).map_err(failed)?,
            weights: stream.clone_htod(&weights).map_err(failed)?,
            lengths: stream.clone_htod(&lengths).map_err(failed)?,
            dim,
            size,
            most,
            blocks,
            shared,
            in_shared,
            scratch: stream.alloc_zeros(blocks * a_block).map_err(failed)?,
            potentials: None,
        })
    }
}

impl PairOracle for Pairs {
    fn solve(&mut self, round: &PairRound<'_>) -> Result<PairAnswers> {
        let device = &self.device;
        let _turn = device.turn();
        let stream = device.stream();
        let (count, square) = (round.pairs.len(), self.size * self.size);
        let workspace = 8 * (round.most * self.most + count * (2 * square + 5));
        let failed = |error| device.out_of_memory("pairs", workspace, "smaller measures need less", error);
        let wanted = round.most * self.most;
        let potentials = match self.potentials.take().filter(|workspace| workspace.len() >= wanted) {
            Some(workspace) => workspace,
            None => stream.alloc_zeros(wanted).map_err(failed)?,
        };
        let whole = |numbers: Vec<u32>| stream.clone_htod(&numbers).map_err(failed);
        let slots = whole(round.slots.iter().map(|&slot| slot as u32).collect())?;
        let first = whole(round.pairs.iter().map(|&(first, _)| first as u32).collect())?;
        let second = whole(round.pairs.iter().map(|&(_, second)| second as u32).collect())?;
        let metrics = stream.clone_htod(round.metrics).map_err(failed)?;
        let tolerances = stream.clone_htod(round.tolerances).map_err(failed)?;
        let double = |count: usize| stream.alloc_zeros::<f64>(count).map_err(failed);
        let (crosses, entropies, duals, sizes, unplaced) =
            (double(count * square)?, double(count)?, double(count)?, double(count)?, double(count)?);
        let at = |numbers: &CudaSlice<f64>| address(device, numbers);
        let whole = |numbers: &CudaSlice<u32>| address(device, numbers);
        let corpus = CorpusArgument {
            points: at(&self.points),
            starts: whole(&self.starts),
            weights: at(&self.weights),
            lengths: at(&self.lengths),
            dim: self.dim as u32,
            size: self.size as u32,
        };
        let tasks = Tasks {
            slots: whole(&slots),
            first: whole(&first),
            second: whole(&second),
            metrics: at(&metrics),
            tolerances: at(&tolerances),
            count: count as u32,
        };
        let found = Found {
            crosses: at(&crosses),
            entropies: at(&entropies),
            duals: at(&duals),
            sizes: at(&sizes),
            unplaced: at(&unplaced),
        };
        launch!(
            device,
            stream,
            &self.kernel,
            grid((self.blocks.min(count), 1), THREADS, self.shared),
            corpus,
            tasks,
            found,
            round.regularization,
            i32::from(round.fresh),
            MOST_SWEEPS,
            self.most as u32,
            self.in_shared,
            at(&potentials),
            at(&self.scratch)
        )?;
        let host = |numbers: &CudaSlice<f64>| stream.clone_dtoh(numbers).map_err(failed);
        let answers = PairAnswers {
            crosses: host(&crosses)?,
            entropies: host(&entropies)?,
            duals: host(&duals)?,
            sizes: host(&sizes)?,
            unplaced: host(&unplaced)?,
        };
        stream.synchronize().map_err(failed)?;
        self.potentials = Some(potentials);
        Ok(answers)
    }
}
