"""What all charts share: colours and marks that differ, legends, axes, and a description for those who do not see them.

Policies differ by colour and by dash or shape, so that no reader depends on colour; both papers, white and dark, give
every colour a contrast of at least 3 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backcast.estimate import Estimate, LearningCurve
from backcast.planning import Need, Plan
from backcast.report._format import assumption_words, format_number, interval_words, percent, rounded_to, value_words
from backcast.report._summary import ResultSummary, summarize

# Okabe and Ito's colours, and three more, all of middling lightness
COLOURS = ("#0072b2", "#d55e00", "#00916a", "#c05d94", "#8a7400", "#7a6fd0", "#808080")


DASHES = ([1, 0], [8, 3], [3, 3], [8, 3, 2, 3], [12, 4], [2, 5], [5, 2, 1, 2])


MARKS = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")


WIDTH = 640


VISIBLE = "indexof(hidden, datum.policy) < 0"


def scale_of(alt: Any, findings: ResultSummary, steps: Sequence[Any], shown: Sequence[str] | None = None) -> Any:
    """A step for each policy, the same in all charts; in the legend only those that are shown."""
    places = {name: steps[i % len(steps)] for i, name in enumerate(findings.estimates)}
    names = list(places) if shown is None else list(shown)
    return alt.Scale(domain=names, range=[places[name] for name in names])


def colour_of(alt: Any, findings: ResultSummary, shown: Sequence[str] | None = None, *, symbol: str = "stroke") -> Any:
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


VALUE_TITLE = "average reward a round"


DIFFERENCE_TITLE = "difference in average reward a round"


def estimate_chart(estimate: Estimate) -> Any:
    """The learning curve with its band where there is one, else the value with its interval."""
    return forest_chart(estimate) if estimate.curve is None else curves_chart(estimate)


def comparison_chart(result: Any) -> Any:
    """Values with their intervals, and below them the paired differences, where there are some."""
    import altair as alt

    findings = summarize(result)
    if not findings.differences:
        return forest_chart(findings)
    values, gaps = _forest(alt, findings), _differences(alt, findings)
    words = f"{values.description} {gaps.description}"
    return configured(alt.vconcat(values, gaps, description=words).resolve_scale(color="independent"))


def forest_chart(result: Any) -> Any:
    """A point and an interval for each policy, best first; takes an estimate, a dict of them or a comparison."""
    import altair as alt

    return configured(_forest(alt, summarize(result)))


def differences_chart(result: Any) -> Any:
    """A point and an interval for each paired difference, against a line at zero."""
    import altair as alt

    return configured(_differences(alt, summarize(result)))


def _forest(alt: Any, findings: ResultSummary) -> Any:
    rows = [_forest_row(name, estimate) for name, estimate in findings.estimates.items()]
    colour = alt.Color("policy:N", scale=scale_of(alt, findings, COLOURS), legend=None)
    layers = _points_with_ends(alt, rows, "policy", VALUE_TITLE, colour)
    words = f"Values with their intervals. {_in_words(findings)}."
    return _sized(alt.layer(*layers), len(rows), words)


def _differences(alt: Any, findings: ResultSummary) -> Any:
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

    findings = summarize(result)
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
            "rounds": f"up to {format_number(end)}",
            "value": format_number(value),
            "band": f"{format_number(low)} to {format_number(high)}",
        }
        for end, value, low, high in points
    ]


def _in_words(findings: ResultSummary) -> str:
    return "; ".join(
        f"{name}: {value_words(estimate)}, interval {interval_words(estimate.interval)}"
        for name, estimate in findings.estimates.items()
    )


def _differences_in_words(rows: list[dict[str, Any]]) -> str:
    return "; ".join(f"{row['difference']}: {row['value']}, interval {row['interval']}" for row in rows)


def _curves_in_words(findings: ResultSummary) -> str:
    return "; ".join(_curve_in_words(name, e.curve) for name, e in findings.estimates.items() if e.curve is not None)


def _curve_in_words(name: str, curve: LearningCurve) -> str:
    first, last = format_number(float(curve.value[0])), format_number(float(curve.value[-1]))
    return f"{name}: from {first} to {last} by round {format_number(int(curve.rounds[-1]))}"


def _axis(alt: Any, field: str, title: str, *, vertical: bool = False) -> Any:
    channel = alt.Y if vertical else alt.X
    return channel(f"{field}:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))


PLAN_WIDTH, HEIGHT = 640, 300


POINTS = 60


def plan_chart(plan: Plan) -> Any:
    """Power by the number of events, a line for each difference, with the lengths that were asked for marked."""
    import altair as alt

    labels = [_label(plan, need) for need in plan.needs]
    base = alt.Chart(alt.Data(values=_rows(plan))).encode(
        x=alt.X("events:Q", scale=alt.Scale(type="log"), title="events in the log", axis=alt.Axis(format="~s")),
        y=alt.Y("power:Q", scale=alt.Scale(domain=[0, 1]), title="chance of telling", axis=alt.Axis(format="%")),
        color=alt.Color(
            "difference:N",
            scale=alt.Scale(domain=labels, range=[COLOURS[i % len(COLOURS)] for i in range(len(labels))]),
            legend=alt.Legend(title="difference", orient="top", columns=2, labelLimit=300),
        ),
        strokeDash=alt.StrokeDash("difference:N", scale=alt.Scale(domain=labels), legend=None),
    )
    marks = base.transform_filter("datum.asked").mark_point(filled=True, size=90, opacity=1)
    told = [alt.Tooltip(f"{name}:N") for name in ("difference", "length", "chance")]
    level = alt.Chart(alt.Data(values=[{"power": plan.power}])).mark_rule(strokeDash=[2, 4], color="#808080")
    chart = alt.layer(level.encode(y="power:Q"), base.mark_line(strokeWidth=2), marks.encode(tooltip=told))
    return chart.properties(width=PLAN_WIDTH, height=HEIGHT, description=str(plan)).configure_view(stroke=None)


def _label(plan: Plan, need: Need) -> str:
    return f"{need.difference:g}" if len(plan.spreads) == 1 else f"{need.pair}: {need.difference:g}"


def _rows(plan: Plan) -> list[dict[str, Any]]:
    return [row for need in plan.needs for row in _line(plan, need)]


def _line(plan: Plan, need: Need) -> list[dict[str, Any]]:
    lengths = {int(events) for events in np.geomspace(max(2, need.events / 16), 4 * need.events, POINTS)}
    return [_row(plan, need, events) for events in sorted(lengths | {need.events})]


def _row(plan: Plan, need: Need, events: int) -> dict[str, Any]:
    power = plan.power_at(events, need.difference, need.pair)
    return {
        "difference": _label(plan, need),
        "events": events,
        "power": power,
        "asked": events == need.events,
        "length": f"{format_number(events)} events",
        "chance": percent(power),
    }
