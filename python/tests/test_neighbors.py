"""Nearest neighbors on one machine, and distances from some measures to others."""

import numpy as np
import pytest
import robust_ot


@pytest.fixture
def clouds(rng):
    shifts = 3 * rng.normal(size=(26, 4))
    return [(rng.normal(size=(n := rng.integers(2, 9), 4)) + shift, rng.random(n)) for shift in shifts]


@pytest.mark.parametrize(
    "keywords", [{}, {"metric": "w2"}, {"metric": "ds", "groups": 2, "lam": 9.0}, {"entropy": 0.3, "tol": 1e-2}]
)
def test_neighbors_are_those_of_the_sorted_matrix(clouds, keywords):
    keywords = {"device": "cpu", **keywords}
    queries, documents = clouds[:6], clouds[6:]
    all_of_them = robust_ot.pairwise(queries, documents, **keywords)
    assert all_of_them.matrix.shape == (6, 20)
    del keywords["device"]
    found = robust_ot.nearest(queries, documents, 3, **keywords)
    order = np.argsort(all_of_them.matrix, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(found.indices, order)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(all_of_them.matrix, order, 1))
    np.testing.assert_array_equal(found.lower_bounds, np.take_along_axis(all_of_them.lower_bounds, order, 1))
    assert found.offset == all_of_them.offset
    assert found.solved <= found.pairs == 120
    # Clusters this far apart leave no doubt.
    assert found.certain.all() and found.unfinished == 0


def test_a_rectangle_is_a_part_of_the_square(clouds):
    square = robust_ot.pairwise(clouds[:7], metric="srw")
    part = robust_ot.pairwise(clouds[:3], clouds[3:7], metric="srw")
    np.testing.assert_array_equal(part.matrix, square.matrix[:3, 3:])
    np.testing.assert_array_equal(part.lower_bounds, square.lower_bounds[:3, 3:])
    one = robust_ot.pairwise(clouds[:1], clouds[1:2])
    assert one.matrix[0, 0] == robust_ot.distance(clouds[0][0], clouds[1][0], clouds[0][1], clouds[1][1]).value


def test_no_measure_is_its_own_neighbor(clouds):
    found = robust_ot.nearest(clouds, top_k=25, groups=2)
    assert all(sorted({*row, i}) == list(range(26)) for i, row in enumerate(found.indices.tolist()))
    assert (np.diff(found.distances, axis=1) >= 0).all()


def test_equal_distances_with_open_gaps_are_uncertain():
    rng = np.random.default_rng(0)
    query, document = rng.normal(size=(9, 3)), rng.normal(size=(9, 3)) + 1
    keywords = {"solver": "classic", "max_iter": 1}
    with pytest.warns(robust_ot.ConvergenceWarning):
        one = robust_ot.nearest([query], [document, document], 1, **keywords)
    assert one.indices.tolist() == [[0]] and not one.certain.any()
    assert one.unfinished == 1 and one.relative_gap > 1e-4
    with pytest.warns(robust_ot.ConvergenceWarning):
        assert robust_ot.nearest([query], [document, document], 2, **keywords).certain.all()


def test_features_are_scaled_over_both_sides(clouds):
    points = [points for points, _ in clouds]
    pooled = robust_ot.pairwise(points, scale="std").matrix
    np.testing.assert_allclose(robust_ot.pairwise(points[:9], points[9:], scale="std").matrix, pooled[:9, 9:], rtol=1e-12)
    found = robust_ot.nearest(points[:9], points[9:], 1, scale="std")
    np.testing.assert_array_equal(found.indices.ravel(), pooled[:9, 9:].argmin(axis=1))


def test_columns_are_matched_by_name():
    pandas = pytest.importorskip("pandas")
    ab = pandas.DataFrame({"a": [1.0, 3.0], "b": [2.0, 4.0]})
    ba = pandas.DataFrame({"b": [2.0, 4.0], "a": [1.0, 3.0]})
    with pytest.warns(UserWarning, match=r"matched by name; their order differs in documents\[0\]"):
        assert robust_ot.nearest([ab], [ba], 1).distances == 0
    with pytest.raises(ValueError, match=r"documents\[0\]"):
        robust_ot.pairwise([ab], [ba.rename(columns={"a": "c"})])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([np.eye(2)],), "measures must be at least 2, but there is 1"),
        (([np.eye(2)], []), "documents must be at least 1, but there are 0"),
        (([np.eye(2)], None, 1), "measures must be at least 2"),
        (([np.eye(2)] * 3, None, 3), "top_k must be from 1 to one less than the 3 measures, but is 3"),
        (([np.eye(2)], [np.eye(2)], 2), "top_k must be from 1 to the 1 documents, but is 2"),
        (([np.eye(2)], [np.eye(2)], 0), "top_k must be"),
        (([np.eye(2)], "text", 1), "documents must be a sequence of points, but is 'text'"),
        (([np.eye(2)], [np.full((1, 2), np.nan)], 1), "must be finite"),
        (([np.eye(2)], [np.eye(3)], 1), "2 .* 3"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        robust_ot.nearest(*arguments)
