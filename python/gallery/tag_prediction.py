"""Predict tags so that mistakes are near misses.

150 photos have one to three tags each, out of twelve tags in four families. The same linear model is trained with
cross-entropy and with the default mix of cross-entropy and robust transport; tag vectors define which tags are close. This
helps when examples are few. Needs scikit-learn.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from robust_ot import plot, score

try:
    from robust_ot import RobustOTClassifier
except ImportError as error:
    sys.exit(f"tag_prediction.py needs scikit-learn: pip install 'robust-ot[sklearn]' ({error})")

TAGS = [
    "beach", "sea", "boat",
    "forest", "tree", "deer",
    "street", "car", "bus",
    "cake", "bread", "soup",
]  # fmt: skip


def photos(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy features and 0/1 tags; tags of a family look alike and occur together."""
    features = np.random.default_rng(5).normal(size=(12, 40))
    features += 1.5 * np.repeat(np.random.default_rng(6).normal(size=(4, 40)), 3, axis=0)
    tags = np.zeros((count, 12), dtype=int)
    for row, family in enumerate(rng.integers(4, size=count)):
        tags[row, 3 * family + rng.choice(3, size=rng.integers(1, 4), replace=False)] = 1
    return tags @ features + 3.0 * rng.normal(size=(count, 40)), tags


def main(picture: str) -> None:
    """Train both, score both, draw."""
    rng = np.random.default_rng(0)
    X, y = photos(rng, 150)
    X_test, y_test = photos(rng, 1000)
    vectors = np.repeat(np.eye(4), 3, axis=0) + 0.1 * np.random.default_rng(7).normal(size=(12, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    models = {
        "cross-entropy": RobustOTClassifier("ce", label_vectors=vectors, lr=0.005),
        "robust mix": RobustOTClassifier(label_vectors=vectors, lr=0.005),
    }
    costs = {}
    for name, model in models.items():
        model.fit(X, y)
        found = score.all_scores(y_test, model.predict_proba(X_test), vectors)
        print(f"{name}: AUC {found['auc']:.4f}, mAP {found['map']:.4f}, semantic cost {found['semantic_cost']:.4f}")
        costs[name] = found["semantic_cost"] or 0.0
    assert costs["robust mix"] < costs["cross-entropy"]
    mix = models["robust mix"]
    first = mix.predict(X_test[:1])[0]
    print("the first photo is", ", ".join(tag for tag, yes in zip(TAGS, y_test[0], strict=True) if yes), end="; ")
    print("predicted:", ", ".join(tag for tag, yes in zip(TAGS, first, strict=True) if yes))

    fig, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    plot.learning_curves(mix, axes[0])
    plot.metric_heatmap(np.asarray(mix.metric_), ax=axes[1])
    for ax_shift, (name, model) in zip((-0.2, 0.2), models.items(), strict=True):
        wrong = np.where(y_test == 0, model.predict_proba(X_test), 0).mean(0)
        axes[2].barh(np.arange(12) + ax_shift, wrong, height=0.4, label=name)
    axes[2].set_yticks(range(12), TAGS)
    axes[2].set(xlabel="mean probability where the tag is wrong")
    axes[2].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tag_prediction.png")
