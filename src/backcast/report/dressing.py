"""What all charts share: colours and marks that differ, legends, axes, and a description for those who do not see them.

Policies differ by colour and by dash or shape, so that no reader depends on colour; both papers, white and dark, give
every colour a contrast of at least 3 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backcast.report.findings import Findings

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKS",
    "WIDTH",
    "colour_of",
    "dressed",
    "legend",
    "plain",
    "scale_of",
    "shown_by_legend",
    "tooltip",
    "when_shown",
]

# Okabe and Ito's colours, and three more, all of middling lightness
COLOURS = ("#0072b2", "#d55e00", "#00916a", "#c05d94", "#8a7400", "#7a6fd0", "#808080")
DASHES = ([1, 0], [8, 3], [3, 3], [8, 3, 2, 3], [12, 4], [2, 5], [5, 2, 1, 2])
MARKS = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
WIDTH = 640
VISIBLE = "indexof(hidden, datum.policy) < 0"


def scale_of(alt: Any, findings: Findings, steps: Sequence[Any], shown: Sequence[str] | None = None) -> Any:
    """A step for each policy, the same in all charts; in the legend only those that are shown."""
    places = {name: steps[i % len(steps)] for i, name in enumerate(findings.estimates)}
    names = list(places) if shown is None else list(shown)
    return alt.Scale(domain=names, range=[places[name] for name in names])


def colour_of(alt: Any, findings: Findings, shown: Sequence[str] | None = None, *, symbol: str = "stroke") -> Any:
    """The colour of each policy, with a legend."""
    return alt.Color("policy:N", scale=scale_of(alt, findings, COLOURS, shown), legend=legend(alt, symbol))


def legend(alt: Any, symbol: str = "stroke") -> Any:
    """Names above the chart, two abreast so that a narrow screen holds them."""
    size = {"symbolType": "stroke", "symbolSize": 600} if symbol == "stroke" else {"symbolSize": 110}
    return alt.Legend(title=None, orient="top", columns=2, labelLimit=260, symbolOpacity=1, **size)


def shown_by_legend(alt: Any) -> tuple[Any, Any]:
    """A selection by clicks on the legend, and a list of hidden names for the page's own buttons."""
    return alt.selection_point(name="shown", fields=["policy"], bind="legend"), alt.param(name="hidden", value=[])


def when_shown(alt: Any, chosen: float, other: float) -> Any:
    """Opacity of what is chosen by legend and buttons, and of the rest."""
    test = {"and": [{"param": "shown"}, VISIBLE]}
    return alt.OpacityValue(other, condition={"test": test, "value": chosen})


def tooltip(alt: Any, fields: Sequence[str]) -> list[Any]:
    """Fields as they are written, under their own names."""
    return [alt.Tooltip(f"{field}:N", title=field) for field in fields]


def plain(value: float) -> float | None:
    """A number that JSON knows, or nothing.

    >>> plain(0.5), plain(float("nan"))
    (0.5, None)
    """
    return value if math.isfinite(value) else None


def dressed(chart: Any, height: int, words: str) -> Any:
    """Size, description for readers who do not see it, and plain type."""
    return configured(chart.properties(width=WIDTH, height=height, description=words))


def configured(chart: Any) -> Any:
    """Plain type, and no box around the chart."""
    return (
        chart.configure(font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridOpacity=0.6)
        .configure_legend(labelFontSize=12)
    )
