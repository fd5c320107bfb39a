//! Columns by rank, on the scale of a logistic distribution: heavy tails and outliers do not matter there.

use ndarray::{Array2, ArrayView2};

/// ln(u / (1 − u)) with u = (rank − ½) / rows, for every column; equal values share their mean rank.
pub(super) fn logistic_scores(values: ArrayView2<f64>) -> Array2<f64> {
    let rows = values.nrows();
    let mut scores = Array2::zeros(values.dim());
    // In this order, no value is above the next one.
    for (column, mut scores) in values.columns().into_iter().zip(scores.columns_mut()) {
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by(|&i, &j| column[i].total_cmp(&column[j]));
        for tied in order.chunk_by(|&i, &j| column[i] >= column[j]) {
            let first = order.partition_point(|&row| column[row] < column[tied[0]]);
            let u = (first as f64 + 0.5 * tied.len() as f64) / rows as f64;
            tied.iter().for_each(|&row| scores[row] = (u / (1.0 - u)).ln());
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use ndarray::array;

    use super::*;

    #[test]
    fn scores_follow_ranks_and_ties_share_one() {
        let values = array![[3.0, -0.0], [1e9, 0.0], [1.0, 1.0], [3.0, 1.0]];
        let scores = logistic_scores(values.view());
        let logit = |u: f64| (u / (1.0 - u)).ln();
        assert_relative_eq!(
            scores,
            array![
                [logit(0.5), logit(0.25)],
                [logit(0.875), logit(0.25)],
                [logit(0.125), logit(0.75)],
                [logit(0.5), logit(0.75)]
            ]
        );
    }
}
