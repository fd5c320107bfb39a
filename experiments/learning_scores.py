"""Macro AUC, macro mAP and precision at 1, for all labels at once. Equal to scikit-learn's functions, label by label."""

import numpy as np


def of_labels(scores: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """AUC and average precision of every label; NaN for labels without positives or without negatives among the rows."""
    rows = len(truth)
    order = np.argsort(-scores, axis=0, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=0)
    hits = np.take_along_axis(truth, order, axis=0).astype(float)
    place = np.arange(rows)[:, None]
    new = ranked[1:] != ranked[:-1]
    # Rows with equal scores share one threshold, from the first to the last of them.
    edge = np.ones((1, truth.shape[1]), bool)
    first = np.maximum.accumulate(np.where(np.vstack([edge, new]), place, 0), axis=0)
    last = np.minimum.accumulate(np.where(np.vstack([new, edge]), place, rows)[::-1], axis=0)[::-1]
    positives = hits.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        below = rows - 1 - 0.5 * (first + last)
        pairs = (hits * below).sum(axis=0) - 0.5 * positives * (positives - 1)
        auc = pairs / (positives * (rows - positives))
        precision = np.take_along_axis(np.cumsum(hits, axis=0), last, axis=0) / (last + 1)
        average = (hits * precision).sum(axis=0) / positives
    counted = (positives > 0) & (positives < rows)
    return np.where(counted, auc, np.nan), np.where(counted, average, np.nan)


def restricted(scores: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The scores of a part. If only rows are kept that have one of the labels, probabilities become those given these labels.

    A softmax shares its probability with the other labels, so that without this the AUC of a label, which compares rows,
    would follow what these have.
    """
    part = scores[np.ix_(rows, labels)]
    if rows.all() or scores.min() < 0 or not np.allclose(scores.sum(axis=1), 1, atol=1e-6):
        return part
    total = part.sum(axis=1, keepdims=True)
    return np.divide(part, total, out=np.full(part.shape, 1 / len(labels)), where=total > 0)


def scores_of(scores: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The means over the labels that have both positives and negatives; precision at 1 over the rows that have a label."""
    if not np.isfinite(scores).all():
        raise ValueError(f"scores must be finite, but {np.count_nonzero(~np.isfinite(scores))} are not")
    auc, average = of_labels(scores, truth)
    counted = np.isfinite(auc)
    top = truth[np.arange(len(truth)), scores.argmax(axis=1)]
    return {
        "auc": float(auc[counted].mean()) if counted.any() else 0.0,
        "map": float(average[counted].mean()) if counted.any() else 0.0,
        "p1": float(top[truth.any(axis=1)].mean()),
    }
