//! The robust problem and its solvers.

mod active;
mod cholesky;
mod corpus;
mod corrective;
mod descent;
mod entropic_oracle;
mod frame;
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
pub use self::entropic_oracle::{EntropicAnswer, EntropicOracle, EntropicTask};
pub(crate) use self::frame::Frame;
pub use self::means::Means;
pub use self::oracle::Oracle;
pub use self::pairs::{PairAnswers, PairDistance, PairOracle, PairRound, PairSettings, solve_pairs};
pub use self::problem::Problem;
pub use self::screen::Screen;
pub use self::settings::{Settings, Solver};
pub use self::solution::{Solution, Step};
pub use self::status::Status;
pub use self::storage::Storage;
pub use self::workspace::{Workspace, solve_all};
