"""The Python side of ``rot pairwise --ray``: solves the measures of a folder on a Ray cluster."""

from __future__ import annotations

import json
import logging
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import ray

from robust_ot.distributed import pairwise


def main(folder: Path) -> int:
    """Solve the pairs of the folder's measures, and write the matrices and a report there."""
    task = json.loads((folder / "task.json").read_text())
    measures = [_measure(folder, at) for at in range(task["measures"])]
    keywords = dict(task["set"])
    if keywords.get("rho", 2.0) is None:
        # JSON has no infinity.
        keywords["rho"] = math.inf
    if keywords.get("prior") == "prior.npy":
        keywords["prior"] = np.load(folder / "prior.npy")
    try:
        ray.init(address=task["address"], log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        print(f"robust_ot: no Ray cluster at {task['address']}: {error}", file=sys.stderr)
        return 1
    # The command reports errors and pairs that did not converge.
    warnings.simplefilter("ignore", UserWarning)
    found = pairwise(
        measures,
        **keywords,
        grouping=np.asarray(task["grouping"]),
        entropy=task["entropy"],
        solver=task["solver"],
        tol=task["tol"],
        max_iter=task["max_iter"],
        memory=task["memory"],
        progress=sys.stderr.isatty(),
    )
    np.save(folder / "matrix.npy", np.asarray(found.matrix))
    np.save(folder / "lower.npy", np.asarray(found.lower_bounds))
    report = {
        "relative_gap": found.relative_gap,
        "unfinished": found.unfinished,
        "failed": _failed(found.failed),
    }
    (folder / "report.json").write_text(json.dumps(report))
    return 0


def _failed(failed: dict[tuple[int, ...], str]) -> dict[str, Any] | None:
    """Return the first error and its measures."""
    return next(({"measures": measures, "why": why} for measures, why in failed.items()), None)


def _measure(folder: Path, at: int) -> Any:
    points, weights = np.load(folder / f"{at}-points.npy"), folder / f"{at}-weights.npy"
    return (points, np.load(weights)[0]) if weights.exists() else points


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
