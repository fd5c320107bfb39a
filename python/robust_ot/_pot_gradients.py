"""Gradients of transport for torch tensors: the envelope theorem for values, implicit differentiation for plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def with_gradients(value: Tensor, terms: Sequence[tuple[Any, Tensor]]) -> Tensor:
    """Return a value whose gradient in each argument is given; arguments that are not tensors are left out."""
    tensors = [(argument, gradient) for argument, gradient in terms if isinstance(argument, Tensor)]
    result: Tensor = _Value.apply(value, [gradient for _, gradient in tensors], *(argument for argument, _ in tensors))
    return result


class _Value(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """A value with known gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *arguments: Tensor) -> Tensor:
        ctx.gradients = gradients
        ctx.save_for_backward(*arguments)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        given = [_fitted(gradient, argument) for gradient, argument in zip(ctx.gradients, ctx.saved_tensors, strict=True)]
        once = [None if gradient is None else _Once.apply(gradient, *ctx.saved_tensors) for gradient in given]
        return (None, None, *(None if gradient is None else gradient * grad_output.to(gradient) for gradient in once))


class _Once(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """A gradient whose own derivative is refused, not silently zero."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *arguments: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        raise NotImplementedError("transport has no second derivative")


def _fitted(gradient: Tensor, argument: Tensor) -> Tensor | None:
    """Return a gradient in the type of its argument; empty weights, which mean uniform ones, have none."""
    if gradient.shape != argument.shape:
        return None
    return gradient.to(device=argument.device, dtype=argument.dtype)


def entropic_plan(plan: Any, reg: float, log_kernel: NDArray[Any], kind: Any, arguments: Sequence[Any]) -> Tensor:
    """Return an entropic plan as a tensor that depends on weights and costs, those of them that are tensors.

    ``log_kernel`` is −M / ε; with the logarithms of the scalings it gives the conditional plans of points without weight.
    """
    tensors = [argument if isinstance(argument, Tensor) else None for argument in arguments]
    result: Tensor = _Plan.apply(kind.array(plan.plan), plan, reg, log_kernel, *tensors)
    return result


class _Plan(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    r"""The plan γ = exp((f ⊕ g − M) / ε) with marginals a and b.

    Its differential is γ ∘ (df ⊕ dg − dM) / ε, where df and dg follow from the marginals. For a loss with gradient G in γ,
    let (λ, μ) solve

    .. math:: a ∘ λ + γ μ = (G ∘ γ) 1, \qquad γ^\top λ + b ∘ μ = (G ∘ γ)^\top 1;

    then λ and μ are the gradients in a and b, and γ ∘ (λ ⊕ μ − G) / ε is the gradient in M.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        solved: Any,
        reg: float,
        log_kernel: NDArray[Any],
        a: Tensor | None,
        b: Tensor | None,
        M: Tensor | None,
    ) -> Tensor:
        ctx.solved, ctx.reg, ctx.log_kernel = solved, reg, log_kernel
        ctx.save_for_backward(a, b, M)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        solved = ctx.solved
        outer = grad_output.detach().double().cpu().numpy()
        in_a, in_b = multipliers(solved.plan, outer)
        # Mass put on a point without weight follows the kernel: λ = Σ_j q_j (G_j − μ_j) with q = softmax(ln v − M / ε).
        for i in np.flatnonzero(solved.plan.sum(1) == 0):
            in_a[i] = _softmax(solved.log_v + ctx.log_kernel[i]) @ (outer[i] - in_b)
        for j in np.flatnonzero(solved.plan.sum(0) == 0):
            in_b[j] = _softmax(solved.log_u + ctx.log_kernel[:, j]) @ (outer[:, j] - in_a)
        in_costs = solved.plan * (in_a[:, None] + in_b - outer) / ctx.reg
        tensors = [argument for argument in ctx.saved_tensors if argument is not None]
        given: list[Tensor | None] = []
        for numbers, argument in zip((in_a, in_b, in_costs), ctx.saved_tensors, strict=True):
            gradient = None if argument is None else _fitted(torch.as_tensor(numbers), argument)
            given.append(None if gradient is None else _Once.apply(gradient, grad_output, *tensors))
        return (None, None, None, None, *given)


def multipliers(plan: NDArray[np.float64], outer: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Solve for (λ, μ) of the points with weight, by the Schur complement of the smaller side; they are zero elsewhere.

    The system determines them up to a shift between λ and μ, or up to one shift for each part of a plan that splits. A shift
    is in the kernel of the complement, and the pseudo-inverse leaves it out.
    """
    if plan.shape[0] < plan.shape[1]:
        mu, of_rows = multipliers(plan.T, outer.T)
        return of_rows, mu
    rows, columns = plan.sum(1) > 0, plan.sum(0) > 0
    kept = plan[np.ix_(rows, columns)]
    a, b = kept.sum(1), kept.sum(0)
    weighted = kept * outer[np.ix_(rows, columns)]
    conditional = kept / a[:, None]
    target = weighted.sum(0) - conditional.T @ weighted.sum(1)
    # Between 1 / √b on both sides, the eigenvalues lie in [0, 1].
    root = np.sqrt(b)
    values, vectors = np.linalg.eigh(np.eye(len(b)) - (kept / root).T @ (conditional / root))
    moves = values > len(b) * np.finfo(np.float64).eps
    vectors, values = vectors[:, moves], values[moves]
    in_a, in_b = np.zeros(plan.shape[0]), np.zeros(plan.shape[1])
    in_b[columns] = vectors @ ((target / root) @ vectors / values) / root
    in_a[rows] = weighted.sum(1) / a - conditional @ in_b[columns]
    return in_a, in_b


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(logits - logits.max())
    return np.asarray(exponentials / exponentials.sum())
