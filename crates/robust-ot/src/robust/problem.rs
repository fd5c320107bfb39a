//! The robust problem:
//!
//! $$W = \min_{\gamma \in \Pi(a,b)} h(V_\gamma) + \lambda_\gamma \sum_{ij} \gamma_{ij} \ln \gamma_{ij}.$$

use std::sync::Arc;

use ndarray::Array1;

use super::coordinates::Coordinates;
use super::frank_wolfe::{self, When};
use super::oracle::LinearOracle;
use super::settings::Settings;
use super::solution::Solution;
use super::span::Span;
use super::workspace::Workspace;
use crate::displacement::{Displacements, center};
use crate::error::{Error, Result};
use crate::grouping::Grouping;
use crate::interrupt::Interrupt;
use crate::measure::Measure;
use crate::metric::MetricSet;
use crate::transport::EntropicOracle;

/// How a solve runs, in addition to its [`Settings`].
///
/// ```
/// use ndarray::array;
/// use robust_ot::solve::{Interrupt, SolveOptions};
/// use robust_ot::{Measure, MetricSet, Problem, Settings};
///
/// let (a, b) = (Measure::uniform(array![[0.0], [1.0]])?, Measure::uniform(array![[1.0], [3.0]])?);
/// let interrupt = Interrupt::default();
/// interrupt.raise();
/// let options = SolveOptions { interrupt: Some(&interrupt), ..Default::default() };
/// let solution = Problem::new(&a, &b, MetricSet::W2)?.solve_with(&Settings::default(), options)?;
/// assert!(solution.lower_bound <= solution.value);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SolveOptions<'a> {
    /// Once raised, the solve returns its current bounds.
    pub interrupt: Option<&'a Interrupt>,
    /// Buffers left by an earlier solve.
    pub workspace: Option<&'a mut Workspace>,
    /// Another device for the plain entropic problems; unused without entropy.
    pub device: Option<Box<dyn EntropicOracle>>,
    /// The solve ends as soon as it is known on which side of this number W lies: `value` < threshold or
    /// threshold ≤ `lower_bound`.
    pub threshold: Option<f64>,
}

/// Two measures, a metric set, optional feature groups and entropy.
///
/// ```
/// use ndarray::array;
/// use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings};
///
/// let source = Measure::uniform(array![[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])?;
/// let target = Measure::uniform(array![[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]])?;
/// let problem = Problem::grouped(&source, &target, MetricSet::P { k: 1 }, &Grouping::contiguous(4, 2)?)?
///     .with_entropy(0.01)?;
/// let solution = problem.solve(&Settings::default())?;
/// assert!(solution.lower_bound <= solution.value);
/// assert_eq!(solution.metric.dim(), (2, 2));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Problem {
    pub(super) maps: Arc<Displacements>,
    pub(super) source_weights: Array1<f64>,
    pub(super) target_weights: Array1<f64>,
    pub(super) set: MetricSet,
    pub(super) entropy: f64,
    pub(super) coordinates: Arc<Coordinates>,
    /// The sums of both weights before they were scaled.
    pub(super) masses: (f64, f64),
}

impl Problem {
    /// The distance between two measures under a metric on all features.
    ///
    /// # Errors
    /// When the dimensions differ or the metric set's parameters do not fit.
    pub fn new(source: &Measure, target: &Measure, set: MetricSet) -> Result<Self> {
        Self::grouped(source, target, set, &Grouping::none(source.dim()))
    }

    /// The distance under a metric on groups of features.
    ///
    /// # Errors
    /// When the dimensions differ, or the grouping or the metric set's parameters do not fit.
    pub fn grouped(source: &Measure, target: &Measure, set: MetricSet, grouping: &Grouping) -> Result<Self> {
        let maps = Displacements::new(source, target, grouping)?;
        set.check(maps.size())?;
        let (source_weights, target_weights) = (source.weights().clone(), target.weights().clone());
        let (center, grouping) = (center(source, target), grouping.clone());
        let span = if set.is_spectral() && grouping.slots() == 1 { Span::of(&maps, &set) } else { None };
        let (maps, set) = match &span {
            None => (maps, set),
            Some(span) => (span.project(&maps, &source_weights, &target_weights), span.restrict(set)),
        };
        let masses = (source.mass(), target.mass());
        let coordinates = Arc::new(Coordinates { center, grouping, span });
        Ok(Self {
            maps: Arc::new(maps),
            source_weights,
            target_weights,
            set,
            entropy: 0.0,
            coordinates,
            masses,
        })
    }

    /// Adds λ_γ Σ γ ln γ to the objective; 0 gives exact plans.
    ///
    /// # Errors
    /// When λ_γ is negative, not finite or above 1e200.
    pub fn with_entropy(mut self, entropy: f64) -> Result<Self> {
        check_entropy(entropy)?;
        self.entropy = entropy;
        Ok(self)
    }

    /// Solves the problem. Failure to converge is a [`Status`](crate::Status) of the solution, not an error.
    ///
    /// # Errors
    /// When a setting is out of range or the metric is not representable.
    pub fn solve(&self, settings: &Settings) -> Result<Solution> {
        self.solve_with(settings, SolveOptions::default())
    }

    /// Solves the problem with an interrupt, shared buffers or another device.
    ///
    /// # Errors
    /// When a setting is out of range, the metric is not representable, or the device fails.
    pub fn solve_with(&self, settings: &Settings, options: SolveOptions<'_>) -> Result<Solution> {
        self.solve_from(settings, options, &mut None)
    }

    /// Solves the problem with the oracle of an earlier one, which starts where that ended, and leaves it for the next. The
    /// earlier problem must have had the same weights, entropy and memory.
    pub(crate) fn solve_from(
        &self,
        settings: &Settings,
        options: SolveOptions<'_>,
        oracle: &mut Option<LinearOracle>,
    ) -> Result<Solution> {
        let mut solution = self.solve_seen(settings, options, oracle)?;
        self.lift(&mut solution);
        Ok(solution)
    }

    /// Lifts metric and moment out of the span of the points.
    pub(super) fn lift(&self, solution: &mut Solution) {
        if let Some(span) = &self.coordinates.span {
            span.lift(solution);
        }
    }

    /// Solves the problem; metric and moment are those of the points as they are seen.
    pub(super) fn solve_seen(
        &self,
        settings: &Settings,
        options: SolveOptions<'_>,
        oracle: &mut Option<LinearOracle>,
    ) -> Result<Solution> {
        let SolveOptions { interrupt, workspace, device, threshold } = options;
        let (mut own_workspace, own_interrupt) = (Workspace::default(), Interrupt::default());
        let workspace = workspace.unwrap_or(&mut own_workspace);
        let end = When { interrupt: interrupt.unwrap_or(&own_interrupt), threshold };
        settings.check()?;
        frank_wolfe::minimize(self, settings, workspace, (device, oracle), end).map_err(|error| match error {
            // The safe λ covers every plan between these points, not only the one that overflowed.
            Error::Overflow { lambda, largest, .. } => {
                let safe = self.maps.largest_moment() / crate::metric::LARGEST_EXPONENT;
                Error::Overflow { lambda, largest, safe: safe * 1.001 }
            }
            other => other,
        })
    }
}

/// Checks λ_γ.
pub(crate) fn check_entropy(entropy: f64) -> Result<()> {
    if (0.0..=1e200).contains(&entropy) {
        return Ok(());
    }
    Err(Error::parameter("entropy", "not negative and at most 1e200", entropy))
}
