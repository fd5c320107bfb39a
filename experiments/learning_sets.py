"""The tasks of the benchmark: which rows train and test, which labels are hidden, and the files that rot reads."""

import gzip
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import sparse

DIGITS = "zero one two three four five six seven eight nine".split()
VECTORS = {"mnist": "digits", "animals": "cifar100-animals", "flickr8k": "flickr8k-tags"}
# The fraction of the training rows that a seed draws where the split into training and test rows is fixed.
PART = 0.9


@dataclass(frozen=True)
class Setting:
    """How a seed draws from a data set: rows per class or a fraction of all rows, and how many labels are hidden."""

    data: str
    per_class: int | None = None
    hidden: int = 0


SETS = {
    "slashdot": Setting("slashdot"),
    "chess": Setting("chess"),
    "bibtex": Setting("bibtex"),
    "corel5k": Setting("corel5k"),
    "delicious": Setting("delicious"),
    "flickr8k": Setting("flickr8k"),
    "mnist": Setting("mnist", per_class=100),
    "animals": Setting("animals", per_class=36),
    **{f"mnist-{rows}": Setting("mnist", per_class=rows) for rows in (1, 2, 5, 10)},
    **{f"animals-{rows}": Setting("animals", per_class=rows) for rows in (1, 2, 5, 10)},
    "flickr8k-hidden": Setting("flickr8k", hidden=200),
    "animals-hidden": Setting("animals", hidden=10),
}


@dataclass
class Data:
    """Rows, 0/1 labels, label names, and one vector of length one per label: zero where a label has none."""

    train_x: np.ndarray | sparse.csr_array
    train_y: np.ndarray
    test_x: np.ndarray | sparse.csr_array
    test_y: np.ndarray
    names: list[str]
    vectors: np.ndarray


@dataclass
class Task(Data):
    """What a method may see, and the parts (rows, labels) of the test rows that are scored."""

    seed: int = 0
    hidden: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    parts: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def single(self) -> bool:
        """Whether every training row has one label."""
        return bool((self.train_y.sum(axis=1) == 1).all())


def load(folder: Path, name: str) -> Data:
    """Reads a data set. Test rows without labels are left out."""
    x, y, names = {"mnist": read_mnist, "animals": read_animals, "flickr8k": read_flickr}.get(name, read_indexed)(folder / name)
    labeled = y["test"].any(axis=1)
    vectors = read_vectors(folder / "labels" / f"{VECTORS.get(name, name)}.glove100.vec", names)
    return Data(x["train"], y["train"], x["test"][labeled], y["test"][labeled], names, vectors)


def indicator(rows: list[list[int]], labels: int) -> np.ndarray:
    """A matrix of 0 and 1 with a row per list of labels."""
    found = np.zeros((len(rows), labels), bool)
    for row, chosen in enumerate(rows):
        found[row, chosen] = True
    return found


def read_mnist(folder: Path):
    x, y = {}, {}
    for part, file in (("train", "train"), ("test", "t10k")):
        images = gzip.open(folder / f"{file}-images-idx3-ubyte.gz").read()[16:]
        labels = gzip.open(folder / f"{file}-labels-idx1-ubyte.gz").read()[8:]
        x[part] = np.frombuffer(images, np.uint8).reshape(-1, 784).astype(np.float32) / 255
        y[part] = np.eye(10, dtype=bool)[np.frombuffer(labels, np.uint8)]
    return x, y, DIGITS


def read_animals(folder: Path):
    names = (folder / "labels.txt").read_text().split()
    x = {part: np.load(folder / f"{part}_x.npy") for part in ("train", "test")}
    y = {part: np.eye(len(names), dtype=bool)[np.load(folder / f"{part}_y.npy")] for part in ("train", "test")}
    return x, y, names


def read_flickr(folder: Path):
    names = (folder / "labels.txt").read_text().split()
    place = {name: label for label, name in enumerate(names)}
    x, y = {}, {}
    for part in ("train", "test"):
        x[part] = np.load(folder / f"{part}_x.npy")
        lines = (folder / f"{part}_tags.txt").read_text().split("\n")[: len(x[part])]
        y[part] = indicator([[place[tag] for tag in line.split(",") if tag] for line in lines], len(names))
    return x, y, names


def read_indexed(folder: Path):
    """The extreme-classification format: `rows features labels`, then `l1,l2 f:v …`, counted from 0."""
    lines = (folder / "labels.txt").read_text().split("\n")
    names = [re.sub("^tag_", "", line, flags=re.IGNORECASE) for line in lines if line]
    x, y = {}, {}
    for part in ("train", "test"):
        header, *rows = (folder / f"{part}.txt").read_text().rstrip("\n").split("\n")
        count, features, labels = map(int, header.split())
        start, columns, values, chosen = [0], [], [], []
        for row in rows:
            tags, *pairs = row.split(" ")
            chosen.append([int(tag) for tag in tags.split(",") if tag])
            for column, value in (pair.split(":") for pair in pairs if pair):
                columns.append(int(column))
                values.append(float(value))
            start.append(len(columns))
        x[part] = sparse.csr_array((values, columns, start), shape=(count, features))
        y[part] = indicator(chosen, labels)
    return x, y, names


def read_vectors(file: Path, names: list[str]) -> np.ndarray:
    """The vectors of the labels by their names, with `_` for spaces, as they are or in lower case."""
    found = {}
    with open(file, encoding="utf-8") as lines:
        width = int(next(lines).split()[1])
        for line in lines:
            word, *values = line.rstrip().split(" ")
            found[word] = np.array(values, float)
    vectors = np.zeros((len(names), width))
    for label, name in enumerate(names):
        spelled = name.replace(" ", "_")
        vectors[label] = next((found[word] for word in (name, spelled, spelled.lower()) if word in found), 0)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny)


def draw(data: Data, setting: Setting, seed: int) -> Task:
    """The task of a seed. Training rows without labels are left out."""
    rng = np.random.default_rng(seed)
    labels = np.arange(len(data.names))
    everything = np.ones(len(data.test_y), bool)
    train_y, hidden, parts = data.train_y, np.zeros(0, int), {"": (everything, labels)}
    if setting.hidden:
        hidden = np.sort(rng.permutation(labels)[: setting.hidden])
        rows = np.arange(len(train_y))
        train_y = train_y.copy()
        train_y[:, hidden] = False
        parts = {"seen ": (everything, np.setdiff1d(labels, hidden)), "hidden ": (everything, hidden)}
        if (data.test_y.sum(axis=1) == 1).all():
            parts["among hidden "] = (data.test_y[:, hidden].any(axis=1), hidden)
    elif setting.per_class:
        classes = [np.flatnonzero(train_y[:, label]) for label in labels]
        rows = np.concatenate([rng.permutation(rows)[: setting.per_class] for rows in classes])
    else:
        rows = np.sort(rng.permutation(len(train_y))[: round(PART * len(train_y))])
    rows = rows[train_y[rows].any(axis=1)]
    return Task(data.train_x[rows], train_y[rows], data.test_x, data.test_y, data.names, data.vectors, seed, hidden, parts)


def write(task: Task, folder: Path) -> tuple[list[str], Path]:
    """Writes what rot reads. Returns the options of the training rows and names, and the file of the test rows."""
    (folder / "names.txt").write_text("".join(name + "\n" for name in task.names))
    np.save(folder / "vectors.npy", task.vectors)
    names = ["--label-names", str(folder / "names.txt")]
    if sparse.issparse(task.train_x):
        write_indexed(folder / "train.txt", task.train_x, task.train_y)
        write_indexed(folder / "test.txt", task.test_x, task.test_y)
        return ["--train-x", str(folder / "train.txt"), *names], folder / "test.txt"
    np.save(folder / "train_x.npy", task.train_x)
    np.save(folder / "test_x.npy", task.test_x)
    np.save(folder / "train_y.npy", task.train_y.argmax(axis=1) if task.single else task.train_y.astype(np.uint8))
    train = ["--train-x", str(folder / "train_x.npy"), "--train-y", str(folder / "train_y.npy")]
    return [*train, *names], folder / "test_x.npy"


def write_indexed(file: Path, x: sparse.csr_array, y: np.ndarray) -> None:
    with open(file, "w") as out:
        out.write(f"{x.shape[0]} {x.shape[1]} {y.shape[1]}\n")
        for row in range(x.shape[0]):
            span = slice(x.indptr[row], x.indptr[row + 1])
            pairs = "".join(f" {column}:{value:.9g}" for column, value in zip(x.indices[span], x.data[span], strict=True))
            out.write(",".join(map(str, np.flatnonzero(y[row]))) + pairs + "\n")
