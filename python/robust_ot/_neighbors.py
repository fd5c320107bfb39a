"""The nearest neighbors of some measures among others."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robust_ot import _core
from robust_ot._columns import matched, warn_uneven
from robust_ot._distance import Measures, Scale, Solver, first_names, gathered, keys
from robust_ot._metric import Grouping, Metric, Prior, metric_arguments
from robust_ot._warning import warn_unconverged

#: Rows and neighbors that are shown.
_SHOWN = 10


@dataclass(frozen=True, repr=False)
class Neighbors:
    r"""The nearest neighbors of some measures.

    Attributes
    ----------
    indices : ndarray of shape (n, top_k)
        The neighbors, the nearest first.
    distances : ndarray of shape (n, top_k)
        Their distances, upper bounds.
    lower_bounds : ndarray of shape (n, top_k)
        Lower bounds of their distances.
    certain : ndarray of bool, shape (n, top_k)
        Whether nothing outside the list can be nearer: the distance is at most the lower bound of everything left out.
    relative_gap : float
        The widest relative gap of these distances.
    unfinished : int
        Number of these distances that did not converge.
    solved : int
        Number of distances solved; the bounds excluded the others.
    bounds : int
        Number of ordered pairs that were bounded by potentials.
    pairs : int
        Number of distances that a full matrix would have needed.
    offset : float
        h(0), the value between equal clouds; not zero for ``features`` and ``ds``.
    row_names, column_names : list of str or None
        The names of the measures and of what ``indices`` counts, if they were given as a mapping.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> clouds = {name: np.array([[0.0, 0.0], [1.0, 1.0]]) + shift for name, shift in [("a", 0.0), ("b", 0.1), ("c", 2.0)]}
    >>> found = robust_ot.nearest(clouds, top_k=1, metric="w2")
    >>> print(*repr(found).splitlines()[1:], sep="\n")  # the first line tells how many, and the widest gap
    a  b (0.02)
    b  a (0.02)
    c  b (7.22)
    """

    indices: NDArray[np.int64]
    distances: NDArray[np.float64]
    lower_bounds: NDArray[np.float64]
    certain: NDArray[np.bool_]
    relative_gap: float
    unfinished: int
    solved: int
    bounds: int
    pairs: int
    offset: float
    row_names: list[str] | None = field(default=None, kw_only=True)
    column_names: list[str] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        rows, neighbors = self.indices.shape
        unfinished = f", {self.unfinished} distances not converged" if self.unfinished else ""
        unsure = "" if self.certain.all() else "; ? where something left out may be nearer"
        title = f"Nearest {neighbors} of {rows} measures, relative gap at most {self.relative_gap:.1e}{unfinished}{unsure}"
        names = [self._name(self.row_names, row) for row in range(min(rows, _SHOWN))]
        width = max(map(len, names), default=0)
        lines = [f"{name.ljust(width)}  {self._listed(row)}" for row, name in enumerate(names)]
        return "\n".join([title, *lines, *["…"] * (rows > _SHOWN)])

    def _listed(self, row: int) -> str:
        """Return the neighbors of a measure with their distances."""
        found = zip(self.indices[row], self.distances[row], self.certain[row], strict=True)
        shown = [
            f"{self._name(self.column_names, at)} ({distance:.4g}{'' if certain else '?'})" for at, distance, certain in found
        ]
        return ", ".join(shown[:_SHOWN] + ["…"] * (len(shown) > _SHOWN))

    @staticmethod
    def _name(names: list[str] | None, place: int) -> str:
        return str(place) if names is None else names[place]


def nearest(
    measures: Measures,
    documents: Measures | None = None,
    top_k: int | None = None,
    *,
    metric: Metric = "p",
    k: int = 1,
    rho: float = 2.0,
    lam: float = 1.0,
    prior: Prior = None,
    groups: int | None = None,
    grouping: Grouping = "contiguous",
    seed: int = 0,
    scale: Scale = "none",
    entropy: float = 0.0,
    solver: Solver = "auto",
    tol: float = 1e-4,
    max_iter: int = 1000,
    memory: int | str | None = None,
) -> Neighbors:
    """Find the nearest documents of every measure, without most of the distances.

    Two lower bounds exclude pairs that cannot enter: the distance of the means, and the value of potentials that a few cheap
    steps find under one metric. The result is that of sorting :func:`pairwise`, for any number of threads.

    Parameters
    ----------
    measures : sequence or mapping of array-like or of (points, weights)
        As for :func:`pairwise`.
    documents : sequence or mapping of array-like or of (points, weights), optional
        Where to look for the neighbors; by default among the other measures.
    top_k : int, optional
        Number of neighbors per measure; by default 10, or all where there are fewer.
    metric, k, rho, lam, prior, groups, grouping, seed, scale, entropy, solver, tol, max_iter, memory
        As for :func:`pairwise`. The search runs on the CPU.

    Returns
    -------
    Neighbors
        Indices and distances with their bounds, and which neighbors are certain.

    See Also
    --------
    robust_ot.distributed.nearest : the same on a Ray cluster.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> clouds = [np.array([[0.0, 0.0], [1.0, 1.0]]) + shift for shift in (0.0, 0.1, 2.0, 2.1)]
    >>> found = robust_ot.nearest(clouds, top_k=1)
    >>> found.indices.ravel()
    array([1, 0, 3, 2])
    >>> bool(found.certain.all())
    True
    >>> robust_ot.nearest(clouds[:1], clouds[1:], top_k=2).indices
    array([[0, 1]])
    """
    points, weights, labels = gathered(measures, documents)
    rows, names = sum(label.startswith("measures[") for label in labels), first_names(points)
    first, most = (0, rows - 1) if documents is None else (rows, len(points) - rows)
    if top_k is None:
        top_k = max(1, min(10, most))
    if not 1 <= top_k <= most:
        what = f"one less than the {rows} measures" if documents is None else f"the {most} documents"
        raise ValueError(f"top_k must be from 1 to {what}, but is {top_k}")
    found = _core.nearest(
        matched(points, labels),
        weights,
        [(i, np.inf) for i in range(rows)],
        list(range(first, len(points))),
        top_k,
        metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed),
        (entropy, solver, tol, max_iter, memory, "cpu"),
        scale,
    )
    warn_uneven(found.uneven, names)
    for at, error in found.errors.items():
        raise type(error)(f"{labels[at]}: {error}")
    unfinished, widest = int((~found.converged).sum()), float(found.relative_gaps.max())
    if unfinished:
        warn_unconverged(f"{unfinished} distances did not converge; the widest relative gap is {widest:.1e}", widest)
    return Neighbors(
        found.indices - first,
        found.values,
        found.lower_bounds,
        found.values <= found.next_lower_bounds[:, None],
        widest,
        unfinished,
        found.solved,
        found.bounded,
        rows * (rows - 1) // 2 if documents is None else rows * (len(points) - rows),
        found.offset,
        row_names=keys(measures),
        column_names=keys(measures if documents is None else documents),
    )
