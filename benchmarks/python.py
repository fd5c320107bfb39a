#!/usr/bin/env python3
"""Times the Python package against POT in one run, and writes the last section of RESULTS.md. Run: make bench-python."""

import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADING = "## The Python package"
SIZES = (200, 1000, 2000)
PROBLEMS = 5

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def seconds(work: Callable[[], object]) -> float:
    """The median of several runs after a warm-up run."""
    started = time.perf_counter()
    work()
    first = time.perf_counter() - started
    found = []
    for _ in range(1 if first > 0.3 else 9):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def against_pot(threads: int) -> dict:
    """Compares with POT, in one process per number of threads, since BLAS reads its number only once."""
    import numpy as np
    import robust_ot

    robust_ot.set_threads(threads)
    warnings.simplefilter("ignore")
    rows = []
    for n in SIZES:
        found: dict = {}
        for seed in range(PROBLEMS):
            for name, theirs, ours in problems(n, seed):
                difference = float(np.abs(theirs() - ours()).max())
                found.setdefault(name, []).append((seconds(theirs), seconds(ours), difference))
        for name, measured in found.items():
            theirs, ours, difference = zip(*measured, strict=True)
            worst = max(own / other for own, other in zip(ours, theirs, strict=True))
            rows.append((n, name, statistics.median(theirs), statistics.median(ours), worst, max(difference)))
    return {"rows": rows}


def problems(n: int, seed: int) -> list:
    """Both solvers for the problems of one size and seed."""
    import numpy as np
    import ot
    import robust_ot

    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, 30)), rng.normal(size=(n, 30)) + 0.3
    M = ((X**2).sum(1)[:, None] + (Y**2).sum(1)[None] - 2 * X @ Y.T).clip(0)
    a, b = rng.random(n), rng.random(n)
    a, b = a / a.sum(), b / b.sum()
    cases = [("`emd`", lambda: ot.emd(a, b, M, numItermax=10**7), lambda: robust_ot.emd(a, b, M))]
    options: dict = {"stopThr": 1e-9, "numItermax": 10_000}
    for part in (0.05, 0.01):
        reg = part * float(np.median(M))
        cases.append(
            (
                f"`sinkhorn`, reg {part} · median",
                lambda reg=reg: ot.sinkhorn(a, b, M, reg, **options),
                lambda reg=reg: robust_ot.sinkhorn(a, b, M, reg, **options),
            )
        )
    return cases


def overhead() -> dict:
    """Seconds of a call on two clouds of five points, and of the solve alone, as the mean over many in one call."""
    import numpy as np
    import robust_ot
    from robust_ot import _core

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    arguments = (("p", 1, 2.0, 1.0, None, None, "contiguous", 0), (0.0, "auto", 1e-4, 1000, None, "cpu"))
    pairs = [(0, 1)] * 20_000
    robust_ot.set_threads(1)
    solve = seconds(lambda: _core.pairwise([X, Y], [None, None], pairs, *arguments)) / len(pairs)
    robust_ot.set_threads(None)

    def calls() -> None:
        for _ in range(1000):
            robust_ot.distance(X, Y)

    return {"call": seconds(calls) / 1000, "solve": solve}


def import_seconds(module: str) -> float:
    """The median time of an import in a fresh interpreter, beyond the interpreter's own start."""

    def run(code: str) -> float:
        found = []
        for _ in range(9):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            found.append(time.perf_counter() - started)
        return statistics.median(found)

    return run(f"import {module}") - run("pass")


def part(name: str, threads: int) -> dict:
    """Runs one part of this script in its own process and returns the result."""
    environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
    done = subprocess.run([sys.executable, __file__, name, str(threads)], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, and write."""
    if len(sys.argv) > 2:
        found = against_pot(int(sys.argv[2])) if sys.argv[1] == "pot" else overhead()
        print(json.dumps(found))
        return
    import numpy
    import ot
    import robust_ot

    lines = [
        HEADING,
        "",
        f"Written by `make bench-python` (`benchmarks/python.py`), in one run. Versions: Python {sys.version.split()[0]}, "
        f"numpy {numpy.__version__}, POT {ot.__version__}, robust-ot {robust_ot.__version__}.",
        "",
        f"d = 30, squared distances, random weights, the cost matrix given; both return the plan. Marginal error 1e-9, in L2 "
        f"for POT, in L1 for us. Medians over {PROBLEMS} problems, and the worst single ratio.",
        "",
        "| threads | n | function | POT, s | robust_ot, s | ratio | worst | plans differ by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for threads in (1, 2):
        for n, name, theirs, ours, worst, difference in part("pot", threads)["rows"]:
            times = f"{theirs:.4f} | {ours:.4f} | {ours / theirs:.2f} | {worst:.2f}"
            lines.append(f"| {threads} | {n} | {name} | {times} | {difference:.0e} |")
    found = part("overhead", 2)
    numpys, both, pot = (import_seconds(module) for module in ("numpy", "robust_ot", "ot"))
    wheel = max((HERE.parent / "target" / "wheels").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    lines += [
        "",
        f"- `distance` on two clouds of five points: {1e6 * found['call']:.1f} µs per call, of which the solve is "
        f"{1e6 * found['solve']:.1f} µs.",
        f"- `import robust_ot`: {both - numpys:.3f} s beyond numpy's {numpys:.3f} s; POT takes {pot:.2f} s.",
        f"- The wheel: {wheel.stat().st_size / 1e6:.1f} MB, including the command.",
    ]
    results = HERE / "RESULTS.md"
    before = results.read_text().split(f"\n{HEADING}\n")[0].rstrip()
    results.write_text(before + "\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
