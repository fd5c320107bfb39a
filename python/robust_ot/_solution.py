"""The solution of a robust distance problem."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_ot import _core
from robust_ot._explanation import Explanation
from robust_ot._interchange import in_kind

#: Number of metric entries in the notebook's table.
_SHOWN = 5
#: Number of lines of each list in an explanation as text, as on the command line.
_LINES = 8

Names = Sequence[str] | None


@dataclass(frozen=True)
class Gradient:
    """The gradient of a distance in its four arguments.

    Attributes
    ----------
    X, Y : ndarray of shape (m, d) and (n, d)
        In the points.
    a, b : ndarray of shape (m,) and (n,)
        In the weights: potentials, centered so that the sum of the weights does not change. With entropy, a point without
        weight has −∞, and NaN in a debiased distance.
    """

    X: NDArray[np.float64]
    Y: NDArray[np.float64]
    a: NDArray[np.float64]
    b: NDArray[np.float64]


class Solution:
    """A robust distance with its certificate: ``lower_bound`` ≤ W ≤ ``value``.

    :func:`robust_ot.distance` returns it. It can be pickled, with its plan stored explicitly.

    Examples
    --------
    >>> import robust_ot
    >>> solution = robust_ot.distance([[0.0, 0.0], [1.0, 0.0]], [[0.0, 2.0], [1.0, 2.0]])
    >>> solution
    Solution(value=4, lower_bound=4, status='converged', metric='p')
    >>> solution.plan()
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    __slots__ = ("_core", "_rows", "feature_names", "metric_name")

    metric_name: str
    """The name of the metric set."""
    feature_names: list[str] | None
    """The column names of X, if it was a data frame, or else of Y."""

    def __init__(
        self, core: _core.Solution, metric_name: str, feature_names: Names = None, row_names: tuple[Names, Names] = (None, None)
    ) -> None:
        self._core = core
        self.metric_name = metric_name
        self.feature_names = None if feature_names is None else list(feature_names)
        self._rows = row_names

    @property
    def value(self) -> float:
        """Upper bound of the optimum; without entropy, the cost of the plan under its worst metric."""
        return self._core.value

    @property
    def lower_bound(self) -> float:
        """Lower bound of the optimum."""
        return self._core.lower_bound

    @property
    def excess(self) -> float:
        """``value`` − h(0): zero between equal clouds without entropy, and the number to compare across problems."""
        return self._core.excess

    @property
    def excess_lower_bound(self) -> float:
        """``lower_bound`` − h(0)."""
        return self._core.excess_lower_bound

    @property
    def offset(self) -> float:
        """h(0), the value between equal clouds without entropy; not zero for ``features`` and ``ds``."""
        return self._core.offset

    @property
    def gap(self) -> float:
        """``value`` − ``lower_bound``."""
        return self._core.gap

    @property
    def relative_gap(self) -> float:
        """The gap relative to the transport cost; at most ``tol`` if converged."""
        return self._core.relative_gap

    @property
    def transport_cost(self) -> float:
        """The cost of the plan under the worst metric, without penalty or entropy."""
        return self._core.transport_cost

    @property
    def unregularized_value(self) -> float:
        """The value without entropy."""
        return self._core.unregularized_value

    @property
    def status(self) -> str:
        """How the solve ended: ``converged``, or why not."""
        return self._core.status

    @property
    def device(self) -> str:
        """The device that solved it: ``cpu``, or the name of a GPU."""
        return self._core.device

    @property
    def n_iter(self) -> int:
        """Number of Frank-Wolfe iterations."""
        return self._core.iterations

    @property
    def oracle_calls(self) -> int:
        """Number of plain transport problems solved."""
        return self._core.oracle_calls

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of source and target points."""
        return self._core.shape

    @property
    def metric(self) -> NDArray[np.float64]:
        """The worst metric, groups × groups."""
        return self._core.metric

    @property
    def moment(self) -> NDArray[np.float64]:
        """V, the second moment of the displacements under the plan, groups × groups."""
        return self._core.moment

    @property
    def groups(self) -> NDArray[np.intp]:
        """The group of every feature."""
        return np.asarray(self._core.groups, dtype=np.intp)

    @property
    def group_names(self) -> list[str]:
        """Names for the rows of ``metric``: the features, or the groups with their first and last feature."""
        return self._core.group_names(self.feature_names)

    @property
    def feature_weights(self) -> NDArray[np.float64]:
        """The weight of every feature in the worst metric: the diagonal entry of its group."""
        return np.diag(self.metric)[self.groups]

    @property
    def potentials(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Dual variables of the plain transport problem that gave the best lower bound."""
        return self._core.potentials

    @property
    def history(self) -> NDArray[np.float64]:
        """One row per iteration: value and lower bound after it."""
        return np.array([row[1:] for row in self._core.history], dtype=np.float64).reshape(-1, 2)

    def plan(self) -> NDArray[np.float64]:
        """Return the transport plan, source × target points."""
        return self._core.dense()

    def explain(self, largest: int = 20) -> Explanation:
        """Rank the features and pairs of features by their weight in the worst metric, and the flows by their cost.

        Parameters
        ----------
        largest : int
            Maximum number of entries of each kind.

        Returns
        -------
        Explanation
            Print it, show it in a notebook, or take its lists or data frames.
        """
        if largest < 1:
            raise ValueError(f"largest must be at least 1, but is {largest}")
        sources, targets = self._rows
        found = self._core.explain(largest, self.feature_names, sources, targets)
        shown = found if largest <= _LINES else self._core.explain(_LINES, self.feature_names, sources, targets)
        return Explanation(found, shown["text"])

    def sparse_plan(self) -> Any:
        """Return the transport plan as a :class:`scipy.sparse.coo_array`; exact plans have few entries."""
        try:
            from scipy.sparse import coo_array
        except ImportError as error:
            raise ImportError(f"sparse_plan needs scipy: pip install scipy ({error})") from error
        rows, columns, masses = self._core.sparse()
        return coo_array((masses, (rows, columns)), shape=self.shape)

    def gradient(self) -> Gradient:
        r"""Return the gradient of the distance in points and weights.

        By the envelope theorem, at the plan γ, its worst metric M and the potentials f,

        .. math:: \nabla_{x_i} W = 2 \sum_j \gamma_{ij} M (x_i - y_j), \qquad
                  \frac{\partial W}{\partial a_i} = f_i - \langle a, f \rangle .

        It is that of W where plan and metric are unique (for weights, where the centered potentials are), and off by some √gap
        of its size. With ``scale``, the divisors of the features are held fixed; with ``debias``, the metric is.

        Examples
        --------
        >>> import robust_ot
        >>> robust_ot.distance([[0.0, 0.0]], [[3.0, 4.0]], metric="w2").gradient().X
        array([[-6., -8.]])
        """
        return Gradient(*self._core.gradient())

    def transport(self, X_new: Any = None) -> Any:
        r"""Map points as the plan does.

        Parameters
        ----------
        X_new : array-like of shape (k, d), optional
            Points; by default, those of X.

        Returns
        -------
        array of shape (k, d)
            Their images, an array of the kind of ``X_new``. A point of X moves to the mean of its targets,
            :math:`T(x_i) = \sum_j \gamma_{ij} y_j / a_i`. With entropy, any other point moves by the same rule, with the
            potentials of the plan; without, as the nearest point of X does.

        Examples
        --------
        >>> import robust_ot
        >>> solution = robust_ot.distance([[0.0], [4.0]], [[1.0], [2.0], [7.0], [9.0]], metric="w2")
        >>> solution.transport()
        array([[1.5],
               [8. ]])
        >>> solution.transport([[0.5]])
        array([[2.]])
        """
        return in_kind(X_new, self._core.transport(X_new))

    def __float__(self) -> float:
        return self.value

    def __reduce__(self) -> tuple[Any, ...]:
        return (Solution, (self._core, self.metric_name, self.feature_names, self._rows))

    def __repr__(self) -> str:
        excess = f"excess={self.excess:.6g}, " if self.offset else ""
        return (
            f"Solution({excess}value={self.value:.6g}, lower_bound={self.lower_bound:.6g}, "
            f"status={self.status!r}, metric={self.metric_name!r})"
        )

    def _repr_html_(self) -> str:
        """Show bounds and the features that matter, in a notebook."""
        metric = self.metric
        order = np.argsort(-np.abs(np.triu(metric)), axis=None)[:_SHOWN]
        pairs = [divmod(int(place), len(metric)) for place in order]
        names = self.group_names
        rows = [("excess", f"{self.excess:.6g}, with h(0) = {self.offset:.6g}")] if self.offset else []
        rows += [
            ("distance", f"{self.value:.6g}"),
            ("certified", f"{self.lower_bound:.6g} ≤ W ≤ {self.value:.6g}, relative gap {self.relative_gap:.1e}"),
            ("metric", self.metric_name),
            ("points", f"{self.shape[0]} and {self.shape[1]} in {len(self.groups)} dimensions"),
            ("status", f"{self.status} after {self.oracle_calls} oracle calls"),
        ]
        for a, b in pairs:
            name = names[a] if a == b else f"{names[a]} with {names[b]}"
            rows.append((f"weight of {name}", f"{metric[a, b]:.4f}"))
        cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
        return f"<table>{cells}</table>"
