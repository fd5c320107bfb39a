"""The robust loss between predictions and true labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_ot import _core
from robust_ot._metric import Grouping, Metric, Prior, metric_arguments
from robust_ot._targets import as_targets

#: Maximum deviation of a prediction's sum from one; it allows for rounding in single precision.
_SUM = 1e-3


def loss_gradient(
    predictions: ArrayLike,
    targets: Any,
    label_vectors: ArrayLike,
    *,
    metric: Metric = "p",
    k: int = 1,
    rho: float = 2.0,
    lam: float = 1.0,
    prior: Prior = None,
    groups: int | None = None,
    grouping: Grouping = "contiguous",
    seed: int = 0,
    entropy: float = 0.02,
    oracle_entropy: float | None = None,
    fw_iterations: int | None = None,
    sinkhorn_iterations: int | None = None,
    tolerance: float | None = None,
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    r"""Compute the robust distance from each prediction to its true labels, and its gradient.

    A prediction h is compared with the uniform distribution over its true labels, with the label vectors as points.

    Parameters
    ----------
    predictions : array-like of shape (n, L)
        Positive probabilities, one row per sample; single-precision input is computed in single precision.
    targets : array-like
        One class index per row, a 0/1 matrix of shape (n, L), dense or sparse, or a list of label indices per row.
    label_vectors : array-like of shape (L, d)
        One vector per label, used as given: the points of the measures.
    metric, k, rho, lam, prior, groups, grouping, seed
        As for :func:`distance`.
    entropy : float
        Weight of the entropy of the plan.
    oracle_entropy : float, optional
        Regularization of the inner linear problems, if different from ``entropy``; only with one Frank-Wolfe iteration.
    fw_iterations, sinkhorn_iterations : int, optional
        Maximum number of iterations; rows with one label need none. By default 100 and 1000, or 1 and 10 with a tolerance
        of 0.
    tolerance : float, optional
        Gap, relative to the cost of the plan, at which W is found. With 0, all iterations are taken, whatever they reach: the
        paper has 1 and 10, which may leave the loss far from W for rows with several labels. By default 1e-3, or 0 with an
        ``oracle_entropy``.

    Returns
    -------
    losses : ndarray of shape (n,)
        W of every row.
    gradients : ndarray of shape (n, L)
        The gradient of W along the simplex; every row sums to zero.

    Examples
    --------
    >>> import robust_ot
    >>> vectors = [[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]]  # cat, dog, truck
    >>> losses, gradients = robust_ot.loss_gradient([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], [0, 0], vectors)
    >>> bool(losses[0] < losses[1])  # taking a cat for a dog costs less than for a truck
    True
    """
    h = np.asarray(predictions)
    loss = _core.RobustLoss(
        label_vectors,
        metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed),
        (entropy, oracle_entropy, fw_iterations, sinkhorn_iterations, tolerance),
        h.dtype != np.float32,
    )
    if h.dtype.kind not in "biuf":
        raise ValueError(f"predictions must be an array of real numbers, but has dtype {h.dtype} and shape {h.shape}")
    if h.size and not (h > 0).all():
        raise ValueError(f"predictions must be positive, but one is {h[~(h > 0)].flat[0]}")
    if h.ndim == 2 and h.size and not (np.abs(h.sum(axis=1) - 1) < _SUM).all():
        row = int(np.abs(h.sum(axis=1) - 1).argmax())
        raise ValueError(f"predictions must sum to 1 in every row, but row {row + 1} sums to {h[row].sum()}")
    return loss.loss_gradient(np.log(h), as_targets(targets, loss.labels, "targets"))
