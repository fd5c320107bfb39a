#!/usr/bin/env python3
"""Measures the cost of a pair of documents, and writes the measured part of docs/capacity.md. Run: make bench-capacity."""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import ray
import robust_ot
from robust_ot import _core, _ray_neighbors, distributed
from robust_ot._metric import metric_arguments
from scipy.optimize import nnls

PAGE = Path(__file__).resolve().parents[1] / "docs" / "capacity.md"
BEGIN, END = "<!-- measured by benchmarks/capacity.py -->", "<!-- end of what is measured -->"
TOL = 1e-3
WORDS, FEATURES, GROUPS = (25, 50, 100, 200), (50, 100, 300), (5, 10, 25)
#: ``DOCUMENTS`` is the number of documents per size, ``PAIRS`` the number of pairs timed together.
#: ``SECONDS`` is the time for which a size is timed.
DOCUMENTS, PAIRS, SECONDS = 40, 20, 1.5
#: The run that the model is checked against: documents, words, features and groups, none of which is among those above.
CHECK = (600, 80, 200, 8)
#: ``NEIGHBORS`` is the number of neighbors per document.
#: ``SAMPLE`` is the number of documents from which the model learns what fraction of the pairs the bounds leave.
NEIGHBORS, SAMPLE = 10, 300
#: Number of rows per task of distributed.nearest.
BLOCK = 16
#: ``MANY`` is the example of the page: documents, words, features and groups. Its machines have ``CORES`` cores.
MANY, CORES = (1_000_000, 100, 300, 10), 64

NAMES = ("", "m d", "m d r", "m² d", "m² log₂ m", "m² log₂ m · r²/d")


def terms(words: int, features: int, groups: int) -> list[float]:
    """The terms of the cost of a pair of documents with m words, d features and r groups."""
    m, d, r = words, features, groups
    pivots = m * m * np.log2(m)
    # The number of simplex calls grows with the number of metric entries per feature.
    return [1.0, m * d, m * d * r, m * m * d, pivots, pivots * r * r / d]


def documents(count: int, words: int, features: int, seed: int = 0) -> list:
    """Bags of words: vectors with the decaying spectrum of word vectors, words by Zipf's law within a topic."""
    rng = np.random.default_rng(seed)
    scale = 1 / np.sqrt(1 + np.arange(features))
    vectors = rng.normal(size=(4000, features)) * scale
    topics = rng.normal(size=(20, features)) * scale
    found = []
    for _ in range(count):
        near = vectors @ topics[rng.integers(len(topics))]
        odds = np.exp(near / near.std()) / (1 + rng.permutation(len(vectors)))
        chosen = rng.choice(len(vectors), words, replace=False, p=odds / odds.sum())
        found.append((vectors[chosen], odds[chosen] / odds[chosen].sum()))
    return found


def arguments(groups: int) -> tuple:
    """The metric and the solver, as the core takes them."""
    return metric_arguments("p", 1, 2.0, 1.0, None, groups, "contiguous", 0), (0.0, "auto", TOL, 1000, None, "cpu")


def seconds(work: object, units: int) -> float:
    """Seconds per unit: the median of several rounds after a warm-up round."""
    work()
    found, started = [], time.perf_counter()
    while len(found) < 3 or time.perf_counter() - started < SECONDS / 2:
        begun = time.perf_counter()
        work()
        found.append((time.perf_counter() - begun) / units)
    return statistics.median(found)


def rates(words: int, features: int, groups: int) -> tuple[float, float, float]:
    """Seconds on one core for a distance, for a bound by potentials, and for laying a document out for bounds."""
    docs = documents(DOCUMENTS, words, features)
    points, weights = [doc[0] for doc in docs], [doc[1] for doc in docs]
    pairs = [(0, at) for at in range(1, PAIRS + 1)]
    some = (points[: PAIRS + 1], weights[: PAIRS + 1], pairs)
    limit = float(np.min(_core.pairwise(*some, *arguments(groups))[0]))
    whole = seconds(lambda: _core.pairwise(*some, *arguments(groups)), PAIRS)
    layout = lambda: _core.Layout(points, weights, points[0][0], *arguments(groups))  # noqa: E731
    laid, others = layout(), list(range(1, DOCUMENTS))
    screen = laid.screen(0, others[:8])
    bound = seconds(lambda: laid.bounds(screen, others, limit), DOCUMENTS - 1)
    return whole, bound, seconds(layout, DOCUMENTS)


def fit(rows: list, measured: list[float]) -> tuple[np.ndarray, float]:
    """Least squares of relative errors without negative costs; also returns the largest relative error."""
    A, t = np.array([terms(*row) for row in rows]), np.array(measured)
    found, _ = nnls(A / t[:, None], np.ones(len(t)))
    return found, float(np.abs(A @ found / t - 1).max())


def timed(work: object) -> tuple[float, object]:
    """Seconds of one run, and its result."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def main() -> None:
    """Measure, fit, check, write."""
    robust_ot.set_threads(1)
    sizes = [(m, d, r) for m in WORDS for d in FEATURES for r in GROUPS]
    measured = []
    for size in sizes:
        measured.append(rates(*size))
        print(*size, *(f"{t * 1e6:.0f} µs" for t in measured[-1]), flush=True)
    (whole, worst_whole), (bound, worst_bound), (lay, worst_lay) = (fit(sizes, t) for t in zip(*measured, strict=True))

    count, *size = CHECK
    docs = documents(count, size[0], size[1], seed=7)
    means = _core.Means(_ray_neighbors.Summary.of(distributed._check(docs)[0]).means, arguments(size[2])[0])
    others = list(range(1, count))
    mean = seconds(lambda: means.bounds(0, others), count - 1)
    ray.init(log_to_driver=False)
    cores = int(ray.cluster_resources()["CPU"])
    keywords = {"groups": size[2], "tol": TOL, "progress": False}
    sample = distributed.nearest(documents(SAMPLE, size[0], size[1], seed=8), NEIGHBORS, **keywords)
    all_of_them, _ = timed(lambda: distributed.pairwise(docs, **keywords))
    nearest, near = timed(lambda: distributed.nearest(docs, NEIGHBORS, **keywords))
    model = {
        "whole": whole.tolist(),
        "bound": bound.tolist(),
        "lay": lay.tolist(),
        "mean": mean,
        "bounded": sample.bounds / (SAMPLE * (SAMPLE - 1)),
        "solved": sample.solved / (SAMPLE * NEIGHBORS),
    }
    lines = table(sizes, measured, model, (worst_whole, worst_bound, worst_lay))
    lines += checked(model, cores, all_of_them, nearest, near) + many(model)
    lines += ["```{raw} html", f"<script>const CAPACITY = {json.dumps(model)};</script>", "```", ""]
    text = PAGE.read_text()
    PAGE.write_text("\n".join([text.split(BEGIN)[0] + BEGIN, "", *lines, END + text.split(END)[1]]))


def of_pair(model: dict, what: str, size: tuple) -> float:
    """Seconds predicted by the model."""
    return float(np.dot(terms(*size), model[what]))


def core_seconds(model: dict, count: int, size: tuple) -> tuple[float, float]:
    """Core seconds for all distances, and for the nearest neighbors."""
    pairs = count * (count + 1) / 2
    ordered = count * (count - 1)
    # Every task lays all documents out once, for all of its rows.
    lay = of_pair(model, "lay", size) / BLOCK
    nearest = ordered * (model["mean"] + model["bounded"] * of_pair(model, "bound", size) + lay)
    return pairs * of_pair(model, "whole", size), nearest + model["solved"] * count * NEIGHBORS * of_pair(model, "whole", size)


def table(sizes: list, measured: list, model: dict, worst: tuple[float, float, float]) -> list[str]:
    """The measurements and the predictions of the model."""
    kinds = {"whole": "A distance", "bound": "A bound by potentials", "lay": "Laying a document out for bounds"}
    lines = [
        "| words m | features d | groups r | distance, µs | model | bound, µs | model | layout, µs | model |",
        "|" + "---|" * 9,
    ]
    for size, times in zip(sizes, measured, strict=True):
        told = [t for what, time in zip(kinds, times, strict=True) for t in (time, of_pair(model, what, size))]
        lines.append(f"| {size[0]} | {size[1]} | {size[2]} | " + " | ".join(f"{t * 1e6:.0f}" for t in told) + " |")
    for (what, name), error in zip(kinds.items(), worst, strict=True):
        costs = [(c * 1e9, term) for c, term in zip(model[what], NAMES, strict=True) if c > 0]
        parts = " + ".join(f"{c:,.0f} {term}".strip() if c > 100 else f"{c:.3g} {term}" for c, term in costs)
        lines += ["", f"{name} takes {parts} nanoseconds on one core, within {error:.0%} of every row."]
    return [*lines, "", f"A bound by means takes {model['mean'] * 1e6:.1f} µs.", ""]


def checked(model: dict, cores: int, all_of_them: float, nearest: float, near: object) -> list[str]:
    """A run of another size on a cluster, compared with the model."""
    count, *size = CHECK
    told = [t / cores for t in core_seconds(model, count, size)]
    ordered, found = count * (count - 1), count * NEIGHBORS
    return [
        "### Check against a run",
        "",
        f"{count} documents of {size[0]} words, {size[1]} features and {size[2]} groups, sizes not listed above,",
        f"on Ray with {cores} cores:",
        "",
        "| | measured | model |",
        "|---|---|---|",
        f"| all {count * (count + 1) // 2:,} distances | {all_of_them:.1f} s | {told[0]:.1f} s |",
        f"| the {NEIGHBORS} nearest of each | {nearest:.1f} s | {told[1]:.1f} s |",
        "",
        f"From {SAMPLE} other documents, the model expects means to leave {model['bounded']:.0%} of the pairs and",
        f"{model['solved']:.1f} distances to be solved per neighbor; in this run it was {near.bounds / ordered:.0%} and",
        f"{near.solved / found:.1f}: {near.bounds:,} bounds by potentials and {near.solved:,} distances.",
        "",
    ]


def many(model: dict) -> list[str]:
    """The cost of a million documents."""
    count, *size = MANY
    full, nearest = core_seconds(model, count, size)
    lines = [
        f"### {count:,} documents of {size[0]} words, {size[1]} features, {size[2]} groups",
        "",
        f"| | core hours | machines of {CORES} cores for a day | for a week | on disk |",
        "|---|---|---|---|---|",
    ]
    for name, spent, disk in (
        ("all distances", full, count**2 * 16 / 1e12),
        (f"the {NEIGHBORS} nearest of each", nearest, count * NEIGHBORS * 25 / 1e12),
    ):
        hours = spent / 3600
        machines = [hours / CORES / 24, hours / CORES / 168]
        room = f"{disk:.0f} TB" if disk >= 1 else f"{disk * 1e6:.0f} MB"
        lines.append(f"| {name} | {hours:,.0f} | {machines[0]:,.0f} | {machines[1]:,.0f} | {room} |")
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
