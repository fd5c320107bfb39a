"""Make the samples behind `rot demo`: readings of eight sensors on three days.

Tuesday's readings are monday's with a little noise on every sensor. Wednesday's are monday's with a common change
of two sensors. The two changes are equally large in the plain sense (their W2 squared agrees within a few percent).

Run: pip install numpy, then python tools/make_demo_data.py crates/rot-cli/assets/demo
"""

import sys
from pathlib import Path

import numpy as np

SENSORS = ["temperature", "pressure", "vibration", "current", "humidity", "flow", "voltage", "noise"]
READINGS = 80


def main(folder: Path) -> None:
    rng = np.random.default_rng(7)
    monday = 2.0 * rng.normal(size=(READINGS, len(SENSORS)))
    tuesday = monday[rng.permutation(READINGS)] + 0.5 * rng.normal(size=monday.shape)
    wednesday = monday[rng.permutation(READINGS)] + 0.05 * rng.normal(size=monday.shape)
    change = rng.normal(1.0, 0.25, size=READINGS)
    wednesday[:, SENSORS.index("vibration")] += 1.0 * change
    wednesday[:, SENSORS.index("current")] -= 0.92 * change
    for name, sample in [("monday", monday), ("tuesday", tuesday), ("wednesday", wednesday)]:
        np.savetxt(folder / f"{name}.csv", sample, fmt="%.2f", delimiter=",", header=",".join(SENSORS), comments="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
