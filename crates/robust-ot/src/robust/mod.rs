//! The robust problem and its solvers.

mod active;
mod cholesky;
mod corpus;
mod corrective;
mod descent;
mod device_oracle;
mod device_pairs;
mod exact_bracket;
mod frank_wolfe;
mod line_search;
mod means;
mod model;
mod oracle;
mod pairs;
mod problem;
mod screen;
mod settings;
mod simplex_qp;
mod solution;
mod span;
mod status;
mod storage;
mod workspace;

pub use self::corpus::Corpus;
pub use self::device_pairs::{PairAnswers, PairOracle, PairRound, solve_pairs_on};
pub use self::means::Means;
pub use self::oracle::LinearOracle;
pub use self::pairs::{PairDistance, PairSettings, solve_pairs};
pub use self::problem::{Problem, SolveOptions};
pub use self::screen::Screen;
pub use self::settings::{Settings, StepRule};
pub use self::solution::{Solution, Step};
pub use self::status::Status;
pub use self::storage::Storage;
pub use self::workspace::Workspace;
