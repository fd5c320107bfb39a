"""Entropic transport with given costs, called as in POT."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_ot import _core
from robust_ot._pot_arrays import Kind, costs_of, pair_of, to_numpy, torch_of, weights_of, whole
from robust_ot._warning import warn_unconverged

#: POT's names of algorithms for one problem. One solver in the log domain stands for all.
METHODS = ("sinkhorn", "sinkhorn_log", "sinkhorn_stabilized", "sinkhorn_epsilon_scaling", "greenkhorn")
#: Those that ``ot.sinkhorn2`` knows.
METHODS_OF_COST = METHODS[:3]
#: Settings of those algorithms, and of POT functions that hand them down; they have no meaning for this solver.
_SETTINGS = ("tau", "epsilon0", "numInnerItermax", "print_period", "tol_rel", "tol_abs")


def sinkhorn(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = True,
    warmstart: Any = None,
    **kwargs: Any,
) -> Any:
    r"""Solve entropic optimal transport.

    .. math:: \min_{\gamma \in \Pi(a, b)} \langle \gamma, M \rangle + \mathrm{reg} \sum_{ij} \gamma_{ij} \ln \gamma_{ij}

    in the log domain, so that any ``reg`` is possible. The plan is rounded to the exact marginals. The arguments are those of
    ``ot.sinkhorn``. The gradients of a torch tensor are those of the optimal plan, by implicit differentiation.

    Parameters
    ----------
    a : array-like of shape (m,)
        Weights; empty arrays mean uniform weights.
    b : array-like of shape (n,) or (n, k)
        Weights with the sum of a, or one target per column.
    M : array-like of shape (m, n)
        Costs. A row-major array in double precision is used without a copy; other types are computed in double precision.
    reg : float
        Weight of the entropy, positive.
    method : str
        ``'sinkhorn'``, ``'sinkhorn_log'``, ``'sinkhorn_stabilized'``, ``'sinkhorn_epsilon_scaling'`` or ``'greenkhorn'``: names
        of POT for the same problem, all solved by one method.
    numItermax : int
        Maximum number of sweeps over the costs.
    stopThr : float
        L1 error of the marginals, relative to the mass, at which the solver has converged.
    log : bool
        Whether to also return a dictionary with potentials and errors.
    warn : bool
        Whether to warn when the solver has not converged.
    warmstart : (array-like of shape (m,), array-like of shape (n,)), optional
        Logarithms of the scalings to start from, such as ``log_u`` and ``log_v`` of an earlier solve.
    verbose, tau, epsilon0, numInnerItermax, print_period
        Accepted for compatibility; nothing is printed, and there is one method.

    Returns
    -------
    plan : ndarray or tensor of shape (m, n)
        The plan, in the precision of M; a tensor if there is a tensor among the arguments. For k targets, the k costs
        ⟨plan, M⟩ instead.
    log : dict
        ``err``, ``niter``, the scalings ``u`` and ``v``, their logarithms ``log_u`` and ``log_v``, and ``alpha`` and ``beta``,
        the logarithms times ``reg``; also under the names ``n_iter``, ``logu``, ``logv`` and ``warmstart``. Only with
        ``log=True``.

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
    check_method(method, METHODS)
    _check_settings(kwargs)
    if is_many(b):
        return _costs_of_targets(a, b, M, reg, numItermax, stopThr, log, warn, warmstart)
    costs = costs_of(M)
    kind = Kind.of(costs, M, a, b)
    solved = Entropic(a, b, costs, reg, numItermax, stopThr, warn, warmstart)
    plan = solved.plan_like(kind, (a, b, M))
    return (plan, solved.log(kind)) if log else plan


def sinkhorn2(
    a: Any,
    b: Any,
    M: Any,
    reg: float,
    method: str = "sinkhorn",
    numItermax: int = 1000,
    stopThr: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    warn: bool = True,
    warmstart: Any = None,
    **kwargs: Any,
) -> Any:
    """Solve entropic optimal transport and return the cost of its plan, without entropy.

    Parameters
    ----------
    a, b, M, reg, numItermax, stopThr, verbose, warn, warmstart, **kwargs
        As for :func:`sinkhorn`.
    method : str
        ``'sinkhorn'``, ``'sinkhorn_log'`` or ``'sinkhorn_stabilized'``, as for :func:`sinkhorn`.
    log : bool
        Whether to also return the dictionary of :func:`sinkhorn`.

    Returns
    -------
    cost : float, tensor or array of shape (k,)
        ⟨plan, M⟩; for k targets, one cost for each.
    log : dict
        As for :func:`sinkhorn`; only with ``log=True``.

    Examples
    --------
    >>> import robust_ot
    >>> round(float(robust_ot.sinkhorn2([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 1.0)), 4)
    0.2689
    """
    check_method(method, METHODS_OF_COST)
    _check_settings(kwargs)
    if is_many(b):
        return _costs_of_targets(a, b, M, reg, numItermax, stopThr, log, warn, warmstart)
    costs = costs_of(M)
    kind = Kind.of(costs, M, a, b)
    solved = Entropic(a, b, costs, reg, numItermax, stopThr, warn, warmstart)
    cost = solved.cost_like(kind, (a, b, M))
    return (cost, solved.log(kind)) if log else cost


class Entropic:
    """The plan of one problem, with the logarithms of its scalings."""

    def __init__(
        self,
        a: Any,
        b: Any,
        costs: NDArray[Any],
        reg: Any,
        numItermax: int,
        stopThr: float,
        warn: bool,
        warmstart: Any = None,
        name: str = "warmstart",
    ) -> None:
        reg = number(reg)
        m, n = costs.shape
        a, start = weights_of(a, m), None
        if warmstart is not None and isinstance(reg, (int, float)):
            log_u, log_v = pair_of(warmstart, name, (m, n), weightless=True)
            start = reg * (log_u - _half_log(a)), reg * (log_v - _half_log(a))
        self.plan, f, g, self.error, self.converged, self.iterations = _core.sinkhorn(
            a, weights_of(b, n), costs, reg, stopThr, whole(numItermax), start
        )
        if warn and not self.converged:
            warn_unconverged(f"sinkhorn's marginal error is {self.error:.1e} instead of {stopThr:.1e}", self.error)
        self.costs, self.reg = costs, float(reg)
        self.log_u, self.log_v = f / self.reg + _half_log(a), g / self.reg + _half_log(a)

    def plan_like(self, kind: Kind, arguments: tuple[Any, Any, Any]) -> Any:
        """Return the plan; as a tensor, it depends on a, b and M."""
        if kind.torch is None:
            return kind.array(self.plan)
        from robust_ot._pot_gradients import entropic_plan

        return entropic_plan(self, self.reg, self.costs / -self.reg, kind, arguments)

    def cost_like(self, kind: Kind, arguments: tuple[Any, Any, Any]) -> Any:
        """Return ⟨plan, M⟩; as a tensor, it depends on a, b and M."""
        if kind.torch is None:
            return kind.array(np.vdot(self.plan, self.costs))
        M = arguments[2] if torch_of(arguments[2]) is not None else kind.array(self.costs)
        return (self.plan_like(kind, arguments) * M).sum()

    def log(self, kind: Kind) -> dict[str, Any]:
        return _log([self.error], self.iterations, self.log_u, self.log_v, self.reg, kind)


def _half_log(weights: Any) -> float:
    """Return half the logarithm of the mass: the solver's potentials are those of a mass of one."""
    with np.errstate(divide="ignore", invalid="ignore"):  # The solver refuses such weights.
        return float(0.5 * np.log(np.sum(weights, dtype=np.float64)))


def check_method(method: Any, methods: tuple[str, ...]) -> None:
    """Refuse a method that is not in the list."""
    if not isinstance(method, str) or method.lower() not in methods:
        raise ValueError(f"method must be one of {', '.join(map(repr, methods))}, but is {method!r}")


def number(value: Any) -> Any:
    """Return the number in an array or tensor with one entry."""
    return value.item() if hasattr(value, "item") else value


def is_many(b: Any) -> bool:
    """Return whether b has one target per column."""
    return np.ndim(to_numpy(b)) == 2 and np.size(to_numpy(b)) > 0


def _check_settings(settings: dict[str, Any]) -> None:
    for name in settings:
        if name not in _SETTINGS:
            raise TypeError(f"sinkhorn has no argument {name!r}")


def _costs_of_targets(
    a: Any, b: Any, M: Any, reg: Any, numItermax: int, stopThr: float, log: bool, warn: bool, warmstart: Any
) -> Any:
    """Solve for every column of b; return one cost for each."""
    targets = b if torch_of(b) is not None else np.asarray(b)
    costs = costs_of(M)
    kind = Kind.of(costs, M, a, b)
    solved, values = [], []
    for k in range(targets.shape[1]):
        start = None if warmstart is None else tuple(to_numpy(x)[:, k] for x in warmstart)
        solved.append(Entropic(a, targets[:, k], costs, reg, numItermax, stopThr, warn, start))
        values.append(solved[-1].cost_like(kind, (a, targets[:, k], M)))
    losses = kind.array(values) if kind.torch is None else kind.torch.stack(values)
    if not log:
        return losses
    log_u, log_v = (np.stack([getattr(one, name) for one in solved], axis=1) for name in ("log_u", "log_v"))
    errors, iterations = [one.error for one in solved], max(one.iterations for one in solved)
    return losses, _log(errors, iterations, log_u, log_v, solved[0].reg, kind)


def _log(
    errors: list[float], iterations: int, log_u: NDArray[Any], log_v: NDArray[Any], reg: float, kind: Kind
) -> dict[str, Any]:
    """Return what POT's methods log, under the names that they use."""
    # A scaling can be larger than any number; its logarithm is exact.
    with np.errstate(over="ignore"):
        u, v = kind.array(np.exp(log_u)), kind.array(np.exp(log_v))
    f, g = kind.array(log_u), kind.array(log_v)
    return {
        "err": errors,
        "niter": iterations,
        "n_iter": iterations,
        "u": u,
        "v": v,
        "log_u": f,
        "log_v": g,
        "logu": f,
        "logv": g,
        "alpha": kind.array(reg * log_u),
        "beta": kind.array(reg * log_v),
        "warmstart": (f, g),
    }
