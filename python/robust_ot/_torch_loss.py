"""The operator of RobustOTLoss: from logits and targets to losses and their gradient, for torch to trace and capture."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robust_ot import _core
from robust_ot._targets import Targets

_KINDS = {
    torch.bool: "bytes",
    torch.uint8: "bytes",
    torch.int64: "whole",
    torch.float32: "single",
    torch.float64: "double",
}


class Loss:
    """What the operator computes. Graphs of torch hold its key, a number."""

    def __init__(self, core: _core.RobustLoss, mix: tuple[float, float], max_labels: int, validate: bool) -> None:
        self.core, self.mix, self.max_labels, self.validate = core, mix, max_labels, validate
        self.key = next(_KEYS)
        self._cuda: dict[tuple[int, bool], _core.CudaLoss] = {}
        self._bytes: dict[tuple[int, bool, int, int], int] = {}
        _LOSSES[self.key] = self

    def on(self, device: torch.device, double: bool, rows: int, most: int) -> tuple[_core.CudaLoss, int]:
        """Return the loss on this device, made on first use, and the bytes of workspace for a batch."""
        assert device.index is not None
        found = self._cuda.get((device.index, double))
        if found is None:
            _refuse_capture(
                "the first call with a device and a precision compiles kernels and copies the labels; call it once before"
            )
            # Work on a GPU makes it the current device of this thread; torch restores the previous one.
            with torch.cuda.device(device):
                found = _core.CudaLoss(self.core, self.mix, device.index, double)
            self._cuda[device.index, double] = found
        shape = (device.index, double, rows, most)
        if shape not in self._bytes:
            self._bytes[shape] = found.workspace(rows, most)
        return found, self._bytes[shape]


_KEYS = itertools.count()
_LOSSES: weakref.WeakValueDictionary[int, Loss] = weakref.WeakValueDictionary()


def _refuse_capture(reason: str) -> None:
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(f"RobustOTLoss must not be captured here: {reason}")


def true_labels(target: Tensor, labels: int) -> Targets:
    """Check class indices, or 0/1 for every label, and return the true labels for the core."""
    if target.dim() == 1:
        classes = target.to(torch.int64)
        _check_classes(classes, labels)
        return np.arange(len(classes) + 1, dtype=np.int64), classes.cpu().numpy()
    if not ((target == 0) | (target == 1)).all():
        raise ValueError("target must be 0 or 1 where it has a label dimension, but one entry is neither")
    true = target != 0
    counts = _check_counts(true)
    starts = np.concatenate([[0], counts.cumsum(0).cpu().numpy()]).astype(np.int64)
    return starts, true.nonzero()[:, 1].contiguous().cpu().numpy()


def _check_classes(classes: Tensor, labels: int) -> None:
    if len(classes) and not (0 <= int(classes.min()) and int(classes.max()) < labels):
        wrong = classes[(classes < 0) | (classes >= labels)][0]
        raise ValueError(f"target must be class indices below {labels}, but one is {int(wrong)}")


def _check_counts(true: Tensor) -> Tensor:
    counts = true.sum(dim=-1)
    if not bool((counts > 0).all()):
        raise ValueError(f"target must give every row a label, but row {int((counts == 0).nonzero()[0])} has none")
    return counts


def log_predictions(input: Tensor) -> Tensor:
    """Return the log-softmax of logits, which must not be NaN."""
    logs = torch.log_softmax(input, dim=-1)
    if bool(logs.isnan().any()):
        raise ValueError("input must be finite, but some of it is not")
    return logs


def clamped(logs: Tensor) -> Tensor:
    """Return logarithms that are finite: at least that of the smallest positive number."""
    return logs.clamp(min=float(np.log(torch.finfo(logs.dtype).tiny)))


def cross_entropy(input: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of every row, NaN for bad values, by functions of torch that do not wait for the device."""
    logs = torch.log_softmax(input, dim=-1)
    if target.dim() == 1:
        classes = target.to(torch.int64)
        good = (classes >= 0) & (classes < input.shape[-1])
        losses = -logs.gather(-1, classes.clamp(0, input.shape[-1] - 1).unsqueeze(-1)).squeeze(-1)
    else:
        weights = target.to(logs.dtype)
        total = weights.sum(dim=-1)
        good = (weights >= 0).all(dim=-1) & (total > 0) & (total < float("inf"))
        losses = -torch.where(weights > 0, weights * logs, torch.zeros_like(logs)).sum(dim=-1) / total
    return torch.where(good, losses, torch.full_like(losses, float("nan")))


def _on_cpu(input: Tensor, target: Tensor, key: int) -> tuple[Tensor, Tensor]:
    loss = _LOSSES[key]
    targets = true_labels(target, input.shape[-1])
    logs = log_predictions(input)
    starts, indices = (torch.from_numpy(numbers) for numbers in targets)
    counts = starts.diff()
    shares = torch.zeros_like(logs)
    shares[torch.arange(len(counts)).repeat_interleave(counts), indices] = 1
    shares /= counts.unsqueeze(-1)
    cross = -torch.where(shares > 0, shares * logs, torch.zeros_like(logs)).sum(dim=-1)
    slopes = loss.mix[0] * (logs.exp() - shares)
    logs = clamped(logs).contiguous()
    of_rows, gradients = loss.core.loss_gradient(logs.numpy(), targets)
    h, gradient = logs.exp(), torch.from_numpy(gradients)
    # ∂W/∂z = h ∘ (g − ⟨h, g⟩) for the gradient g in h.
    slopes += loss.mix[1] * h * (gradient - (h * gradient).sum(dim=-1, keepdim=True))
    return loss.mix[0] * cross + loss.mix[1] * torch.from_numpy(of_rows).to(logs.dtype), slopes


def _on_cuda(input: Tensor, target: Tensor, key: int) -> tuple[Tensor, Tensor]:
    loss = _LOSSES[key]
    rows, labels = input.shape
    most = 1 if target.dim() == 1 else min(loss.max_labels, labels)
    if most > 1 and loss.core.iterates:
        _refuse_capture("several Frank-Wolfe iterations for rows of several labels run on the CPU; use fw_iterations=1")
        losses, slopes = _on_cpu(input.cpu(), target.cpu(), key)
        return losses.to(input.device), slopes.to(input.device)
    input = input.contiguous()
    if target.dim() == 1:
        kind, target = "classes", target.to(torch.int64).contiguous()
    else:
        if target.dtype not in _KINDS:
            target = target.float() if target.is_floating_point() else target.long()
        kind, target = _KINDS[target.dtype], target.contiguous()
    if loss.validate:
        _check(input, target, most)
    double = input.dtype == torch.float64
    core, room = loss.on(input.device, double, rows, most)
    losses, slopes = input.new_empty(rows), input.new_empty((rows, labels))
    # Memory of the current stream, which torch gives to later work on the same stream only.
    workspace = torch.empty(room, dtype=torch.uint8, device=input.device)
    addresses = (input.data_ptr(), target.data_ptr(), losses.data_ptr(), slopes.data_ptr(), workspace.data_ptr())
    stream = torch.cuda.current_stream(input.device).cuda_stream
    if input.device.index == torch.cuda.current_device():
        core.enqueue(stream, (rows, most), kind, addresses)
    else:
        with torch.cuda.device(input.device):
            core.enqueue(stream, (rows, most), kind, addresses)
    if loss.validate and bool(losses.isnan().any()):
        row = int(losses.isnan().nonzero()[0])
        raise ValueError(f"the loss must be a number, but that of row {row} is NaN: its metric is out of range")
    return losses, slopes


def _check(input: Tensor, target: Tensor, most: int) -> None:
    """Raise what would be NaN, at the price of a synchronization."""
    if target.dim() == 1:
        _check_classes(target, input.shape[-1])
    else:
        if not bool(((target >= 0) & (target < float("inf"))).all()):
            raise ValueError("target must be finite and not negative where it has a label dimension, but one entry is not")
        counts = _check_counts(target != 0)
        if len(counts) and int(counts.max()) > most:
            raise ValueError(f"target must have at most max_labels={most} labels per row, but one has {int(counts.max())}")
    log_predictions(input)


def _shapes(input: Tensor, target: Tensor, key: int) -> tuple[Tensor, Tensor]:
    return input.new_empty((input.shape[0],)), input.new_empty(input.shape)


class _Once(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """A gradient whose own derivative is refused, not silently zero."""

    @staticmethod
    def forward(ctx: Any, slopes: Tensor, input: Tensor) -> Tensor:
        return slopes.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("RobustOTLoss has no second derivative")


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1], inputs[0])


def _pull_back(ctx: Any, of_losses: Tensor | None, of_slopes: None) -> tuple[Tensor | None, None, None]:
    if of_losses is None:
        return None, None, None
    slopes, input = ctx.saved_tensors
    if torch.is_grad_enabled():
        slopes = _Once.apply(slopes, input)
    return slopes * of_losses.unsqueeze(-1), None, None


_LIBRARY: Any = torch.library
_LIBRARY = _LIBRARY.Library("robust_ot", "DEF")
_LIBRARY.define("loss(Tensor input, Tensor target, int key) -> (Tensor, Tensor)", tags=(torch.Tag.pt2_compliant_tag,))
_LIBRARY.impl("loss", _on_cpu, "CPU")
_LIBRARY.impl("loss", _on_cuda, "CUDA")
torch.library.register_fake("robust_ot::loss", _shapes, lib=_LIBRARY)
torch.library.register_autograd("robust_ot::loss", _pull_back, setup_context=_save, lib=_LIBRARY)


def losses_of(input: Tensor, target: Tensor, loss_key: int) -> Tensor:
    """Return the losses of logits, rows × labels, against class indices or dense targets."""
    losses: Tensor = torch.ops.robust_ot.loss(input, target, loss_key)[0]
    return losses
