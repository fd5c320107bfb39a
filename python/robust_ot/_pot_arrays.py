"""Arrays of POT's callers: numpy arrays or torch tensors in, the same kind and precision out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The largest difference between two sums of weights, relative to the larger, that counts as equal; the solvers use the same.
MASS_TOLERANCE = 1e-6


class InputError(ValueError, AssertionError):
    """Input that POT refuses by an assertion; code that expects either error finds it."""


@dataclass(frozen=True)
class Kind:
    """What results look like: arrays of numpy, or tensors of torch on one device.

    Attributes
    ----------
    torch : module or None
        torch, if results are tensors.
    dtype : numpy or torch dtype
        The floating-point type of results.
    device : torch.device or None
        Where tensors lie.
    """

    torch: Any
    dtype: Any
    device: Any

    @classmethod
    def of(cls, *arrays: Any) -> Kind:
        """Return the kind of the first array with a floating-point type; other types are computed in double precision."""
        torch = torch_of(*arrays)
        if torch is None:
            for array in arrays:
                dtype = getattr(array, "dtype", None)
                if dtype in (np.float32, np.float64):
                    return cls(None, dtype, None)
            return cls(None, np.dtype(np.float64), None)
        tensors = [array for array in arrays if isinstance(array, torch.Tensor)]
        exact = [tensor for tensor in tensors if tensor.dtype in (torch.float32, torch.float64)]
        return cls(torch, exact[0].dtype if exact else torch.float64, tensors[0].device)

    def array(self, values: Any) -> Any:
        """Return numbers as an array of this kind, or as a scalar of it."""
        if self.torch is None:
            array = np.asarray(values).astype(self.dtype, copy=False)
            return array if array.ndim else array[()]
        return self.torch.as_tensor(np.asarray(values), dtype=self.dtype, device=self.device)

    def coo(self, values: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
        """Return a sparse matrix of this kind."""
        if self.torch is None:
            return sparse_module().coo_array((self.array(values), (rows, columns)), shape=shape)
        indices = self.torch.as_tensor(np.stack([rows, columns]), device=self.device)
        return self.torch.sparse_coo_tensor(indices, self.array(values), shape).coalesce()


def torch_of(*arrays: Any) -> Any:
    """Return the module torch if one of the arrays is a tensor. It is never imported for others."""
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(array, torch.Tensor) for array in arrays):
        return torch
    return None


def to_numpy(array: Any) -> Any:
    """Return a tensor as a numpy array, without its history; return anything else unchanged."""
    if torch_of(array) is None:
        return array
    array = array.detach()
    # numpy has no type for some of torch's short floating-point types.
    if array.is_floating_point() and array.element_size() < 4:
        array = array.float()
    return array.cpu().numpy()


def is_sparse(M: Any) -> bool:
    """Return whether M is a sparse tensor or one of scipy's sparse matrices."""
    if torch_of(M) is not None:
        return M.layout is not sys.modules["torch"].strided
    # What is not imported has no instances.
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(M))


def sparse_module() -> Any:
    """Import scipy.sparse, which only sparse results need."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise ImportError(f"sparse plans need scipy: pip install scipy ({error})") from error
    return scipy.sparse


def costs_of(M: Any) -> NDArray[Any]:
    """Return costs as a matrix in single or double precision."""
    costs: NDArray[Any] = np.asanyarray(to_numpy(M))
    if costs.ndim != 2:
        raise ValueError(f"M must have 2 dimensions, but has shape {costs.shape}")
    if costs.dtype not in (np.float32, np.float64) and costs.dtype.kind in "biuf":
        return costs.astype(np.float64)
    return costs


def weights_of(weights: Any, count: int) -> Any:
    """Return the weights, or uniform ones if they are empty or None."""
    weights = to_numpy(weights)
    if weights is None or np.size(weights) == 0:
        return np.full(count, 1.0 / count if count else 0.0)
    return weights


def whole(count: Any) -> Any:
    """Return a float such as 1e4 as a whole number; the solvers refuse anything else that is not one."""
    return int(count) if isinstance(count, float) and count.is_integer() else count


def pair_of(
    pair: Any, name: str, shape: tuple[int, int], weightless: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a pair of finite vectors, one number per row and one per column of the costs.

    With ``weightless``, −∞ stands for a point without weight, whose number is not used, and becomes 0.
    """
    try:
        first, second = (np.asarray(to_numpy(vector), dtype=np.float64) for vector in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair of vectors of real numbers, but is {pair!r}") from None
    if (first.shape, second.shape) != (shape[:1], shape[1:]):
        rule = f"{name} must have shapes {shape[:1]} and {shape[1:]}"
        raise ValueError(f"{rule}, but has shapes {first.shape} and {second.shape}")
    if weightless:
        first, second = (np.where(np.isneginf(vector), 0.0, vector) for vector in (first, second))
    for vector in (first, second):
        if not np.isfinite(vector).all():
            raise ValueError(f"{name} must be finite, but contains {vector[~np.isfinite(vector)][0]}")
    return first, second
