"""Robust distances between clouds of torch tensors, with gradients."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from robust_ot import _core
from robust_ot._distance import Solver
from robust_ot._metric import Grouping, Metric, Prior, metric_arguments
from robust_ot._pot_gradients import with_gradients
from robust_ot._warning import warn_unconverged

Clouds: TypeAlias = Tensor | Sequence[Tensor]


class Bounded(NamedTuple):
    """A distance with its certificate: ``lower_bound`` ≤ W ≤ ``value``.

    Attributes
    ----------
    value : Tensor
        Upper bounds, the distances, with gradients.
    lower_bound : Tensor
        Lower bounds, without.
    """

    value: Tensor
    lower_bound: Tensor


def distance(
    X: Clouds,
    Y: Clouds,
    a: Clouds | None = None,
    b: Clouds | None = None,
    *,
    metric: Metric = "p",
    k: int = 1,
    rho: float = 2.0,
    lam: float = 1.0,
    prior: Prior = None,
    groups: int | None = None,
    grouping: Grouping = "contiguous",
    seed: int = 0,
    entropy: float = 0.0,
    debias: bool = False,
    solver: Solver = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    max_sweeps: int | None = None,
    memory: int | str | None = None,
    device: str = "auto",
    return_bounds: bool = False,
) -> Tensor | Bounded:
    r"""Compute robust distances between clouds of points, with gradients in points and weights.

    By the envelope theorem, the optimal plan γ, its worst metric M and the potentials f give the gradient,

    .. math:: \nabla_{x_i} W = 2 \sum_j \gamma_{ij} M (x_i - y_j), \qquad
              \frac{\partial W}{\partial a_i} = f_i - \langle a, f \rangle .

    It is that of W wherever plan and metric are unique. The gradient of a plan with a relative gap ``tol`` is off by some √tol
    of its size, hence the small default. Weights are scaled to sum to one, and the gradient is that of the scaled ones: it does
    not change their sum. With entropy, a point without weight has the slope −∞. There are no second derivatives.

    Parameters
    ----------
    X, Y : Tensor of shape (m, d) and (n, d), or a batch
        Points, one per row. A batch is a tensor of shape (B, m, d), or a list of clouds whose numbers of points may differ. One
        cloud beside a batch is compared with each of them. Half precision is computed in single precision.
    a, b : Tensor of shape (m,) and (n,), or a batch, optional
        Their weights, uniform by default.
    metric, k, rho, lam, prior, groups, grouping, seed, entropy, solver, max_iter, memory
        As for :func:`robust_ot.distance`.
    debias : bool
        Return the Sinkhorn divergence W(X, Y) − ½ W(X, X) − ½ W(Y, Y) under one common metric, the worst one of W(X, Y). It is
        not negative, and zero between equal measures. Its gradient is taken for a metric that is held fixed: the metric's own
        change with the points is left out. Needs ``entropy``.
    tol : float
        Relative gap at which a solve has converged.
    max_sweeps : int, optional
        The most Sinkhorn sweeps, over rows and columns, of each of the ``max_iter`` plain problems that a solve consists of.
        ``max_iter=1, max_sweeps=50`` makes no more than fifty in all; the bounds hold all the same, and are as far apart as
        that leaves them.
    device : {'auto', 'cpu', 'cuda', 'cuda:N'}
        Where distances are solved, as for :func:`robust_ot.distance`. CUDA tensors are solved on their own device if there is
        ``entropy``, without copies of points or gradients to the host; only what stalls or leaves the range of the device goes
        there. Debiased and exact distances of CUDA tensors are found on the host, and their gradients are copied back.
    return_bounds : bool
        Also return the lower bounds.

    Returns
    -------
    Tensor or Bounded
        One number, or one per pair of a batch; with ``return_bounds``, the tuple (value, lower_bound).

    Warns
    -----
    ConvergenceWarning
        When a gap is wider than ``tol``; the warning carries the gap.

    Examples
    --------
    >>> import torch
    >>> from robust_ot.torch import distance
    >>> X = torch.tensor([[0.0, 0.0], [1.0, 0.0]], requires_grad=True)
    >>> Y = torch.tensor([[0.0, 2.0], [1.0, 2.0]])
    >>> value = distance(X, Y)
    >>> value.backward()
    >>> X.grad
    tensor([[ 0., -2.],
            [ 0., -2.]])
    """
    xs, of_x = _clouds(X, "X", 2)
    ys, of_y = _clouds(Y, "Y", 2)
    count = max(len(xs), len(ys))
    for name, clouds, batched in (("X", xs, of_x), ("Y", ys, of_y)):
        if batched and len(clouds) != count:
            raise ValueError(f"X and Y must be batches of the same size, but {name} has {len(clouds)} clouds of {count}")
    sides = []
    for (points, name), weights, label in (((xs, "X"), a, "a"), ((ys, "Y"), b, "b")):
        points = points * count if len(points) < count else points
        sides.append((points, _weights(weights, label, name, points)))
    (xs, weights_a), (ys, weights_b) = sides
    tensors = [tensor for tensor in (*xs, *ys, *weights_a, *weights_b) if tensor is not None]
    place, dtype = tensors[0].device, tensors[0].dtype
    for tensor in tensors:
        if tensor.device != place:
            raise ValueError(f"X, Y and their weights must be on one device, but are on {place} and {tensor.device}")
    slopes = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    arguments = metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed)
    settings = (entropy, solver, tol, max_iter, memory, device)
    pairs = list(zip(xs, ys, weights_a, weights_b, strict=True))
    found: list[Any] = [None] * count
    if place.type == "cuda" and entropy > 0 and not debias and device in ("auto", "cuda", str(place)):
        found = [_on_their_device(pair, arguments, settings, max_sweeps, slopes) for pair in pairs]
    left = [at for at, result in enumerate(found) if result is None]
    if left:
        on_host = _core.differentiate(
            [(_numbers(xs[at]), _numbers(weights_a[at])) for at in left],
            [(_numbers(ys[at]), _numbers(weights_b[at])) for at in left],
            arguments,
            settings,
            max_sweeps,
            debias,
            slopes,
        )
        for at, (*bounds, gradient) in zip(left, on_host, strict=True):
            found[at] = (*bounds, None if gradient is None else [torch.from_numpy(of) for of in gradient])
    open_gaps = [gap for _, _, gap, converged, _ in found if not converged]
    if open_gaps:
        widest = max(open_gaps)
        which = "distance" if count == 1 else f"{len(open_gaps)} of {count} distances"
        warn_unconverged(f"{which} did not converge; the relative gap is {widest:.1e} instead of {tol:.1e}", widest)
    values = []
    for at, (upper, _, _, _, gradient) in enumerate(found):
        result = torch.tensor(upper, dtype=dtype, device=place)
        if gradient is not None:
            terms = zip(pairs[at], gradient, strict=True)
            result = with_gradients(result, [(argument, of) for argument, of in terms if of is not None])
        values.append(result)
    lower = torch.tensor([bound for _, bound, _, _, _ in found], dtype=dtype, device=place)
    single = not (of_x or of_y)
    value, lower = (values[0], lower[0]) if single else (torch.stack(values), lower)
    return Bounded(value, lower) if return_bounds else value


class RobustDistance(nn.Module):  # type: ignore[misc, unused-ignore]
    """:func:`distance` as a module.

    Parameters
    ----------
    **settings
        The keywords of :func:`distance`: ``metric``, ``entropy``, ``debias``, ``tol``, …

    Examples
    --------
    >>> import torch
    >>> from robust_ot.torch import RobustDistance
    >>> criterion = RobustDistance(metric="srw", k=1, entropy=0.1)
    >>> clouds = [torch.zeros(3, 2), torch.ones(5, 2)]
    >>> criterion(clouds, torch.zeros(4, 2)).shape
    torch.Size([2])
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        known = [name for name, of in inspect.signature(distance).parameters.items() if of.kind is of.KEYWORD_ONLY]
        for name in settings:
            if name not in known:
                raise TypeError(f"{name} is not a setting of distance; those are {', '.join(known)}")
        self.settings = settings

    def forward(self, X: Clouds, Y: Clouds, a: Clouds | None = None, b: Clouds | None = None) -> Tensor | Bounded:
        """Compute the distances, as :func:`distance` does."""
        return distance(X, Y, a, b, **self.settings)

    def extra_repr(self) -> str:
        """Describe the distance in the representation of networks."""
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


def _clouds(given: Any, name: str, dimensions: int) -> tuple[list[Tensor], bool]:
    """Return the clouds of an argument, and whether it is a batch."""
    if isinstance(given, Tensor):
        if given.dim() == dimensions:
            return [_precise(given, name)], False
        if given.dim() == dimensions + 1 and len(given):
            return [_precise(cloud, name) for cloud in given.unbind()], True
        raise ValueError(
            f"{name} must have {dimensions} dimensions, or {dimensions + 1} for a batch that is not empty, "
            f"but has shape {tuple(given.shape)}"
        )
    if not isinstance(given, (list, tuple)) or not given:
        raise ValueError(f"{name} must be a tensor or a list of tensors that is not empty, but is a {type(given).__name__}")
    clouds = []
    for at, cloud in enumerate(given):
        if not isinstance(cloud, Tensor) or cloud.dim() != dimensions:
            what = tuple(cloud.shape) if isinstance(cloud, Tensor) else type(cloud).__name__
            raise ValueError(f"{name}[{at}] must be a tensor with {dimensions} dimensions, but is {what}")
        clouds.append(_precise(cloud, f"{name}[{at}]"))
    return clouds, True


def _weights(given: Any, name: str, of: str, points: list[Tensor]) -> list[Tensor | None]:
    """Return the weights of every cloud."""
    if given is None:
        return [None] * len(points)
    weights, batched = _clouds(given, name, 1)
    if not batched:
        weights = weights * len(points)
    if len(weights) != len(points):
        raise ValueError(f"{name} must have weights for each of the {len(points)} clouds of {of}, but has {len(weights)}")
    return list(weights)


def _precise(tensor: Tensor, name: str) -> Tensor:
    """Return real numbers in single or double precision."""
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must be a tensor of floating-point numbers, but is {tensor.dtype}")
    return tensor.float()


def _on_their_device(
    pair: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
    metric: tuple[Any, ...],
    solver: tuple[Any, ...],
    max_sweeps: int | None,
    slopes: bool,
) -> tuple[float, float, float, bool, list[Tensor | None] | None] | None:
    """Solve for clouds where they are; None if the host must."""
    of_x, of_y = (points.detach() for points in pair[:2])
    (m, dim), (n, other), place = of_x.shape, of_y.shape, of_x.device
    # Errors about shapes and empty clouds are the host's, as is what exceeds 32-bit indices.
    if dim != other or 0 in (m, n, dim) or max(m, n) * dim >= 2**31 or m + n < dim:
        return None
    for points, weights in zip(pair[:2], pair[2:], strict=True):
        if weights is not None and len(weights) != len(points):
            return None
    dtype = torch.promote_types(of_x.dtype, of_y.dtype)
    of_x, of_y = of_x.to(dtype).contiguous(), of_y.to(dtype).contiguous()
    gradient: list[Tensor | None] = [None] * 4
    if slopes:
        gradient = [
            torch.empty(len(points) if one else points.shape, dtype=dtype, device=place)
            if isinstance(wanted, Tensor) and wanted.requires_grad
            else None
            for wanted, points, one in zip(pair, (of_x, of_y) * 2, (False, False, True, True), strict=True)
        ]
    kept = []

    def allocate(count: int) -> int:
        kept.append(torch.empty(count, dtype=torch.uint8, device=place))
        return int(kept[-1].data_ptr())

    with torch.cuda.device(place):
        found = _core.differentiate_clouds(
            (place.index, torch.cuda.current_stream(place).cuda_stream),
            (of_x.data_ptr(), of_y.data_ptr(), dtype == torch.float32),
            (m, n, dim),
            (_numbers(pair[2]), _numbers(pair[3])),
            metric,
            solver,
            max_sweeps,
            allocate,
            tuple(0 if of is None else of.data_ptr() for of in gradient),
        )
    return None if found is None else (*found, gradient if slopes else None)


def _numbers(tensor: Tensor | None) -> Any:
    """Return a tensor as a numpy array on the host, without a copy where it lies there."""
    return None if tensor is None else tensor.detach().cpu().numpy()
