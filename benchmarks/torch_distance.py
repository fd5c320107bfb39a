"""Distances of torch clouds on a GPU with their gradients, beside FlashSinkhorn: forward and backward, medians by the clock.

    python benchmarks/torch_distance.py

Both run in turn on the same tensors. After the same number of iterations, or fewer where it has converged, ours returns
bounds that hold, and FlashSinkhorn a number. Needs torch, robust_ot and an NVIDIA GPU; without the package flash-sinkhorn,
only ours is timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from robust_ot.torch import distance
from torch import Tensor

try:
    from flash_sinkhorn import SamplesLoss
except ImportError:
    SamplesLoss = None

# Points of each cloud, features, entropy as a part of the mean cost.
CASES = [(10_000, 64, 0.05), (5_000, 2, 0.05), (5_000, 64, 0.05)]
ITERATIONS = (10, 50)
TOLERANCES = (1e-2, 1e-4)
WARM = 2


def milliseconds(step: Callable[[], object], count: int) -> float:
    """The median time of a step whose work has ended when it is timed."""
    times = []
    for at in range(WARM + count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if at >= WARM:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def clouds(count: int, dim: int) -> tuple[Tensor, Tensor]:
    """Two normal clouds half a standard deviation apart."""
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(count, dim, generator=generator, device="cuda")
    Y = torch.randn(count, dim, generator=generator, device="cuda") + 0.5
    return X.requires_grad_(), Y.requires_grad_()


def ours(X: Tensor, Y: Tensor, **settings: object) -> Callable[[], object]:
    """Forward and backward of robust_ot."""

    def step() -> None:
        X.grad = Y.grad = None
        distance(X, Y, **settings).backward()

    return step


def theirs(X: Tensor, Y: Tensor, entropy: float, iterations: int, tf32: bool) -> Callable[[], object]:
    """Forward and backward of FlashSinkhorn."""
    loss = SamplesLoss(eps=entropy, n_iters=iterations, use_epsilon_scaling=False, allow_tf32=tf32)

    def step() -> None:
        X.grad = Y.grad = None
        loss(X, Y).backward()

    return step


def report(name: str, X: Tensor, Y: Tensor, count: int, settings: dict[str, object]) -> None:
    """Print the time of ours, and how far the bounds are apart relative to the transport cost and entropy together."""
    took = milliseconds(ours(X, Y, **settings), count)
    bounds = distance(X, Y, return_bounds=True, **settings)
    gap = ((bounds.value - bounds.lower_bound) / bounds.value.abs()).item()
    print(f"{name}, robust_ot {settings['metric']}: {took:.2f} ms, bounds {gap:.1e} apart")


def main() -> None:
    """Print a table of milliseconds."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=10, help="timed repetitions")
    count = options.parse_args().count
    warnings.simplefilter("ignore")
    print(torch.cuda.get_device_name())
    for points, dim, part in CASES:
        X, Y = clouds(points, dim)
        entropy = part * (2 * dim + 0.25 * dim)
        print(f"\n{points} x {points}, d = {dim}, entropy {entropy:g}")
        for iterations in ITERATIONS:
            for tf32 in (True, False) if SamplesLoss is not None else ():
                took = milliseconds(theirs(X, Y, entropy, iterations, tf32), count)
                print(f"{iterations} iterations, FlashSinkhorn {'TF32' if tf32 else 'f32'}: {took:.2f} ms")
            for metric in ("w2", "p"):
                settings = {"metric": metric, "entropy": entropy, "max_iter": 1, "max_sweeps": iterations}
                report(f"at most {iterations} iterations", X, Y, count, settings)
        for tolerance in TOLERANCES:
            for metric in ("w2", "p"):
                report(f"tolerance {tolerance:g}", X, Y, count, {"metric": metric, "entropy": entropy, "tol": tolerance})


if __name__ == "__main__":
    main()
