"""POT's calls: against scipy, closed forms, duality and finite differences; POT itself is not needed."""

import warnings

import numpy as np
import pytest
import robust_ot
import robust_ot.pot as ot
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import coo_array, issparse, kron
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

HALF = [0.5, 0.5]
SWAP = [[0.0, 1.0], [1.0, 0.0]]


def problem(rng, m, n):
    a, b = rng.random(m), rng.random(n)
    return a / a.sum(), b / b.sum(), rng.random((m, n))


def linear_program(a, b, M, allowed=None):
    """The optimal cost, by scipy."""
    m, n = M.shape
    rows, columns = kron(np.eye(m), np.ones((1, n))), kron(np.ones((1, m)), np.eye(n))
    equalities = np.vstack([rows.toarray(), columns.toarray()])
    bounds = [(0, None if allowed is None or ok else 0) for ok in (np.ones(m * n) if allowed is None else allowed.ravel())]
    return linprog(M.ravel(), A_eq=equalities, b_eq=np.r_[a, b], bounds=bounds).fun


class TestExact:
    @pytest.mark.parametrize("shape", [(1, 4), (7, 5), (12, 15)])
    def test_plan_and_potentials_prove_the_cost_of_a_linear_program(self, rng, shape):
        a, b, M = problem(rng, *shape)
        plan, log = ot.emd(a, b, M, log=True)
        assert log["cost"] == pytest.approx(linear_program(a, b, M), abs=1e-9)
        np.testing.assert_allclose(plan.sum(1), a, atol=1e-12)
        np.testing.assert_allclose(plan.sum(0), b, atol=1e-12)
        assert (log["u"][:, None] + log["v"] <= M + 1e-12).all()
        assert a @ log["u"] == pytest.approx(b @ log["v"], abs=1e-12)
        assert a @ log["u"] + b @ log["v"] == pytest.approx(log["cost"], abs=1e-12)
        assert (log["warning"], log["result_code"]) == (None, 1)
        assert set(ot.emd(a, b, M, 100_000, True, False)[1]) == {"cost", "u", "v", "warning", "result_code"}

    def test_uniform_weights_give_an_assignment(self, rng):
        M = rng.random((30, 30))
        rows, columns = linear_sum_assignment(M)
        plan = ot.emd([], [], M)
        np.testing.assert_allclose(plan[rows, columns], 1 / 30)
        assert ot.emd2(None, [], M) == pytest.approx(M[rows, columns].mean())

    def test_several_targets(self, rng):
        a, _, M = problem(rng, 6, 5)
        targets = rng.random((5, 3))
        targets /= targets.sum(0)
        expected = [linear_program(a, targets[:, k], M) for k in range(3)]
        # The fourth argument is the number of processes, as code for POT passes it.
        np.testing.assert_allclose(ot.emd2(a, targets, M, 2), expected, atol=1e-9)
        answers = ot.emd2(a, targets, M, log=True, return_matrix=True)
        for (cost, log), target, value in zip(answers, targets.T, expected, strict=True):
            assert cost == log["cost"] == pytest.approx(value, abs=1e-9)
            np.testing.assert_allclose(log["G"].sum(0), target, atol=1e-12)
        assert "G" not in ot.emd2(a, targets, M, log=True)[0][1]
        assert [type(cost) for cost in ot.emd2(a, targets[:, :1], M)] == [np.float64]

    def test_unequal_sums_are_refused_by_either_error_or_scaled(self, rng):
        a, b, M = problem(rng, 4, 5)
        for error in (ValueError, AssertionError):
            with pytest.raises(error, match="same total mass, but have .* and 2"):
                ot.emd(a, 2 * b, M)
            with pytest.raises(error, match="one row per weight of a"):
                ot.emd2(a[:3], b, M)
        np.testing.assert_allclose(ot.emd(a, 2 * b, M, check_marginals=False), ot.emd(a, b, M), atol=1e-15)

    def test_sparse_costs_forbid_what_is_not_stored(self, rng):
        a, b, M = problem(rng, 8, 9)
        # The plan for other costs shows that a plan exists; a few more entries leave a choice.
        allowed = (ot.emd(a, b, rng.random((8, 9))) > 0) | (rng.random((8, 9)) < 0.2)
        sparse = coo_array(np.where(allowed, M, 0.0))
        plan, log = ot.emd(a, b, sparse, log=True)
        assert issparse(plan)
        assert not plan.toarray()[~allowed].any()
        assert log["cost"] == pytest.approx(linear_program(a, b, M, allowed), abs=1e-9)
        assert ot.emd2(a, b, sparse.tocsr()) == pytest.approx(log["cost"])
        u, v = log["u"], log["v"]
        assert ((u[:, None] + v)[allowed] <= M[allowed] + 1e-10).all()
        # The same costs, with the forbidden ones infinite.
        infinite = np.where(allowed, M, np.inf)
        dense, of_dense = ot.emd(a, b, infinite, log=True)
        np.testing.assert_array_equal(dense, plan.toarray())
        assert of_dense["cost"] == log["cost"]
        assert ot.emd2(a, b, infinite.astype(np.float32)) == pytest.approx(log["cost"], rel=1e-6)
        start = (rng.normal(size=8), rng.normal(size=9))
        assert ot.emd2(a, b, sparse, potentials_init=start) == pytest.approx(log["cost"], abs=1e-12)
        diagonal = coo_array(([1.0, 2.0], ([0, 1], [0, 1])), shape=(2, 2))
        with pytest.raises(ValueError, match="the allowed arcs must have a plan .* 2.000e-1 of row 1 .* nowhere to go"):
            ot.emd([0.7, 0.3], HALF, diagonal)
        with pytest.raises(ValueError, match=r"one row per weight of a .* \(3, 2\), but has shape \(2, 2\)"):
            ot.emd([0.3, 0.3, 0.4], HALF, diagonal)
        with pytest.raises(ValueError, match="costs must be finite, but row 1, column 2 is -inf"):
            ot.emd(HALF, HALF, [[np.inf, -np.inf], [0.0, 0.0]])

    def test_sparse_costs_take_the_memory_of_their_entries(self, rng):
        # As a dense matrix, these costs would take 320 GB.
        n = 200_000
        there = rng.permutation(n)
        near, far = rng.random(n), 2.0 + rng.random(n)
        rows, columns = np.arange(n), np.concatenate([there, np.roll(there, 1)])
        costs = coo_array((np.concatenate([near, far]), (np.concatenate([rows, rows]), columns)), shape=(n, n))
        plan, log = ot.emd([], [], costs, log=True)
        assert plan.nnz == n
        assert log["cost"] == pytest.approx(near.mean(), rel=1e-12)

    def test_the_limit_of_pivots_leaves_out_what_has_no_way_yet(self, rng):
        a, b, M = problem(rng, 30, 40)
        allowed = ot.emd(a, b, rng.random(M.shape)) > 0
        with pytest.warns(robust_ot.ConvergenceWarning, match="Mass that has no way .* is left out"):
            plan = ot.emd(a, b, np.where(allowed, M, np.inf), numItermax=1)
        assert not plan[~allowed].any()
        assert (plan.sum(1) <= a + 1e-12).all()

    def test_the_limit_of_pivots_warns_and_leaves_a_plan(self, rng):
        a, b, M = problem(rng, 30, 40)
        best = ot.emd2(a, b, M)
        with pytest.warns(robust_ot.ConvergenceWarning, match="numItermax reached before optimality") as caught:
            plan, log = ot.emd(a, b, M, numItermax=3, log=True)
        assert caught[0].filename == __file__
        assert (log["result_code"], "numItermax" in log["warning"]) == (3, True)
        assert log["cost"] > best
        np.testing.assert_allclose(plan.sum(1), a, atol=1e-12)
        np.testing.assert_allclose(plan.sum(0), b, atol=1e-12)
        with pytest.raises(ValueError, match="numItermax must be at least 1, but is 0"):
            ot.emd(a, b, M, 0)
        with pytest.raises(ValueError, match=r"numItermax must be a whole number of at least 1, but is 1\.5"):
            ot.emd(a, b, M, 1.5)
        assert ot.emd2(a, b, M, numItermax=1e5) == best

    def test_potentials_to_start_from_save_pivots(self, rng):
        a, b, M = problem(rng, 30, 40)
        plan, log = ot.emd(a, b, M, log=True)
        start = log["u"], log["v"]
        again, found = ot.emd(a, b, M, log=True, potentials_init=start)
        np.testing.assert_allclose(again, plan, atol=1e-12)
        np.testing.assert_allclose(found["u"][:, None] + found["v"], log["u"][:, None] + log["v"], atol=1e-9)
        for bad, message in (
            (start[::-1], r"must have shapes \(30,\) and \(40,\)"),
            ((start[0] * np.nan, start[1]), "must be finite, but contains nan"),
            (3.0, "must be a pair of vectors"),
        ):
            with pytest.raises(ValueError, match=f"potentials_init {message}"):
                ot.emd2(a, b, M, potentials_init=bad)


class TestEntropic:
    @pytest.mark.parametrize("method", ["sinkhorn", "sinkhorn_log", "sinkhorn_stabilized", "greenkhorn", "SINKHORN"])
    def test_every_name_solves_the_problem(self, rng, method):
        a, b, M = problem(rng, 8, 6)
        plan, log = ot.sinkhorn(a, b, M, 0.1, method, stopThr=1e-12, log=True)
        # These two facts characterize the optimum: its marginals, and its form.
        np.testing.assert_allclose(plan.sum(1), a, atol=1e-12)
        np.testing.assert_allclose(plan.sum(0), b, atol=1e-12)
        np.testing.assert_allclose(log["u"][:, None] * np.exp(-M / 0.1) * log["v"], plan, atol=1e-11)
        np.testing.assert_array_equal(log["warmstart"][0], log["logu"])
        threefold, log = ot.sinkhorn(3 * a, 3 * b, M, 0.1, method, log=True)
        np.testing.assert_allclose(log["u"][:, None] * np.exp(-M / 0.1) * log["v"], threefold, atol=1e-8)
        np.testing.assert_allclose(log["alpha"], 0.1 * log["log_u"])

    def test_unknown_methods_and_arguments_are_refused(self):
        for function, method in ((ot.sinkhorn, "screenkhorn"), (ot.sinkhorn2, "greenkhorn"), (ot.sinkhorn, None)):
            with pytest.raises(ValueError, match=r"method must be one of 'sinkhorn', .*, but is "):
                function(HALF, HALF, SWAP, 1.0, method=method)
            with pytest.raises(TypeError, match="no argument 'regularization'"):
                function(HALF, HALF, SWAP, 1.0, regularization=2.0)
        ot.sinkhorn(HALF, HALF, SWAP, 1.0, tau=1e3, print_period=10, verbose=True)

    def test_several_targets_are_solved_one_by_one(self, rng):
        a, _, M = problem(rng, 6, 5)
        targets = rng.random((5, 3))
        targets /= targets.sum(0)
        for function in (ot.sinkhorn, ot.sinkhorn2):
            losses, log = function(a, targets, M, 0.2, log=True)
            plans = [ot.sinkhorn(a, target, M, 0.2) for target in targets.T]
            np.testing.assert_allclose(losses, [(plan * M).sum() for plan in plans], rtol=1e-12)
            assert log["u"].shape == (6, 3)
            assert len(log["err"]) == 3
            rebuilt = log["u"][:, None] * np.exp(-M / 0.2)[:, :, None] * log["v"]
            np.testing.assert_allclose(rebuilt, np.stack(plans, axis=2), atol=1e-8)

    def test_a_warm_start_at_the_solution_needs_no_second_one(self, rng):
        a, b, M = problem(rng, 20, 30)
        a[3] = 0.0
        a /= a.sum()
        plan, log = ot.sinkhorn(a, b, M, 0.01, numItermax=100_000, log=True)
        again, found = ot.sinkhorn(a, b, M, 0.01, warmstart=(log["log_u"], log["log_v"]), log=True)
        assert found["niter"] <= 2 < log["niter"]
        np.testing.assert_allclose(again, plan, atol=1e-8)
        np.testing.assert_allclose(np.exp(found["log_u"][:, None] + found["log_v"] - M / 0.01), again, atol=1e-8)
        with pytest.raises(ValueError, match=r"warmstart must have shapes \(20,\) and \(30,\)"):
            ot.sinkhorn(a, b, M, 0.01, warmstart=(log["log_v"], log["log_u"]))

    def test_single_precision_stays_single(self, rng):
        a, b, M = problem(rng, 6, 5)
        single = M.astype(np.float32)
        answers = [ot.emd2(a, b, single), ot.sinkhorn2(a, b, single, 0.5), ot.sinkhorn(a, b[:, None], single, 0.5)]
        answers += [ot.emd(a, b, single, log=True)[1]["u"], ot.dist(single), ot.solve(single, reg=1.0).value]
        answers += [ot.wasserstein_1d(single, single), ot.emd_1d(single[:, 0], single[:, 1])]
        assert {answer.dtype for answer in answers} == {np.dtype(np.float32)}

    def test_not_converging_is_said_unless_it_is_not_asked_for(self):
        with pytest.warns(robust_ot.ConvergenceWarning):
            ot.sinkhorn2([0.3, 0.7], HALF, [[0.0, 1.0], [1.0, 0.5]], 0.01, numItermax=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ot.sinkhorn2([0.3, 0.7], HALF, [[0.0, 1.0], [1.0, 0.5]], 0.01, numItermax=1, warn=False)


class TestSolve:
    def test_exact(self, rng):
        a, b, M = problem(rng, 5, 7)
        solution = ot.solve(M, a, b)
        assert solution.value == solution.value_linear == pytest.approx(linear_program(a, b, M), abs=1e-9)
        np.testing.assert_allclose(solution.marginal_a, a)
        np.testing.assert_allclose(solution.marginals[1], b)
        assert a @ solution.potential_a + b @ solution.potential_b == pytest.approx(solution.value)
        np.testing.assert_array_equal(solution.sparse_plan.toarray(), solution.plan)
        assert solution.status == "Converged"
        with pytest.warns(robust_ot.ConvergenceWarning):
            assert "numItermax" in ot.solve(M, a, b, max_iter=1).status

    def test_two_points_in_closed_form(self):
        # γ = (p, ½ − p; ½ − p, p) minimizes (1 − 2p) + 2ε (p ln p + (½ − p) ln(½ − p)) at p = ½ / (1 + e^(−1/ε)).
        reg = 0.7
        p = 0.5 / (1 + np.exp(-1 / reg))
        entropy = 2 * (p * np.log(p) + (0.5 - p) * np.log(0.5 - p))
        with_entropy = ot.solve(SWAP, reg=reg, reg_type="entropy")
        assert with_entropy.plan[0, 0] == pytest.approx(p)
        assert with_entropy.value_linear == pytest.approx(1 - 2 * p)
        assert with_entropy.value == pytest.approx(1 - 2 * p + reg * entropy)
        # Relative to a bᵀ = ¼, the entropy grows by ln 4.
        relative = ot.solve(SWAP, reg=reg, potentials_init=with_entropy.potentials)
        assert relative.value == pytest.approx(1 - 2 * p + reg * (entropy + np.log(4)))
        # A multiple of the form u vᵀ does not move the plan.
        scaled = ot.solve(SWAP, reg=reg, c=[[2.0, 4.0], [3.0, 6.0]])
        np.testing.assert_allclose(scaled.plan, relative.plan, atol=1e-9)

    @pytest.mark.parametrize("form", ["KL", "entropy", "c"])
    def test_values_are_those_of_the_definition_and_of_the_dual(self, rng, form):
        a, b, M = problem(rng, 6, 5)
        c = {"KL": a[:, None] * b, "entropy": np.ones_like(M), "c": rng.random(M.shape) + 0.1}[form]
        options = {"reg_type": "entropy"} if form == "entropy" else {"c": c} if form == "c" else {}
        solution = ot.solve(M, a, b, 0.3, tol=1e-13, **options)
        plan, (f, g) = solution.plan, solution.potentials
        assert solution.value == pytest.approx((plan * M).sum() + 0.3 * (plan * np.log(plan / c)).sum(), rel=1e-12)
        reference = c if form == "c" else np.ones_like(M)
        np.testing.assert_allclose(reference * np.exp((f[:, None] + g - M) / 0.3), plan, atol=1e-11)
        other = ot.emd(a, b, rng.random(M.shape)) / 2 + plan / 2
        used = other > 0
        assert (other * M).sum() + 0.3 * (other[used] * np.log(other[used] / c[used])).sum() > solution.value

    def test_samples(self, rng):
        X, Y = rng.normal(size=(6, 2)), rng.normal(size=(8, 2))
        M = cdist(X, Y, "cityblock")
        uniform = np.full(6, 1 / 6), np.full(8, 1 / 8)
        assert ot.solve_sample(X, Y, metric="cityblock").value == pytest.approx(linear_program(*uniform, M), abs=1e-9)
        lazy = ot.solve_sample(X, Y, reg=1.0, lazy=True)
        np.testing.assert_array_equal(lazy.lazy_plan[2:4], ot.solve(ot.dist(X, Y), reg=1.0).plan[2:4])
        by_feature = ot.solve_sample(X, Y, method="1d", metric="euclidean").value
        np.testing.assert_allclose(by_feature, [wasserstein_distance(X[:, k], Y[:, k]) for k in range(2)])
        same, apart = (ot.solve_sample(X, Z, reg=1.0, debias=True) for Z in (X, X + 1))
        assert same.value == pytest.approx(0, abs=1e-9)
        assert apart.value == pytest.approx(2, rel=1e-6)  # a translation by (1, 1)
        assert apart.log["res_ab"].value > apart.value

    def test_what_is_another_problem_is_refused(self, rng):
        X = rng.normal(size=(4, 2))
        for keywords, message in (
            ({"unbalanced": 1.0}, "unbalanced must be None or infinity"),
            ({"reg": 1.0, "reg_type": "L2"}, "reg_type must be one of 'KL', 'entropy', but is 'L2'"),
            ({"method": "sliced"}, "method must be one of '1d', 'sinkhorn', .*, but is 'sliced'"),
            ({"method": "1d", "metric": "cosine"}, "metric must be one of .* in 1d, but is 'cosine'"),
            ({"debias": "split"}, "debias must be False or True"),
            ({"scaler": len}, "scaler must be None"),
        ):
            with pytest.raises(NotImplementedError, match=message):
                ot.solve_sample(X, X, **keywords)
        ot.solve(SWAP, unbalanced=float("inf"))
        for keywords, message in (
            ({"grad": "none"}, "grad must be one of 'autodiff', "),
            ({"method": "x"}, "method must be one of"),
            ({"reg": 1.0, "c": [[1.0, 0.0], [1.0, 1.0]]}, "c must be positive, but contains 0"),
            ({"reg": 1.0, "c": [1.0]}, "c must have the shape of M"),
            ({"reg": 1.0, "max_iter": 0}, "numItermax must be at least 1"),
            ({"reg": -1.0}, "reg must be positive"),
        ):
            with pytest.raises(ValueError, match=message):
                ot.solve(SWAP, **keywords)


class TestDist:
    @pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cityblock", "cosine", "correlation", "chebyshev"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_metrics_are_those_of_scipy(self, rng, metric, weighted):
        X, Y, w = rng.normal(size=(7, 4)), rng.normal(size=(5, 4)), rng.random(4)
        options = {"w": w} if weighted else {}
        np.testing.assert_allclose(ot.dist(X, Y, metric, **options), cdist(X, Y, metric, **options), rtol=1e-12)

    def test_exponents_functions_and_one_argument(self, rng):
        X = rng.normal(size=(1100, 3))
        np.testing.assert_allclose(ot.dist(X, metric="minkowski", p=3), cdist(X, X, "minkowski", p=3), rtol=1e-12)
        np.testing.assert_allclose(ot.dist(X, X[:5], metric=lambda x, y: abs(x - y).max()), cdist(X, X[:5], "chebyshev"))

    def test_close_points_far_away_keep_their_digits(self):
        assert ot.dist([[1e8, 0.0]], [[1e8, 1e-3]])[0, 0] == pytest.approx(1e-6, rel=1e-12)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([1.0, 2.0],), r"x1 must have 2 dimensions, but has shape \(2,\)"),
            (([[1.0]], [[1.0, 2.0]]), "same number of columns, but have 1 and 2"),
            (([[1.0]], None, "minkowski", 0.5), "p must be at least 1, but is 0.5"),
            (([[1.0]], None, "euclidean", 2, [-1.0]), "w must not be negative, but contains -1"),
            (([[1.0]], None, "euclidean", 2, [1.0, 1.0]), "w must have one weight per feature"),
            (([[1.0]], None, 3), "metric must be a name or a function"),
        ],
    )
    def test_bad_input(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            ot.dist(*arguments)


class TestLine:
    @pytest.mark.parametrize(("metric", "p"), [("sqeuclidean", 2), ("euclidean", 1), ("minkowski", 3), ("cityblock", 1)])
    def test_plans_are_optimal(self, rng, metric, p):
        x, y = rng.normal(size=9), rng.normal(size=12)
        a, b, _ = problem(rng, 9, 12)
        M = abs(x[:, None] - y) ** p
        plan, log = ot.emd_1d(x[:, None], y, a, b, metric, p, log=True)
        assert log["cost"] == pytest.approx(linear_program(a, b, M), abs=1e-9)
        assert (plan * M).sum() == pytest.approx(log["cost"])
        np.testing.assert_allclose(plan.sum(1), a, atol=1e-12)
        np.testing.assert_allclose(plan.sum(0), b, atol=1e-12)
        np.testing.assert_array_equal(ot.emd_1d(x, y, a, b, metric, p, dense=False).toarray(), plan)
        assert plan[log["perms_x_a"], log["perms_x_b"]].sum() == pytest.approx(1)
        assert ot.wasserstein_1d(x, y, a, b, p) == pytest.approx(log["cost"])

    def test_columns_are_problems_of_their_own(self, rng):
        u, v = rng.normal(size=(8, 2, 3)), rng.normal(size=(5, 2, 3))
        a, b, _ = problem(rng, 8, 5)
        every = rng.random((5, 2, 3))
        every /= every.sum(0)
        costs, plans = ot.wasserstein_1d(u, v, a, b, return_plans=True)
        assert costs.shape == (2, 3)
        assert len(plans) == 6
        with_own = ot.wasserstein_1d(u, v, a, every)
        for i, j in np.ndindex(2, 3):
            assert costs[i, j] == pytest.approx(wasserstein_distance(u[:, i, j], v[:, i, j], a, b))
            assert with_own[i, j] == pytest.approx(wasserstein_distance(u[:, i, j], v[:, i, j], a, every[:, i, j]))
            np.testing.assert_allclose(plans[3 * i + j].sum(1), a, atol=1e-12)
        order = np.sort(u, axis=0), np.sort(v, axis=0)
        np.testing.assert_allclose(ot.wasserstein_1d(*order, require_sort=False), ot.wasserstein_1d(u, v), rtol=1e-12)
        entries = ot.wasserstein_1d(u, v, a, b, return_plans="coo_tuple")[1][0]
        np.testing.assert_allclose(entries.data.sum(), 1)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: ot.emd_1d([[1.0, 2.0]], [1.0]), r"x_a must have shape \(n,\) or \(n, 1\)"),
            (lambda: ot.emd_1d([1.0], [np.nan]), "x_b must be finite, but contains nan"),
            (lambda: ot.emd_1d([1.0], [1.0], [0.5, 0.5]), "a must have one weight per point"),
            (lambda: ot.emd_1d([1.0], [1.0], [1.0], [-1.0]), "b must be finite and not negative, but contains -1"),
            (lambda: ot.emd_1d([1.0], [1.0], [1.0], [2.0]), "same total mass, but have 1 and 2"),
            (lambda: ot.emd_1d([1.0], [1.0], metric="cosine"), "metric must be one of 'sqeuclidean', "),
            (lambda: ot.emd_1d([1.0], [1.0], metric="minkowski", p=0.5), "p must be at least 1"),
            (lambda: ot.wasserstein_1d([1.0], [1.0], p=0), "p must be at least 1"),
            (lambda: ot.wasserstein_1d([[1.0]], [1.0]), "the same shape after the first dimension"),
            (lambda: ot.wasserstein_1d([1.0], [1.0], [1.0, 1.0]), r"u_weights must have shape \(1,\)"),
            (lambda: ot.wasserstein_1d([1.0], [1.0], return_plans="all"), "return_plans must be False, True or"),
        ],
    )
    def test_bad_input(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()
