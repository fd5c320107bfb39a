"""What Ray's workers do: tiles of the matrix, and neighbours of some measures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from robust_ot import _core

#: Points and weights; None instead of a measure that is none.
Checked = tuple[NDArray[np.float64], NDArray[np.float64]] | None
Measures = Mapping[int, Checked]
#: Means, and entropies of weights, NaN for a measure that is none.
_Summary = tuple[NDArray[np.float64], NDArray[np.float64]]
#: Measures that are one object in the store, where tasks need any of them.
PART = 64
#: Candidates for one measure's neighbours that are bounded together, that are solved together once there are enough, and that
#: choose the metric of the bounds; and how many times as many as are asked for the first are chosen from.
_BATCH = 256
_FEW = 2
_LIKE = 8
_CHOICE = 4
#: Bytes of all measures up to which a task lays them out once, not for every row of its own.
_WHOLE = 1 << 28


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
    parts: list[Any], size: int, summary: _Summary, rows: range, top_k: int, asked: tuple[Any, ...], how: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Find the nearest measures of some, of so many bytes in all. Return also how many distances and bounds that took."""
    _core.set_threads(1)
    indices = np.full((len(rows), top_k), -1, dtype=np.int64)
    distances = np.full((len(rows), top_k), np.nan)
    measures, known = _Parts(parts), dict[tuple[int, int], float]()
    screens = _screens(measures, range(len(summary[1])), asked, how) if size <= _WHOLE else None
    bounded = 0
    for at, i in enumerate(rows):
        if not np.isnan(summary[1][i]):
            search = _Search(measures, screens, i, top_k, known, asked, how)
            search.run(summary)
            bounded += search.bounded
            indices[at] = [j for _, j in search.best]
            distances[at] = [value for value, _ in search.best]
    return indices, distances, len(known), bounded


class _Search:
    """The nearest of one measure: the likeliest first, until no other can be nearer."""

    def __init__(
        self,
        measures: Measures,
        screens: tuple[_core.Screens, dict[int, int]] | None,
        i: int,
        top_k: int,
        known: dict[tuple[int, int], float],
        asked: tuple[Any, ...],
        how: tuple[Any, ...],
    ) -> None:
        self.measures, self.i, self.top_k, self.known = measures, i, top_k, known
        self.screens, self.asked, self.how = screens, asked, how
        self.best: list[tuple[float, int]] = []
        self.bounded = 0

    def run(self, summary: _Summary) -> None:
        sound = np.flatnonzero(~np.isnan(summary[1]))
        others = sound[sound != self.i]
        bounds = _mean_bounds(summary, self.i, others, self.asked, self.how)
        order = np.argsort(bounds, kind="stable")
        others, bounds = others[order], bounds[order]
        like = others[:_LIKE].tolist()
        for start in range(0, len(others), _BATCH):
            batch = slice(start, start + _BATCH)
            some = others[batch][bounds[batch] <= self.limit].tolist()
            if not some:
                break
            # What other rows of this task have solved already.
            self.take([j for j in some if self.pair(j) in self.known])
            some = [j for j in some if self.pair(j) not in self.known]
            missing = self.top_k - len(self.best)
            if missing > 0:
                # Of the likeliest, those that look nearest are solved for a first limit.
                waiting = self.screen(like, some[: _CHOICE * self.top_k])
                self.take([j for _, j in waiting[:missing]])
                some = [j for j in some if self.pair(j) not in self.known]
            waiting = self.screen(like, some)
            while waiting and waiting[0][0] <= self.limit:
                self.take([j for bound, j in waiting[:_FEW] if bound <= self.limit])
                waiting = waiting[_FEW:]

    @property
    def limit(self) -> float:
        """What a distance must not be above to enter."""
        return self.best[-1][0] if len(self.best) == self.top_k else np.inf

    def pair(self, j: int) -> tuple[int, int]:
        return min(self.i, j), max(self.i, j)

    def take(self, some: list[int]) -> None:
        """Let some measures enter, if they are near enough."""
        new = [pair for pair in map(self.pair, some) if pair not in self.known]
        if new:
            self.known.update(zip(new, _solve(self.measures, new, self.asked, self.how)[0].tolist(), strict=True))
        self.best = sorted(self.best + [(self.known[self.pair(j)], j) for j in some])[: self.top_k]

    def screen(self, like: list[int], some: list[int]) -> list[tuple[float, int]]:
        """Return lower bounds of some distances, the least first."""
        if not some:
            return []
        self.bounded += len(some)
        screens, place = self.screens or _screens(self.measures, (self.i, *like, *some), self.asked, self.how)
        found = screens.bounds(place[self.i], [place[j] for j in like], [place[j] for j in some], self.limit)
        return sorted(zip(found.tolist(), some, strict=True))


def _screens(
    measures: Measures, chosen: Iterable[int], asked: tuple[Any, ...], how: tuple[Any, ...]
) -> tuple[_core.Screens, dict[int, int]]:
    """Lay measures out for bounds; also say where each is."""
    sound = {j: measure for j in chosen if (measure := measures[j]) is not None}
    points, weights = [measure[0] for measure in sound.values()], [measure[1] for measure in sound.values()]
    return _core.Screens(points, weights, asked, how), {j: at for at, j in enumerate(sound)}


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
    summary: _Summary,
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
