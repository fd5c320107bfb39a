"""Transport on the line, called as in POT."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robust_ot._pot_arrays import MASS_TOLERANCE, InputError, Kind, to_numpy, weights_of

_METRICS = ("sqeuclidean", "euclidean", "cityblock", "minkowski")


class CooTuple(NamedTuple):
    """The entries of a sparse plan."""

    data: Any
    rows: Any
    cols: Any


def emd_1d(
    x_a: Any,
    x_b: Any,
    a: Any = None,
    b: Any = None,
    metric: str = "sqeuclidean",
    p: float = 1.0,
    dense: bool = True,
    log: bool = False,
    check_marginals: bool = True,
) -> Any:
    r"""Solve exact transport between points on a line.

    For costs :math:`|x - y|^p` with p ≥ 1, the plan that keeps the order of the points is optimal. The arguments are those of
    ``ot.emd_1d``.

    Parameters
    ----------
    x_a, x_b : array-like of shape (m,) or (m, 1), and (n,) or (n, 1)
        Points.
    a, b : array-like of shape (m,) and (n,), optional
        Weights with equal sums; None and empty arrays mean uniform weights.
    metric : {'sqeuclidean', 'euclidean', 'cityblock', 'minkowski'}
        The cost; ``'minkowski'`` is :math:`|x - y|^p`.
    p : float
        The exponent of ``'minkowski'``, at least 1.
    dense : bool
        Whether the plan is an array; otherwise it is sparse.
    log : bool
        Whether to also return a dictionary.
    check_marginals : bool
        Whether to refuse unequal sums. If not, b is scaled to the sum of a.

    Returns
    -------
    plan : ndarray, tensor or sparse matrix of shape (m, n)
        The optimal plan.
    log : dict
        ``cost``, and ``perms_x_a`` and ``perms_x_b``, the indices of the entries of the plan; only with ``log=True``.

    Examples
    --------
    >>> from robust_ot.pot import emd_1d
    >>> emd_1d([2.0, 0.0], [0.0, 3.0])
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    kind = Kind.of(x_a, x_b, a, b)
    x, y = _points(x_a, "x_a"), _points(x_b, "x_b")
    power, double = _power(metric, p), Kind(None, np.dtype(np.float64), None)
    a, b = _weights(a, len(x), "a"), _weights(b, len(y), "b")
    if not check_marginals:
        b = b * (a.sum() / b.sum())
    cost, (masses, rows, columns) = _line_cost(x, y, a, b, power, True, double)
    if dense:
        plan = np.zeros((len(x), len(y)))
        plan[rows, columns] = masses
        result = kind.array(plan)
    else:
        result = kind.coo(masses, rows, columns, (len(x), len(y)))
    if not log:
        return result
    return result, {"cost": kind.array(cost), "perms_x_a": rows, "perms_x_b": columns}


def wasserstein_1d(
    u_values: Any,
    v_values: Any,
    u_weights: Any = None,
    v_weights: Any = None,
    p: float = 1,
    require_sort: bool = True,
    return_plans: bool | str = False,
) -> Any:
    r"""Compute the cost of transport on a line, for every column.

    .. math:: W_p^p = \int_0^1 |F_u^{-1}(q) - F_v^{-1}(q)|^p\,dq

    with the quantile functions of the two samples. Tensors keep their gradients in points and weights. The arguments are
    those of ``ot.wasserstein_1d``.

    Parameters
    ----------
    u_values, v_values : array-like of shape (m, ...) and (n, ...)
        Points; one problem per column.
    u_weights, v_weights : array-like of shape (m,) or (m, ...), and (n,) or (n, ...), optional
        Weights with equal sums; uniform if missing.
    p : float
        The exponent of the cost, at least 1.
    require_sort : bool
        False if the points are in ascending order.
    return_plans : bool or 'coo_tuple'
        Whether to also return the plans, as sparse matrices or as tuples of values, rows and columns.

    Returns
    -------
    cost : float or array of shape (...)
        :math:`W_p^p`, without the p-th root.
    plans : list
        One plan per column; only with ``return_plans``.

    Examples
    --------
    >>> from robust_ot.pot import wasserstein_1d
    >>> float(wasserstein_1d([0.0, 1.0], [1.0, 2.0], p=2))
    1.0
    """
    if not p >= 1:
        raise ValueError(f"p must be at least 1, but is {p}")
    if return_plans not in (False, True, "coo_tuple"):
        raise ValueError(f"return_plans must be False, True or 'coo_tuple', but is {return_plans!r}")
    kind = Kind.of(u_values, v_values, u_weights, v_weights)
    u, v = _native(u_values, kind), _native(v_values, kind)
    if u.ndim == 0 or v.ndim == 0 or u.shape[1:] != v.shape[1:]:
        shapes = f"{tuple(u.shape)} and {tuple(v.shape)}"
        raise ValueError(f"u_values and v_values must have the same shape after the first dimension, but have {shapes}")
    shape = tuple(u.shape[1:])
    a, b = (_columns(w, z, name, kind) for w, z, name in ((u_weights, u, "u_weights"), (v_weights, v, "v_weights")))
    u, v = u.reshape(len(u), -1), v.reshape(len(v), -1)
    pairs = [_line_cost(u[:, k], v[:, k], a(k), b(k), p, require_sort, kind) for k in range(u.shape[1])]
    costs = [cost for cost, _ in pairs]
    # One number per column, in the shape of the columns.
    cost = np.array(costs, dtype=kind.dtype) if kind.torch is None else kind.torch.stack(costs)
    cost = cost.reshape(shape) if shape else cost[0]
    if not return_plans:
        return cost
    size = len(u), len(v)
    if return_plans == "coo_tuple":
        return cost, [CooTuple(*entries) for _, entries in pairs]
    return cost, [kind.coo(to_numpy(mass), to_numpy(rows), to_numpy(columns), size) for _, (mass, rows, columns) in pairs]


def _line_cost(u: Any, v: Any, a: Any, b: Any, p: float, sort: bool, kind: Kind) -> tuple[Any, tuple[Any, Any, Any]]:
    """Return Σ mass · |u − v|^p of the plan that keeps the order, and its masses, rows and columns."""
    library: Any = kind.torch or np
    _check_sums(float(to_numpy(a).sum()), float(to_numpy(b).sum()))
    from_u, from_v = (library.argsort(z) if sort else library.arange(len(z)) for z in (u, v))
    total_u, total_v = library.cumsum(a[from_u], 0), library.cumsum(b[from_v], 0)
    merged = library.hstack((total_u, total_v))
    # Both end at the whole mass: the last end, a duplicate, is left out.
    ends = merged[library.argsort(merged)][:-1]
    masses = library.hstack((ends[:1], ends[1:] - ends[:-1]))
    # Sums of equal weights differ by rounding: beyond the last point is the last point.
    rows = library.clip(library.searchsorted(total_u, ends), 0, len(u) - 1)
    columns = library.clip(library.searchsorted(total_v, ends), 0, len(v) - 1)
    rows, columns = from_u[rows], from_v[columns]
    cost = (masses * abs(u[rows] - v[columns]) ** p).sum()
    used = masses > 0
    return cost, (masses[used], rows[used], columns[used])


def _native(values: Any, kind: Kind) -> Any:
    """Return values as an array or a tensor, with its history."""
    if kind.torch is None:
        return np.asarray(values, dtype=kind.dtype)
    return kind.torch.as_tensor(values, dtype=kind.dtype, device=kind.device)


def _columns(weights: Any, points: Any, name: str, kind: Kind) -> Any:
    """Return the function that gives the weights of a column."""
    if weights is None or np.size(to_numpy(weights)) == 0:
        uniform = kind.array(np.full(len(points), 1.0 / max(1, len(points))))
        return lambda _: uniform
    weights = _native(weights, kind)
    _check_weights(to_numpy(weights), name)
    if weights.ndim == 1 and len(weights) == len(points):
        return lambda _: weights
    if weights.shape != points.shape:
        rule = f"{name} must have shape ({len(points)},) or {tuple(points.shape)}"
        raise ValueError(f"{rule}, but has shape {tuple(weights.shape)}")
    return weights.reshape(len(points), -1).T.__getitem__


def _points(points: Any, name: str) -> NDArray[np.float64]:
    array = np.asarray(to_numpy(points), dtype=np.float64)
    if not (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
        raise InputError(f"{name} must have shape (n,) or (n, 1), but has shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, but contains {array[~np.isfinite(array)][0]}")
    return array.reshape(-1)


def _weights(weights: Any, count: int, name: str) -> NDArray[np.float64]:
    array = np.asarray(weights_of(weights, count), dtype=np.float64)
    if array.shape != (count,):
        raise InputError(f"{name} must have one weight per point, shape ({count},), but has shape {array.shape}")
    _check_weights(array, name)
    return array


def _check_weights(weights: NDArray[Any], name: str) -> None:
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise InputError(f"{name} must be finite and not negative, but contains {weights[wrong][0]}")
    if not weights.sum() > 0:
        raise InputError(f"{name} must have a positive sum, but has {weights.sum()}")


def _check_sums(first: float, second: float) -> None:
    if abs(first - second) > MASS_TOLERANCE * max(first, second):
        raise InputError(f"both weights must have the same total mass, but have {first:g} and {second:g}")


def _power(metric: str, p: float) -> float:
    if metric not in _METRICS:
        raise ValueError(f"metric must be one of {', '.join(map(repr, _METRICS))}, but is {metric!r}")
    power = {"sqeuclidean": 2.0, "minkowski": float(p)}.get(metric, 1.0)
    if not power >= 1:
        raise ValueError(f"p must be at least 1, but is {p}")
    return power
