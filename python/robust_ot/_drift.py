"""A drift detector with the conventions of scikit-learn."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from robust_ot._compare import Missing, Scale, compare
from robust_ot._comparison import Comparison


class DriftDetector(BaseEstimator):  # type: ignore[misc]
    """Compare batches of rows with a reference table.

    Parameters
    ----------
    reference : DataFrame or array-like of shape (m, d), optional
        The rows to compare with; :meth:`fit` sets them as well.
    permutations, alpha, scale, missing, metric, seed, max_rows
        As in :func:`robust_ot.compare`.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> rng = np.random.default_rng(0)
    >>> detector = robust_ot.DriftDetector(rng.normal(size=(200, 5)))
    >>> detector.score(rng.normal(size=(150, 5)) + 0.5)
    0.001
    >>> detector.predict(rng.normal(size=(150, 5)))  # 1: no drift, -1: drift
    1
    """

    def __init__(
        self,
        reference: Any = None,
        *,
        permutations: int = 999,
        alpha: float = 0.05,
        scale: Scale = "std",
        missing: Missing = "error",
        metric: str | None = None,
        seed: int = 0,
        max_rows: int = 5000,
    ) -> None:
        self.reference = reference
        self.permutations = permutations
        self.alpha = alpha
        self.scale = scale
        self.missing = missing
        self.metric = metric
        self.seed = seed
        self.max_rows = max_rows

    def fit(self, X: Any, y: Any = None) -> DriftDetector:
        """Take the reference table."""
        self.reference_ = X
        return self

    def compare(self, X: Any) -> Comparison:
        """Compare a batch with the reference, and keep the result as ``comparison_``."""
        if self.reference is None:
            check_is_fitted(
                self, "reference_", msg="reference must be given, or fit called with it, before a batch is compared"
            )
        reference = getattr(self, "reference_", self.reference)
        self.comparison_ = compare(
            reference,
            X,
            permutations=self.permutations,
            alpha=self.alpha,
            scale=self.scale,
            missing=self.missing,
            metric=self.metric,
            seed=self.seed,
            max_rows=self.max_rows,
        )
        return self.comparison_

    def score(self, X: Any, y: Any = None) -> float:
        """Return the p-value of a batch: the smaller, the surer is drift."""
        return self.compare(X).p_value

    def predict(self, X: Any) -> int:
        """Return -1 if a batch differs from the reference at level ``alpha``, else 1."""
        return -1 if self.compare(X).differs else 1
