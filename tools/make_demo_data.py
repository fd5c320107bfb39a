"""Makes the samples for `rot demo` and the README: readings of eight sensors on five days.

Tuesday's readings are Monday's with a little noise on every sensor. Wednesday's are Monday's with a joint change of two
sensors. Plain transport finds the two changes equally large: their W2 squared agrees within a few percent. On Thursday
the change has grown; on Friday it is gone.

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
    thursday = wednesday[rng.permutation(READINGS)] + 0.2 * rng.normal(size=monday.shape)
    thursday[:, SENSORS.index("vibration")] += 0.4
    thursday[:, SENSORS.index("current")] -= 0.4
    friday = monday[rng.permutation(READINGS)] + 0.2 * rng.normal(size=monday.shape)
    days = {"1-monday": monday, "2-tuesday": tuesday, "3-wednesday": wednesday, "4-thursday": thursday, "5-friday": friday}
    for name, sample in days.items():
        np.savetxt(folder / f"{name}.csv", sample, fmt="%.2f", delimiter=",", header=",".join(SENSORS), comments="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
