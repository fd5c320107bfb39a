"""The baselines. Scores of labels without rows are constant, unless label vectors give them weights."""

import time
import warnings
from functools import partial

import numpy as np
from learning_sets import Task
from learning_tuning import Family, Fold, Scorer, dense, tuned
from scipy import optimize, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier

SMOOTHING = 0.1
NEIGHBORS = 10
# Evaluations and relative decrease at which a minimization stops: the first with each λ, the second if none is chosen.
ROUGH, FINE = (20, 1e-5), (200, 1e-7)
# With more products of a row, a feature and a label than this, losses are computed in single precision.
LIGHT = 2e8


def one_vs_rest(task: Task) -> np.ndarray:
    """One line of scikit-learn, with its 100 iterations at most; it warns about them and about constant labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Label .* is present in all training examples")
        warnings.filterwarnings("ignore", message="Label not .* is present in all training examples")
        return (
            OneVsRestClassifier(LogisticRegression(C=1)).fit(task.train_x, task.train_y.astype(int)).predict_proba(task.test_x)
        )


def plain_ridge(task: Task, alpha: float) -> np.ndarray:
    return Ridge(alpha=alpha).fit(task.train_x, task.train_y.astype(task.train_x.dtype)).predict(task.test_x)


def class_means(task: Task) -> np.ndarray:
    """The cosine between a row and the mean of a label's rows, both relative to the mean of all rows."""
    mean = np.asarray(task.train_x.mean(axis=0)).ravel()
    rows, held = dense(task.train_x) - mean, dense(task.test_x) - mean
    means = (task.train_y.T.astype(float) @ rows) / np.maximum(task.train_y.sum(axis=0), 1)[:, None]
    return unit(held) @ unit(means).T


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(x.dtype).tiny)


def ridge(fold: Fold, _) -> Scorer:
    """min ½‖Y − XW − b‖² + λ/2 ‖W‖², for all λ from one decomposition."""
    return ridge_to(fold, fold.y.astype(float))


def ridge_to(fold: Fold, targets: np.ndarray) -> Scorer:
    mean = targets.mean(axis=0)
    moments = fold.rows.T @ (targets - mean)
    return lambda l2: fold.held @ (moments / (fold.values + l2)[:, None]) + mean


def words(fold: Fold, _) -> Scorer:
    """Ridge to the mean vector of a row's labels; the score is the cosine with each label's vector."""
    known = fold.y & fold.vectors.any(axis=1)
    targets = known @ fold.vectors / np.maximum(known.sum(axis=1), 1)[:, None]
    predicted = ridge_to(fold, targets)
    return lambda l2: unit(predicted(l2)) @ fold.vectors.T


def eszsl(fold: Fold, strength: float | None) -> Scorer:
    """W = (XᵀX + λI)⁻¹ XᵀY S (SᵀS + γI)⁻¹ Sᵀ for label vectors S, with a bias; γ is relative to tr SᵀS / d.

    Y is 0 or 1, not ±1: with a bias, only the label that is best in a row depends on it, and ±1 would favor labels by S alone.
    """
    own = fold.vectors[fold.seen]
    gram = own.T @ own
    gamma = strength * np.trace(gram) / len(gram)
    return ridge_to(fold, fold.y[:, fold.seen] @ own @ np.linalg.solve(gram + gamma * np.eye(len(gram)), fold.vectors.T))


def laplacian(fold: Fold, strength: float | None) -> Scorer:
    """min ½‖Y − XW − b‖² + λ/2 tr W (I + βL) Wᵀ, L of the graph of nearest label vectors, relative to its mean degree.

    Labels without rows take no part in the first term. Minimizing over their weights leaves the Schur complement for the
    others.
    """
    penalty = np.eye(len(fold.vectors)) + strength * graph_laplacian(fold.vectors)
    seen, new = np.flatnonzero(fold.seen), np.flatnonzero(~fold.seen)
    spread = np.linalg.solve(penalty[np.ix_(new, new)], penalty[np.ix_(new, seen)])
    values, basis = np.linalg.eigh(penalty[np.ix_(seen, seen)] - penalty[np.ix_(seen, new)] @ spread)
    y = fold.y[:, seen].astype(float)
    mean = y.mean(axis=0)
    moments = fold.rows.T @ (y - mean) @ basis

    def scores(l2: float) -> np.ndarray:
        weights = (moments / (fold.values[:, None] + l2 * values)) @ basis.T
        found = np.zeros((len(fold.held), len(penalty)))
        found[:, seen] = fold.held @ weights + mean
        found[:, new] = fold.held @ (-weights @ spread.T)
        return found

    return scores


def graph_laplacian(vectors: np.ndarray) -> np.ndarray:
    """D − A over the mean degree, where A has the positive cosines to each label's nearest labels, either way round."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    near = np.zeros(cosines.shape, bool)
    count = min(NEIGHBORS, len(vectors) - 1)
    np.put_along_axis(near, np.argsort(-cosines, axis=1, kind="stable")[:, :count], True, axis=1)
    edges = np.where(near | near.T, np.maximum(cosines, 0), 0)
    degrees = edges.sum(axis=1)
    return (np.diag(degrees) - edges) / max(degrees.mean(), np.finfo(float).tiny)


def softmax_loss(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """Cross-entropy, and its gradient; the targets of a row sum to one."""
    total = special.logsumexp(logits, axis=1, keepdims=True)
    loss = total.sum(dtype=float) - np.vdot(targets, logits)
    return float(loss), np.exp(logits - total) - targets


def sigmoid_loss(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """Binary cross-entropy of every label, and its gradient."""
    small = np.exp(-np.abs(logits))
    loss = np.maximum(logits, 0).sum(dtype=float) + np.log1p(small).sum(dtype=float) - np.vdot(targets, logits)
    return float(loss), np.where(logits < 0, small, 1) / (1 + small) - targets


def cross_entropy(fold: Fold, _, smoothing: float = 0) -> Scorer:
    """Scores are logarithms of probabilities."""
    y = fold.y[:, fold.seen] / fold.y.sum(axis=1, keepdims=True)
    logits = minimized(fold, (1 - smoothing) * y + smoothing / y.shape[1], softmax_loss)
    return lambda l2: everywhere(fold, special.log_softmax(logits(l2), axis=1))


def binary(fold: Fold, _) -> Scorer:
    logits = minimized(fold, fold.y[:, fold.seen], sigmoid_loss)
    return lambda l2: everywhere(fold, logits(l2))


def everywhere(fold: Fold, scores: np.ndarray) -> np.ndarray:
    """The scores of labels that have rows; the least score for the others."""
    found = np.full((len(scores), len(fold.seen)), scores.min(), scores.dtype)
    found[:, fold.seen] = scores
    return found


def minimized(fold: Fold, targets: np.ndarray, loss) -> Scorer:
    """Logits that minimize a loss plus λ/2 ‖W‖² by L-BFGS over all rows, each λ from the last one's W.

    W = DZ in the basis of the fold, D = (κΛ + λ)^-½ with κ = p(1 − p) of each label, brings the curvature in Z close to one.
    """
    kind = np.float32 if float(fold.rows.size) * targets.shape[1] > LIGHT else np.float64
    rows = np.hstack([fold.rows, np.ones((len(fold.rows), 1))]).astype(kind)
    targets = targets.astype(kind)
    rate = targets.mean(axis=0, dtype=float)
    # The last row of W is the bias, which has no penalty.
    curvature = np.append(fold.values, len(rows))[:, None] * np.maximum(rate * (1 - rate), 0.5 / len(rows))
    penalized = np.append(np.ones(len(fold.values)), 0)[:, None]
    warm = np.zeros(curvature.shape)

    def logits(l2: float) -> np.ndarray:
        factor = 1 / np.sqrt(curvature + l2 * penalized)
        penalty = l2 * penalized * factor**2

        def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
            z = flat.reshape(factor.shape)
            found, residual = loss(rows @ (factor * z).astype(kind), targets)
            pull = penalty * z
            return found + 0.5 * float(np.vdot(pull, z)), (factor * (rows.T @ residual) + pull).ravel()

        evaluations, tolerance = FINE if fold.final else ROUGH
        start = (warm / factor).ravel()
        options = {"maxfun": evaluations, "maxiter": evaluations, "ftol": tolerance, "gtol": 0}
        found = optimize.minimize(value, start, jac=True, method="L-BFGS-B", options=options)
        warm[:] = factor * found.x.reshape(factor.shape)
        return fold.held @ warm[:-1] + warm[-1]

    return logits


RIDGE = Family(ridge)
WORDS = Family(words)
SOFTMAX = Family(cross_entropy, logistic=True)
TUNED = {
    "ridge": (RIDGE, RIDGE),
    "cross-entropy": (SOFTMAX, RIDGE),
    "binary cross-entropy": (Family(binary, logistic=True), RIDGE),
    "label smoothing": (Family(partial(cross_entropy, smoothing=SMOOTHING), logistic=True), RIDGE),
    "ridge to word vectors": (WORDS, WORDS),
    "ESZSL": (Family(eszsl, seconds=(1.0, 0.1, 10.0, 0.01)),) * 2,
    "graph Laplacian": (Family(laplacian, seconds=(1.0, 0.3, 3.0, 0.1, 10.0)),) * 2,
}
UNTUNED = {
    "one-vs-rest C=1": one_vs_rest,
    "Ridge(alpha=1)": partial(plain_ridge, alpha=1),
    "Ridge(alpha=100)": partial(plain_ridge, alpha=100),
    "class means": class_means,
}
# Only where classes are hidden.
NOVELTY = "ridge to word vectors + novelty"


def novelty(task: Task, until: float) -> tuple[np.ndarray, dict]:
    """Seen classes by cross-entropy; hidden ones by ridge to word vectors plus 1 − the top probability of a seen class."""
    scores, chosen = tuned(task, SOFTMAX, RIDGE, until)
    of_words, chosen_words = tuned(task, WORDS, WORDS, until)
    top = np.exp(np.delete(scores, task.hidden, axis=1).max(axis=1, keepdims=True))
    scores[:, task.hidden] = of_words[:, task.hidden] + 1 - top
    return scores, {"seen": chosen, "hidden": chosen_words}


def methods(task: Task) -> list[str]:
    """The baselines that a task has."""
    return [*UNTUNED, *TUNED] + ([NOVELTY] if len(task.hidden) and task.single else [])


def scores_by(method: str, task: Task, seconds: float) -> tuple[np.ndarray, dict]:
    """The scores of the test rows, and what was chosen; nothing more is tried after half of the seconds."""
    if method in UNTUNED:
        return UNTUNED[method](task), {}
    until = time.perf_counter() + seconds / 2
    return novelty(task, until) if method == NOVELTY else tuned(task, *TUNED[method], until)
