"""Explanations, names, readable matrices and progress, against the command and against plain numpy."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import robust_ot
from robust_ot import _progress


def clouds(rows=30):
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(rows, 4)), rng.normal(size=(rows + 3, 4))
    Y[:, 1] += 2
    return X, Y


def rot(folder, *arguments):
    line = [sys.executable, "-m", "robust_ot", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True, cwd=folder)


@pytest.mark.parametrize("keywords", [{}, {"groups": 2}, {"metric": "features", "lam": 0.3, "scale": "std"}, {"entropy": 0.5}])
def test_it_is_what_the_command_explains(tmp_path, keywords):
    pandas = pytest.importorskip("pandas")
    names = ["a", "b", "c", "d"]
    X, Y = (pandas.DataFrame(cloud, columns=names) for cloud in clouds())
    X.to_csv(tmp_path / "x.csv", index=False)
    Y.to_csv(tmp_path / "y.csv", index=False)
    options = [f"--{'lambda' if name == 'lam' else name}={value}" for name, value in keywords.items()]
    told = json.loads(rot(tmp_path, "distance", "x.csv", "y.csv", "--explain", "--json", *options).stdout)["explain"]
    solution = robust_ot.distance(X, Y, **keywords)
    found = solution.explain(8)
    assert solution.feature_names == names
    if "groups" not in keywords:
        assert [list(pair["features"]) for pair in found.pairs] == [pair["features"] for pair in told["metric"]]
    for name in ("weight", "share"):
        np.testing.assert_allclose([pair[name] for pair in found.pairs], [pair[name] for pair in told["metric"]], rtol=1e-9)
    for name in ("mass", "cost"):
        np.testing.assert_allclose([flow[name] for flow in found.flows], [flow[name] for flow in told["flows"]], rtol=1e-9)
    assert found.entries_above_one_percent == told["entries_above_one_percent"]
    # Rows are counted from 0 here.
    assert [f"row {flow['source'] + 1}" for flow in found.flows] == [flow["from"] for flow in told["flows"]]
    text = rot(tmp_path, "distance", "x.csv", "y.csv", "--explain", *options).stdout.split("\n\n", 1)[1]
    shares = [line.split("(")[-1] for line in str(solution.explain()).splitlines()]
    if "groups" not in keywords:
        assert shares == [line.split("(")[-1] for line in text.splitlines()]


def test_the_shares_are_those_of_the_cost():
    X, Y = clouds()
    solution = robust_ot.distance(X, Y)
    found = solution.explain(1000)
    weighted = solution.metric * solution.moment
    assert sum(pair["share"] for pair in found.pairs) == pytest.approx(1)
    for pair in found.pairs:
        a, b = pair["places"]
        assert pair["share"] == pytest.approx(weighted[a, b] * (1 if a == b else 2) / weighted.sum(), abs=1e-12)
    # The cost of a flow is the length of its displacement under the metric.
    plan = solution.plan()
    for flow in found.flows:
        shift = X[flow["source"]] - Y[flow["target"]]
        assert flow["cost"] == pytest.approx(shift @ solution.metric @ shift)
        assert flow["mass"] == pytest.approx(plan[flow["source"], flow["target"]])
    assert len(found.flows) == np.count_nonzero(plan)
    costs = [flow["mass"] * flow["cost"] for flow in found.flows]
    assert costs == sorted(costs, reverse=True)
    assert sum(costs) == pytest.approx(solution.transport_cost)
    assert len(found.features) == 4 and repr(found) == f"Explanation(pairs=10, flows={len(costs)})"
    again = pickle.loads(pickle.dumps(solution)).explain(1000)
    assert again.pairs == found.pairs and again.flows == found.flows
    with pytest.raises(ValueError, match="largest must be at least 1, but is 0"):
        solution.explain(0)


def test_frames_name_features_and_rows(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, Y = clouds(3)
    X = pandas.DataFrame(X, columns=["<a>", "b", "c", "d"], index=["mon", "tue", "wed"])
    Y = pandas.DataFrame(Y, columns=["<a>", "b", "c", "d"])
    solution = robust_ot.distance(X, Y)
    found = solution.explain()
    assert found.pairs[0]["features"] == ("b", "b")
    flow = found.flows[0]
    assert flow["source_name"] == X.index[flow["source"]] and flow["target_name"] == f"row {flow['target']}"
    assert found.to_frame().columns.tolist() == ["first", "second", "weight", "share"]
    assert found.to_frame("features")["feature"].tolist()[0] == "b"
    assert len(found.to_frame("flows")) == len(found.flows)
    with pytest.raises(ValueError, match="kind must be pairs, features or flows, but is 'rows'"):
        found.to_frame("rows")
    for shown in (found._repr_html_(), solution._repr_html_()):
        assert "&lt;a&gt;" in shown and "<a>" not in shown
    again = pickle.loads(pickle.dumps(solution))
    assert again.feature_names == solution.feature_names and str(again.explain()) == str(found)
    assert robust_ot.distance(X, Y, groups=2).group_names == ["group 0 (<a> to b)", "group 1 (c to d)"]
    assert robust_ot.distance(X.to_numpy(), Y.to_numpy()).explain().pairs[0]["features"] == ("feature 1", "feature 1")
    pytest.importorskip("matplotlib")
    from robust_ot import plot

    assert [tick.get_text() for tick in plot.metric_heatmap(solution).get_xticklabels()] == ["<a>", "b", "c", "d"]


def test_matrices_are_named_read_and_searched():
    shifts = {"mon": 0.0, "tue": 0.2, "wed": 3.0}
    given = {name: np.array([[0.0, 0.0], [1.0, 1.0]]) + shift for name, shift in shifts.items()}
    found = robust_ot.pairwise(given, metric="w2")
    np.testing.assert_array_equal(found.matrix, robust_ot.pairwise(list(given.values()), metric="w2").matrix)
    lines = repr(found).splitlines()
    assert lines[0].startswith("Distances among 3 measures, relative gap at most ")
    assert lines[1].split() == ["mon", "tue", "wed"] and lines[3].split() == ["tue", "0.08", "0", "15.68"]
    assert found._repr_html_().count("<tr>") == 4
    neighbors = found.nearest(2)
    wanted = robust_ot.nearest(given, top_k=2, metric="w2")
    np.testing.assert_array_equal(neighbors.indices, wanted.indices)
    np.testing.assert_allclose(neighbors.distances, wanted.distances)
    assert neighbors.certain.all()
    with pytest.raises(ValueError, match="top_k must be from 1 to 2, but is 3"):
        found.nearest(3)
    across = robust_ot.pairwise({"mon": given["mon"]}, {"tue": given["tue"], "wed": given["wed"]}, metric="w2")
    assert (across.row_names, across.column_names) == (["mon"], ["tue", "wed"])
    assert across.nearest(2).indices.tolist() == [[0, 1]]
    assert repr(across).startswith("Distances from 1 measures to 2")
    many = robust_ot.pairwise([given["mon"] + i for i in range(12)], metric="w2")
    assert repr(many).splitlines()[-1].split() == ["…"] * 12
    pytest.importorskip("matplotlib")
    assert [tick.get_text() for tick in across.heatmap().get_xticklabels()] == ["tue", "wed"]
    pandas = pytest.importorskip("pandas")
    assert isinstance(found.to_frame(), pandas.DataFrame) and found.to_frame().loc["mon", "tue"] == found.matrix[0, 1]


def test_progress_is_a_bar_or_lines_and_changes_nothing(capsys, monkeypatch):
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(40, 20)) for _ in range(12)]
    quiet = robust_ot.pairwise(given, tol=1e-6)
    assert capsys.readouterr().err == ""

    class Bar:
        """Stands for tqdm."""

        def __init__(self):
            self.n, self.seen, self.closed = 0, [], False

        def update(self, count):
            self.n += count
            self.seen.append(self.n)

        def refresh(self):
            pass

        def close(self):
            self.closed = True

    bar = Bar()
    monkeypatch.setattr(_progress, "_bar", lambda what, count: bar if count == 78 else None)
    told = robust_ot.pairwise(given, tol=1e-6, progress=True)
    np.testing.assert_array_equal(told.matrix, quiet.matrix)
    assert bar.seen == sorted(bar.seen) and bar.n == 78 and bar.closed
    # Without tqdm there are lines, one every few seconds.
    monkeypatch.setattr(_progress, "_bar", lambda what, count: None)
    monkeypatch.setattr(_progress, "_LATER", 0.0)
    progress = _progress.Progress("pairs", 10, True)
    progress.reach(5)
    assert capsys.readouterr().err.startswith("pairs: 5 of 10, ")
    progress = _progress.Progress("distance", None, True)
    progress.step(1)
    assert capsys.readouterr().err == "distance: 0 s \n"
    with pytest.raises(ValueError, match="X"):
        robust_ot.distance([[np.nan]], [[1.0]], progress=True)


def test_an_error_of_the_one_who_watches_ends_the_work():
    rng = np.random.default_rng(1)
    given = [rng.normal(size=(150, 40)) for _ in range(30)]

    class Fed(Exception):
        pass

    def up(done):
        raise Fed

    pairs = [(i, j) for i in range(30) for j in range(30)]
    arguments = (("srw", 2, 2.0, 1.0, None, None, "contiguous", 0), (0.0, "auto", 1e-9, 1000, None, "cpu"))
    with pytest.raises(Fed):
        robust_ot._core.pairwise(given, [None] * 30, pairs, *arguments, None, up)


def test_the_command_is_recorded_as_it_is_typed(tmp_path):
    (tmp_path / "a b.csv").write_text("a,b\n1,2\n3,4\n")
    rot(tmp_path, "distance", "a b.csv", "a b.csv", "--run", "run")
    recorded = json.loads((tmp_path / "run/run.json").read_text())["command"]
    assert recorded == "rot distance 'a b.csv' 'a b.csv' --run run"


def test_labels_without_a_vector():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(2)
    y = np.repeat(["cat", "dog", "truck", "void"], 15)
    X = rng.normal(size=(60, 5)) + 3 * np.eye(4, 5)[np.repeat(range(4), 15)]
    vectors = {"cat": [1.0, 0.1], "dog": [0.9, 0.4], "truck": [-1.0, 0.2]}
    model = robust_ot.RobustOTClassifier(label_vectors=vectors)
    with pytest.raises(ValueError, match=r"1 have none: void \(missing='zero' or 'drop' to continue without\)"):
        model.fit(X, y)
    with pytest.warns(UserWarning, match="1 of 4 labels have no vector and have the zero vector: void"):
        zero = model.set_params(missing="zero").fit(X, y)
    assert zero.classes_.tolist() == ["cat", "dog", "truck", "void"]
    with pytest.warns(UserWarning, match="are left out: void"):
        dropped = model.set_params(missing="drop").fit(X, y)
    assert dropped.classes_.tolist() == ["cat", "dog", "truck"]
    alone = robust_ot.RobustOTClassifier(label_vectors=vectors).fit(X[:45], y[:45])
    np.testing.assert_array_equal(dropped.coef_, alone.coef_)
    Y = (y[:, None] == np.array(["cat", "dog", "truck", "void"])).astype(int)
    several = [[1.0, 0.1], [0.9, 0.4], [-1.0, 0.2], [0.0, 0.0]]
    with pytest.warns(UserWarning):
        tags = robust_ot.RobustOTClassifier(label_vectors=several, missing="drop").fit(X, Y)
    assert tags.classes_.tolist() == [0, 1, 2] and tags.predict(X).shape == (60, 3)
    with pytest.warns(UserWarning):
        first = robust_ot.RobustOTClassifier(label_vectors=vectors, missing="drop").partial_fit(X, y, classes=np.unique(y))
    with pytest.warns(UserWarning, match="15 of 60 rows have no label"):
        assert first.partial_fit(X, y).classes_.tolist() == ["cat", "dog", "truck"]
    with pytest.raises(ValueError, match="y must hold known classes, but one label is 'bus'|one label is bus"):
        first.partial_fit(X[:1], ["bus"])
    with pytest.raises(ValueError, match="missing must be 'error', 'zero' or 'drop', but is 'no'"):
        model.set_params(missing="no").fit(X, y)
