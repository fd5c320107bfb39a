"""The peers, each run in its own process: `baselines.py METHOD '{"cost": "c.npy", …}'` prints one JSON object."""

import json
import resource
import sys
import time

import numpy as np


def timed(work):
    """Returns the result of some work and its median time; slow work runs only once."""
    times = []
    while not times or (len(times) < 5 and sum(times) < 2):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return result, sorted(times)[len(times) // 2]


def emd(a, b, cost=None, x=None, y=None):
    import ot

    a, b = np.load(a), np.load(b)
    if cost is None:
        x, y = np.load(x), np.load(y)
        value, seconds = timed(lambda: ot.emd2(a, b, ot.dist(x, y), numItermax=10**9))
    else:
        cost = np.load(cost)
        value, seconds = timed(lambda: ot.emd2(a, b, cost, numItermax=10**9))
    return {"seconds": seconds, "objective": float(value), "memory": peak_memory()}


def peak_memory():
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def emd_lazy(a, b, x, y):
    """POT's simplex with costs that are computed when they are needed."""
    import ot

    a, b, x, y = (np.load(path) for path in (a, b, x, y))
    value, seconds = timed(lambda: ot.lp.emd2_lazy(x, y, a, b, return_matrix=False, numItermax=10**9))
    return {"seconds": seconds, "objective": float(value), "memory": peak_memory()}


def emd_sparse(a, b, x, y, nearest=50):
    """POT's simplex on the nearest targets of every source and the nearest sources of every target: an upper bound, which can
    lack a plan."""
    import ot
    from scipy.sparse import coo_array

    a, b, x, y = (np.load(path) for path in (a, b, x, y))

    def solve():
        cost = ot.dist(x, y)
        columns = np.argpartition(cost, nearest, axis=1)[:, :nearest]
        rows = np.argpartition(cost, nearest, axis=0)[:nearest]
        kept = np.zeros(cost.shape, dtype=bool)
        np.put_along_axis(kept, columns, True, axis=1)
        np.put_along_axis(kept, rows, True, axis=0)
        at = np.nonzero(kept)
        return ot.emd2(a, b, coo_array((cost[at], at), shape=cost.shape), numItermax=10**9)

    value, seconds = timed(solve)
    return {"seconds": seconds, "objective": float(value), "memory": peak_memory()}


def min_cost_flow(a, b, x, y, units=10**7):
    """OR-tools' cost scaling, on whole numbers: weights and costs are rounded to about 1e-7 of the total and of the largest."""
    from ortools.graph.python import min_cost_flow

    a, b, x, y = (np.load(path) for path in (a, b, x, y))

    def solve():
        cost = costs(x, y, np.eye(x.shape[1]))
        scale = units / cost.max()
        flow = min_cost_flow.SimpleMinCostFlow()
        m, n = cost.shape
        supply, demand = (np.rint(weights / weights.sum() * units).astype(np.int64) for weights in (a, b))
        demand[demand.argmax()] += supply.sum() - demand.sum()
        starts, ends = np.repeat(np.arange(m), n), m + np.tile(np.arange(n), m)
        most = np.minimum(supply[:, None], demand[None]).ravel()
        flow.add_arcs_with_capacity_and_unit_cost(starts, ends, most, np.rint(cost * scale).astype(np.int64).ravel())
        flow.set_nodes_supplies(np.arange(m + n), np.concatenate([supply, -demand]))
        assert flow.solve() == flow.OPTIMAL
        return flow.optimal_cost() / scale / units

    value, seconds = timed(solve)
    return {"seconds": seconds, "objective": float(value), "memory": peak_memory()}


def marginal_error(plan, a, b):
    return float(np.abs(plan.sum(0) - b).sum() + np.abs(plan.sum(1) - a).sum())


def pot(method):
    def solve(cost, regularization, tolerance):
        import ot

        cost = np.load(cost)
        a, b = (np.full(size, 1 / size) for size in cost.shape)
        # POT stops on an L2 norm.
        threshold = tolerance / np.sqrt(len(b))
        work = lambda: ot.sinkhorn(a, b, cost, regularization, method, 10**7, threshold, warn=False)  # noqa: E731
        plan, seconds = timed(work)
        return {"seconds": seconds, "error": marginal_error(plan, a, b)}

    return solve


def ott(lse):
    def solve(cost, regularization, tolerance):
        import jax

        jax.config.update("jax_enable_x64", True)
        from ott.geometry import geometry
        from ott.problems.linear import linear_problem
        from ott.solvers.linear import sinkhorn

        cost = jax.numpy.array(np.load(cost))
        solver = sinkhorn.Sinkhorn(threshold=tolerance, max_iterations=10**7, lse_mode=lse)
        solve = jax.jit(lambda c: solver(linear_problem.LinearProblem(geometry.Geometry(c, epsilon=regularization))))
        solve(cost).f.block_until_ready()
        out, seconds = timed(lambda: jax.block_until_ready(solve(cost)))
        a, b = (np.full(size, 1 / size) for size in cost.shape)
        return {"seconds": seconds, "error": marginal_error(np.asarray(out.matrix), a, b)}

    return solve


def moment(x, y, plan):
    cross = x.T @ (plan @ y)
    return x.T @ (plan.sum(1)[:, None] * x) + y.T @ (plan.sum(0)[:, None] * y) - cross - cross.T


def costs(x, y, metric):
    moved = x @ metric
    return (moved * x).sum(1)[:, None] + ((y @ metric) * y).sum(1)[None] - 2 * moved @ y.T


def srw(x, y, k, entropy, gap):
    """Paty & Cuturi 2019, algorithm 2: Frank-Wolfe in M over the fantope, Sinkhorn as its oracle."""
    x, y = np.load(x), np.load(y)
    n, d = x.shape

    def plan_for(metric):
        kernel = np.exp(-costs(x, y, metric) / entropy)
        u = np.ones(n)
        for _ in range(1000):
            v = 1 / n / (kernel.T @ u)
            u = 1 / n / (kernel @ v)
            if np.abs(v * (kernel.T @ u) - 1 / n).sum() < 1e-3:
                break
        return u[:, None] * kernel * v

    def solve():
        metric = np.eye(d) * k / d
        for t in range(1000):
            found = moment(x, y, plan_for(metric))
            values, vectors = np.linalg.eigh(found)
            best = vectors[:, -k:] @ vectors[:, -k:].T
            upper, lower = values[-k:].sum(), (metric * found).sum()
            if upper - lower <= gap * upper:
                break
            metric = metric + 2 / (t + 2) * (best - metric)
        return lower

    value, seconds = timed(solve)
    return {"seconds": seconds, "value": float(value)}


def rkp(x, y, rho, gap):
    """Dhouib et al. 2020: min over plans of the Schatten norm of V, by Frank-Wolfe with exact transport as its oracle."""
    import ot

    x, y = np.load(x), np.load(y)
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))

    def solve():
        plan = np.outer(a, b)
        for t in range(1000):
            values, vectors = np.linalg.eigh(moment(x, y, plan))
            values = np.maximum(values, 0)
            norm = (values**rho).sum() ** (1 / rho)
            metric = (vectors * (values / norm) ** (rho - 1)) @ vectors.T
            cost = costs(x, y, metric)
            vertex = ot.emd(a, b, cost, numItermax=10**9)
            if (cost * (plan - vertex)).sum() <= gap * norm:
                break
            plan += 2 / (t + 2) * (vertex - plan)
        return norm

    value, seconds = timed(solve)
    return {"seconds": seconds, "value": float(value)}


METHODS = {
    "emd": emd,
    "emd-lazy": emd_lazy,
    "emd-sparse": emd_sparse,
    "min-cost-flow": min_cost_flow,
    "pot-sinkhorn": pot("sinkhorn"),
    "pot-log": pot("sinkhorn_log"),
    "pot-stabilized": pot("sinkhorn_stabilized"),
    "ott-log": ott(True),
    "ott-kernel": ott(False),
    "srw": srw,
    "rkp": rkp,
}

if __name__ == "__main__":
    print(json.dumps(METHODS[sys.argv[1]](**json.loads(sys.argv[2]))))
