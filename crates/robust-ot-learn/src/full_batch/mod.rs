//! Minimization over all rows at once, to the optimum: L-BFGS in coordinates that are close to the right ones, and the
//! squared error in closed form.

mod lbfgs;
mod ridge;
mod spectrum;
mod sums;
mod whitened;

pub(super) use self::lbfgs::Stop;
pub(super) use self::ridge::{Ridge, in_spectrum};
pub(super) use self::spectrum::{MOST_FEATURES, Spectrum};
pub(super) use self::whitened::{Linear, Penalty, Whitened, starts};
