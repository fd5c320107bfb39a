//! How candidates stand among each other.

use crate::criterion::{Criterion, HeldScores};

/// How good each of these scores is among all of them; larger is better.
///
/// By [`Criterion::Rank`], it is minus the mean of the ranks in AUC, average precision and precision at 1: the noise of
/// precision, which counts single rows, would decide a sum. Of equal means, the larger sum is better. By other criteria, it is
/// the score.
pub(super) fn standings(scores: &[HeldScores], select: Criterion) -> Vec<(f64, f64)> {
    let sum = |scores: &HeldScores| select.of(scores);
    if select != Criterion::Rank {
        return scores.iter().map(|scores| (sum(scores), 0.0)).collect();
    }
    let parts = [Criterion::Auc, Criterion::AveragePrecision, Criterion::PrecisionAt1];
    let rank = |own: &HeldScores, part: Criterion| {
        let better = scores.iter().filter(|other| part.of(other) > part.of(own)).count();
        let ties = scores.iter().filter(|other| part.of(other).total_cmp(&part.of(own)).is_eq()).count();
        better as f64 + 0.5 * ties as f64
    };
    scores.iter().map(|own| (-parts.iter().map(|part| rank(own, *part)).sum::<f64>(), sum(own))).collect()
}

/// The places of these scores, the best first, and the first of equals first.
pub(super) fn order(scores: &[HeldScores], select: Criterion) -> Vec<usize> {
    let standings = standings(scores, select);
    let mut places: Vec<usize> = (0..scores.len()).collect();
    places.sort_by(|&x, &y| {
        let (x, y) = (standings[x], standings[y]);
        y.0.total_cmp(&x.0).then(y.1.total_cmp(&x.1))
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(auc: f64, map: f64, precision_at_1: f64) -> HeldScores {
        HeldScores { auc, map, precision_at_1, semantic_cost: Some(1.0 - auc) }
    }

    #[test]
    fn one_noisy_score_does_not_decide_the_rank() {
        let all = [scores(0.70, 0.10, 0.50), scores(0.80, 0.20, 0.45), scores(0.79, 0.19, 0.44)];
        assert_eq!(order(&all, Criterion::Rank), [1, 2, 0]);
        // The sum would take the first now.
        let wide = [scores(0.70, 0.10, 0.99), scores(0.80, 0.20, 0.45), scores(0.79, 0.19, 0.44)];
        assert_eq!(order(&wide, Criterion::Rank), [1, 0, 2]);
        assert_eq!(order(&wide, Criterion::PrecisionAt1), [0, 1, 2]);
        assert_eq!(order(&wide, Criterion::Semantic), [1, 2, 0]);
    }

    #[test]
    fn equals_keep_their_order_and_the_sum_decides_between_equal_ranks() {
        let same = scores(0.7, 0.2, 0.4);
        assert_eq!(order(&[same, same, same], Criterion::Rank), [0, 1, 2]);
        let all = [scores(0.7, 0.3, 0.4), scores(0.8, 0.2, 0.4)];
        assert_eq!(order(&all, Criterion::Rank), [0, 1]);
        let all = [scores(0.7, 0.3, 0.4), scores(0.9, 0.2, 0.4)];
        assert_eq!(order(&all, Criterion::Rank), [1, 0]);
    }
}
