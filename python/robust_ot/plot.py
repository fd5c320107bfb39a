"""Plots of metrics, plans, losses and learning curves; needs matplotlib.

Every function draws into ``ax``, or into new axes, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_ot._distances import Distances
from robust_ot._loss import loss_gradient
from robust_ot._solution import Solution

__all__ = ["distance_heatmap", "learning_curves", "metric_heatmap", "plan", "simplex_contours"]


def metric_heatmap(metric: Solution | ArrayLike, names: Sequence[str] | None = None, ax: Any = None) -> Any:
    """Draw a metric as a heatmap: features with weight, and pairs that count together or against each other.

    Parameters
    ----------
    metric : Solution or array-like of shape (r, r)
        A distance, or its metric.
    names : sequence of str, optional
        Names of the features or groups; by default, those of the data frames behind a distance.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        The axes drawn into.
    """
    if names is None and isinstance(metric, Solution) and metric.feature_names is not None:
        names = metric.group_names
    matrix = metric.metric if isinstance(metric, Solution) else np.asarray(metric, dtype=np.float64)
    ax = _axes(ax)
    largest = float(np.abs(matrix).max()) or 1.0
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest)
    if names is not None:
        ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
        ax.set_yticks(range(len(names)), names)
    else:
        for axis in (ax.xaxis, ax.yaxis):
            axis.get_major_locator().set_params(integer=True)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.set_title("worst metric")
    return ax


def distance_heatmap(distances: Distances | ArrayLike, names: Sequence[str] | None = None, ax: Any = None) -> Any:
    """Draw the distances among some measures, or from some to others, as a heatmap.

    Parameters
    ----------
    distances : Distances or array-like of shape (n, m)
        The result of :func:`robust_ot.pairwise`, of which the excess is drawn, or a matrix.
    names : sequence of str, optional
        Names of the columns and, where they are the same measures, of the rows; by default those of the measures.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        The axes drawn into.
    """
    matrix = distances.excess if isinstance(distances, Distances) else np.asarray(distances, dtype=np.float64)
    rows = columns = names
    if names is None and isinstance(distances, Distances):
        rows, columns = distances.row_names, distances.column_names
    ax = _axes(ax)
    image = ax.imshow(matrix, cmap="viridis_r", vmin=min(0.0, float(matrix.min())))
    if columns is not None and len(columns) == matrix.shape[1]:
        ax.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    if rows is not None and len(rows) == matrix.shape[0]:
        ax.set_yticks(range(len(rows)), rows)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.set_title("distance")
    return ax


def plan(solution: Solution, X: ArrayLike, Y: ArrayLike, ax: Any = None, largest: int = 500) -> Any:
    """Draw the plan as lines between points, in the two directions to which the worst metric gives the most weight.

    Parameters
    ----------
    solution : Solution
        The distance between X and Y.
    X, Y : array-like of shape (m, d) and (n, d)
        The points.
    ax : matplotlib Axes, optional
        Where to draw.
    largest : int
        Maximum number of flows to draw, the heaviest first.

    Returns
    -------
    Axes
        The axes drawn into.
    """
    from matplotlib.collections import LineCollection

    source, target = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    names = ("first feature", "second feature")
    if source.shape[1] != 2:
        directions = _directions(solution, source.shape[1])
        source, target = source @ directions, target @ directions
        # The sign of a direction is arbitrary: the target is to the right and above.
        signs = np.where(target.mean(axis=0) < source.mean(axis=0), -1.0, 1.0)
        source, target = signs * source, signs * target
        names = ("heaviest direction of the metric", "second direction")
    ax = _axes(ax)
    rows, columns, masses = solution._core.sparse()
    order = np.argsort(-masses)[:largest]
    lines = np.stack([source[rows[order]], target[columns[order]]], axis=1)
    weight = masses[order] / masses.max()
    ax.add_collection(LineCollection(list(lines), colors="0.5", linewidths=0.3 + 1.2 * weight, alpha=0.5, zorder=1))
    ax.scatter(*source.T, s=14, label="source", zorder=2)
    ax.scatter(*target.T, s=14, marker="s", label="target", zorder=2)
    ax.set(xlabel=names[0], ylabel=names[1], title=f"plan, distance {solution.value:.4g}")
    ax.legend()
    return ax


def simplex_contours(
    label_vectors: ArrayLike,
    truth: int = 0,
    names: Sequence[str] | None = None,
    ax: Any = None,
    resolution: int = 80,
    **loss: Any,
) -> Any:
    """Draw the loss of every prediction over three labels, scaled to a maximum of one.

    Parameters
    ----------
    label_vectors : array-like of shape (3, d)
        One vector per label.
    truth : int
        The true label.
    names : sequence of str, optional
        Names of the three labels.
    ax : matplotlib Axes, optional
        Where to draw.
    resolution : int
        Number of predictions along a side.
    **loss
        As for :func:`robust_ot.loss_gradient`.

    Returns
    -------
    Axes
        The axes drawn into.
    """
    ticks = np.arange(resolution + 1) / resolution
    grid = np.array([(p, q, 1 - p - q) for p in ticks for q in ticks if p + q <= 1 + 1e-9])
    inside = np.clip(grid, 1e-9, None)
    inside /= inside.sum(axis=1, keepdims=True)
    losses, _ = loss_gradient(inside, np.full(len(inside), truth), label_vectors, **loss)
    losses = (losses - losses.min()) / max(float(np.ptp(losses)), 1e-300)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
    places = inside @ corners
    ax = _axes(ax)
    image = ax.tricontourf(*places.T, losses, levels=12, cmap="viridis")
    ax.tricontour(*places.T, losses, levels=12, colors="white", linewidths=0.4)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    shifts = [(0, -12), (0, -12), (0, 6)]
    for label, (corner, shift) in enumerate(zip(corners, shifts, strict=True)):
        name = str(label) if names is None else names[label]
        ax.annotate(
            name,
            corner,
            xytext=shift,
            textcoords="offset points",
            ha="center",
            fontweight="bold" if label == truth else None,
        )
    ax.set_aspect("equal")
    ax.axis("off")
    return ax


def learning_curves(history: Any, ax: Any = None) -> Any:
    """Draw loss and validation AUC by epoch.

    Parameters
    ----------
    history : RobustOTClassifier or list of dict
        A fitted classifier, or its ``history_``.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        The axes drawn into; the AUC has its own axes on the right.
    """
    epochs = getattr(history, "history_", history)
    ax = _axes(ax)
    x = [epoch["epoch"] for epoch in epochs]
    lines = ax.plot(x, [epoch["loss"] for epoch in epochs], color="C0", label="training loss")
    ax.set(xlabel="epoch", ylabel="loss")
    if epochs and "validation_auc" in epochs[0]:
        right = ax.twinx()
        lines += right.plot(x, [epoch["validation_auc"] for epoch in epochs], color="C1", label="validation AUC")
        right.set_ylabel("AUC")
    ax.legend(handles=lines, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return ax


def _directions(solution: Solution, features: int) -> NDArray[np.float64]:
    """Return the two directions in feature space with the largest share of ⟨V, M⟩, for groups and single features alike."""
    metric, groups = solution.metric, solution.groups
    slots = np.zeros(features, dtype=np.intp)
    for group in range(len(metric)):
        members = np.flatnonzero(groups == group)
        slots[members] = np.arange(len(members))
    # M = B ⊗ I: features of two groups interact if they have the same position in their groups.
    whole = metric[np.ix_(groups, groups)] * (slots[:, None] == slots[None, :])
    values, vectors = np.linalg.eigh(whole)
    found: NDArray[np.float64] = vectors[:, np.argsort(-np.abs(values))[:2]]
    return found if found.shape[1] == 2 else np.pad(found, ((0, 0), (0, 1)))


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"robust_ot.plot needs matplotlib: pip install robust-ot[plot] ({error})") from error
    return plt.subplots(layout="constrained")[1]
