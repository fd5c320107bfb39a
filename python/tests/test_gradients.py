"""Gradients, maps, debiased distances and barycenters in numpy."""

import itertools
import pickle

import numpy as np
import pytest
import robust_ot

SETTINGS = {"tol": 1e-12, "max_iter": 3000}


@pytest.fixture
def clouds(rng):
    return rng.normal(size=(6, 3)), rng.normal(size=(5, 3)) * 0.7 + 0.4, rng.random(6) + 0.2, rng.random(5) + 0.2


def slopes(function, arguments, step=1e-5):
    """Central differences of a function in every entry of every argument."""
    for at, argument in enumerate(arguments):
        found = np.empty_like(argument)
        for place in np.ndindex(argument.shape):
            ends = []
            for sign in (1, -1):
                moved = argument.copy()
                moved[place] += sign * step
                ends.append(function(*arguments[:at], moved, *arguments[at + 1 :]))
            found[place] = (ends[0] - ends[1]) / (2 * step)
        yield found


@pytest.mark.parametrize(
    "settings",
    [
        {"metric": "p", "k": 2},
        {"metric": "features", "lam": 0.5, "entropy": 0.3},
        {"metric": "rkp", "rho": 3.0, "groups": 2},
        {"metric": "w2", "entropy": 0.3, "debias": True, "tol": 1e-11},
    ],
)
def test_gradients_are_slopes(clouds, settings):
    weights = [w / w.sum() for w in clouds[2:]]
    arguments = (*clouds[:2], *weights)
    gradient = robust_ot.distance(*arguments, **{**SETTINGS, **settings}).gradient()
    expected = slopes(lambda *moved: robust_ot.distance(*moved, **{**SETTINGS, **settings}).value, arguments)
    for found, slope in zip((gradient.X, gradient.Y, gradient.a, gradient.b), expected, strict=True):
        np.testing.assert_allclose(found, slope, atol=2e-5)


def test_gradient_of_scaled_features_holds_the_divisors_fixed(clouds):
    X, Y = clouds[0] * [1, 10, 100], clouds[1] * [1, 10, 100]
    spread = np.sqrt(sum(0.5 * (cloud**2).mean(0) for cloud in (X - 0, Y - 0)) - (0.5 * (X.mean(0) + Y.mean(0))) ** 2)
    scaled = robust_ot.distance(X, Y, scale="std", **SETTINGS)
    plain = robust_ot.distance(X / spread, Y / spread, **SETTINGS)
    assert scaled.value == pytest.approx(plain.value, rel=1e-9)
    np.testing.assert_allclose(scaled.gradient().X, plain.gradient().X / spread, atol=1e-6)
    np.testing.assert_allclose(scaled.transport(X[:2]), plain.transport(X[:2] / spread) * spread, rtol=1e-6)


@pytest.mark.parametrize("entropy", [0.0, 0.2])
def test_transport_maps_points(clouds, entropy):
    X, Y, a, b = clouds
    solution = robust_ot.distance(X, Y, a, b, entropy=entropy, **SETTINGS)
    plan = solution.plan()
    images = plan @ Y / plan.sum(1, keepdims=True)
    np.testing.assert_allclose(solution.transport(), images, atol=1e-9)
    np.testing.assert_allclose(solution.transport(X), images, atol=1e-5)
    near = X + 1e-6
    expected = images + 1e-6 if entropy == 0 else images
    np.testing.assert_allclose(solution.transport(near), expected, atol=1e-4)
    with pytest.raises(ValueError, match=r"X_new: points must be k × 3, but is 1 × 2"):
        solution.transport([[0.0, 1.0]])
    with pytest.raises(ValueError, match="X_new"):
        solution.transport([[0.0, 1.0, np.nan]])


def test_a_pickled_solution_says_what_it_lacks(clouds):
    solution = pickle.loads(pickle.dumps(robust_ot.distance(*clouds[:2])))
    for call in (solution.gradient, solution.transport):
        with pytest.raises(ValueError, match="needs the points, which a pickled solution does not keep"):
            call()


def test_debiased_distances():
    A, B = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]])
    settings = {"entropy": 10.0, "tol": 1e-10}
    own = [robust_ot.distance(*pair, **settings).value for pair in ((A, B), (A, A), (B, B))]
    assert own[0] - (own[1] + own[2]) / 2 < -0.3
    found = robust_ot.distance(A, B, debias=True, **settings)
    assert 0 < found.lower_bound <= found.value
    assert found.value == pytest.approx(2**0.5 + 10 * np.log((1 + np.exp(-(8**0.5) / 10)) / 2), abs=1e-8)
    same = robust_ot.distance(A, A, debias=True, **settings)
    assert 0 <= same.lower_bound <= same.value < 1e-8
    with pytest.raises(ValueError, match="entropy must be positive for a debiased distance, but is 0"):
        robust_ot.distance(A, B, debias=True)
    with pytest.raises(ValueError, match="device must be 'auto' or 'cpu' for a debiased distance"):
        robust_ot.distance(A, B, debias=True, entropy=1.0, device="cuda")


def test_arrays_that_have_dlpack_alone(clouds):
    class Exchanged:
        """An array that only speaks DLPack."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    X, Y = clouds[:2]
    assert robust_ot.distance(Exchanged(X), Exchanged(Y)).value == robust_ot.distance(X, Y).value


def test_arrays_are_answered_in_kind(clouds):
    strict = pytest.importorskip("array_api_strict")
    solution = robust_ot.distance(*clouds[:2])
    found = solution.transport(strict.asarray(clouds[0]))
    assert type(found) is type(strict.asarray([0.0]))
    np.testing.assert_array_equal(np.asarray(found), solution.transport(clouds[0]))


def test_names_of_columns_stay(clouds):
    pandas = pytest.importorskip("pandas")
    names = ["height", "width", "depth"]
    solution = robust_ot.distance(pandas.DataFrame(clouds[0], columns=names), pandas.DataFrame(clouds[1], columns=names))
    assert solution.feature_names == names
    assert "weight of depth" in solution._repr_html_() or "with depth" in solution._repr_html_()
    assert pickle.loads(pickle.dumps(solution)).feature_names == names


def test_barycenter_of_two_points_each_by_brute_force():
    """With two points in each of three measures, a barycenter of two points assigns them in one of four ways."""
    rng = np.random.default_rng(3)
    clouds = [rng.normal(size=(2, 2)) + shift for shift in (0, 2, 5)]
    best = min(
        sum(((np.mean([c[::s] for c, s in zip(clouds, signs, strict=True)], axis=0) - c[::s]) ** 2).sum() / 2
            for c, s in zip(clouds, signs, strict=True)) / 3
        for signs in itertools.product([1], [1, -1], [1, -1])
    )  # fmt: skip
    starts = [robust_ot.barycenter(clouds, support=c, metric="w2").value for c in clouds]
    assert min(starts) == pytest.approx(best, rel=1e-9)
    assert all(value >= best * (1 - 1e-9) for value in starts)


@pytest.mark.parametrize(
    ("settings", "tol"),
    [
        ({"metric": "w2"}, 1e-6),
        ({"metric": "p"}, 1e-6),
        ({"metric": "p", "entropy": 0.2}, 1e-4),
    ],
)
def test_barycenters_are_stationary_and_certified(rng, settings, tol):
    clouds = [rng.normal(size=(n, 3)) + rng.normal(size=3) for n in (12, 9, 15)]
    weights = [1.0, 2.0, 1.0]
    found = robust_ot.barycenter(clouds, weights, support=8, tol=tol, **settings)
    assert found.status == "converged" and found.points.shape == (8, 3)
    assert np.all(np.diff(found.history) <= 3 * tol * found.history[0]) and found.history[-1] < found.history[0]
    shares = np.array(weights) / 4
    direct = [robust_ot.distance(cloud, found.points, tol=tol, **settings) for cloud in clouds]
    assert found.value == pytest.approx(shares @ [one.value for one in direct], rel=3 * tol)
    assert found.lower_bound <= found.value <= found.lower_bound + 3 * tol * (found.value + 1)
    force = sum(share * one.gradient().Y for share, one in zip(shares, found.distances, strict=True))
    assert np.abs(force).max() < max(1e-2, 3 * tol**0.5) * np.abs(found.distances[0].gradient().Y).max()


def test_fixed_support_agrees_with_bregman_projections(rng):
    """For w2, the first oracle's answer is that of the iterative Bregman projections of Benamou et al. (2015)."""
    grid = np.linspace(0, 1, 12)[:, None]
    a, b = rng.random(12) + 0.1, rng.random(12) + 0.1
    a, b, reg = a / a.sum(), b / b.sum(), 0.05
    found = robust_ot.barycenter([(grid, a), (grid, b)], [0.3, 0.7], support=grid, fixed=True, entropy=reg, tol=1e-9)
    kernel = np.exp(-((grid - grid.T) ** 2) / reg)
    v = np.ones((2, 12))
    for _ in range(20_000):
        u = np.stack([a, b]) / (v @ kernel)
        carried = u @ kernel
        mean = np.exp(np.array([0.3, 0.7]) @ np.log(carried))
        v = mean / carried
    np.testing.assert_allclose(found.weights, mean, atol=2e-5)
    np.testing.assert_array_equal(found.points, grid)
    assert len(found.history) <= 3 and found.lower_bound <= found.value <= found.lower_bound + 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"measures": []}, "measures must be at least 1"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": [1.0, -1.0]}, "-1"),
        ({"support": 0}, "points must be at least 1, but is 0"),
        ({"support": [[0.0, 0.0, 0.0]]}, "3"),
        ({"fixed": True, "support": [[0.0, 0.0]]}, "entropy must be positive"),
        ({"max_steps": -1}, "max_steps must be a whole number"),
    ],
)
def test_bad_barycenters(arguments, message):
    defaults = {"measures": [np.zeros((2, 2)), np.ones((3, 2))], "support": 2}
    with pytest.raises(ValueError, match=message):
        robust_ot.barycenter(**{**defaults, **arguments})
