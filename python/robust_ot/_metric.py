"""The arguments that define a metric set, as the core takes them."""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

from numpy.typing import ArrayLike

Metric = Literal["w2", "p", "p-power", "kl", "ds", "features", "srw", "rkp"]
Prior = Literal["eye", "ones"] | ArrayLike | None
_METRICS = get_args(Metric)
Grouping = Literal["contiguous", "interleaved", "random"] | ArrayLike


def metric_arguments(
    metric: str, k: int, rho: float, lam: float, prior: Any, groups: int | None, grouping: Any, seed: int
) -> tuple[Any, ...]:
    """Pack the arguments; warn about those that are given and have no effect."""
    for name, is_given, owners in (
        ("k", k != 1, ("p", "p-power", "srw")),
        ("rho", rho != 2.0, ("rkp",)),
        ("lam", lam != 1.0, ("kl", "ds", "features")),
        ("prior", prior is not None, ("kl", "ds")),
    ):
        if is_given and metric in _METRICS and metric not in owners:
            names = " and ".join(filter(None, (", ".join(owners[:-1]), owners[-1])))
            message = f"{name} has no effect with {metric}; it belongs to {names}"
            warnings.warn(message, UserWarning, stacklevel=3)
    return (metric, k, rho, lam, prior, groups, grouping, seed)
