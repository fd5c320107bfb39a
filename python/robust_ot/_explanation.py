"""What a robust distance consists of."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Literal

#: How many entries of each kind are shown as text and in notebooks.
_SHOWN = 8


class Explanation:
    """The features and pairs that the worst metric weighs most, and the flows that cost most.

    :meth:`robust_ot.Solution.explain` returns it; its numbers are those of ``rot distance --explain``. Features and rows are
    called by the names of the data frames, or by their numbers from 0.

    Examples
    --------
    >>> import robust_ot
    >>> solution = robust_ot.distance([[0.0, 0.0], [1.0, 0.0]], [[0.0, 2.0], [1.0, 2.0]])
    >>> found = solution.explain()
    >>> found.pairs[0]["features"], round(found.pairs[0]["share"], 4)
    (('feature 1', 'feature 1'), 1.0)
    >>> print(found)
    The worst metric weighs most:
         1.0000  feature 1  (100.0 % of the cost)
         0.0000  feature 0  (0.0 % of the cost)
         0.0000  feature 0 with feature 1  (0.0 % of the cost)
      25.0 % of its entries are above 1 % of the largest
    <BLANKLINE>
    Most of the cost is spent on:
      row 0 → row 0  mass 0.50000, cost 4.0000  (50.0 % of the cost)
      row 1 → row 1  mass 0.50000, cost 4.0000  (50.0 % of the cost)
    """

    def __init__(self, found: dict[str, Any], text: str) -> None:
        self._found, self._text = found, text

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """Features, and pairs of features or groups, by weight: places, features (their names), weight, share of the cost."""
        keys = ("places", "features", "weight", "share")
        return [dict(zip(keys, pair, strict=True)) for pair in self._found["pairs"]]

    @property
    def features(self) -> list[dict[str, Any]]:
        """The single features or groups among ``pairs``: place, feature, weight, share."""
        alone = [pair for pair in self._found["pairs"] if pair[0][0] == pair[0][1]]
        return [dict(place=at[0], feature=names[0], weight=weight, share=share) for at, names, weight, share in alone]

    @property
    def flows(self) -> list[dict[str, Any]]:
        """Flows by what they cost: source, target, source_name, target_name, mass, cost of a unit, share of the cost."""
        keys = ("source", "target", "source_name", "target_name", "mass", "cost", "share")
        return [dict(zip(keys, (*at, *names, *rest), strict=True)) for at, names, *rest in self._found["flows"]]

    @property
    def entries_above_one_percent(self) -> float:
        """The fraction of the metric's entries above 1 % of the largest."""
        return float(self._found["notable"])

    def to_frame(self, kind: Literal["pairs", "features", "flows"] = "pairs") -> Any:
        """Return pairs, features or flows as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"to_frame needs pandas: pip install pandas ({error})") from error
        if kind == "pairs":
            flat = [
                {"first": pair["features"][0], "second": pair["features"][1], "weight": pair["weight"], "share": pair["share"]}
                for pair in self.pairs
            ]
        elif kind == "features":
            flat = [{name: row[name] for name in ("feature", "weight", "share")} for row in self.features]
        elif kind == "flows":
            flat = self.flows
        else:
            raise ValueError(f"kind must be pairs, features or flows, but is {kind!r}")
        return pd.DataFrame(flat)

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        return f"Explanation(pairs={len(self._found['pairs'])}, flows={len(self._found['flows'])})"

    def _repr_html_(self) -> str:
        """Show both lists, in a notebook."""
        pairs = [
            (" with ".join(dict.fromkeys(pair["features"])), f"{pair['weight']:.4f}", f"{100 * pair['share']:.1f} %")
            for pair in self.pairs[:_SHOWN]
        ]
        flows = [
            (
                f"{row['source_name']} → {row['target_name']}",
                f"{row['mass']:.5f}",
                f"{row['cost']:.4f}",
                f"{100 * row['share']:.1f} %",
            )
            for row in self.flows[:_SHOWN]
        ]
        return table("worst metric", ("", "weight", "of the cost"), pairs) + table(
            "flows", ("", "mass", "cost", "of the cost"), flows
        )


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a notebook."""
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    first = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    return f'<table><caption style="white-space: nowrap">{html.escape(caption)}</caption><tr>{first}</tr>{cells}</table>'
