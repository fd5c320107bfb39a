"""`robust_ot.compare` beside other tests: rejections at 5 % of samples that differ in known ways, and of equal ones.

Every draw gives the same two samples to all tests: the maximum mean discrepancy (Gaussian kernel, median width) and the energy
distance with the same number of permutations, Kolmogorov-Smirnov for each column with Holm's adjustment, and two classifier
tests (logistic regression and a random forest; half the rows train, the ranks of the other half are tested). Equal samples are
given to `robust_ot.compare` alone: what is measured there is its size.

Run: python3 experiments/comparing.py --out FILE.jsonl [--draws 200] [--rows 50,150] [--columns 8,20,60] [--kinds mean,…]
     python3 experiments/comparing.py --out FILE.jsonl --data FOLDER --kinds gas,digits --rows 10
Cells are run in blocks of draws, all cells once before any has its second block; each block is a line of FILE.jsonl. A second
run continues there, and --table only prints. FOLDER has gas/batch1.csv, gas/batch2.csv and mnist/train-*.gz.
Needs numpy, scipy and scikit-learn.
"""

import argparse
import gzip
import json
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import robust_ot
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp, mannwhitneyu
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

LEVEL = 0.05
#: Draws in one line of the results.
BLOCK = 20
#: The size of each change with 100 rows a side; it falls with the square root of the number of rows.
SIZES = {
    "mean": 0.7,
    "two scales": 1.6,
    "correlation": 0.6,
    "rotation": 2.0,
    "mixture": 0.97,
    "contamination": 3.0,
    "many means": 0.2,
}
#: The kinds in which no column changes by itself, or only a little.
JOINT = ("correlation", "rotation", "mixture", "contamination")
NULLS = ("normal", "heavy tails", "ties")
#: Real samples: two batches of a gas sensor array (ethylene only), and the digits 4 and 9.
REAL = ("gas", "digits")
#: What changed is known, and all else has not changed.
LOCAL = ("mean", "two scales", "correlation")
RIVALS = ("MMD", "energy", "KS, Holm", "logistic", "forest")

Drawn = tuple[np.ndarray, np.ndarray, list]


def samples(kind: str, rows: tuple[int, int], columns: int, rng: np.random.Generator) -> Drawn:
    """Draws two samples, and says which columns or pair have changed."""
    m, n = rows
    x, y = rng.normal(size=(m, columns)), rng.normal(size=(n, columns))
    # Kinds with an upper end of their own keep their size.
    size = SIZES.get(kind, 0.0)
    factor = (200 / (m + n)) ** 0.5
    if kind == "heavy tails":
        return rng.standard_t(2.5, size=(m, columns)), rng.standard_t(2.5, size=(n, columns)), []
    if kind == "ties":
        return np.round(x), np.round(y), []
    if kind == "mean":
        y[:, 0] += size * factor
        return x, y, [0]
    if kind == "many means":
        return x, y + size * factor, []
    if kind == "two scales":
        y[:, :2] *= 1 + (size - 1) * factor
        return x, y, [0, 1]
    if kind == "correlation":
        r = min(size * factor, 0.95)
        y[:, 1] = -r * y[:, 0] + (1 - r * r) ** 0.5 * y[:, 1]
        return x, y, [(0, 1)]
    if kind == "rotation":
        spread = 1 + (size - 1) * factor
        scale = np.sqrt(np.linspace(1 / spread, spread, columns))
        turn, _ = np.linalg.qr(np.random.default_rng(7).normal(size=(columns, columns)))
        return x * scale, (y * scale) @ turn.T, []
    if kind == "mixture":
        u = np.zeros(columns)
        u[:2] = 0.5**0.5
        sign = rng.integers(0, 2, n) * 2 - 1
        return x, y + np.outer(y @ u, u) * ((1 - size**2) ** 0.5 - 1) + size * np.outer(sign, u), []
    if kind == "contamination":
        some = rng.random(n) < 0.05
        y[some, : max(2, columns // 4)] += size
        return x, y, []
    return x, y, []


@lru_cache
def gas(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """The readings of ethylene in two batches."""
    batches = []
    for number in (1, 2):
        lines = (data / f"gas/batch{number}.csv").read_text().splitlines()[1:]
        batches.append(np.array([line.split(",")[2:] for line in lines if line.startswith("Ethylene,")], dtype=float))
    return batches[0], batches[1]


@lru_cache
def digits(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """The fours and the nines among 60,000 handwritten digits."""
    images = np.frombuffer(gzip.decompress((data / "mnist/train-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((data / "mnist/train-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    images = images.reshape(len(labels), -1).astype(float)
    return images[labels == 4], images[labels == 9]


def real_samples(kind: str, rows: tuple[int, int], data: Path, rng: np.random.Generator) -> Drawn:
    """Draws some rows of each of two real samples; columns that are constant in both are left out."""
    sources: dict[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {"gas": gas, "digits": digits}
    x, y = (table[rng.choice(len(table), count, replace=False)] for table, count in zip(sources[kind](data), rows, strict=True))
    varies = np.ptp(np.vstack([x, y]), axis=0) > 0
    return x[:, varies], y[:, varies], []


def permutation_p(kernel: np.ndarray, m: int, permutations: int, rng: np.random.Generator) -> float:
    """The p-value of wᵀ K w for random arrangements of the rows."""
    total = len(kernel)
    weights = np.full((permutations + 1, total), -1 / (total - m))
    weights[0, :m] = 1 / m
    for row in weights[1:]:
        row[rng.permutation(total)[:m]] = 1 / m
    found = ((weights @ kernel) * weights).sum(axis=1)
    return float((found >= found[0] - 1e-12).mean())


def classifier_p(x: np.ndarray, y: np.ndarray, model: object, rng: np.random.Generator) -> float:
    """The p-value of the ranks of held-out rows."""
    rows, labels = np.vstack([x, y]), np.r_[np.zeros(len(x)), np.ones(len(y))]
    order = rng.permutation(len(rows))
    train, test = order[: len(rows) // 2], order[len(rows) // 2 :]
    held = labels[test]
    if min(labels[train].sum(), held.sum(), len(train) - labels[train].sum(), len(held) - held.sum()) == 0:
        return 1.0
    score = model.fit(rows[train], labels[train]).predict_proba(rows[test])[:, 1]
    return float(mannwhitneyu(score[held == 1], score[held == 0], alternative="greater").pvalue)


def rival_p_values(x: np.ndarray, y: np.ndarray, permutations: int, seed: int) -> dict[str, float]:
    """Runs the other tests."""
    rng = np.random.default_rng(seed)
    pooled = np.vstack([x, y])
    pooled = (pooled - pooled.mean(axis=0)) / pooled.std(axis=0)
    distances = cdist(pooled, pooled)
    width = np.median(distances[np.triu_indices(len(pooled), 1)])
    m = len(x)
    columns = [ks_2samp(x[:, f], y[:, f]).pvalue for f in range(x.shape[1])]
    return {
        "MMD": permutation_p(np.exp(-((distances / width) ** 2) / 2), m, permutations, rng),
        "energy": permutation_p(-distances, m, permutations, rng),
        "KS, Holm": min(1.0, min(columns) * len(columns)),
        "logistic": classifier_p(pooled[:m], pooled[m:], LogisticRegression(max_iter=500), rng),
        "forest": classifier_p(pooled[:m], pooled[m:], RandomForestClassifier(100, random_state=seed), rng),
    }


def attributed(found: robust_ot.Comparison, changed: list) -> tuple[bool, bool, bool]:
    """Whether what changed comes first, and whether a column or a pair is named that has not changed."""
    names = [str(column + 1) for column in changed if not isinstance(column, tuple)]
    pairs = [[str(a + 1), str(b + 1)] for a, b in (pair for pair in changed if isinstance(pair, tuple))]
    claimed = [row["name"] for row in found.features if row["p_value"] <= LEVEL]
    claimed_pairs = [row["names"] for row in found.pairs if row["p_value"] <= LEVEL]
    first = [row["name"] for row in found.features[: len(names)]]
    right = set(first) == set(names) and (not pairs or found.pairs[0]["names"] in pairs)
    return right, any(name not in names for name in claimed), any(pair not in pairs for pair in claimed_pairs)


def block(kind: str, rows: tuple[int, int], columns: int, first: int, options: argparse.Namespace) -> dict:
    """The number of draws in which each test rejects, and how often what changed is named."""
    rejected: dict[str, int] = {}
    counts = {"detected": 0, "right": 0, "false columns": 0, "false pairs": 0}
    start = time.process_time()
    for draw in range(first, first + BLOCK):
        rng = np.random.default_rng([draw, columns, *rows, sum(map(ord, kind))])
        x, y, changed = real_samples(kind, rows, options.data, rng) if kind in REAL else samples(kind, rows, columns, rng)
        found = robust_ot.compare(x, y, permutations=options.permutations, seed=draw)
        all_found = {"rot compare": found.p_value, **{f"part {part['name']}": part["p_value"] for part in found.parts}}
        if kind not in NULLS:
            all_found |= rival_p_values(x, y, options.permutations, draw)
        for name, p_value in all_found.items():
            rejected[name] = rejected.get(name, 0) + int(p_value <= LEVEL)
        right, false_column, false_pair = attributed(found, changed)
        counts["detected"] += found.differs
        counts["right"] += found.differs and right
        counts["false columns"] += false_column
        counts["false pairs"] += false_pair
    return {
        "kind": kind, "rows": rows, "columns": columns, "first": first, "draws": BLOCK, "permutations": options.permutations,
        "rejected": rejected, **counts, "seconds": round(time.process_time() - start, 1),
    }  # fmt: skip


def cells(lines: list[dict]) -> dict[tuple, dict]:
    """The blocks of each cell added up, as shares."""
    sums: dict[tuple, dict] = {}
    for line in lines:
        total = sums.setdefault((line["kind"], tuple(line["rows"]), line["columns"]), {"draws": 0, "rejected": {}})
        for name, count in line["rejected"].items():
            total["rejected"][name] = total["rejected"].get(name, 0) + count
        for name in ("draws", "detected", "right", "false columns", "false pairs"):
            total[name] = total.get(name, 0) + line[name]
    for total in sums.values():
        total["rejected"] = {name: count / total["draws"] for name, count in total["rejected"].items()}
    return sums


def size_table(sums: dict[tuple, dict]) -> str:
    """Rejections of equal samples."""
    text = ["| rows are | rows | columns | draws | rejected | a column named | a pair named |", "|---" * 7 + "|"]
    for (kind, rows, columns), total in sums.items():
        if kind in NULLS:
            draws = total["draws"]
            share = total["rejected"]["rot compare"]
            error = (max(share, 0.01) * (1 - share) / draws) ** 0.5
            named = [f"{total[name] / draws:.3f}" for name in ("false columns", "false pairs")]
            entries = [kind, " + ".join(map(str, rows)), str(columns), str(draws), f"{share:.3f} ± {error:.3f}", *named]
            text.append("| " + " | ".join(entries) + " |")
    return "\n".join(text)


def power_table(sums: dict[tuple, dict]) -> str:
    """Rejections of samples that differ, and the comparison with the best of the others."""
    tests = ["rot compare", *RIVALS]
    head = ["change", "rows", "columns", "draws", *tests, "changed first", "false column", "false pair"]
    text = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    short, ahead, detected, right = [], [], 0, 0
    for (kind, rows, columns), total in sums.items():
        if kind in NULLS:
            continue
        shares, draws = total["rejected"], total["draws"]
        best = max(shares[name] for name in RIVALS)
        short.append(max(best - shares["rot compare"], 0.0))
        if kind in JOINT and 0.2 <= best <= 0.8:
            ahead.append(shares["rot compare"] - best)
        # Columns change by themselves in rotations, mixtures and contamination: what is named there is not false.
        named = ["", "", ""]
        if kind in LOCAL:
            detected, right = detected + total["detected"], right + total["right"]
            named = [f"{total['right']} of {total['detected']}"]
            named += [f"{total[name] / draws:.2f}" for name in ("false columns", "false pairs")]
        entries = [kind, " + ".join(map(str, rows)), str(columns), str(draws), *(f"{shares[name]:.2f}" for name in tests)]
        text.append("| " + " | ".join([*entries, *named]) + " |")
    if short:
        text.append(f"\nMean shortfall from the best of the others {np.mean(short):.3f}, largest {max(short):.2f}.")
    if ahead:
        text.append(
            f"Joint changes that the best of the others finds in .2 to .8 of draws ({len(ahead)} rows): "
            f"ahead by {np.mean(ahead):.2f} on average."
        )
    if detected:
        text.append(f"What changed comes first in {right} of {detected} detected cases.")
    return "\n".join(text)


def main() -> None:
    """Fills the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--permutations", type=int, default=199)
    parser.add_argument("--rows", default="50,150", help="of each side; 50+80 for sides of different sizes")
    parser.add_argument("--columns", default="8,20,60")
    parser.add_argument("--kinds", default=",".join(SIZES))
    parser.add_argument("--data", type=Path, help="folder of gas/ and mnist/, for the kinds gas and digits")
    parser.add_argument("--table", action="store_true", help="only print the tables")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if options.data is None and not set(kinds).isdisjoint(REAL):
        parser.error("--data must name the folder of gas/ and mnist/ for the kinds gas and digits")
    lines = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    known = {(line["kind"], tuple(line["rows"]), line["columns"], line["first"]) for line in lines}
    sides = [side.partition("+") for side in options.rows.split(",")]
    sizes = [(int(m), int(n or m)) for m, _, n in sides]
    # Real samples have the columns that they have.
    wanted = [
        (kind, rows, columns)
        for rows in sizes
        for columns in map(int, options.columns.split(","))
        for kind in kinds
        if kind not in REAL
    ]
    wanted += [(kind, rows, 0) for rows in sizes for kind in kinds if kind in REAL]
    # The cheapest cells first.
    wanted.sort(key=lambda one: sum(one[1]) * one[2])
    for first in range(0, 0 if options.table else options.draws, BLOCK):
        for kind, rows, columns in wanted:
            if (kind, rows, columns, first) not in known:
                line = block(kind, rows, columns, first, options)
                lines.append(line)
                with options.out.open("a") as out:
                    out.write(json.dumps(line) + "\n")
    lines.sort(key=lambda line: (line["kind"], line["rows"], line["columns"]))
    sums = cells(lines)
    print(f"{size_table(sums)}\n\n{power_table(sums)}")


if __name__ == "__main__":
    main()
