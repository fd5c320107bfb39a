"""`robust_ot.compare` beside other tests: rejections at 5 % of samples that differ in known ways, and of equal ones.

Every draw gives the same two samples to all tests: the maximum mean discrepancy (Gaussian kernel, median width) and the energy
distance with the same number of permutations, Kolmogorov-Smirnov for each column with Holm's adjustment, and two classifier
tests (logistic regression and a random forest; half the rows train, the ranks of the other half are tested).

Run: python3 experiments/comparing.py --out FILE.jsonl [--draws 100] [--rows 50,150] [--columns 8,20,60] [--kinds mean,…]
Every cell of the table is a line of FILE.jsonl; a second run continues there. The table is printed at the end.
Needs numpy, scipy and scikit-learn.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import robust_ot
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp, mannwhitneyu
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

LEVEL = 0.05
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


def samples(kind: str, rows: tuple[int, int], columns: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list]:
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
    score = model.fit(rows[train], labels[train]).predict_proba(rows[test])[:, 1]
    held = labels[test]
    return float(mannwhitneyu(score[held == 1], score[held == 0], alternative="greater").pvalue)


def p_values(x: np.ndarray, y: np.ndarray, permutations: int, seed: int) -> tuple[dict[str, float], robust_ot.Comparison]:
    """Runs every test."""
    rng = np.random.default_rng(seed)
    pooled = np.vstack([x, y])
    pooled = (pooled - pooled.mean(axis=0)) / pooled.std(axis=0)
    distances = cdist(pooled, pooled)
    width = np.median(distances[np.triu_indices(len(pooled), 1)])
    m = len(x)
    columns = [ks_2samp(x[:, f], y[:, f]).pvalue for f in range(x.shape[1])]
    found = robust_ot.compare(x, y, permutations=permutations, seed=seed)
    parts = {part["name"]: part["p_value"] for part in found.parts}
    return {
        "rot compare": found.p_value,
        "MMD": permutation_p(np.exp(-((distances / width) ** 2) / 2), m, permutations, rng),
        "energy": permutation_p(-distances, m, permutations, rng),
        "KS, Holm": min(1.0, min(columns) * len(columns)),
        "logistic": classifier_p(pooled[:m], pooled[m:], LogisticRegression(max_iter=500), rng),
        "forest": classifier_p(pooled[:m], pooled[m:], RandomForestClassifier(100, random_state=seed), rng),
        **{f"part {name}": p_value for name, p_value in parts.items()},
    }, found


def attributed(found: robust_ot.Comparison, changed: list) -> tuple[bool, bool]:
    """Whether the changed columns or pair come first, and whether a column or pair is named that has not changed."""
    names = [str(column + 1) for column in changed if not isinstance(column, tuple)]
    pairs = [[str(a + 1), str(b + 1)] for a, b in (pair for pair in changed if isinstance(pair, tuple))]
    claimed = [row["name"] for row in found.features if row["p_value"] <= LEVEL]
    claimed_pairs = [row["names"] for row in found.pairs if row["p_value"] <= LEVEL]
    first = [row["name"] for row in found.features[: len(names)]]
    right = set(first) == set(names) and (not pairs or found.pairs[0]["names"] in pairs)
    false = any(name not in names for name in claimed) or any(pair not in pairs for pair in claimed_pairs)
    return right, false


def cell(kind: str, rows: tuple[int, int], columns: int, draws: int, permutations: int) -> dict:
    """The shares of draws in which each test rejects, and how often what changed is named."""
    rejected: dict[str, int] = {}
    right = false = detected = 0
    start = time.time()
    for draw in range(draws):
        rng = np.random.default_rng([draw, columns, *rows, sum(map(ord, kind))])
        x, y, changed = samples(kind, rows, columns, rng)
        found, comparison = p_values(x, y, permutations, draw)
        for name, p_value in found.items():
            rejected[name] = rejected.get(name, 0) + (p_value <= LEVEL)
        is_right, is_false = attributed(comparison, changed)
        detected += comparison.differs
        right += comparison.differs and is_right
        false += is_false
    shares = {name: count / draws for name, count in rejected.items()}
    return {
        "kind": kind, "rows": rows, "columns": columns, "draws": draws, "permutations": permutations, "rejected": shares,
        "detected": detected, "right": right, "false": false / draws, "seconds": round(time.time() - start, 1),
    }  # fmt: skip


def table(lines: list[dict]) -> str:
    """The cells as a table, and the comparison with the best of the others."""
    tests = ["rot compare", "MMD", "energy", "KS, Holm", "logistic", "forest"]
    text = [
        "| kind | rows | columns | " + " | ".join(tests) + " | changed first | false claims |",
        "|---" * (len(tests) + 5) + "|",
    ]
    short, ahead = [], []
    for line in lines:
        shares = line["rejected"]
        best = max(shares[name] for name in tests[1:])
        if line["kind"] not in NULLS:
            short.append(max(best - shares["rot compare"], 0.0))
            if line["kind"] in JOINT and 0.2 <= best <= 0.8:
                ahead.append(shares["rot compare"] - best)
        named = line["kind"] in ("mean", "two scales", "correlation") and line["detected"] > 0
        right = f"{line['right'] / line['detected']:.2f}" if named else ""
        rows = " + ".join(map(str, line["rows"]))
        cells = [line["kind"], rows, str(line["columns"]), *(f"{shares[name]:.2f}" for name in tests), right]
        # Columns change by themselves in rotations, mixtures and contamination: what is named there is not false.
        cells.append(f"{line['false']:.2f}" if named or line["kind"] in NULLS else "")
        text.append("| " + " | ".join(cells) + " |")
    if short:
        text.append(f"\nMean shortfall from the best of the others {np.mean(short):.3f}, largest {max(short):.2f}.")
    if ahead:
        text.append(
            f"Joint changes that the best of the others finds in .2 to .8 of draws: ahead by {np.mean(ahead):.2f} on average."
        )
    return "\n".join(text)


def main() -> None:
    """Fills the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--permutations", type=int, default=199)
    parser.add_argument("--rows", default="50,150", help="of each side; 50+80 for sides of different sizes")
    parser.add_argument("--columns", default="8,20,60")
    parser.add_argument("--kinds", default=",".join(SIZES))
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    known = {(line["kind"], tuple(line["rows"]), line["columns"]) for line in lines}
    for kind in options.kinds.split(","):
        for sides in options.rows.split(","):
            m, _, n = sides.partition("+")
            rows = (int(m), int(n or m))
            for columns in map(int, options.columns.split(",")):
                if (kind, rows, columns) in known:
                    continue
                line = cell(kind, rows, columns, options.draws, options.permutations)
                lines.append(line)
                with options.out.open("a") as out:
                    out.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
