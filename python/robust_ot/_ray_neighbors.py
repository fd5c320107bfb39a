"""Ray tasks that find the nearest neighbors of some measures: the search of one machine, where the measures come in parts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray

from robust_ot import _core
from robust_ot._ray_tasks import Checked, Measures

#: Number of measures per object in the object store.
PART = 64
#: Total bytes of all measures up to which a task keeps them all, laid out once.
_WHOLE = 1 << 28
#: A task that cannot keep all measures holds ``_HELD`` objects of the store at a time.
#: It requests ``_AHEAD`` more in advance.
_HELD, _AHEAD = 4, 2
#: Such a task finds the first neighbors among ``_CHOICE`` times as many candidates as requested.
_CHOICE = 4


class Summary(NamedTuple):
    """A summary of all valid measures; invalid ones are left out."""

    #: Indices of the valid measures.
    sound: NDArray[np.int64]
    #: Their means, relative to the first point of the first of them.
    means: NDArray[np.float64]

    @classmethod
    def of(cls, measures: list[Checked]) -> Summary:
        """Summarize the measures."""
        sound = [at for at, measure in enumerate(measures) if measure is not None]
        chosen = [measure for measure in measures if measure is not None]
        origin = chosen[0][0][0]
        means = [given / given.sum() @ (points - origin) for points, given in chosen]
        return cls(np.array(sound), np.stack(means))


class _Parts(Mapping[int, Checked]):
    """Measures by index, fetched from the object store part by part."""

    def __init__(self, parts: list[Any], keep: bool) -> None:
        self.parts, self.keep = parts, keep
        self.here: OrderedDict[int, list[Checked]] = OrderedDict()

    def part(self, at: int) -> list[Checked]:
        if at not in self.here:
            ahead = self.parts[at + 1 : at + 1 + _AHEAD]
            if ahead and not self.keep:
                ray.wait(ahead, num_returns=len(ahead), timeout=0)
            self.here[at] = ray.get(self.parts[at])
            if not self.keep and len(self.here) > _HELD:
                self.here.popitem(last=False)
        return self.here[at]

    def __getitem__(self, index: int) -> Checked:
        part, at = divmod(index, PART)
        found = self.part(part)[at]
        # Copied, since a part stays in the store as long as any array of it is in use.
        return found if self.keep or found is None else (found[0].copy(), found[1].copy())

    def __iter__(self) -> Iterator[int]:
        return (at * PART + place for at in range(len(self.parts)) for place in range(len(self.part(at))))

    def __len__(self) -> int:
        return PART * (len(self.parts) - 1) + len(self.part(len(self.parts) - 1))


class Near(NamedTuple):
    """A neighbor; they are sorted by distance, and then by index."""

    value: float
    measure: int
    lower_bound: float
    relative_gap: float
    converged: bool


def find_neighbors(
    parts: list[Any], size: int, summary: Summary, rows: range, top_k: int, asked: tuple[Any, ...], how: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Find the nearest neighbors of the measures in ``rows``; ``size`` is the total number of bytes of all measures.

    Return their indices, values, lower bounds and relative gaps, whether each is certain and converged, the numbers of
    distances and bounds computed, and the error of each measure with a distance that cannot be computed.
    """
    _core.set_threads(1)
    measures = _Parts(parts, keep=size <= _WHOLE)
    sound = set(summary.sound.tolist())
    search = _Search([i for i in rows if i in sound], top_k, asked, how)
    if measures.keep:
        search.look({j: measures[j] for j in sorted(sound)}, search.rows)
    else:
        search.own = {i: measures[i] for i in search.rows}
        means = _core.Means(summary.means, asked)
        place = {j: at for at, j in enumerate(summary.sound.tolist())}
        for i in search.rows:
            others = [j for j in place if j != i]
            order = np.argsort(means.bounds(place[i], [place[j] for j in others]), kind="stable")
            search.look({others[at]: measures[others[at]] for at in order[: _CHOICE * top_k]}, [i])
        for at in range(len(parts)):
            some = dict(enumerate(measures.part(at), at * PART))
            search.look({j: measure for j, measure in some.items() if measure is not None}, search.rows)
    return search.result(rows)


class _Search:
    """The neighbors found so far of some measures, and the least lower bound of what was solved and left out."""

    def __init__(self, rows: list[int], top_k: int, asked: tuple[Any, ...], how: tuple[Any, ...]) -> None:
        self.rows, self.top_k, self.asked, self.how = rows, top_k, asked, how
        self.own: dict[int, Checked] = {}
        self.best: dict[int, list[Near]] = {i: [] for i in rows}
        self.left_out = dict.fromkeys(rows, np.inf)
        self.wrong: dict[tuple[int, ...], str] = {}
        self.solved = self.bounded = 0

    def look(self, documents: Measures, rows: list[int]) -> None:
        """Look for nearer neighbors of some rows among some measures."""
        rows = [i for i in rows if (i,) not in self.wrong]
        if not rows:
            return
        # In the order of the indices, as in the full matrix: from which side a pair is solved can change its last digits.
        chosen = dict(sorted({**documents, **{i: self.own[i] for i in rows if i not in documents}}.items()))
        place = {j: at for at, j in enumerate(chosen)}
        points, weights = zip(*(measure for measure in chosen.values() if measure is not None), strict=True)
        queries = [(place[i], self.limit(i)) for i in rows]
        among = [place[j] for j in documents]
        found = _core.nearest(points, weights, queries, among, self.top_k, self.asked, self.how)
        self.solved, self.bounded = self.solved + found.solved, self.bounded + found.bounded
        names = np.array([*chosen, -1])
        numbers = (found.values, names[found.indices], found.lower_bounds, found.relative_gaps, found.converged)
        for at, i in enumerate(rows):
            if at in found.errors:
                self.wrong[i,] = str(found.errors[at])
                continue
            self.left_out[i] = min(self.left_out[i], found.next_lower_bounds[at])
            rank = zip(*(array[at].tolist() for array in numbers), strict=True)
            both = sorted({*self.best[i], *(near for near in (Near(*one) for one in rank) if near.measure >= 0)})
            self.best[i] = both[: self.top_k]
            self.left_out[i] = min([self.left_out[i], *(near.lower_bound for near in both[self.top_k :])])

    def limit(self, i: int) -> float:
        """Return the largest distance that can still enter."""
        return self.best[i][-1].value if len(self.best[i]) == self.top_k else np.inf

    def result(self, rows: range) -> tuple[Any, ...]:
        """Return the arrays of all rows; those without neighbors have −1 and NaN."""
        shape = (len(rows), self.top_k)
        indices, certain, converged = np.full(shape, -1), np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        values, lower, gaps = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
        for at, i in enumerate(rows):
            if i in self.best and (i,) not in self.wrong:
                values[at], indices[at], lower[at], gaps[at], converged[at] = zip(*self.best[i], strict=True)
                certain[at] = values[at] <= self.left_out[i]
        return indices, values, lower, gaps, certain, converged, self.solved, self.bounded, self.wrong
