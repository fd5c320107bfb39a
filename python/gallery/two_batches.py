"""Did the second batch of wines change, in which measurements, and in which pairs of them?

Two cultivars of scikit-learn's wine data, mixed in the same shares in both batches: nothing has changed. Then the color of the
second batch fades, and its hue no longer follows it.
"""

import numpy as np
import robust_ot

try:
    import matplotlib.pyplot as plt
    import pandas as pd
    from sklearn.datasets import load_wine
except ImportError as error:
    raise SystemExit(
        f"This example needs scikit-learn, pandas and matplotlib: pip install scikit-learn pandas matplotlib ({error})"
    ) from error

wine = load_wine(as_frame=True)
rows: pd.DataFrame = wine.data.sample(frac=1, random_state=0)
first, second = rows.iloc[:89], rows.iloc[89:]
print(robust_ot.compare(first, second))

faded = second.copy()
faded["color_intensity"] *= 0.8
faded["hue"] = np.random.default_rng(0).permutation(faded["hue"])
found = robust_ot.compare(first, faded)
print(found)
for part in found.parts:
    print(f"{part['name']:<10} p = {part['p_value']:.3f}")

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
found.plot(axes)
figure.savefig("two_batches.png", dpi=150)
