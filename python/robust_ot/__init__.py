"""Robust optimal transport: compare distributions under the worst metric of a family, and learn with it.

The functions take and return numpy arrays and need only numpy. :class:`RobustOTClassifier` needs scikit-learn,
:class:`robust_ot.torch.RobustOTLoss` needs torch, and :mod:`robust_ot.plot` needs matplotlib; each is imported on first use.

Examples
--------
>>> import numpy as np, robust_ot
>>> before = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
>>> after = np.array([[0.1, 3.0], [1.0, 4.0], [2.0, 3.1]])
>>> solution = robust_ot.distance(before, after)
>>> bool(solution.lower_bound <= solution.value)
True
>>> int(solution.feature_weights.argmax())  # the second feature is what changed
1
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from robust_ot import score
from robust_ot._barycenter import Barycenter, barycenter
from robust_ot._compare import compare
from robust_ot._comparison import Comparison
from robust_ot._core import __version__, get_threads, set_threads
from robust_ot._distance import distance, pairwise
from robust_ot._distances import Distances
from robust_ot._explanation import Explanation
from robust_ot._loss import loss_gradient
from robust_ot._neighbors import Neighbors, nearest
from robust_ot._pot_entropic import sinkhorn, sinkhorn2
from robust_ot._pot_exact import emd, emd2
from robust_ot._solution import Gradient, Solution
from robust_ot._vectors import label_vectors, read_vec
from robust_ot._warning import ConvergenceWarning

if TYPE_CHECKING:
    from robust_ot._classifier import RobustOTClassifier
    from robust_ot._classifier_cv import RobustOTClassifierCV
    from robust_ot._drift import DriftDetector

__all__ = [
    "Barycenter",
    "Comparison",
    "ConvergenceWarning",
    "Distances",
    "DriftDetector",
    "Explanation",
    "Gradient",
    "Neighbors",
    "RobustOTClassifier",
    "RobustOTClassifierCV",
    "Solution",
    "__version__",
    "barycenter",
    "compare",
    "distance",
    "emd",
    "emd2",
    "get_threads",
    "label_vectors",
    "loss_gradient",
    "nearest",
    "pairwise",
    "read_vec",
    "score",
    "set_threads",
    "sinkhorn",
    "sinkhorn2",
]


#: What needs scikit-learn, and the module it is in.
_WITH_SKLEARN = {"RobustOTClassifier": "_classifier", "RobustOTClassifierCV": "_classifier_cv", "DriftDetector": "_drift"}


def __getattr__(name: str) -> Any:
    """Import what needs scikit-learn on first use."""
    if name in _WITH_SKLEARN:
        try:
            module = import_module(f"robust_ot.{_WITH_SKLEARN[name]}")
        except ImportError as error:
            raise ImportError(f"{name} needs scikit-learn: pip install robust-ot[sklearn] ({error})") from error
        return getattr(module, name)
    raise AttributeError(f"module 'robust_ot' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
