//! The robust distance as a statistic: each arrangement is solved until its bounds decide on which side of the observed
//! distance it lies.

use ndarray::{ArrayView2, Axis};
use rayon::prelude::*;
use robust_ot::solve::{Interrupt, SolveOptions, Workspace};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Result, Settings, Solution, Status};

use super::arrangements::Arrangements;

/// Arrangements that are solved before the next look at the number of those that reach the observed distance.
const BATCH: usize = 64;
/// The test ends after this many (Besag and Clifford 1991): the p-value is then this number / arrangements so far.
pub(super) const ENOUGH: usize = 20;
/// How accurately the observed distance is known, relative to its transport cost.
const OBSERVED: f64 = 1e-6;

/// A robust distance between two tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct RobustStatistic<'a> {
    pub values: ArrayView2<'a, f64>,
    pub set: &'a MetricSet,
    pub grouping: &'a Grouping,
    pub settings: &'a Settings,
}

/// How the arrangements compare with the observed one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decisions {
    /// The p-value.
    pub p_value: f64,
    /// The number of arrangements that were looked at, without the observed one.
    pub permutations: usize,
    /// Those whose bounds decided before the solve had converged.
    pub early: usize,
    /// Those that no solve decided; they count as at least as far apart as the observed sides.
    pub undecided: usize,
}

impl RobustStatistic<'_> {
    /// The distance in an arrangement; it may end once it is known on which side of a number it lies.
    pub(super) fn solve(
        &self,
        side: &[bool],
        threshold: Option<f64>,
        workspace: &mut Workspace,
        interrupt: &Interrupt,
    ) -> Result<Solution> {
        let measure = |which: bool| {
            let rows: Vec<usize> = (0..side.len()).filter(|&row| side[row] == which).collect();
            Measure::uniform(self.values.select(Axis(0), &rows))
        };
        let (before, after) = (measure(true)?, measure(false)?);
        let options = SolveOptions {
            interrupt: Some(interrupt),
            workspace: Some(workspace),
            threshold,
            ..SolveOptions::default()
        };
        Problem::grouped(&before, &after, self.set.clone(), self.grouping)?.solve_with(self.settings, options)
    }

    /// The observed distance.
    pub(super) fn observed(&self, arrangements: &Arrangements, interrupt: &Interrupt) -> Result<Solution> {
        let settings = self.settings.with_tolerance(OBSERVED.min(self.settings.tol_gap_rel));
        let side = arrangements.side(0).to_vec();
        let statistic = RobustStatistic {
            values: self.values,
            set: self.set,
            grouping: self.grouping,
            settings: &settings,
        };
        statistic.solve(&side, None, &mut Workspace::default(), interrupt)
    }

    /// Compares arrangements with the observed distance. An arrangement is below it only if its `value` is below the
    /// observed lower bound, so that the p-value is never too small. `None` once interrupted.
    pub(super) fn decide(
        &self,
        arrangements: &Arrangements,
        observed: &Solution,
        interrupt: &Interrupt,
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<Option<Decisions>> {
        let mut found = Decisions { p_value: 1.0, permutations: 0, early: 0, undecided: 0 };
        let mut reached = 0;
        // What lies between the observed bounds is not decided by either.
        let threshold = observed.lower_bound;
        for first in (1..arrangements.len()).step_by(BATCH) {
            let batch: Vec<usize> = (first..(first + BATCH).min(arrangements.len())).collect();
            let solve = |workspace: &mut Workspace, &number: &usize| {
                let side = arrangements.side(number).to_vec();
                let solution = self.solve(&side, Some(threshold), workspace, interrupt)?;
                done(1);
                let certain = solution.value < threshold || solution.lower_bound >= threshold;
                Ok((solution.value < threshold, solution.status == Status::Decided, certain))
            };
            let solved = batch.par_iter().map_init(Workspace::default, solve).collect::<Result<Vec<_>>>()?;
            if interrupt.is_raised() {
                return Ok(None);
            }
            for (below, early, certain) in solved {
                found.permutations += 1;
                found.early += usize::from(early);
                found.undecided += usize::from(!certain);
                reached += usize::from(!below);
                if reached == ENOUGH && !arrangements.exhaustive {
                    found.p_value = ENOUGH as f64 / found.permutations as f64;
                    return Ok(Some(found));
                }
            }
        }
        found.p_value = (1 + reached) as f64 / (1 + found.permutations) as f64;
        Ok(Some(found))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "p-values are quotients of counts")]
mod tests {
    use ndarray::Array2;
    use rand::RngExt;

    use super::*;
    use crate::compare::Exchange;
    use crate::testing::rng;

    /// Deciding early gives the p-value of the same rule with every arrangement solved to the end: 200 comparisons.
    #[test]
    fn early_decisions_change_no_p_value() {
        let (mut rng, interrupt) = (rng(11), Interrupt::default());
        let mut early = 0;
        for round in 0..200 {
            let shift = f64::from(round % 4) * 0.4;
            // A few are so large that a solve ends before its first plan is optimal.
            let (m, n) = if round % 25 == 0 { (24, 30) } else { (6 + round as usize % 3, 8) };
            let values = Array2::from_shape_fn((m + n, 3), |(row, column)| {
                rng.random::<f64>() + if row < m && column == 0 { shift } else { 0.0 }
            });
            let sets = [
                MetricSet::W2,
                MetricSet::P { k: 1 },
                MetricSet::Srw { k: 1 },
                MetricSet::Features { lambda: 0.1 },
            ];
            let set = &sets[round as usize % 4];
            let settings = Settings::default();
            let grouping = Grouping::none(3);
            let statistic =
                RobustStatistic { values: values.view(), set, grouping: &grouping, settings: &settings };
            let arrangements = Arrangements::new((m, n), &Exchange::Free, 60, 5).unwrap();
            let observed = statistic.observed(&arrangements, &interrupt).unwrap();
            let found = statistic.decide(&arrangements, &observed, &interrupt, &|_| ()).unwrap().unwrap();
            let (mut reached, mut seen, mut p_value) = (0, 0, None);
            for number in 1..arrangements.len() {
                let side = arrangements.side(number).to_vec();
                let workspace = &mut Workspace::default();
                let solved = statistic.solve(&side, None, workspace, &interrupt).unwrap();
                (reached, seen) = (reached + usize::from(solved.value >= observed.lower_bound), seen + 1);
                if reached == ENOUGH {
                    p_value = Some(ENOUGH as f64 / f64::from(seen));
                    break;
                }
            }
            let expected = p_value.unwrap_or((1.0 + reached as f64) / (1.0 + f64::from(seen)));
            assert_eq!(found.p_value, expected, "{set} {round}");
            early += found.early;
        }
        assert!(early > 1000, "{early}");
    }
}
