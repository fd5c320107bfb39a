"""Word vectors from text files of fastText, word2vec and GloVe."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from robust_ot import _core

Path = str | os.PathLike[str]


def read_vec(path: Path, words: Iterable[str] | None = None) -> dict[str, NDArray[np.float64]]:
    r"""Read word vectors in text form, gzipped or not, with or without a line of counts.

    Parameters
    ----------
    path : path
        The file.
    words : iterable of str, optional
        The words to read; a few words of a large file are read much faster than all.

    Returns
    -------
    dict
        Word to vector, in the order of the file or of ``words``; missing words are left out.

    Examples
    --------
    >>> import tempfile, pathlib, robust_ot
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "words.vec"
    >>> _ = file.write_text("sea 1 0\nship 0 1\n")
    >>> robust_ot.read_vec(file, ["ship", "sky"])
    {'ship': array([0., 1.])}
    """
    found: dict[str, NDArray[np.float64]] = {}
    for word, vector in _core.read_vec(os.fspath(path), None if words is None else list(words)):
        # The first vector of a repeated word counts.
        found.setdefault(word, vector)
    return found


def label_vectors(path: Path, names: Iterable[str]) -> tuple[NDArray[np.float64], list[str]]:
    r"""Read one vector per label name, looked up as in ``rot train``.

    A name is looked up as it is, with ``_`` for spaces, in lower case, without a prefix that all names share, and finally
    as the average of its words.

    Parameters
    ----------
    path : path
        Word vectors in text form, or ``.npy`` with one row per label.
    names : iterable of str
        The labels.

    Returns
    -------
    vectors : ndarray of shape (L, d)
        One row per label, zero for labels without a vector.
    missing : list of str
        The labels without a vector.

    Examples
    --------
    >>> import tempfile, pathlib, robust_ot
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "words.vec"
    >>> _ = file.write_text("sea 1 0\nship 0 1\n")
    >>> robust_ot.label_vectors(file, ["Sea", "sea ship", "sky"])
    (array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 0. ]]), ['sky'])
    """
    names = [str(name) for name in names]
    vectors, missing = _core.label_vectors(os.fspath(path), names)
    return vectors, [names[label] for label in missing]


def to_length_one(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale every row to length one; rows of zeros stay zero."""
    # The largest number goes first, so that no square leaves the range.
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    vectors = vectors / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))
