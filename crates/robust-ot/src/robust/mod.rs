//! The robust problem and its solvers.

mod active;
mod cholesky;
mod coordinates;
mod corpus;
mod corrective;
mod descent;
mod device_cloud;
mod device_oracle;
mod device_pairs;
mod divergence;
mod exact_bracket;
mod frank_wolfe;
mod gradient;
mod images;
mod line_search;
mod means;
mod model;
mod nearest;
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

pub(crate) use self::active::{Vertex, VertexPlan};
pub use self::corpus::Corpus;
pub(crate) use self::descent::Descent;
pub use self::device_cloud::{
    CloudAnswer, CloudDistance, CloudMoments, CloudOracle, CloudPlan, CloudTask, solve_cloud_on,
};
pub use self::device_pairs::{PairAnswers, PairOracle, PairRound, solve_pairs_on};
pub use self::divergence::Divergence;
pub use self::gradient::Gradient;
pub use self::means::Means;
pub use self::nearest::{Nearest, NearestSettings, Neighbor, nearest};
pub use self::oracle::LinearOracle;
pub(crate) use self::oracle::sharpened;
pub(crate) use self::pairs::trace_only;
pub use self::pairs::{PairDistance, PairSettings, solve_pairs};
pub(crate) use self::problem::check_entropy;
pub use self::problem::{Problem, SolveOptions};
pub use self::screen::Screen;
pub use self::settings::{Settings, StepRule};
pub use self::solution::{Solution, Step};
pub use self::status::Status;
pub use self::storage::Storage;
pub use self::workspace::Workspace;
