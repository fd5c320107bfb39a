//! p-values by rank among arrangements.

use std::cmp::Ordering;

/// Statistics closer than this, relative to the observed one, count as equal: rounding must not decide.
const TIE: f64 = 1e-9;

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

/// The p-value of the least p over several statistics, each a list over the same arrangements. All arrangements are treated
/// alike: each gets its p in every statistic, and they are compared by their least. Equal ones are compared by the largest
/// statistic, in standard deviations above its mean over all arrangements, so that a change beyond all arrangements comes
/// first however many statistics there are.
pub(super) fn least_p_value(statistics: &[&[f64]]) -> f64 {
    let ranks: Vec<Vec<usize>> = statistics.iter().map(|statistics| ranks(statistics)).collect();
    let units: Vec<Vec<f64>> = statistics.iter().map(|statistics| standardized(statistics)).collect();
    let arrangements = ranks.first().map_or(0, Vec::len);
    let least = |b: usize| ranks.iter().map(|ranks| ranks[b]).min();
    let largest = |b: usize| units.iter().map(|units| units[b]).fold(f64::NEG_INFINITY, f64::max);
    let observed = (least(0), largest(0));
    let counts = |b: &usize| match least(*b).cmp(&observed.0) {
        Ordering::Less => true,
        Ordering::Equal => reaches(largest(*b), observed.1),
        Ordering::Greater => false,
    };
    (0..arrangements).filter(counts).count() as f64 / arrangements as f64
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
        assert_eq!(least_p_value(&[&statistics]), p_value(&statistics));
        assert_eq!(least_p_value(&[&statistics, &statistics]), p_value(&statistics));
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
                least_p_value(&[&swapped[0], &swapped[1], &swapped[2]])
            }).collect();
            for &level in &found {
                let share = found.iter().filter(|p| **p <= level).count() as f64 / found.len() as f64;
                prop_assert!(share <= level + 1e-12, "{share} {level}");
            }
        }
    }
}
