//! Robust transport as a loss between a prediction $h \in \Delta_L$ and the true labels $\hat y = y / \Vert y\Vert_1$, with the
//! vectors $l_p$ of the labels as points:
//!
//! $$W(h, \hat y) = \min_{\gamma \in \Pi(h, \hat y)} h(V_\gamma) + \lambda_\gamma \sum_{pq} \gamma_{pq} \ln \gamma_{pq}, \qquad
//!   \nabla_h W = \tfrac{1}{n_y} A 1 - \mathrm{mean}, \quad A = C(M^\star) + \lambda_\gamma (\ln \gamma + 1).$$
//!
//! Only the $n_y$ columns that carry mass are formed, and a batch takes a handful of matrix products: never $L \times L$ per
//! sample.

mod batch;
mod bracket;
mod chunk;
mod columns;
mod labels;
mod settings;
mod targets;
mod workspace;

pub use self::batch::{LossGradient, LossPlan, RobustLoss};
pub use self::labels::Labels;
pub use self::settings::LossSettings;
pub use self::targets::Targets;
pub use self::workspace::LossWorkspace;
