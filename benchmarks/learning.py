"""Measures the seconds per epoch of `rot train` and how they grow. Run: make bench-learning

Needs only Python and a release build. The data are random bytes, since times do not depend on the values.
Writes benchmarks/LEARNING.md.
"""

import json
import os
import random
import statistics
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROT = ROOT / "target" / "release" / "rot"
VECTOR = 300


def npy(path: Path, rows: int, columns: int, seed: int) -> None:
    """Writes a matrix of random bytes."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    path.write_bytes(start + random.Random(seed).randbytes(rows * columns))


def train(folder: Path, rows: int, features: int, labels: int, a_row: int, options: str, epochs: int = 5) -> dict:
    """Trains on data of this size and returns the last line of the output."""
    rng = random.Random(rows + features + labels + a_row)
    if not (folder / f"{rows}x{features}.npy").exists():
        npy(folder / f"{rows}x{features}.npy", rows, features, 1)
    vectors = folder / f"{labels}.vec"
    if not vectors.exists():
        lines = [f"n{i} " + " ".join(f"{rng.gauss(0, 1):.4f}" for _ in range(VECTOR)) for i in range(labels)]
        vectors.write_text(f"{labels} {VECTOR}\n" + "\n".join(lines) + "\n")
        (folder / f"{labels}.names").write_text("".join(f"n{i}\n" for i in range(labels)))
    tags = [",".join(f"n{i}" for i in rng.sample(range(labels), a_row)) for _ in range(rows)]
    (folder / "tags.txt").write_text("\n".join(tags) + "\n")
    command = (
        f"{ROT} train --train-x {folder}/{rows}x{features}.npy --train-y {folder}/tags.txt --label-names {folder}/{labels}.names"
        f" --label-vectors {vectors} --optimizer sgd --lr 1e-9 --weight-decay 0.0005 --bias no --epochs {epochs} --json {options}"
    )
    done = subprocess.run(command.split(), capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def shown(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def main() -> None:
    subprocess.run(["cargo", "build", "--release", "--locked", "--package", "rot-cli"], cwd=ROOT, check=True)
    out = [
        "# Training, seconds per epoch",
        "",
        f"`make bench-learning` on {os.cpu_count()} cores: the median epoch of runs of `rot train` on random data with label vectors",
        f"of {VECTOR} numbers, batches of 150, one Frank-Wolfe and ten Sinkhorn iterations unless it is the default mix. Times of other implementations",
        "were published by their authors or measured elsewhere.",
        "",
        "| what | seconds per epoch | target | peak memory |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = [
            ("MNIST size: 1000 rows, 784 features, 10 labels, r = 20", (1000, 784, 10, 1), "--loss p --groups 20", "5 ms (authors' code: 76 ms)", 50),
            ("300 rows, 784 features, 1000 labels, 5 per row, r = 20", (300, 784, 1000, 5), "--loss p --groups 20 --loss-tolerance 0", "0.2 s and 300 MB (authors' code: 359 s, 9.7 GB)", 9),
            ("Flickr size: 10,000 rows, 4096 features, 1000 labels, 5 per row, r = 20", (10000, 4096, 1000, 5), "--loss p --groups 20 --loss-tolerance 0", "4 s and 1.5 GB (paper, GPU: 87.5 s)", 5),
        ]
        # Single-label rows have one plan; for others the paper takes ten iterations, and the default all that W needs.
        sizes += [
            ("300 rows, 784 features, 1000 labels, 5 per row, the default mix", (300, 784, 1000, 5), "--loss mix", "", 5),
            ("Flickr size, the default mix", (10000, 4096, 1000, 5), "--loss mix", "", 3),
        ]
        for what, size, options, limit, epochs in sizes:
            found = train(folder, *size, options, epochs)
            out.append(f"| {what} | {shown(found['seconds_per_epoch'])} | {limit} | {found['peak_rss_bytes'] / 1e6:.0f} MB |")
        out += ["", "## Losses, MNIST size", "", "| loss | seconds per epoch | relative to p |", "|---|---|---|"]
        base = None
        for loss in ["p --groups 20", "ce", "p --groups 20 --k 2", "kl --groups 20", "ds --groups 20", "features --groups 20", "w2", "srw --k 2", "srw --k 5", "rkp --rho 4", "rkp --rho inf"]:
            seconds = statistics.median(train(folder, 1000, 784, 10, 1, f"--loss {loss}", 50)["seconds_per_epoch"] for _ in range(3))
            base = base or seconds
            out.append(f"| {loss} | {shown(seconds)} | {seconds / base:.2f} |")
        out += ["", "## Growth", "", "600 rows, 100 features, 1000 labels, 5 per row, r = 20; one of them varies at a time.", "", "| | | | | | |", "|---|---|---|---|---|---|"]
        middle = {"rows": 600, "labels": 1000, "labels per row": 5, "r": 20}
        for key, values in {"rows": [150, 300, 600, 1200, 2400], "labels": [250, 500, 1000, 2000, 4000], "labels per row": [2, 4, 8, 16, 32], "r": [2, 5, 10, 20, 30]}.items():
            times = []
            for value in values:
                size = middle | {key: value}
                options = f"--loss p --groups {size['r']} --loss-tolerance 0"
                runs = [train(folder, size["rows"], 100, size["labels"], size["labels per row"], options, 7) for _ in range(3)]
                times.append(statistics.median(found["seconds_per_epoch"] for found in runs))
            out.append(f"| {key} | " + " | ".join(str(value) for value in values) + " |")
            out.append("| seconds per epoch | " + " | ".join(shown(time) for time in times) + " |")
    text = "\n".join(out) + "\n"
    (ROOT / "benchmarks" / "LEARNING.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
