"""Estimates as Altair charts: values with intervals, paired differences, learning curves with bands.

A chart saves to HTML, PNG or SVG without a browser: ``chart.save("curve.png")``.
"""

from __future__ import annotations

from typing import Any

from backcast.estimate import Estimate, LearningCurve
from backcast.report.dressing import (
    COLOURS,
    DASHES,
    WIDTH,
    colour_of,
    configured,
    dressed,
    legend,
    plain,
    scale_of,
    shown_by_legend,
    tooltip,
    when_shown,
)
from backcast.report.findings import Findings, findings_of
from backcast.report.words import assumption_words, figure, interval_words, rounded_to, value_words

__all__ = ["comparison_chart", "curves_chart", "differences_chart", "estimate_chart", "forest_chart"]

VALUE_TITLE = "average reward a round"
DIFFERENCE_TITLE = "difference in average reward a round"


def estimate_chart(estimate: Estimate) -> Any:
    """The learning curve with its band where there is one, else the value with its interval."""
    return forest_chart(estimate) if estimate.curve is None else curves_chart(estimate)


def comparison_chart(result: Any) -> Any:
    """Values with their intervals, and below them the paired differences, where there are some."""
    import altair as alt

    findings = findings_of(result)
    if not findings.differences:
        return forest_chart(findings)
    values, gaps = _forest(alt, findings), _differences(alt, findings)
    words = f"{values.description} {gaps.description}"
    return configured(alt.vconcat(values, gaps, description=words).resolve_scale(color="independent"))


def forest_chart(result: Any) -> Any:
    """A point and an interval for each policy, best first; takes an estimate, a dict of them or a comparison."""
    import altair as alt

    return configured(_forest(alt, findings_of(result)))


def differences_chart(result: Any) -> Any:
    """A point and an interval for each paired difference, against a line at zero."""
    import altair as alt

    return configured(_differences(alt, findings_of(result)))


def _forest(alt: Any, findings: Findings) -> Any:
    rows = [_forest_row(name, estimate) for name, estimate in findings.estimates.items()]
    colour = alt.Color("policy:N", scale=scale_of(alt, findings, COLOURS), legend=None)
    layers = _points_with_ends(alt, rows, "policy", VALUE_TITLE, colour)
    words = f"Values with their intervals. {_in_words(findings)}."
    return _sized(alt.layer(*layers), len(rows), words)


def _differences(alt: Any, findings: Findings) -> Any:
    rows = [_difference_row(difference) for difference in findings.differences]
    colour = alt.Color("sign:N", scale=alt.Scale(domain=["apart", "unsettled"], range=COLOURS[:2]), legend=None)
    layers = _points_with_ends(alt, rows, "difference", DIFFERENCE_TITLE, colour)
    # filled where the log tells the two apart, hollow where it does not: colour alone would not do
    hollow = alt.condition("datum.sign == 'apart'", alt.value(COLOURS[0]), alt.value("transparent"))
    layers[1] = layers[1].mark_point(filled=False, size=90, opacity=1, strokeWidth=2).encode(fill=hollow)
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(strokeDash=[4, 3], color="#808080", strokeWidth=1.5)
    words = f"Paired differences with their intervals. {_differences_in_words(rows)}."
    return _sized(alt.layer(zero.encode(x="zero:Q"), *layers), len(rows), words)


def _points_with_ends(alt: Any, rows: list[dict[str, Any]], kind: str, title: str, colour: Any) -> list[Any]:
    """Rules, points and names: one row each, in the order given."""
    place = alt.Y(f"{kind}:N", title=None, scale=alt.Scale(domain=[row[kind] for row in rows]), axis=None)
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=place, color=colour, tooltip=tooltip(alt, (kind, "value", "interval", "method"))
    )
    points = base.mark_point(filled=True, size=90, opacity=1, strokeWidth=2).encode(x=_axis(alt, "estimate", title))
    # names above their lines, not beside them: a narrow screen keeps its width for the numbers
    names = alt.Chart(alt.Data(values=rows)).mark_text(align="left", dy=-14, fontSize=12, limit=WIDTH)
    names = names.encode(y=place, x=alt.value(0), text=f"{kind}:N")
    if all(row["low"] is None or row["high"] is None for row in rows):
        return [points, names]
    ends = base.mark_rule(strokeWidth=2.5).encode(x=_axis(alt, "low", title), x2="high:Q")
    return [ends, points, names]


def _sized(chart: Any, rows: int, words: str) -> Any:
    return chart.properties(width=WIDTH, height=20 + 46 * rows, description=words)


def curves_chart(result: Any) -> Any:
    """Learning curves with their bands; a click on the legend shows one policy alone."""
    import altair as alt

    findings = findings_of(result)
    rows = [row for name, estimate in findings.estimates.items() for row in _curve_rows(name, estimate)]
    learning = [name for name, estimate in findings.estimates.items() if estimate.curve is not None]
    shown, hidden = shown_by_legend(alt)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("round:Q", title="round", axis=alt.Axis(tickMinStep=1, tickCount=8)),
        y=_axis(alt, "estimate", VALUE_TITLE, vertical=True),
        color=colour_of(alt, findings, learning),
    )
    band = _axis(alt, "low", VALUE_TITLE, vertical=True)
    bands = base.mark_area().encode(y=band, y2="high:Q", opacity=when_shown(alt, 0.15, 0.02))
    dashes = alt.StrokeDash("policy:N", scale=scale_of(alt, findings, DASHES, learning), legend=legend(alt))
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dashes, opacity=when_shown(alt, 1, 0.15))
    # nothing to see, something to point at
    targets = base.mark_point(size=150, opacity=0).encode(tooltip=tooltip(alt, ("policy", "rounds", "value", "band")))
    words = f"Average reward by round, as each policy learns. {_curves_in_words(findings)}."
    layers = alt.layer(bands, lines.add_params(shown), targets).add_params(hidden)
    return dressed(layers, 300, words)


def _forest_row(name: str, estimate: Estimate) -> dict[str, Any]:
    interval = estimate.interval
    return {
        "policy": name,
        "estimate": plain(estimate.value),
        "low": None if interval is None else plain(interval.low),
        "high": None if interval is None else plain(interval.high),
        "value": value_words(estimate),
        "interval": interval_words(interval),
        "method": "none" if interval is None else f"{interval.method}; {assumption_words(interval)}",
    }


def _difference_row(difference: Any) -> dict[str, Any]:
    interval = difference.interval
    return {
        "difference": f"{difference.first} minus {difference.second}",
        "estimate": plain(difference.value),
        "low": plain(interval.low),
        "high": plain(interval.high),
        "value": rounded_to(difference.value, interval),
        "interval": interval_words(interval),
        "method": interval.method,
        "sign": "unsettled" if interval.low <= 0 <= interval.high else "apart",
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
            "estimate": plain(value),
            "low": plain(low),
            "high": plain(high),
            "rounds": f"up to {figure(end)}",
            "value": figure(value),
            "band": f"{figure(low)} to {figure(high)}",
        }
        for end, value, low, high in points
    ]


def _in_words(findings: Findings) -> str:
    return "; ".join(
        f"{name}: {value_words(estimate)}, interval {interval_words(estimate.interval)}"
        for name, estimate in findings.estimates.items()
    )


def _differences_in_words(rows: list[dict[str, Any]]) -> str:
    return "; ".join(f"{row['difference']}: {row['value']}, interval {row['interval']}" for row in rows)


def _curves_in_words(findings: Findings) -> str:
    return "; ".join(_curve_in_words(name, e.curve) for name, e in findings.estimates.items() if e.curve is not None)


def _curve_in_words(name: str, curve: LearningCurve) -> str:
    first, last = figure(float(curve.value[0])), figure(float(curve.value[-1]))
    return f"{name}: from {first} to {last} by round {figure(int(curve.rounds[-1]))}"


def _axis(alt: Any, field: str, title: str, *, vertical: bool = False) -> Any:
    channel = alt.Y if vertical else alt.X
    return channel(f"{field}:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))
