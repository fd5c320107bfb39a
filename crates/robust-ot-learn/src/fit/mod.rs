//! Fitting a model to samples in memory: [`FitSettings`] holds every choice and every default.
//!
//! [`FitSettings::fit`] does everything at once. [`FitRun`] gives control over the individual steps: another device,
//! checkpoints, progress. [`StreamingFit`] learns from rows that arrive in parts.

mod full_fit;
mod geometry;
mod hidden_choice;
mod hidden_labels;
mod label_subset;
mod loss_choice;
mod method;
mod objective;
mod penalized;
mod preparation;
mod prior_choice;
mod protocol;
mod run;
mod samples;
mod settings;
mod streaming;
mod target_choice;
mod training_choice;

pub use self::full_fit::{FitEvent, FullFit};
pub use self::geometry::Geometry;
pub use self::hidden_choice::HiddenChoice;
pub(super) use self::label_subset::too_few_to_choose;
pub use self::loss_choice::{LossChoice, LossName, MixBase};
pub use self::method::Method;
pub(super) use self::method::{decomposition_of, work_of};
pub use self::preparation::{Columns, Preparation};
pub use self::prior_choice::PriorChoice;
pub use self::protocol::Protocol;
pub use self::run::{FitRun, Fitted, zero_rows_note};
pub use self::samples::Samples;
pub use self::settings::FitSettings;
pub use self::streaming::StreamingFit;
pub use self::target_choice::TargetChoice;
pub use self::training_choice::TrainingChoice;
