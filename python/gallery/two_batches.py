"""Did the second batch of wines change, in which measurements, and in which pairs of them?

Scikit-learn's wine data, split at random into two batches: nothing has changed, and nothing is found. Then the color of the
second batch fades by a fifth, and its hue no longer follows the color. Needs scikit-learn and pandas.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import robust_ot

try:
    from sklearn.datasets import load_wine
except ImportError as error:
    sys.exit(f"two_batches.py needs scikit-learn: pip install 'robust-ot[sklearn]' ({error})")


def main(picture: str) -> None:
    """Compare equal batches, then changed ones, and draw both."""
    wine = load_wine(as_frame=True)
    rows = wine.data.sample(frac=1, random_state=0)
    first, second = rows.iloc[:89], rows.iloc[89:]
    equal = robust_ot.compare(first, second)
    print(equal)

    faded = second.copy()
    faded["color_intensity"] *= 0.8
    faded["hue"] = np.random.default_rng(0).permutation(faded["hue"])
    changed = robust_ot.compare(first, faded)
    print(changed)
    for part in changed.parts:
        print(f"{part['name']:<10} p = {part['p_value']:.3f}")
    assert not equal.differs and changed.differs
    assert changed.features[0]["name"] == "color_intensity"

    figure, axes = plt.subplot_mosaic("ac;bc", figsize=(11, 7), layout="constrained")
    equal.plot(axes["a"])
    changed.plot(axes["b"])
    pair = changed.pairs[0]
    x, y = pair["names"]
    for label, table, marker in (("first batch", first, "o"), ("second batch", faded, "^")):
        axes["c"].scatter(table[x], table[y], s=14, marker=marker, label=label)
    axes["c"].set(xlabel=x, ylabel=y, title=f"the pair that changed most, p = {pair['p_value']:.3f}")
    axes["c"].legend(frameon=False)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "two_batches.png")
