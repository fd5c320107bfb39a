"""Reference values of robust optimal transport from a conic solver that shares no code with this project.

Solves every case as two different cone programs and evaluates it once more in closed form:

    primal   min over plans γ of   h(V_γ) + ε Σ γ ln γ,    V_γ = Σ_ij γ_ij D_ijᵀ D_ij
    dual     max over M, f, g of   <a,f> + <b,g> − penalty(M) − ε Σ_ij exp((f_i + g_j − C(M)_ij)/ε − 1)
             (with ε = 0: no last term, but f_i + g_j ≤ C(M)_ij),    C(M)_ij = <D_ijᵀ D_ij, M>
    closed   h(V_γ) + ε Σ γ ln γ in numpy at the plan the primal returned

The script fails unless the three agree to 1e-8. Weights are stored rounded and divided by their sum before
use. The file has one case per line; values are rounded to ten decimals.

    pip install cvxpy numpy
    python tools/make_references.py crates/robust-ot/tests/data/references.json
"""

import itertools
import json
import sys
import warnings

import cvxpy as cp
import numpy as np

SEED = 20240607
AGREEMENT = 1e-8
ATTEMPTS = list(itertools.product((1e-11, 1e-10, 1e-9), (1e-8, 1e-10)))  # tolerance, regularization

PRIOR_2 = [[1.0, 0.5], [0.5, 0.8]]
PRIOR_3 = [[1.0, 0.3, 0.6], [0.3, 0.9, 0.2], [0.6, 0.2, 1.2]]
PRIOR_BAND = [[1.0, 0.4, 0.0], [0.4, 1.0, 0.4], [0.0, 0.4, 1.0]]

# Each case: metric, (source points, target points, features), settings.
# `zero` lists the weights set to zero: ("source" or "target", index).
CASES = [
    ("w2", (4, 6, 3), {}),
    ("w2", (5, 3, 5), {"groups": 2, "zero": [("target", 1)]}),
    ("w2", (5, 4, 2), {"entropy": 0.1}),
    ("p", (6, 5, 6), {"k": 1, "groups": 3}),
    ("p", (4, 7, 4), {"k": 2}),
    ("p", (6, 5, 5), {"k": 2, "groups": 2, "zero": [("source", 2)]}),
    ("p", (5, 6, 3), {"k": 3}),
    ("p", (5, 4, 4), {"k": 1, "entropy": 0.2}),
    ("p", (4, 6, 6), {"k": 2, "groups": 3, "entropy": 0.05}),
    ("p-power", (6, 4, 6), {"k": 2, "groups": 3}),
    ("p-power", (5, 4, 3), {"k": 2, "entropy": 0.3}),
    ("kl", (5, 4, 3), {"lambda": 1.0, "prior": "eye"}),
    ("kl", (4, 6, 4), {"lambda": 0.5, "prior": "ones"}),
    ("kl", (6, 5, 6), {"lambda": 2.0, "prior": PRIOR_3, "groups": 3}),
    ("kl", (5, 5, 3), {"lambda": 0.8, "prior": PRIOR_BAND}),
    ("kl", (4, 5, 5), {"lambda": 0.7, "prior": PRIOR_2, "groups": 2, "entropy": 0.1}),
    ("ds", (5, 4, 3), {"lambda": 0.5, "prior": "ones"}),
    ("ds", (4, 6, 6), {"lambda": 1.0, "prior": "ones", "groups": 3}),
    ("ds", (6, 5, 3), {"lambda": 0.3, "prior": PRIOR_BAND}),
    ("ds", (4, 5, 3), {"lambda": 0.7, "prior": "ones", "entropy": 0.2}),
    ("ds", (5, 3, 5), {"lambda": 1.5, "prior": PRIOR_2, "groups": 2, "entropy": 0.1}),
    ("features", (5, 4, 4), {"lambda": 0.5}),
    ("features", (4, 6, 5), {"lambda": 0.3, "groups": 2}),
    ("features", (6, 4, 3), {"lambda": 1.0, "entropy": 0.15, "zero": [("source", 0)]}),
    ("srw", (5, 6, 4), {"k": 1}),
    ("srw", (6, 4, 5), {"k": 2}),
    ("srw", (7, 5, 6), {"k": 2, "groups": 3, "zero": [("source", 4), ("target", 0)]}),
    ("srw", (5, 4, 3), {"k": 2, "entropy": 0.2}),
    ("rkp", (4, 5, 3), {"rho": 1.0}),
    ("rkp", (5, 4, 4), {"rho": 4 / 3}),
    ("rkp", (6, 4, 3), {"rho": 2.0}),
    ("rkp", (5, 4, 6), {"rho": 4.0, "groups": 3}),
    ("rkp", (6, 4, 4), {"rho": "inf"}),
    ("rkp", (5, 4, 3), {"rho": 4 / 3, "entropy": 0.25}),
    ("rkp", (4, 6, 4), {"rho": 4.0, "entropy": 0.1}),
    ("rkp", (5, 4, 5), {"rho": "inf", "groups": 2, "entropy": 0.5}),
]


def make_case(index, metric, shape, settings):
    """The inputs of one case: random points in [-1, 1] and random weights, rounded to three decimals."""
    m, n, d = shape
    rng = np.random.default_rng([SEED, index])
    points = {"source": rng.uniform(-1, 1, (m, d)), "target": rng.uniform(-1, 1, (n, d))}
    weights = {"source": rng.uniform(0.2, 1, m), "target": rng.uniform(0.2, 1, n)}
    for side, i in settings.get("zero", []):
        weights[side][i] = 0.0
    case = {"name": f"{index + 1:02}-{metric}", "metric": metric}
    case |= {key: settings.get(key) for key in ("k", "rho", "lambda", "prior", "groups")}
    case |= {"entropy": settings.get("entropy", 0.0)}
    case |= {side: p.round(3).tolist() for side, p in points.items()}
    return case | {f"{side}_weights": (w / w.sum()).round(3).tolist() for side, w in weights.items()}


def group_slots(x, r):
    """Arranges the features as slots × groups: contiguous groups, zeros in missing slots."""
    blocks = np.array_split(x, r, axis=-1)  # the first d mod r blocks are one longer, as in the library
    slots = blocks[0].shape[-1]
    pad = [np.pad(block, [(0, 0), (0, 0), (0, slots - block.shape[-1])]) for block in blocks]
    return np.stack(pad, axis=-1)


def measure(case, side):
    """Points and normalized weights, without the points of zero weight."""
    points, weights = np.array(case[side]), np.array(case[f"{side}_weights"])
    return points[weights > 0], weights[weights > 0] / weights.sum()


def prior_matrix(case, r):
    named = {"eye": np.eye(r), "ones": np.ones((r, r))}
    return named[case["prior"]] if isinstance(case["prior"], str) else np.array(case["prior"])


def schatten(v, rho):
    """The Schatten norm of a PSD expression: (norm, constraints)."""
    r = v.shape[0]
    s, x, t = cp.Variable(), cp.Variable((r, r), symmetric=True), cp.Variable((r, r), symmetric=True)
    scaled_eye = s * np.eye(r)
    if rho == 1:
        return cp.trace(v), []
    if rho == 4 / 3:  # v ⪯ t # x and x ⪯ sI # t, so tr t ≥ tr v^{4/3} / s^{1/3}
        return s, [cp.bmat([[scaled_eye, x], [x, t]]) >> 0, cp.bmat([[t, v], [v, x]]) >> 0, cp.trace(t) <= s]
    if rho == 2:
        return cp.norm(v, "fro"), []
    if rho == 4:  # x ⪰ v² / s
        return s, [cp.bmat([[x, v], [v, scaled_eye]]) >> 0, cp.norm(x, "fro") <= s]
    return s, [scaled_eye - v >> 0]


def primal_h(case, v):
    """h(V) for the solver: (convex expression, constraints)."""
    k, lam, r = case["k"], case["lambda"], v.shape[0]
    match case["metric"]:
        case "p":
            return cp.pnorm(cp.vec(v, order="C"), 2 * k), []
        case "p-power":
            return cp.sum(cp.power(v, 2 * k)), []
        case "kl" | "ds":
            m0 = prior_matrix(case, r)
            u = cp.Variable(r) if case["metric"] == "ds" else np.zeros(r)
            terms = [m0[a, b] * cp.exp(v[a, b] / lam + u[a] + u[b]) for a, b in np.argwhere(m0 > 0)]
            return lam * (cp.sum(cp.hstack(terms)) - 2 * cp.sum(u) - m0.sum()), []
        case "features":
            return lam * cp.log_sum_exp(cp.diag(v) / lam) - lam * (r - 1), []
        case "srw":
            return cp.lambda_sum_largest(v, k), []
        case "w2" | "rkp":
            return schatten(v, case["rho"] or 1.0)


def dual_penalty(case, m):
    """The penalty on M whose conjugate is h: (convex expression, constraints of the metric set)."""
    k, lam, r = case["k"], case["lambda"], m.shape[0]
    match case["metric"]:
        case "p":
            return 0, [cp.pnorm(cp.vec(m, order="C"), 2 * k / (2 * k - 1)) <= 1]
        case "p-power":
            return (2 * k - 1) * cp.sum(cp.power(cp.abs(m) / (2 * k), 2 * k / (2 * k - 1))), []
        case "kl" | "ds" | "features":
            m0 = np.eye(r) if case["metric"] == "features" else prior_matrix(case, r)
            kl = sum(cp.kl_div(m[a, b], m0[a, b]) for a, b in np.argwhere(m0 > 0))
            sums = {"kl": [], "ds": [cp.sum(m, axis=1) == 1], "features": [cp.trace(m) == 1]}
            return lam * kl, [m[a, b] == 0 for a, b in np.argwhere(m0 == 0)] + sums[case["metric"]]
        case "srw":
            return 0, [m >> 0, np.eye(r) - m >> 0, cp.trace(m) == k]
        case "w2" | "rkp":
            conjugate = {1.0: "inf", 4 / 3: 4.0, 2.0: 2.0, 4.0: 4 / 3, "inf": 1.0}[case["rho"] or 1.0]
            norm, constraints = schatten(m, conjugate)
            return 0, [m >> 0, norm <= 1, *constraints]


def closed_h(case, v):
    """h(V) in plain numpy."""
    k, lam, r = case["k"], case["lambda"], len(v)
    match case["metric"]:
        case "w2":
            return np.trace(v)
        case "p":
            return np.sum(v ** (2 * k)) ** (1 / (2 * k))
        case "p-power":
            return np.sum(v ** (2 * k))
        case "kl":
            return lam * np.sum(prior_matrix(case, r) * np.expm1(v / lam))
        case "ds":
            m0 = prior_matrix(case, r)
            kernel, scale = m0 * np.exp(v / lam), np.ones(r)
            for _ in range(5000):
                scale = np.sqrt(scale / (kernel @ scale))
            m = scale[:, None] * kernel * scale
            assert np.abs(m.sum(axis=1) - 1).max() < 1e-13
            log_ratio = np.log(np.where(m0 > 0, m, 1) / np.where(m0 > 0, m0, 1))
            return np.sum(v * m) - lam * np.sum(m * log_ratio - m + m0)
        case "features":
            return lam * np.log(np.sum(np.exp(np.diag(v) / lam))) - lam * (r - 1)
        case "srw":
            return np.sum(np.linalg.eigvalsh(v)[-k:])
        case "rkp":
            return np.linalg.norm(np.linalg.eigvalsh(v), float(case["rho"]))


def optimum(objective, constraints):
    """The optimum at the tightest tolerance for which the solver reports one."""
    problem = cp.Problem(objective, constraints)
    for tol, regularization in ATTEMPTS:
        options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol)
        options["static_regularization_constant"] = regularization
        problem.solve(solver=cp.CLARABEL, **options)
        if problem.status == cp.OPTIMAL:
            return problem.value
    raise AssertionError(f"the solver stopped with status {problem.status}")


def solve(case):
    """The value of a case, and the largest disagreement between primal, dual and closed form."""
    (source, a), (target, b) = measure(case, "source"), measure(case, "target")
    m, n, r, eps = len(a), len(b), case["groups"] or source.shape[1], case["entropy"]
    slots = group_slots(source[:, None] - target[None], r)
    moments = np.einsum("ijsa,ijsb->ijab", slots, slots).reshape(m * n, r * r)

    plan = cp.Variable((m, n), nonneg=True)
    v = cp.reshape(moments.T @ cp.vec(plan, order="C"), (r, r), order="C")
    value, constraints = primal_h(case, v)
    value = value - eps * cp.sum(cp.entr(plan)) if eps > 0 else value
    marginals = [cp.sum(plan, axis=1) == a, cp.sum(plan, axis=0) == b]
    primal = optimum(cp.Minimize(value), marginals + constraints)

    metric, f, g = cp.Variable((r, r), symmetric=True), cp.Variable((m, 1)), cp.Variable((1, n))
    penalty, constraints = dual_penalty(case, metric)
    cost = cp.reshape(moments @ cp.vec(metric, order="C"), (m, n), order="C")
    excess = f @ np.ones((1, n)) + np.ones((m, 1)) @ g - cost
    value = a @ f + g @ b - penalty
    if eps > 0:
        dual = optimum(cp.Maximize(value - eps * cp.sum(cp.exp(excess / eps - 1))), constraints)
    else:
        dual = optimum(cp.Maximize(value), [excess <= 0, *constraints])

    p = np.maximum(plan.value, 0)
    assert max(np.abs(p.sum(axis=1) - a).max(), np.abs(p.sum(axis=0) - b).max()) < 1e-9
    v = np.einsum("ij,ijsa,ijsb->ab", p, slots, slots)
    closed = closed_h(case, v) + eps * np.sum(p * np.log(np.where(p > 0, p, 1)))
    return closed, max(abs(primal - closed), abs(primal - dual), abs(closed - dual))


def main(path):
    warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # `optimum` rejects those
    lines, worst = [], 0.0
    for index, (metric, shape, settings) in enumerate(CASES):
        case = make_case(index, metric, shape, settings)
        value, disagreement = solve(case)
        print(f"{case['name']:12} {value:16.10f}  disagreement {disagreement:.1e}")
        assert disagreement < AGREEMENT, case["name"]
        worst = max(worst, disagreement)
        lines.append(json.dumps(case | {"value": round(float(value), 10)}))
    with open(path, "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} cases, worst disagreement {worst:.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
