"""Distances among very many measures, on a Ray cluster; needs ``pip install robust-ot[ray]``.

The results equal those of :func:`robust_ot.pairwise`, bit for bit.
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import ray
except ImportError as error:
    raise ImportError(f"robust_ot.distributed needs Ray: pip install robust-ot[ray] ({error})") from error

import robust_ot
from robust_ot import _core
from robust_ot._columns import matched
from robust_ot._distance import MeasureLike, Solver
from robust_ot._distances import Distances
from robust_ot._metric import Grouping, Metric, Prior, metric_arguments
from robust_ot._progress import Progress
from robust_ot._ray_cluster import connect
from robust_ot._ray_neighbors import PART, Summary, find_neighbors
from robust_ot._ray_tasks import Checked, solve_tile
from robust_ot._store import Store, fingerprint
from robust_ot._warning import warn_unconverged

if TYPE_CHECKING:
    from robust_ot._classifier import RobustOTClassifier

__all__ = ["AllDistances", "Neighbors", "fit", "nearest", "pairwise"]

#: Maximum number of retries per task; a killed worker or a lost node costs one.
_RETRIES = 20
#: Seconds between two counts of the available cores.
_COUNTED = 1.0
#: Default memory per pair in bytes: the same on every node, so that all nodes solve a pair in the same way.
_MEMORY = 1 << 28
#: By default, a tile has at least ``_SIDE`` measures along its side.
#: The matrix has at most ``_SIDES`` tiles per side, since one driver writes them all.
_SIDE, _SIDES = 64, 800


@dataclass(frozen=True)
class AllDistances(Distances):
    """All distances among some measures.

    Attributes
    ----------
    matrix, lower_bounds : ndarray of shape (n, n)
        As in :class:`robust_ot.Distances`; NaN where there is no distance. With ``out`` they are memory-mapped from disk.
    relative_gap : float
        The widest relative gap of any pair.
    unfinished : int
        Number of pairs that did not converge.
    offset : float
        As in :class:`robust_ot.Distances`.
    failed : dict
        What is wrong, by ``(i,)`` for a measure and ``(i, j)`` for a pair.
    """

    failed: dict[tuple[int, ...], str]


@dataclass(frozen=True, repr=False)
class Neighbors(robust_ot.Neighbors):
    """The nearest neighbors of every measure.

    Attributes
    ----------
    indices : ndarray of shape (n, k)
        The neighbors, the nearest first, without the measure itself; −1 for a measure that is invalid or has a distance that
        cannot be computed.
    distances, lower_bounds : ndarray of shape (n, k)
        Their distances and lower bounds of them.
    certain : ndarray of bool, shape (n, k)
        As in :class:`robust_ot.Neighbors`.
    relative_gap, unfinished, solved, bounds, pairs, offset
        As in :class:`robust_ot.Neighbors`.
    failed : dict
        What is wrong, by ``(i,)`` for a measure.
    """

    failed: dict[tuple[int, ...], str]


def pairwise(
    measures: Sequence[MeasureLike],
    *,
    metric: Metric = "p",
    k: int = 1,
    rho: float = 2.0,
    lam: float = 1.0,
    prior: Prior = None,
    groups: int | None = None,
    grouping: Grouping = "contiguous",
    seed: int = 0,
    entropy: float = 0.0,
    solver: Solver = "auto",
    tol: float = 1e-4,
    max_iter: int = 1000,
    memory: int | str | None = None,
    out: str | os.PathLike[str] | None = None,
    tile: int | None = None,
    ray_address: str | None = None,
    progress: bool = True,
) -> AllDistances:
    """Compute all robust distances among many measures on a Ray cluster.

    The matrix is cut into tiles, each a Ray task on one core. A tile whose worker or node dies is solved again elsewhere.

    Parameters
    ----------
    measures : sequence of array-like or of (points, weights)
        Points, one per row, with uniform weights or their own. An invalid measure is reported in ``failed``, and the rest is
        finished.
    metric, k, rho, lam, prior, groups, grouping, seed, entropy, solver, tol, max_iter
        As for :func:`robust_ot.distance`.
    memory : int or str, optional
        As for :func:`robust_ot.distance`; 256 MB by default, whatever memory a node has.
    out : path, optional
        A folder for the matrices (``distances.npy``, ``lower_bounds.npy``) and a manifest. A run that died, even with
        its driver, continues there with the missing tiles.
    tile : int, optional
        Number of measures along the side of a tile; by default 64, or more if that gave more than 800 tiles per side.
    ray_address : str, optional
        The cluster; by default one that is already running, or one on this machine.
    progress : bool
        Whether to report progress, rate and remaining time on standard error.

    Returns
    -------
    AllDistances
        The symmetric matrix with its lower bounds.

    Examples
    --------
    >>> from robust_ot import distributed  # doctest: +SKIP
    >>> distributed.pairwise(documents, groups=10, out="distances").matrix  # doctest: +SKIP
    """
    asked = metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed)
    how = (entropy, solver, tol, max_iter, _MEMORY if memory is None else memory, "cpu")
    checked, failed = _check(measures)
    n = len(checked)
    tile = max(_SIDE, -(-n // _SIDES)) if tile is None else tile
    if tile < 1:
        raise ValueError(f"tile must be at least 1, but is {tile}")
    shape = (n, n)
    arrays = {"distances": (shape, np.float64), "lower_bounds": (shape, np.float64)}
    store = Store(out, fingerprint("pairwise", _core.__version__, checked, asked, how, tile), arrays)
    failed = {**_recorded(store), **failed}
    worst, unfinished = store.notes.get("relative_gap", 0.0), store.notes.get("unfinished", 0)
    edges = range(0, n, tile)
    blocks = {f"{i},{j}": (range(i, min(i + tile, n)), range(j, min(j + tile, n))) for i in edges for j in edges if i <= j}
    told = Progress("pairwise", n * (n + 1) // 2, progress)
    told.start(sum(_pairs_in(*blocks[name]) for name in store.done))
    try:
        connect(ray_address)
        # Each measure is stored once, together with those it shares tiles with.
        parts = {i: ray.put(checked[i : i + tile]) for i in edges}
        todo = (
            (name, (solve_tile, parts[rows[0]], parts[columns[0]], rows, columns, asked, how))
            for name, (rows, columns) in blocks.items()
            if name not in store.done
        )
        for name, (values, lower, gap, open_pairs, errors) in _run(todo):
            rows, columns = blocks[name]
            for matrix, numbers in (("distances", values), ("lower_bounds", lower)):
                for at, row in enumerate(rows):
                    store.put(matrix, row, columns[0], numbers[at])
                if rows != columns:
                    for at, column in enumerate(columns):
                        store.put(matrix, column, rows[0], numbers[:, at])
            worst, unfinished = max(worst, gap), unfinished + open_pairs
            failed.update(errors)
            store.notes = {
                "failed": [[list(places), why] for places, why in failed.items()],
                "relative_gap": worst,
                "unfinished": unfinished,
            }
            store.commit(name)
            told.step(_pairs_in(rows, columns))
    finally:
        store.close()
        told.end()
    _warn_failed(failed)
    if unfinished:
        warn_unconverged(f"{unfinished} pairs did not converge; the widest relative gap is {worst:.1e}", worst)
    width = next((measure[0].shape[1] for measure in checked if measure is not None), 1)
    offset = _core.metric_offset(asked, width)
    return AllDistances(store.array("distances"), store.array("lower_bounds"), worst, unfinished, offset, failed)


def nearest(
    measures: Sequence[MeasureLike],
    top_k: int = 10,
    *,
    metric: Metric = "p",
    k: int = 1,
    rho: float = 2.0,
    lam: float = 1.0,
    prior: Prior = None,
    groups: int | None = None,
    grouping: Grouping = "contiguous",
    seed: int = 0,
    entropy: float = 0.0,
    solver: Solver = "auto",
    tol: float = 1e-4,
    max_iter: int = 1000,
    memory: int | str | None = None,
    out: str | os.PathLike[str] | None = None,
    block: int = 16,
    ray_address: str | None = None,
    progress: bool = True,
) -> Neighbors:
    """Find the nearest neighbors of every measure on a Ray cluster, without the full matrix.

    Two lower bounds exclude pairs that cannot enter: the distance of the means, and the value of potentials that a few cheap
    steps find under one metric. The result is the same as sorting the full matrix.

    Parameters
    ----------
    measures : sequence of array-like or of (points, weights)
        As for :func:`pairwise`.
    top_k : int
        Number of neighbors per measure.
    metric, k, rho, lam, prior, groups, grouping, seed, entropy, solver, tol, max_iter
        As for :func:`robust_ot.distance`.
    memory
        As for :func:`pairwise`.
    out : path, optional
        A folder for ``indices.npy``, ``distances.npy``, ``lower_bounds.npy``, ``certain.npy`` and a manifest; a run that died
        continues there.
    block : int
        Number of measures whose neighbors one task finds.
    ray_address, progress
        As for :func:`pairwise`.

    Returns
    -------
    Neighbors
        Indices and distances, and the number of solves they took.

    Examples
    --------
    >>> from robust_ot import distributed  # doctest: +SKIP
    >>> distributed.nearest(documents, 10, groups=10).indices  # doctest: +SKIP
    """
    asked = metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed)
    how = (entropy, solver, tol, max_iter, _MEMORY if memory is None else memory, "cpu")
    if block < 1:
        raise ValueError(f"block must be at least 1, but is {block}")
    checked, failed = _check(measures)
    n, sound = len(checked), sum(measure is not None for measure in checked)
    if sound < 2:
        raise ValueError(f"at least 2 measures must be valid, but {sound} of {n} are; the first error: {_first(failed)}")
    if not 1 <= top_k < sound:
        raise ValueError(f"top_k must be from 1 to one less than the {sound} measures, but is {top_k}")
    shape = (n, top_k)
    arrays: dict[str, tuple[tuple[int, int], Any]] = {
        "indices": (shape, np.int64),
        "distances": (shape, np.float64),
        "lower_bounds": (shape, np.float64),
        "certain": (shape, np.bool_),
    }
    store = Store(out, fingerprint("nearest with bounds", _core.__version__, checked, asked, how, top_k, block), arrays)
    counts = {"solved": 0, "bounds": 0, "unfinished": 0, "relative_gap": 0.0, **store.notes.get("counts", {})}
    failed = {**_recorded(store), **failed}
    blocks = {str(i): range(i, min(i + block, n)) for i in range(0, n, block)}
    told = Progress("nearest", n, progress)
    told.start(sum(len(blocks[name]) for name in store.done))
    try:
        connect(ray_address)
        parts = [ray.put(checked[i : i + PART]) for i in range(0, n, PART)]
        summary = ray.put(Summary.of(checked))
        size = sum(numbers.nbytes for measure in checked for numbers in measure or ())
        todo = (
            (name, (find_neighbors, parts, size, summary, rows, top_k, asked, how))
            for name, rows in blocks.items()
            if name not in store.done
        )
        for name, (indices, distances, lower, gaps, certain, converged, count, bounded, errors) in _run(todo):
            found = {"indices": indices, "distances": distances, "lower_bounds": lower, "certain": certain}
            for at, row in enumerate(blocks[name]):
                for which, numbers in found.items():
                    store.put(which, row, 0, numbers[at])
            counts["solved"] += count
            counts["bounds"] += bounded
            counts["unfinished"] += int((~converged[indices >= 0]).sum())
            counts["relative_gap"] = max(counts["relative_gap"], float(np.max(gaps[indices >= 0], initial=0.0)))
            failed.update(errors)
            store.notes = {"failed": [[list(places), why] for places, why in failed.items()], "counts": dict(counts)}
            store.commit(name)
            told.step(len(blocks[name]))
    finally:
        store.close()
        told.end()
    _warn_failed(failed)
    if counts["unfinished"]:
        widest = counts["relative_gap"]
        warn_unconverged(f"{counts['unfinished']} distances did not converge; the widest relative gap is {widest:.1e}", widest)
    pairs = sound * (sound - 1) // 2
    width = next(measure[0].shape[1] for measure in checked if measure is not None)
    return Neighbors(
        indices=store.array("indices"),
        distances=store.array("distances"),
        lower_bounds=store.array("lower_bounds"),
        certain=store.array("certain"),
        relative_gap=counts["relative_gap"],
        unfinished=int(counts["unfinished"]),
        solved=int(counts["solved"]),
        bounds=int(counts["bounds"]),
        pairs=pairs,
        offset=_core.metric_offset(asked, width),
        failed=failed,
    )


def fit(
    classifier: RobustOTClassifier,
    data: Any,
    label: str | Sequence[str],
    *,
    features: str | Sequence[str] | None = None,
    classes: ArrayLike | None = None,
    workers: int | None = None,
    threads: int = 1,
    shuffle: int = 10_000,
    out: str | os.PathLike[str] | None = None,
    ray_address: str | None = None,
    progress: bool = True,
) -> RobustOTClassifier:
    """Train a classifier on a Ray dataset that need not fit on one machine.

    Every worker has a share of the rows and a replica of the model. In each step it computes the gradient of its part of the
    batch; the sum, the same on every worker, gives the step that one process would take with the whole batch. Rows stay in
    the object store of the cluster, which spills to disk. When a worker or its node dies, the epoch restarts with the
    weights it began with. The same data, options and number of workers give the same model, bit for bit.

    Parameters
    ----------
    classifier : RobustOTClassifier
        The classifier to train; its ``batch`` is that of all workers together. ``standardize``,
        ``geometry='rows'``, ``target_geometry='rows'``, a ``target_metric`` other than ``'w2'`` and ``validation`` need all
        rows in one place and are refused.
    data : ray.data.Dataset
        The rows.
    label : str or sequence of str
        The column of classes, or of 0/1 vectors, or the columns of a 0/1 matrix.
    features : str or sequence of str, optional
        The columns of features, numbers or vectors of numbers; by default all other columns.
    classes : array-like, optional
        All classes, or the names of the labels of a 0/1 matrix; by default, classes are collected from the data.
    workers : int, optional
        Number of workers; by default one per ``threads`` cores of the cluster.
    threads : int
        Threads per worker.
    shuffle : int
        Number of rows that are shuffled together on a worker, anew in every epoch; 0 keeps their order.
    out : path, optional
        A folder for the model's state after every epoch; a run that died, even with its driver, continues there.
    ray_address, progress
        As for :func:`pairwise`.

    Returns
    -------
    RobustOTClassifier
        The fitted classifier; :meth:`~robust_ot.RobustOTClassifier.partial_fit` continues from there.

    Examples
    --------
    >>> import ray  # doctest: +SKIP
    >>> data = ray.data.read_parquet("rows")  # doctest: +SKIP
    >>> distributed.fit(RobustOTClassifier(batch=1000), data, "label", workers=8)  # doctest: +SKIP
    """
    from robust_ot import _ray_fit

    return _ray_fit.fit(
        classifier,
        data,
        label,
        features=features,
        classes=classes,
        workers=workers,
        threads=threads,
        shuffle=shuffle,
        out=out,
        ray_address=ray_address,
        progress=progress,
    )


def _check(measures: Sequence[MeasureLike]) -> tuple[list[Checked], dict[tuple[int, ...], str]]:
    """Return points and weights of every measure, and the errors of invalid ones."""
    checked: list[Checked] = []
    failed: dict[tuple[int, ...], str] = {}
    width: int | None = None
    given = [own if isinstance(own, tuple) and len(own) == 2 else (own, None) for own in measures]
    tables = matched([points for points, _ in given], [f"measures[{at}]" for at in range(len(given))])
    for at, (points, (_, weights)) in enumerate(zip(tables, given, strict=True)):
        try:
            count, dim = _core.check_measure(points, weights)
            width = dim if width is None else width
            if dim != width:
                raise ValueError(f"must have {width} features, as the first measure has, but has {dim}")
        except ValueError as error:
            failed[at,] = str(error)
            checked.append(None)
            continue
        whole = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
        checked.append((np.ascontiguousarray(points, dtype=np.float64), whole))
    if len(checked) < 2:
        raise ValueError(f"measures must be at least 2, but there {'is' if len(checked) == 1 else 'are'} {len(checked)}")
    return checked, failed


@functools.cache
def _remote(work: Callable[..., Any]) -> Any:
    """Turn a function into a task, once: the cluster keeps a copy of every task that is made."""
    return ray.remote(num_cpus=1, max_retries=_RETRIES)(work)


def _run(todo: Iterator[tuple[str, tuple[Any, ...]]]) -> Iterator[tuple[str, Any]]:
    """Run tasks, twice as many at a time as there are cores, and yield their results as they arrive."""
    flying: dict[Any, str] = {}
    more, limit, counted = True, 0, -np.inf
    try:
        while more or flying:
            if time.monotonic() - counted > _COUNTED:
                # Nodes come and go.
                limit = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call, unused-ignore]
                counted = time.monotonic()
            while more and len(flying) < limit:
                try:
                    name, (work, *arguments) = next(todo)
                except StopIteration:
                    more = False
                    break
                flying[_remote(work).remote(*arguments)] = name
            ready, rest = ray.wait(list(flying), timeout=_COUNTED)
            if rest:
                ready += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
            for reference in ready:
                yield flying.pop(reference), ray.get(reference)
    finally:
        # Tasks left behind by an error or an interrupt would delay the next run.
        for reference in flying:
            ray.cancel(reference)


def _pairs_in(rows: range, columns: range) -> int:
    return len(rows) * (len(rows) + 1) // 2 if rows == columns else len(rows) * len(columns)


def _recorded(store: Store) -> dict[tuple[int, ...], str]:
    """Return the errors of an earlier run."""
    return {tuple(places): why for places, why in store.notes.get("failed", [])}


def _first(failed: dict[tuple[int, ...], str]) -> str:
    places, why = next(iter(failed.items()))
    return f"{' and '.join(f'measures[{place}]' for place in places)}: {why}"


def _warn_failed(failed: dict[tuple[int, ...], str]) -> None:
    if failed:
        message = f"{len(failed)} measures or pairs have no distance; the first: {_first(failed)}"
        warnings.warn(message, UserWarning, stacklevel=3)
