//! The metric sets, each given by its support function and the metric that attains it:
//!
//! $$h(V) = \max_{M \in \mathcal{M}} \langle V, M\rangle - \mathrm{penalty}(M), \qquad
//!   M^\star(V) = \nabla h(V).$$

pub(crate) mod curvature;
mod entrywise;
pub(crate) mod fantope;
mod named;
mod prior;
mod scaling;
mod spectral;

use std::fmt;

use ndarray::Array2;

use self::curvature::Curvature;
pub use self::named::{MetricFamily, SetParameters};
pub use self::prior::Prior;
use crate::error::{Error, Result};
use crate::kernels::sealed::Kernels;
use crate::linalg::{Eigen, EigenWorkspace, flat, inner, sum_over};

/// The largest exponent V/λ: beyond it, e^{V/λ} or a sum of such terms may leave the range of f64.
pub(crate) const LARGEST_EXPONENT: f64 = 600.0;

/// A family of Mahalanobis metrics; the distance is taken under its worst member.
///
/// | set | h(V) | M*(V) |
/// |---|---|---|
/// | `W2` | tr V | I |
/// | `P` | ‖V‖₂ₖ over entries | (V/‖V‖₂ₖ)^∘(2k−1) |
/// | `PPower` | ‖V‖₂ₖ^2k | 2k V^∘(2k−1) |
/// | `Kl` | λ Σ M₀∘(e^{V/λ} − 1) | M₀∘e^{V/λ} |
/// | `Ds` | ⟨V,M*⟩ − λ KL(M*, M₀) | D (M₀∘e^{V/λ}) D, doubly stochastic |
/// | `Features` | λ ln Σ e^{V_aa/λ} − λ(r−1) | diag softmax(diag V/λ) |
/// | `Srw` | sum of the k largest eigenvalues | projector on their space |
/// | `Rkp` | Schatten-ρ norm | U diag((w/‖w‖_ρ)^{ρ−1}) Uᵀ |
///
/// ```
/// use ndarray::array;
/// use robust_ot::MetricSet;
///
/// // Entry-wise 2-norm: the worst metric of unit Frobenius norm points along V.
/// let worst = MetricSet::P { k: 1 }.worst_case(&array![[3.0, 0.0], [0.0, 4.0]])?;
/// assert_eq!(worst.value, 5.0);
/// assert_eq!(worst.metric, array![[0.6, 0.0], [0.0, 0.8]]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum MetricSet {
    /// {I}: the squared 2-Wasserstein distance.
    W2,
    /// {‖M‖_p ≤ 1} with p = 2k/(2k−1), entry-wise.
    P {
        /// k ≥ 1.
        k: u32,
    },
    /// All metrics, with penalty (2k−1)(‖M‖_p/2k)^p: the same plan as [`MetricSet::P`], on another scale.
    PPower {
        /// k ≥ 1.
        k: u32,
    },
    /// All metrics, with penalty λ KL(M, M₀).
    Kl {
        /// λ > 0.
        lambda: f64,
        /// M₀.
        prior: Prior,
    },
    /// Doubly stochastic metrics, with penalty λ KL(M, M₀).
    Ds {
        /// λ > 0.
        lambda: f64,
        /// M₀, without a zero row.
        prior: Prior,
    },
    /// Diagonal metrics of trace one, with an entropic penalty: selects features.
    Features {
        /// λ > 0.
        lambda: f64,
    },
    /// {0 ⪯ M ⪯ I, tr M = k}: subspace robust Wasserstein.
    Srw {
        /// 1 ≤ k ≤ r.
        k: usize,
    },
    /// The unit ball of the Schatten norm dual to ρ.
    Rkp {
        /// ρ in [1, ∞].
        #[cfg_attr(feature = "serde", serde(with = "infinite"))]
        rho: f64,
    },
}

/// h(V) and the metric that attains it.
///
/// ```
/// use ndarray::array;
/// use robust_ot::MetricSet;
///
/// let worst = MetricSet::W2.worst_case(&array![[1.0, 0.5], [0.5, 2.0]])?;
/// assert_eq!(worst.value, 3.0);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WorstCase {
    /// h(V).
    pub value: f64,
    /// M*(V).
    pub metric: Array2<f64>,
    /// The eigendecomposition behind a spectral set, for its curvature.
    pub(crate) spectrum: Option<Eigen>,
}

impl WorstCase {
    /// A zero result, to be overwritten, for metrics of size r × r.
    pub(crate) fn workspace(size: usize) -> Self {
        Self { value: 0.0, metric: Array2::zeros((size, size)), spectrum: None }
    }
}

/// Reusable workspace for evaluating sets.
#[derive(Default)]
pub(crate) struct Buffers {
    eigen: EigenWorkspace,
    scaling: scaling::Buffers,
}

impl MetricSet {
    /// Checks the parameters for metrics of size r × r.
    ///
    /// ```
    /// use robust_ot::MetricSet;
    /// assert!(MetricSet::Srw { k: 3 }.check(5).is_ok());
    /// assert!(MetricSet::Srw { k: 6 }.check(5).is_err());
    /// ```
    ///
    /// # Errors
    /// When a parameter is outside its range or a prior does not fit.
    pub fn check(&self, size: usize) -> Result<()> {
        match self {
            Self::W2 => Ok(()),
            Self::P { k } | Self::PPower { k } if (1..=1 << 29).contains(k) => Ok(()),
            Self::P { k } | Self::PPower { k } => Err(Error::parameter("k", "between 1 and 2^29", k)),
            Self::Kl { lambda, prior } => check_lambda(*lambda).and_then(|()| prior.check(size)),
            Self::Ds { lambda, prior } => {
                check_lambda(*lambda)?;
                prior.check(size)?;
                prior.check_total_support(size)
            }
            Self::Features { lambda } => check_lambda(*lambda),
            Self::Srw { k } if (1..=size).contains(k) => Ok(()),
            Self::Srw { k } => {
                Err(Error::parameter("k", format!("between 1 and the size of the metric, {size}"), k))
            }
            Self::Rkp { rho } if *rho >= 1.0 => Ok(()),
            Self::Rkp { rho } => Err(Error::parameter("rho", "at least 1 (or inf)", rho)),
        }
    }

    /// h(V) and M*(V) for a symmetric positive semi-definite V.
    ///
    /// # Errors
    /// When V is not a square of finite numbers, the parameters do not fit it, or the metric is not representable.
    pub fn worst_case(&self, moment: &Array2<f64>) -> Result<WorstCase> {
        let (rows, columns) = moment.dim();
        if rows != columns || rows == 0 || !moment.iter().all(|v| v.is_finite()) {
            let found = if rows == columns && rows > 0 {
                "not finite".into()
            } else {
                format!("{rows} × {columns}")
            };
            return Err(Error::Shape {
                name: "the moment",
                expected: "square, not empty and finite".into(),
                found,
            });
        }
        self.check(rows)?;
        self.evaluate(moment)
    }

    /// h(0) for metrics of size r × r, the value between equal clouds. It is negative where every metric has a penalty: for
    /// `Features`, and for `Ds` unless its prior is doubly stochastic.
    ///
    /// ```
    /// use robust_ot::MetricSet;
    /// assert_eq!(MetricSet::P { k: 1 }.offset(3)?, 0.0);
    /// assert!((MetricSet::Features { lambda: 2.0 }.offset(3)? - 2.0 * (3.0_f64.ln() - 2.0)).abs() < 1e-12);
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the parameters do not fit the size.
    pub fn offset(&self, size: usize) -> Result<f64> {
        match self {
            Self::Ds { .. } | Self::Features { .. } => {
                Ok(self.worst_case(&Array2::zeros((size, size)))?.value)
            }
            Self::W2
            | Self::P { .. }
            | Self::PPower { .. }
            | Self::Kl { .. }
            | Self::Srw { .. }
            | Self::Rkp { .. } => Ok(0.0),
        }
    }

    /// [`MetricSet::worst_case`] for parameters that are already checked.
    pub(crate) fn evaluate(&self, moment: &Array2<f64>) -> Result<WorstCase> {
        let mut worst = WorstCase::workspace(moment.nrows());
        self.evaluate_into(moment, &mut worst, &mut Buffers::default())?;
        // A power that underflows is as wrong as one that overflows.
        let vanished =
            matches!(self, Self::PPower { .. }) && worst.value == 0.0 && moment.iter().any(|&v| v != 0.0);
        if vanished { Err(self.out_of_range(moment)) } else { Ok(worst) }
    }

    /// [`MetricSet::evaluate`] without allocations after the first call. Powers may underflow to zero, which is the limit
    /// that a loss needs.
    pub(crate) fn evaluate_into(
        &self,
        moment: &Array2<f64>,
        worst: &mut WorstCase,
        workspace: &mut Buffers,
    ) -> Result<()> {
        let metric = &mut worst.metric;
        worst.value = match self {
            Self::W2 => {
                metric.fill(0.0);
                metric.diag_mut().fill(1.0);
                moment.diag().sum()
            }
            Self::P { k } => entrywise::norm(moment, *k, metric),
            Self::PPower { k } => entrywise::norm_power(moment, *k, metric),
            Self::Kl { lambda, prior } => entrywise::kl(moment, *lambda, prior, metric)?,
            Self::Ds { lambda, prior } => {
                scaling::doubly_stochastic(moment, *lambda, prior, metric, &mut workspace.scaling)?
            }
            Self::Features { lambda } => entrywise::features(moment, *lambda, metric),
            Self::Srw { k } => spectral::largest(moment, *k, worst, &mut workspace.eigen)?,
            Self::Rkp { rho } if rho.is_infinite() => {
                spectral::largest(moment, 1, worst, &mut workspace.eigen)?
            }
            Self::Rkp { rho } => spectral::schatten(moment, *rho, worst, &mut workspace.eigen)?,
        };
        // NaN when any entry is not finite.
        let (least, _) = f64::extremes(flat(&worst.metric));
        if worst.value.is_finite() && least.is_finite() { Ok(()) } else { Err(self.out_of_range(moment)) }
    }

    fn out_of_range(&self, moment: &Array2<f64>) -> Error {
        let largest = moment.iter().fold(0.0_f64, |top, v| top.max(v.abs()));
        Error::Range { set: self.name(), largest }
    }

    /// ∇²h at V, where it exists.
    pub(crate) fn curvature(&self, moment: &Array2<f64>, worst: &WorstCase) -> Curvature {
        match self {
            Self::W2 | Self::Srw { .. } => Curvature::Zero,
            Self::P { k } => entrywise::norm_curvature(moment, worst, *k),
            Self::PPower { k } => entrywise::norm_power_curvature(moment, *k),
            Self::Kl { lambda, .. } => entrywise::kl_curvature(worst, *lambda),
            Self::Features { lambda } => entrywise::features_curvature(worst, *lambda),
            Self::Ds { lambda, .. } => Curvature::scaling(worst.metric.clone(), *lambda),
            Self::Rkp { rho } if rho.is_infinite() => Curvature::Zero,
            Self::Rkp { rho } => spectral::schatten_curvature(worst, *rho),
        }
    }

    /// For the sets whose h is not smooth, the k of their fantope {0 ⪯ M ⪯ I, tr M = k}.
    pub(crate) fn fantope(&self) -> Option<usize> {
        match self {
            Self::Srw { k } => Some(*k),
            Self::Rkp { rho } if rho.is_infinite() => Some(1),
            _ => None,
        }
    }

    /// Whether the set is rotation invariant and h requires an eigendecomposition.
    pub(crate) fn is_spectral(&self) -> bool {
        matches!(self, Self::Srw { .. } | Self::Rkp { .. })
    }

    /// An upper bound on the penalty of M*(V), ⟨V, M*⟩ − h(V): a bound on rounding is added.
    pub(crate) fn penalty(&self, moment: &Array2<f64>, worst: &WorstCase) -> f64 {
        let exact = match self {
            Self::W2 | Self::P { .. } | Self::Srw { .. } | Self::Rkp { .. } => 0.0,
            _ => inner(moment, &worst.metric) - worst.value,
        };
        exact + self.rounding(moment, worst)
    }

    /// A bound on h(V + E) − h(V) over all E with ‖E‖_F ≤ `size`: max ⟨E, M⟩ over the set where it is bounded, else from h
    /// itself. For W2, E is a rounding error with |E_ab| ≤ e_a e_b and Σ e_a² ≤ `size`, so its trace is.
    ///
    /// | set | bound for e = `size` |
    /// |---|---|
    /// | `W2`, `P`, `Ds`, `Features` | e: a dual norm that is at most ‖E‖_F; a doubly stochastic ‖M‖₂ ≤ 1 |
    /// | `PPower` | (‖V‖ + e)^2k − ‖V‖^2k |
    /// | `Kl` | λ (e^{e/λ} − 1) Σ M* |
    /// | `Srw` | k e |
    /// | `Rkp` | √r e |
    pub(crate) fn largest_change(&self, worst: &WorstCase, size: f64) -> f64 {
        match self {
            Self::W2 | Self::P { .. } | Self::Ds { .. } | Self::Features { .. } => size,
            Self::PPower { k } => {
                let power = 2.0 * f64::from(*k);
                let norm = worst.value.powf(1.0 / power);
                if norm > 0.0 {
                    worst.value * (power * (size / norm).ln_1p()).exp_m1()
                } else {
                    size.powf(power)
                }
            }
            Self::Kl { lambda, .. } => lambda * (size / lambda).exp_m1() * worst.metric.sum(),
            Self::Srw { k } => *k as f64 * size,
            Self::Rkp { .. } => (worst.metric.nrows() as f64).sqrt() * size,
        }
    }

    /// A bound on the error of the computed h(V) and penalty of M*(V), and on how far M* lies outside its set, including the
    /// error in the row sums of a doubly stochastic metric.
    ///
    /// Sums run over rows first, so that a term passes through 2r roundings; a power to the exponent p multiplies the
    /// relative error of its base by p. The eigenvalues of V are those of a matrix E away, ‖E‖₂ ≤ (r + 16) ε ‖V‖₂. The terms
    /// that cancel in h have size |V_ab| M_ab, or λ where there is a penalty.
    pub(crate) fn rounding(&self, moment: &Array2<f64>, worst: &WorstCase) -> f64 {
        let size = moment.nrows();
        let terms = sum_over(moment, |a, b, v| (v * worst.metric[[a, b]]).abs()) + worst.value.abs();
        let unit = (size + 16) as f64 * f64::EPSILON;
        let of_power = |power: f64| unit + 4.0 * power * f64::EPSILON;
        let top = || worst.spectrum.as_ref().map_or(0.0, |eigen| eigen.values[size - 1].abs());
        match self {
            Self::W2 => unit * terms,
            Self::P { k } | Self::PPower { k } => of_power(2.0 * f64::from(*k)) * terms,
            Self::Kl { prior, .. } => {
                unit * (terms + sum_over(moment, |a, b, v| v.abs() * prior.entry(a, b)))
            }
            Self::Features { lambda } => unit * (terms + lambda * size as f64),
            Self::Ds { lambda, prior } => {
                let (trace, total) = (moment.diag().sum(), prior.total(size));
                // M + diag(1 − M1) has row sums of one, as every M_aa ≥ 1/r² leaves room for it. That changes ⟨V, M⟩ by at most δ tr V
                // and, as λ ln(M_aa / M₀_aa) = 2λ u_a, λ KL by at most δ λ (r + 2 Σ |u|). The dual value counts row sums as one too:
                // that adds another δ tr V.
                let scalings: f64 =
                    worst.metric.diag().indexed_iter().map(|(a, m)| (m / prior.entry(a, a)).ln().abs()).sum();
                let of_row_sums = 2.0 * trace + lambda * (size as f64 + scalings);
                scaling::ROW_SUM_LIMIT * of_row_sums + unit * (trace + lambda * (total + size as f64))
            }
            Self::Srw { k } => unit * (terms + *k as f64 * top()),
            Self::Rkp { rho } if rho.is_infinite() => unit * (terms + top()),
            Self::Rkp { rho } => of_power(*rho) * terms + unit * (size as f64).powf(1.0 / rho) * top(),
        }
    }
}

impl fmt::Display for MetricSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Self::W2 => "w2".to_owned(),
            Self::P { k } => format!("p (k = {k})"),
            Self::PPower { k } => format!("p-power (k = {k})"),
            Self::Kl { lambda, prior } => format!("kl (λ = {lambda}, prior {prior})"),
            Self::Ds { lambda, prior } => format!("ds (λ = {lambda}, prior {prior})"),
            Self::Features { lambda } => format!("features (λ = {lambda})"),
            Self::Srw { k } => format!("srw (k = {k})"),
            Self::Rkp { rho } => format!("rkp (ρ = {rho})"),
        })
    }
}

/// Serializes every ρ as text, since JSON has no number for ∞.
#[cfg(feature = "serde")]
mod infinite {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
    pub(super) fn serialize<S: Serializer>(rho: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&rho.to_string())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

fn check_lambda(lambda: f64) -> Result<()> {
    if lambda > 0.0 && lambda.is_finite() {
        return Ok(());
    }
    Err(Error::parameter("lambda", "positive and finite", lambda))
}

#[cfg(test)]
mod tests;
