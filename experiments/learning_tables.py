"""Markdown tables of the benchmark's results."""

import math
from statistics import fmean, stdev

SHOWN = {"auc": "AUC", "map": "mAP", "p1": "P@1"}


def heading(score: str) -> str:
    part, _, name = score.rpartition(" ")
    return f"{part} {SHOWN[name]}".strip()


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean and its standard error; NaN for a single value."""
    return fmean(values), stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def with_error(values: list[float]) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:+.4f}" + (f" ± {error:.4f}" if math.isfinite(error) else "")


def row(cells) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join([row(head), "|" + "---|" * len(head), *map(row, rows)])


def tables(results: list[dict], names: list[str], ours: list[str]) -> str:
    """Per set, the means over seeds and the paired differences of `ours[0]`; then these differences over all sets."""
    out, gains = [], {}
    for name in names:
        of_set = [line for line in results if line["set"] == name]
        methods = list(dict.fromkeys(line["method"] for line in of_set))
        done = {method: {} for method in methods}
        for line in of_set:
            if line["status"] == "done":
                done[line["method"]][line["seed"]] = line
        scores = next((list(line["scores"]) for line in of_set if line["status"] == "done"), [])
        if not scores:
            continue
        rows, differences = [], []
        for method in methods:
            found = list(done[method].values())
            others = [line["status"] for line in of_set if line["method"] == method and line["status"] != "done"]
            notes = [f"{others.count(status)} {status}" for status in dict.fromkeys(others)]
            means = [f"{fmean(line['scores'][score] for line in found):.4f}" if found else "" for score in scores]
            seconds = [f"{fmean(line[clock] for line in found):.1f}" if found else "" for clock in ("seconds", "cpu_seconds")]
            rows.append([method, *means, *seconds, ", ".join([str(len(found)), *notes])])
            seeds = sorted(done[method].keys() & done.get(ours[0], {}).keys())
            if method != ours[0] and seeds:
                gain = {
                    score: [done[ours[0]][s]["scores"][score] - done[method][s]["scores"][score] for s in seeds]
                    for score in scores
                }
                differences.append([method, *map(with_error, gain.values()), str(len(seeds))])
                for score, values in gain.items():
                    gains.setdefault(method, {}).setdefault(score, []).append(fmean(values))
        heads = [heading(score) for score in scores]
        out += [f"### {name}", "", table(["method", *heads, "seconds", "CPU seconds", "seeds"], rows), ""]
        if differences:
            out += [f"{ours[0]} minus", "", table(["method", *heads, "seeds"], differences), ""]
    plain = {method: {score: of[score] for score in SHOWN if score in of} for method, of in gains.items()}
    rows = [
        [method, *(f"{fmean(values):+.4f}" for values in of.values()), str(len(next(iter(of.values()))))]
        for method, of in plain.items()
        if of
    ]
    if rows:
        head = ["method", *SHOWN.values(), "sets"]
        out += [f"### {ours[0]} minus, on average over the sets without hidden labels", "", table(head, rows), ""]
    return "\n".join(out)
