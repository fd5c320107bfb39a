"""Columns of data frames, matched by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from robust_ot import _core


def column_names(table: Any) -> list[str] | None:
    """Return the column names of a data frame; None for arrays, and for frames whose columns are numbered."""
    columns = getattr(table, "columns", None)
    if columns is None or callable(columns):
        return None
    names = list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def row_names(table: Any) -> list[str] | None:
    """Return the row names of a data frame, numbers as "row 7"; None for arrays, and for rows that are numbered from 0."""
    index = getattr(table, "index", None)
    if index is None or callable(index) or list(index) == list(range(len(index))):
        return None
    return [f"row {name}" if isinstance(name, Integral) else str(name) for name in index]


def matched(tables: Sequence[Any], labels: Sequence[str]) -> list[Any]:
    """Return the tables with their columns in the order of the first data frame; warn where that changes an order."""
    names = [column_names(table) for table in tables]
    if sum(found is not None for found in names) < 2:
        return list(tables)
    orders = _core.match_columns(list(labels), names)
    changed = [label for label, order in zip(labels, orders, strict=True) if order is not None]
    if changed:
        which = changed[0] if len(changed) == 1 else f"{changed[0]} and {len(changed) - 1} more"
        message = f"columns are matched by name; their order differs in {which}"
        warnings.warn(message, UserWarning, stacklevel=3)
    return [table if order is None else np.asarray(table)[:, order] for table, order in zip(tables, orders, strict=True)]


def in_order(table: Any, known: Sequence[str] | None) -> Any:
    """Return a data frame with its columns in the order of the known names; warn where that changes their order."""
    names = column_names(table)
    if known is None or names is None or names == list(known):
        return table
    _core.match_columns(["the classifier", "X"], [list(known), names])
    warnings.warn("columns are matched by name; their order differs in X", UserWarning, stacklevel=4)
    return table[list(known)]


def warn_uneven(uneven: tuple[int, int, float] | None, names: Sequence[str] | None) -> None:
    """Warn about two features, given with the ratio of their spreads."""
    if uneven is None:
        return
    wide, narrow = (f"feature {f}" if names is None else names[f] for f in uneven[:2])
    how_much = f"{wide} varies {uneven[2]:.0f} times as much as {narrow} and dominates the distance"
    message = f"{how_much}; scale='std' puts features on one scale"
    warnings.warn(message, UserWarning, stacklevel=3)
