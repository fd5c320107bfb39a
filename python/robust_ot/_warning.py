"""The warning of a result that is less accurate than was asked for."""

from __future__ import annotations

import warnings


class ConvergenceWarning(UserWarning):
    """A solve ended before its tolerance was reached.

    Attributes
    ----------
    gap : float
        How far it got: the relative gap of a robust distance, or the marginal error of Sinkhorn.
    """

    def __init__(self, message: str, gap: float = float("nan")) -> None:
        super().__init__(message)
        self.gap = gap


def warn_unconverged(message: str, gap: float) -> None:
    """Warn where the caller of the public function stands."""
    warnings.warn(ConvergenceWarning(message, gap), stacklevel=3)
