"""Robust distances between two measures and among many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_ot import _core
from robust_ot._columns import column_names, matched, row_names, warn_uneven
from robust_ot._distances import Distances
from robust_ot._metric import Grouping, Metric, Prior, metric_arguments
from robust_ot._progress import Progress
from robust_ot._solution import Solution
from robust_ot._warning import warn_unconverged

Solver = Literal["auto", "classic", "line-search", "corrective"]
Scale = Literal["none", "std", "robust"]
MeasureLike = ArrayLike | tuple[ArrayLike, ArrayLike]
Measures = Sequence[MeasureLike] | Mapping[Any, MeasureLike]


def distance(
    X: ArrayLike,
    Y: ArrayLike,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
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
    debias: bool = False,
    solver: Solver = "auto",
    tol: float = 1e-4,
    max_iter: int = 1000,
    memory: int | str | None = None,
    device: str = "auto",
    progress: bool = False,
) -> Solution:
    r"""Compute the robust distance between two measures.

    Solves

    .. math:: W = \min_{\gamma \in \Pi(a, b)} \max_{M \in \mathcal{M}} \sum_{ij} \gamma_{ij} (x_i - y_j)^\top M (x_i - y_j)
              - \mathrm{penalty}(M) + \mathrm{entropy} \sum_{ij} \gamma_{ij} \ln \gamma_{ij}

    and brackets it: ``lower_bound ≤ W ≤ value`` holds however the solve ends.

    Parameters
    ----------
    X, Y : array-like of shape (m, d) and (n, d)
        Source and target points, one per row. Columns of two data frames are matched by name; names that differ are an error.
    a, b : array-like of shape (m,) and (n,), optional
        Their weights, scaled to sum to one; uniform by default.
    metric : {'p', 'p-power', 'kl', 'ds', 'features', 'srw', 'rkp', 'w2'}
        The family of metrics; the distance is taken under its worst member.
    k : int
        Exponent of ``p`` and ``p-power`` (2k), or number of dimensions of ``srw``.
    rho : float
        Schatten exponent of ``rkp``, at least 1, or ``inf``.
    lam : float
        Strength of the penalty of ``kl``, ``ds`` and ``features``.
    prior : {'eye', 'ones'} or array-like of shape (r, r), optional
        Prior metric of ``kl`` (default ``eye``) and ``ds`` (default ``ones``).
    groups : int, optional
        Number of feature groups r; by default, every feature is its own group.
    grouping : {'contiguous', 'interleaved', 'random'} or array-like of shape (d,)
        How features are grouped, or the group index of every feature.
    seed : int
        Seed of ``grouping='random'``.
    scale : {'none', 'std', 'robust'}
        What every feature is divided by: nothing, its standard deviation, or its interquartile range / 1.349 (robust against
        outliers), of X and Y pooled. Unscaled, the units of the features decide which of them matter.
    entropy : float
        Weight of the entropy of the plan; 0 gives exact plans.
    debias : bool
        Return the Sinkhorn divergence W(X, Y) − ½ W(X, X) − ½ W(Y, Y) under one common metric, the worst one of W(X, Y),
        instead of W(X, Y). It is not negative, and zero between equal measures. Bounds and status are those of the divergence;
        plan, metric, moment and history are those of W(X, Y). Needs ``entropy``.
    solver : {'auto', 'classic', 'line-search', 'corrective'}
        Frank-Wolfe step rule.
    tol : float
        Relative gap at which the solver has converged.
    max_iter : int
        Maximum number of oracle calls.
    memory : int or str, optional
        Maximum memory for costs and plans in bytes, or a size such as ``'2GB'``; what does not fit is streamed. Half of the
        free memory by default.
    device : {'auto', 'cpu', 'cuda', 'cuda:N'}
        Where to compute. ``auto`` uses a GPU if one is available, the entropy is positive and the work is worth it; ``cuda``
        uses a GPU or fails. Exact plans are computed on the CPU.
    progress : bool
        Whether to show on standard error for how long it has been solving, with tqdm if it is installed.

    Returns
    -------
    Solution
        The bounds, the plan, the metric and the status.

    Warns
    -----
    ConvergenceWarning
        When the gap is wider than ``tol``; the warning carries the gap.
    UserWarning
        When one feature varies more than 100 times as much as another and nothing is scaled.

    See Also
    --------
    pairwise : all distances among many measures.
    emd : plain transport with a given cost matrix.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(60, 4)), rng.normal(size=(50, 4))
    >>> Y[:, 2] += 3
    >>> robust_ot.distance(X, Y, metric="features", lam=0.1).feature_weights.round(2)
    array([0., 0., 1., 0.])
    """
    names = column_names(X) or column_names(Y)
    rows = (row_names(X), row_names(Y))
    X, Y = matched([X, Y], ["X", "Y"])
    set_arguments = metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed)
    solver_arguments = (entropy, solver, tol, max_iter, memory, device)
    with Progress("distance", None, progress) as told:
        watch = (lambda: told.step(1)) if progress else None
        found = _core.distance(X, Y, a, b, set_arguments, solver_arguments, scale, debias, watch)
    warn_uneven(found.uneven, names)
    if found.status != "converged":
        gap = found.relative_gap
        warn_unconverged(f"distance ended as {found.status}, with a relative gap of {gap:.1e} instead of {tol:.1e}", gap)
    return Solution(found, metric, names, rows)


def pairwise(
    measures: Measures,
    documents: Measures | None = None,
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
    device: str = "auto",
    progress: bool = False,
) -> Distances:
    """Compute all robust distances among many measures, or from some to others, in parallel.

    The matrix is the same for any number of threads. Among themselves, each measure is also compared with itself, since not
    every metric set gives zero there.

    Parameters
    ----------
    measures : sequence or mapping of array-like or of (points, weights)
        Points, one per row, with uniform weights or their own; the keys of a mapping are their names. Columns of data frames
        are matched by name.
    documents : sequence or mapping of array-like or of (points, weights), optional
        Compare with these instead of with each other: the matrix has a row per measure and a column per document.
    metric, k, rho, lam, prior, groups, grouping, seed, scale, entropy, solver, tol, max_iter, memory, device
        As for :func:`distance`; features are scaled by their spread over all measures pooled, each with the same weight.
    progress : bool
        Whether to show on standard error how many pairs are solved, with tqdm if it is installed.

    Returns
    -------
    Distances
        The matrix with its lower bounds; symmetric without ``documents``.

    See Also
    --------
    nearest : the nearest documents only, without most of the distances.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> clouds = [np.array([[0.0, 0.0], [1.0, 1.0]]) + shift for shift in (0.0, 0.1, 2.0)]
    >>> robust_ot.pairwise(clouds, metric="w2").matrix.round(2)
    array([[0.  , 0.02, 8.  ],
           [0.02, 0.  , 7.22],
           [8.  , 7.22, 0.  ]])
    >>> robust_ot.pairwise(clouds[:1], clouds[1:], metric="w2").matrix.round(2)
    array([[0.02, 8.  ]])
    """
    points, weights, labels = gathered(measures, documents)
    n, names = len(points), first_names(points)
    points = matched(points, labels)
    rows = sum(label.startswith("measures[") for label in labels)
    pairs = [(i, j) for i in range(rows) for j in (range(i, n) if documents is None else range(rows, n))]
    set_arguments = metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed)
    solver_arguments = (entropy, solver, tol, max_iter, memory, device)
    with Progress("pairwise", len(pairs), progress) as told:
        watch = told.reach if progress else None
        solved = _core.pairwise(points, weights, pairs, set_arguments, solver_arguments, scale, watch)
        told.reach(len(pairs))
    values, lower, gaps, converged, errors, uneven, offset = solved
    warn_uneven(uneven, names)
    for at, error in errors.items():
        i, j = pairs[at]
        raise type(error)(f"{labels[i]} and {labels[j]}: {error}")
    unfinished, widest = int((~converged).sum()), float(gaps.max())
    if unfinished:
        warn_unconverged(f"{unfinished} pairs did not converge; the widest relative gap is {widest:.1e}", widest)
    if documents is not None:
        values, lower = values.reshape(rows, -1), lower.reshape(rows, -1)
    else:
        values, lower = _symmetric(n, pairs, values), _symmetric(n, pairs, lower)
    return Distances(
        values,
        lower,
        widest,
        unfinished,
        offset,
        row_names=keys(measures),
        column_names=keys(measures if documents is None else documents),
        among=documents is None,
    )


def gathered(
    measures: Measures, documents: Measures | None, least: int | None = None
) -> tuple[list[Any], list[Any], list[str]]:
    """Return points, weights and names of all measures and then of all documents; of measures alone, at least two."""
    points: list[Any] = []
    weights: list[Any] = []
    labels: list[str] = []
    for name, given in (("measures", measures), ("documents", documents)):
        if name == "documents" and given is None:
            continue
        if given is None or isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(f"{name} must be a sequence of points, but is {given!r}")
        before = len(points)
        for place, measure in given.items() if isinstance(given, Mapping) else enumerate(given):
            # A tuple of two holds points and weights; anything else is points.
            own = measure if isinstance(measure, tuple) and len(measure) == 2 else (measure, None)
            labels.append(f"{name}[{place!r}]")
            points.append(own[0])
            weights.append(own[1])
        n, fewest = len(points) - before, least or (2 if documents is None else 1)
        if n < fewest:
            raise ValueError(f"{name} must be at least {fewest}, but there {'is' if n == 1 else 'are'} {n}")
    return points, weights, labels


def keys(measures: Measures | None) -> list[str] | None:
    """Return the names of measures that are given as a mapping."""
    return [str(name) for name in measures] if isinstance(measures, Mapping) else None


def first_names(points: Sequence[Any]) -> list[str] | None:
    """Return the column names of the first data frame."""
    return next(filter(None, map(column_names, points)), None)


def _symmetric(n: int, pairs: Iterable[tuple[int, int]], values: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.empty((n, n))
    for (i, j), value in zip(pairs, values, strict=True):
        matrix[i, j] = matrix[j, i] = value
    return matrix
