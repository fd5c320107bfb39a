"""What Ray's workers do: tiles of the matrix, and neighbours of some measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from robust_ot import _core

#: Points and weights; None instead of a measure that is none.
Checked = tuple[NDArray[np.float64], NDArray[np.float64]] | None
Measures = Mapping[int, Checked]
#: Measures that are one object in the store, where tasks need any of them.
PART = 64
#: Candidates for one measure's neighbours that are bounded together, and that are solved together once there are enough.
_BATCH = 256
_FEW = 2


def solve_tile(
    first: list[Checked], second: list[Checked], rows: range, columns: range, asked: tuple[Any, ...], how: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Solve the pairs of one tile; of a tile on the diagonal, each once."""
    measures = {**dict(zip(rows, first, strict=True)), **dict(zip(columns, second, strict=True))}
    pairs = [(i, j) for i in rows for j in columns if i <= j and measures[i] is not None and measures[j] is not None]
    values = np.full((len(rows), len(columns)), np.nan)
    lower = values.copy()
    wrong: dict[str, str] = {}
    try:
        found = _solve(measures, pairs, asked, how)
    except ValueError:
        # One pair spoils the batch; alone, each says what is wrong with it.
        found, pairs, wrong = _one_by_one(measures, pairs, asked, how)
    for (i, j), value, bound in zip(pairs, found[0], found[1], strict=True):
        places = [(i - rows[0], j - columns[0])] + ([(j - rows[0], i - columns[0])] if rows == columns else [])
        for place in places:
            values[place], lower[place] = value, bound
    return values, lower, float(np.max(found[2], initial=0.0)), int(np.sum(~found[3])), wrong


class _Parts(Mapping[int, Checked]):
    """Measures by index, fetched from the object store part by part."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts
        self.here: dict[int, list[Checked]] = {}

    def __getitem__(self, index: int) -> Checked:
        part, at = divmod(index, PART)
        if part not in self.here:
            self.here[part] = ray.get(self.parts[part])
        return self.here[part][at]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.parts) * PART


def find_neighbours(
    parts: list[Any],
    summary: tuple[NDArray[np.float64], NDArray[np.float64]],
    rows: range,
    top_k: int,
    asked: tuple[Any, ...],
    how: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Find the nearest measures of some, the likeliest first, until no other can be nearer."""
    _core.set_threads(1)
    indices = np.full((len(rows), top_k), -1, dtype=np.int64)
    distances = np.full((len(rows), top_k), np.nan)
    measures = _Parts(parts)
    sound = np.flatnonzero(~np.isnan(summary[1]))
    known: dict[tuple[int, int], float] = {}
    bounds: dict[tuple[int, int], float] = {}
    for at, i in enumerate(rows):
        if np.isnan(summary[1][i]):
            continue
        others = sound[sound != i]
        of_means = _mean_bounds(summary, i, others, asked, how)
        best: list[tuple[float, int]] = []
        order = np.argsort(of_means, kind="stable")
        for start in range(0, len(order), _BATCH):
            limit = _limit(best, top_k)
            some = [int(others[o]) for o in order[start : start + _BATCH] if of_means[o] <= limit]
            if not some:
                break
            # A dearer bound for those that are left, and the nearest by it first.
            new = [pair for pair in (_pair(i, j) for j in some) if pair not in bounds]
            bounds.update(zip(new, _first_bounds(measures, new, asked, how), strict=True))
            waiting = sorted((bounds[_pair(i, j)], j) for j in some)
            while waiting and waiting[0][0] <= _limit(best, top_k):
                # As many as are missing, then a few at a time.
                count = max(top_k - len(best), _FEW)
                chosen = [j for bound, j in waiting[:count] if bound <= _limit(best, top_k)]
                waiting = waiting[len(chosen) :]
                new = [pair for pair in (_pair(i, j) for j in chosen) if pair not in known]
                if new:
                    known.update(zip(new, _solve(measures, new, asked, how)[0].tolist(), strict=True))
                best = sorted(best + [(known[_pair(i, j)], j) for j in chosen])[:top_k]
        indices[at] = [j for _, j in best]
        distances[at] = [value for value, _ in best]
    return indices, distances, len(known), len(bounds)


def _pair(i: int, j: int) -> tuple[int, int]:
    return min(i, j), max(i, j)


def _limit(best: list[tuple[float, int]], top_k: int) -> float:
    """Return what a distance must be below to enter."""
    return best[top_k - 1][0] if len(best) >= top_k else np.inf


def _first_bounds(
    measures: Measures, pairs: list[tuple[int, int]], asked: tuple[Any, ...], how: tuple[Any, ...]
) -> list[float]:
    """Return the lower bounds that one iteration gives: plain transport under the worst metric of the independent plan."""
    if not pairs:
        return []
    entropy, solver, tol, _, memory, device = how
    return list(_solve(measures, pairs, asked, (entropy, solver, tol, 1, memory, device))[1])


def _solve(measures: Measures, pairs: list[tuple[int, int]], asked: tuple[Any, ...], how: tuple[Any, ...]) -> tuple[Any, ...]:
    _core.set_threads(1)
    return _core.pairwise(*_chosen(measures, pairs), asked, how)


def _chosen(measures: Measures, pairs: list[tuple[int, int]]) -> tuple[list[Any], list[Any], list[tuple[int, int]]]:
    """Return the measures of some pairs, and the pairs among those."""
    used = sorted({i for pair in pairs for i in pair})
    place = {i: at for at, i in enumerate(used)}
    chosen = [measures[i] for i in used]
    points, weights = [m[0] for m in chosen if m is not None], [m[1] for m in chosen if m is not None]
    return points, weights, [(place[i], place[j]) for i, j in pairs]


def _one_by_one(
    measures: Measures, pairs: list[tuple[int, int]], asked: tuple[Any, ...], how: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[tuple[int, int]], dict[str, str]]:
    kept, found, wrong = [], [], {}
    for i, j in pairs:
        try:
            found.append(_solve(measures, [(i, j)], asked, how))
            kept.append((i, j))
        except ValueError as error:
            wrong[f"{i}, {j}"] = str(error)
    columns = [np.concatenate([np.asarray(one[at]) for one in found]) if found else np.empty(0) for at in range(3)]
    converged = np.concatenate([one[3] for one in found]) if found else np.empty(0, dtype=bool)
    return (*columns, converged), kept, wrong


def _mean_bounds(
    summary: tuple[NDArray[np.float64], NDArray[np.float64]],
    i: int,
    others: NDArray[Any],
    asked: tuple[Any, ...],
    how: tuple[Any, ...],
) -> NDArray[np.float64]:
    """Return h of the difference of the means: V of any plan is at least that, since variances only add to it."""
    (means, entropies), entropy = summary, float(how[0])
    points = [means[i : i + 1], *(means[j : j + 1] for j in others)]
    pairs = [(0, at + 1) for at in range(len(others))]
    bounds = _core.pairwise(points, [None] * len(points), pairs, asked, (0.0, *how[1:]))[1]
    if entropy > 0:
        # Σ γ ln γ is at least minus the entropies of the marginals.
        bounds = bounds - entropy * (entropies[i] + entropies[others])
    return bounds
