#!/usr/bin/env python3
"""Times robust-ot against its peers on the same data, in one run, and writes RESULTS.md and growth.svg beside itself.

    python3 benchmarks/peers.py              # everything, about half an hour on two cores
    python3 benchmarks/peers.py --only exact sinkhorn
    python3 benchmarks/peers.py --quick      # small sizes, to check that it works; writes nothing

POT, OTT-JAX and matplotlib are installed in benchmarks/.venv. Single-threaded runs, peers included, are pinned to one core.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VENV = HERE / ".venv"
PACKAGES = ["numpy", "scipy", "POT", "ott-jax", "ortools", "matplotlib"]
LIMIT = 60  # seconds after which a peer is stopped
LONG_LIMIT = 600  # the same, for large exact problems
TOLERANCE = 1e-5  # marginal error requested from Sinkhorn solvers, in L1


def in_venv():
    """Restarts inside the virtual environment, which is created and filled if needed."""
    if Path(sys.prefix) == VENV:
        return
    python = VENV / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(PACKAGES)} into {VENV.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    os.execve(python, [str(python), *sys.argv], os.environ | threads)


if __name__ == "__main__":
    in_venv()

import numpy as np  # noqa: E402  (available only inside the environment)

from baselines import METHODS  # noqa: E402

WORK = Path(tempfile.mkdtemp(prefix="rot-bench-"))


# ---- running things -------------------------------------------------------------------------------------------------


def save(name, array):
    path = WORK / f"{name}.npy"
    np.save(path, array)
    return path


def run(command, threads):
    """Standard output of a command, seconds and peak memory; pinned to one core if it has one thread."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command} ended with {status}")
    return output, time.perf_counter() - start, usage.ru_maxrss * 1024


def driver(*arguments, threads=1, repeat=5):
    command = [ROOT / "target/release/rot-bench", "--threads", threads, "--repeat", repeat, *arguments]
    output, _, memory = run(command, threads)
    return json.loads(output) | {"memory": memory}


def rot(x, y, *options, threads=1, repeat=3):
    """The median run of `rot distance`."""
    command = [ROOT / "target/release/rot", "distance", x, y, "--json", "--threads", threads, *options]
    runs = []
    for _ in range(repeat):
        output, _, memory = run(command, threads)
        runs.append(json.loads(output) | {"peak": memory})
    return sorted(runs, key=lambda found: found["seconds"])[len(runs) // 2]


def peer(method, limit=LIMIT, **arguments):
    """A peer's result in its own process, on one core; None if it takes too long or fails."""
    cores = sorted(os.sched_getaffinity(0))[:1]
    command = [sys.executable, HERE / "baselines.py", method, json.dumps(arguments, default=str)]
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=limit,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(f"{method}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---- data -----------------------------------------------------------------------------------------------------------


def hypercube(n, d, seed=0):
    """The fragmented hypercube: two features are split apart, the others are noise."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, (n, d))
    y[:, :2] += 2 * np.sign(y[:, :2])
    return x, y


def squared_distances(x, y):
    return (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T


def metric_median(x, y, metric):
    """The median of C(M) for a grouped metric, on at most 2000 points."""
    full = np.kron(metric, np.eye(x.shape[1] // len(metric)))
    return np.median(squared_distances_under(x[:2000], y[:2000], full))


def squared_distances_under(x, y, metric):
    moved = x @ metric
    return (moved * x).sum(1)[:, None] + ((y @ metric) * y).sum(1)[None] - 2 * moved @ y.T


# ---- the tables -----------------------------------------------------------------------------------------------------


class Report:
    def __init__(self):
        self.lines = []

    def add(self, *lines):
        for line in lines:
            print(line, flush=True)
            self.lines.append(line)

    def table(self, title, header, note=None):
        self.add("", f"## {title}", "")
        if note:
            self.add(note, "")
        self.add("| " + " | ".join(header) + " |", "|" + "---|" * len(header))

    def row(self, *cells):
        self.add("| " + " | ".join(str(cell) for cell in cells) + " |")


def seconds(value, limit=LIMIT):
    if value is None:
        return f"> {limit}"
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def exact(report, sizes):
    report.table(
        "Exact transport, one thread",
        ["n", "costs", "weights", "POT `emd2`, s", "robust-ot, s", "ratio", "objectives differ by"],
        "Squared distances are timed with the solve, d = 30. Target: a ratio of 0.7 or less, objectives within 1e-9.",
    )
    rng = np.random.default_rng(1)
    for n in sizes:
        for costs in ("squared distances", "random"):
            for weights in ("uniform", "random"):
                a, b = (np.ones(n), np.ones(n)) if weights == "uniform" else rng.uniform(0.1, 1, (2, n))
                a, b = a / a.sum(), b / b.sum()
                files = {"a": save("a", a), "b": save("b", b)}
                if costs == "random":
                    cost = save("c", rng.uniform(0, 1, (n, n)))
                    ours = driver("exact", cost, files["a"], files["b"])
                    theirs = peer("emd", cost=cost, **files)
                else:
                    x, y = (save(name, points) for name, points in zip("xy", hypercube(n, 30, n)))
                    ours = driver("points", x, y, files["a"], files["b"])
                    theirs = peer("emd", x=x, y=y, **files)
                difference = abs(ours["objective"] / theirs["objective"] - 1)
                ratio = ours["seconds"] / theirs["seconds"]
                report.row(
                    n, costs, weights, seconds(theirs["seconds"]), seconds(ours["seconds"]), f"{ratio:.2f}", f"{difference:.0e}"
                )


def exact_large(report, sizes):
    report.table(
        "Large exact transport, one thread",
        ["n", "solver", "seconds", "ours / theirs", "memory", "objective / ours − 1"],
        "Squared distances are timed with the solve, d = 30, random weights. POT's sparse solver gets the 50 nearest\n"
        "neighbors of every point, and finds an upper bound; OR-tools rounds weights and costs to seven digits. A solver\n"
        f"without a time failed or was stopped after {LONG_LIMIT} s. Target: .25, .18, .12 of POT `emd2` at 4000, 8000, 12,000",
    )
    rng = np.random.default_rng(2)
    peers = {"POT `emd2`": "emd", "POT lazy": "emd-lazy", "POT sparse": "emd-sparse", "OR-tools": "min-cost-flow"}
    for n in sizes:
        a, b = rng.uniform(0.1, 1, (2, n))
        files = {"a": save("a", a / a.sum()), "b": save("b", b / b.sum())}
        files |= {name: save(name, points) for name, points in zip("xy", hypercube(n, 30, n))}
        ours = driver("points", *(files[name] for name in "xyab"), repeat=3)
        report.row(n, "robust-ot", seconds(ours["seconds"]), "", f"{ours['memory'] / 1e9:.2f} GB", "")
        for name, method in peers.items():
            theirs = peer(method, LONG_LIMIT, **files)
            if theirs is None:
                report.row(n, name, seconds(None, LONG_LIMIT), "", "", "")
                continue
            ratio, difference = ours["seconds"] / theirs["seconds"], theirs["objective"] / ours["objective"] - 1
            memory = f"{theirs['memory'] / 1e9:.2f} GB"
            report.row(n, name, seconds(theirs["seconds"]), f"{ratio:.2f}", memory, f"{difference:.0e}")


def warm(report, sizes):
    report.table(
        "A second exact solve after M changed by 1 % in Frobenius norm",
        ["n", "cold, s", "warm, s", "ratio"],
        "d = 30, from M = I; costs are not timed. Target: 0.3 or less.",
    )
    rng = np.random.default_rng(2)
    for n in sizes:
        x, y = (save(name, points) for name, points in zip("xy", hypercube(n, 30, n)))
        change = rng.normal(size=(30, 30))
        change = change + change.T
        metric = np.eye(30) + 0.01 * np.sqrt(30) * change / np.linalg.norm(change)
        found = driver("warm", x, y, save("m", metric))
        report.row(n, seconds(found["cold"]), seconds(found["warm"]), f"{found['warm'] / found['cold']:.2f}")


def sinkhorn(report, sizes):
    report.table(
        "Sinkhorn, one thread",
        ["n", "regularization", "best of POT and OTT-JAX, s", "which", "its error", "robust-ot, s", "error", "ratio"],
        f"Regularization in medians of the squared distances, d = 30, double precision. Peers run to a marginal error of "
        f"{TOLERANCE:g} in L1, robust-ot to the error that the best peer reached, if smaller. POT: `sinkhorn`, "
        f"`sinkhorn_log` and `sinkhorn_stabilized`; OTT: log and kernel mode, compiled before timing. A peer that takes more "
        f"than {LIMIT} s or does not reach the error is left out. Target: a ratio of 0.5 or less.",
    )
    for n in sizes:
        cost = squared_distances(*hypercube(n, 30, n))
        path = save("c", cost)
        for scale in (0.05, 0.01, 0.001):
            regularization = scale * np.median(cost)
            methods = ("pot-sinkhorn", "pot-log", "pot-stabilized", "ott-log", "ott-kernel")
            found = {m: peer(m, cost=path, regularization=regularization, tolerance=TOLERANCE) for m in methods}
            found = {m: f for m, f in found.items() if f and f["error"] <= 1.5 * TOLERANCE}
            best = min(found, key=lambda m: found[m]["seconds"], default=None)
            error = min(TOLERANCE, found[best]["error"]) if best else TOLERANCE
            ours = driver("sinkhorn", path, regularization, error)
            theirs = found[best]["seconds"] if best else None
            ratio = ours["seconds"] / theirs if best else None
            report.row(
                n,
                scale,
                seconds(theirs),
                best or "none",
                f"{found[best]['error']:.0e}" if best else "",
                seconds(ours["seconds"]),
                f"{ours['error']:.0e}",
                f"{ratio:.2f}" if best else f"< {ours['seconds'] / LIMIT:.2f}",
            )


def robust(report, n):
    report.table(
        "Robust distances, one thread",
        ["problem", "compared with", "its time, s", "robust-ot, s", "ratio", "certified relative gap", "oracle calls"],
        "SRW and RKP in numpy are written from their papers (`benchmarks/baselines.py`) and stop at the gap they estimate; "
        "the certified gap is ours. Target: W_P within 6 EMDs; SRW with entropy 5 times faster than its authors' 6.6 s, "
        "without it under 10 s; RKP 50 times faster than its authors' 16 s.",
    )
    x, y = hypercube(n, 100, 7)
    paths = save("x", x), save("y", y)
    uniform = np.full(n, 1 / n)
    emd = peer("emd", x=paths[0], y=paths[1], a=save("a", uniform), b=save("b", uniform))["seconds"]

    def line(name, other, theirs, ours):
        report.row(
            name,
            other,
            seconds(theirs),
            seconds(ours["seconds"]),
            f"{ours['seconds'] / theirs:.3f}" if theirs else f"< {ours['seconds'] / LIMIT:.3f}",
            f"{ours['relative_gap']:.0e}",
            ours["oracle_calls"],
        )

    line(f"W_P r=10 k=1, n={n}, d=100, gap 1e-4", "6 EMDs of POT", 6 * emd, rot(*paths, "--groups", 10, "--tol", 1e-4))
    entropy = 0.05 * 5 / 100 * np.median(squared_distances(x, y))
    srw = peer("srw", x=paths[0], y=paths[1], k=5, entropy=entropy, gap=1e-2)
    options = ("--metric", "srw", "--k", 5, "--tol", 1e-2)
    line(f"SRW k=5, n={n}, d=100, entropy {entropy:.3f}, gap 1e-2", "numpy, Frank-Wolfe", srw and srw["seconds"], rot(*paths, *options, "--entropy", entropy))
    line("the same without entropy", "authors' code with entropy", 6.6, rot(*paths, *options))
    half = save("x2", x[: n // 2]), save("y2", y[: n // 2])
    rkp = peer("rkp", x=half[0], y=half[1], rho=2, gap=1e-2)
    ours = rot(*half, "--metric", "rkp", "--rho", 2, "--tol", 1e-2)
    line(f"RKP ρ=2, n={n // 2}, d=100, gap 1e-2", "numpy, Frank-Wolfe", rkp and rkp["seconds"], ours)
    line(f"RKP ρ=2, n={n // 2}, d=100, gap 1e-2", "authors' code", 16.0, ours)


def large(report, sizes):
    report.table(
        "Entropic W_P beyond memory, two threads",
        ["n", "`--memory`", "storage", "s", "peak memory, MB", "certified relative gap"],
        "r = 10, k = 1, d = 100, entropy .05 · median of C(M*), relative gap 1e-2. Target: n = 20,000 in 5 minutes and 4 GB; "
        "n = 50,000 streamed in 1 GB.",
    )
    for n, memory in sizes:
        x, y = hypercube(n, 100, n)
        few = save("x", x[:1000]), save("y", y[:1000])
        rot(*few, "--groups", 10, "--metric-out", WORK / "metric.npy", repeat=1)
        entropy = 0.05 * metric_median(x, y, np.load(WORK / "metric.npy"))
        paths = save("x", x), save("y", y)
        found = rot(*paths, "--groups", 10, "--entropy", entropy, "--tol", 1e-2, "--memory", memory, threads=2, repeat=1)
        report.row(
            f"{n:,}", memory, found["storage"], f"{found['seconds']:.1f}", f"{found['peak'] / 1e6:.0f}", f"{found['relative_gap']:.0e}"
        )


def threads(report, n):
    report.table(
        "Two threads against one",
        ["what", "one, s", "two, s", "speed-up"],
        "Target: 1.6 for Sinkhorn and pairwise.",
    )
    cost = squared_distances(*hypercube(n, 30, n))
    path = save("c", cost)
    for scale in (0.05, 0.01):
        times = [driver("sinkhorn", path, scale * np.median(cost), TOLERANCE, threads=t)["seconds"] for t in (1, 2)]
        report.row(f"Sinkhorn, n = {n}, regularization {scale} medians", *map(seconds, times), f"{times[0] / times[1]:.2f}")
    files = [save(f"cloud{i}", hypercube(n // 8, 30, i)[0]) for i in range(8)]
    times = []
    for count in (1, 2):
        command = [ROOT / "target/release/rot", "pairwise", *files, "--groups", 5, "--json", "--threads", count]
        times.append(json.loads(run(command, count)[0])["seconds"])
    report.row(f"`rot pairwise`, 8 clouds of {n // 8}", *map(seconds, times), f"{times[0] / times[1]:.2f}")


def growth(report, scale):
    """How time grows with n, d and r, as factors per doubling."""
    report.table(
        "How cost grows, one thread",
        ["what grows", "at", "seconds", "factor per doubling"],
        "W_P k=1 to 1e-4 (entropic: entropy .05 · median of C(M*), to 1e-2). ![log-log](growth.svg)",
    )
    base = {"n": 1000, "d": 80, "r": 10}
    ranges = {"n": [500, 1000, 2000, 4000], "d": [40, 80, 160, 320], "r": [5, 10, 20, 40]}
    curves = {}
    for kind in ("exact", "entropic"):
        for what, values in ranges.items():
            times = []
            for value in (max(v // scale, 2) if what == "n" else v for v in values):
                size = base | {what: value}
                x, y = hypercube(size["n"], size["d"], 11)
                paths = save("x", x), save("y", y)
                options = ["--groups", size["r"], "--tol", 1e-4]
                if kind == "entropic":
                    rot(*paths, "--groups", size["r"], "--metric-out", WORK / "metric.npy", repeat=1)
                    entropy = 0.05 * metric_median(x, y, np.load(WORK / "metric.npy"))
                    options = ["--groups", size["r"], "--tol", 1e-2, "--entropy", entropy]
                times.append(rot(*paths, *options)["seconds"])
            curves[f"{what}, {kind}"] = (values, times)
            factors = ", ".join(f"{late / early:.1f}" for early, late in zip(times, times[1:]))
            report.row(f"{what}, {kind}", ", ".join(map(str, values)), ", ".join(map(seconds, times)), factors)
    return curves


def draw(curves, folder):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "rot"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
    for axis, what in zip(axes, ("n", "d", "r")):
        for kind, marker in (("exact", "o"), ("entropic", "s")):
            axis.loglog(*curves[f"{what}, {kind}"], marker=marker, label=kind)
        values = np.array(curves[f"{what}, exact"][0], float)
        first = curves[f"{what}, exact"][1][0]
        powers = {"n": (2,), "d": (1,), "r": (1,)}[what]
        for power in powers:
            axis.loglog(values, first * (values / values[0]) ** power, color="grey", lw=0.8, ls=":", label=f"{what}^{power}")
        axis.set_xticks(values, [f"{v:.0f}" for v in values])
        axis.minorticks_off()
        axis.set_xlabel({"n": "points n", "d": "features d", "r": "groups r"}[what])
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("seconds")
    figure.tight_layout()
    figure.savefig(folder / "growth.svg", metadata={"Date": None})
    figure.savefig(WORK / "growth.png", dpi=120)
    print(f"drawn: {WORK / 'growth.png'}")


def machine():
    model = "unknown processor"
    if Path("/proc/cpuinfo").exists():
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        model = found.group(1) if found else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def versions():
    import importlib.metadata as metadata

    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    names = [(name, metadata.version(name)) for name in ("POT", "ott-jax", "jax", "numpy")]
    return ", ".join([f"rustc {rust}", f"Python {platform.python_version()}", *(f"{n} {v}" for n, v in names)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sections = ["exact", "exact-large", "warm", "sinkhorn", "robust", "large", "threads", "growth"]
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    parser.add_argument("--quick", action="store_true", help="small sizes; RESULTS.md is left alone")
    arguments = parser.parse_args()
    assert METHODS, "baselines are importable"
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--package", "rot-cli", "--package", "rot-bench"], cwd=ROOT, check=True
    )
    quick = arguments.quick
    report = Report()
    report.add(
        "# Benchmarks",
        "",
        "Written by `make bench` (`benchmarks/peers.py`), peers and robust-ot in one run on the same data. Ratios are our time over",
        "theirs: lower is better. One thread, pinned to one core, unless a table says otherwise; medians of several runs.",
        "",
        f"Machine: {machine()}. Versions: {versions()}.",
    )
    work = {
        "exact": lambda: exact(report, [100] if quick else [500, 1000, 2000, 4000]),
        "exact-large": lambda: exact_large(report, [200] if quick else [4000, 8000, 12_000]),
        "warm": lambda: warm(report, [100] if quick else [500, 1000, 2000]),
        "sinkhorn": lambda: sinkhorn(report, [100] if quick else [1000, 4000]),
        "robust": lambda: robust(report, 100 if quick else 1000),
        "large": lambda: large(report, [(1000, "2MB")] if quick else [(20_000, "2GB"), (50_000, "500MB")]),
        "threads": lambda: threads(report, 400 if quick else 4000),
        "growth": lambda: draw(growth(report, 10 if quick else 1), WORK if quick else HERE),
    }
    for section in arguments.only:
        work[section]()
    if not quick and arguments.only == sections:
        results = HERE / "RESULTS.md"
        # Other scripts write the last sections.
        python = results.read_text().partition("\n## On a CUDA device\n") if results.exists() else ("", "", "")
        results.write_text("\n".join(report.lines) + "\n" + python[1] + python[2])
        print(f"written: {(HERE / 'RESULTS.md').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
