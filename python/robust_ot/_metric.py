"""The arguments that define a metric set, as the core takes them."""

from __future__ import annotations

import warnings
from typing import Any, Literal

from numpy.typing import ArrayLike

Metric = Literal["w2", "p", "p-power", "kl", "ds", "features", "srw", "rkp"]
Prior = Literal["eye", "ones"] | ArrayLike | None
Grouping = Literal["contiguous", "interleaved", "random"] | ArrayLike


def metric_arguments(
    metric: str, k: int, rho: float, lam: float, prior: Any, groups: int | None, grouping: Any, seed: int
) -> tuple[Any, ...]:
    """Pack the arguments; warn about a prior without effect."""
    if prior is not None and metric not in ("kl", "ds"):
        warnings.warn(f"prior has no effect with {metric}; it belongs to kl and ds", UserWarning, stacklevel=3)
    return (metric, k, rho, lam, prior, groups, grouping, seed)
