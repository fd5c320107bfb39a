"""Color transfer under a robust metric.

Two photographs are clouds of colors. A plan between a thousand pixels of each maps the colors of one to those of the other, and
``Solution.transport`` maps all other pixels by the same rule. The worst metric says in which colors the pictures differ most; a
plan that is optimal for it moves those first.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import robust_ot
from robust_ot import plot

try:
    from sklearn.datasets import load_sample_image
except ImportError as error:
    raise SystemExit(f"color_transfer.py needs scikit-learn: pip install 'robust-ot[sklearn]' ({error})") from None


def main(picture: str) -> None:
    """Load, transport, draw."""
    rng = np.random.default_rng(0)
    temple, flower = (load_sample_image(name)[::3, ::3] / 255.0 for name in ("china.jpg", "flower.jpg"))
    samples = [image.reshape(-1, 3)[rng.choice(image.shape[0] * image.shape[1], 1000)] for image in (temple, flower)]

    fig, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    axes[0, 0].imshow(temple)
    axes[0, 0].set_title("colors of this picture …")
    axes[1, 0].imshow(flower)
    axes[1, 0].set_title("… become those of this one")
    solutions = {
        "w2": robust_ot.distance(*samples, metric="w2", entropy=0.002, tol=1e-3),
        "srw": robust_ot.distance(*samples, metric="srw", k=1, entropy=0.002, tol=1e-3),
    }
    for column, (metric, solution) in enumerate(solutions.items(), start=1):
        colors = solution.transport(temple.reshape(-1, 3)).reshape(temple.shape)
        axes[0, column].imshow(np.clip(colors, 0, 1))
        axes[0, column].set_title(f"{metric}: {solution.lower_bound:.4f} ≤ W ≤ {solution.value:.4f}")
        plot.metric_heatmap(solution, ["red", "green", "blue"], ax=axes[1, column])
        moved = solution.transport(samples[0])
        print(f"{metric}: mean color {moved.mean(0).round(3)}, that of the flower {samples[1].mean(0).round(3)}")
    for ax in (axes[0, 0], axes[1, 0], axes[0, 1], axes[0, 2]):
        ax.set_axis_off()
    fig.savefig(picture, dpi=80)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "color_transfer.png")
