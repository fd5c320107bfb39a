//! What is chosen on held-out rows: the loss, the scaling of features, the prior and its strength.

mod bench;
mod blend;
mod calibration;
mod climb;
mod folds;
mod held_out;
mod search;
mod tried;

pub(super) use self::bench::{RowsOfLabels, kernel_of};
pub use self::blend::BlendPart;
pub(super) use self::blend::blend_name;
pub use self::calibration::Calibration;
pub(super) use self::calibration::{calibrate_beside, offset_of};
pub(super) use self::folds::{SMALL, Split, counts};
pub(super) use self::held_out::HeldOut;
pub(super) use self::search::{Chosen, Options, Part, Search};
pub use self::tried::Tried;
