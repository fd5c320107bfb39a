import numpy as np
import pytest
from robust_ot import score


def test_ranks_agree_with_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    truth = (rng.random((60, 7)) < 0.3).astype(int)
    truth[truth.sum(1) == 0, 0] = 1
    scores = np.round(rng.random((60, 7)), 1)  # with ties
    assert score.auc(truth, scores) == pytest.approx(metrics.roc_auc_score(truth, scores, average="macro"), abs=1e-12)
    assert score.mean_average_precision(truth, scores) == pytest.approx(
        metrics.average_precision_score(truth, scores, average="macro"), abs=1e-12
    )
    classes = rng.integers(7, size=60)
    assert score.accuracy(classes, scores) == metrics.accuracy_score(classes, scores.argmax(1))
    assert score.precision_at(truth, scores, 7) == pytest.approx(truth.mean())


def test_costs_are_their_formulas(rng):
    vectors, truth = rng.normal(size=(5, 3)), [[0, 2], [4], [1, 3]]
    h = rng.dirichlet(np.ones(5), size=3)
    apart = ((vectors[:, None] - vectors[None]) ** 2).sum(-1)
    expected = np.mean([h[i] @ apart[:, row].min(1) for i, row in enumerate(truth)])
    assert score.expected_cost(truth, h, vectors) == pytest.approx(expected, abs=1e-12)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    best = h.argsort(1)[:, ::-1][:, :2]
    expected = np.mean([np.mean([1 - (unit[p] @ unit[row].T).max() for p in best[i]]) for i, row in enumerate(truth)])
    assert score.top_cost(truth, h, vectors, 2) == pytest.approx(expected, abs=1e-12)
    assert score.all_scores(truth, h, vectors)["semantic_cost"] == pytest.approx(score.top_cost(truth, h, vectors, 5))


def test_gain_is_that_of_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    truth, scores = (rng.random((50, 6)) < 0.4).astype(int), rng.random((50, 6))
    truth[truth.sum(1) == 0, 0] = 1
    for k in (1, 3, 6):
        assert score.ndcg_at(truth, scores, k) == pytest.approx(metrics.ndcg_score(truth, scores, k=k), abs=1e-12)
    found = score.all_scores(truth, scores)
    assert found["ndcg_at_3"] == score.ndcg_at(truth, scores, 3)
    assert found["ndcg_at_5"] == score.ndcg_at(truth, scores, 5)


def test_propensities_weigh_rare_labels(rng):
    truth, scores = (rng.random((40, 5)) < 0.4).astype(int), rng.random((40, 5))
    truth[truth.sum(1) == 0, 0] = 1
    label_rows, rows, k = np.array([1, 4, 20, 90, 300]), 400, 2
    weights = 1 + (np.log(rows) - 1) * 2.5**0.55 * (label_rows + 1.5) ** -0.55
    best = scores.argsort(1)[:, ::-1][:, :k]
    found = np.take_along_axis(truth * weights, best, 1).sum()
    possible = np.sort(truth * weights, 1)[:, ::-1][:, :k].sum()
    ours = score.propensity_scored_precision_at(truth, scores, k, label_rows, rows)
    assert ours == pytest.approx(found / possible, abs=1e-12)
    with pytest.raises(ValueError, match="label_rows must be whole numbers, one per label"):
        score.propensity_scored_precision_at(truth, scores, k, [0.5] * 5, rows)
    with pytest.raises(ValueError, match="rows must be a whole number of at least 3, but is 2"):
        score.propensity_scored_precision_at(truth, scores, k, label_rows, 2)


def test_bad_scores_are_named():
    with pytest.raises(ValueError, match="scores must be finite, but row 1, column 2 is NaN"):
        score.auc([0], [[0.0, np.nan]])
    with pytest.raises(ValueError, match="k must be between 1 and the 2 labels, but is 3"):
        score.precision_at([0], [[0.0, 1.0]], 3)
    with pytest.raises(ValueError, match="must be 2 × 2, rows × labels, but is 1 × 2"):
        score.auc([0, 1], [[0.0, 1.0]])
    with pytest.raises(ValueError, match="label vectors must be 2 rows"):
        score.expected_cost([0], [[0.5, 0.5]], np.eye(3))
    for vectors in (np.full((2, 2), np.nan), np.full((2, 2), 1e160)):
        with pytest.raises(ValueError, match=r"label.vectors must be"):
            score.expected_cost([0], [[0.5, 0.5]], vectors)
        with pytest.raises(ValueError, match=r"label.vectors must be"):
            score.all_scores([0], [[0.5, 0.5]], vectors)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, but is -1"):
        score.precision_at([0], [[0.0, 1.0]], -1)
    with pytest.raises(ValueError, match=r"scores must have 2 dimensions, but has shape \(3,\)"):
        score.auc([0], [1, 2, 3])
    with pytest.raises(ValueError, match="truth must be the labels of every row, but is None"):
        score.auc(None, [[0.0, 1.0]])


def test_vectors_of_any_length_are_directions():
    assert score.top_cost([0], [[0.9, 0.1]], [[1e-200, 0.0], [0.0, 1e-200]]) == 0.0
