"""How the weight of transport in `rot train --loss mix` was chosen: on validation splits, never on test rows.

Each training set is split once, and the held-out part is scored. On the rest, `rot train` runs with its defaults (which
hold out another tenth for early stopping) for several seeds, with cross-entropy and with the mix.

Run: cargo build --release, then python3 experiments/choose_mix.py DATA [--seeds N] [--sets mnist,animals,…]
DATA contains the folders animals, corel5k, delicious, flickr8k, mnist and labels. Needs numpy.
"""

import argparse
import gzip
import json
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROT = Path(__file__).parents[1] / "target" / "release" / "rot"
DIGITS = "zero one two three four five six seven eight nine".split()
OPTIONS = ["--loss ce", "--loss mix --mix-ot 2", "--loss mix", "--loss mix --groups 20"]


def split_arrays(folder: Path, x, y, held: int, rng) -> None:
    order = rng.permutation(len(x))
    for part, rows in (("held", order[:held]), ("train", order[held:])):
        np.save(folder / f"{part}_x.npy", x[rows])
        if isinstance(y, list):
            (folder / f"{part}_y.txt").write_text("".join(y[row] + "\n" for row in rows))
        else:
            np.save(folder / f"{part}_y.npy", y[rows])


def arrays(folder: Path, ending: str, names: Path, vectors: Path) -> str:
    return (
        f"--train-x {folder}/train_x.npy --train-y {folder}/train_y.{ending} --test-x {folder}/held_x.npy"
        f" --test-y {folder}/held_y.{ending} --label-names {names} --label-vectors {vectors}"
    )


def prepare(name: str, data: Path, folder: Path, rng) -> str:
    """Splits a training set and returns the options that name its parts."""
    vectors = data / "labels"
    if name == "mnist":
        images = gzip.open(data / "mnist" / "train-images-idx3-ubyte.gz").read()[16:]
        labels = gzip.open(data / "mnist" / "train-labels-idx1-ubyte.gz").read()[8:]
        x = np.frombuffer(images, np.uint8).reshape(-1, 784).astype(np.float32) / 255
        y = np.frombuffer(labels, np.uint8).astype(np.int64)
        by_class = [rng.permutation(np.flatnonzero(y == c)) for c in range(10)]
        for part, take in (("train", slice(0, 100)), ("held", slice(100, 400))):
            rows = np.concatenate([rows[take] for rows in by_class])
            np.save(folder / f"{part}_x.npy", x[rows])
            np.save(folder / f"{part}_y.npy", y[rows])
        (folder / "names.txt").write_text("\n".join(DIGITS) + "\n")
        return arrays(folder, "npy", folder / "names.txt", vectors / "digits.glove100.vec")
    if name == "animals":
        x, y = np.load(data / "animals" / "train_x.npy"), np.load(data / "animals" / "train_y.npy")
        split_arrays(folder, x, y, len(x) // 4, rng)
        return arrays(folder, "npy", data / "animals" / "labels.txt", vectors / "cifar100-animals.glove100.vec")
    if name == "flickr8k":
        x = np.load(data / "flickr8k" / "train_x.npy")
        tags = (data / "flickr8k" / "train_tags.txt").read_text().split("\n")[: len(x)]
        split_arrays(folder, x, tags, 1000, rng)
        options = arrays(folder, "txt", data / "flickr8k" / "labels.txt", vectors / "flickr8k-tags.glove100.vec")
        return options + " --missing drop --empty skip"
    lines = (data / name / "train.txt").read_text().split("\n")
    header, rows = lines[0].split(), [line for line in lines[1:] if line]
    order = rng.permutation(len(rows))
    held = len(rows) // 5
    for part, chosen in (("held", order[:held]), ("train", order[held:])):
        text = f"{len(chosen)} {header[1]} {header[2]}\n" + "".join(rows[row] + "\n" for row in chosen)
        (folder / f"{part}.txt").write_text(text)
    names = [re.sub("^TAG_", "", line) for line in (data / name / "labels.txt").read_text().split("\n") if line]
    (folder / "names.txt").write_text("".join(line + "\n" for line in names))
    return (
        f"--xmc {folder}/train.txt {folder}/held.txt --label-names {folder}/names.txt"
        f" --label-vectors {vectors}/{name}.glove100.vec --missing drop --empty skip"
    )


def scores(rot: Path, options: str) -> list[float]:
    done = subprocess.run(f"{rot} train --json {options}".split(), capture_output=True, text=True, check=True)
    test = json.loads(done.stdout.splitlines()[-1])["test"]
    return [test[key] for key in ("auc", "map", "accuracy", "semantic_cost")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rot", type=Path, default=ROT)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", default="mnist,animals,corel5k,flickr8k,delicious")
    parser.add_argument("--try", dest="options", action="append", help="options of rot train, such as --try='--loss ce'")
    chosen = parser.parse_args()
    print("| data | options | AUC | mAP | accuracy | semantic cost |\n|---|---|---|---|---|---|")
    for name in chosen.sets.split(","):
        with tempfile.TemporaryDirectory() as folder:
            files = prepare(name, chosen.data, Path(folder), np.random.default_rng(1))
            base = None
            for options in chosen.options or OPTIONS:
                found = np.array([scores(chosen.rot, f"{files} {options} --seed {seed}") for seed in range(chosen.seeds)])
                base = found if base is None else base
                gain = found - base
                error = gain.std(axis=0) / max(1, chosen.seeds - 1) ** 0.5
                cells = [f"{m:.4f} ({g:+.4f} ± {e:.4f})" for m, g, e in zip(found.mean(axis=0), gain.mean(axis=0), error)]
                print(f"| {name} | `{options}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
