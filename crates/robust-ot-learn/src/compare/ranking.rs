//! p-values by rank among arrangements.

/// Statistics closer than this, relative to the observed one, count as equal: rounding must not decide.
const TIE: f64 = 1e-9;
/// Keeps exponentials and their sums finite.
const LARGEST_EXPONENT: f64 = 600.0;

/// Whether a statistic counts as at least as large as another.
pub(super) fn reaches(statistic: f64, other: f64) -> bool {
    statistic >= other - TIE * other.abs()
}

/// #{b : T_b ≥ T_0} / B for the first of B arrangements.
pub(super) fn p_value(statistics: &[f64]) -> f64 {
    let reached = statistics.iter().filter(|statistic| reaches(**statistic, statistics[0])).count();
    reached as f64 / statistics.len() as f64
}

/// #{b : T_b ≥ T_c} for every arrangement c.
fn ranks(statistics: &[f64]) -> Vec<usize> {
    let mut sorted = statistics.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = |other: f64| sorted.partition_point(|statistic| !reaches(*statistic, other));
    statistics.iter().map(|&other| sorted.len() - below(other)).collect()
}

/// The p-value of Σ_k w_k/p_k over several statistics T_k, each a list over the same arrangements with its weight: the
/// reciprocal of the harmonic mean of their p-values (Wilson 2019). One small p_k decides it, as in the least of them, but
/// several that are rather small count as well. All arrangements are treated alike: each gets its p-value in every statistic, and they are
/// compared by the sum, so that the test is exact however the statistics depend on each other.
pub(super) fn combined_p_value(statistics: &[(f64, &[f64])]) -> f64 {
    let weighted = |(weight, statistics): &(f64, &[f64])| {
        let strengths = strengths(statistics);
        strengths.into_iter().map(|strength| weight * strength).collect()
    };
    let strengths: Vec<Vec<f64>> = statistics.iter().map(weighted).collect();
    let arrangements = strengths.first().map_or(0, Vec::len);
    let sum = |b: usize| {
        let mut terms: Vec<f64> = strengths.iter().map(|strengths| strengths[b]).collect();
        // In an order of their own, so that the same terms have the same sum.
        terms.sort_by(f64::total_cmp);
        terms.into_iter().sum::<f64>()
    };
    let observed = sum(0);
    (0..arrangements).filter(|&b| reaches(sum(b), observed)).count() as f64 / arrangements as f64
}

/// 1 / #{b : T_b ≥ T_c} for every arrangement c, which is 1 / (B p_c). The p-value of the largest statistic of all cannot say
/// how far it is beyond the second; it is extrapolated by an exponential tail: with z in standard deviations,
/// exp(z₁ − max(z₂, 0)).
fn strengths(statistics: &[f64]) -> Vec<f64> {
    let ranks = ranks(statistics);
    let mut strengths: Vec<f64> = ranks.iter().map(|&rank| 1.0 / rank as f64).collect();
    if let Some(first) = ranks.iter().position(|&rank| rank == 1) {
        let units = standardized(statistics);
        let others = units.iter().enumerate().filter(|(b, _)| *b != first);
        let second = others.fold(0.0_f64, |second, (_, z)| second.max(*z));
        strengths[first] = (units[first] - second).min(LARGEST_EXPONENT).exp();
    }
    strengths
}

/// (T − mean) / standard deviation over all arrangements; zero where all are equal.
fn standardized(statistics: &[f64]) -> Vec<f64> {
    let count = statistics.len() as f64;
    let mean = statistics.iter().sum::<f64>() / count;
    let spread = (statistics.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / count).sqrt();
    statistics.iter().map(|t| if spread > TIE * mean.abs() { (t - mean) / spread } else { 0.0 }).collect()
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "p-values are quotients of counts")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ties_count_against_a_difference() {
        assert_eq!(p_value(&[3.0, 1.0, 3.0 - 1e-12, 4.0]), 0.75);
        assert_eq!(p_value(&[-3.0, -3.0 - 1e-12, -4.0, -5.0]), 0.5);
        assert_eq!(p_value(&[0.0; 5]), 1.0);
    }

    #[test]
    fn one_statistic_keeps_its_p_value() {
        let statistics = [2.0, 5.0, 1.0, 2.0, 0.5];
        assert_eq!(combined_p_value(&[(2.0, &statistics)]), p_value(&statistics));
        assert_eq!(combined_p_value(&[(1.0, &statistics), (0.5, &statistics)]), p_value(&statistics));
    }

    #[test]
    fn a_statistic_beyond_all_others_decides_alone() {
        let clear: Vec<f64> = (0..40).map(|b| if b == 0 { 500.0 } else { f64::from(b * 17 % 40) }).collect();
        let others: Vec<Vec<f64>> =
            (2..6).map(|step| (0..40).map(|b| f64::from((b * (2 * step + 1) + 9) % 40)).collect()).collect();
        let all: Vec<(f64, &[f64])> =
            others.iter().chain(std::iter::once(&clear)).map(|one| (1.0, one.as_slice())).collect();
        assert!(others.iter().all(|other| p_value(other) > 0.2));
        assert_eq!(combined_p_value(&all), 1.0 / 40.0);
    }

    #[test]
    fn several_small_p_values_count_more_than_one() {
        // The observed arrangement is the third of 100 in four statistics; another is the second in one of them.
        let statistics: Vec<Vec<f64>> = (0..4)
            .map(|k| {
                let mut order: Vec<f64> = (0..100).map(|b| f64::from((b * 37 + 11 * k) % 97)).collect();
                order[0] = 200.0;
                (order[10 + k as usize], order[20 + k as usize]) = (300.0, 250.0);
                order
            })
            .collect();
        let all: Vec<(f64, &[f64])> = statistics.iter().map(|one| (1.0, one.as_slice())).collect();
        assert!(statistics.iter().all(|one| p_value(one) == 0.03));
        // Only the four that are first in one statistic can be above.
        assert!(combined_p_value(&all) <= 0.05);
    }

    proptest! {
        /// The p-values of all arrangements, each taken as the observed one, are super-uniform: this makes the test exact.
        #[test]
        fn p_values_of_all_arrangements_are_super_uniform(
            rows in prop::collection::vec((0_u8..6, 0_u8..6, 0_u8..40), 1..30),
        ) {
            let columns: Vec<Vec<f64>> = [
                rows.iter().map(|row| f64::from(row.0)).collect(),
                rows.iter().map(|row| f64::from(row.1)).collect(),
                rows.iter().map(|row| f64::from(row.2)).collect(),
            ].into();
            let found: Vec<f64> = (0..rows.len()).map(|first| {
                let swapped: Vec<Vec<f64>> = columns.iter().map(|column| {
                    let mut column = column.clone();
                    column.swap(0, first);
                    column
                }).collect();
                combined_p_value(&[(1.0, &swapped[0]), (0.5, &swapped[1]), (1.0, &swapped[2])])
            }).collect();
            for &level in &found {
                let share = found.iter().filter(|p| **p <= level).count() as f64 / found.len() as f64;
                prop_assert!(share <= level + 1e-12, "{share} {level}");
            }
        }
    }
}
