"""Ray tasks that solve the tiles of the full matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_ot import _core

#: Points and weights, or None for an invalid measure.
Checked = tuple[NDArray[np.float64], NDArray[np.float64]] | None
Measures = Mapping[int, Checked]


def solve_tile(
    first: list[Checked], second: list[Checked], rows: range, columns: range, asked: tuple[Any, ...], how: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Solve the pairs of one tile; in a tile on the diagonal, each pair once."""
    measures = {**dict(zip(rows, first, strict=True)), **dict(zip(columns, second, strict=True))}
    pairs = [(i, j) for i in rows for j in columns if i <= j and measures[i] is not None and measures[j] is not None]
    values = np.full((len(rows), len(columns)), np.nan)
    lower = values.copy()
    found = solve(measures, pairs, asked, how)
    failed = {pairs[at]: str(error) for at, error in found[4].items()}
    for (i, j), value, bound in zip(pairs, found[0], found[1], strict=True):
        places = [(i - rows[0], j - columns[0])] + ([(j - rows[0], i - columns[0])] if rows == columns else [])
        for place in places:
            values[place], lower[place] = value, bound
    solved = ~np.isnan(found[2])
    return values, lower, float(np.max(found[2][solved], initial=0.0)), int(np.sum(~found[3][solved])), failed


def solve(measures: Measures, pairs: list[tuple[int, int]], asked: tuple[Any, ...], how: tuple[Any, ...]) -> tuple[Any, ...]:
    """Solve some pairs, on one thread; a pair with an error has NaN, and the error is listed by its place."""
    _core.set_threads(1)
    return _core.pairwise(*_chosen(measures, pairs), asked, how)[:5]


def _chosen(measures: Measures, pairs: list[tuple[int, int]]) -> tuple[list[Any], list[Any], list[tuple[int, int]]]:
    """Return the measures of some pairs, and the pairs as indices into them."""
    used = sorted({i for pair in pairs for i in pair})
    place = {i: at for at, i in enumerate(used)}
    chosen = [measures[i] for i in used]
    points, weights = [m[0] for m in chosen if m is not None], [m[1] for m in chosen if m is not None]
    return points, weights, [(place[i], place[j]) for i, j in pairs]
