//! The options of `rot train` except for data and outputs.

use std::path::Path;

use clap::Args;
use robust_ot_cuda::{DeviceChoice, Precision};
use robust_ot_learn::{FitSettings, Memory, Preparation, Protocol, TrainingChoice};

use crate::failure::Failure;
use crate::hidden_options::HiddenOptions;
use crate::loss_options::LossOptions;
use crate::metric_options::SetOptions;
use crate::prior_options::PriorOptions;
use crate::training_options::TrainingOptions;

/// Loss, metric set and training.
#[derive(Debug, Clone, Args)]
pub struct FitOptions {
    #[command(flatten)]
    loss: LossOptions,
    #[command(flatten)]
    sets: SetOptions,
    #[command(flatten)]
    prior: PriorOptions,
    #[command(flatten)]
    hidden: HiddenOptions,
    #[command(flatten)]
    training: TrainingOptions,
}

impl FitOptions {
    /// The settings, checked as far as they can be without data.
    pub fn read(&self, preparation: Preparation) -> Result<FitSettings, Failure> {
        let protocol = self.training.protocol;
        let (loss, targets) = self.loss.read(&self.sets, protocol)?;
        let settings = FitSettings {
            loss,
            targets,
            training: TrainingChoice { hidden: self.hidden.read(), ..self.training.read() },
            prior: self.prior.read(),
            preparation,
            validation: self.training.validation,
            select: self.training.select,
            protocol,
            seed: self.training.seed,
            memory: Memory::free(),
        };
        settings.check()?;
        Ok(settings)
    }

    /// The input files.
    pub fn inputs(&self) -> Vec<&Path> {
        self.sets.inputs()
    }

    /// Seed of samples, random groups and the order of rows.
    pub fn seed(&self) -> u64 {
        self.training.seed
    }

    /// The published settings to train with, if any.
    pub fn protocol(&self) -> Option<Protocol> {
        self.training.protocol
    }

    /// The device, and the precision of matrix products on a GPU.
    pub fn device(&self) -> (DeviceChoice, Precision) {
        (self.training.device, self.training.precision)
    }

    /// Overrides the device of the options.
    pub fn set_device(&mut self, device: DeviceChoice) {
        self.training.device = device;
    }
}
