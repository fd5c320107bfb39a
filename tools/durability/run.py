"""Kills `rot train` and cuts its power at random moments, resumes it, and compares the model with that of a run left alone.

    tools/durability/run.py target/release/rot --kills 500 --cuts 200 --seed 0

A cut loses what was not synced (lose_writes.c). Whatever happened, the run must continue from a whole checkpoint or start
anew, and end with the same bytes, also on another number of threads.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROWS, FEATURES, LABELS, EPOCHS = 40, 6, 4, 12


def write_data(folder, chance):
    """Rows around one center per label, and vectors for the labels."""
    centers = [[chance.gauss(0, 2) for _ in range(FEATURES)] for _ in range(LABELS)]
    truth = [row % LABELS for row in range(ROWS)]
    rows = [[repr(x + chance.gauss(0, 1)) for x in centers[label]] for label in truth]
    (folder / "x.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    (folder / "y.txt").write_text("".join(f"{label}\n" for label in truth))
    names = [f"label{label}" for label in range(LABELS)]
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
    vectors = [f"{name} " + " ".join(repr(chance.gauss(0, 1)) for _ in range(5)) for name in names]
    (folder / "words.vec").write_text(f"{LABELS} 5\n" + "\n".join(vectors) + "\n")


def command(rot, folder, threads):
    data = [f"--train-x={folder}/x.csv", f"--train-y={folder}/y.txt", f"--label-names={folder}/names.txt"]
    loss = [f"--label-vectors={folder}/words.vec", "--optimizer=adam", f"--epochs={EPOCHS}", "--loss=mix"]
    run = [f"--threads={threads}", f"--checkpoint={folder}/run", "--resume", f"--out={folder}/run/model.safetensors"]
    return [str(rot), "train", *data, *loss, *run]


class Trial:
    """One folder in which a run is disturbed and then finished."""

    def __init__(self, rot, folder, threads):
        self.rot, self.folder, self.threads = rot, folder, threads
        self.run = folder / "run"
        self.run.mkdir(exist_ok=True)

    def start(self, extra=None, threads=None):
        environment = {**os.environ, **(extra or {})}
        arguments = command(self.rot, self.folder, threads or self.threads)
        return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, threads=None):
        """Runs to the end; returns the model and where the run began."""
        process = self.start(threads=threads)
        said, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"a run that was resumed ended with {process.returncode}:\n{said}")
        begun = "resumed" if "continuing after" in said else "begun anew"
        return (self.run / "model.safetensors").read_bytes(), begun

    def clear(self):
        shutil.rmtree(self.run)
        self.run.mkdir()


def shim(folder):
    library = folder / "lose_writes.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "lose_writes.c", "-ldl"], check=True)
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rot", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=50, help="runs killed at a random moment")
    parser.add_argument("--cuts", type=int, default=50, help="runs whose power is cut at a random write")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_data(folder, chance)
        trial = Trial(options.rot.resolve(), folder, threads=1)
        start = time.monotonic()
        whole, _ = trial.finish()
        seconds = time.monotonic() - start
        outcomes = collections.Counter()

        def check(disturbed):
            threads = chance.choice([1, 2, 3])
            model, begun = trial.finish(threads)
            for lost in trial.run.glob("*.lost*"):
                lost.unlink()
            if model != whole:
                kept = pathlib.Path(f"durability-{disturbed.replace(' ', '-')}.safetensors")
                kept.write_bytes(model)
                raise SystemExit(f"seed {options.seed}, {disturbed}: another model, kept as {kept}")
            outcomes[disturbed.split()[0], begun] += 1

        for kill in range(options.kills):
            trial.clear()
            # Some runs are killed twice.
            for _ in range(chance.choice([1, 1, 2])):
                process = trial.start()
                time.sleep(chance.uniform(0, 1.1 * seconds))
                process.send_signal(signal.SIGKILL)
                process.communicate()
            check(f"kill {kill}")

        library = shim(folder)
        environment = {"LD_PRELOAD": str(library), "LOSE_BELOW": str(trial.run)}
        trial.clear()
        counted = trial.start({**environment, "LOSE_COUNT": str(folder / "calls")})
        counted.communicate()
        calls = int((folder / "calls").read_text())
        for cut in range(options.cuts):
            trial.clear()
            lose = {"LOSE_AT": str(chance.randint(1, calls)), "LOSE_SEED": str(chance.randrange(1 << 31))}
            process = trial.start({**environment, **lose})
            process.communicate()
            if process.returncode != -signal.SIGKILL:
                raise SystemExit(f"seed {options.seed}, cut {cut}: the power did not fail, {lose}")
            check(f"cut {cut}")

    for (disturbed, begun), count in sorted(outcomes.items()):
        print(f"{count:6} × {disturbed}, then {begun}: the same model")
    print(f"a run takes {seconds:.2f} s and {calls} calls that change files")


if __name__ == "__main__":
    sys.exit(main())
