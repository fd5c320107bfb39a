"""Choosing on held-out rows as `rot train` does: the same folds, grid and criterion, for any baseline.

A baseline is a family of models: a function of a fold that returns a function of λ, which returns the scores of the fold's
held-out rows. The winner is applied to one more fold, with all training rows and the test rows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from learning_scores import scores_of
from learning_sets import Task
from scipy import sparse

SCALINGS = ("as given", "length one", "standardized")
# Up to this number of products of a row, a feature and a label, every row is held out once, in this many folds; beyond, a
# fifth of the rows is held out once.
FOLDS = ((2e8, 5), (1e9, 3))
# The steps of the grid of λ, as powers of √10 below its unit.
GRID = (-6, 16)
START = 2

Scorer = Callable[[float], np.ndarray]


def dense(x) -> np.ndarray:
    return x.toarray() if sparse.issparse(x) else np.asarray(x)


def scaled(x, scaling: str, train):
    """Scales rows as the training rows say. Centering is left to the models, all of which have a bias."""
    if scaling == "length one":
        squares = x.multiply(x).sum(axis=1) if sparse.issparse(x) else np.square(x).sum(axis=1)
        length = np.sqrt(np.asarray(squares).ravel())
        factor = 1 / np.where(length > 0, length, 1)
        return sparse.diags_array(factor) @ x if sparse.issparse(x) else x * factor[:, None].astype(x.dtype)
    if scaling == "standardized":
        mean = np.asarray(train.mean(axis=0)).ravel()
        square = np.asarray((train.multiply(train) if sparse.issparse(train) else np.square(train)).mean(axis=0)).ravel()
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
        factor = 1 / np.where(deviation > 1e-6 * np.sqrt(square), deviation, np.inf)
        return x @ sparse.diags_array(factor) if sparse.issparse(x) else x * factor.astype(x.dtype)
    return x


class Fold:
    """Training rows x − x̄ and held-out rows in the basis Q of Σ (x − x̄)(x − x̄)ᵀ = Q Λ Qᵀ, and the training labels."""

    def __init__(self, train, y: np.ndarray, held, vectors: np.ndarray, final: bool) -> None:
        self.y, self.vectors, self.final = y, vectors, final
        self.seen = y.any(axis=0)
        count, features = train.shape
        mean = np.asarray(train.mean(axis=0), float).ravel()
        if count < features:
            centered = dense(train).astype(float) - mean
            values, left = np.linalg.eigh(centered @ centered.T)
            kept = values > 1e-10 * values[-1]
            basis = centered.T @ (left[:, kept] / np.sqrt(values[kept]))
        else:
            gram = dense(train.T @ train).astype(float) - count * np.outer(mean, mean)
            values, basis = np.linalg.eigh(gram)
            kept = values > 1e-10 * values[-1]
            basis = basis[:, kept]
        self.values = values[kept]
        self.scale = self.values.sum() / features
        self.rows = train @ basis - mean @ basis
        self.held = held @ basis - mean @ basis

    @property
    def curvature(self) -> float:
        """The mean over the labels that have rows of p(1 − p), the curvature of a logistic loss per row."""
        rate = self.y[:, self.seen].mean(axis=0)
        return max(float((rate * (1 - rate)).mean()), 1e-12)


def splits(y: np.ndarray, work: float, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows that are held out in turn; every label's rows are spread evenly, from the rarest label on."""
    counts = y.sum(axis=0)
    most = int(counts.max())
    if most < 2:
        return []
    order = rng.permutation(len(y))
    rank = np.empty(len(counts), int)
    rank[np.lexsort((np.arange(len(counts)), counts))] = np.arange(len(counts))
    rarest = np.where(y, rank, len(counts)).min(axis=1)
    order = order[np.argsort(rarest[order], kind="stable")]
    folds = next((min(folds, most) for limit, folds in FOLDS if work <= limit), None)
    if folds is None:
        return [np.sort(order[4::5])]
    return [np.sort(order[fold::folds]) for fold in range(folds)]


def climb(start: int, score: Callable[[int], float], until: float) -> tuple[int, float]:
    """Climbs from `start` to the best place of the grid, or to the best one found until a time."""
    start = min(max(start, GRID[0]), GRID[1])
    best = (start, score(start))
    for step in (1, -1):
        while GRID[0] <= best[0] + step <= GRID[1] and time.perf_counter() < until:
            found = score(best[0] + step)
            if found <= best[1]:
                break
            best = (best[0] + step, found)
        # Whoever has moved came from the other side.
        if best[0] != start:
            break
    return best


@dataclass(frozen=True)
class Family:
    """A baseline: `fit(fold, second)` returns its scorer, `second` is one of a few values of another parameter."""

    fit: Callable[[Fold, float | None], Scorer]
    seconds: tuple[float | None, ...] = (None,)
    logistic: bool = False

    def unit(self, fold: Fold) -> float:
        """The scale of λ: the mean curvature of the loss of all rows."""
        return fold.scale * (fold.curvature if self.logistic else 1)


def tuned(task: Task, family: Family, scout: Family, until: float) -> tuple[np.ndarray, dict]:
    """Chooses the scaling with the scout, then the other parameter and λ, and fits all rows.

    The criterion is AUC + mAP + precision at 1 of all held-out rows. Without held-out rows, rows have length one and λ
    is its unit. No candidate is started after the time `until`.
    """
    y = task.train_y
    work = float(y.shape[0]) * y.shape[1] * task.train_x.shape[1]
    held = splits(y, work, np.random.default_rng(task.seed))
    chosen = {"scaling": SCALINGS[1], "second": family.seconds[0], "place": 0}
    if held:
        best, folds = None, []
        for scaling in SCALINGS:
            found_folds = folds_of(task, scaling, held)
            start = START if best is None else best[1]
            place, score = search(found_folds, y, held, scout, scout.seconds[0], start, until)
            if best is None or score > best[0]:
                best, folds, chosen["scaling"] = (score, place), found_folds, scaling
        top, chosen["place"] = -np.inf, best[1]
        for second in family.seconds:
            if second is not family.seconds[0] and time.perf_counter() > until:
                break
            place, score = search(folds, y, held, family, second, chosen["place"], until)
            if score > top:
                top, chosen["place"], chosen["second"] = score, place, second
        unit = family.unit(folds[0])
    cut = time.perf_counter() > until
    x = scaled(task.train_x, chosen["scaling"], task.train_x)
    whole = Fold(x, y, scaled(task.test_x, chosen["scaling"], task.train_x), task.vectors, final=True)
    l2 = (unit if held else whole.scale) * 10 ** (-0.5 * chosen["place"])
    described = {"scaling": chosen["scaling"], "l2": l2, "second": chosen["second"], "folds": len(held), "search cut": cut}
    return family.fit(whole, chosen["second"])(l2), described


def folds_of(task: Task, scaling: str, held: list[np.ndarray]) -> list[Fold]:
    x = scaled(task.train_x, scaling, task.train_x)
    folds = []
    for rows in held:
        rest = np.setdiff1d(np.arange(len(task.train_y)), rows)
        folds.append(Fold(x[rest], task.train_y[rest], x[rows], task.vectors, final=False))
    return folds


def search(folds, y, held, family: Family, second: float | None, start: int, until: float) -> tuple[int, float]:
    """The best place of λ for a family, and its score."""
    scorers = [family.fit(fold, second) for fold in folds]
    unit, truth = family.unit(folds[0]), y[np.concatenate(held)]

    def score(place: int) -> float:
        l2 = unit * 10 ** (-0.5 * place)
        return sum(scores_of(np.concatenate([scorer(l2) for scorer in scorers]), truth).values())

    return climb(start, score, until)
