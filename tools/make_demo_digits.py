"""Writes crates/rot-cli/assets/digits from scikit-learn's copy of the UCI digits. Run: python3 tools/make_demo_digits.py

The images are 8 × 8 with values from 0 to 16; images and labels are IDX files. The label vectors are our own: the
segments of a seven-segment display that each digit lights, so that similar-looking digits are close.
"""
import struct
from pathlib import Path

from sklearn.datasets import load_digits

NAMES = "zero one two three four five six seven eight nine".split()
# Top, upper left, upper right, middle, lower left, lower right, bottom.
SEGMENTS = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]

folder = Path(__file__).parents[1] / "crates" / "rot-cli" / "assets" / "digits"
folder.mkdir(parents=True, exist_ok=True)
digits = load_digits()
images = digits.images.astype("uint8")
labels = digits.target.astype("uint8")
(folder / "images.idx").write_bytes(struct.pack(">HBBIII", 0, 8, 3, *images.shape) + images.tobytes())
(folder / "labels.idx").write_bytes(struct.pack(">HBBI", 0, 8, 1, len(labels)) + labels.tobytes())
lines = [f"{name} {' '.join(segments)}" for name, segments in zip(NAMES, SEGMENTS)]
(folder / "segments.vec").write_text(f"{len(NAMES)} 7\n" + "\n".join(lines) + "\n")
(folder / "names.txt").write_text("\n".join(NAMES) + "\n")
