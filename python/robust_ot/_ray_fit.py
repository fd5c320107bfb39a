"""Training of a classifier on rows in a Ray cluster: every worker computes the gradient of its share of each batch."""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from numpy.typing import ArrayLike, NDArray
from ray.exceptions import ObjectLostError, OutOfMemoryError, RayActorError, RayTaskError
from sklearn.utils.validation import validate_data

from robust_ot import _core
from robust_ot._classifier import METRIC_ROWS, RobustOTClassifier
from robust_ot._labels import Labels, labeled, unit_vectors
from robust_ot._progress import Progress
from robust_ot._ray_cluster import connect
from robust_ot._store import Store, fingerprint
from robust_ot._targets import Targets

#: Number of rows that determine the number of features, the kind of labels, the threshold and ``metric_``.
_SAMPLE = 5000
#: Number of steps that may be in flight before the driver waits for the first of them.
_AHEAD = 8
#: Maximum number of times an epoch restarts after a worker or its node died.
_RETRIES = 20


@dataclass(frozen=True)
class _Columns:
    """The columns of features and labels in a batch of Ray Data."""

    features: str | list[str]
    label: str | list[str]

    @classmethod
    def find(cls, data: Any, features: str | Sequence[str] | None, label: Any) -> _Columns:
        known = list(data.columns() or [])
        if label is None:
            raise ValueError("y must name the column of labels, or the columns of a 0/1 matrix, but is None")
        wanted = label if isinstance(label, str) else [str(name) for name in label]
        if features is None:
            rest = [name for name in known if name not in np.atleast_1d(wanted)]
            features = rest[0] if len(rest) == 1 else rest
        found = cls(features if isinstance(features, str) else [str(name) for name in features], wanted)
        for name in [*np.atleast_1d(found.features), *np.atleast_1d(found.label)]:
            if name not in known:
                raise ValueError(f"features and labels must be columns of the data, {known}, but {str(name)!r} is not one")
        return found

    def rows(self, batch: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return X and y of a batch."""
        X = _joined(batch, self.features, "features")
        if X.ndim == 1:
            X = X[:, None]
        return np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64), _joined(
            batch, self.label, "labels"
        )


def _joined(batch: dict[str, NDArray[Any]], names: str | list[str], what: str) -> NDArray[Any]:
    joined = batch[names] if isinstance(names, str) else np.column_stack([batch[name] for name in names])
    if joined.dtype == object and joined.ndim == 1 and len(joined) and isinstance(joined[0], (np.ndarray, list)):
        widths = {len(row) for row in joined}
        if len(widths) > 1:
            raise ValueError(f"{what} must be equally long in every row, but have lengths {min(widths)} and {max(widths)}")
        joined = np.stack([np.asarray(row) for row in joined])
    return joined


@dataclass(frozen=True)
class _Setup:
    """Everything from which every worker builds the same learner."""

    columns: _Columns
    labels: Labels
    sample: tuple[NDArray[Any], Targets]
    vectors: NDArray[np.float64] | None
    keywords: dict[str, Any]

    def learner(self, state: bytes | None) -> _core.Learner:
        labels = self.labels
        return _core.Learner(*self.sample, labels.names, self.vectors, self.keywords, labels.kind, state)


class _Worker:
    """A replica of the model and a share of the rows."""

    def __init__(self, setup: _Setup, state: bytes | None, share: Any, size: int, shuffle: int, threads: int) -> None:
        _core.set_threads(threads)
        self.setup, self.share, self.size, self.shuffle = setup, share, size, shuffle
        self.learner = setup.learner(state)
        model = self.learner.model()
        self.count = model.weights.size + (0 if model.bias is None else model.bias.size)

    def begin(self, epoch: int) -> None:
        """Go back to the first row; each epoch has its own order."""
        shuffle: dict[str, Any] = {}
        if self.shuffle > 0:
            seed = (self.setup.keywords["random_state"] + 1_000_003 * epoch) % 2**31
            shuffle = {"local_shuffle_buffer_size": max(self.shuffle, self.size), "local_shuffle_seed": seed}
        batches = self.share.iter_batches(batch_size=self.size, batch_format="numpy", **shuffle)
        self.batches: Iterator[dict[str, NDArray[Any]]] = iter(batches)

    def slopes(self, parts: int) -> tuple[Any, ...]:
        """Return the gradient of the next rows in the given number of parts, with their summed loss and row counts."""
        found, loss, rows, left_out = np.zeros(self.count, dtype=np.float32), 0.0, 0, 0
        batch = next(self.batches, None)
        if batch is not None:
            X, y = self.setup.columns.rows(batch)
            X, targets, left_out = labeled(X, self.setup.labels.targets(y))
            rows = len(X)
            if rows:
                found, loss = self.learner.gradient(X, targets)
        return (*np.array_split(found, parts), (loss, rows, left_out))

    def add(self, *parts: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add the same part of every worker's gradient, always in the order of the workers."""
        total = parts[0].astype(np.float64)
        for part in parts[1:]:
            total += part
        return total.astype(np.float32)

    def step(self, *told_and_sums: Any) -> None:
        """Take the step of all workers' rows."""
        half = len(told_and_sums) // 2
        rows = sum(rows for _, rows, _ in told_and_sums[:half])
        if rows:
            self.learner.step(np.concatenate(told_and_sums[half:]), rows)

    def end(self, loss: float, seconds: float) -> None:
        """End the epoch."""
        self.learner.end_pass(loss, seconds)

    def state(self) -> bytes:
        """Return the state from which another worker can continue."""
        return self.learner.state()


def fit(
    classifier: RobustOTClassifier,
    data: Any,
    label: str | Sequence[str],
    *,
    features: str | Sequence[str] | None,
    classes: ArrayLike | None,
    workers: int | None,
    threads: int,
    shuffle: int,
    out: str | os.PathLike[str] | None,
    ray_address: str | None,
    progress: bool,
) -> RobustOTClassifier:
    """Train; documented as :func:`robust_ot.distributed.fit`."""
    for name in ("validation", "patience"):
        value = getattr(classifier, name)
        if value:
            raise ValueError(f"{name} must be None for data on Ray, where no rows are held out, but is {value}")
    if classifier.missing != "error":
        raise ValueError(f"missing must be 'error' for data on Ray, but is {classifier.missing!r}")
    if classifier.device not in ("auto", "cpu"):
        raise ValueError(f"device must be 'auto' or 'cpu' for data on Ray, but is {classifier.device!r}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, but is {threads}")
    connect(ray_address)
    columns = _Columns.find(data, features, label)
    # Rows keep their storage order, not the order in which tasks end, so that equal runs have equal batches.
    data.context.execution_options.preserve_order = True
    data = data.materialize()
    rows = data.count()
    if rows == 0:
        raise ValueError("the data must have rows, but has none")
    X, y = columns.rows(data.take_batch(_SAMPLE, batch_format="numpy"))
    if classes is None and y.ndim == 1:
        classes = np.asarray(data.unique(columns.label))
    names = columns.label if isinstance(columns.label, list) else None
    X, y = validate_data(classifier, X, y, multi_output=True, dtype=(np.float64, np.float32))
    labels = Labels.learn(y, names, classes)
    X, targets, _ = labeled(X, labels.targets(y))
    if not len(X):
        raise ValueError(f"labels must be given to some of the first {_SAMPLE} rows, but none has one")
    keywords = classifier._keywords()
    batch, epochs = _core.training_schedule(keywords, rows)
    keywords.update(batch=batch, epochs=epochs, device="cpu")
    vectors = unit_vectors(classifier.label_vectors, labels.names)
    setup = _Setup(columns, labels, (X, targets), vectors, keywords)
    setup.learner(None)  # What is wrong with the options is said here, not by a worker.
    workers = _worker_count(workers, threads, min(batch, rows))
    # Worker w takes rows cuts[w] to cuts[w + 1] of every batch, and a share of all rows in the same proportion.
    cuts = [batch * w // workers for w in range(workers + 1)]
    shares = data.split_at_indices([rows * cut // batch for cut in cuts[1:-1]]) if workers > 1 else [data]
    sizes = np.diff(cuts)
    steps = max(-(-share.count() // int(size)) for share, size in zip(shares, sizes, strict=True))

    store = Store(out, _key(setup, rows, workers, shuffle), {})
    state = store.read(store.notes["state"]) if store.notes else None
    begun = len(store.done)
    told = Progress("fit", epochs * steps, progress)
    told.start(begun * steps)
    team = _Team(setup, shares, sizes, shuffle, threads)
    left_out = 0
    try:
        for epoch in range(begun, epochs):
            state, left_out = team.epoch(epoch, steps, state, told)
            store.keep("state", f"learner-{epoch + 1}.safetensors", state)
            store.commit(f"epoch {epoch + 1}")
    finally:
        team.end()
        told.end()
        store.close()
    if left_out:
        warnings.warn(f"{left_out} of {rows} rows have no label and are left out", UserWarning, stacklevel=3)
    learner = setup.learner(state)
    learner.choose_threshold(*setup.sample)
    few = min(len(X), METRIC_ROWS)
    model = learner.model()
    metric = model.mean_metric(X[:few], (targets[0][: few + 1], targets[1][: targets[0][few]]))
    classifier._take(labels, model, learner.history(), metric)
    classifier._learner, classifier._learner_state = None, learner.state()
    return classifier


def _worker_count(asked: int | None, threads: int, most: int) -> int:
    if asked is None:
        cores = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call, unused-ignore]
        return max(1, min(cores // threads, most))
    if not 1 <= asked <= most:
        raise ValueError(f"workers must be between 1 and the rows per batch, {most}, but is {asked}")
    return asked


def _key(setup: _Setup, rows: int, *options: Any) -> str:
    """Return the fingerprint of a run, from its options, its first rows and the number of rows."""
    columns, sample = (setup.columns.features, setup.columns.label), (setup.sample[0], *setup.sample[1])
    asked = (setup.keywords, rows, options)
    return fingerprint(_core.__version__, columns, setup.labels.names, *asked, sample, setup.vectors)


class _Team:
    """All workers, recreated from the end of the last epoch when one of them dies."""

    def __init__(self, setup: _Setup, shares: list[Any], sizes: Any, shuffle: int, threads: int) -> None:
        self.shares, self.sizes, self.shuffle, self.threads = shares, sizes, shuffle, threads
        # Stored once for all workers.
        self.setup = ray.put(setup)
        self.worker: Any = ray.remote(_Worker)
        self.size = len(shares)
        self.workers: list[Any] = []

    def make(self, state: bytes | None, at: int) -> Any:
        # Spread over the nodes; workers reserve no core that Ray needs to restore lost rows.
        worker = self.worker.options(scheduling_strategy="SPREAD")
        share, size = self.shares[at].iterator(), int(self.sizes[at])
        return worker.remote(self.setup, state, share, size, self.shuffle, self.threads)

    def epoch(self, epoch: int, steps: int, state: bytes | None, told: Progress) -> tuple[bytes, int]:
        """Make one pass over all rows; return the state after it and the number of rows without a label."""
        done = told.done
        for retry in range(_RETRIES + 1):
            if not self.workers:
                self.workers = [self.make(state, at) for at in range(self.size)]
            try:
                return self._epoch(epoch, steps, told)
            except (RayActorError, ObjectLostError, OutOfMemoryError):
                if retry == _RETRIES:
                    raise
                self.end()
                told.back(done)
            except RayTaskError as error:
                cause: Any = error.cause
                raise (cause if isinstance(cause, Exception) else error) from None
        raise AssertionError("the last retry raises")

    def _epoch(self, epoch: int, steps: int, told: Progress) -> tuple[bytes, int]:
        start = time.monotonic()
        workers, count = self.workers, self.size
        ray.get([worker.begin.remote(epoch) for worker in workers])
        flying: deque[tuple[list[Any], list[Any]]] = deque()
        totals = np.zeros(3)

        def settle() -> None:
            nonlocal totals
            of_rows, stepped = flying.popleft()
            ray.get(stepped)
            totals += np.sum(ray.get(of_rows), axis=0)
            told.step(1)

        for _ in range(steps):
            found = [worker.slopes.options(num_returns=count + 1).remote(count) for worker in workers]
            of_rows = [of_worker[count] for of_worker in found]
            sums = [worker.add.remote(*(of_worker[at] for of_worker in found)) for at, worker in enumerate(workers)]
            flying.append((of_rows, [worker.step.remote(*of_rows, *sums) for worker in workers]))
            if len(flying) > _AHEAD:
                settle()
        while flying:
            settle()
        loss, rows, left_out = totals
        ray.get([worker.end.remote(loss / max(rows, 1), time.monotonic() - start) for worker in workers])
        return ray.get(workers[0].state.remote()), int(left_out)

    def end(self) -> None:
        """Kill the workers."""
        for worker in self.workers:
            ray.kill(worker)
        self.workers = []
