"""`rot train` against tuned baselines on real data: scores of test rows, paired differences, seconds.

Each seed draws other training rows: so many per class of MNIST and animals, 90 % where the split is fixed, all of them where
labels are hidden, of which each seed draws others. Every method of a seed has the same rows and chooses on them alone, within
the limit; what takes longer is recorded as over time. OMP_NUM_THREADS and RAYON_NUM_THREADS limit threads. The limit is one of
the clock: on a busy machine, raise it and look at the seconds of the processors.

Run: make compare-learning DATA=FOLDER, or python3 experiments/learning.py FOLDER [--only slashdot,chess,…] [--seeds N]
FOLDER contains animals, bibtex, chess, corel5k, delicious, flickr8k, mnist, slashdot and labels. Every result is a line of
--out, and a second run continues there: failures, and what was over time under a lower limit, are tried again.
Needs numpy, scipy and scikit-learn.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from learning_baselines import methods, scores_by
from learning_scores import restricted, scores_of
from learning_sets import SETS, Task, draw, load, write
from learning_tables import tables

# Options of rot train with label vectors or without.
OURS = {
    "rot train": (True, []),
    "rot train, no prior": (True, ["--label-prior", "none"]),
    "rot train, no vectors": (False, []),
}


def rot(command: str, task: Task, folder: Path, files: tuple[list[str], Path], method: str) -> tuple[np.ndarray, dict]:
    """Trains and predicts with the command. Returns the probabilities of the test rows, and what it chose."""
    train, test = files
    with_vectors, options = OURS[method]
    if with_vectors:
        options = [*options, "--label-vectors", str(folder / "vectors.npy"), "--missing", "zero"]
    model, found = folder / "model.safetensors", folder / "found.npy"
    trained = subprocess.run(
        [command, "train", "--json", *train, *options, "--seed", str(task.seed), "--out", model],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    subprocess.run([command, "predict", model, "--x", test, "--out", found], capture_output=True, text=True, check=True)
    about = json.loads(trained.stdout.splitlines()[-1])["about"]
    return np.load(found), {name: about.get(name) for name in ("loss", "prior", "l2", "extension", "gap")}


def timed(work, limit: float) -> dict:
    """Runs `work` in a process of its own. Returns its scores, choices and seconds; or `status` says what went wrong."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        # A group of its own, so that commands that it started end with it.
        os.setsid()
        start = time.perf_counter()
        try:
            scores, chosen = work()
            theirs.send({"status": "done", "seconds": time.perf_counter() - start, "chosen": chosen, "scores": scores})
        except subprocess.CalledProcessError as error:
            theirs.send({"status": "failed", "why": error.stderr.strip().splitlines()[-1:]})
        except Exception:
            theirs.send({"status": "failed", "why": traceback.format_exc().splitlines()[-3:]})

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(limit) else {"status": "over time", "seconds": limit}
    except EOFError:
        found = {"status": "failed", "why": ["the process ended without a result"]}
    finally:
        if process.is_alive():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found | {"cpu_seconds": used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime}


def run(task: Task, method: str, command: str, folder: Path, files, limit: float) -> dict:
    """One model of one task: its scores in every part of the test rows."""
    if method in OURS:
        found = timed(lambda: rot(command, task, folder, files, method), limit)
    else:
        found = timed(lambda: scores_by(method, task, limit), limit)
    if found["status"] == "done":
        scores = np.asarray(found["scores"], float)
        if scores.shape != task.test_y.shape:
            raise SystemExit(f"{method}: scores must be {task.test_y.shape}, but are {scores.shape}")
        found["scores"] = {
            f"{part}{name}": value
            for part, (rows, labels) in task.parts.items()
            for name, value in scores_of(restricted(scores, rows, labels), task.test_y[np.ix_(rows, labels)]).items()
        }
    return found


def settled(line: dict | None, limit: float) -> bool:
    """Whether a result needs no second try under this limit."""
    return line is not None and (line["status"] == "done" or (line["status"] == "over time" and line["seconds"] >= limit))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="FOLDER")
    parser.add_argument("--rot", default="rot", metavar="COMMAND", help="default: %(default)s")
    parser.add_argument("--only", default=",".join(SETS), metavar="SETS", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="for one model, default: %(default)s")
    parser.add_argument(
        "--out", type=Path, default=Path("out/learning.jsonl"), metavar="FILE.jsonl", help="default: %(default)s"
    )
    chosen = parser.parse_args()
    names = chosen.only.split(",")
    unknown = sorted(set(names) - set(SETS))
    if unknown:
        parser.error(f"--only must name sets among {', '.join(SETS)}, but has {', '.join(unknown)}")
    if shutil.which(chosen.rot) is None:
        parser.error(f"--rot must name the command, but there is no {chosen.rot}")
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    lines = chosen.out.read_text().splitlines() if chosen.out.exists() else []
    results = {(line["set"], line["seed"], line["method"]): line for line in map(json.loads, lines)}
    for name in names:
        data = None
        for seed in range(chosen.seeds):
            data = data or load(chosen.data, SETS[name].data)
            task, files = draw(data, SETS[name], seed), None
            for method in [*OURS, *methods(task)]:
                if settled(results.get((name, seed, method)), chosen.limit):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    files = write(task, Path(folder)) if method in OURS else None
                    found = run(task, method, chosen.rot, Path(folder), files, chosen.limit)
                line = {"set": name, "seed": seed, "method": method, **found}
                results[name, seed, method] = line
                with open(chosen.out, "a") as out:
                    out.write(json.dumps(line) + "\n")
                print(f"{name} {seed} {method}: {found['status']} {found.get('why', '')}", file=sys.stderr, flush=True)
    wanted = [line for line in results.values() if line["set"] in names and line["seed"] < chosen.seeds]
    print(tables(wanted, names, list(OURS)))


if __name__ == "__main__":
    main()
