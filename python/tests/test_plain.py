import numpy as np
import pytest
import robust_ot

ot = pytest.importorskip("ot", reason="these tests compare with POT")


def problem(rng, m, n):
    X, Y = rng.normal(size=(m, 3)), rng.normal(size=(n, 3))
    a, b = rng.random(m), rng.random(n)
    return a / a.sum(), b / b.sum(), ((X[:, None] - Y[None]) ** 2).sum(-1)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (20, 20), (50, 35), (200, 150)])
def test_exact_transport_agrees_with_pot(rng, shape):
    a, b, M = problem(rng, *shape)
    plan, log = robust_ot.emd(a, b, M, log=True)
    theirs, their_log = ot.emd(a, b, M, log=True)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)
    assert log["cost"] == pytest.approx(their_log["cost"], abs=1e-9)
    assert robust_ot.emd2(a, b, M) == pytest.approx(ot.emd2(a, b, M), abs=1e-9)
    # The potentials prove optimality: they are feasible and have the same value.
    assert (log["u"][:, None] + log["v"][None] <= M + 1e-12).all()
    assert a @ log["u"] + b @ log["v"] == pytest.approx((plan * M).sum(), abs=1e-12)


@pytest.mark.parametrize("reg", [10.0, 1.0, 0.1])
@pytest.mark.parametrize("shape", [(1, 7), (20, 20), (60, 45)])
def test_entropic_transport_agrees_with_pot(rng, reg, shape):
    a, b, M = problem(rng, *shape)
    plan, log = robust_ot.sinkhorn(a, b, M, reg, stopThr=1e-12, log=True)
    theirs = ot.sinkhorn(a, b, M, reg, method="sinkhorn_log", stopThr=1e-13, numItermax=100000)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)
    np.testing.assert_allclose(np.exp(log["log_u"][:, None] + log["log_v"][None] - M / reg), plan, atol=1e-9)
    cost = robust_ot.sinkhorn2(a, b, M, reg, stopThr=1e-12)
    assert cost == pytest.approx((theirs * M).sum(), abs=1e-9)


def test_single_precision_stays_single_and_close(rng):
    a, b, M = problem(rng, 30, 40)
    single = M.astype(np.float32)
    exact, entropic = robust_ot.emd(a, b, single), robust_ot.sinkhorn(a, b, single, 0.5, stopThr=1e-6)
    assert exact.dtype == entropic.dtype == np.float32
    assert (exact * M).sum() == pytest.approx(ot.emd2(a, b, M), rel=1e-5)
    np.testing.assert_allclose(entropic, robust_ot.sinkhorn(a, b, M, 0.5), atol=1e-6)
    # Single-precision weights, whose sums differ in the last digits.
    assert robust_ot.emd(a.astype(np.float32), b.astype(np.float32), single).sum() == pytest.approx(1, rel=1e-6)


def test_mass_need_not_be_one_and_empty_weights_are_uniform(rng):
    a, b, M = problem(rng, 10, 12)
    np.testing.assert_allclose(robust_ot.emd(3 * a, 3 * b, M), 3 * robust_ot.emd(a, b, M), atol=1e-12)
    np.testing.assert_allclose(robust_ot.sinkhorn(3 * a, 3 * b, M, 1.0), 3 * robust_ot.sinkhorn(a, b, M, 1.0), atol=1e-9)
    np.testing.assert_allclose(robust_ot.emd([], [], M).sum(1), 0.1)


def test_layouts_agree(rng):
    a, b, M = problem(rng, 15, 10)
    expected = robust_ot.emd(a, b, M)
    for form in (np.asfortranarray(M), M.T.copy().T, np.repeat(M, 2, axis=1)[:, ::2], M.tolist()):
        np.testing.assert_array_equal(robust_ot.emd(a, b, form), expected)


def test_zero_weights_and_small_regularization(rng):
    a, b, M = problem(rng, 12, 9)
    a[:5], b[0] = 0, 0
    a, b = a / a.sum(), b / b.sum()
    plan = robust_ot.sinkhorn(a, b, M, 1e-3 * M.max(), stopThr=1e-8, numItermax=100000)
    assert np.isfinite(plan).all()
    np.testing.assert_allclose(plan.sum(1), a, atol=1e-12)
    assert (plan * M).sum() == pytest.approx(robust_ot.emd2(a, b, M), rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([1.0], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]]),
            r"one row per weight of a and one column per weight of b, \(1, 2\), but has shape \(2, 2\)",
        ),
        (([0.5, 0.5], [1.0, 1.0], [[0.0, 1.0], [1.0, 0.0]]), "same total mass, but have 1 and 2"),
        (([0.5, np.nan], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]]), "weights must be finite"),
        (([0.5, 0.5], [0.5, 0.5], [[0.0, np.nan], [1.0, 0.0]]), "costs must be finite, but row 1, column 2 is NaN"),
        (([0.5, 0.5], [0.5, 0.5], [0.0, 1.0]), r"M must have 2 dimensions, but has shape \(2,\)"),
        (([0.5, 0.5], [0.5, 0.5], [["a", "b"], ["c", "d"]]), "M must be an array of real numbers"),
        (([], [], np.empty((0, 0))), "weights must have a positive finite sum"),
    ],
)
def test_bad_problems(arguments, message):
    with pytest.raises(ValueError, match=message):
        robust_ot.emd(*arguments)
    with pytest.raises(ValueError, match=message):
        robust_ot.sinkhorn(*arguments, 1.0)


def test_regularization_must_be_positive_and_not_converging_is_said():
    half = [0.5, 0.5]
    for reg in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="reg must be positive"):
            robust_ot.sinkhorn(half, half, [[0.0, 1.0], [1.0, 0.0]], reg)
    with pytest.warns(robust_ot.ConvergenceWarning, match="marginal error") as caught:
        robust_ot.sinkhorn([0.3, 0.7], half, [[0.0, 1.0], [1.0, 0.5]], 0.01, numItermax=1)
    assert caught[0].message.gap > 1e-9


def test_costs_are_those_of_the_plan_whatever_the_sums():
    a, b, M = [0.5, 0.5], [0.5, 0.5 + 4e-8], np.array([[0.0, 1e9], [1e9, 0.0]])
    for pair in ((a, b), (b, a)):
        assert robust_ot.emd2(*pair, M) == pytest.approx((robust_ot.emd(*pair, M) * M).sum(), rel=1e-12)


def test_single_precision_converges_and_is_rounded(rng):
    a, b, M = problem(rng, 7, 5)
    for reg in (1e-8, 1e-2, 1.0):
        plan, log = robust_ot.sinkhorn(a, b, M.astype(np.float32), reg, log=True, numItermax=100_000, stopThr=1e-8)
        np.testing.assert_allclose(plan.sum(1), a, atol=1e-6)
        np.testing.assert_allclose(plan.sum(0), b, atol=1e-6)
        assert log["err"][0] <= 1e-8


def test_bad_settings_are_named():
    half, M = [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]]
    for keywords, message in (
        ({"stopThr": -1.0}, "stopThr must be finite and not negative"),
        ({"stopThr": np.nan}, "stopThr must be finite and not negative"),
        ({"numItermax": 0}, "numItermax must be at least 1"),
        ({"numItermax": -1}, "numItermax must be a whole number of at least 1, but is -1"),
        ({"reg": "x"}, "reg must be a positive number, but is 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            robust_ot.sinkhorn(half, half, M, **{"reg": 1.0, **keywords})
    with pytest.raises(ValueError, match=r"a must have 1 dimension, but has shape \(\)"):
        robust_ot.emd(1.0, half, M)
    with pytest.warns(robust_ot.ConvergenceWarning) as caught:
        robust_ot.sinkhorn2([0.3, 0.7], half, [[0.0, 1.0], [1.0, 0.5]], 0.01, numItermax=1)
    assert caught[0].filename == __file__
