//! `robust_ot._core`: conversions between Python and the Rust library, and nothing else.

mod arrays;
mod barycenter;
mod columns;
mod command;
mod compare;
mod cuda_loss;
mod device;
mod dictionary;
mod distance;
mod error;
mod fit;
mod fit_settings;
mod gradient;
mod learner;
mod loss;
mod metric;
mod model;
mod model_keywords;
mod nearest;
mod plain;
mod scores;
mod screens;
mod solution;
mod targets;
mod threads;
mod tune;
mod vectors;

use pyo3::prelude::*;

/// Keeps memory between solves. The system allocator returns pages after each solve and faults them in again for the next.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exports of the extension module; the other modules of this crate implement them.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::barycenter::barycenter;
    #[pymodule_export]
    use crate::columns::match_columns;
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::compare::compare;
    #[pymodule_export]
    use crate::cuda_loss::CudaLoss;
    #[pymodule_export]
    use crate::distance::{check_measure, distance, metric_offset, pairwise};
    #[pymodule_export]
    use crate::fit::fit;
    #[pymodule_export]
    use crate::fit_settings::{default_groups, training_schedule};
    #[pymodule_export]
    use crate::gradient::{differentiate, differentiate_clouds};
    #[pymodule_export]
    use crate::learner::Learner;
    #[pymodule_export]
    use crate::loss::RobustLoss;
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::nearest::{Neighbors, nearest};
    #[pymodule_export]
    use crate::plain::{emd, emd_on_arcs, sinkhorn};
    #[pymodule_export]
    use crate::scores::{ndcg_at, precision_at, propensity_scored_precision_at, rank, scores, top_cost};
    #[pymodule_export]
    use crate::screens::{Layout, Means, Screen};
    #[pymodule_export]
    use crate::solution::Solution;
    #[pymodule_export]
    use crate::threads::{get_threads, set_threads};
    #[pymodule_export]
    use crate::tune::tune;
    #[pymodule_export]
    use crate::vectors::{label_vectors, read_vec};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
