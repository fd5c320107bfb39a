"""Writes crates/robust-ot-learn/tests/data/scores.json: scikit-learn's scores of small arrays with ties.

Needs numpy and scikit-learn.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score, f1_score, ndcg_score, roc_auc_score, top_k_accuracy_score

rng = np.random.default_rng(0)
cases = []
for rows, labels, levels in [(12, 3, 4), (40, 6, 5), (60, 5, 1000), (25, 4, 2)]:
    # Few distinct levels give many ties.
    scores = rng.integers(0, levels, (rows, labels)) / levels
    truth = rng.random((rows, labels)) < 0.3
    truth[np.arange(rows), rng.integers(0, labels, rows)] = True
    truth[:, 0] &= labels != 6  # a label without positives in one case
    truth[~truth.any(1), 1] = True
    counted = [q for q in range(labels) if 0 < truth[:, q].sum() < rows]
    cases.append(
        {
            "scores": scores.tolist(),
            "truth": [np.flatnonzero(row).tolist() for row in truth],
            "auc": float(np.mean([roc_auc_score(truth[:, q], scores[:, q]) for q in counted])),
            "average_precision": float(np.mean([average_precision_score(truth[:, q], scores[:, q]) for q in counted])),
            "counted": len(counted),
        }
    )
one = rng.random((50, 7))
classes = rng.integers(0, 7, 50)
cases.append(
    {
        "scores": one.tolist(),
        "truth": [[int(c)] for c in classes],
        "accuracy": float(top_k_accuracy_score(classes, one, k=1, labels=range(7))),
        # The share of rows whose true label is among the top 3: three times the precision at 3.
        "among_three": float(top_k_accuracy_score(classes, one, k=3, labels=range(7))),
    }
)
for rows, labels, least in [(30, 5, 0.5), (20, 8, 0.8), (15, 3, 0.2)]:
    scores = rng.random((rows, labels))
    truth = rng.random((rows, labels)) < 0.3
    truth[:, 1] = False
    truth[~truth.any(1), 0] = True
    answers = scores >= least
    answers[:, 1] &= labels != 8  # a label that is neither true nor answered
    cases.append(
        {
            "scores": scores.tolist(),
            "truth": [np.flatnonzero(row).tolist() for row in truth],
            "answers": [np.flatnonzero(row).tolist() for row in answers],
            "micro_f1": float(f1_score(truth, answers, average="micro")),
            "macro_f1": float(f1_score(truth, answers, average="macro", zero_division=np.nan)),
            "ndcg_at_3": float(ndcg_score(truth, scores, k=3)),
        }
    )
path = Path(__file__).parent.parent / "crates/robust-ot-learn/tests/data/scores.json"
path.write_text(json.dumps(cases) + "\n")
