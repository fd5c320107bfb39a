"""Arrays of other libraries, by the standards that they share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_ot._pot_arrays import torch_of


def in_kind(given: Any, found: NDArray[Any]) -> Any:
    """Return an array in the library and on the device of another: a torch tensor, or any array of the array API."""
    torch = torch_of(given)
    if torch is not None:
        dtype = given.dtype if given.is_floating_point() else torch.float64
        return torch.from_numpy(found).to(device=given.device, dtype=dtype)
    namespace = getattr(given, "__array_namespace__", None)
    if namespace is None or isinstance(given, np.ndarray):
        return found
    return namespace().asarray(found, device=given.device)
