"""What ``solve`` and ``solve_sample`` return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robust_ot._pot_arrays import Kind, to_numpy


@dataclass(frozen=True)
class OTResult:
    """The solution of a transport problem, with the attributes of ``ot.utils.OTResult``.

    Attributes
    ----------
    plan : ndarray or tensor of shape (m, n) or None
        The transport plan.
    value : float or tensor
        The optimal value, with regularization.
    value_linear : float or tensor
        ⟨plan, M⟩.
    potentials : tuple of ndarray or tensor
        The dual potentials f and g, without gradients. With ``reg``, the plan is exp((f ⊕ g − M) / reg), times the reference
        measure if one was given.
    status : str
        ``'Converged'``, or what happened instead.
    log : dict
        What the solver logs.
    value_quad : None
        POT's Gromov-Wasserstein part.

    Examples
    --------
    >>> from robust_ot.pot import solve
    >>> solve([[0.0, 1.0], [1.0, 0.0]]).marginals
    (array([0.5, 0.5]), array([0.5, 0.5]))
    """

    value: Any
    value_linear: Any
    plan: Any = None
    potentials: Any = None
    status: str = "Converged"
    log: dict[str, Any] = field(default_factory=dict, repr=False)
    value_quad: None = None

    @property
    def potential_a(self) -> Any:
        """The potential of the source."""
        return None if self.potentials is None else self.potentials[0]

    @property
    def potential_b(self) -> Any:
        """The potential of the target."""
        return None if self.potentials is None else self.potentials[1]

    @property
    def marginals(self) -> tuple[Any, Any] | None:
        """The marginals of the plan."""
        return None if self.plan is None else (self.plan.sum(1), self.plan.sum(0))

    @property
    def marginal_a(self) -> Any:
        """The marginal of the plan on the source."""
        return None if self.marginals is None else self.marginals[0]

    @property
    def marginal_b(self) -> Any:
        """The marginal of the plan on the target."""
        return None if self.marginals is None else self.marginals[1]

    @property
    def sparse_plan(self) -> Any:
        """The plan as a sparse matrix, without its zeros."""
        if self.plan is None:
            return None
        plan = to_numpy(self.plan)
        rows, columns = np.nonzero(plan)
        return Kind.of(self.plan).coo(plan[rows, columns], rows, columns, plan.shape)

    @property
    def lazy_plan(self) -> Any:
        """The plan, which is stored; POT's ``lazy_plan[i]`` and ``lazy_plan[:]`` read its rows."""
        return self.plan
