//! Every choice of a fit.

use robust_ot::solve::Interrupt;
use robust_ot::{Error, Result};

use super::full_fit::FullFit;
use super::loss_choice::LossChoice;
use super::method::Method;
use super::preparation::Preparation;
use super::prior_choice::PriorChoice;
use super::protocol::Protocol;
use super::run::{FitRun, Fitted};
use super::samples::Samples;
use super::target_choice::TargetChoice;
use super::training_choice::TrainingChoice;
use crate::criterion::Criterion;
use crate::memory::Memory;

/// How a model is fitted. The defaults of the command `rot train` and of the Python classifier are the defaults here.
///
/// ```
/// use ndarray::{Array2, array};
/// use robust_ot::loss::Targets;
/// use robust_ot_learn::data::Features;
/// use robust_ot_learn::{Dataset, FitSettings, Samples};
///
/// let rows = Array2::from_shape_fn((60, 1), |(row, _)| if row % 2 == 0 { -1.0 } else { 1.0 });
/// let labels = (0..60).map(|row| [row % 2]);
/// let train = Dataset::new(Features::Dense(rows), Targets::new(2, labels)?)?;
/// let samples = Samples::new(train, vec!["left".into(), "right".into()]);
/// let fitted = FitSettings::default().fit(samples)?;
/// assert!(fitted.model.probabilities(Features::Dense(array![[2.0]]))?[[0, 1]] > 0.5);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FitSettings {
    /// What is minimized.
    pub loss: LossChoice,
    /// The targets of cross-entropy.
    pub targets: TargetChoice,
    /// How it is minimized.
    pub training: TrainingChoice,
    /// The penalty on the weights, for fits over all rows at once.
    pub prior: PriorChoice,
    /// The scaling of features.
    pub preparation: Preparation,
    /// The fraction of the training rows to hold out, 0 for none; the weights of the epoch that is best on them are kept. The default is 0.1 with at least 200 rows, else 0.
    pub validation: Option<f64>,
    /// What held-out rows choose by: a candidate over all rows at once, by default [`Criterion::Rank`], or the epoch with
    /// stochastic steps, by default [`Criterion::Auc`].
    pub select: Option<Criterion>,
    /// Published settings that replace the defaults.
    pub protocol: Option<Protocol>,
    /// Seed of the order of rows, the held-out rows and random groups.
    pub seed: u64,
    /// The memory that models and label vectors may take.
    pub memory: Memory,
}

impl Default for FitSettings {
    fn default() -> Self {
        Self {
            loss: LossChoice::default(),
            targets: TargetChoice::default(),
            training: TrainingChoice::default(),
            prior: PriorChoice::default(),
            preparation: Preparation::default(),
            validation: None,
            select: None,
            protocol: None,
            seed: 0,
            memory: Memory(usize::MAX),
        }
    }
}

impl FitSettings {
    /// Holds rows out, scales features, trains and describes the model.
    ///
    /// # Errors
    /// When a setting does not fit the data, or training diverges.
    pub fn fit(&self, samples: Samples) -> Result<Fitted> {
        let interrupt = Interrupt::default();
        let (method, note) = self.method_for(&samples.train);
        if method == Method::FullBatch {
            let fitted = FullFit::new(self, samples)?.run(&interrupt, &mut |_| ())?;
            return fitted.ok_or_else(|| Error::parameter("interrupt", "not raised", "raised"));
        }
        let run = FitRun::new(self, samples)?;
        let mut trainer = run.trainer()?;
        while trainer.epoch(&interrupt, |_, _| ())?.is_some() {}
        let mut fitted = run.finish(trainer)?;
        fitted.notes.extend(note);
        Ok(fitted)
    }

    /// Refuses settings out of range, whatever the data.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn check(&self) -> Result<()> {
        self.loss.check(self.loss.name_under(self.protocol), self.protocol)?;
        self.targets.check()?;
        self.prior.check()?;
        self.check_method()?;
        if let Some(part) = self.validation.filter(|part| !(0.0..1.0).contains(part)) {
            return Err(Error::parameter(
                "validation",
                "a fraction of the rows, from 0 to less than 1",
                part,
            ));
        }
        self.training.settings(usize::MAX, true, self.protocol, self.seed).map(|_| ())
    }

    /// The fraction to hold out of this number of rows.
    pub(super) fn held_out(&self, rows: usize) -> Option<f64> {
        match self.validation {
            None => TrainingChoice::held_out(self.protocol, rows),
            Some(part) => (part != 0.0).then_some(part),
        }
    }
}
