"""A scikit-learn classifier that tunes itself within a time budget."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from robust_ot import _core
from robust_ot._classifier import RobustOTClassifier


class RobustOTClassifierCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    r"""Find the best :class:`RobustOTClassifier` within a time budget, as ``rot tune`` does.

    A linear model over all rows comes first, with everything that :class:`RobustOTClassifier` chooses by itself. Then models
    with a hidden layer compete: they share the time, and the best third of them goes on, until one is left. Held-out rows
    score all of them, and the winner is fitted to all rows. How far candidates are trained depends on the time they get, so
    another machine may find another winner; ``RobustOTClassifier(**best_params_)`` repeats its fit exactly.

    Parameters
    ----------
    budget : float
        Seconds for everything. A budget that is too small for one model is refused.
    select : {'rank', 'auc', 'map', 'p@1', 'semantic'}
        What candidates are compared by: ``rank`` is the mean of the ranks in AUC, mAP and P@1, and ``semantic`` the cost of
        the top labels, which needs ``label_vectors``.
    label_vectors : array-like of shape (L, d), mapping, path, optional
        The geometry of the labels, as for :class:`RobustOTClassifier`.
    missing : {'error', 'zero', 'drop'}
        What :meth:`fit` does about labels without a vector.
    standardize, row_length : bool, float, None or 'auto'
        The scaling of the features, as for :class:`RobustOTClassifier`; ``auto`` is chosen.
    validation : float, optional
        Fraction of the rows to hold out; by default every row is held out in turn if there are few, else 0.2.
    class_weight : mapping, 'balanced' or None
        Weights of the rows of each class, for rows with one class each.
    random_state : int, RandomState or None
        Seed of the candidates, of the held-out rows and of the order of rows.
    verbose : bool
        Whether to print one line per scored candidate.

    Attributes
    ----------
    best_estimator_ : RobustOTClassifier
        The winner, fitted to all rows.
    best_params_ : dict
        Its parameters, beside those of this estimator.
    best_score_ : float
        Its score of the held-out rows by ``select``: the sum of the three scores for ``rank``, minus the cost for ``semantic``.
    cv_results_ : dict of ndarray
        ``candidate``, ``auc``, ``map``, ``precision_at_1``, ``semantic_cost``, ``epochs``, ``best_epoch`` and ``seconds`` of
        every candidate that was scored, the best first; a data frame takes it.
    seconds_, fitting_seconds_ : float
        Seconds in all, and those spent on fits.
    classes_ : ndarray of shape (L,)
        The classes, or the columns of y if it is a 0/1 matrix.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Their names, if the rows of :meth:`fit` were a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_ot import RobustOTClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=300)
    >>> X = rng.normal(size=(300, 5)) + 2 * np.eye(3, 5)[y]
    >>> tuned = RobustOTClassifierCV(budget=1.5, select="auc").fit(X, y)
    >>> bool(tuned.best_score_ > 0.9)
    True
    >>> again = tuned.best_estimator_.get_params()["loss"]  # what was chosen
    """

    def __init__(
        self,
        budget: float = 300.0,
        *,
        select: str = "rank",
        label_vectors: ArrayLike | Mapping[str, ArrayLike] | str | os.PathLike[str] | None = None,
        missing: str = "error",
        standardize: bool | str = "auto",
        row_length: float | str | None = "auto",
        validation: float | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.budget = budget
        self.select = select
        self.label_vectors = label_vectors
        self.missing = missing
        self.standardize = standardize
        self.row_length = row_length
        self.validation = validation
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> RobustOTClassifierCV:
        """Try candidates until the budget is spent, and fit the best one to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.
        y : array-like of shape (n,), or 0/1 matrix of shape (n, L)
            One class per row, or every label of each row.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows' losses; scores of held-out rows do not use them.

        Returns
        -------
        RobustOTClassifierCV
            This estimator.
        """
        shared = {name: value for name, value in self.get_params(deep=False).items() if name not in ("budget", "select")}
        winner = RobustOTClassifier(**shared)
        rows = winner._read(X, y, sample_weight)
        keywords = winner._keywords()
        model, history, trials, chosen, seconds, notes = _core.tune(
            rows.X,
            rows.targets,
            rows.labels.names,
            rows.vectors,
            keywords,
            (float(self.budget), self.select),
            self._on_trial(),
            rows.labels.kind,
            rows.weights,
        )
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        # A seed that was drawn here is that of the fit.
        winner.set_params(**{**chosen, "random_state": keywords["random_state"]})
        winner._adopt(rows, model, history)
        self.best_estimator_ = winner
        self.best_params_ = {**chosen, "random_state": keywords["random_state"]}
        self.cv_results_ = {name: np.array([trial[name] for trial in trials]) for name in trials[0]}
        self.best_score_ = _score(trials[0], self.select)
        self.seconds_, self.fitting_seconds_ = seconds
        self.classes_ = winner.classes_
        self.n_features_in_ = winner.n_features_in_
        if hasattr(winner, "feature_names_in_"):
            self.feature_names_in_ = winner.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the winner: :meth:`RobustOTClassifier.predict`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n,) or (n, L)
            The most probable class, or the labels of each row.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Compute the probability of every label with the winner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, L)
            Probabilities.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Compute the logits of every label with the winner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, L), or (n,) for two classes
            Logits.
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the winner to a file that ``rot predict`` and :meth:`RobustOTClassifier.load` read.

        Parameters
        ----------
        path : path
            The file, ``.safetensors`` by convention.
        """
        check_is_fitted(self)
        self.best_estimator_.save(path)

    def _on_trial(self) -> Any:
        if not self.verbose:
            return None

        def tell(trial: dict[str, Any]) -> None:
            scores = f"AUC {trial['auc']:.4f}, mAP {trial['map']:.4f}, P@1 {trial['precision_at_1']:.4f}"
            print(f"{trial['candidate']}: {scores}")

        return tell


def _score(trial: dict[str, Any], select: str) -> float:
    if select == "rank":
        return float(trial["auc"] + trial["map"] + trial["precision_at_1"])
    if select == "semantic":
        return -float(trial["semantic_cost"])
    return float(trial["precision_at_1" if select == "p@1" else select])
