"""Barycenters of handwritten digits.

Every image is a cloud of its pixels, weighted by their ink. The mean of pixels blurs; a barycenter moves points, and keeps the
stroke. Every distance to it comes with its bounds.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import robust_ot

try:
    from sklearn.datasets import load_digits
except ImportError as error:
    raise SystemExit(f"barycenter_of_digits.py needs scikit-learn: pip install 'robust-ot[sklearn]' ({error})") from None

DIGITS, IMAGES, POINTS = (0, 2, 3, 6), 10, 90


def cloud(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels with ink, and their ink."""
    places = np.argwhere(image > 0).astype(float)
    return places[:, ::-1] * [1, -1], image[image > 0]


def main(picture: str) -> None:
    """Compute, check, draw."""
    digits = load_digits()
    fig, axes = plt.subplots(3, len(DIGITS), figsize=(2.6 * len(DIGITS), 7.6), layout="constrained")
    for column, digit in zip(axes.T, DIGITS, strict=True):
        images = digits.images[digits.target == digit][:IMAGES]
        found = robust_ot.barycenter([cloud(image) for image in images], support=POINTS, metric="p", tol=1e-4)
        steps = len(found.history) - 1
        print(f"{digit}: mean distance {found.lower_bound:.4f} ≤ {found.value:.4f}, from {found.history[0]:.4f}, {steps} steps")
        column[0].imshow(images[0], cmap="gray_r")
        column[0].set_title(f"one of {IMAGES} images")
        column[1].imshow(images.mean(0), cmap="gray_r")
        column[1].set_title("mean of pixels")
        column[2].scatter(*found.points.T, s=70, c="k", alpha=0.35, linewidths=0)
        column[2].set(title=f"barycenter, {found.value:.2f}", xlim=(-0.5, 7.5), ylim=(-7.5, 0.5), aspect="equal")
    for ax in axes.flat:
        ax.set_xticks([])
        ax.set_yticks([])
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "barycenter_of_digits.png")
