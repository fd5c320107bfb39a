//! The device of a fit.

use std::path::Path;

use robust_ot::loss::{LossSettings, Targets};
use robust_ot::{Error, MetricSet, Result};
use robust_ot_learn::{FitRun, Fitted, Optimizer, Trainer};

use crate::blas::Precision;
use crate::choice::{DeviceChoice, Work};
use crate::device::Device;
use crate::linear::product_rounding;
use crate::training::Training;

/// The CPU or GPU that runs a fit.
///
/// ```
/// # use ndarray::Array2;
/// # use robust_ot::loss::Targets;
/// # use robust_ot_learn::data::Features;
/// # use robust_ot_learn::{Dataset, FitSettings, Samples};
/// use robust_ot::solve::Interrupt;
/// use robust_ot_cuda::{DeviceChoice, FitDevice, Precision};
/// use robust_ot_learn::FitRun;
///
/// # let rows = Array2::from_shape_fn((60, 1), |(row, _)| if row % 2 == 0 { -1.0 } else { 1.0 });
/// # let train = Dataset::new(Features::Dense(rows), Targets::new(2, (0..60).map(|row| [row % 2]))?)?;
/// # let samples = Samples::new(train, vec!["left".into(), "right".into()]);
/// let run = FitRun::new(&FitSettings::default(), samples)?;
/// let mut device = FitDevice::open(&run, DeviceChoice::Auto, Precision::F32, None)?;
/// let mut trainer = device.trainer(&run)?;
/// while trainer.epoch(&Interrupt::default(), |_, _| ())?.is_some() {}
/// let fitted = device.finish(&run, trainer)?;
/// println!("trained on {}", fitted.model.about.device);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug)]
pub struct FitDevice {
    gpu: Option<Device>,
    precision: Precision,
    /// Whether the training set does not fit on the GPU.
    streamed: bool,
}

impl FitDevice {
    /// Opens the device for a run.
    ///
    /// # Errors
    /// When a GPU was requested, but none is available or it cannot compute the loss.
    pub fn open(
        run: &FitRun,
        choice: DeviceChoice,
        precision: Precision,
        cache: Option<&Path>,
    ) -> Result<Self> {
        let weighted = run.train().weights().map(|_| {
            Error::parameter("device", "cpu or auto with weights of rows, which only the CPU takes", choice)
        });
        let hidden = run.settings().hidden.map(|_| {
            Error::parameter("device", "cpu or auto with a hidden layer, which only the CPU trains", choice)
        });
        let decoupled = (run.settings().optimizer == Optimizer::AdamW).then(|| {
            Error::parameter("device", "cpu or auto with the optimizer adamw, which only the CPU has", choice)
        });
        let asymmetric = run.objective().asymmetric_base().map(|_| {
            let rule = "cpu or auto for the asymmetric loss, which only the CPU computes";
            Error::parameter("device", rule, choice)
        });
        let unfit = weighted.or(hidden).or(decoupled).or(asymmetric).or_else(|| {
            run.objective().transport().and_then(|(_, robust)| {
                let LossSettings { set, frank_wolfe, .. } = robust.settings();
                match set {
                    MetricSet::Srw { .. } | MetricSet::Rkp { .. } => {
                        let rule =
                            format!("cpu or auto for the loss {}, which only the CPU computes", set.name());
                        Some(Error::parameter("device", rule, choice))
                    }
                    _ if *frank_wolfe > 1 && several(run.train().targets()) => {
                        let rule = format!("1 with the device {choice} where rows have several labels");
                        Some(Error::parameter("frank_wolfe", rule, frank_wolfe))
                    }
                    _ => None,
                }
            })
        });
        let (rows, columns) = (run.train().rows(), run.train().features().columns());
        let work = Work::of_products(rows, columns, run.objective().labels(), run.settings().epochs);
        let gpu = choice.open(work, unfit, cache)?;
        Ok(Self { gpu, precision, streamed: false })
    }

    /// Starts training on the device.
    ///
    /// # Errors
    /// When the device fails.
    pub fn trainer<'a>(&mut self, run: &'a FitRun) -> Result<Trainer<'a>> {
        let trainer = run.trainer()?;
        let Some(gpu) = &self.gpu else { return Ok(trainer) };
        let engine = Training::new(gpu, run.train(), run.objective(), run.settings(), self.precision)?;
        self.streamed = engine.is_streamed();
        trainer.with_engine(Box::new(engine))
    }

    /// The model of a trainer, with this device in its description.
    ///
    /// # Errors
    /// When a weight is not finite, or the device fails.
    pub fn finish(&self, run: &FitRun, trainer: Trainer<'_>) -> Result<Fitted> {
        let mut fitted = run.finish(trainer)?;
        let Some(gpu) = &self.gpu else { return Ok(fitted) };
        if self.streamed {
            let note = "the training set does not fit into GPU memory and is streamed to the GPU";
            fitted.notes.push(note.to_owned());
        }
        if self.precision == Precision::Tf32 {
            let rounding = product_rounding(gpu, run.train().features(), fitted.model.weights())?;
            fitted
                .notes
                .push(format!("tf32 changes logits of training rows by {rounding:.1e} of their size"));
            fitted.model.about.product_rounding = Some(rounding);
        }
        fitted.model.about.device = gpu.to_string();
        Ok(fitted)
    }
}

/// Whether a row has more than one label.
fn several(targets: &Targets) -> bool {
    (0..targets.rows()).any(|row| targets.row(row).len() > 1)
}
