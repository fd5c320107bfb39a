"""The labels of a classifier: their names, their positions in y, and their vectors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from robust_ot._targets import Targets, as_targets
from robust_ot._vectors import label_vectors as read_label_vectors
from robust_ot._vectors import to_length_one


@dataclass(frozen=True)
class Labels:
    """The classes, or the columns of a 0/1 matrix."""

    classes: NDArray[Any]
    names: list[str]
    several: bool
    """Whether rows may have several labels."""
    whole: NDArray[Any] | None = None
    """All classes or columns of y, if some are left out because they have no vector."""

    @classmethod
    def learn(cls, y: Any, names: Any, classes: ArrayLike | None = None) -> Labels:
        """Find the labels in y, unless they are given."""
        check_classification_targets(y)
        kind = type_of_target(y)
        if kind == "multilabel-indicator":
            if names is None and classes is not None:
                names = np.asarray(classes)
            found = np.arange(y.shape[1]) if names is None else np.asarray(names)
            if len(found) != y.shape[1]:
                raise ValueError(f"classes must have one entry per column of y, {y.shape[1]}, but has {len(found)}")
            return cls(found, [str(name) for name in found], True)
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"y must be classes or a 0/1 matrix, but is of kind {kind}")
        found = np.unique(column_or_1d(y, warn=True) if classes is None else np.asarray(classes))
        if len(found) < 2:
            only = f"only one class, {found[0]}" if len(found) else "none"
            raise ValueError(f"y must have at least 2 classes, but has {only}")
        return cls(found, [str(name) for name in found], False)

    @classmethod
    def named(cls, names: list[str], kind: str, several: bool) -> Labels:
        """Restore the labels of a model; without a kind, as from the command, names become integers if all of them are."""
        if kind == "b":
            found = np.array([name == "True" for name in names])
        elif kind in ("i", "u", "f"):
            found = np.array([float(name) if kind == "f" else int(name) for name in names])
        elif kind == "" and all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names):
            found = np.array([int(name) for name in names])
        else:
            found = np.array(names)
        return cls(found, names, several)

    @property
    def kind(self) -> tuple[str, bool]:
        """What a model file stores about the labels besides their names."""
        return self.classes.dtype.kind, self.several

    def extended(self, classes: NDArray[Any]) -> Labels:
        """Append classes, which must be new and of the kind of the others."""
        if classes.ndim != 1 or classes.dtype.kind != self.classes.dtype.kind:
            rule = f"a list of kind {self.classes.dtype.kind!r} like classes_"
            raise ValueError(f"classes must be {rule}, but is of kind {classes.dtype.kind!r} and shape {classes.shape}")
        return Labels(np.concatenate([self.classes, classes]), self.names + [str(name) for name in classes], self.several)

    def check(self, classes: ArrayLike | None) -> None:
        """Refuse classes that differ from those of the first call."""
        known = self.classes if self.whole is None else self.whole
        if classes is not None and not self.several and not np.array_equal(np.unique(np.asarray(classes)), known):
            raise ValueError("classes must be those of the first call of partial_fit, but differ")

    def targets(self, y: Any) -> Targets:
        """Return the positions of the labels of every row."""
        if self.several:
            if self.whole is not None:
                y = y[:, np.flatnonzero(np.isin(self.whole, self.classes))]
            return as_targets(y, len(self.classes))
        y = column_or_1d(y)
        # Classes that were added later stand behind the others, in no order.
        order = np.argsort(self.classes, kind="stable")
        places = order[np.minimum(np.searchsorted(self.classes, y, sorter=order), len(order) - 1)]
        known = self.classes[places] == y
        unknown = ~known if self.whole is None else ~known & ~np.isin(y, self.whole)
        if unknown.any():
            raise ValueError(f"y must hold known classes, but one label is {y[unknown][0]}")
        if known.all():
            return as_targets(places)
        return np.concatenate([[0], np.cumsum(known)]).astype(np.int64), places[known].astype(np.int64)


def labeled(X: Any, targets: Targets) -> tuple[Any, Targets, int]:
    """Leave out rows without a label, which no loss here can learn from; also return how many there are."""
    starts, indices = targets
    has = np.diff(starts) > 0
    if has.all():
        return X, targets, 0
    kept = np.concatenate([[0], np.cumsum(np.diff(starts)[has])]).astype(np.int64)
    return X[has], (kept, indices), int((~has).sum())


def with_labels(X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Leave out rows without a label, with a warning."""
    rows = len(targets[0]) - 1
    X, targets, left_out = labeled(X, targets)
    if left_out == rows and rows > 0:
        raise ValueError("y must give at least one row a label, but no row has one")
    if left_out:
        warnings.warn(f"{left_out} of {rows} rows have no label and are left out", UserWarning, stacklevel=3)
    return X, targets


def unit_vectors(given: Any, names: list[str]) -> NDArray[np.float64] | None:
    """Return one unit vector per label, from an array, a mapping by name or a file; None if none are given."""
    vectors, missing = found_vectors(given, names)
    if missing:
        refuse_missing(missing)
    return vectors


def refuse_missing(missing: list[str]) -> None:
    """List labels without a vector."""
    shown = ", ".join(missing[:20])
    what = f"label_vectors must have a vector for every label, but {len(missing)} have none: {shown}"
    raise ValueError(f"{what} (missing='zero' or 'drop' to continue without)")


def found_vectors(given: Any, names: list[str]) -> tuple[NDArray[np.float64] | None, list[str]]:
    """Return one unit vector per label, zero for labels without one, and these labels."""
    if given is None:
        return None, []
    if isinstance(given, (str, os.PathLike)):
        vectors, _ = read_label_vectors(given, names)
    elif isinstance(given, Mapping):
        found = {str(name): vector for name, vector in given.items()}
        known = _matrix([found[name] for name in names if name in found])
        if not len(known):
            return np.zeros((len(names), 0)), names
        vectors = np.zeros((len(names), *known.shape[1:]))
        vectors[[name in found for name in names]] = known
    else:
        vectors = _matrix(given)
    if vectors.ndim != 2 or len(vectors) != len(names):
        raise ValueError(f"label_vectors must have one row per label, {len(names)}, but has shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise ValueError(f"label_vectors must be finite, but that of {names[row]} is not")
    # A zero vector counts as missing.
    missing = [name for name, present in zip(names, (vectors != 0).any(axis=1).tolist(), strict=True) if not present]
    return to_length_one(vectors), missing


def complete(given: Any, labels: Labels, missing: str) -> tuple[NDArray[np.float64] | None, Labels]:
    """Return the vectors of labels, and the labels that remain after those without a vector are dealt with."""
    if missing not in ("error", "zero", "drop"):
        raise ValueError(f"missing must be 'error', 'zero' or 'drop', but is {missing!r}")
    vectors, without = found_vectors(given, labels.names)
    if vectors is None or not without:
        return vectors, labels
    if missing == "error" or len(without) > len(labels.names) - 2:
        refuse_missing(without)
    done = "have the zero vector" if missing == "zero" else "are left out"
    message = f"{len(without)} of {len(labels.names)} labels have no vector and {done}: {', '.join(without[:20])}"
    warnings.warn(message, UserWarning, stacklevel=3)
    if missing == "zero":
        return vectors, labels
    kept = np.array([name not in without for name in labels.names])
    names = [name for name in labels.names if name not in without]
    return vectors[kept], Labels(labels.classes[kept], names, labels.several, labels.classes)


def _matrix(vectors: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(vectors, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"label_vectors must be numbers, equally many per label, but numpy says: {error}") from None
