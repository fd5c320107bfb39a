"""A gradient flow: points move down the slope of their robust distance to a target.

Torch carries the gradient of the distance back to the points, and a plain optimizer moves them. The points have six features;
the target differs from them in two, where it is a spiral, and in the spread of a third. The lower bound that comes with every
value says how close the flow is to its end.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

try:
    import torch
    from robust_ot.torch import distance
except ImportError as error:
    raise SystemExit(f"gradient_flow.py needs torch: pip install 'robust-ot[torch]' ({error})") from None

POINTS, STEPS, SHOWN = 250, 40, (0, 4, 12, 40)


def main(picture: str) -> None:
    """Flow, check, draw."""
    rng = np.random.default_rng(0)
    turn = np.sqrt(rng.random(POINTS)) * 9
    target = rng.normal(scale=0.1, size=(POINTS, 6))
    target[:, :2] += np.stack([turn * np.cos(turn), turn * np.sin(turn)], axis=1) / 3
    target[:, 2] *= 8
    points = torch.tensor(rng.normal(scale=0.3, size=(POINTS, 6)), requires_grad=True)
    goal = torch.tensor(target)

    values, kept = [], {}
    for step in range(STEPS + 1):
        if step in SHOWN:
            kept[step] = points.detach().numpy().copy()
        # The metric "p" has norm one, so the slope of a point is its mean displacement under the metric, times 2 / POINTS.
        value, lower_bound = distance(points, goal, metric="p", tol=1e-4, return_bounds=True)
        values.append((value.item(), lower_bound.item()))
        (gradient,) = torch.autograd.grad(value, points)
        with torch.no_grad():
            points -= 0.15 * POINTS * gradient
    bounds = np.array(values)
    widest = np.ptp(bounds, axis=1).max()
    print(f"the distance falls from {bounds[0, 0]:.3f} to {bounds[-1, 0]:.2e}; no gap is above {widest:.1e}")

    fig, axes = plt.subplots(1, 5, figsize=(15, 3.2), layout="constrained")
    for ax, (step, cloud) in zip(axes, kept.items(), strict=False):
        ax.scatter(*target[:, :2].T, s=6, color="0.8", label="target")
        ax.scatter(*cloud[:, :2].T, s=8, c=np.arctan2(*kept[0][:, :2].T), cmap="twilight", label="points")
        ax.set(title=f"step {step}", xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), aspect="equal")
    axes[0].legend(loc="lower left", fontsize=8)
    axes[4].semilogy(bounds[:, 0])
    axes[4].set(title="robust distance to the target", xlabel="step")
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "gradient_flow.png")
