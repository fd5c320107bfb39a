"""Robust transport for torch: distances between clouds with gradients, and the loss for networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(f"robust_ot.torch needs torch: pip install robust-ot[torch] ({error})") from error

from robust_ot import _core
from robust_ot._metric import Grouping, Metric, Prior, metric_arguments
from robust_ot._torch_distance import Bounded, RobustDistance, distance
from robust_ot._torch_loss import Loss, clamped, cross_entropy, log_predictions, losses_of, true_labels
from robust_ot._vectors import to_length_one

__all__ = ["Bounded", "Explanation", "RobustDistance", "RobustOTLoss", "distance"]


@dataclass(frozen=True)
class Explanation:
    """The plan and the metric behind the loss of one row.

    Attributes
    ----------
    loss : float
        The robust distance from the prediction to the true labels.
    error : float
        How far it may be above that distance: 0 with one label, and infinite where iterations are truncated.
    labels : ndarray
        The true labels.
    plan : ndarray of shape (L, number of true labels)
        How much mass of the prediction goes to each true label.
    metric : ndarray of shape (r, r)
        The worst metric.
    """

    loss: float
    error: float
    labels: NDArray[np.int64]
    plan: NDArray[np.float64]
    metric: NDArray[np.float64]


class RobustOTLoss(nn.Module):  # type: ignore[misc, unused-ignore]
    r"""Cross-entropy mixed with the robust distance from predictions to true labels.

    .. math:: \mathrm{mix_{ce}}\,\mathrm{CE}(y, h) + \mathrm{mix_{ot}}\,W(h, y), \qquad h = \mathrm{softmax}(z)

    W is exact for rows with one label, and has a relative gap of at most ``tolerance`` for others. Half-precision input is
    computed in single precision, and double precision stays double.

    CUDA tensors are computed on their own device and on torch's current stream, in single or double precision and with every
    metric set. Nothing waits for the device, and all memory comes from torch's allocator, so that CUDA graphs capture the loss
    once it has been called; :func:`torch.compile` sees one operator, on CPUs too. Bad values are not errors on a CUDA device:
    the loss of their row is NaN, and so is its gradient, unless ``validate`` is set. Only targets with a label dimension and
    more than one Frank-Wolfe iteration, which is the default, are copied to the CPU and computed there; ``fw_iterations=1``
    keeps them on the device.

    Parameters
    ----------
    label_vectors : array-like of shape (L, d)
        One vector per label; they are scaled to length one, as in ``rot train`` and :class:`RobustOTClassifier`.
    mix_ce, mix_ot : float
        Weights of cross-entropy and of transport.
    metric, k, rho, lam, prior, groups, grouping, seed
        As for :func:`robust_ot.distance`; ``groups='auto'`` uses 10 if the metric would otherwise be large.
    entropy, oracle_entropy, fw_iterations, sinkhorn_iterations, tolerance
        As for :func:`robust_ot.loss_gradient`.
    input : {'logits', 'probabilities'}
        What the network returns; probabilities are scaled to sum to one. For transport, a probability of zero counts as the
        smallest positive number.
    reduction : {'mean', 'sum', 'none'}
        How to reduce the losses of a batch.
    max_labels : int
        The most labels that a row of CUDA targets with a label dimension has; a row with more counts as bad. The plans of a
        batch take memory for rows × ``max_labels`` × L numbers.
    validate : bool
        Whether bad values in CUDA tensors raise an error, which waits for the device. CPU tensors are always checked.

    Examples
    --------
    >>> import torch
    >>> from robust_ot.torch import RobustOTLoss
    >>> vectors = [[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]]  # cat, dog, truck
    >>> loss = RobustOTLoss(vectors, mix_ce=0.0, mix_ot=1.0, reduction="none")
    >>> logits = torch.tensor([[0.0, 3.0, 0.0], [0.0, 0.0, 3.0]], requires_grad=True)
    >>> as_dog, as_truck = loss(logits, torch.tensor([0, 0]))
    >>> bool(as_dog < as_truck)
    True
    """

    def __init__(
        self,
        label_vectors: ArrayLike | Tensor,
        *,
        mix_ce: float = 1.0,
        mix_ot: float = 5.0,
        metric: Metric = "p",
        k: int = 1,
        rho: float = 2.0,
        lam: float = 1.0,
        prior: Prior = None,
        groups: int | Literal["auto"] | None = "auto",
        grouping: Grouping = "contiguous",
        seed: int = 0,
        entropy: float = 0.02,
        oracle_entropy: float | None = None,
        fw_iterations: int | None = None,
        sinkhorn_iterations: int | None = None,
        tolerance: float | None = None,
        input: Literal["logits", "probabilities"] = "logits",
        reduction: Literal["mean", "sum", "none"] = "mean",
        max_labels: int = 32,
        validate: bool = False,
    ) -> None:
        super().__init__()
        for name, weight in (("mix_ce", mix_ce), ("mix_ot", mix_ot)):
            if not (isinstance(weight, (int, float)) and 0 <= weight < float("inf")):
                raise ValueError(f"{name} must be finite and not negative, but is {weight}")
        if input not in ("logits", "probabilities"):
            raise ValueError(f"input must be 'logits' or 'probabilities', but is {input!r}")
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', but is {reduction!r}")
        if isinstance(max_labels, bool) or not isinstance(max_labels, int) or max_labels < 1:
            raise ValueError(f"max_labels must be a whole number of at least 1, but is {max_labels}")
        if isinstance(label_vectors, Tensor):
            label_vectors = label_vectors.detach().cpu().double().numpy()
        vectors = np.array(label_vectors)
        if vectors.ndim == 2 and vectors.dtype.kind in "biuf":
            vectors = to_length_one(vectors.astype(np.float64))
        if groups == "auto":
            by_rule = isinstance(grouping, str) and vectors.ndim == 2
            groups = _core.default_groups(metric, vectors.shape[1]) if by_rule else None
        self.mix_ce, self.mix_ot = mix_ce, mix_ot
        self.input, self.reduction = input, reduction
        self.max_labels, self.validate = max_labels, validate
        self._arguments = (
            vectors,
            metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed),
            (entropy, oracle_entropy, fw_iterations, sinkhorn_iterations, tolerance),
        )
        self._start()

    def _start(self) -> None:
        self._core = _core.RobustLoss(*self._arguments, False)
        self._labels = self._core.labels
        self._loss = Loss(self._core, (float(self.mix_ce), float(self.mix_ot)), self.max_labels, self.validate)
        self._key = self._loss.key
        # Logits and targets of the last batch.
        self._last: tuple[Tensor, Tensor] | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        r"""Compute the loss.

        Parameters
        ----------
        input : Tensor of shape (\*, L)
            Logits or probabilities.
        target : Tensor of shape (\*,) or (\*, L)
            Class indices, or 0/1 for every label. On a CUDA device also any numbers that are not negative, which are scaled to
            sum to one.

        Returns
        -------
        Tensor
            One number, or one per row with ``reduction='none'``.
        """
        for name, tensor in (("input", input), ("target", target)):
            if not isinstance(tensor, Tensor):
                raise ValueError(f"{name} must be a tensor, but is a {type(tensor).__name__}")
        if input.device != target.device:
            raise ValueError(f"target must be on the device of input, {input.device}, but is on {target.device}")
        if input.device.type not in ("cpu", "cuda"):
            raise ValueError(f"input must be on a CPU or a CUDA device, but is on {input.device}")
        labels = self._labels
        if input.dim() == 0 or input.shape[-1] != labels:
            raise ValueError(
                f"input must have one entry per label in its last dimension, {labels}, but has shape {tuple(input.shape)}"
            )
        batch = input.shape[:-1]
        flat = input.reshape(-1, labels)
        if flat.dtype in (torch.float16, torch.bfloat16):
            flat = flat.float()
        if self.input == "probabilities":
            flat = flat.log()
        if target.shape == batch:
            if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
                raise ValueError(f"target must be class indices where it has no label dimension, but is {target.dtype}")
            target = target.reshape(-1)
        elif target.shape == (*batch, labels):
            target = target.reshape(-1, labels)
        else:
            raise ValueError(f"target must have shape {tuple(batch)} or {(*batch, labels)}, but has {tuple(target.shape)}")
        if not torch.compiler.is_compiling():
            kept = (flat.detach(), target.detach())
            # The caller may change its tensors; those on a GPU are not copied.
            self._last = kept if flat.is_cuda else (kept[0].clone(), kept[1].clone())
        if self.mix_ot > 0:
            losses = losses_of(flat, target, self._key)
        else:
            if flat.device.type == "cpu" and not torch.compiler.is_compiling():
                true_labels(target, labels)
                log_predictions(flat.detach())
            losses = self.mix_ce * cross_entropy(flat, target)
        if self.reduction == "none":
            return losses.reshape(batch)
        return losses.mean() if self.reduction == "mean" else losses.sum()

    def explain(self) -> list[Explanation]:
        """Return the plan and the metric behind the loss of every row of the last batch.

        Targets must be class indices or 0/1. CUDA tensors are read when this is called, and batches inside
        :func:`torch.compile` are not kept.
        """
        if self._last is None:
            raise RuntimeError("explain needs a batch: call the loss first")
        logs, target = clamped(log_predictions(self._last[0])), self._last[1]
        starts, indices = true_labels(target, self._labels)
        found = self._core.explain(logs.double().cpu().contiguous().numpy(), (starts, indices))
        return [
            Explanation(loss, error, indices[starts[row] : starts[row + 1]], plan, metric)
            for row, (plan, metric, loss, error) in enumerate(found)
        ]

    def extra_repr(self) -> str:
        """Describe the loss in the representation of networks."""
        metric = self._arguments[1][0]
        return f"labels={self._labels}, metric={metric!r}, mix_ce={self.mix_ce}, mix_ot={self.mix_ot}"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_core", "_loss", "_key", "_last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()
