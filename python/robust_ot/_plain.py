"""Plain transport with given costs, called as in POT."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_ot import _core
from robust_ot._warning import warn_unconverged


def emd(
    a: ArrayLike,
    b: ArrayLike,
    M: ArrayLike,
    numItermax: int = 100000,
    log: bool = False,
    center_dual: bool = True,
    numThreads: int = 1,
    check_marginals: bool = True,
) -> Any:
    r"""Solve exact optimal transport.

    .. math:: \min_{\gamma \ge 0} \langle \gamma, M \rangle \quad\text{with}\quad \gamma 1 = a,\ \gamma^\top 1 = b

    by a network simplex whose flows are exact integers. The arguments are those of ``ot.emd``.

    Parameters
    ----------
    a, b : array-like of shape (m,) and (n,)
        Weights with equal sums; empty arrays mean uniform weights.
    M : array-like of shape (m, n)
        Costs. A row-major array in double precision is used without a copy.
    numItermax, center_dual, numThreads, check_marginals
        Accepted for compatibility; the simplex stops by itself, uses one thread, and always refuses unequal sums.
    log : bool
        Whether to also return a dictionary with cost and potentials.

    Returns
    -------
    plan : ndarray of shape (m, n)
        The optimal plan, in the precision of M.
    log : dict
        ``cost``, ``u``, ``v``, ``warning`` and ``result_code``; only with ``log=True``.

    See Also
    --------
    sinkhorn : entropic transport.
    distance : transport under the worst metric of a family.

    Examples
    --------
    >>> import robust_ot
    >>> robust_ot.emd([0.5, 0.5], [0.25, 0.75], [[0.0, 1.0], [2.0, 0.5]])
    array([[0.25, 0.25],
           [0.  , 0.5 ]])
    """
    costs = _costs(M)
    plan, u, v, cost, optimal = _core.emd(_weights(a, costs.shape[0]), _weights(b, costs.shape[1]), costs)
    if not optimal:
        warn_unconverged("emd ended before the optimum; its plan is feasible", float("nan"))
    plan = plan.astype(costs.dtype, copy=False)
    if not log:
        return plan
    warning = None if optimal else "ended before the optimum"
    return plan, {"cost": cost, "u": u, "v": v, "warning": warning, "result_code": 1 if optimal else 3}


def emd2(a: ArrayLike, b: ArrayLike, M: ArrayLike, **options: Any) -> Any:
    """Solve exact optimal transport and return its cost.

    Parameters
    ----------
    a, b, M
        As for :func:`emd`.
    **options
        As for :func:`emd`.

    Returns
    -------
    cost : float
        The optimal cost.
    log : dict
        As for :func:`emd`; only with ``log=True``.

    Examples
    --------
    >>> import robust_ot
    >>> robust_ot.emd2([0.5, 0.5], [0.25, 0.75], [[0.0, 1.0], [2.0, 0.5]])
    0.5
    """
    _, found = emd(a, b, M, **{**options, "log": True})
    return (found["cost"], found) if options.get("log") else found["cost"]


def sinkhorn(
    a: ArrayLike,
    b: ArrayLike,
    M: ArrayLike,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = True,
    warmstart: Any = None,
) -> Any:
    r"""Solve entropic optimal transport.

    .. math:: \min_{\gamma \in \Pi(a, b)} \langle \gamma, M \rangle + \mathrm{reg} \sum_{ij} \gamma_{ij} \ln \gamma_{ij}

    in the log domain, so that any ``reg`` is possible. The plan is rounded to the exact marginals. The arguments are those of
    ``ot.sinkhorn``.

    Parameters
    ----------
    a, b : array-like of shape (m,) and (n,)
        Weights with equal sums; empty arrays mean uniform weights.
    M : array-like of shape (m, n)
        Costs. A row-major array in double precision is used without a copy; other types are computed in double precision.
    reg : float
        Weight of the entropy, positive.
    numItermax : int
        Maximum number of sweeps over the costs.
    stopThr : float
        L1 error of the marginals, relative to the mass, at which the solver has converged.
    log : bool
        Whether to also return a dictionary with potentials and errors.
    warn : bool
        Whether to warn when the solver has not converged.
    method, verbose, warmstart
        Accepted for compatibility; there is one method, it prints nothing, and it needs no starting point.

    Returns
    -------
    plan : ndarray of shape (m, n)
        The plan, in the precision of M.
    log : dict
        ``err``, ``niter``, ``log_u`` and ``log_v``, the logarithms of the scalings; only with ``log=True``.

    Warns
    -----
    ConvergenceWarning
        When the marginal error is above ``stopThr``; the warning carries the error.

    Examples
    --------
    >>> import robust_ot
    >>> robust_ot.sinkhorn([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0).round(4)
    array([[0.3655, 0.1345],
           [0.1345, 0.3655]])
    """
    costs = _costs(M)
    a, b = _weights(a, costs.shape[0]), _weights(b, costs.shape[1])
    plan, f, g, error, converged, iterations = _core.sinkhorn(a, b, costs, reg, stopThr, numItermax)
    if warn and not converged:
        warn_unconverged(f"sinkhorn's marginal error is {error:.1e} instead of {stopThr:.1e}", error)
    plan = plan.astype(costs.dtype, copy=False)
    if not log:
        return plan
    return plan, {"err": [error], "niter": iterations, "log_u": f / reg, "log_v": g / reg}


def sinkhorn2(a: ArrayLike, b: ArrayLike, M: ArrayLike, reg: float, **options: Any) -> Any:
    """Solve entropic optimal transport and return the cost of its plan, without entropy.

    Parameters
    ----------
    a, b, M, reg
        As for :func:`sinkhorn`.
    **options
        As for :func:`sinkhorn`.

    Returns
    -------
    cost : float
        ⟨plan, M⟩.
    log : dict
        As for :func:`sinkhorn`; only with ``log=True``.

    Examples
    --------
    >>> import robust_ot
    >>> round(robust_ot.sinkhorn2([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0), 4)
    0.2689
    """
    plan, found = sinkhorn(a, b, M, reg, **{**options, "log": True})
    cost = float((plan * _costs(M)).sum())
    return (cost, found) if options.get("log") else cost


def _costs(M: ArrayLike) -> NDArray[Any]:
    costs = np.asanyarray(M)
    if costs.ndim != 2:
        raise ValueError(f"M must have 2 dimensions, but has shape {costs.shape}")
    if costs.dtype not in (np.float32, np.float64) and costs.dtype.kind in "biuf":
        return costs.astype(np.float64)
    return costs


def _weights(weights: ArrayLike, count: int) -> ArrayLike:
    """Return the weights, or uniform ones if they are empty."""
    if weights is None or np.size(weights) == 0:
        return np.full(count, 1.0 / count if count else 0.0)
    return weights
