"""The classifier that tunes itself: what it finds, that its parameters repeat it, and what it refuses."""

import numpy as np
import pytest
from robust_ot import RobustOTClassifier, RobustOTClassifierCV

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError


def quadrants(rows, seed):
    """Points whose class no line tells."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(rows, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "alike", "apart")


def test_a_hidden_layer_wins_where_no_line_parts_the_classes():
    X, y = quadrants(400, 0)
    tuned = RobustOTClassifierCV(budget=4, select="auc").fit(X, y)
    assert tuned.best_params_["hidden"] >= 512
    results = tuned.cv_results_
    assert results["auc"][0] == results["auc"].max() == tuned.best_score_
    assert {len(values) for values in results.values()} == {len(results["auc"])}
    assert tuned.fitting_seconds_ <= tuned.seconds_
    Z, truth = quadrants(300, 1)
    assert tuned.score(Z, truth) > 0.8
    assert tuned.predict_proba(Z).shape == (300, 2)
    assert tuned.classes_.tolist() == ["alike", "apart"]
    # The parameters repeat the fit, to the last bit.
    again = RobustOTClassifier(**tuned.best_params_).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(Z), tuned.decision_function(Z))


def test_several_labels_by_semantic_cost(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 6))
    y = (X[:, :4] + 0.3 * rng.normal(size=(150, 4)) > 0.3).astype(int)
    y[y.sum(axis=1) == 0, 0] = 1
    vectors = rng.normal(size=(4, 3))
    tuned = RobustOTClassifierCV(budget=2, select="semantic", label_vectors=vectors, random_state=5).fit(X, y)
    assert tuned.best_score_ == -tuned.cv_results_["semantic_cost"].min()
    again = RobustOTClassifier(label_vectors=vectors, **tuned.best_params_).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), tuned.predict_proba(X))
    tuned.save(tmp_path / "m.safetensors")
    loaded = RobustOTClassifier.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(X), tuned.predict_proba(X))


def test_verbose_tells_of_every_candidate_and_an_error_there_comes_through(capsys):
    X, y = quadrants(80, 3)
    tuned = RobustOTClassifierCV(budget=1, verbose=True).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) >= len(tuned.cv_results_["auc"])

    class Broken(RobustOTClassifierCV):
        def _on_trial(self):
            def tell(trial):
                raise RuntimeError("no more")

            return tell

    with pytest.raises(RuntimeError, match="no more"):
        Broken(budget=5).fit(X, y)


def test_conventions_and_frames():
    pandas = pytest.importorskip("pandas")
    X, y = quadrants(80, 4)
    estimator = RobustOTClassifierCV(budget=1, select="p@1", row_length=None)
    assert clone(estimator).get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    frame = pandas.DataFrame(X, columns=["east", "north"])
    estimator.fit(frame, y)
    assert estimator.feature_names_in_.tolist() == ["east", "north"]
    with pytest.warns(UserWarning, match="order"):
        swapped = estimator.predict(frame[["north", "east"]])
    np.testing.assert_array_equal(swapped, estimator.predict(frame))
    estimator.fit(X, y)
    assert not hasattr(estimator, "feature_names_in_")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"budget": 0}, "budget must be positive and finite"),
        ({"budget": float("nan")}, "budget must be positive and finite"),
        ({"budget": 1e-6}, "budget must be long enough for one model"),
        ({"select": "acc"}, "select must be auc, map, p@1, semantic or rank, but is acc"),
        ({"select": "semantic"}, "select must be auc, map, p@1 or rank without label vectors"),
        ({"validation": 0}, "validation must be above 0"),
        ({"validation": 1.5}, "validation must be a fraction"),
    ],
)
def test_what_cannot_be_tuned_is_refused(changed, message):
    X, y = quadrants(60, 5)
    with pytest.raises(ValueError, match=message):
        RobustOTClassifierCV(**{"budget": 1, **changed}).fit(X, y)
