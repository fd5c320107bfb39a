"""Costs between points, called as in POT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_ot._pot_arrays import Kind, to_numpy, torch_of

#: Metrics that are computed here, for arrays and tensors; scipy knows more, for arrays.
METRICS = ("sqeuclidean", "euclidean", "cityblock", "minkowski", "cosine", "correlation")
#: Numbers in the differences of a block of rows.
_BLOCK = 1 << 20


def dist(
    x1: Any,
    x2: Any = None,
    metric: str | Callable[[Any, Any], float] = "sqeuclidean",
    p: float = 2,
    w: Any = None,
    backend: str = "auto",
    nx: Any = None,
    use_tensor: bool = False,
) -> Any:
    r"""Compute the cost of every pair of points.

    ``sqeuclidean`` is :math:`\sum_k w_k (x_k - y_k)^2`, from the differences themselves, so that close points far from the
    origin keep their digits. The arguments are those of ``ot.dist``.

    Parameters
    ----------
    x1 : array-like of shape (m, d)
        Points.
    x2 : array-like of shape (n, d), optional
        Points; x1 if missing.
    metric : str or callable
        ``'sqeuclidean'``, ``'euclidean'``, ``'cityblock'``, ``'minkowski'``, ``'cosine'`` or ``'correlation'``; for arrays also
        a function of two points, or any name that ``scipy.spatial.distance.cdist`` knows.
    p : float
        The exponent of ``'minkowski'``, at least 1.
    w : array-like of shape (d,), optional
        Weights of the features, not negative.
    backend, nx, use_tensor
        Accepted for compatibility; results are of the kind of the points.

    Returns
    -------
    M : ndarray or tensor of shape (m, n)
        The costs. Those of tensors depend on their points.

    Examples
    --------
    >>> from robust_ot.pot import dist
    >>> dist([[0.0, 0.0], [3.0, 4.0]], metric="euclidean")
    array([[0., 5.],
           [5., 0.]])
    """
    if not callable(metric) and not isinstance(metric, str):
        raise ValueError(f"metric must be a name or a function, but is {metric!r}")
    kind = Kind.of(x1, x2)
    x = _points(x1, "x1", kind)
    y = x if x2 is None else _points(x2, "x2", kind)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"x1 and x2 must have the same number of columns, but have {x.shape[1]} and {y.shape[1]}")
    weights = None if w is None else _feature_weights(w, x.shape[1], kind)
    if callable(metric) or metric not in METRICS:
        return _by_scipy(x, y, metric, weights, kind)
    if metric in ("cosine", "correlation"):
        return _angles(x, y, metric == "correlation", weights)
    if metric == "minkowski" and not p >= 1:
        raise ValueError(f"p must be at least 1, but is {p}")
    power = {"sqeuclidean": 2.0, "euclidean": 2.0, "cityblock": 1.0, "minkowski": float(p)}[metric]
    root = metric in ("euclidean", "minkowski")
    if kind.torch is not None:
        return _of_tensors(x, y, power, root, weights)
    return _of_differences(x, y, power, root, weights)


def _points(points: Any, name: str, kind: Kind) -> Any:
    if kind.torch is not None:
        array = kind.torch.as_tensor(points, dtype=kind.dtype, device=kind.device)
    else:
        array = np.asarray(points, dtype=kind.dtype)
    if array.ndim != 2:
        raise ValueError(f"{name} must have 2 dimensions, but has shape {tuple(array.shape)}")
    return array


def _feature_weights(w: Any, d: int, kind: Kind) -> Any:
    weights = np.asarray(to_numpy(w), dtype=np.float64)
    if weights.shape != (d,):
        raise ValueError(f"w must have one weight per feature, shape ({d},), but has shape {weights.shape}")
    if not (weights >= 0).all():
        raise ValueError(f"w must not be negative, but contains {weights.min()}")
    return kind.array(weights)


def _of_differences(x: Any, y: Any, power: float, root: bool, weights: Any) -> NDArray[Any]:
    """Sum |x − y|^p over features, a block of rows at a time."""
    costs = np.empty((len(x), len(y)), dtype=np.result_type(x, y))
    rows = max(1, _BLOCK // max(1, y.size))
    for start in range(0, len(x), rows):
        differences = x[start : start + rows, None] - y
        if power != 2.0:
            differences = np.abs(differences) ** power if power != 1.0 else np.abs(differences)
            block = differences.sum(-1) if weights is None else differences @ weights
        elif weights is None:
            block = np.einsum("ijk,ijk->ij", differences, differences)
        else:
            block = np.einsum("ijk,ijk,k->ij", differences, differences, weights)
        costs[start : start + rows] = block ** (1.0 / power) if root else block
    return costs


def _of_tensors(x: Any, y: Any, power: float, root: bool, weights: Any) -> Any:
    """Sum |x − y|^p over features; torch differentiates it, with the gradient 0 between equal points."""
    torch = torch_of(x)
    if weights is not None:
        factor = weights ** (1.0 / power)
        x, y = x * factor, y * factor
    costs = torch.cdist(x, y, p=power, compute_mode="donot_use_mm_for_euclid_dist")
    return costs if root or power == 1.0 else costs**power


def _angles(x: Any, y: Any, centered: bool, weights: Any) -> Any:
    """1 − cos of the angle between points, from their means if centered."""
    if weights is None:
        weights = x[0] * 0 + 1 if len(x) else x.sum(0) + 1
    if centered:
        x, y = ((z - (z @ weights / weights.sum())[:, None]) for z in (x, y))
    lengths = (((x**2) @ weights) ** 0.5, ((y**2) @ weights) ** 0.5)
    return 1 - (x * weights) @ y.T / (lengths[0][:, None] * lengths[1])


def _by_scipy(x: Any, y: Any, metric: Any, weights: Any, kind: Kind) -> Any:
    if kind.torch is not None:
        raise ValueError(f"metric must be one of {', '.join(map(repr, METRICS))} for tensors, but is {metric!r}")
    try:
        from scipy.spatial.distance import cdist
    except ImportError as error:
        raise ImportError(f"metric {metric!r} needs scipy: pip install scipy ({error})") from error
    options = {} if weights is None else {"w": weights}
    return kind.array(cdist(x, y, metric=metric, **options))
