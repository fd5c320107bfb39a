"""The parts of experiments/learning.py that have an independent route."""

import time
from pathlib import Path

import numpy as np
import pytest

linear_model = pytest.importorskip("sklearn.linear_model")
from scipy import sparse
from sklearn.metrics import average_precision_score, roc_auc_score

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture(autouse=True)
def experiments(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)


def fold_of(x, y, held, vectors=None):
    from learning_tuning import Fold

    vectors = np.eye(y.shape[1]) if vectors is None else vectors
    return Fold(x, y, held, vectors, final=True)


def test_scores_are_those_of_scikit_learn(rng):
    from learning_scores import of_labels, scores_of

    truth = rng.random((60, 9)) < 0.3
    truth[:, 7], truth[:, 8] = False, True
    for scores in (rng.normal(size=truth.shape), rng.integers(4, size=truth.shape).astype(float), np.zeros(truth.shape)):
        auc, average = of_labels(scores, truth)
        for label in range(7):
            assert auc[label] == pytest.approx(roc_auc_score(truth[:, label], scores[:, label]), abs=1e-12)
            assert average[label] == pytest.approx(average_precision_score(truth[:, label], scores[:, label]), abs=1e-12)
        assert np.isnan(auc[7:]).all() and np.isnan(average[7:]).all()
        found = scores_of(scores, truth)
        assert found["auc"] == pytest.approx(roc_auc_score(truth[:, :7], scores[:, :7]))
        assert found["map"] == pytest.approx(average_precision_score(truth[:, :7], scores[:, :7]))
    best = np.where(np.arange(9) == truth.argmax(axis=1)[:, None], 1.0, 0.0)
    assert scores_of(best, truth)["p1"] == 1


def test_probabilities_among_some_labels_are_given_these(rng):
    from learning_scores import restricted

    logits = rng.normal(size=(6, 5))
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    some, labels = np.arange(6) < 4, np.array([1, 3])
    alone = np.exp(logits[:4][:, labels])
    np.testing.assert_allclose(restricted(softmax, some, labels), alone / alone.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(restricted(softmax, np.ones(6, bool), labels), softmax[:, labels])
    np.testing.assert_array_equal(restricted(logits, some, labels), logits[:4][:, labels])


def test_rows_are_held_out_as_evenly_as_labels_allow(rng):
    from learning_tuning import splits

    y = np.eye(4, dtype=bool)[np.arange(40) % 4]
    held = splits(y, 1.0, rng)
    assert sorted(np.concatenate(held)) == list(range(40))
    assert all((y[rows].sum(axis=0) == 2).all() for rows in held)
    [fifth] = splits(y, 1e12, rng)
    assert (y[fifth].sum(axis=0) == 2).all()
    assert len(splits(y[:8], 1.0, rng)) == 2 and splits(y[:4], 1.0, rng) == []


def test_the_top_of_a_hill_is_found_from_anywhere():
    from learning_tuning import GRID, climb

    for top in range(GRID[0], GRID[1] + 1):
        for start in range(GRID[0], GRID[1] + 1):
            assert climb(start, lambda place, top=top: -abs(place - top), time.perf_counter() + 60)[0] == top
    assert climb(0, lambda place: place, time.perf_counter()) == (0, 0), "nothing is tried after the time"


@pytest.mark.parametrize("shape", [(40, 6), (10, 30)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_ridge_is_that_of_scikit_learn(rng, shape, kind):
    from learning_baselines import ridge

    x, held = rng.normal(size=shape) + 1, rng.normal(size=(7, shape[1]))
    y = rng.random((len(x), 5)) < 0.4
    scores = ridge(fold_of(kind(x), y, kind(held)), None)
    for l2 in (0.1, 30.0):
        wanted = linear_model.Ridge(alpha=l2).fit(x, y.astype(float)).predict(held)
        np.testing.assert_allclose(scores(l2), wanted, atol=1e-8)


def test_logistic_losses_are_those_of_scikit_learn(rng, monkeypatch):
    from learning_baselines import binary, cross_entropy

    monkeypatch.setattr("learning_baselines.FINE", (2000, 1e-14))
    x, held = rng.normal(size=(90, 4)) * [1, 2, 5, 10], rng.normal(size=(7, 4))
    classes = (x @ rng.normal(size=(4, 3)) + rng.normal(size=(90, 3))).argmax(axis=1)
    y = np.hstack([np.eye(3, dtype=bool)[classes], np.zeros((90, 1), bool)])
    for l2 in (3.0, 0.5):
        model = linear_model.LogisticRegression(C=1 / l2, tol=1e-10, max_iter=5000)
        found = cross_entropy(fold_of(x, y, held), None)(l2)
        np.testing.assert_allclose(found[:, :3], model.fit(x, classes).predict_log_proba(held), atol=1e-4)
        found_binary = binary(fold_of(x, y, held), None)(l2)
        for label in range(3):
            np.testing.assert_allclose(found_binary[:, label], model.fit(x, y[:, label]).decision_function(held), atol=1e-4)
        # A label without rows is below every other.
        assert (found[:, 3] <= found.min()).all() and (found_binary[:, 3] <= found_binary.min()).all()
    assert np.abs(model.set_params(C=1).fit(x, classes).predict_log_proba(held) - found[:, :3]).max() > 0.1, "λ matters"


def test_the_laplacian_minimizes_over_all_weights_at_once(rng):
    from learning_baselines import graph_laplacian, laplacian

    x, held, vectors = rng.normal(size=(30, 3)), rng.normal(size=(5, 3)), rng.normal(size=(6, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    y = rng.random((30, 6)) < 0.4
    y[:, 4:] = False
    graph = graph_laplacian(vectors)
    np.testing.assert_allclose(graph.sum(axis=0), 0, atol=1e-12)
    assert np.trace(graph) == pytest.approx(6)
    l2, strength = 2.0, 3.0
    # The normal equations of vec W, with the squared error of the first four labels alone.
    centered, mean = x - x.mean(axis=0), y.mean(axis=0)
    seen = np.diag([1.0] * 4 + [0.0] * 2)
    normal = np.kron(seen, centered.T @ centered) + l2 * np.kron(np.eye(6) + strength * graph, np.eye(3))
    right = (centered.T @ (y - mean))[:, :].T.ravel()
    weights = np.linalg.solve(normal, right).reshape(6, 3).T
    wanted = (held - x.mean(axis=0)) @ weights + mean
    np.testing.assert_allclose(laplacian(fold_of(x, y, held, vectors), strength)(l2), wanted, atol=1e-10)


def test_eszsl_is_its_formula(rng):
    from learning_baselines import eszsl

    x, held, vectors = rng.normal(size=(30, 3)), rng.normal(size=(5, 3)), rng.normal(size=(6, 4))
    y = rng.random((30, 6)) < 0.5
    y[:, 5] = False
    own, centered = vectors[:5], x - x.mean(axis=0)
    gamma = 0.1 * np.trace(own.T @ own) / 4
    left = np.linalg.solve(centered.T @ centered + 2 * np.eye(3), centered.T @ (2.0 * y[:, :5] - 1) @ own)
    wanted = (held - x.mean(axis=0)) @ left @ np.linalg.solve(own.T @ own + gamma * np.eye(4), vectors.T)
    found = eszsl(fold_of(x, y, held, vectors), 0.1)(2.0)
    # Up to the factor of ±1 and the bias of every label.
    np.testing.assert_allclose(2 * (found - found[0]), wanted - wanted[0], atol=1e-10)


def test_what_rot_reads_is_what_was_drawn(rng, tmp_path):
    import learning_sets as sets

    x = sparse.random_array((20, 7), density=0.4, format="csr", random_state=rng)
    y = rng.random((20, 5)) < 0.5
    for part in ("train", "test"):
        sets.write_indexed(tmp_path / f"{part}.txt", x, y)
    (tmp_path / "labels.txt").write_text("".join(f"TAG_{label}\n" for label in range(5)))
    found, labels, names = sets.read_indexed(tmp_path)
    np.testing.assert_allclose(found["train"].toarray(), x.toarray(), rtol=1e-8)
    assert (labels["train"] == y).all() and names == list("01234")


def test_hidden_labels_have_no_training_rows(rng):
    import learning_sets as sets

    y = np.eye(6, dtype=bool)[np.arange(60) % 6]
    data = sets.Data(np.arange(60.0)[:, None], y, np.arange(60.0)[:, None], y, list("abcdef"), np.eye(6))
    task = sets.draw(data, sets.Setting("six", hidden=2), 3)
    assert not task.train_y[:, task.hidden].any() and len(task.train_y) == 40
    rows, labels = task.parts["among hidden "]
    assert rows.sum() == 20 and (labels == task.hidden).all()
    few = sets.draw(data, sets.Setting("six", per_class=2), 3)
    assert (few.train_y.sum(axis=0) == 2).all() and len(np.unique(few.train_x)) == 12
    assert not np.array_equal(few.train_x, sets.draw(data, sets.Setting("six", per_class=2), 4).train_x)


def test_a_model_ends_at_the_limit():
    from learning import settled, timed

    start = time.perf_counter()
    slow = timed(lambda: time.sleep(30), 0.3)
    assert slow["status"] == "over time" and settled(slow, 0.3) and not settled(slow, 0.4)
    assert time.perf_counter() - start < 10
    assert timed(lambda: (np.ones(2), {"a": 1}), 10)["chosen"] == {"a": 1}
    assert "ZeroDivisionError" in timed(lambda: 1 / 0, 10)["why"][-1]


def test_differences_are_paired():
    from learning_tables import tables

    def line(method, seed, auc):
        of_run = {"scores": {"auc": auc, "map": 0.5, "p1": 0.25}, "seconds": 1.0, "cpu_seconds": 1.0}
        return {"set": "s", "method": method, "seed": seed, "status": "done", **of_run}

    results = [line("ours", seed, auc) for seed, auc in enumerate((0.9, 0.8, 0.7))]
    results += [line("theirs", seed, auc) for seed, auc in enumerate((0.89, 0.78))]
    results.append({"set": "s", "method": "theirs", "seed": 2, "status": "over time", "seconds": 60.0, "cpu_seconds": 60.0})
    found = tables(results, ["s"], ["ours"])
    assert "| ours | 0.8000 | 0.5000 | 0.2500 | 1.0 | 1.0 | 3 |" in found
    assert "| theirs | 0.8350 | 0.5000 | 0.2500 | 1.0 | 1.0 | 2, 1 over time |" in found
    assert "| theirs | +0.0150 ± 0.0050 | +0.0000 ± 0.0000 | +0.0000 ± 0.0000 | 2 |" in found
