"""Exact transport with given costs, called as in POT."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robust_ot import _core
from robust_ot._pot_arrays import InputError, Kind, costs_of, is_sparse, pair_of, to_numpy, torch_of, weights_of, whole
from robust_ot._warning import warn_unconverged

#: POT's warning and its code, which code written for POT compares with.
_STOPPED = "numItermax reached before optimality. Try to increase numItermax."
_OPTIMAL, _MAX_ITER_REACHED = 1, 3


def emd(
    a: Any,
    b: Any,
    M: Any,
    numItermax: int = 100000,
    log: bool = False,
    center_dual: bool = True,
    numThreads: int | Literal["max"] = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any:
    r"""Solve exact optimal transport.

    .. math:: \min_{\gamma \ge 0} \langle \gamma, M \rangle \quad\text{with}\quad \gamma 1 = a,\ \gamma^\top 1 = b

    by a network simplex whose flows are exact integers. With two million costs or more it works on a shortlist of arcs, and
    proves its optimum among all of them. The arguments are those of ``ot.emd``.

    Parameters
    ----------
    a, b : array-like of shape (m,) and (n,)
        Weights with equal sums; empty arrays mean uniform weights.
    M : array-like or sparse matrix of shape (m, n)
        Costs. A row-major array in double precision is used without a copy. Of a sparse matrix, entries that are not
        stored are forbidden; the solver fills them in, so that it takes the memory of a dense matrix.
    numItermax : int
        Maximum number of pivots of the simplex.
    log : bool
        Whether to also return a dictionary with cost and potentials.
    center_dual : bool
        Whether to shift the potentials so that ⟨a, u⟩ = ⟨b, v⟩.
    numThreads
        Accepted for compatibility: pivots use one thread, passes over all costs those of :func:`set_threads`.
    check_marginals : bool
        Whether to refuse unequal sums. If not, b is scaled to the sum of a.
    potentials_init : (array-like of shape (m,), array-like of shape (n,)), optional
        Potentials to start from, such as ``u`` and ``v`` of an earlier solve: they choose the first pivots.

    Returns
    -------
    plan : ndarray, tensor or sparse matrix of shape (m, n)
        The optimal plan, in the precision of M; a tensor if there is a tensor among the arguments, sparse if M is.
    log : dict
        ``cost``, ``u``, ``v``, ``warning`` and ``result_code``; only with ``log=True``.

    Warns
    -----
    ConvergenceWarning
        When ``numItermax`` pivots did not reach the optimum; the plan has the right marginals all the same.

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
    costs = _Costs(M)
    solved = _Solved(a, b, costs, numItermax, center_dual, check_marginals, potentials_init)
    kind = Kind.of(costs.stored, M, a, b)
    plan = solved.plan_like(costs, kind)
    return (plan, solved.log(kind)) if log else plan


def emd2(
    a: Any,
    b: Any,
    M: Any,
    processes: int = 1,
    numItermax: int = 100000,
    log: bool = False,
    return_matrix: bool = False,
    center_dual: bool = True,
    numThreads: int | Literal["max"] = 1,
    check_marginals: bool = True,
    potentials_init: Any = None,
) -> Any:
    r"""Solve exact optimal transport and return its cost.

    The gradients of a torch tensor follow from the envelope theorem: the plan in M, and the potentials, shifted to mean
    zero, in a and b.

    Parameters
    ----------
    a, M
        As for :func:`emd`.
    b : array-like of shape (n,) or (n, k)
        As for :func:`emd`, or one target per column.
    processes
        Accepted for compatibility; targets are solved one after the other.
    log : bool
        Whether to also return the dictionary of :func:`emd`.
    return_matrix : bool
        Whether the dictionary also has the plan, as ``G``.
    numItermax, center_dual, numThreads, check_marginals, potentials_init
        As for :func:`emd`.

    Returns
    -------
    cost : float or tensor
        The optimal cost; for k targets, a list of k costs, or of k pairs of cost and dictionary.
    log : dict
        As for :func:`emd`; only with ``log=True``.

    Examples
    --------
    >>> import robust_ot
    >>> float(robust_ot.emd2([0.5, 0.5], [0.25, 0.75], [[0.0, 1.0], [2.0, 0.5]]))
    0.5
    """
    costs = _Costs(M)
    kind = Kind.of(costs.stored, M, a, b)

    def of_target(target: Any) -> Any:
        solved = _Solved(a, target, costs, numItermax, center_dual, check_marginals, potentials_init)
        cost = kind.array(solved.cost)
        if kind.torch is not None:
            from robust_ot._pot_gradients import with_gradients

            u, v = (kind.array(potential - potential.mean()) for potential in (solved.u, solved.v))
            cost = with_gradients(cost, [(a, u), (target, v), (M, costs.gradient(solved.plan, kind))])
        if not log:
            return cost
        found = solved.log(kind)
        if return_matrix:
            found["G"] = solved.plan_like(costs, kind)
        return cost, found

    if np.ndim(to_numpy(b)) == 2 and np.size(to_numpy(b)):
        targets = b if torch_of(b) is not None else np.asarray(b)
        return [of_target(targets[:, k]) for k in range(targets.shape[1])]
    return of_target(b)


class _Costs:
    """Costs, and what is filled in where a sparse matrix stores none."""

    def __init__(self, M: Any) -> None:
        self.allowed: tuple[NDArray[Any], NDArray[Any]] | None = None
        if not is_sparse(M):
            self.stored = self.dense = costs_of(M)
            return
        if torch_of(M) is not None:
            M = M.detach().to_sparse_coo().coalesce()
            rows, columns = M.indices().cpu().numpy()
            stored, shape = to_numpy(M.values()), tuple(M.shape)
        else:
            M = M.tocoo(copy=True)
            M.sum_duplicates()
            rows, columns, stored, shape = M.row, M.col, M.data, M.shape
        self.stored = costs_of(stored[None])[0]
        self.allowed = rows, columns
        # No cycle of allowed costs can pay for one forbidden entry.
        finite = np.abs(self.stored[np.isfinite(self.stored)])
        self.forbidden = 2.0 * (sum(shape) + 1) * float(finite.max(initial=0.0)) + 1.0
        self.dense = np.full(shape, self.forbidden)
        self.dense[rows, columns] = self.stored

    def check(self, plan: NDArray[Any]) -> None:
        """Refuse a plan that uses an entry without a cost."""
        if self.allowed is None:
            return
        outside = plan.copy()
        outside[self.allowed] = 0.0
        if outside.any():
            i, j = np.unravel_index(outside.argmax(), outside.shape)
            rule = "M must store enough entries for a plan with marginals a and b"
            raise ValueError(f"{rule}, but row {i}, column {j}, which is not stored, would take {outside[i, j]:.3g}")

    def cost(self, plan: NDArray[Any]) -> float:
        """Return ⟨plan, M⟩."""
        return float(np.vdot(plan, self.dense))

    def gradient(self, plan: NDArray[Any], kind: Kind) -> Any:
        """Return the plan on the entries that M stores."""
        if self.allowed is None:
            return kind.array(plan)
        return kind.coo(plan[self.allowed], *self.allowed, shape=plan.shape)


class _Solved:
    """Plan and potentials of one problem."""

    def __init__(
        self,
        a: Any,
        b: Any,
        costs: _Costs,
        numItermax: int,
        center_dual: bool,
        check_marginals: bool,
        potentials_init: Any,
    ) -> None:
        m, n = costs.dense.shape
        a, b = weights_of(a, m), weights_of(b, n)
        if not check_marginals:
            a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
            b = b * (a.sum() / b.sum())
        # ⟨γ, M − f ⊕ g⟩ = ⟨γ, M⟩ − ⟨a, f⟩ − ⟨b, g⟩ has the same minimizers.
        start = None if potentials_init is None else pair_of(potentials_init, "potentials_init", (m, n))
        reduced = costs.dense if start is None else costs.dense - start[0][:, None] - start[1]
        try:
            self.plan, self.u, self.v, _, self.optimal = _core.emd(a, b, reduced, whole(numItermax))
        except ValueError as error:
            raise InputError(str(error)) from None
        if start is not None:
            self.u, self.v = self.u + start[0], self.v + start[1]
        if self.optimal:
            costs.check(self.plan)
        else:
            warn_unconverged(f"{_STOPPED} The plan has the right marginals.", float("nan"))
        self.cost = costs.cost(self.plan)
        if center_dual:
            mass = float(np.sum(a))
            shift = (float(np.dot(a, self.u)) - float(np.dot(b, self.v))) / (2.0 * mass)
            self.u, self.v = self.u - shift, self.v + shift

    def plan_like(self, costs: _Costs, kind: Kind) -> Any:
        """Return the plan, sparse if the costs are."""
        if costs.allowed is None:
            return kind.array(self.plan)
        rows, columns = np.nonzero(self.plan)
        return kind.coo(self.plan[rows, columns], rows, columns, self.plan.shape)

    def log(self, kind: Kind) -> dict[str, Any]:
        return {
            "cost": self.cost,
            "u": kind.array(self.u),
            "v": kind.array(self.v),
            "warning": None if self.optimal else _STOPPED,
            "result_code": _OPTIMAL if self.optimal else _MAX_ITER_REACHED,
        }
