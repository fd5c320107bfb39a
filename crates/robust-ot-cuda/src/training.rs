//! Training on the device: weights, data and every step stay there, and each step is one graph of kernels.

use std::collections::HashMap;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaFunction, CudaGraph, CudaSlice};
use ndarray::Array2;
use robust_ot::Result;
use robust_ot::data::Features;
use robust_ot::learn::{
    Dataset, Engine, EpochWork, Objective, Optimizer, Output, Parameters, Step, TrainSettings,
};

use crate::arguments::{NO_FAULT, Rates, Soft, Truth, address, fault};
use crate::blas::{Blas, Matrix, Precision};
use crate::compile::Source;
use crate::device::Device;
use crate::label_loss::{LabelLoss, Shape};
use crate::launch::{THREADS, grid, launch, rows};
use crate::linear::logits_by;
use crate::rows::RowStore;

/// Lines are reserved in steps of this, so that another order of rows seldom needs another graph.
const LINES: usize = 64;
/// Weights that a thread steps, at least.
const FOURS: usize = 4;
/// Rows that the error of rounded products is measured on.
const MEASURED_ROWS: usize = 1024;

/// Trains on a CUDA device what [`robust_ot::learn::Trainer`] trains on the processor, and is given to it.
///
/// ```
/// use ndarray::array;
/// use robust_ot::Interrupt;
/// use robust_ot::data::Features;
/// use robust_ot::learn::{Dataset, Objective, TrainSettings, Trainer};
/// use robust_ot::loss::Targets;
/// use robust_ot_cuda::{Device, Precision, Training};
///
/// let features = Features::Dense(array![[-2.0], [-1.0], [1.0], [2.0]]);
/// let data = Dataset::new(features, Targets::new(2, [[0], [0], [1], [1]])?)?;
/// let (objective, settings) = (Objective::cross_entropy(2), TrainSettings::default());
/// let mut trainer = Trainer::new(&data, None, &objective, settings.clone())?;
/// if let Ok(device) = Device::open(0, None) {
///     trainer = trainer.with_engine(Box::new(Training::new(&device, &data, &objective, &settings, Precision::F32)?))?;
/// }
/// trainer.epoch(&Interrupt::default(), |_, _| ())?;
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct Training<'a> {
    device: Device,
    blas: Blas,
    precision: Precision,
    objective: &'a Objective,
    settings: TrainSettings,
    train: &'a Dataset,
    store: RowStore<'a>,
    loss: Option<LabelLoss>,
    kernels: Kernels,
    weights: Learnt,
    bias: Option<Learnt>,
    truth: TruthBuffers,
    room: Room,
    /// By rows, lines and buffer.
    graphs: HashMap<(usize, usize, usize), Graph>,
}

/// Numbers that are learnt, on the device.
#[derive(Debug)]
struct Learnt {
    values: CudaSlice<f32>,
    first: CudaSlice<f32>,
    second: CudaSlice<f32>,
}

#[derive(Debug)]
struct TruthBuffers {
    order: CudaSlice<u32>,
    starts: CudaSlice<u32>,
    indices: CudaSlice<u32>,
    lines: CudaSlice<u32>,
    step: CudaSlice<u32>,
    /// The most labels of one row.
    most: usize,
}

/// Numbers of one batch, and of one epoch.
#[derive(Debug)]
struct Room {
    logits: CudaSlice<f32>,
    predictions: CudaSlice<f32>,
    gradients: CudaSlice<f32>,
    rates: CudaSlice<Rates>,
    losses: CudaSlice<f64>,
    fault: CudaSlice<u64>,
    table: Option<CudaSlice<f32>>,
}

#[derive(Debug)]
struct Kernels {
    log_softmax: CudaFunction,
    softmax_slopes: CudaFunction,
    sigmoid_slopes: CudaFunction,
    learn_weights: CudaFunction,
    learn_bias: CudaFunction,
    next_step: CudaFunction,
}

/// One step of so many rows.
struct Graph(CudaGraph);

// SAFETY: a graph may go to another thread as long as only one uses it at a time, and `Training` is used through `&mut`.
#[allow(unsafe_code)]
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

impl<'a> Training<'a> {
    /// Puts the data on the device, or prepares to stream them where they do not fit.
    ///
    /// # Errors
    /// When the metric set or the settings are not for the device, or it has no room.
    pub fn new(
        device: &Device,
        train: &'a Dataset,
        objective: &'a Objective,
        settings: &TrainSettings,
        precision: Precision,
    ) -> Result<Self> {
        Self::placed(device, train, objective, settings, precision, None)
    }

    /// [`Training::new`] with data that are streamed whether they fit or not.
    ///
    /// # Errors
    /// As there.
    pub fn streamed(
        device: &Device,
        train: &'a Dataset,
        objective: &'a Objective,
        settings: &TrainSettings,
        precision: Precision,
    ) -> Result<Self> {
        Self::placed(device, train, objective, settings, precision, Some(false))
    }

    fn placed(
        device: &Device,
        train: &'a Dataset,
        objective: &'a Objective,
        settings: &TrainSettings,
        precision: Precision,
        resident: Option<bool>,
    ) -> Result<Self> {
        let (features, labels) = (train.features().columns(), objective.labels());
        let batch = settings.batch.min(train.rows());
        let kernel = |name| device.kernel(Source::Learning, name);
        let kernels = Kernels {
            log_softmax: kernel("log_softmax")?,
            softmax_slopes: kernel("softmax_slopes")?,
            sigmoid_slopes: kernel("sigmoid_slopes")?,
            learn_weights: kernel("learn_weights")?,
            learn_bias: kernel("learn_bias")?,
            next_step: kernel("next_step")?,
        };
        let loss = objective.transport().map(|(_, robust)| LabelLoss::new(device, robust)).transpose()?;
        let weights = Learnt::new(device, features * labels, settings.optimizer)?;
        let bias = settings.bias.then(|| Learnt::new(device, labels, settings.optimizer)).transpose()?;
        let truth = TruthBuffers::new(device, train, settings)?;
        let room = Room::new(device, train, objective, settings, batch)?;
        // A batch of the robust loss takes some lines of L numbers; the rest is small.
        let lines = if loss.is_some() { 3 * 4 * batch * truth.most * labels } else { 0 };
        let store = RowStore::new(device, train.features(), batch, lines, resident)?;
        Ok(Self {
            device: device.clone(),
            blas: Blas::new(device, precision)?,
            precision,
            objective,
            settings: settings.clone(),
            train,
            store,
            loss,
            kernels,
            weights,
            bias,
            truth,
            room,
            graphs: HashMap::new(),
        })
    }

    /// Whether rows are streamed because they did not fit.
    pub fn is_streamed(&self) -> bool {
        self.store.is_streamed()
    }

    /// ‖Z' − Z‖ / ‖Z‖ for the logits Z of some training rows, with Z' by rounded products: what [`Precision::Tf32`] costs. None
    /// where products are not rounded.
    ///
    /// # Errors
    /// When the device fails.
    pub fn rounding(&self) -> Result<Option<f64>> {
        if self.precision == Precision::F32 {
            return Ok(None);
        }
        let some: Vec<usize> = (0..self.train.rows().min(MEASURED_ROWS)).collect();
        let features = self.train.features().select(&some);
        let logits =
            || logits_by(&self.device, &self.blas, &features, &self.weights.values, self.objective.labels());
        let rounded = logits()?;
        self.blas.set_precision(Precision::F32)?;
        let exact = logits();
        self.blas.set_precision(self.precision)?;
        let exact = exact?;
        let norm = |array: &Array2<f32>| array.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        Ok(Some(norm(&(&rounded - &exact)) / norm(&exact).max(f64::MIN_POSITIVE)))
    }

    /// Puts one step on the stream: gather, predict, compare, learn.
    fn enqueue(&self, count: usize, lines: usize, buffer: usize) -> Result<()> {
        let Self { device, blas, objective, settings, store, kernels, room, .. } = self;
        let stream = device.stream();
        let (features, labels) = (self.train.features().columns(), objective.labels());
        let at = |buffer: &CudaSlice<f32>| address(device, buffer);
        let truth = self.truth.truth(device, settings.batch);
        let (step, faults) = (truth.step, address(device, &room.fault));
        let losses = address(device, &room.losses);
        let bias = self.bias.as_ref().map_or(0, |bias| at(&bias.values));
        let (logits, predictions) = (at(&room.logits), at(&room.predictions));
        let soft = Soft {
            moved: objective.targets().moved(),
            smoothing: objective.targets().smoothing(),
            table: room.table.as_ref().map_or(0, at),
        };
        let factor = settings.reduction.factor(count) as f32;
        store.gather(truth, count)?;
        let batch = Matrix::new(store.batch(buffer), count, features);
        let weights = Matrix::new(at(&self.weights.values), features, labels);
        blas.product(Matrix::new(logits, count, labels), batch, weights)?;
        let width = labels as u32;
        let slopes = match objective.output() {
            Output::Sigmoid => {
                let config = rows(count);
                launch!(
                    device,
                    stream,
                    &kernels.sigmoid_slopes,
                    config,
                    logits,
                    bias,
                    truth,
                    soft,
                    factor,
                    width,
                    losses,
                    faults
                )?;
                logits
            }
            Output::Softmax => {
                launch!(
                    device,
                    stream,
                    &kernels.log_softmax,
                    rows(count),
                    logits,
                    bias,
                    width,
                    predictions,
                    step,
                    faults
                )?;
                let (mut transported, mut weight) = ((0, 0), 0.0);
                if let (Some(loss), Some((given, _))) = (&self.loss, objective.transport()) {
                    let shape = Shape { rows: count, lines, most: self.truth.most };
                    loss.enqueue(stream, blas, truth, shape, (predictions, logits), faults)?;
                    (transported, weight) = (loss.outputs(), given);
                }
                let cross_entropy = objective.cross_entropy_weight();
                launch!(
                    device,
                    stream,
                    &kernels.softmax_slopes,
                    rows(count),
                    predictions,
                    logits,
                    transported.0,
                    transported.1,
                    truth,
                    soft,
                    cross_entropy,
                    weight,
                    factor,
                    width,
                    losses,
                    faults
                )?;
                predictions
            }
        };
        let gradients = at(&room.gradients);
        blas.product(
            Matrix::new(gradients, features, labels),
            batch.t(),
            Matrix::new(slopes, count, labels),
        )?;
        let (kind, momentum) = match settings.optimizer {
            Optimizer::Sgd { momentum: 0.0 } => (0_i32, 0.0),
            Optimizer::Sgd { momentum } => (1, momentum as f32),
            Optimizer::Adam => (2, 0.0),
        };
        let rates = address(device, &room.rates);
        let fours = (features * labels).div_ceil(4);
        let blocks = fours.div_ceil(FOURS * THREADS as usize).clamp(1, 1 << 16);
        let decay = 2.0 * settings.weight_decay as f32;
        let Learnt { values, first, second } = &self.weights;
        launch!(
            device,
            stream,
            &kernels.learn_weights,
            grid((blocks, 1), THREADS, 0),
            kind,
            at(values),
            gradients,
            at(first),
            at(second),
            fours as u64,
            rates,
            step,
            momentum,
            decay
        )?;
        if let Some(Learnt { values, first, second }) = &self.bias {
            launch!(
                device,
                stream,
                &kernels.learn_bias,
                grid((labels.div_ceil(64), 1), 64, 0),
                kind,
                at(values),
                slopes,
                at(first),
                at(second),
                count as u32,
                width,
                rates,
                step,
                momentum
            )?;
        }
        launch!(device, stream, &kernels.next_step, grid((1, 1), 1, 0), step)
    }

    /// The graph of a step, captured if it is the first of its shape.
    fn prepare(&mut self, count: usize, lines: usize, buffer: usize) -> Result<()> {
        if self.graphs.contains_key(&(count, lines, buffer)) {
            return Ok(());
        }
        let stream = self.device.stream().clone();
        let failed = |error| self.device.failed("capturing a step", error);
        stream.synchronize().map_err(failed)?;
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).map_err(failed)?;
        let enqueued = self.enqueue(count, lines, buffer);
        let captured = stream.end_capture(CUgraphInstantiate_flags(0));
        enqueued?;
        let graph = captured.map_err(failed)?.ok_or_else(|| self.device.refusal("nothing was captured"))?;
        self.graphs.insert((count, lines, buffer), Graph(graph));
        Ok(())
    }

    /// What every batch of an epoch needs: its rows, and lines rounded up to what graphs are made for.
    fn shapes(&mut self, order: &[usize]) -> Result<Vec<(usize, usize)>> {
        let targets = self.train.targets();
        let mut lines = Vec::with_capacity(order.len());
        let mut shapes = Vec::new();
        for batch in order.chunks(self.settings.batch) {
            let mut sum = 0;
            for &row in batch {
                lines.push(sum as u32);
                sum += targets.row(row).len();
            }
            shapes.push((batch.len(), sum));
        }
        let failed = |error| self.device.failed("the order of rows", error);
        let stream = self.device.stream();
        let order: Vec<u32> = order.iter().map(|&row| row as u32).collect();
        stream.memcpy_htod(&order, &mut self.truth.order).map_err(failed)?;
        stream.memcpy_htod(&lines, &mut self.truth.lines).map_err(failed)?;
        // The same for all whole batches of the epoch, and no less than before: few graphs.
        let most = shapes.iter().map(|(_, lines)| *lines).max().unwrap_or(0);
        let whole =
            self.graphs.keys().map(|(_, lines, _)| *lines).fold(most.next_multiple_of(LINES), usize::max);
        let single = self.truth.most == 1;
        shapes.iter_mut().for_each(|(rows, lines)| *lines = if single { *rows } else { whole });
        if let Some(loss) = &mut self.loss {
            let rows = shapes[0].0;
            let shape = Shape { rows, lines: if single { rows } else { whole }, most: self.truth.most };
            if loss.reserve(shape)? {
                self.graphs.clear();
            }
        }
        Ok(shapes)
    }
}

impl Engine for Training<'_> {
    fn upload(&mut self, weights: &Parameters, bias: Option<&Parameters>) -> Result<()> {
        self.weights.upload(&self.device, weights)?;
        match (&mut self.bias, bias) {
            (Some(own), Some(bias)) => own.upload(&self.device, bias),
            _ => Ok(()),
        }
    }

    fn download(&mut self, weights: &mut Parameters, bias: Option<&mut Parameters>) -> Result<()> {
        self.weights.download(&self.device, weights)?;
        match (&self.bias, bias) {
            (Some(own), Some(bias)) => own.download(&self.device, bias),
            _ => Ok(()),
        }
    }

    fn epoch(&mut self, work: EpochWork<'_>) -> Result<Option<Vec<f64>>> {
        let EpochWork { number, order, steps, interrupt, progress } = work;
        let shapes = self.shapes(order)?;
        let device = self.device.clone();
        let stream = device.stream();
        let failed = |error| device.failed("an epoch", error);
        let rates: Vec<Rates> = steps.iter().map(rates_of).collect();
        stream.memcpy_htod(&rates, &mut self.room.rates).map_err(failed)?;
        stream.memset_zeros(&mut self.truth.step).map_err(failed)?;
        stream.memcpy_htod(&[NO_FAULT], &mut self.room.fault).map_err(failed)?;
        let buffers = self.store.buffers();
        for (batch, &(count, lines)) in shapes.iter().enumerate() {
            if interrupt.is_raised() {
                stream.synchronize().map_err(failed)?;
                return Ok(None);
            }
            let buffer = batch % buffers;
            self.prepare(count, lines, buffer)?;
            self.store.send(buffer, &order[batch * self.settings.batch..][..count])?;
            self.graphs[&(count, lines, buffer)].0.launch().map_err(failed)?;
            self.store.used(buffer)?;
            progress(batch + 1, shapes.len());
        }
        let losses = stream.clone_dtoh(&self.room.losses).map_err(failed)?;
        let found = stream.clone_dtoh(&self.room.fault).map_err(failed)?;
        stream.synchronize().map_err(failed)?;
        fault(found[0], self.loss.as_ref().map(|loss| &loss.set), number)?;
        Ok(Some(losses))
    }

    fn logits(&mut self, features: &Features) -> Result<Array2<f32>> {
        let labels = self.objective.labels();
        let mut found = logits_by(&self.device, &self.blas, features, &self.weights.values, labels)?;
        if let Some(bias) = &self.bias {
            let mut own = vec![0.0; labels];
            let failed = |error| self.device.failed("the biases", error);
            self.device.stream().memcpy_dtoh(&bias.values.slice(..labels), &mut own).map_err(failed)?;
            self.device.stream().synchronize().map_err(failed)?;
            found.outer_iter_mut().for_each(|mut row| row.iter_mut().zip(&own).for_each(|(z, b)| *z += b));
        }
        Ok(found)
    }
}

fn rates_of(step: &Step) -> Rates {
    match step.optimizer {
        Optimizer::Sgd { .. } => Rates { rate: step.rate as f32, square: 0.0 },
        Optimizer::Adam => {
            let (rate, square) = step.corrected();
            Rates { rate, square }
        }
    }
}

impl Learnt {
    /// Whole fours, so that steps may take four at a time.
    fn new(device: &Device, count: usize, optimizer: Optimizer) -> Result<Self> {
        let whole = count.next_multiple_of(4);
        let copies = 2
            + usize::from(optimizer != Optimizer::Sgd { momentum: 0.0 })
            + usize::from(optimizer == Optimizer::Adam);
        let alloc = |wanted: bool| {
            device.stream().alloc_zeros::<f32>(if wanted { whole } else { 4 }).map_err(|error| {
                device.no_room(
                    "the model",
                    4 * copies * whole,
                    "fewer labels or features, or --optimizer sgd, need less",
                    error,
                )
            })
        };
        Ok(Self {
            values: alloc(true)?,
            first: alloc(optimizer != Optimizer::Sgd { momentum: 0.0 })?,
            second: alloc(optimizer == Optimizer::Adam)?,
        })
    }

    fn upload(&mut self, device: &Device, from: &Parameters) -> Result<()> {
        let failed = |error| device.failed("the weights", error);
        let Self { values, first, second } = self;
        for (to, from) in [(values, &from.values), (first, &from.first), (second, &from.second)] {
            if !from.is_empty() {
                device.stream().memcpy_htod(from, &mut to.slice_mut(..from.len())).map_err(failed)?;
            }
        }
        device.stream().synchronize().map_err(failed)
    }

    fn download(&self, device: &Device, to: &mut Parameters) -> Result<()> {
        let failed = |error| device.failed("the weights", error);
        let Self { values, first, second } = self;
        for (from, to) in [(values, &mut to.values), (first, &mut to.first), (second, &mut to.second)] {
            if !to.is_empty() {
                device.stream().memcpy_dtoh(&from.slice(..to.len()), to).map_err(failed)?;
            }
        }
        device.stream().synchronize().map_err(failed)
    }
}

impl TruthBuffers {
    fn new(device: &Device, train: &Dataset, settings: &TrainSettings) -> Result<Self> {
        let failed = |error| device.failed("the labels of the rows", error);
        let stream = device.stream();
        let (mut starts, mut indices, mut most) = (vec![0_u32], Vec::new(), 0);
        for row in 0..train.rows() {
            let labels = train.targets().row(row);
            most = most.max(labels.len());
            indices.extend(labels.iter().map(|&label| label as u32));
            starts.push(indices.len() as u32);
        }
        if train.rows().div_ceil(settings.batch) >= 1 << 24 {
            return Err(device.refusal("an epoch must have fewer than 16,777,216 batches on a CUDA device"));
        }
        Ok(Self {
            order: stream.alloc_zeros(train.rows()).map_err(failed)?,
            starts: stream.clone_htod(&starts).map_err(failed)?,
            indices: stream.clone_htod(&indices).map_err(failed)?,
            lines: stream.alloc_zeros(train.rows()).map_err(failed)?,
            step: stream.alloc_zeros(1).map_err(failed)?,
            most,
        })
    }

    fn truth(&self, device: &Device, batch: usize) -> Truth {
        let at = |buffer: &CudaSlice<u32>| address(device, buffer);
        Truth {
            order: at(&self.order),
            starts: at(&self.starts),
            indices: at(&self.indices),
            lines: at(&self.lines),
            step: at(&self.step),
            batch: batch as u32,
        }
    }
}

impl Room {
    fn new(
        device: &Device,
        train: &Dataset,
        objective: &Objective,
        settings: &TrainSettings,
        batch: usize,
    ) -> Result<Self> {
        let (features, labels) = (train.features().columns(), objective.labels());
        let stream = device.stream();
        let gradients = (features * labels).next_multiple_of(4);
        let bytes = 4 * (2 * batch * labels + gradients);
        let failed = |error| {
            device.no_room("a batch and its gradient", bytes, "smaller batches (--batch) need less", error)
        };
        let table = objective.targets().table().map(|table| {
            let numbers: Vec<f32> = table.iter().copied().collect();
            stream.clone_htod(&numbers).map_err(|error| {
                device.no_room(
                    "the table of transported targets",
                    4 * numbers.len(),
                    "fewer labels need less",
                    error,
                )
            })
        });
        Ok(Self {
            logits: stream.alloc_zeros(batch * labels).map_err(failed)?,
            predictions: stream.alloc_zeros(batch * labels).map_err(failed)?,
            gradients: stream.alloc_zeros(gradients).map_err(failed)?,
            // SAFETY is not asked for: all of them are written before every epoch.
            rates: rates_room(device, train.rows().div_ceil(settings.batch))?,
            losses: stream.alloc_zeros(train.rows()).map_err(failed)?,
            fault: stream.alloc_zeros(1).map_err(failed)?,
            table: table.transpose()?,
        })
    }
}

fn rates_room(device: &Device, steps: usize) -> Result<CudaSlice<Rates>> {
    device
        .stream()
        .clone_htod(&vec![Rates { rate: 0.0, square: 0.0 }; steps])
        .map_err(|error| device.failed("the steps", error))
}
