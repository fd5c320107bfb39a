"""The robust loss for torch networks."""

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
from robust_ot._targets import Targets
from robust_ot._vectors import to_length_one

__all__ = ["Explanation", "RobustOTLoss"]


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


class _Transport(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """W of log-probabilities; the gradient is computed with the loss."""

    @staticmethod
    def forward(ctx: Any, log_probabilities: Tensor, core: _core.RobustLoss | _core.CudaLoss, targets: Targets) -> Tensor:
        logs = log_probabilities.detach().contiguous()
        predictions = logs.exp()
        if isinstance(core, _core.CudaLoss):
            gradient, losses = torch.empty_like(logs), torch.empty(len(logs), dtype=torch.float64, device=logs.device)
            addresses = (logs.data_ptr(), predictions.data_ptr(), gradient.data_ptr(), losses.data_ptr())
            # Work on a GPU makes it the current device of this thread; torch restores the previous one.
            with torch.cuda.device(logs.device):
                core.loss_gradient(torch.cuda.current_stream(logs.device).cuda_stream, targets, addresses)
        else:
            of_rows, gradients = core.loss_gradient(logs.cpu().numpy(), targets)
            losses, gradient = torch.from_numpy(of_rows).to(logs.device), torch.from_numpy(gradients).to(logs.device)
        # ∂W/∂ln h = h ∘ ∂W/∂h.
        ctx.save_for_backward(gradient.mul_(predictions), log_probabilities)
        return losses.to(logs.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        gradient, log_probabilities = ctx.saved_tensors
        return _Once.apply(gradient, log_probabilities) * grad_output.unsqueeze(-1), None, None


class _Once(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """A gradient whose own derivative is refused, not silently zero."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, log_probabilities: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("RobustOTLoss has no second derivative")


class RobustOTLoss(nn.Module):  # type: ignore[misc, unused-ignore]
    r"""Cross-entropy mixed with the robust distance from predictions to true labels.

    .. math:: \mathrm{mix_{ce}}\,\mathrm{CE}(y, h) + \mathrm{mix_{ot}}\,W(h, y), \qquad h = \mathrm{softmax}(z)

    W is exact for rows with one label, and has a relative gap of at most ``tolerance`` for others. Half-precision input is
    computed in single precision, and double precision stays double.

    CUDA tensors are computed on their own device, on torch's current stream, in single precision and without a copy of
    predictions or gradients; only true labels go through the host. Rows with several labels and more than one Frank-Wolfe
    iteration, which is the default, are copied to the CPU and computed there; ``fw_iterations=1`` keeps them on the device.
    ``srw`` and ``rkp`` need CPU tensors.

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
    ) -> None:
        super().__init__()
        for name, weight in (("mix_ce", mix_ce), ("mix_ot", mix_ot)):
            if not (isinstance(weight, (int, float)) and 0 <= weight < float("inf")):
                raise ValueError(f"{name} must be finite and not negative, but is {weight}")
        if input not in ("logits", "probabilities"):
            raise ValueError(f"input must be 'logits' or 'probabilities', but is {input!r}")
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', but is {reduction!r}")
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
        self._arguments = (
            vectors,
            metric_arguments(metric, k, rho, lam, prior, groups, grouping, seed),
            (entropy, oracle_entropy, fw_iterations, sinkhorn_iterations, tolerance),
        )
        self._core = _core.RobustLoss(*self._arguments, False)
        self._cuda: dict[int, _core.CudaLoss] = {}
        self._last: tuple[Tensor, Targets] | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        r"""Compute the loss.

        Parameters
        ----------
        input : Tensor of shape (\*, L)
            Logits or probabilities.
        target : Tensor of shape (\*,) or (\*, L)
            Class indices, or 0/1 for every label.

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
        if input.is_cuda and input.dtype == torch.float64:
            raise ValueError("input must be float32, float16 or bfloat16 on a CUDA device, but is float64; use .float() first")
        labels = self._core.labels
        if input.dim() == 0 or input.shape[-1] != labels:
            raise ValueError(
                f"input must have one entry per label in its last dimension, {labels}, but has shape {tuple(input.shape)}"
            )
        batch = input.shape[:-1]
        flat = input.reshape(-1, labels)
        if flat.dtype in (torch.float16, torch.bfloat16):
            flat = flat.float()
        logs = torch.log_softmax(flat.log() if self.input == "probabilities" else flat, dim=-1)
        targets, shares = self._targets(target, batch, logs)
        if bool(logs.isnan().any()):
            raise ValueError("input must be finite, but some of it is not")
        losses = -self.mix_ce * torch.where(shares > 0, shares * logs, torch.zeros_like(logs)).sum(dim=-1)
        # A label that is ruled out gets the logarithm of the smallest positive number.
        logs = logs.clamp(min=float(np.log(torch.finfo(logs.dtype).tiny)))
        self._last = (logs.detach(), targets)
        if self.mix_ot > 0:
            losses = losses + self.mix_ot * _Transport.apply(logs, self._on(logs.device, targets), targets)
        if self.reduction == "none":
            return losses.reshape(batch)
        return losses.mean() if self.reduction == "mean" else losses.sum()

    def _on(self, device: torch.device, targets: Targets) -> _core.RobustLoss | _core.CudaLoss:
        """Return the loss on this device, made on first use, or the CPU's for what only that computes."""
        several = len(targets[1]) > len(targets[0]) - 1
        if device.type == "cpu" or (self._core.iterates and several):
            return self._core
        index = torch.cuda.current_device() if device.index is None else device.index
        if index not in self._cuda:
            with torch.cuda.device(index):
                self._cuda[index] = _core.CudaLoss(self._core, index)
        return self._cuda[index]

    def explain(self) -> list[Explanation]:
        """Return the plan and the metric behind the loss of every row of the last batch."""
        if self._last is None:
            raise RuntimeError("explain needs a batch: call the loss first")
        logs, (starts, indices) = self._last
        found = self._core.explain(logs.double().cpu().contiguous().numpy(), (starts, indices))
        return [
            Explanation(loss, error, indices[starts[row] : starts[row + 1]], plan, metric)
            for row, (plan, metric, loss, error) in enumerate(found)
        ]

    def _targets(self, target: Tensor, batch: torch.Size, logs: Tensor) -> tuple[Targets, Tensor]:
        """Return the true labels for the core, and as shares that sum to one for cross-entropy."""
        labels = logs.shape[-1]
        if target.shape == batch:
            if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
                raise ValueError(f"target must be class indices where it has no label dimension, but is {target.dtype}")
            classes = target.reshape(-1).to(torch.int64)
            rows = len(classes)
            if rows and not (0 <= int(classes.min()) and int(classes.max()) < labels):
                wrong = classes[(classes < 0) | (classes >= labels)][0]
                raise ValueError(f"target must be class indices below {labels}, but one is {int(wrong)}")
            shares = torch.nn.functional.one_hot(classes, labels).to(logs.dtype)
            return (np.arange(rows + 1, dtype=np.int64), classes.cpu().numpy()), shares
        if target.shape != (*batch, labels):
            raise ValueError(f"target must have shape {tuple(batch)} or {(*batch, labels)}, but has {tuple(target.shape)}")
        chosen = target.reshape(-1, labels)
        if not ((chosen == 0) | (chosen == 1)).all():
            raise ValueError("target must be 0 or 1 where it has a label dimension, but one entry is neither")
        true = chosen != 0
        counts = true.sum(dim=-1)
        if not bool((counts > 0).all()):
            raise ValueError(f"target must give every row a label, but row {int((counts == 0).nonzero()[0])} has none")
        starts = np.concatenate([[0], counts.cumsum(0).cpu().numpy()]).astype(np.int64)
        return (starts, true.nonzero()[:, 1].contiguous().cpu().numpy()), true.to(logs.dtype) / counts.unsqueeze(-1)

    def extra_repr(self) -> str:
        """Describe the loss in the representation of networks."""
        metric = self._arguments[1][0]
        return f"labels={self._core.labels}, metric={metric!r}, mix_ce={self.mix_ce}, mix_ot={self.mix_ot}"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_core", "_cuda", "_last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._core = _core.RobustLoss(*self._arguments, False)
        self._cuda = {}
        self._last = None
