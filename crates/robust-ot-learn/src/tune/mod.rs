//! Tuning: [`Tuning`] tries ways to fit a model within a time budget, and fits the best one to all rows.
//!
//! A linear model over all rows comes first. Then models with a hidden layer compete in brackets of successive halving
//! (Jamieson and Talwalkar 2016): the candidates of a bracket share a part of its time, the best third goes on and shares
//! another part, and so on. The time decides how far candidates are trained, so the same seed gives the same order of
//! candidates, but another machine may find another winner; [`Tuned::options`] repeats the fit of the winner exactly.

mod bracket;
mod candidate;
mod clock;
mod contender;
mod journal;
mod run;
mod space;
mod standing;
mod trial;
mod tuner;

pub use self::candidate::{Candidate, StepLoss, Steps, TuneScaling};
pub use self::journal::JOURNAL;
pub use self::trial::Trial;
pub use self::tuner::{TuneEvent, Tuned, Tuning};
