"""Which features drifted between two samples?

Two weeks of readings from twelve sensors. In the second week two sensors moved together, in opposite directions, and a third
became noisier. A plain distance shows that something changed; the worst metric shows what, with a proof of how accurate
the number is.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import robust_ot
from robust_ot import plot

NAMES = [
    "inlet °C", "outlet °C", "pressure", "flow", "vibration", "current",
    "humidity", "noise", "valve", "level", "speed", "torque",
]  # fmt: skip


def week(rng: np.random.Generator, fault: bool) -> np.ndarray:
    """Return 300 readings in units of each sensor's usual spread."""
    readings = rng.normal(size=(300, len(NAMES)))
    readings[:, 1] = 0.8 * readings[:, 0] + 0.6 * readings[:, 1]
    if fault:
        shift = rng.normal(1.5, 0.5, size=300)
        readings[:, NAMES.index("vibration")] += shift
        readings[:, NAMES.index("current")] -= shift
        readings[:, NAMES.index("noise")] *= 1.5
    return readings


def main(picture: str) -> None:
    """Compare, rank, draw."""
    rng = np.random.default_rng(1)
    before, after = week(rng, fault=False), week(rng, fault=True)
    same = robust_ot.distance(before, week(rng, fault=False))
    drift = robust_ot.distance(before, after)
    print(f"two good weeks: {same.value:.3f}; a good and a bad one: {drift.value:.3f}")
    print(f"certified: {drift.lower_bound:.5f} ≤ W ≤ {drift.value:.5f}")

    ranked = sorted(zip(drift.feature_weights, NAMES, strict=True), reverse=True)
    print("the metric weighs most:", ", ".join(f"{name} {weight:.2f}" for weight, name in ranked[:3]))
    assert {name for _, name in ranked[:2]} == {"vibration", "current"}
    pair = drift.metric[NAMES.index("vibration"), NAMES.index("current")]
    print(f"vibration with current: {pair:.2f}, negative because one rose while the other fell")

    fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    plot.metric_heatmap(drift, NAMES, axes[0])
    plot.plan(drift, before, after, axes[1], largest=300)
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "feature_drift.png")
