"""Whether two tables differ, how sure that is, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from robust_ot import _core
from robust_ot._columns import column_names
from robust_ot._comparison import Comparison

Missing = Literal["error", "drop-rows", "drop-columns"]
Scale = Literal["std", "robust", "none"]


def compare(
    before: Any,
    after: Any,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: Missing = "error",
    scale: Scale = "std",
    group_by: str | Mapping[str, str] | None = None,
    by: str | None = None,
    strata: str | None = None,
    blocks: str | None = None,
    paired: bool = False,
    metric: str | None = None,
    permutations: int = 999,
    alpha: float = 0.05,
    seed: int = 0,
    max_rows: int = 5000,
) -> Comparison:
    """Compare two tables by a permutation test that is exact for any distribution and any number of rows.

    If both tables come from one distribution, p ≤ alpha has a probability of at most alpha. Columns of numbers are compared
    alone, in pairs and together; the values of text columns are counted.

    Parameters
    ----------
    before, after : DataFrame (pandas or polars) or array-like of shape (m, d) and (n, d)
        The rows. Columns of frames are matched by name.
    columns, drop : sequence of str, optional
        Patterns of the columns to compare, and of those to leave out; ``*`` stands for any text, ``?`` for any character.
        Columns without names are called by their numbers, from 1.
    missing : {"error", "drop-rows", "drop-columns"}
        What happens to missing numbers.
    scale : {"std", "robust", "none"}
        How columns are scaled, by the rows of both tables.
    group_by : str or mapping, optional
        Judge groups of columns as well: by the name up to the last ``_``, ``-``, ``.`` or ``:`` (``"prefix"``), by what the
        first parentheses of a regular expression match (``"^(s[0-9]+)_"``), or by a mapping from column to group.
    by : str, optional
        Compare within each value of this column, and all values together.
    strata, blocks : str, optional
        Rows change sides only within the values of this column, or stay together if they have the same value.
    paired : bool
        Row i of one table and row i of the other belong together.
    metric : str, optional
        Use one robust distance as the statistic, such as ``"p"``, ``"w2"`` or ``"srw:k=2"``. By default, the p-value is that
        of the weighted harmonic mean of the p-values of five statistics.
    permutations : int
        Number of random arrangements of the rows; all there are, if they are no more.
    alpha : float
        The level below which a difference is called one.
    seed : int
        Seed of the arrangements.
    max_rows : int
        Rows of each table that are used; of more, a random choice (of pairs if ``paired``; with ``blocks``, more are refused).

    Returns
    -------
    Comparison
        The p-value, and what changed.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> rng = np.random.default_rng(0)
    >>> before, after = rng.normal(size=(100, 4)), rng.normal(size=(120, 4))
    >>> after[:, 2] += 1
    >>> found = robust_ot.compare(before, after)
    >>> found
    Comparison(p_value=0.001, differs=True, rows=(100, 120), columns=4)
    >>> found.features[0]["name"], found.features[0]["p_value"]
    ('3', 0.001)
    """
    named = [name for name, value in (("by", by), ("strata", strata), ("blocks", blocks)) if value is not None]
    designs = [*named, *(["paired"] if paired else [])]
    if len(designs) > 1:
        raise ValueError(f"at most one of by, strata, blocks and paired must be given, but {' and '.join(designs)} are")
    design = "pairs" if paired else named[0] if named else "free"
    choice = (
        _patterns("columns", columns),
        _patterns("drop", drop),
        missing,
        group_by if group_by is None or isinstance(group_by, str) else dict(group_by),
        design,
        by or strata or blocks,
    )
    test = (metric, permutations, alpha, scale, max_rows, seed)
    return Comparison(_core.compare(_table(before, "before"), _table(after, "after"), choice, test))


def _patterns(name: str, patterns: Sequence[str] | None) -> list[str]:
    """Return patterns as a list; one string would be a list of letters."""
    if isinstance(patterns, str):
        raise TypeError(f"{name} must be a list of patterns, but is the string {patterns!r}")
    return list(patterns or ())


def _table(table: Any, label: str) -> tuple[list[tuple[str, Any]], bool]:
    """Return the columns with their names, numbers as float64 and text as lists, and whether the names mean something."""
    names = column_names(table)
    if names is None:
        values = np.asarray(table)
        if values.ndim != 2:
            raise ValueError(f"{label} must have two dimensions, but has {values.ndim}")
        numbered = [(str(number + 1), _cells(values[:, number])) for number in range(values.shape[1])]
        return numbered, False
    return [(name, _cells(table[name])) for name in names], True


def _cells(column: Any) -> Any:
    """Return numbers as float64 with NaN where one is missing, anything else as text with None."""
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind in "biuf":
        return np.ascontiguousarray(values, dtype=np.float64)
    cells = [None if _is_missing(value) else value for value in values.tolist()]
    if values.dtype.kind in "OT" and all(cell is None or isinstance(cell, (bool, int, float)) for cell in cells):
        return np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
    return [None if cell is None else str(cell) for cell in cells]


def _is_missing(value: Any) -> bool:
    """Whether a value of a frame stands for nothing: None, NaN, NaT or pandas.NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
