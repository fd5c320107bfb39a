"""Plain transport, called as in POT: ``import robust_ot.pot as ot``.

The functions have the names, arguments and return values of POT's. They take numpy arrays, anything that numpy converts, and
torch tensors, and answer in kind; tensors keep their gradients.

Examples
--------
>>> import robust_ot.pot as ot
>>> M = ot.dist([[0.0], [1.0]], [[0.0], [3.0]])
>>> ot.emd([], [], M)  # empty weights are uniform
array([[0.5, 0. ],
       [0. , 0.5]])
>>> float(ot.solve(M).value)
2.0
"""

from __future__ import annotations

from robust_ot._pot_arrays import InputError
from robust_ot._pot_dist import dist
from robust_ot._pot_entropic import sinkhorn, sinkhorn2
from robust_ot._pot_exact import emd, emd2
from robust_ot._pot_line import CooTuple, emd_1d, wasserstein_1d
from robust_ot._pot_result import OTResult
from robust_ot._pot_solve import solve, solve_sample

__all__ = [
    "CooTuple",
    "InputError",
    "OTResult",
    "dist",
    "emd",
    "emd2",
    "emd_1d",
    "sinkhorn",
    "sinkhorn2",
    "solve",
    "solve_sample",
    "wasserstein_1d",
]
