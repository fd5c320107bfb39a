"""Free-support barycenters beside POT's: python benchmarks/barycenter.py

Ten clouds of 500 points, w2, 500 points wanted, both from the same start. CPU seconds of the whole process on one thread, the
least of three alternating runs; both results are evaluated with POT's exact solver.
"""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import ot
import robust_ot

CLOUDS, POINTS, REPEATS = 10, 500, 3


def mean_distance(clouds, points):
    """Return the mean squared 2-Wasserstein distance."""
    return np.mean([ot.emd2([], [], ot.dist(cloud, points), numItermax=10**7) for cloud in clouds])


def timed(work):
    """Return the result and the CPU seconds."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def main():
    """Print one line per number of dimensions."""
    robust_ot.set_threads(1)
    print("| d | robust-ot: mean distance | CPU s | POT: mean distance | CPU s |\n|---|---|---|---|---|")
    for d in (2, 20):
        rng = np.random.default_rng(d)
        stretch = [np.eye(d) + 0.3 * rng.normal(size=(d, d)) for _ in range(CLOUDS)]
        clouds = [rng.normal(size=(POINTS, d)) @ matrix + rng.normal(size=d) for matrix in stretch]
        start = clouds[0] - clouds[0].mean(0) + np.mean([cloud.mean(0) for cloud in clouds], axis=0)
        weights = [np.full(POINTS, 1 / POINTS)] * CLOUDS
        ours, theirs = [], []
        for _ in range(REPEATS):
            found, seconds = timed(lambda: robust_ot.barycenter(clouds, support=start, metric="w2").points)  # noqa: B023
            ours.append((seconds, mean_distance(clouds, found)))
            found, seconds = timed(lambda: ot.lp.free_support_barycenter(clouds, weights, start.copy()))  # noqa: B023
            theirs.append((seconds, mean_distance(clouds, found)))
        (of_ours, value), (of_theirs, other) = min(ours), min(theirs)
        print(f"| {d} | {value:.9g} | {of_ours:.2f} | {other:.9g} | {of_theirs:.2f} |")


if __name__ == "__main__":
    main()
