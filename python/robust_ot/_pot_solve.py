"""Balanced transport with one call, as POT's ``ot.solve`` and ``ot.solve_sample``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_ot._pot_arrays import Kind, costs_of, to_numpy, torch_of, weights_of
from robust_ot._pot_dist import dist
from robust_ot._pot_entropic import METHODS, Entropic, number
from robust_ot._pot_exact import emd2
from robust_ot._pot_line import wasserstein_1d
from robust_ot._pot_result import OTResult

_REGULARIZATIONS = ("KL", "entropy")
_GRADIENTS = ("autodiff", "envelope", "last_step", "detach")


def solve(
    M: Any,
    a: Any = None,
    b: Any = None,
    reg: float | None = None,
    c: Any = None,
    reg_type: Any = "KL",
    unbalanced: Any = None,
    unbalanced_type: str = "KL",
    method: str | None = None,
    n_threads: int = 1,
    max_iter: int | None = None,
    plan_init: Any = None,
    potentials_init: Any = None,
    tol: float | None = None,
    verbose: bool = False,
    grad: str = "autodiff",
) -> OTResult:
    r"""Solve balanced transport, exact or with entropy.

    .. math:: \min_{\gamma \in \Pi(a, b)} \langle \gamma, M \rangle + \mathrm{reg} \sum_{ij} \gamma_{ij} \ln
        \frac{\gamma_{ij}}{c_{ij}}

    The arguments are those of ``ot.solve``. Unbalanced problems and other regularizations are refused.

    Parameters
    ----------
    M : array-like of shape (m, n)
        Costs.
    a, b : array-like of shape (m,) and (n,), optional
        Weights with equal sums; uniform if missing.
    reg : float, optional
        Weight of the regularization; None and 0 mean exact transport.
    c : array-like of shape (m, n), optional
        The reference measure of the regularization, positive; a bᵀ if missing. Only with ``reg_type='KL'``.
    reg_type : {'KL', 'entropy'}
        Relative entropy to c, or entropy, which is c = 1.
    unbalanced : float, optional
        None or infinity: the marginals are a and b.
    method : str, optional
        A name of :func:`robust_ot.sinkhorn`.
    max_iter : int, optional
        Maximum number of pivots, by default 1,000,000, or of sweeps, by default 1000.
    potentials_init : (array-like, array-like), optional
        Potentials to start from, those of an earlier result.
    tol : float, optional
        L1 error of the marginals with ``reg``, by default 1e-9.
    grad : {'autodiff', 'envelope', 'last_step', 'detach'}
        With ``reg``, which results of tensors have gradients: all but the potentials (``'autodiff'`` and ``'last_step'``, both
        by implicit differentiation at the optimum), the value alone, or none.
    unbalanced_type, n_threads, plan_init, verbose
        Accepted for compatibility.

    Returns
    -------
    result : OTResult
        ``plan``, ``value``, ``value_linear``, ``potentials``, ``marginals``, ``status`` and more.

    Examples
    --------
    >>> from robust_ot.pot import solve
    >>> solution = solve([[0.0, 1.0], [2.0, 0.5]], [0.5, 0.5], [0.25, 0.75])
    >>> float(solution.value)
    0.5
    >>> solution.status
    'Converged'
    """
    _check_balanced(unbalanced, unbalanced_type)
    _check_name("grad", grad, _GRADIENTS)
    if method is not None:
        _check_name("method", method, METHODS)
    reg = number(reg)
    if reg is None or reg == 0:
        return _exact(M, a, b, 1_000_000 if max_iter is None else max_iter, potentials_init)
    if reg_type not in _REGULARIZATIONS:
        names = ", ".join(map(repr, _REGULARIZATIONS))
        raise NotImplementedError(f"reg_type must be one of {names}, but is {reg_type!r}; ot.solve knows others")
    costs = costs_of(M)
    a_weights, b_weights = weights_of(a, costs.shape[0]), weights_of(b, costs.shape[1])
    reference = None if c is None or reg_type == "entropy" else _reference(c, costs.shape)
    shifted = costs if reference is None else costs - reg * np.log(reference)
    start = None if potentials_init is None else tuple(np.asarray(to_numpy(f)) / reg for f in potentials_init)
    iterations, limit = 1000 if max_iter is None else max_iter, 1e-9 if tol is None else tol
    solved = Entropic(a_weights, b_weights, shifted, reg, iterations, limit, True, start, "potentials_init")
    kind = Kind.of(costs, M, a, b)
    measure = _Measure(solved, reg_type, reference)
    value, plan = kind.array(measure.value(costs)), kind.array(solved.plan)
    linear = kind.array(np.vdot(solved.plan, costs))
    if kind.torch is not None and grad != "detach":
        from robust_ot._pot_gradients import with_gradients

        in_a, in_b = measure.weight_gradients()
        value = with_gradients(value, [(a, kind.array(in_a)), (b, kind.array(in_b)), (M, plan)])
        if grad != "envelope":
            plan = solved.plan_like(kind, (a, b, M))
            linear = (plan * (M if torch_of(M) is not None else kind.array(costs))).sum()
    status = "Converged" if solved.converged else f"The marginal error is {solved.error:.1e} instead of {limit:.1e}"
    potentials = kind.array(reg * solved.log_u), kind.array(reg * solved.log_v)
    return OTResult(value, linear, plan, potentials, status, solved.log(kind))


def solve_sample(
    X_a: Any,
    X_b: Any,
    a: Any = None,
    b: Any = None,
    metric: str | Callable[[Any, Any], float] = "sqeuclidean",
    reg: float | None = None,
    c: Any = None,
    reg_type: Any = "KL",
    unbalanced: Any = None,
    unbalanced_type: str = "KL",
    lazy: bool = False,
    batch_size: int | None = None,
    method: str | None = None,
    n_threads: int = 1,
    max_iter: int | None = None,
    plan_init: Any = None,
    rank: int = 100,
    scaling: float = 0.95,
    potentials_init: Any = None,
    X_init: Any = None,
    tol: float | None = None,
    verbose: bool = False,
    grad: str = "autodiff",
    random_state: Any = None,
    debias: bool = False,
    n_projections: int = 50,
    projections: Any = None,
    scaler: None = None,
) -> OTResult:
    """Solve balanced transport between points, exact or with entropy.

    The costs are those of :func:`robust_ot.pot.dist`. The arguments are those of ``ot.solve_sample``.

    Parameters
    ----------
    X_a, X_b : array-like of shape (m, d) and (n, d)
        Points.
    metric : str or callable
        As for :func:`robust_ot.pot.dist`.
    a, b, reg, c, reg_type, unbalanced, unbalanced_type, max_iter, potentials_init, tol, grad
        As for :func:`solve`.
    method : str, optional
        ``'1d'``: the cost of transport in every feature alone, :func:`robust_ot.pot.wasserstein_1d` with p = 2 for
        ``'sqeuclidean'`` and p = 1 for ``'euclidean'`` and ``'cityblock'``; or a name of :func:`robust_ot.sinkhorn`.
    debias : bool
        Whether ``value`` is W(a, b) − (W(a, a) + W(b, b)) / 2, the Sinkhorn divergence. ``log`` then has the three results.
    lazy, batch_size, n_threads, plan_init, rank, scaling, X_init, verbose, random_state, n_projections, projections
        Accepted for compatibility; the costs are always stored.
    scaler : None
        Scale the points before the call.

    Returns
    -------
    result : OTResult
        As for :func:`solve`.

    Examples
    --------
    >>> from robust_ot.pot import solve_sample
    >>> float(solve_sample([[0.0], [1.0]], [[1.0], [2.0]]).value)
    1.0
    """
    _check_balanced(unbalanced, unbalanced_type)
    if scaler is not None:
        raise NotImplementedError(f"scaler must be None, but is {scaler!r}; scale the points before the call")
    if debias not in (False, True):
        raise NotImplementedError(f"debias must be False or True, but is {debias!r}; ot.solve_sample knows others")
    if method is not None and method.lower() == "1d":
        powers = {"sqeuclidean": 2, "euclidean": 1, "cityblock": 1}
        if metric not in powers:
            raise NotImplementedError(f"metric must be one of {', '.join(map(repr, powers))} in 1d, but is {metric!r}")
        values = wasserstein_1d(X_a, X_b, a, b, p=powers[metric])
        return OTResult(values, values)
    if method is not None and method.lower() not in METHODS:
        names = ", ".join(map(repr, ("1d", *METHODS)))
        raise NotImplementedError(f"method must be one of {names}, but is {method!r}; ot.solve_sample knows others")

    def between(X: Any, Y: Any, of_x: Any, of_y: Any, reference: Any, start: Any) -> OTResult:
        return solve(
            dist(X, Y, metric=metric),
            of_x,
            of_y,
            reg,
            reference,
            reg_type,
            method=method,
            max_iter=max_iter,
            potentials_init=start,
            tol=tol,
            grad=grad,
        )

    solved = between(X_a, X_b, a, b, c, potentials_init)
    if not debias:
        return solved
    of_a, of_b = between(X_a, X_a, a, a, None, None), between(X_b, X_b, b, b, None, None)
    value = solved.value - (of_a.value + of_b.value) / 2
    log = {**solved.log, "res_ab": solved, "res_aa": of_a, "res_bb": of_b}
    return OTResult(value, solved.value_linear, solved.plan, solved.potentials, solved.status, log)


class _Measure:
    """The regularization of a solution."""

    def __init__(self, solved: Entropic, reg_type: str, reference: NDArray[Any] | None) -> None:
        self.solved, self.reg = solved, solved.reg
        self.reference = reference
        #: Whether c = a bᵀ, which moves with the weights.
        self.moves = reg_type == "KL" and reference is None

    def value(self, costs: NDArray[Any]) -> float:
        """Return ⟨γ, M⟩ + reg Σ γ ln(γ / c)."""
        plan, used = self.solved.plan, self.solved.plan > 0
        logarithms = np.log(plan[used])
        if self.moves:
            rows, columns = np.nonzero(used)
            with np.errstate(divide="ignore"):
                logarithms -= np.log(plan.sum(1))[rows] + np.log(plan.sum(0))[columns]
        elif self.reference is not None:
            logarithms -= np.log(self.reference[used])
        return float(np.vdot(plan, costs) + self.reg * (plan[used] @ logarithms))

    def weight_gradients(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the gradients of the value in a and b, by the envelope theorem.

        The dual potentials are f + reg / 2 and g + reg / 2. If c = a bᵀ, then ln c adds − reg ln a − reg to the first; with
        a = u ∘ (K v) that is φ − reg / 2 with φ_i = −reg ln Σ_j K_ij v_j, which is finite without weight, too.
        """
        log_u, log_v = self.solved.log_u, self.solved.log_v
        if not self.moves:
            return self.reg * (log_u + 0.5), self.reg * (log_v + 0.5)
        log_kernel = self.solved.costs / -self.reg
        in_a = -self.reg * (_log_sum(log_kernel + log_v) + 0.5)
        in_b = -self.reg * (_log_sum(log_kernel.T + log_u) + 0.5)
        return in_a, in_b


def _log_sum(logarithms: NDArray[Any]) -> NDArray[Any]:
    """Return ln Σ_j exp of every row."""
    largest = logarithms.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(logarithms - largest).sum(1)) + largest[:, 0])


def _exact(M: Any, a: Any, b: Any, pivots: int, potentials_init: Any) -> OTResult:
    cost, log = emd2(
        a,
        b,
        M,
        numItermax=pivots,
        log=True,
        return_matrix=True,
        potentials_init=potentials_init,
    )
    return OTResult(cost, cost, log["G"], (log["u"], log["v"]), log["warning"] or "Converged", log)


def _reference(c: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    reference = np.asarray(to_numpy(c), dtype=np.float64)
    if reference.shape != shape:
        raise ValueError(f"c must have the shape of M, {shape}, but has shape {reference.shape}")
    if not (reference > 0).all():
        raise ValueError(f"c must be positive, but contains {reference[~(reference > 0)][0]}")
    return reference


def _check_balanced(unbalanced: Any, unbalanced_type: str) -> None:
    if unbalanced is None or np.all(np.isposinf(np.asarray(to_numpy(unbalanced), dtype=np.float64))):
        return
    rule = "unbalanced must be None or infinity"
    raise NotImplementedError(f"{rule}, but is {unbalanced!r} with {unbalanced_type!r}; ot.solve knows unbalanced problems")


def _check_name(name: str, value: Any, names: tuple[str, ...]) -> None:
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, but is {value!r}")
