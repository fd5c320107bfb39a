"""Barycenters of measures under robust distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_ot import _core
from robust_ot._columns import matched
from robust_ot._distance import MeasureLike, Solver, first_names, gathered
from robust_ot._metric import Grouping, Metric, Prior, metric_arguments
from robust_ot._solution import Solution
from robust_ot._warning import warn_unconverged


@dataclass(frozen=True)
class Barycenter:
    """A measure with the least mean distance to some others: ``lower_bound`` ≤ Σ w W ≤ ``value`` for it.

    With free support the bounds are those of the mean distance of this measure: there are many local minima, and nothing bounds
    the least. With fixed support the problem is convex, and the lower bound is one on the least mean distance of all weights.

    Attributes
    ----------
    points : ndarray of shape (n, d)
        The points.
    weights : ndarray of shape (n,)
        Their weights.
    value, lower_bound : float
        Bounds on the mean distance.
    distances : list of Solution
        The distance from each measure to the barycenter, with its bounds, metric and plan.
    status : str
        How the search ended: ``converged``, or why not.
    history : ndarray
        The values before the first step and after each.
    feature_names : list of str or None
        The column names of the first data frame.
    """

    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    value: float
    lower_bound: float
    distances: list[Solution]
    status: str
    history: NDArray[np.float64]
    feature_names: list[str] | None


def barycenter(
    measures: Sequence[MeasureLike],
    weights: ArrayLike | None = None,
    *,
    support: int | ArrayLike,
    fixed: bool = False,
    metric: Metric = "p",
    k: int = 1,
    rho: float = 2.0,
    lam: float = 1.0,
    prior: Prior = None,
    groups: int | None = None,
    grouping: Grouping = "contiguous",
    seed: int = 0,
    entropy: float = 0.0,
    solver: Solver = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    max_steps: int = 100,
    memory: int | str | None = None,
) -> Barycenter:
    r"""Compute a barycenter: the measure with the least mean distance to some others.

    .. math:: \min_\nu \sum_l w_l W(\mu_l, \nu)

    over the positions of its points, which have equal weights, or with ``fixed`` over the weights of given points.

    Free support is a descent over the points,
    :math:`z_j \leftarrow z_j - \theta P^+ \nabla_{z_j} / 2 b_j` with :math:`P = \sum_l w_l M_l` of the worst metrics; θ is
    halved until the mean distance decreases. For ``w2`` and θ = 1, which then always decreases it, points move to the means of
    their sources (Cuturi and Doucet 2014). Fixed support moves towards the best weights for the worst metrics at hand, which
    the iterative Bregman projections of Benamou et al. (2015) find.

    Parameters
    ----------
    measures : sequence of array-like or of (points, weights)
        Points, one per row, with uniform weights or their own. Columns of data frames are matched by name.
    weights : array-like of shape (L,), optional
        Weights of the measures in the mean, scaled to sum to one; equal by default.
    support : int or array-like of shape (n, d)
        The number of points, or the points to start from; with ``fixed``, the points themselves. A number starts from points
        drawn systematically from the measure with the largest weight (the first of several), moved so that their mean is the
        mean of the means.
    fixed : bool
        Keep the points and find their weights, from equal ones on. Needs ``entropy``.
    metric, k, rho, lam, prior, groups, grouping, entropy, solver, max_iter, memory
        As for :func:`robust_ot.distance`.
    seed : int
        Seed of the first points, and of ``grouping='random'``.
    tol : float
        Relative gap at which a distance is solved. The search has converged when the decrease that the next step promises is
        below ``tol`` times the mean transport cost.
    max_steps : int
        Maximum number of steps.

    Returns
    -------
    Barycenter
        Points and weights, with the certified distance to each measure.

    Warns
    -----
    ConvergenceWarning
        When the search or a distance has not converged.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> found = robust_ot.barycenter([square, 3 * square + [4, 0]], support=4, metric="w2")
    >>> found.points.round(6)
    array([[2., 0.],
           [2., 2.],
           [4., 0.],
           [4., 2.]])
    """
    points, own, labels = gathered(measures, None, least=1)
    names = first_names(points)
    points = matched(points, labels)
    nodes, masses, lower, distances, status, history = _core.barycenter(
        points,
        own,
        weights,
        support,
        (fixed, seed, max_steps),
        metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed),
        (entropy, solver, tol, max_iter, memory, "cpu"),
    )
    solutions = [Solution(found, metric, names) for found in distances]
    if status != "converged":
        gap = (float(history[-1]) - lower) / abs(float(history[-1]) or 1.0)
        warn_unconverged(f"barycenter ended as {status} after {len(history) - 1} steps", gap)
    return Barycenter(nodes, masses, float(history[-1]), lower, solutions, status, history, names)
