import numpy as np
import pytest
import robust_ot
from robust_ot._targets import as_targets

METRICS = [
    {"metric": "p"},
    {"metric": "p", "k": 2, "groups": 2},
    {"metric": "p-power"},
    {"metric": "kl", "lam": 2.0},
    {"metric": "ds", "lam": 2.0},
    {"metric": "features"},
    {"metric": "srw", "k": 2},
    {"metric": "rkp", "rho": 3.0},
    {"metric": "w2"},
]


def batch(rng, rows=5, labels=6, dim=4):
    h = rng.dirichlet(np.ones(labels), size=rows)
    return h, rng.normal(size=(labels, dim))


@pytest.mark.parametrize("keywords", METRICS)
@pytest.mark.parametrize("many", [False, True])
def test_gradients_are_those_of_differences(rng, keywords, many):
    h, vectors = batch(rng)
    y = [[0, 3], [1], [2, 4, 5], [0], [5, 1]] if many else [0, 1, 2, 3, 4]
    accurate = {"fw_iterations": 300, "sinkhorn_iterations": 2000, "tolerance": 1e-12, "entropy": 0.3}
    loss = lambda h: robust_ot.loss_gradient(h, y, vectors, **keywords, **accurate)  # noqa: E731
    losses, gradients = loss(h)
    np.testing.assert_allclose(gradients.sum(1), 0, atol=1e-12)
    direction = rng.normal(size=h.shape)
    direction -= direction.mean(1, keepdims=True)
    direction *= 0.5 * h.min()
    step = 1e-4
    difference = (loss(h + step * direction)[0] - loss(h - step * direction)[0]) / (2 * step)
    slope = (gradients * direction).sum(1)
    np.testing.assert_allclose(difference, slope, rtol=2e-3, atol=2e-6 * np.abs(losses).max())


def test_one_label_is_the_distance_to_its_point(rng):
    h, vectors = batch(rng)
    losses, _ = robust_ot.loss_gradient(h, [2] * 5, vectors, entropy=0.1)
    for row in range(5):
        # One target point, one plan: h itself, with entropy Σ h ln h.
        found = robust_ot.distance(vectors, vectors[[2]], h[row])
        assert losses[row] == pytest.approx(found.value + 0.1 * (h[row] * np.log(h[row])).sum(), rel=1e-10)


def test_single_precision_is_close(rng):
    h, vectors = batch(rng)
    single = robust_ot.loss_gradient(h.astype(np.float32), [0, 1, 2, 3, 4], vectors)
    double = robust_ot.loss_gradient(h, [0, 1, 2, 3, 4], vectors)
    assert single[1].dtype == np.float32
    np.testing.assert_allclose(single[0], double[0], rtol=1e-5)
    np.testing.assert_allclose(single[1], double[1], atol=1e-5)


def test_truths_come_in_many_forms(rng):
    from scipy import sparse

    h, vectors = batch(rng, rows=3)
    lists = [[0, 3], [1], [2, 4]]
    matrix = np.zeros((3, 6), dtype=int)
    for row, labels in enumerate(lists):
        matrix[row, labels] = 1
    expected = robust_ot.loss_gradient(h, lists, vectors)
    for form in (matrix, matrix.astype(bool), matrix.astype(float), matrix.tolist(), sparse.csr_matrix(matrix),
                 sparse.coo_array(matrix), [set(row) for row in lists], [np.array(row) for row in lists]):  # fmt: skip
        found = robust_ot.loss_gradient(h, form, vectors)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(as_targets([4.0, 1.0])[1], [4, 1])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], r"predictions must be 2 × 6"),
        ([0, 1, 6, 0, 0], "targets: a sample must have labels below 6, but in row 3 one is 6"),
        ([0, 1, -1, 0, 0], "from 0 on, but one is negative"),
        ([[0], [1], [], [2], [3]], "at least one label, but in row 3 it has none"),
        ([[0, 0], [1], [2], [2], [3]], "each label once"),
        (np.full((5, 6), 2), "must be 0 or 1 where it is a matrix, but one entry is 2"),
        (np.ones((5, 4), dtype=int), r"one column per label, 6, but has shape \(5, 4\)"),
        (["a"] * 5, "targets must hold whole numbers, but has dtype <U1"),
        ([0.5] * 5, "targets must hold whole numbers, but has dtype float64"),
        (np.zeros((5, 6, 1), dtype=int), "1 or 2 dimensions"),
    ],
)
def test_bad_truths_are_named(rng, y, message):
    h, vectors = batch(rng)
    with pytest.raises(ValueError, match=message):
        robust_ot.loss_gradient(h, y, vectors)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictions": np.zeros((5, 6))}, "predictions must be positive, but one is 0"),
        ({"predictions": np.full((5, 6), np.nan)}, "predictions must be positive, but one is nan"),
        ({"predictions": np.full((5, 6), None)}, "predictions must be an array of real numbers, but has dtype object"),
        ({"predictions": np.full((5, 6), 0.5)}, "must sum to 1 in every row, but row 1 sums to 3"),
        ({"label_vectors": np.full((6, 2), np.nan)}, "label_vectors: coordinates must be finite"),
        ({"label_vectors": np.ones((1, 2))}, "at least 2 labels"),
        ({"label_vectors": np.ones(6)}, r"label_vectors must have 2 dimensions, but has shape \(6,\)"),
        ({"entropy": 0.0}, "entropy must be between 1e-30 and 1e30, but is 0"),
        ({"fw_iterations": 0}, "fw_iterations must be at least 1, but is 0"),
        ({"fw_iterations": -1}, "fw_iterations must be a whole number of at least 1, or None, but is -1"),
        ({"entropy": "x"}, "entropy must be a positive number, but is 'x'"),
        (
            {"label_vectors": np.eye(6) * 1e30, "predictions": np.full((5, 6), 1 / 6, dtype=np.float32)},
            "label_vectors must be small enough for their squares to be finite in f32",
        ),
        ({"targets": None}, "targets must be the labels of every row, but is None"),
    ],
)
def test_bad_losses_are_named(rng, change, message):
    h, vectors = batch(rng)
    with pytest.raises(ValueError, match=message):
        robust_ot.loss_gradient(**{"predictions": h, "targets": [0] * 5, "label_vectors": vectors, **change})
