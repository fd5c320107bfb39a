"""The warning for a result that is less accurate than requested."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


class ConvergenceWarning(UserWarning):
    """A solve ended before its tolerance was reached.

    Attributes
    ----------
    gap : float
        The accuracy reached: the relative gap of a robust distance, or the marginal error of Sinkhorn.
    """

    def __init__(self, message: str, gap: float = float("nan")) -> None:
        super().__init__(message)
        self.gap = gap


def warn_unconverged(message: str, gap: float) -> None:
    """Warn at the line that called this package."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("robust_ot."):
        frame, level = frame.f_back, level + 1
    warnings.warn(ConvergenceWarning(message, gap), stacklevel=level)
