//! Scores compared with scikit-learn (`tools/make_scores.py`) and with values computed by hand.

use ndarray::{Array2, array};
use robust_ot::Error;
use robust_ot::loss::Targets;
use robust_ot_learn::score::{
    F1, accuracy, answer_cost, expected_cost, ndcg_at, precision_at, propensities,
    propensity_scored_precision_at, rank, top_cost,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    scores: Vec<Vec<f64>>,
    truth: Vec<Vec<usize>>,
    auc: Option<f64>,
    average_precision: Option<f64>,
    counted: Option<usize>,
    accuracy: Option<f64>,
    among_three: Option<f64>,
    answers: Option<Vec<Vec<usize>>>,
    micro_f1: Option<f64>,
    macro_f1: Option<f64>,
    ndcg_at_3: Option<f64>,
}

#[test]
fn scores_are_those_of_scikit_learn() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/scores.json")).unwrap();
    assert!(cases.len() >= 8);
    for case in cases {
        let (rows, labels) = (case.scores.len(), case.scores[0].len());
        let scores = Array2::from_shape_vec((rows, labels), case.scores.concat()).unwrap();
        let truth = Targets::new(labels, &case.truth).unwrap();
        let ranking = rank(scores.view(), &truth).unwrap();
        let close = |ours: f64, theirs: f64| assert!((ours - theirs).abs() <= 1e-9, "{ours} is not {theirs}");
        case.auc.into_iter().for_each(|auc| close(ranking.auc, auc));
        case.average_precision.into_iter().for_each(|map| close(ranking.average_precision, map));
        case.counted.into_iter().for_each(|counted| {
            assert_eq!((ranking.counted, ranking.excluded), (counted, labels - counted));
        });
        case.accuracy.into_iter().for_each(|share| close(accuracy(scores.view(), &truth).unwrap(), share));
        case.among_three
            .into_iter()
            .for_each(|share| close(3.0 * precision_at(scores.view(), &truth, 3).unwrap(), share));
        if let (Some(answers), Some(micro), Some(macro_mean)) = (&case.answers, case.micro_f1, case.macro_f1)
        {
            let found = F1::of(answers, &truth).unwrap();
            close(found.micro, micro);
            close(found.macro_mean, macro_mean);
        }
        case.ndcg_at_3.into_iter().for_each(|gain| close(ndcg_at(scores.view(), &truth, 3).unwrap(), gain));
    }
}

#[test]
fn ties_and_signed_zeros_count_half() {
    let truth = Targets::new(2, [vec![0], vec![1], vec![0, 1]]).unwrap();
    let ranking = rank(array![[0.0, 0.5], [-0.0, 0.5], [0.0, 0.5]].view(), &truth).unwrap();
    assert!((ranking.auc - 0.5).abs() < 1e-15 && (ranking.average_precision - 2.0 / 3.0).abs() < 1e-15);
}

#[test]
fn nothing_to_rank_is_not_a_number() {
    let ranking = rank(array![[0.3, 0.7]].view(), &Targets::new(2, [[0]]).unwrap()).unwrap();
    assert!(ranking.auc.is_nan() && ranking.counted == 0 && ranking.excluded == 2);
}

#[test]
fn semantic_costs_follow_their_definitions() {
    let vectors = array![[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]];
    let truth = Targets::new(3, [vec![0], vec![0, 1]]).unwrap();
    let probabilities = array![[0.2, 0.5, 0.3], [0.0, 0.25, 0.75]];
    let expected = 0.5 * (0.5 * 13.0 + 0.3 * 5.0 + 0.75 * 2.0);
    let found = expected_cost(probabilities.view(), &truth, vectors.view()).unwrap();
    assert!((found - expected).abs() < 1e-12);
    // Probabilities of a sigmoid do not sum to one; their scale does not matter.
    let scaled = &probabilities * &array![[3.0], [0.2]];
    let again = expected_cost(scaled.view(), &truth, vectors.view()).unwrap();
    assert!((again - expected).abs() < 1e-12, "{again}");
    let nothing = array![[0.0, 0.0, 0.0]];
    let alike = expected_cost(nothing.view(), &Targets::new(3, [[0]]).unwrap(), vectors.view()).unwrap();
    assert!((alike - (13.0 + 5.0) / 3.0).abs() < 1e-12, "{alike}");
    // The top two labels: in row one labels 1 and 2 against 0; in row two labels 2 and 1, where 1 is true.
    let half = 1.0 - 0.5_f64.sqrt();
    let expected = 0.25 + 0.5 * half;
    let found = top_cost(probabilities.view(), &truth, vectors.view(), 2).unwrap();
    assert!((found - expected).abs() < 1e-12, "{found} {expected}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let truth = Targets::new(2, [[0]]).unwrap();
    assert!(matches!(rank(array![[0.1, 0.2, 0.3]].view(), &truth), Err(Error::Shape { .. })));
    assert!(matches!(rank(array![[f64::NAN, 0.2]].view(), &truth), Err(Error::NotFinite { .. })));
    assert!(matches!(precision_at(array![[0.1, 0.2]].view(), &truth, 3), Err(Error::Parameter { .. })));
    assert!(matches!(precision_at(array![[0.1, 0.2]].view(), &truth, 0), Err(Error::Parameter { .. })));
    let vectors = array![[1.0], [2.0], [3.0]];
    assert!(matches!(
        expected_cost(array![[0.1, 0.2]].view(), &truth, vectors.view()),
        Err(Error::Shape { .. })
    ));
}

#[test]
fn propensities_weigh_true_labels_as_their_formula_says() {
    let (a, b, rows) = (0.55_f64, 1.5_f64, 200.0_f64);
    let c = (rows.ln() - 1.0) * (b + 1.0).powf(a);
    let label_rows = [1, 10, 100];
    let found = propensities(&label_rows, 200);
    for (p, n) in found.iter().zip(label_rows) {
        let wanted = 1.0 / (1.0 + c * (-a * (n as f64 + b).ln()).exp());
        assert!((p - wanted).abs() < 1e-15, "{p} {wanted}");
    }
    // The first row's two best are labels 2 and 0, the second row's 1 and 2.
    let scores = array![[0.5, 0.1, 0.9], [0.2, 0.8, 0.6]];
    let truth = Targets::new(3, [vec![0, 1], vec![2]]).unwrap();
    let gain = |label: usize| 1.0 / found[label];
    let at_2 = propensity_scored_precision_at(scores.view(), &truth, 2, &found).unwrap();
    assert!((at_2 - (gain(0) + gain(2)) / (gain(0) + gain(1) + gain(2))).abs() < 1e-15);
    let at_1 = propensity_scored_precision_at(scores.view(), &truth, 1, &found).unwrap();
    assert!(at_1 == 0.0, "neither best label is true");
    // Labels that are always recorded: precision over the best possible precision.
    let plain = propensity_scored_precision_at(scores.view(), &truth, 2, &[1.0; 3]).unwrap();
    assert!((plain - 2.0 / 3.0).abs() < 1e-15);
    let wrong = propensity_scored_precision_at(scores.view(), &truth, 1, &[0.5, 0.0, 1.0]).unwrap_err();
    assert!(wrong.to_string().contains("0 for label 2"), "{wrong}");
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let truth = Targets::new(2, [[0], [1]]).unwrap();
    for (answers, what) in [
        (vec![vec![0]], "2 rows"),
        (vec![vec![0], vec![2]], "one is 2"),
        (vec![vec![0], vec![1, 1]], "1 appears twice"),
    ] {
        let error = F1::of(&answers, &truth).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    // Rows without an answer have no cost.
    let cost = answer_cost(&[vec![], vec![0]], &truth, array![[1.0, 0.0], [0.0, 1.0]].view()).unwrap();
    assert!((cost - 1.0).abs() < 1e-15, "{cost}");
}
