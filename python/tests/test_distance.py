import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import robust_ot


def clouds(rng, m=40, n=30, d=6):
    X, Y = rng.normal(size=(m, d)), rng.normal(size=(n, d))
    Y[:, 1] += 2
    return X, Y


def rot(*arguments):
    command = [sys.executable, "-m", "robust_ot._command", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("keywords", "options"),
    [
        ({}, []),
        ({"metric": "p", "k": 2, "groups": 3}, ["--k", "2", "--groups", "3"]),
        ({"metric": "kl", "lam": 5.0, "prior": "ones"}, ["--metric", "kl", "--lambda", "5", "--prior", "ones"]),
        ({"metric": "ds", "lam": 3.0, "groups": 3, "grouping": "random", "seed": 4},
         ["--metric", "ds", "--lambda", "3", "--groups", "3", "--grouping", "random", "--seed", "4"]),
        ({"metric": "features"}, ["--metric", "features"]),
        ({"scale": "std"}, ["--scale", "std"]),
        ({"scale": "robust"}, ["--scale", "robust"]),
        ({"metric": "srw", "k": 2, "tol": 1e-3}, ["--metric", "srw", "--k", "2", "--tol", "1e-3"]),
        ({"metric": "rkp", "rho": 3.0}, ["--metric", "rkp", "--rho", "3"]),
        ({"metric": "w2", "entropy": 0.5}, ["--metric", "w2", "--entropy", "0.5"]),
        ({"entropy": 0.1, "solver": "line-search", "tol": 1e-2, "max_iter": 50},
         ["--entropy", "0.1", "--solver", "line-search", "--tol", "1e-2", "--max-iter", "50"]),
    ],
)  # fmt: skip
def test_the_same_numbers_as_the_command_to_the_last_bit(rng, tmp_path, keywords, options):
    X, Y = clouds(rng)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    done = rot("distance", tmp_path / "x.npy", tmp_path / "y.npy", *options, "--json", "--metric-out", tmp_path / "m.npy")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found = robust_ot.distance(X, Y, **keywords)
    assert (found.value, found.lower_bound, found.n_iter) == (told["value"], told["lower_bound"], told["iterations"])
    np.testing.assert_array_equal(found.metric, np.load(tmp_path / "m.npy"))


def test_bounds_plan_and_metric_fit_together(rng):
    X, Y = clouds(rng)
    a, b = rng.random(40), rng.random(30)
    b[3] = 0
    found = robust_ot.distance(X, Y, a, b, metric="p", k=1)
    plan = found.plan()
    np.testing.assert_allclose(plan.sum(1), a / a.sum(), atol=1e-15)
    np.testing.assert_allclose(plan.sum(0), b / b.sum(), atol=1e-15)
    # Independent check: V from the plan, h(V) = ‖V‖_F.
    differences = X[:, None, :] - Y[None, :, :]
    V = np.einsum("ij,ija,ijb->ab", plan, differences, differences)
    np.testing.assert_allclose(found.value, np.linalg.norm(V), rtol=1e-12)
    np.testing.assert_allclose(found.metric, V / np.linalg.norm(V), atol=1e-12)
    np.testing.assert_allclose(found.moment, V, rtol=1e-10)
    assert found.lower_bound <= found.value
    assert found.gap == found.value - found.lower_bound
    assert found.relative_gap <= 1e-4
    assert found.feature_weights.argmax() == 1
    assert found.history.shape == (found.n_iter, 2)
    np.testing.assert_array_equal(found.sparse_plan().toarray(), plan)
    assert float(found) == found.value
    # No plan beats the lower bound.
    for _ in range(50):
        weights = rng.random((40, 30)) * (b > 0)
        for _ in range(200):
            weights *= (a / a.sum() / weights.sum(1))[:, None]
            weights *= np.divide(b, b.sum() * weights.sum(0), where=b > 0, out=np.zeros(30))
        V = np.einsum("ij,ija,ijb->ab", weights, differences, differences)
        assert np.linalg.norm(V) >= found.lower_bound - 1e-9


@pytest.mark.parametrize(
    "form",
    [
        lambda X: np.asfortranarray(X),
        lambda X: X.tolist(),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: X[::-1].copy()[::-1],
        lambda X: X.astype(">f8"),
        lambda X: np.concatenate([X, X], axis=1)[:, : X.shape[1]],
    ],
)
def test_any_layout_gives_the_same(rng, form):
    X, Y = clouds(rng)
    X.flags.writeable = False
    expected = robust_ot.distance(X, Y)
    found = robust_ot.distance(form(X), form(Y))
    assert (found.value, found.lower_bound) == (expected.value, expected.lower_bound)


def test_fields_of_packed_records_are_read_where_they_are(rng):
    X, Y = clouds(rng, d=2)
    expected = robust_ot.distance(X.astype(np.float32), Y)
    packed = np.zeros(len(X), dtype=[("t", "i2"), ("p", "f4", (2,)), ("w", "f8")])
    packed["p"], packed["w"] = X, 1.0
    assert packed["p"].strides[0] % 4 != 0
    assert robust_ot.distance(packed["p"], Y).value == expected.value
    assert robust_ot.distance(packed["p"], Y, packed["w"]).value == expected.value
    unaligned = np.ndarray(X.shape, "f8", bytearray(b"\0" * (X.nbytes + 1)), offset=1)
    unaligned[:] = X
    assert robust_ot.distance(unaligned, Y).value == robust_ot.distance(X, Y).value


def test_what_memory_has_no_room_for_is_an_error_and_not_the_end():
    with pytest.raises(MemoryError, match=r"X needs 8.* of memory, more than is available"):
        robust_ot.distance(np.broadcast_to(0.0, (10**9, 10**5)), [[0.0] * 10**5])
    wide = np.zeros((2, 5_000_000))
    with pytest.raises(MemoryError, match="the metric between groups of features needs"):
        robust_ot.distance(wide, wide)
    assert robust_ot.distance(wide, wide + 1, groups=1).value == pytest.approx(5_000_000)


def test_other_numbers_become_double(rng):
    X, Y = clouds(rng)
    single = robust_ot.distance(X.astype(np.float32), Y.astype(np.float32))
    double = robust_ot.distance(X.astype(np.float32).astype(np.float64), Y.astype(np.float32).astype(np.float64))
    assert single.value == double.value
    whole = robust_ot.distance([[0, 0], [1, 0]], [[0, 2], [1, 2]])
    assert whole.value == pytest.approx(4)


def test_results_own_their_memory(rng):
    X, Y = clouds(rng)
    found = robust_ot.distance(X, Y)
    plan, metric = found.plan(), found.metric
    expected = plan.copy()
    X[:] = np.nan
    metric[:] = 0
    del Y
    np.testing.assert_array_equal(found.plan(), expected)
    assert found.metric.any()


@pytest.mark.parametrize("entropy", [0.0, 0.2])
def test_solutions_pickle(rng, entropy):
    X, Y = clouds(rng)
    found = robust_ot.distance(X, Y, entropy=entropy, tol=1e-2)
    again = pickle.loads(pickle.dumps(found))
    assert repr(again) == repr(found)
    for name in ("value", "lower_bound", "gap", "relative_gap", "status", "n_iter", "oracle_calls", "shape"):
        assert getattr(again, name) == getattr(found, name)
    for name in ("metric", "moment", "feature_weights", "history", "groups"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    np.testing.assert_array_equal(again.plan(), found.plan())
    np.testing.assert_array_equal(again.sparse_plan().toarray(), found.sparse_plan().toarray())
    assert pickle.loads(pickle.dumps(again)).value == found.value


def test_a_notebook_shows_bounds_and_features(rng):
    shown = robust_ot.distance(*clouds(rng))._repr_html_()
    assert "certified" in shown
    assert "weight of feature 1" in shown
    assert "≤ W ≤" in shown


def test_groups_are_those_asked_for(rng):
    X, Y = clouds(rng)
    found = robust_ot.distance(X, Y, groups=3, grouping="interleaved")
    assert found.groups.tolist() == [0, 1, 2, 0, 1, 2]
    assert found.metric.shape == (3, 3)
    named = robust_ot.distance(X, Y, grouping=[0, 1, 2, 0, 1, 2])
    assert named.value == found.value
    np.testing.assert_array_equal(found.feature_weights, np.diag(found.metric)[[0, 1, 2, 0, 1, 2]])


def test_what_has_not_converged_is_warned_of_with_its_gap(rng):
    X, Y = clouds(rng)
    with pytest.warns(robust_ot.ConvergenceWarning, match="relative gap") as caught:
        found = robust_ot.distance(X, Y, max_iter=1)
    assert found.status != "converged"
    assert caught[0].message.gap == found.relative_gap > 1e-4


def test_streamed_costs_give_the_same(rng):
    X, Y = clouds(rng)
    stored, streamed = robust_ot.distance(X, Y), robust_ot.distance(X, Y, memory=10)
    assert streamed.value == pytest.approx(stored.value, rel=1e-4)
    assert robust_ot.distance(X, Y, memory="1GB").value == stored.value


def test_all_pairs(rng):
    measures = [rng.normal(size=(n, 3)) for n in (5, 8, 1)]
    weighted = [*measures, (measures[1], rng.random(8))]
    found = robust_ot.pairwise(weighted, metric="p")
    assert found.matrix.shape == (4, 4)
    np.testing.assert_array_equal(found.matrix, found.matrix.T)
    assert (found.lower_bounds <= found.matrix).all()
    np.testing.assert_array_equal(np.asarray(found), found.matrix)
    for i in range(4):
        for j in range(i, 4):
            a, b = (m if isinstance(m, tuple) else (m, None) for m in (weighted[i], weighted[j]))
            assert found.matrix[i, j] == robust_ot.distance(a[0], b[0], a[1], b[1], metric="p").value
    assert found.unfinished == 0
    assert found.relative_gap <= 1e-4


def test_the_number_of_threads_changes_nothing(rng):
    X, Y = clouds(rng, 200, 150, 10)
    try:
        values = []
        for threads in (1, 2, 3):
            robust_ot.set_threads(threads)
            assert robust_ot.get_threads() == threads
            values.append(robust_ot.distance(X, Y, entropy=0.5, tol=1e-3).value)
        assert len(set(values)) == 1
    finally:
        robust_ot.set_threads(None)


BAD = [
    ({"X": np.empty((0, 2))}, "X: a measure needs at least one point"),
    ({"X": np.empty((3, 0))}, "X: a measure needs at least one point and one feature"),
    ({"X": [[np.nan, 0.0]]}, r"X: coordinates must be finite, but row 1, column 1 is NaN"),
    ({"Y": [[0.0, np.inf]]}, r"Y: coordinates must be finite, but row 1, column 2 is inf"),
    ({"X": [0.0, 1.0]}, r"X must have 2 dimensions, but has shape \(2,\)"),
    ({"X": np.zeros((2, 2, 2))}, r"X must have 2 dimensions, but has shape \(2, 2, 2\)"),
    ({"X": np.array([["a", "b"]])}, r"X must be an array of real numbers, but has dtype <U1 and shape \(1, 2\)"),
    ({"X": np.array([[1j, 0.0]])}, "X must be an array of real numbers, but has dtype complex128"),
    ({"X": np.array([[None, 0.0]])}, "X must be an array of real numbers, but has dtype object"),
    ({"X": [[1.0], [1.0, 2.0]]}, "X must be an array of numbers, but numpy says"),
    ({"X": np.ma.array([[0.0, 1.0]], mask=[[True, False]])}, "X must not be masked"),
    ({"X": [[0.0, 0.0, 0.0]]}, "must have the same number of features, but have 3 and 2"),
    ({"a": [1.0]}, "a: there must be one weight per point, but there are 1 weights for 2 points"),
    ({"a": [1.0, -1.0]}, r"a: weights must be finite and not negative, but number 2 is -1"),
    ({"b": [0.0, 0.0]}, "b: weights must have a positive finite sum"),
    ({"a": [[1.0, 1.0]]}, r"a must have 1 dimension, but has shape \(1, 2\)"),
    ({"metric": "euclid"}, "metric must be w2, p, p-power, kl, ds, features, srw or rkp, but is euclid"),
    ({"metric": 3}, "metric must be the name of a metric set, but is 3"),
    ({"k": 0}, "k must be between 1 and 2.29, but is 0"),
    ({"k": -1}, "k must be between 1 and 2.29, but is -1"),
    ({"k": "two"}, "k must be between 1 and 2.29, but is 'two'"),
    ({"metric": "srw", "k": 3}, "k must be between 1 and the size of the metric, 2, but is 3"),
    ({"metric": "rkp", "rho": 0.5}, "rho must be at least 1"),
    ({"metric": "kl", "lam": 0.0}, "lam must be positive and finite, but is 0"),
    ({"metric": "kl", "lam": np.nan}, "lam must be positive and finite, but is NaN"),
    ({"metric": "kl", "lam": 1e-6, "X": [[1e3, 0.0], [0.0, 0.0]]}, r"lam: e\^\(V/λ\) overflows"),
    ({"metric": "kl", "prior": [[1.0, 2.0], [2.0, 1.0]]}, "prior must be positive semi-definite, but has the eigenvalue -1"),
    ({"metric": "kl", "prior": "twos"}, "prior must be 'eye', 'ones' or a matrix, but is 'twos'"),
    ({"groups": 3}, "groups must be between 1 and the number of features, 2, but is 3"),
    ({"groups": 0}, "groups must be between 1 and the number of features, 2, but is 0"),
    ({"grouping": "random"}, "groups must be given where the grouping is random, but is absent"),
    ({"grouping": "by-name"}, "grouping must be contiguous, interleaved, random or an array"),
    ({"grouping": [0, 2]}, "grouping must use every group from 0 to its largest, 2, but group 1 has no feature"),
    ({"grouping": [0]}, "grouping must have one group index per feature, 2, but it has 1"),
    ({"grouping": [0, 0.5]}, "grouping must be whole numbers"),
    ({"entropy": -1.0}, "entropy must be not negative"),
    ({"tol": np.nan}, "tol must be finite and not negative, but is NaN"),
    ({"max_iter": 0}, "max_iter must be at least 1, but is 0"),
    ({"solver": "newton"}, "solver must be auto, classic, line-search or corrective, but is newton"),
    ({"scale": "max"}, "scale must be none, std or robust, but is max"),
    ({"scale": 2}, "scale must be 'none', 'std' or 'robust', but is 2"),
    ({"memory": "lots"}, "memory must be a size such as 2GB.*but is lots"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_a_value_error_with_its_name(arguments, message):
    good = {"X": [[0.0, 0.0], [1.0, 1.0]], "Y": [[0.0, 1.0], [2.0, 1.0]]}
    with pytest.raises(ValueError, match=message):
        robust_ot.distance(**{**good, **arguments})


def test_bad_measures_are_named():
    good = [[0.0, 1.0]]
    with pytest.raises(ValueError, match=r"measures\[1\]: coordinates must be finite"):
        robust_ot.pairwise([good, [[np.nan, 0.0]]])
    with pytest.raises(ValueError, match=r"measures\[0\] and measures\[1\]: .*same number of features"):
        robust_ot.pairwise([good, [[0.0]]])
    with pytest.raises(ValueError, match="measures must be at least 2, but there is 1"):
        robust_ot.pairwise([good])
    with pytest.raises(ValueError, match=r"the weights of measures\[1\]"):
        robust_ot.pairwise([good, (good, [-1.0])])


def test_columns_of_data_frames_are_matched_by_name():
    pandas = pytest.importorskip("pandas")
    ab = pandas.DataFrame({"a": [1.0, 3.0], "b": [2.0, 4.0]})
    ba = pandas.DataFrame({"b": [1.0, 3.0], "a": [2.0, 4.0]})
    with pytest.warns(UserWarning, match="matched by name; their order differs in Y"):
        assert robust_ot.distance(ab, ba).value == pytest.approx(2)
    with pytest.warns(UserWarning, match=r"their order differs in measures\[1\]"):
        assert robust_ot.pairwise([ab, ba, ab]).matrix[0] == pytest.approx([0, 2, 0])
    assert robust_ot.distance(ab, ba.to_numpy()).value == pytest.approx(0)
    with pytest.raises(ValueError, match="X and Y: columns must have the same names, but only X has 'a' and only Y has 'c'"):
        robust_ot.distance(ab, ba.rename(columns={"a": "c"}))


def test_units_decide_unless_features_are_scaled(rng):
    X, Y = clouds(rng)
    units = np.array([1.0, 1.0, 1.0, 1e4, 1.0, 1.0])
    with pytest.warns(UserWarning, match=r"feature 3 varies \d+ times as much as feature \d and dominates.*scale='std' puts"):
        raw = robust_ot.distance(X * units, Y * units)
    assert raw.feature_weights.argmax() == 3
    for scale in ("std", "robust"):
        scaled = robust_ot.distance(X * units, Y * units, scale=scale)
        assert scaled.feature_weights.argmax() == 1
        assert scaled.value == pytest.approx(robust_ot.distance(X, Y, scale=scale).value, rel=1e-9)
    # Two measures pooled are the same two sides.
    both = robust_ot.pairwise([X * units, Y * units], scale="std").matrix
    assert both[0, 1] == robust_ot.distance(X * units, Y * units, scale="std").value
    with pytest.warns(UserWarning, match="feature 3 varies"):
        robust_ot.pairwise([X * units, Y * units])
    deviations = np.sqrt((X.var(0) + Y.var(0)) / 2 + (X.mean(0) - Y.mean(0)) ** 2 / 4)
    by_hand = robust_ot.distance(X / deviations, Y / deviations)
    assert robust_ot.distance(X, Y, scale="std").value == pytest.approx(by_hand.value, rel=1e-9)


def test_the_excess_is_zero_between_equal_clouds(rng):
    X, Y = clouds(rng)
    for keywords in ({"metric": "p"}, {"metric": "w2"}, *({"metric": name, "lam": 5.0} for name in ("kl", "ds", "features"))):
        same, other = robust_ot.distance(X, X, **keywords), robust_ot.distance(X, Y, **keywords)
        assert (same.excess, same.excess_lower_bound) == (0, 0)
        assert pickle.loads(pickle.dumps(same)).excess == 0
        assert other.excess > 0.1
        assert other.value - other.excess == pytest.approx(other.offset) == same.offset
        assert pickle.loads(pickle.dumps(other)).excess == other.excess
        both = robust_ot.pairwise([X, Y], **keywords)
        # Bounds include allowances for rounding, which differ between one pair and many.
        assert both.excess[0, 1] == pytest.approx(other.excess, rel=1e-12)
        assert both.excess[1, 1] == pytest.approx(0, abs=1e-9)
    assert robust_ot.distance(X, X, metric="features").value == pytest.approx(np.log(6) - 5)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"prior": "eye"}, "prior has no effect with p; it belongs to kl and ds"),
        ({"lam": 2.0}, "lam has no effect with p; it belongs to kl, ds and features"),
        ({"metric": "kl", "lam": 50.0, "k": 2}, "k has no effect with kl; it belongs to p, p-power and srw"),
        ({"metric": "w2", "rho": 3.0}, "rho has no effect with w2; it belongs to rkp"),
    ],
)
def test_an_argument_without_effect_is_said(rng, keywords, message):
    with pytest.warns(UserWarning, match=message):
        robust_ot.distance(*clouds(rng), **keywords)


def test_the_recorded_command_is_as_typed(tmp_path):
    (tmp_path / "a.csv").write_text("0,0\n1,0\n")
    script = "import sys; sys.argv[0] = '/opt/bin/rot'; from robust_ot._command import main; sys.exit(main())"
    arguments = ["distance", "a.csv", "a.csv", "--run", "folder"]
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "folder" / "run.json").read_text())["command"] == "rot distance a.csv a.csv --run folder"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudoterminal")
def test_a_terminal_shows_that_a_distance_is_being_solved(rng, tmp_path):
    import pty

    X, Y = rng.normal(size=(6000, 4)), rng.normal(size=(6000, 4)) + 1
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "robust_ot._command", "distance", tmp_path / "x.npy", tmp_path / "y.npy", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        assert running.stdout is not None
        json.loads(running.stdout.read())
        shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "solving 6000 × 6000 points in 4 dimensions" in shown
