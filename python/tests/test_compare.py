"""Comparisons of two tables: exact p-values by brute force, frames, what changed, drift, bad input."""

from itertools import combinations

import numpy as np
import pytest
import robust_ot
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

QUICK = {"permutations": 99}


def arrangements(m, n):
    """All choices of the rows before, the observed one first."""
    return [list(chosen) for chosen in combinations(range(m + n), m)]


def exact_p(statistics):
    """The share of arrangements at least as extreme as the first."""
    statistics = np.asarray(statistics)
    return (statistics >= statistics[0] - 1e-9 * abs(statistics[0])).mean()


@pytest.fixture
def few(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=(4, 3)) * [1, 1, 3]


@pytest.fixture
def changed(rng):
    before, after = rng.normal(size=(120, 5)), rng.normal(size=(100, 5))
    after[:, 1] += 1.2
    after[:, 4] = 0.95 * after[:, 3] + 0.3 * after[:, 4]
    return before, after


def test_moments_and_energy_have_the_p_values_of_all_arrangements(few):
    before, after = few
    found = robust_ot.compare(before, after)
    assert found.exhaustive and found.permutations == 125
    pooled = np.vstack(few)
    pooled = (pooled - pooled.mean(0)) / pooled.std(0)
    distances = cdist(pooled, pooled)
    moments, energies = [], []
    for chosen in arrangements(5, 4):
        rest = np.setdiff1d(np.arange(9), chosen)
        x, y = pooled[chosen], pooled[rest]
        moments.append(np.linalg.norm(x.T @ x / 5 - y.T @ y / 4))
        inside = distances[np.ix_(chosen, chosen)].mean() + distances[np.ix_(rest, rest)].mean()
        energies.append(2 * distances[np.ix_(chosen, rest)].mean() - inside)
    p_values = {part["name"]: part["p_value"] for part in found.parts}
    assert p_values["moments"] == pytest.approx(exact_p(moments))
    assert p_values["energy"] == pytest.approx(exact_p(energies))
    np.testing.assert_allclose(np.sort(found.arrangements("energy")), np.sort(energies), rtol=1e-9)


def units(statistics):
    """Statistics of arrangements × columns, in standard deviations above the mean over all arrangements."""
    return (statistics - statistics.mean(0)) / statistics.std(0)


def strengths(statistics):
    """1 / rank of every arrangement; beyond the second largest, an exponential tail."""
    ranks = (statistics[:, None] <= statistics + 1e-9 * np.abs(statistics[:, None])).sum(1)
    found, scores = 1 / ranks, units(statistics)
    first = np.argmax(scores)
    if ranks[first] == 1:
        found[first] = np.exp(scores[first] - max(np.delete(scores, first).max(), 0))
    return found


def test_the_family_is_that_of_its_definition(few):
    found = robust_ot.compare(*few)
    pooled = np.vstack(few)
    shares = (rankdata(pooled, axis=0) - 0.5) / 9
    # Values in any unit, then their logistic scores.
    tables = [pooled / pooled.std(0), np.log(shares / (1 - shares))]
    distances, columns, pairs = [], [], []
    for chosen in arrangements(5, 4):
        rest = np.setdiff1d(np.arange(9), chosen)
        squares, spreads, correlations = [], [], []
        for table in tables:
            x, y = table[chosen], table[rest]
            # Every row of x as four rows and of y as five: W₂² between samples of equal size.
            squares.append(((np.sort(np.repeat(x, 4, axis=0), axis=0) - np.sort(np.repeat(y, 5, axis=0), axis=0)) ** 2).mean(0))
            least = 1e-6 * (x.var(0) + y.var(0))
            spreads.append(np.log((x.var(0) + least) / (y.var(0) + least)) ** 2)
            r, other = (np.corrcoef(side.T)[np.triu_indices(3, 1)] * (1 - 1e-6) for side in (x, y))
            correlations.append((np.arctanh(r) - np.arctanh(other)) ** 2)
        distances.append(np.concatenate(squares))
        columns.append([*squares, *spreads])
        pairs.append(correlations)
    expected = {
        "columns": units(np.cbrt(columns)).max((1, 2)),
        "sum": units(np.array(distances)).sum(1),
        "pairs": units(np.cbrt(pairs)).max((1, 2)),
        "moments": found.arrangements("moments"),
        "energy": found.arrangements("energy"),
    }
    for name, statistics in expected.items():
        np.testing.assert_allclose(found.arrangements(name), statistics, rtol=1e-7, atol=1e-9, err_msg=name)
    weights = {"columns": 1, "sum": 1, "pairs": 0.5, "moments": 0.5, "energy": 1}
    assert {part["name"]: part["weight"] for part in found.parts} == weights
    assert found.p_value == pytest.approx(exact_p(sum(weights[name] * strengths(expected[name]) for name in weights)))


def test_one_distance_has_the_p_value_of_all_assignments(rng):
    before, after = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)) + 0.8
    found = robust_ot.compare(before, after, metric="w2", scale="none")
    pooled = np.vstack([before, after])
    costs = cdist(pooled, pooled, "sqeuclidean")
    distances = []
    for chosen in arrangements(4, 4):
        part = costs[np.ix_(chosen, np.setdiff1d(np.arange(8), chosen))]
        distances.append(part[linear_sum_assignment(part)].mean())
    assert found.exhaustive and found.p_value == pytest.approx(exact_p(distances))
    value, lower = found.distance
    assert lower <= distances[0] + 1e-9 and value == pytest.approx(distances[0], rel=1e-5)


def test_what_changed_is_named_and_nothing_else(changed):
    found = robust_ot.compare(*changed, **QUICK)
    assert found.differs and found.p_value == 0.01
    assert found.features[0]["name"] == "2" and found.features[0]["change"]["kind"] == "mean"
    assert found.pairs[0]["names"] == ["4", "5"]
    assert all(row["p_value"] >= row["unadjusted"] for row in [*found.features, *found.pairs])
    weights = {row["name"]: row["weight"] for row in found.features}
    assert max(weights, key=weights.get) == "2"
    assert [row["p_value"] for row in found.features] == sorted(row["p_value"] for row in found.features)
    before, after = changed
    farthest = found.moved[0]
    pooled = np.vstack(changed).std(0)
    distance = np.linalg.norm((before[farthest["before"]] - after[farthest["after"]]) / pooled)
    assert farthest["distance"] == pytest.approx(distance)


def test_the_same_seed_gives_the_same_answer_on_any_layout_and_number_of_threads(changed):
    first = robust_ot.compare(*changed, **QUICK)
    threads = robust_ot.get_threads()
    try:
        robust_ot.set_threads(1)
        again = robust_ot.compare(*(np.asfortranarray(table) for table in changed), **QUICK)
    finally:
        robust_ot.set_threads(threads)
    assert str(again) == str(first) and again.pairs == first.pairs
    other = robust_ot.compare(*changed, seed=1, **QUICK)
    assert (other.arrangements("energy")[1:] != first.arrangements("energy")[1:]).any()
    with pytest.raises(KeyError, match="part must be one of columns, sum, pairs, moments, energy, but is 'w2'"):
        first.arrangements("w2")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_matched_by_name_with_text_and_gaps(library, changed):
    frames = pytest.importorskip(library)
    names = ["a_1", "a_2", "b_1", "b_2", "b_3"]
    before, after = (dict(zip(names, table.T, strict=True)) for table in changed)
    before["kind"] = ["u", "v"] * 60
    after = {"kind": ["u", "w"] * 50, **{name: after[name] for name in reversed(names)}}
    before["count"], after["count"] = [None, *range(119)], list(range(100))
    tables = frames.DataFrame(before), frames.DataFrame(after)
    with pytest.raises(ValueError, match="missing must be drop-rows or drop-columns .* row 1 of before has no 'count'"):
        robust_ot.compare(*tables)
    found = robust_ot.compare(*tables, missing="drop-rows", group_by="prefix", **QUICK)
    assert found.missing_rows == (1, 0) and found.rows == (119, 100)
    assert found.columns == [*names, "count"]
    assert {row["name"]: row["columns"] for row in found.groups} == {"a": names[:2], "b": names[2:]}
    (kind,) = found.categories
    sides = {share["value"]: (share["before"], share["after"]) for share in kind["shares"]}
    assert kind["p_value"] == 0.01 and sides == {"u": (59, 50), "v": (60, 0), "w": (0, 50)}
    fewer = robust_ot.compare(*tables, missing="drop-columns", drop=["k*"], group_by="^(a|b_[12])", **QUICK)
    assert fewer.left_out == {"count": "1 missing values"} and not fewer.categories
    assert {row["name"] for row in fewer.groups} == {"a", "b_1", "b_2"}
    within = robust_ot.compare(*tables, columns=["a*", "kind"], by="kind", **QUICK).within
    assert list(within) == ["u", "v", "w"] and within["v"] is None
    assert within["u"].rows == (60, 50) and within["u"].differs


def test_pairs_find_what_independent_rows_hide(rng):
    before = 10 * rng.normal(size=(40, 2))
    after = before + 0.3 + 0.1 * rng.normal(size=(40, 2))
    assert robust_ot.compare(before, after, paired=True, **QUICK).p_value == 0.01
    assert robust_ot.compare(before, after, **QUICK).p_value > 0.5


def test_a_comparison_shows_itself(changed):
    found = robust_ot.compare(*changed, **QUICK)
    assert "4 with 5" in str(found) and "correlation" in str(found)
    page = found._repr_html_()
    assert page.count("<table>") == 2 and "The tables differ, p = 0.01" in page
    pd = pytest.importorskip("pandas")
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame) and frame["name"][0] == "2" and frame["change"][0].startswith("mean +")
    assert list(found.to_frame("pairs").columns[:2]) == ["first", "second"]
    with pytest.raises(ValueError, match="kind must be one of features, pairs"):
        found.to_frame("rows")


def test_a_detector_follows_the_conventions_of_scikit_learn(changed):
    base = pytest.importorskip("sklearn.base")
    before, after = changed
    detector = base.clone(robust_ot.DriftDetector(permutations=99, alpha=0.02))
    assert detector.get_params()["alpha"] == 0.02
    assert detector.fit(before) is detector
    assert detector.score(after) == 0.01 and detector.predict(after) == -1
    assert detector.comparison_.features[0]["name"] == "2"
    assert detector.predict(before[::-1]) == 1
    assert robust_ot.DriftDetector(before, permutations=99).score(after) == 0.01
    with pytest.raises(ValueError, match="reference must be given"):
        robust_ot.DriftDetector().score(after)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"after": np.ones((1, 2))}, ValueError, "after must have at least two rows, but has 1"),
        ({"after": np.ones(3)}, ValueError, "after must have two dimensions, but has 1"),
        ({"after": np.ones((4, 3))}, ValueError, "there are 2 and 3"),
        ({"before": np.ones((3, 2)), "after": np.ones((3, 2))}, ValueError, "columns must vary"),
        ({"after": [["a", "b"], ["c", "d"]]}, ValueError, "hold numbers or text in both tables"),
        ({"alpha": 0}, ValueError, "alpha must be above 0 and below 1, but is 0"),
        ({"permutations": 10}, ValueError, "permutations must be at least 19"),
        ({"permutations": -1}, ValueError, "permutations must be a whole number"),
        ({"columns": "1"}, TypeError, "columns must be a list of patterns"),
        ({"columns": ["x"]}, ValueError, "'x' matches none"),
        ({"group_by": "("}, ValueError, r"group_by must be prefix or a regular expression, but is '\(' \(unclosed group\)"),
        ({"group_by": "prefix"}, ValueError, "group_by must put a column into a group"),
        ({"group_by": {"1": 2}}, ValueError, "group_by must be 'prefix', a regular expression or a dict"),
        ({"by": "1", "paired": True}, ValueError, "at most one of by, strata, blocks and paired"),
        ({"strata": "3"}, ValueError, "strata must be a column of before"),
        ({"paired": True, "after": np.eye(5)[:, :2]}, ValueError, "there are 3 and 5"),
        ({"metric": "nothing"}, ValueError, "nothing"),
        ({"missing": "fill"}, ValueError, "missing must be error, drop-rows or drop-columns, but is fill"),
        ({"max_rows": 1}, ValueError, "max_rows must be at least 2"),
    ],
)
def test_bad_input_names_the_rule_and_the_value(change, error, message):
    keywords = {"before": [[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]], "after": [[0.0, 2.0], [1.0, 1.0], [3.0, 2.0]], **change}
    with pytest.raises(error, match=message):
        robust_ot.compare(keywords.pop("before"), keywords.pop("after"), **keywords)
