"""The result of comparing two tables."""

from __future__ import annotations

import html
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

#: Number of columns, pairs and groups that are listed.
_SHOWN = 8


class Comparison:
    """Whether two tables differ, and where; :func:`robust_ot.compare` returns it.

    p-values of columns, pairs, groups and text columns are adjusted for their number.

    Examples
    --------
    >>> import robust_ot
    >>> found = robust_ot.compare([[0.0], [1.0], [2.0], [3.0]], [[10.0], [11.0], [12.0], [13.0]])
    >>> round(found.p_value, 4), found.exhaustive  # 2 of the 70 arrangements of the rows
    (0.0286, True)
    >>> print(found)
    The tables differ, p = 0.0286 (all 69 other arrangements of the rows)
    columns
      1  p = 0.0286  mean +7.75 sd [+6.36, +9.13]
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    @property
    def p_value(self) -> float:
        """The p-value of the comparison."""
        return float(self._found["p_value"])

    @property
    def differs(self) -> bool:
        """Whether the p-value is at most ``alpha``."""
        return bool(self._found["differs"])

    @property
    def alpha(self) -> float:
        """The level."""
        return float(self._found["alpha"])

    @property
    def statistic(self) -> str:
        """``family``, or the metric set whose distance is the statistic."""
        return str(self._found["statistic"])

    @property
    def permutations(self) -> int:
        """Number of arrangements, without the observed one."""
        return int(self._found["permutations"])

    @property
    def exhaustive(self) -> bool:
        """Whether these are all arrangements that there are."""
        return bool(self._found["exhaustive"])

    @property
    def decided_by_bounds(self) -> int | None:
        """The arrangements that bounds decided before their solve had converged; None without ``metric``."""
        found: int | None = self._found["decided_by_bounds"]
        return found

    @property
    def rows(self) -> tuple[int, int]:
        """Numbers of rows used, before and after."""
        before, after = self._found["rows"]
        return int(before), int(after)

    @property
    def columns(self) -> list[str]:
        """The names of the columns compared."""
        return list(self._found["columns"])

    @property
    def left_out(self) -> dict[str, str]:
        """The columns left out, with the reason."""
        return {**dict(self._found["left_out_columns"]), **dict.fromkeys(self._found["constant_columns"], "constant")}

    @property
    def missing_rows(self) -> tuple[int, int]:
        """Numbers of rows left out because of missing values."""
        before, after = self._found["missing_rows"]
        return int(before), int(after)

    @property
    def distance(self) -> tuple[float, float] | None:
        """The robust distance of the scaled columns and its lower bound; without ``metric``, of at most 400 rows a side."""
        found = self._found["distance"]
        return None if found is None else (float(found[0]), float(found[1]))

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The five statistics with their own p-values; empty with ``metric``."""
        return list(self._found["parts"])

    @property
    def features(self) -> list[dict[str, Any]]:
        """The columns by p-value: name, p_value, unadjusted, statistic, weight, change, histogram."""
        return list(self._found["features"])

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """Pairs of columns by p-value: names, p_value, unadjusted, statistic, weight, change."""
        return list(self._found["pairs"])

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Groups of columns by p-value: name, columns, p_value, statistic."""
        return list(self._found["groups"])

    @property
    def categories(self) -> list[dict[str, Any]]:
        """Text columns by p-value: name, p_value, distance, shares."""
        return list(self._found["categories"])

    @property
    def moved(self) -> list[dict[str, Any]]:
        """The rows that a plan between the scaled tables moves farthest: before, after, distance."""
        return list(self._found["moved"])

    @property
    def within(self) -> dict[str, Comparison | None]:
        """With ``by``, the comparison within each value; None where a side has fewer than two rows."""
        return {one["value"]: Comparison(_complete(one)) if "p_value" in one else None for one in self._found.get("within", [])}

    def arrangements(self, part: str) -> NDArray[np.float64]:
        """Return a statistic in all arrangements, the observed one first; ``part`` is a name in ``parts``."""
        found = self._found["arrangements"]
        if part not in found:
            raise KeyError(f"part must be one of {', '.join(found) or 'none'}, but is {part!r}")
        return np.asarray(found[part], dtype=np.float64)

    def to_frame(self, kind: Literal["features", "pairs", "groups", "parts", "categories"] = "features") -> Any:
        """Return columns, pairs, groups, statistics or text columns as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"to_frame needs pandas: pip install pandas ({error})") from error
        kinds = ("features", "pairs", "groups", "parts", "categories")
        if kind not in kinds:
            raise ValueError(f"kind must be one of {', '.join(kinds)}, but is {kind!r}")
        return pd.DataFrame([_flat(row) for row in self._found[kind]])

    def plot(self, ax: Any = None, largest: int = 15) -> Any:
        """Draw the columns by how far they are beyond chance; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        largest : int
            The number of columns drawn.

        Returns
        -------
        Axes
            The axes drawn into.
        """
        from robust_ot.plot import _axes

        ax = _axes(ax)
        shown = self.features[:largest][::-1]
        colors = ["#d55e00" if row["p_value"] <= self.alpha else "#949494" for row in shown]
        ax.barh([row["name"] for row in shown], [row["statistic"] for row in shown], color=colors)
        ax.set_xlabel(f"standard deviations beyond chance; colored: p ≤ {self.alpha:g}")
        ax.set_title(f"{'The tables differ' if self.differs else 'No difference found'}, p = {_p(self.p_value)}")
        return ax

    def __repr__(self) -> str:
        return f"Comparison(p_value={self.p_value:.4g}, differs={self.differs}, rows={self.rows}, columns={len(self.columns)})"

    def __str__(self) -> str:
        lines = [self._verdict()]
        for title, rows in self._tables():
            lines.append(title)
            width = max(len(row[0]) for row in rows)
            lines += [f"  {name:<{width}}  p = {p_value}  {change}".rstrip() for name, p_value, change in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show the verdict and what changed, in a notebook."""
        parts = [f"<p><b>{html.escape(self._verdict())}</b></p>"]
        for title, rows in self._tables():
            cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            parts.append(f"<table><caption>{title}</caption><tr><th></th><th>p</th><th>change</th></tr>{cells}</table>")
        return "".join(parts)

    def _verdict(self) -> str:
        which = f"all {self.permutations} other" if self.exhaustive else f"{self.permutations} random"
        verdict = "The tables differ" if self.differs else "No difference found"
        return f"{verdict}, p = {_p(self.p_value)} ({which} arrangements of the rows)"

    def _tables(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Columns, pairs, groups and text columns, the first few of each."""

        def rows(kind: str, name: Any) -> list[tuple[str, str, str]]:
            changed = [row for row in self._found[kind] if row["p_value"] <= self.alpha]
            shown = (changed or self._found[kind][:1])[:_SHOWN]
            return [(name(row), _p(row["p_value"]), _change(row)) for row in shown]

        tables = [
            ("columns", rows("features", lambda row: row["name"])),
            ("pairs", rows("pairs", lambda row: " with ".join(row["names"]))),
            ("groups", rows("groups", lambda row: row["name"])),
            ("text columns", rows("categories", lambda row: row["name"])),
        ]
        return [(title, found) for title, found in tables if found]


def _p(p_value: float) -> str:
    """Return a p-value for reading, with at most four digits after the point."""
    return f"{p_value:.1e}" if p_value < 1e-4 else f"{p_value:.4f}".rstrip("0").rstrip(".")


def _complete(found: dict[str, Any]) -> dict[str, Any]:
    """Add what a comparison within a value shares with the whole one."""
    return {"left_out_columns": [], "missing_rows": [0, 0], **found}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a table: lists as text, the change in words, no histograms."""
    flat = {key: value for key, value in row.items() if key not in ("change", "histogram", "shares", "names")}
    if "names" in row:
        flat = {"first": row["names"][0], "second": row["names"][1], **flat}
    if "change" in row:
        flat["change"] = _change(row)
    return flat


def _change(row: dict[str, Any]) -> str:
    """Say in words how a column or pair has changed."""
    if "shares" in row:
        only = [share["value"] for share in row["shares"] if share["before"] == 0 or share["after"] == 0]
        return f"only on one side: {', '.join(only)}" if only else ""
    change = row.get("change")
    if change is None:
        return ""
    if "kind" not in change:
        before, after = change["before"], change["after"]
        if before is None or after is None:
            return "a column is constant on one side"
        return f"correlation {before['value']:.2f} → {after['value']:.2f}"
    mean, spread, tails = change["mean"], change["spread"], change["tails"]
    if change["kind"] == "spread" and spread is not None:
        return f"spread × {spread['value']:.2f} [{spread['low']:.2f}, {spread['high']:.2f}]"
    if change["kind"] == "tail":
        return f"extreme values {100 * tails[0]:.1f} % → {100 * tails[1]:.1f} %"
    if change["kind"] == "shape" and spread is not None:
        return f"shape; mean {mean['value']:+.2f} sd, spread × {spread['value']:.2f}"
    return f"mean {mean['value']:+.2f} sd [{mean['low']:+.2f}, {mean['high']:+.2f}]"
