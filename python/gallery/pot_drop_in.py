"""A drop-in for POT: change the import, keep the rest.

Optimal transport between two samples, written for ``import ot``. Only the import differs. The plan is the same, and the
entropic plan stays finite where a small regularization underflows.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import robust_ot as ot  # was: import ot


def main(picture: str) -> None:
    """Solve, check, draw."""
    rng = np.random.default_rng(0)
    source = rng.normal([0, 0], 0.6, size=(40, 2))
    target = rng.normal([4, 2], [1.0, 0.4], size=(40, 2))
    a = b = np.full(40, 1 / 40)
    M = ((source[:, None] - target[None]) ** 2).sum(-1)

    exact = ot.emd(a, b, M)
    cost = ot.emd2(a, b, M)
    print(f"exact transport costs {cost:.4f}, with {np.count_nonzero(exact)} flows")

    fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, reg in zip(axes, (0.0, 0.5, 5.0), strict=True):
        plan = exact if reg == 0 else ot.sinkhorn(a, b, M, reg)
        assert np.allclose(plan.sum(1), a) and np.allclose(plan.sum(0), b)
        # Flows are drawn fainter when there are many.
        flows = np.argwhere(plan > 0.05 * plan.max())
        strongest = min(1.0, 5 / np.sqrt(len(flows)))
        for i, j in flows:
            alpha = strongest * plan[i, j] / plan.max()
            ax.plot(*np.stack([source[i], target[j]]).T, color="0.5", alpha=alpha, lw=0.7, zorder=1)
        ax.scatter(*source.T, s=16, zorder=2, label="source")
        ax.scatter(*target.T, s=16, marker="s", zorder=2, label="target")
        name = "exact" if reg == 0 else f"entropic, reg {reg}"
        ax.set_title(f"{name}: cost {(plan * M).sum():.3f}")
    axes[0].legend()

    # The plan is still valid where the kernel e^(-M/reg) underflows.
    small = ot.sinkhorn(a, b, M, 1e-3, numItermax=100_000, stopThr=1e-6)
    print(f"reg 1e-3 costs {(small * M).sum():.4f}, {(small * M).sum() - cost:.1e} above the exact plan")
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pot_drop_in.png")
