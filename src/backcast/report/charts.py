"""Estimates as Altair charts: learning curves with bands, and values with intervals.

A chart saves to HTML, PNG or SVG without a browser: ``chart.save("curve.png")``. Policies differ by colour and by dash,
so that no reader depends on colour; both papers, white and dark, give every colour a contrast of at least 3 to 1.
"""

from __future__ import annotations

import math
from typing import Any

from backcast.estimate import Estimate, LearningCurve
from backcast.report.findings import Findings, findings_of
from backcast.report.words import assumption_words, figure, interval_words, value_words

__all__ = ["COLOURS", "curves_chart", "estimate_chart", "forest_chart"]

# Okabe and Ito's colours, and three more, all of middling lightness
COLOURS = ("#0072b2", "#d55e00", "#00916a", "#c05d94", "#8a7400", "#7a6fd0", "#808080")
DASHES = ([1, 0], [8, 3], [3, 3], [8, 3, 2, 3], [12, 4], [2, 5], [5, 2, 1, 2])
WIDTH = 640
VALUE_TITLE = "average reward a round"


def estimate_chart(estimate: Estimate) -> Any:
    """The learning curve with its band where there is one, else the value with its interval."""
    return forest_chart(estimate) if estimate.curve is None else curves_chart(estimate)


def forest_chart(result: Any) -> Any:
    """A point and an interval for each policy, best first; takes an estimate, a dict of them or a comparison."""
    import altair as alt

    findings = findings_of(result)
    rows = [_forest_row(name, estimate) for name, estimate in findings.estimates.items()]
    place = alt.Y("policy:N", title=None, scale=alt.Scale(domain=list(findings.estimates)), axis=None)
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=place,
        color=alt.Color("policy:N", scale=_scale(alt, findings, COLOURS), legend=None),
        tooltip=_tooltip(alt, ("policy", "value", "interval", "method")),
    )
    ends = base.mark_rule(strokeWidth=3, opacity=0.6).encode(x=_value_axis(alt, "low"), x2="high:Q")
    points = base.mark_point(filled=True, size=90, opacity=1).encode(x=_value_axis(alt, "estimate"))
    # names above their lines, not beside them: a narrow screen keeps its width for the numbers
    names = alt.Chart(alt.Data(values=rows)).mark_text(align="left", dy=-14, fontSize=12, limit=WIDTH)
    names = names.encode(y=place, x=alt.value(0), text="policy:N")
    words = f"Values with their intervals. {_in_words(findings)}"
    return _dressed(alt.layer(ends, points, names), 20 + 46 * len(rows), words)


def curves_chart(result: Any) -> Any:
    """Learning curves with their bands; a click on the legend shows one policy alone."""
    import altair as alt

    findings = findings_of(result)
    rows = [row for name, estimate in findings.estimates.items() for row in _curve_rows(name, estimate)]
    shown = alt.selection_point(name="shown", fields=["policy"], bind="legend")
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("round:Q", title="round", axis=alt.Axis(tickMinStep=1)),
        y=_value_axis(alt, "estimate", vertical=True),
        color=alt.Color("policy:N", scale=_scale(alt, findings, COLOURS, curves=True), legend=_legend(alt)),
    )
    bands = base.mark_area().encode(
        y=_value_axis(alt, "low", vertical=True), y2="high:Q", opacity=_when(alt, shown, 0.15, 0.02)
    )
    dashes = alt.StrokeDash("policy:N", scale=_scale(alt, findings, DASHES, curves=True), legend=_legend(alt))
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dashes, opacity=_when(alt, shown, 1, 0.15))
    # nothing to see, something to point at
    targets = base.mark_point(size=150, opacity=0).encode(tooltip=_tooltip(alt, ("policy", "rounds", "value", "band")))
    words = f"Average reward by round, as each policy learns. {_curves_in_words(findings)}"
    return _dressed(alt.layer(bands, lines.add_params(shown), targets), 300, words)


def _forest_row(name: str, estimate: Estimate) -> dict[str, Any]:
    interval = estimate.interval
    return {
        "policy": name,
        "estimate": _plain(estimate.value),
        "low": None if interval is None else _plain(interval.low),
        "high": None if interval is None else _plain(interval.high),
        "value": value_words(estimate),
        "interval": interval_words(interval),
        "method": "none" if interval is None else f"{interval.method}; {assumption_words(interval)}",
    }


def _curve_rows(name: str, estimate: Estimate) -> list[dict[str, Any]]:
    if estimate.curve is None:
        return []
    curve = estimate.curve.to_dict()
    points = zip(curve["rounds"], curve["value"], curve["low"], curve["high"], strict=True)
    return [
        {
            "policy": name,
            "round": end,
            "estimate": _plain(value),
            "low": _plain(low),
            "high": _plain(high),
            "rounds": f"up to {figure(end)}",
            "value": figure(value),
            "band": f"{figure(low)} to {figure(high)}",
        }
        for end, value, low, high in points
    ]


def _plain(value: float) -> float | None:
    """A number that JSON knows, or nothing."""
    return value if math.isfinite(value) else None


def _in_words(findings: Findings) -> str:
    return "; ".join(
        f"{name}: {value_words(estimate)}, interval {interval_words(estimate.interval)}"
        for name, estimate in findings.estimates.items()
    )


def _curves_in_words(findings: Findings) -> str:
    return "; ".join(_curve_in_words(name, e.curve) for name, e in findings.estimates.items() if e.curve is not None)


def _curve_in_words(name: str, curve: LearningCurve) -> str:
    first, last = figure(float(curve.value[0])), figure(float(curve.value[-1]))
    return f"{name}: from {first} to {last} by round {figure(int(curve.rounds[-1]))}"


def _when(alt: Any, shown: Any, chosen: float, other: float) -> Any:
    return alt.condition(shown, alt.value(chosen), alt.value(other))


def _scale(alt: Any, findings: Findings, steps: tuple[Any, ...], *, curves: bool = False) -> Any:
    """A step for each policy, the same in all charts; only those with a curve where curves are drawn."""
    places = {name: steps[i % len(steps)] for i, name in enumerate(findings.estimates)}
    shown = [name for name, e in findings.estimates.items() if e.curve is not None or not curves]
    return alt.Scale(domain=shown, range=[places[name] for name in shown])


def _legend(alt: Any) -> Any:
    return alt.Legend(
        title=None, orient="top", columns=2, labelLimit=260, symbolType="stroke", symbolSize=600, symbolOpacity=1
    )


def _value_axis(alt: Any, field: str, *, vertical: bool = False) -> Any:
    channel = alt.Y if vertical else alt.X
    return channel(f"{field}:Q", title=VALUE_TITLE, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))


def _tooltip(alt: Any, fields: tuple[str, ...]) -> list[Any]:
    return [alt.Tooltip(f"{field}:N", title=field) for field in fields]


def _dressed(chart: Any, height: int, words: str) -> Any:
    """Size, description for readers who do not see it, and plain type."""
    return (
        chart.properties(width=WIDTH, height=height, description=words)
        .configure(font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridOpacity=0.6)
        .configure_legend(labelFontSize=12)
    )
