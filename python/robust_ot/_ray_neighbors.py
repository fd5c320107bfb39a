"""Ray tasks that find the nearest neighbors of some measures without most of the distances."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray

from robust_ot import _core
from robust_ot._ray_tasks import Checked, Measures, solve

#: Number of measures per object in the object store.
PART = 64
#: Total bytes of all measures up to which a task keeps them all, laid out once.
_WHOLE = 1 << 28
#: A task that cannot keep all measures holds ``_HELD`` objects of the store at a time.
#: It requests ``_AHEAD`` more in advance.
_HELD, _AHEAD = 4, 2
#: ``_BATCH`` candidates for one measure's neighbors are bounded together.
#: ``_FEW`` candidates are solved together once there are enough neighbors for a limit.
#: ``_LIKE`` candidates determine the metric of the bounds.
#: The first neighbors are chosen from ``_CHOICE`` times as many candidates as requested.
_BATCH, _FEW, _LIKE, _CHOICE = 256, 2, 8, 4


class Summary(NamedTuple):
    """A summary of all valid measures; invalid ones are left out."""

    #: Indices of the valid measures.
    sound: NDArray[np.int64]
    #: Their means, relative to the first point of the first of them.
    means: NDArray[np.float64]
    #: Entropies of their weights.
    entropies: NDArray[np.float64]
    #: The center around which points are laid out.
    center: NDArray[np.float64]

    @classmethod
    def of(cls, measures: list[Checked]) -> Summary:
        """Summarize the measures."""
        sound = [at for at, measure in enumerate(measures) if measure is not None]
        chosen = [measure for measure in measures if measure is not None]
        origin = chosen[0][0][0]
        means, entropies = np.empty((len(sound), len(origin))), np.empty(len(sound))
        for at, (points, given) in enumerate(chosen):
            weights = given / given.sum()
            means[at] = weights @ (points - origin)
            positive = weights[weights > 0]
            entropies[at] = -(positive * np.log(positive)).sum()
        return cls(np.array(sound), means, entropies, origin + means.mean(axis=0))


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


def find_neighbors(
    parts: list[Any], size: int, summary: Summary, rows: range, top_k: int, asked: tuple[Any, ...], how: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Find the nearest neighbors of the measures in ``rows``; ``size`` is the total number of bytes of all measures.

    Also return the numbers of distances and bounds computed, and the error of each measure with a distance that cannot be
    computed.
    """
    _core.set_threads(1)
    measures = _Parts(parts, keep=size <= _WHOLE)
    means, known = _Means(summary, asked, how), dict[tuple[int, int], float]()
    searches = {i: _Search(i, top_k, means, known, asked, how) for i in rows if i in means.place}
    if measures.keep:
        everything = _Laid(measures, summary, asked, how)
        for search in searches.values():
            likeliest = search.likeliest()
            search.begin(everything, likeliest[: _CHOICE * top_k])
            for start in range(0, len(likeliest), _BATCH):
                search.look(everything, likeliest[start : start + _BATCH])
    else:
        for search in searches.values():
            likeliest = search.likeliest()[: _CHOICE * top_k]
            some = {j: measures[j] for j in (search.i, *likeliest)}
            search.begin(_Laid(some, summary, asked, how), likeliest)
        for at in range(len(parts)):
            # Laid out once for all rows.
            part = _Laid(dict(enumerate(measures.part(at), at * PART)), summary, asked, how)
            for search in searches.values():
                search.look(part, list(part.place))
    indices = np.full((len(rows), top_k), -1, dtype=np.int64)
    distances = np.full((len(rows), top_k), np.nan)
    for at, i in enumerate(rows):
        if i in searches and searches[i].wrong is None:
            indices[at] = [j for _, j in searches[i].best]
            distances[at] = [value for value, _ in searches[i].best]
    wrong = {(i,): search.wrong for i, search in searches.items() if search.wrong is not None}
    return indices, distances, len(known), sum(search.bounded for search in searches.values()), wrong


class _Means:
    """Bounds from the difference of means: V of any plan is at least that of the means, since variances only add to it."""

    def __init__(self, summary: Summary, asked: tuple[Any, ...], how: tuple[Any, ...]) -> None:
        self.core, self.entropies, self.entropy = _core.Means(summary.means, asked), summary.entropies, float(how[0])
        self.place = {j: at for at, j in enumerate(summary.sound.tolist())}

    def bounds(self, i: int, others: list[int]) -> NDArray[np.float64]:
        source, targets = self.place[i], [self.place[j] for j in others]
        bounds = self.core.bounds(source, targets)
        if self.entropy > 0:
            # Σ γ ln γ is at least minus the entropies of the marginals.
            bounds -= self.entropy * (self.entropies[source] + self.entropies[targets])
        return bounds


class _Laid:
    """Some measures, laid out for computing bounds."""

    def __init__(self, measures: Measures, summary: Summary, asked: tuple[Any, ...], how: tuple[Any, ...]) -> None:
        self.measures = {j: measure for j, measure in measures.items() if measure is not None}
        self.place = {j: at for at, j in enumerate(self.measures)}
        points, weights = [m[0] for m in self.measures.values()], [m[1] for m in self.measures.values()]
        self.core = _core.Layout(points, weights, summary.center, asked, how) if points else None

    def screen(self, i: int, like: list[int]) -> _core.Screen:
        """Return a screen that bounds distances from a measure under the metric that the measures in ``like`` determine."""
        assert self.core is not None
        return self.core.screen(self.place[i], [self.place[j] for j in like])

    def bounds(self, screen: _core.Screen, some: list[int], limit: float) -> list[tuple[float, int]]:
        """Return lower bounds of some distances, the smallest first."""
        if self.core is None or not some:
            return []
        found = self.core.bounds(screen, [self.place[j] for j in some], limit)
        return sorted(zip(found.tolist(), some, strict=True))


class _Search:
    """The search for one measure's neighbors: first a few likely ones, then all that can be nearer than the last of them."""

    def __init__(
        self,
        i: int,
        top_k: int,
        means: _Means,
        known: dict[tuple[int, int], float],
        asked: tuple[Any, ...],
        how: tuple[Any, ...],
    ) -> None:
        self.i, self.top_k, self.means, self.known = i, top_k, means, known
        self.asked, self.how = asked, how
        self.best: list[tuple[float, int]] = []
        self.bounded = 0
        self.wrong: str | None = None

    def likeliest(self) -> list[int]:
        """Return all other measures, those with the smallest bounds by means first."""
        others = [j for j in self.means.place if j != self.i]
        order = np.argsort(self.means.bounds(self.i, others), kind="stable")
        return [others[at] for at in order]

    def begin(self, laid: _Laid, likeliest: list[int]) -> None:
        """Choose the metric of the bounds, and solve enough candidates for a first limit."""
        self.own = laid.measures[self.i]
        self.screen = laid.screen(self.i, likeliest[:_LIKE])
        self.bounded += len(likeliest)
        waiting = laid.bounds(self.screen, likeliest, np.inf)
        self.take(laid, [j for _, j in waiting[: self.top_k]])

    def look(self, laid: _Laid, some: list[int]) -> None:
        """Add the candidates that are near enough."""
        some = [j for j in some if j != self.i and self.wrong is None]
        near = [j for j, bound in zip(some, self.means.bounds(self.i, some), strict=True) if bound <= self.limit]
        # Pairs that this row or other rows of the task have already solved.
        self.take(laid, [j for j in near if self.pair(j) in self.known])
        near = [j for j in near if self.pair(j) not in self.known]
        self.bounded += len(near)
        waiting = laid.bounds(self.screen, near, self.limit)
        while waiting and waiting[0][0] <= self.limit and self.wrong is None:
            self.take(laid, [j for bound, j in waiting[:_FEW] if bound <= self.limit])
            waiting = waiting[_FEW:]

    @property
    def limit(self) -> float:
        """The largest distance that can still enter."""
        return self.best[-1][0] if len(self.best) == self.top_k else np.inf

    def pair(self, j: int) -> tuple[int, int]:
        return min(self.i, j), max(self.i, j)

    def take(self, laid: _Laid, some: list[int]) -> None:
        """Solve the pairs that are not known yet, and keep the nearest."""
        new = [pair for pair in map(self.pair, some) if pair not in self.known]
        if new:
            measures = {self.i: self.own, **{j: laid.measures[j] for j in some}}
            values, *_, errors = solve(measures, new, self.asked, self.how)
            for at, error in errors.items():
                i, j = new[at]
                self.wrong = f"to measures[{j if i == self.i else i}]: {error}"
                return
            found = values.tolist()
            self.known.update(zip(new, found, strict=True))
        self.best = sorted({*self.best, *((self.known[self.pair(j)], j) for j in some)})[: self.top_k]
