//! Answers of least expected cost, against the expectation over all sets of true labels.

use ndarray::{Array2, ArrayView1, array};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot_learn::score::answer_cost;
use robust_ot_learn::{LabelLaw, least_cost_labels};

fn cosine(vectors: &Array2<f64>, p: usize, q: usize) -> f64 {
    let (p, q) = (vectors.row(p), vectors.row(q));
    p.dot(&q) / (p.dot(&p) * q.dot(&q)).sqrt()
}

/// E[1 − max cosine to a true label], over all non-empty sets of independent labels.
fn expected_over_sets(row: ArrayView1<f64>, vectors: &Array2<f64>, answer: usize) -> f64 {
    let labels = row.len();
    let sets = 1..1_usize << labels;
    sets.map(|set| {
        let has = |label: usize| set >> label & 1 == 1;
        let chance: f64 =
            (0..labels).map(|label| if has(label) { row[label] } else { 1.0 - row[label] }).product();
        let near = (0..labels).filter(|label| has(*label)).map(|label| cosine(vectors, label, answer));
        chance * (1.0 - near.fold(f64::NEG_INFINITY, f64::max))
    })
    .sum()
}

#[test]
fn no_answer_costs_less_in_expectation() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..50 {
        let vectors = Array2::from_shape_simple_fn((6, 3), || rng.random_range(-1.0..1.0_f64));
        let probabilities = Array2::from_shape_simple_fn((1, 6), || rng.random::<f64>().powi(2));
        let row = probabilities.row(0);
        let costs: Vec<f64> = (0..6).map(|q| expected_over_sets(row, &vectors, q)).collect();
        let found =
            least_cost_labels(probabilities.view(), vectors.view(), LabelLaw::Independent, 6).unwrap();
        assert!(found[0].windows(2).all(|pair| costs[pair[0]] <= costs[pair[1]] + 1e-12), "{costs:?}");

        let costs: Vec<f64> =
            (0..6).map(|q| (0..6).map(|p| row[p] * (1.0 - cosine(&vectors, p, q))).sum()).collect();
        let found = least_cost_labels(probabilities.view(), vectors.view(), LabelLaw::One, 6).unwrap();
        assert!(found[0].windows(2).all(|pair| costs[pair[0]] <= costs[pair[1]] + 1e-12), "{costs:?}");
    }
}

#[test]
fn rows_that_follow_the_law_cost_least_by_it() {
    // One true label per row, drawn from its probabilities: on average the answer of least cost costs no more.
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let vectors = Array2::from_shape_simple_fn((8, 3), || rng.random_range(-1.0..1.0_f64));
    let mut probabilities = Array2::from_shape_simple_fn((4000, 8), || rng.random::<f64>());
    probabilities.outer_iter_mut().for_each(|mut row| row /= row.sum());
    let truth = probabilities.outer_iter().map(|row| {
        let mut left: f64 = rng.random();
        let drawn = row.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        [drawn.unwrap_or(7)]
    });
    let truth = Targets::new(8, truth.collect::<Vec<_>>()).unwrap();
    let least = least_cost_labels(probabilities.view(), vectors.view(), LabelLaw::One, 1).unwrap();
    let probable: Vec<Vec<usize>> =
        probabilities.outer_iter().map(|row| robust_ot_learn::score::best_labels(row, 1)).collect();
    let cost = |answers: &[Vec<usize>]| answer_cost(answers, &truth, vectors.view()).unwrap();
    assert!(cost(&least) < cost(&probable) - 0.05, "{} {}", cost(&least), cost(&probable));
}

#[test]
fn what_is_no_probability_or_no_label_is_refused() {
    let vectors = array![[1.0, 0.0], [0.0, 1.0]];
    let refused = |h: Array2<f64>, k: usize, vectors: &Array2<f64>| {
        least_cost_labels(h.view(), vectors.view(), LabelLaw::One, k).unwrap_err().to_string()
    };
    assert!(refused(array![[0.5, 1.5]], 1, &vectors).contains("1.5 in row 1, column 2"));
    assert!(refused(array![[f64::NAN, 0.5]], 1, &vectors).contains("NaN in row 1, column 1"));
    assert!(refused(array![[0.5, 0.5]], 3, &vectors).contains("between 1 and the 2 labels"));
    assert!(refused(array![[0.5, 0.5]], 1, &array![[1.0]]).contains("2 rows, one per label"));
}
