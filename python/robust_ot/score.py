"""Scores of predictions: by rank, by the best few labels, and by how close the mistakes are to the truth.

In every function, ``truth`` is one class index per row, a 0/1 matrix (dense or sparse), or a list of label indices per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robust_ot import _core
from robust_ot._targets import Targets, as_targets

__all__ = [
    "accuracy",
    "all_scores",
    "auc",
    "expected_cost",
    "mean_average_precision",
    "ndcg_at",
    "precision_at",
    "propensity_scored_precision_at",
    "top_cost",
]


def auc(truth: Any, scores: ArrayLike) -> float:
    """Compute the area under the ROC curve, averaged over the labels that have both positive and negative rows.

    Parameters
    ----------
    truth : array-like
        True labels.
    scores : array-like of shape (n, L)
        Larger means more likely.

    Returns
    -------
    float
        NaN if no label qualifies.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.auc([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.8, 0.7]])
    1.0
    """
    return _core.rank(scores, _targets(truth, scores))[0]


def mean_average_precision(truth: Any, scores: ArrayLike) -> float:
    """Compute average precision, averaged over the labels that have both positive and negative rows.

    Parameters
    ----------
    truth : array-like
        True labels.
    scores : array-like of shape (n, L)
        Larger means more likely.

    Returns
    -------
    float
        NaN if no label qualifies.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.mean_average_precision([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.8, 0.7]])
    1.0
    """
    return _core.rank(scores, _targets(truth, scores))[1]


def accuracy(truth: Any, scores: ArrayLike) -> float:
    """Compute the share of rows whose best label is true.

    Parameters
    ----------
    truth : array-like
        True labels.
    scores : array-like of shape (n, L)
        Larger means more likely.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.accuracy([0, 0], [[0.9, 0.1], [0.2, 0.8]])
    0.5
    """
    return precision_at(truth, scores, 1)


def precision_at(truth: Any, scores: ArrayLike, k: int) -> float:
    """Compute the share of the k best labels of a row that are true, averaged over rows.

    Parameters
    ----------
    truth : array-like
        True labels.
    scores : array-like of shape (n, L)
        Larger means more likely; among ties, the first labels rank best.
    k : int
        Number of labels that count.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.precision_at([[0, 2]], [[0.5, 0.2, 0.3]], 2)
    1.0
    """
    return _core.precision_at(scores, _targets(truth, scores), k)


def ndcg_at(truth: Any, scores: ArrayLike, k: int) -> float:
    """Compute normalized discounted cumulative gain of the k best labels, averaged over rows.

    A true label at place j gains 1 / log2(j + 1); the sum is divided by the largest that the row's true labels could gain.

    Parameters
    ----------
    truth : array-like
        True labels.
    scores : array-like of shape (n, L)
        Larger means more likely; among ties, the first labels rank best.
    k : int
        Number of labels that count.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from robust_ot import score
    >>> round(score.ndcg_at([[2]], [[0.5, 0.2, 0.3]], 2), 4)
    0.6309
    """
    return _core.ndcg_at(scores, _targets(truth, scores), k)


def propensity_scored_precision_at(truth: Any, scores: ArrayLike, k: int, label_rows: ArrayLike, rows: int) -> float:
    """Compute precision at k with true labels weighted by how rarely they are recorded, over the best that is possible.

    A label that n of N training rows have is recorded with probability p = 1 / (1 + C (n + 1.5)^-0.55), with
    C = (ln N - 1) 2.5^0.55, and counts 1 / p (Jain, Prabhu & Varma 2016).

    Parameters
    ----------
    truth : array-like
        True labels.
    scores : array-like of shape (n, L)
        Larger means more likely; among ties, the first labels rank best.
    k : int
        Number of labels that count.
    label_rows : array-like of shape (L,)
        Number of training rows with each label.
    rows : int
        Number of training rows.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.propensity_scored_precision_at([[0, 1]], [[0.9, 0.5, 0.1]], 2, [5, 50, 500], 1000)
    1.0
    """
    counts = np.asarray(label_rows)
    if counts.dtype.kind not in "iu" or counts.ndim != 1:
        found = f"dtype {counts.dtype} and shape {counts.shape}"
        raise ValueError(f"label_rows must be whole numbers, one per label, but has {found}")
    return _core.propensity_scored_precision_at(scores, _targets(truth, scores), k, counts.tolist(), rows)


def expected_cost(truth: Any, probabilities: ArrayLike, label_vectors: ArrayLike) -> float:
    """Compute the cost of the whole prediction: squared distances to the nearest true label, weighted by probability.

    Probabilities are scaled to sum to one in every row, which those of a sigmoid do not.

    Parameters
    ----------
    truth : array-like
        True labels.
    probabilities : array-like of shape (n, L)
        Predictions.
    label_vectors : array-like of shape (L, d)
        One vector per label.

    Returns
    -------
    float
        The mean over rows.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.expected_cost([0], [[0.5, 0.25, 0.25]], [[0.0], [1.0], [3.0]])
    2.5
    """
    return _core.top_cost(probabilities, _targets(truth, probabilities, "probabilities"), label_vectors)


def top_cost(truth: Any, scores: ArrayLike, label_vectors: ArrayLike, k: int = 1) -> float:
    """Compute 1 − the largest cosine to a true label, averaged over the k best labels of every row.

    Parameters
    ----------
    truth : array-like
        True labels.
    scores : array-like of shape (n, L)
        Larger means more likely.
    label_vectors : array-like of shape (L, d)
        One vector per label.
    k : int
        Number of labels that count.

    Returns
    -------
    float
        The mean over rows.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.top_cost([0], [[0.1, 0.9]], [[1.0, 0.0], [0.0, 2.0]])
    1.0
    """
    if k is None:
        raise ValueError("k must be a whole number of at least 1, but is None")
    return _core.top_cost(scores, _targets(truth, scores), label_vectors, k)


def all_scores(truth: Any, probabilities: ArrayLike, label_vectors: ArrayLike | None = None) -> dict[str, float | None]:
    """Compute the scores of ``rot evaluate`` that need no model.

    Parameters
    ----------
    truth : array-like
        True labels.
    probabilities : array-like of shape (n, L)
        Predictions.
    label_vectors : array-like of shape (L, d), optional
        One vector per label, for the semantic cost.

    Returns
    -------
    dict
        ``auc``, ``map``, ``accuracy``, ``precision_at_3``, ``precision_at_5``, ``ndcg_at_3``, ``ndcg_at_5``,
        ``semantic_cost``, ``expected_cost``, ``top_1_cost``, ``top_5_cost``; None for a score that does not apply.

    Examples
    --------
    >>> from robust_ot import score
    >>> score.all_scores([0, 1], [[0.9, 0.1], [0.2, 0.8]])["auc"]
    1.0
    """
    return _core.scores(probabilities, _targets(truth, probabilities, "probabilities"), label_vectors)


def _targets(truth: Any, scores: Any, name: str = "scores") -> Targets:
    shape = np.shape(scores)
    if len(shape) != 2:
        raise ValueError(f"{name} must have 2 dimensions, but has shape {shape}")
    return as_targets(truth, shape[1], "truth")
