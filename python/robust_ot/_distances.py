"""Distances among many measures, as a matrix that can be read, drawn and searched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robust_ot._explanation import table

if TYPE_CHECKING:
    from robust_ot._neighbors import Neighbors

#: Rows and columns of the matrix that are shown.
_SHOWN = 10


@dataclass(frozen=True, repr=False)
class Distances:
    r"""All distances among some measures, or from some to others; ``np.asarray`` returns the matrix.

    Attributes
    ----------
    matrix : ndarray of shape (n, n) or (n, m)
        Upper bounds, the distances.
    lower_bounds : ndarray of the same shape
        Lower bounds.
    relative_gap : float
        The widest relative gap of any pair.
    unfinished : int
        Number of pairs that did not converge.
    offset : float
        h(0), the value between equal clouds; not zero for ``features`` and ``ds``.
    row_names, column_names : list of str or None
        The names of the measures and, in a matrix from some to others, of the documents, if they were given as a mapping.
    among : bool
        Whether rows and columns are the same measures.

    Examples
    --------
    >>> import numpy as np, robust_ot
    >>> clouds = {name: np.array([[0.0, 0.0], [1.0, 1.0]]) + shift for name, shift in [("a", 0.0), ("b", 0.1), ("c", 2.0)]}
    >>> found = robust_ot.pairwise(clouds, metric="w2")
    >>> print(*repr(found).splitlines()[1:], sep="\n")  # the first line tells the number of measures and the widest gap
          a     b     c
    a     0  0.02     8
    b  0.02     0  7.22
    c     8  7.22     0
    >>> found.nearest(1).indices.ravel()
    array([1, 0, 1])
    """

    matrix: NDArray[np.float64]
    lower_bounds: NDArray[np.float64]
    relative_gap: float
    unfinished: int
    offset: float
    row_names: list[str] | None = field(default=None, kw_only=True)
    column_names: list[str] | None = field(default=None, kw_only=True)
    among: bool = field(default=True, kw_only=True)

    @property
    def excess(self) -> NDArray[np.float64]:
        """``matrix`` − h(0): zero between equal clouds without entropy, and comparable across problems."""
        return self.matrix - self.offset

    def nearest(self, top_k: int = 1) -> Neighbors:
        """Return the nearest measures of every row, without the row itself.

        Parameters
        ----------
        top_k : int
            Number of neighbors per row.

        Returns
        -------
        Neighbors
            Their columns and distances, the nearest first, and whether the bounds prove them.
        """
        from robust_ot._neighbors import Neighbors

        rows, columns = self.matrix.shape
        most = columns - 1 if self.among else columns
        if not 1 <= top_k <= most:
            raise ValueError(f"top_k must be from 1 to {most}, but is {top_k}")
        values, lower = self.matrix.copy(), self.lower_bounds.copy()
        if self.among:
            np.fill_diagonal(values, np.inf)
            np.fill_diagonal(lower, np.inf)
        order = np.argsort(values, axis=1, kind="stable")[:, :top_k]
        distances, bounds = (np.take_along_axis(matrix, order, axis=1) for matrix in (values, lower))
        others = lower.copy()
        np.put_along_axis(others, order, np.inf, axis=1)
        certain = distances <= others.min(axis=1, keepdims=True)
        pairs = rows * (rows - 1) // 2 if self.among else rows * columns
        gap, unfinished, names = self.relative_gap, self.unfinished, (self.row_names, self.column_names)
        return Neighbors(
            order,
            distances,
            bounds,
            certain,
            gap,
            unfinished,
            pairs,
            0,
            pairs,
            self.offset,
            row_names=names[0],
            column_names=names[1],
        )

    def to_frame(self) -> Any:
        """Return the matrix as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"to_frame needs pandas: pip install pandas ({error})") from error
        return pd.DataFrame(self.matrix, index=self.row_names, columns=self.column_names)

    def heatmap(self, ax: Any = None) -> Any:
        """Draw the matrix; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.

        Returns
        -------
        Axes
            The axes drawn into.
        """
        from robust_ot.plot import distance_heatmap

        return distance_heatmap(self, ax=ax)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the matrix."""
        return np.array(self.matrix, dtype=dtype)

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if place else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        return "\n".join([self._title(), *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        """Show the first rows and columns, in a notebook."""
        head, *rows = self._cells()
        return table(self._title(), head, rows)

    def _title(self) -> str:
        rows, columns = self.matrix.shape
        what = f"among {rows} measures" if self.among else f"from {rows} measures to {columns}"
        unfinished = f", {self.unfinished} pairs not converged" if self.unfinished else ""
        return f"Distances {what}, relative gap at most {self.relative_gap:.1e}{unfinished}"

    def _cells(self) -> list[list[str]]:
        """Return the first rows and columns with their names."""
        rows, columns = (min(count, _SHOWN) for count in self.matrix.shape)
        names = [
            ([str(place) for place in range(count)] if given is None else given[:count]) + ["…"] * (count < whole)
            for given, count, whole in zip((self.row_names, self.column_names), (rows, columns), self.matrix.shape, strict=True)
        ]
        more = ["…"] * (columns < self.matrix.shape[1])
        body = [[f"{value:.4g}" for value in self.matrix[row, :columns]] + more for row in range(rows)]
        body += [["…"] * len(names[1])] * (rows < self.matrix.shape[0])
        return [["", *names[1]], *([name, *row] for name, row in zip(names[0], body, strict=True))]
