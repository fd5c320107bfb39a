"""Conversion of true labels from every accepted form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Targets = tuple[NDArray[np.int64], NDArray[np.int64]]


def as_targets(y: Any, labels: int | None = None, name: str = "y") -> Targets:
    """Return starts and indices: row i has the labels ``indices[starts[i]:starts[i + 1]]``.

    ``y`` is one class index per row, a 0/1 matrix (dense or sparse), or a list of label indices per row.
    """
    if hasattr(y, "tocsr"):
        matrix = y.tocsr(copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        _check_width(matrix.shape, labels, name)
        _check_binary(matrix.data, name)
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    if y is None or not hasattr(y, "__len__"):
        raise ValueError(f"{name} must be the labels of every row, but is {y!r}")
    if not hasattr(y, "__array__") and len(y) > 0 and all(_is_row(row) for row in y) and not _is_binary_rows(y, labels):
        return _from_lists(y, name)
    array = np.asarray(y)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise ValueError(f"{name} must hold whole numbers, but has dtype {array.dtype} and shape {array.shape}")
    if array.ndim == 1:
        return np.arange(len(array) + 1, dtype=np.int64), array.astype(np.int64)
    if array.ndim != 2:
        raise ValueError(f"{name} must have 1 or 2 dimensions, but has shape {array.shape}")
    _check_width(array.shape, labels, name)
    _check_binary(array, name)
    starts = np.concatenate([[0], np.cumsum((array != 0).sum(axis=1))]).astype(np.int64)
    return starts, np.nonzero(array)[1].astype(np.int64)


def _is_row(row: Any) -> bool:
    return isinstance(row, (list, tuple, set, frozenset)) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _is_binary_rows(y: Any, labels: int | None) -> bool:
    """Whether the rows form a 0/1 matrix rather than lists of indices."""
    width = {len(row) for row in y}
    if len(width) != 1 or any(isinstance(row, (set, frozenset)) for row in y):
        return False
    # Without the number of labels the two forms may look alike; a matrix must then have more than one column.
    return width == {labels} if labels is not None else width != {1} and all(v in (0, 1) for row in y for v in row)


def _from_lists(y: Any, name: str) -> Targets:
    starts = np.cumsum([0, *(len(row) for row in y)]).astype(np.int64)
    indices = np.array([label for row in y for label in row])
    if len(indices) and (indices.dtype.kind not in "biu" or indices.ndim != 1):
        raise ValueError(f"{name} must hold whole numbers, but has dtype {indices.dtype} and shape {indices.shape}")
    return starts, indices.astype(np.int64)


def _check_width(shape: tuple[int, ...], labels: int | None, name: str) -> None:
    if labels is not None and shape[1] != labels:
        raise ValueError(f"{name} must have one column per label, {labels}, but has shape {shape}")


def _check_binary(values: NDArray[Any], name: str) -> None:
    odd = values[(values != 0) & (values != 1)]
    if odd.size:
        raise ValueError(f"{name} must be 0 or 1 where it is a matrix, but one entry is {odd.flat[0]}")
