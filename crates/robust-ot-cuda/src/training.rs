//! Training on the device: weights, data and every step stay there, and each step is one CUDA graph.

use std::collections::HashMap;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaFunction, CudaGraph, CudaSlice};
use ndarray::Array2;
use robust_ot::{Error, Result};
use robust_ot_learn::data::Features;
use robust_ot_learn::{Dataset, Engine, EpochWork, Objective, Optimizer, Output, Parameters, TrainSettings};

use crate::arguments::{NO_FAULT, Rates, Soft, Truth, address, fault};
use crate::blas::{Blas, Matrix, Precision};
use crate::compile::Source;
use crate::device::Device;
use crate::label_loss::{LabelLoss, Shape};
use crate::launch::{THREADS, grid, launch, rows};
use crate::linear::logits_by;
use crate::rows::RowStore;
use crate::training_buffers::{Buffers, DeviceParameters, TruthBuffers, rates_of};

/// The number of lines is rounded up to a multiple of this, so that another order of rows rarely needs another graph.
const LINES: usize = 64;
/// Groups of four weights that a thread updates.
const FOURS: usize = 4;
/// Biases that a block updates: few, so that many blocks share the sums over rows.
const BIASES: u32 = 64;

/// The [`Engine`] that runs the steps of a [`robust_ot_learn::Trainer`] on a CUDA device.
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::Interrupt;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, Objective, TrainSettings, Trainer};
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
    objective: &'a Objective,
    settings: TrainSettings,
    train: &'a Dataset,
    store: RowStore<'a>,
    loss: Option<LabelLoss>,
    kernels: Kernels,
    weights: DeviceParameters,
    bias: Option<DeviceParameters>,
    truth: TruthBuffers,
    workspace: Buffers,
    /// Keyed by rows, lines and buffer.
    graphs: HashMap<(usize, usize, usize), Graph>,
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

/// The CUDA graph of one step.
struct Graph(CudaGraph);

// SAFETY: a graph may move to another thread if only one uses it at a time, and `Training` is used through `&mut`.
#[allow(unsafe_code)]
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

impl<'a> Training<'a> {
    /// Copies the data to the device, or prepares to stream it if it does not fit.
    ///
    /// # Errors
    /// When the device does not support the metric set or the settings, or is out of memory.
    pub fn new(
        device: &Device,
        train: &'a Dataset,
        objective: &'a Objective,
        settings: &TrainSettings,
        precision: Precision,
    ) -> Result<Self> {
        Self::placed(device, train, objective, settings, precision, None)
    }

    /// [`Training::new`], with data that is streamed whether it fits or not.
    ///
    /// # Errors
    /// As [`Training::new`].
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
        if objective.asymmetric_base().is_some() {
            let rule = "computed on the CPU: the GPU has no kernel for it";
            return Err(Error::parameter("objective", rule, "the asymmetric loss"));
        }
        if settings.hidden.is_some() || settings.optimizer == Optimizer::AdamW {
            let rule = "a linear model and the optimizer adam or sgd on a GPU";
            return Err(Error::parameter("settings", rule, "a hidden layer or the optimizer adamw"));
        }
        let _turn = device.turn();
        let device = &device.fork()?;
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
        let weights = DeviceParameters::new(device, features * labels, settings.optimizer)?;
        let bias =
            settings.bias.then(|| DeviceParameters::new(device, labels, settings.optimizer)).transpose()?;
        let truth = TruthBuffers::new(device, train, settings)?;
        let workspace = Buffers::new(device, train, objective, settings, batch)?;
        // A batch of the robust loss takes some lines of L numbers; the rest is small.
        let lines = if loss.is_some() { 3 * 4 * batch * truth.most * labels } else { 0 };
        let blas = Blas::new(device, precision)?;
        // Last, because dropping it takes a turn of its own.
        let store = RowStore::new(device, train.features(), batch, lines, resident)?;
        Ok(Self {
            device: device.clone(),
            blas,
            objective,
            settings: settings.clone(),
            train,
            store,
            loss,
            kernels,
            weights,
            bias,
            truth,
            workspace,
            graphs: HashMap::new(),
        })
    }

    /// Whether rows are streamed.
    pub fn is_streamed(&self) -> bool {
        self.store.is_streamed()
    }

    /// Enqueues one step: predict, compare, learn.
    fn enqueue(&self, count: usize, lines: usize, buffer: usize) -> Result<()> {
        let truth = self.truth.truth(&self.device, self.settings.batch);
        let batch = self.predict(truth, count, buffer)?;
        let slopes = self.compare(truth, count, lines)?;
        self.learn(truth, batch, slopes)
    }

    /// Enqueues X of the batch, and its logits without biases.
    fn predict(&self, truth: Truth, count: usize, buffer: usize) -> Result<Matrix> {
        let (features, labels) = (self.train.features().columns(), self.objective.labels());
        let at = |buffer: &CudaSlice<f32>| address(&self.device, buffer);
        self.store.gather(truth, count)?;
        let batch = Matrix::new(self.store.batch(buffer), count, features);
        let weights = Matrix::new(at(&self.weights.values), features, labels);
        self.blas.product(Matrix::new(at(&self.workspace.logits), count, labels), batch, weights)?;
        Ok(batch)
    }

    /// Enqueues the losses of the rows, and their gradients with respect to the logits.
    fn compare(&self, truth: Truth, count: usize, lines: usize) -> Result<Matrix> {
        let Self { device, blas, objective, settings, kernels, workspace, .. } = self;
        let stream = device.stream();
        let at = |buffer: &CudaSlice<f32>| address(device, buffer);
        let (losses, faults) = (address(device, &workspace.losses), address(device, &workspace.fault));
        let bias = self.bias.as_ref().map_or(0, |bias| at(&bias.values));
        let (logits, predictions) = (at(&workspace.logits), at(&workspace.predictions));
        let soft = Soft {
            moved: objective.targets().moved(),
            smoothing: objective.targets().smoothing(),
            table: workspace.table.as_ref().map_or(0, at),
        };
        let (config, labels) = (rows(count), objective.labels());
        let (factor, width) = (settings.reduction.factor(count) as f32, labels as u32);
        if objective.output() == Output::Sigmoid {
            let kernel = &kernels.sigmoid_slopes;
            launch!(
                device, stream, kernel, config, logits, bias, truth, soft, factor, width, losses, faults
            )?;
            return Ok(Matrix::new(logits, count, labels));
        }
        let step = truth.step;
        let kernel = &kernels.log_softmax;
        launch!(device, stream, kernel, config, logits, bias, width, predictions, step, faults)?;
        let (mut transported, mut weight) = ((0, 0), 0.0);
        if let (Some(loss), Some((given, _))) = (&self.loss, objective.transport()) {
            let shape = Shape { rows: count, lines, most: self.truth.most };
            (transported, weight) = (loss.outputs(), given);
            loss.enqueue((stream, blas), truth, shape, (predictions, logits), transported, faults)?;
        }
        launch!(
            device,
            stream,
            &kernels.softmax_slopes,
            config,
            predictions,
            logits,
            transported.0,
            transported.1,
            truth,
            soft,
            objective.cross_entropy_weight(),
            weight,
            factor,
            width,
            losses,
            faults
        )?;
        Ok(Matrix::new(predictions, count, labels))
    }

    /// Enqueues the optimizer step for these gradients.
    fn learn(&self, truth: Truth, batch: Matrix, slopes: Matrix) -> Result<()> {
        let Self { device, settings, kernels, workspace, .. } = self;
        let stream = device.stream();
        let at = |buffer: &CudaSlice<f32>| address(device, buffer);
        let (features, labels, step) = (batch.columns, slopes.columns, truth.step);
        let gradients = at(&workspace.gradients);
        self.blas.product(Matrix::new(gradients, features, labels), batch.t(), slopes)?;
        let (kind, momentum) = match settings.optimizer {
            Optimizer::Sgd { momentum: 0.0 } => (0_i32, 0.0),
            Optimizer::Sgd { momentum } => (1, momentum as f32),
            Optimizer::Adam | Optimizer::AdamW => (2, 0.0),
        };
        let rates = address(device, &workspace.rates);
        let fours = (features * labels).div_ceil(4);
        let blocks = fours.div_ceil(FOURS * THREADS as usize).clamp(1, 1 << 16);
        let decay = 2.0 * settings.weight_decay as f32;
        let DeviceParameters { values, first, second } = &self.weights;
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
            decay,
            address(device, &workspace.fault)
        )?;
        if let Some(DeviceParameters { values, first, second }) = &self.bias {
            let config = grid((labels.div_ceil(BIASES as usize), 1), BIASES, 0);
            launch!(
                device,
                stream,
                &kernels.learn_bias,
                config,
                kind,
                at(values),
                slopes.address,
                at(first),
                at(second),
                slopes.rows as u32,
                labels as u32,
                rates,
                step,
                momentum
            )?;
        }
        launch!(device, stream, &kernels.next_step, grid((1, 1), 1, 0), step)
    }

    /// Captures the graph of a step if it is the first of its shape.
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
        let graph =
            captured.map_err(failed)?.ok_or_else(|| self.device.refusal("the captured graph is empty"))?;
        self.graphs.insert((count, lines, buffer), Graph(graph));
        Ok(())
    }

    /// The shape of every batch of an epoch: its rows, and its lines rounded up to reuse graphs. Uploads the order of the
    /// rows.
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
        // The same for all batches of the epoch, and no less than before, so that there are few graphs.
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
        let device = self.device.clone();
        let _turn = device.turn();
        self.weights.upload(&self.device, weights)?;
        match (&mut self.bias, bias) {
            (Some(own), Some(bias)) => own.upload(&self.device, bias),
            _ => Ok(()),
        }
    }

    fn download(&mut self, weights: &mut Parameters, bias: Option<&mut Parameters>) -> Result<()> {
        let _turn = self.device.turn();
        self.weights.download(&self.device, weights)?;
        match (&self.bias, bias) {
            (Some(own), Some(bias)) => own.download(&self.device, bias),
            _ => Ok(()),
        }
    }

    fn epoch(&mut self, work: EpochWork<'_>) -> Result<Option<Vec<f64>>> {
        let EpochWork { number, order, steps, interrupt, progress } = work;
        let device = self.device.clone();
        let _turn = device.turn();
        let shapes = self.shapes(order)?;
        let stream = device.stream();
        let failed = |error| device.failed("an epoch", error);
        let rates: Vec<Rates> = steps.iter().map(rates_of).collect();
        stream.memcpy_htod(&rates, &mut self.workspace.rates).map_err(failed)?;
        stream.memset_zeros(&mut self.truth.step).map_err(failed)?;
        stream.memcpy_htod(&[NO_FAULT], &mut self.workspace.fault).map_err(failed)?;
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
        let losses = stream.clone_dtoh(&self.workspace.losses).map_err(failed)?;
        let found = stream.clone_dtoh(&self.workspace.fault).map_err(failed)?;
        stream.synchronize().map_err(failed)?;
        fault(found[0], self.loss.as_ref().map(|loss| &loss.set), number)?;
        Ok(Some(losses))
    }

    fn logits(&mut self, features: &Features) -> Result<Array2<f32>> {
        let _turn = self.device.turn();
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
