"""`rot tune` on real data: what is found within a budget, and how the winner scores on test rows.

Every seed draws the candidates, the held-out rows and the order of rows; training rows are all of them, 100 per class of
MNIST and 36 per class of animals. Test rows are scored once, by the winner alone.

Run: python3 experiments/tuning.py FOLDER [--only corel5k,bibtex,…] [--select auc,map,p@1,rank] [--seeds N] [--budget 5m]
FOLDER is that of learning.py. Every result is a line of --out, and a second run continues there. Needs numpy and scipy.
"""

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

import numpy as np
from learning_scores import scores_of
from learning_sets import SETS, Data, Task, draw, load, write
from learning_tables import table

# The sets whose split or draw is fixed; few and hidden labels are not tuned for.
TUNED = [name for name in SETS if "-" not in name]
CRITERIA = ["auc", "map", "p@1", "semantic", "rank"]


def task_of(data: Data, name: str) -> Task:
    """All training rows that have a label, or a draw of some per class."""
    if SETS[name].per_class:
        return draw(data, SETS[name], 0)
    labeled = data.train_y.any(axis=1)
    fields = {field.name: getattr(data, field.name) for field in dataclasses.fields(Data)}
    return Task(**{**fields, "train_x": data.train_x[labeled], "train_y": data.train_y[labeled]})


def tune(command: str, task: Task, seed: int, select: str, budget: str) -> dict:
    """Tunes and predicts with the command. Returns the scores of the test rows and what won."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, test = write(task, folder)
        model, found = folder / "model.safetensors", folder / "found.npy"
        vectors = ["--label-vectors", str(folder / "vectors.npy"), "--missing", "zero"]
        search = ["--select", select, "--budget", budget, "--seed", str(seed), "--json", "--out", str(model)]
        tuned = subprocess.run([command, "tune", *train, *vectors, *search], capture_output=True, text=True, check=True)
        subprocess.run([command, "predict", model, "--x", test, "--out", found], capture_output=True, text=True, check=True)
        last = json.loads(tuned.stdout.splitlines()[-1])
        held = last["trials"][0]["scores"]
        kept = {name: last[name] for name in ("winner", "options", "seconds", "fitting_seconds", "folds")}
        return {**kept, "candidates": len(last["trials"]), "held": held, "scores": scores_of(np.load(found), task.test_y)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="FOLDER")
    parser.add_argument("--rot", default="rot", metavar="COMMAND", help="default: %(default)s")
    parser.add_argument("--only", default=",".join(TUNED), metavar="SETS", help="default: %(default)s")
    parser.add_argument("--select", default="auc,map,p@1,rank", metavar="CRITERIA", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("--budget", default="5m", metavar="TIME", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("out/tuning.jsonl"), metavar="FILE", help="default: %(default)s")
    chosen = parser.parse_args()
    names, criteria = chosen.only.split(","), chosen.select.split(",")
    for option, given, known in (("--only", names, TUNED), ("--select", criteria, CRITERIA)):
        unknown = sorted(set(given) - set(known))
        if unknown:
            parser.error(f"{option} must be among {', '.join(known)}, but has {', '.join(unknown)}")
    if shutil.which(chosen.rot) is None:
        parser.error(f"--rot must name the command, but there is no {chosen.rot}")
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    lines = chosen.out.read_text().splitlines() if chosen.out.exists() else []
    results = {(line["set"], line["select"], line["budget"], line["seed"]): line for line in map(json.loads, lines)}
    shown = []
    for name in names:
        task = None
        for select in criteria:
            of_seeds = []
            for seed in range(chosen.seeds):
                key = (name, select, chosen.budget, seed)
                if key not in results:
                    task = task or task_of(load(chosen.data, SETS[name].data), name)
                    found = tune(chosen.rot, task, seed, select, chosen.budget)
                    line = dict(zip(("set", "select", "budget", "seed"), key, strict=True)) | found
                    with open(chosen.out, "a") as out:
                        out.write(json.dumps(line) + "\n")
                    print(f"{name} {select} {seed}: {found['scores']}", file=sys.stderr, flush=True)
                    results[key] = line
                of_seeds.append(results[key])
            means = [f"{fmean(line['scores'][score] for line in of_seeds):.3f}" for score in ("auc", "map", "p1")]
            share = fmean(line["fitting_seconds"] / line["seconds"] for line in of_seeds)
            candidates = fmean(line["candidates"] for line in of_seeds)
            shown.append([name, select, *means, f"{candidates:.0f}", f"{100 * share:.0f} %"])
    print(table(["set", "selected by", "AUC", "mAP", "P@1", "candidates", "in fits"], shown))


if __name__ == "__main__":
    main()
