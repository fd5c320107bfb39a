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
        Costs. A row-major array in double precision is used without a copy. No mass moves where a cost is infinite or,
        in a sparse matrix, not stored; memory and time then grow with the number of other costs.
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
    costs = _costs(M)
    solved = _Solved(a, b, costs, numItermax, center_dual, check_marginals, potentials_init)
    kind = Kind.of(costs.stored, M, a, b)
    plan = costs.plan(solved.plan, kind)
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
    costs = _costs(M)
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
            found["G"] = costs.plan(solved.plan, kind)
        return cost, found

    if np.ndim(to_numpy(b)) == 2 and np.size(to_numpy(b)):
        targets = b if torch_of(b) is not None else np.asarray(b)
        return [of_target(targets[:, k]) for k in range(targets.shape[1])]
    return of_target(b)


class _Costs:
    """Costs of all pairs of points."""

    def __init__(self, stored: NDArray[Any]) -> None:
        self.stored = stored
        self.shape: tuple[int, int] = stored.shape

    def solve(self, a: Any, b: Any, pivots: int, start: _Potentials | None) -> tuple[Any, Any, Any, bool]:
        """Return the plan, the potentials and whether the plan is optimal."""
        # ⟨γ, M − f ⊕ g⟩ = ⟨γ, M⟩ − ⟨a, f⟩ − ⟨b, g⟩ has the same minimizers.
        reduced = self.stored if start is None else self.stored - start[0][:, None] - start[1]
        plan, u, v, _, optimal = _core.emd(a, b, reduced, pivots)
        return plan, u, v, optimal

    def cost(self, plan: NDArray[Any]) -> float:
        """Return ⟨plan, M⟩."""
        return float(np.vdot(plan, self.stored))

    def plan(self, plan: NDArray[Any], kind: Kind) -> Any:
        """Return the plan like M."""
        return kind.array(plan)

    #: The gradient of the cost in M is the plan.
    gradient = plan


class _CostsOnArcs:
    """Costs of allowed pairs of points. A plan is the mass of each of them."""

    def __init__(
        self, rows: NDArray[Any], columns: NDArray[Any], stored: NDArray[Any], shape: tuple[int, int], dense: bool
    ) -> None:
        self.rows, self.columns, self.stored, self.shape, self.dense = rows, columns, stored, shape, dense
        self.open = np.flatnonzero(~np.isposinf(stored))

    @classmethod
    def of_sparse(cls, M: Any) -> _CostsOnArcs:
        """Take the entries that a sparse matrix stores."""
        if torch_of(M) is not None:
            M = M.detach().to_sparse_coo().coalesce()
            rows, columns = M.indices().cpu().numpy()
            stored, shape = to_numpy(M.values()), tuple(M.shape)
        else:
            M = M.tocsr(copy=True)
            M.sum_duplicates()
            M = M.tocoo()
            rows, columns, stored, shape = M.row, M.col, M.data, M.shape
        return cls(rows, columns, costs_of(stored[None])[0], shape, dense=False)

    @classmethod
    def of_dense(cls, M: NDArray[Any]) -> _CostsOnArcs:
        """Take the entries of a matrix that are not +∞."""
        rows, columns = np.nonzero(~np.isposinf(M))
        return cls(rows, columns, M[rows, columns], M.shape, dense=True)

    def solve(self, a: Any, b: Any, pivots: int, start: _Potentials | None) -> tuple[Any, Any, Any, bool]:
        """Return the masses, the potentials and whether they are optimal."""
        rows, columns = self.rows[self.open], self.columns[self.open]
        costs = np.asarray(self.stored[self.open], dtype=np.float64)
        if start is not None:
            costs = costs - start[0][rows] - start[1][columns]
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.shape[0]))]).astype(np.uint64)
        masses = np.zeros(self.stored.size)
        found, u, v, _, optimal = _core.emd_on_arcs(a, b, starts, columns.astype(np.uint32), costs, pivots)
        masses[self.open] = found
        return masses, u, v, optimal

    def cost(self, masses: NDArray[Any]) -> float:
        """Return the cost of the masses."""
        return float(np.dot(masses[self.open], self.stored[self.open]))

    def plan(self, masses: NDArray[Any], kind: Kind) -> Any:
        """Return the plan: sparse, with the pairs that carry mass, if M is."""
        if self.dense:
            plan = np.zeros(self.shape)
            plan[self.rows, self.columns] = masses
            return kind.array(plan)
        used = np.flatnonzero(masses)
        return kind.coo(masses[used], self.rows[used], self.columns[used], self.shape)

    def gradient(self, masses: NDArray[Any], kind: Kind) -> Any:
        """Return the plan on all entries that M stores."""
        return self.plan(masses, kind) if self.dense else kind.coo(masses, self.rows, self.columns, shape=self.shape)


_Potentials = tuple[NDArray[np.float64], NDArray[np.float64]]


def _costs(M: Any) -> _Costs | _CostsOnArcs:
    if is_sparse(M):
        return _CostsOnArcs.of_sparse(M)
    stored = costs_of(M)
    # Only floats can be infinite; other types are checked when the problem is solved.
    forbids = stored.dtype.kind == "f" and np.isposinf(stored.max(initial=0.0))
    return _CostsOnArcs.of_dense(stored) if forbids else _Costs(stored)


class _Solved:
    """Plan and potentials of one problem."""

    def __init__(
        self,
        a: Any,
        b: Any,
        costs: _Costs | _CostsOnArcs,
        numItermax: int,
        center_dual: bool,
        check_marginals: bool,
        potentials_init: Any,
    ) -> None:
        m, n = costs.shape
        a, b = weights_of(a, m), weights_of(b, n)
        if not check_marginals:
            a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
            b = b * (a.sum() / b.sum())
        start = None if potentials_init is None else pair_of(potentials_init, "potentials_init", (m, n))
        if isinstance(costs, _CostsOnArcs) and (np.size(a), np.size(b)) != (m, n):
            rule = f"M must have one row per weight of a and one column per weight of b, ({np.size(a)}, {np.size(b)})"
            raise InputError(f"{rule}, but has shape {(m, n)}")
        try:
            self.plan, self.u, self.v, self.optimal = costs.solve(a, b, whole(numItermax), start)
        except ValueError as error:
            raise InputError(str(error)) from None
        if start is not None:
            self.u, self.v = self.u + start[0], self.v + start[1]
        if not self.optimal:
            marginals = "The plan has the right marginals."
            if isinstance(costs, _CostsOnArcs):
                marginals = "Mass that has no way along the allowed pairs yet is left out of the plan."
            warn_unconverged(f"{_STOPPED} {marginals}", float("nan"))
        self.cost = costs.cost(self.plan)
        if center_dual:
            mass = float(np.sum(a))
            shift = (float(np.dot(a, self.u)) - float(np.dot(b, self.v))) / (2.0 * mass)
            self.u, self.v = self.u - shift, self.v + shift

    def log(self, kind: Kind) -> dict[str, Any]:
        return {
            "cost": self.cost,
            "u": kind.array(self.u),
            "v": kind.array(self.v),
            "warning": None if self.optimal else _STOPPED,
            "result_code": _OPTIMAL if self.optimal else _MAX_ITER_REACHED,
        }
