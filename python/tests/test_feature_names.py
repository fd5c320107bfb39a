"""The classifier matches columns of data frames by name, and model files keep the names."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

from robust_ot import RobustOTClassifier

NAMES = ["height", "width", "depth"]
ORDER = "columns are matched by name; their order differs in X"


def table(seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(["no", "yes"], 20)
    X = rng.normal(size=(40, 3)) + 3 * (y == "yes")[:, None] * [1, 0, -1]
    return pandas.DataFrame(X, columns=NAMES), y


def frames(frame):
    """The same table as a frame of each package that is installed."""
    found = [frame]
    try:
        import polars

        found.append(polars.from_dict({name: frame[name].to_numpy() for name in frame.columns}))
    except ImportError:
        pass
    return found


def test_another_order_is_matched_and_said():
    X, y = table()
    for fitted in frames(X):
        model = RobustOTClassifier().fit(fitted, y)
        assert model.feature_names_in_.tolist() == NAMES
        wanted = model.predict_proba(fitted)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(model.predict_proba(X), wanted)
        for given in frames(X[NAMES[::-1]]):
            with pytest.warns(UserWarning, match=ORDER):
                np.testing.assert_array_equal(model.predict_proba(given), wanted)
        with pytest.warns(UserWarning, match=ORDER):
            assert model.score(X[NAMES[::-1]], y) == model.score(X, y)


def test_names_that_differ_are_listed():
    X, y = table()
    model = RobustOTClassifier().fit(X, y)
    for given in frames(X.rename(columns={"width": "length"})):
        for call in (model.predict, model.decision_function, lambda X: model.partial_fit(X, y)):
            with pytest.raises(ValueError, match="only the classifier has 'width' and only X has 'length'"):
                call(given)


def test_files_keep_the_names(tmp_path):
    X, y = table()
    model = RobustOTClassifier().fit(X, y)
    model.save(tmp_path / "m.safetensors")
    again = RobustOTClassifier.load(tmp_path / "m.safetensors")
    assert again.feature_names_in_.tolist() == NAMES
    with pytest.warns(UserWarning, match=ORDER):
        np.testing.assert_array_equal(again.predict_proba(X[NAMES[::-1]]), model.predict_proba(X))
    # The command reads the names, and a model of arrays has none.
    X[NAMES[::-1]].to_csv(tmp_path / "x.csv", index=False)
    line = [sys.executable, "-m", "robust_ot._command", "predict", tmp_path / "m.safetensors", "--x", tmp_path / "x.csv"]
    found = subprocess.run(line, capture_output=True, text=True, check=True)
    assert [row.split(",")[2] for row in found.stdout.splitlines()[1:]] == model.predict(X).tolist()
    assert "their order differs in" in found.stderr
    plain = RobustOTClassifier().fit(X.to_numpy(), y)
    plain.save(tmp_path / "plain.safetensors")
    assert not hasattr(RobustOTClassifier.load(tmp_path / "plain.safetensors"), "feature_names_in_")


def test_later_parts_are_matched_by_name():
    X, y = table()
    one, other = (RobustOTClassifier(lr=0.01).partial_fit(X, y, classes=["no", "yes"]) for _ in range(2))
    one.partial_fit(X, y)
    with pytest.warns(UserWarning, match=ORDER):
        other.partial_fit(X[NAMES[::-1]], y)
    np.testing.assert_array_equal(one.coef_, other.coef_)
