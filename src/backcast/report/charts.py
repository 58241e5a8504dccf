"""Charts of values, differences, learning curves and plans, and the style that all charts share.

Policies differ by colour and by dash or shape, so that no reader depends on colour; every colour has a contrast of at
least 3 to 1 on the white and on the dark background.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backcast._format import (
    describe_assumption,
    format_interval,
    format_number,
    format_percent,
    round_by_width,
)
from backcast.estimate import Difference, Interval
from backcast.planning import Need, Plan
from backcast.report._summary import ResultSummary, summarize

# the colours of Okabe and Ito and three more, all of medium lightness
COLOURS = ("#0072b2", "#d55e00", "#00916a", "#c05d94", "#8a7400", "#7a6fd0", "#808080")
GREY = "#808080"
DASHES = ([1, 0], [8, 3], [3, 3], [8, 3, 2, 3], [12, 4], [2, 5], [5, 2, 1, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
WIDTH, PLAN_HEIGHT = 640, 300
PLAN_POINTS = 60  # of a power curve
VALUE_TITLE = "average reward per round"
DIFFERENCE_TITLE = "difference in average reward per round"
LIFT_TITLE = "more per round than the baseline"


def plot_result(result: Any) -> Any:
    """Draw values and differences of a comparison, the learning curve of one estimate, or else the values."""
    import altair as alt

    summary = summarize(result)
    if summary.differences:
        values, differences = _values_layers(alt, summary), _differences_layers(alt, summary)
        description = f"{values.description} {differences.description}"
        chart = alt.vconcat(values, differences, description=description)
        return apply_style(chart.resolve_scale(color="independent"))
    estimates = list(summary.estimates.values())
    return curves_chart(summary) if len(estimates) == 1 and estimates[0].curve is not None else values_chart(summary)


def values_chart(summary: ResultSummary) -> Any:
    """Draw a point and an interval for each policy, best first."""
    import altair as alt

    return apply_style(_values_layers(alt, summary))


def _values_layers(alt: Any, summary: ResultSummary) -> Any:
    rows = []
    for name, estimate in summary.estimates.items():
        interval = estimate.interval
        method = "none" if interval is None else f"{interval.method}; {describe_assumption(interval)}"
        rows.append(_interval_row("policy", name, estimate.value, interval, method))
    colour = alt.Color("policy:N", scale=policy_scale(alt, summary, COLOURS), legend=None)
    layers = _interval_layers(alt, rows, "policy", VALUE_TITLE, colour)
    marks = [] if summary.baseline_value is None else [_mark_layer(alt, rows, "policy", summary.baseline_value)]
    chart = _set_size(alt.layer(*marks, *layers), rows, "policy", "Values")
    return chart.properties(description=f"{chart.description}{_describe_baseline(summary)}")


def _mark_layer(alt: Any, rows: list[dict[str, Any]], key: str, value: float) -> Any:
    """Return a mark at this value on the line of each row; one line over all rows would cross their names."""
    data = [{key: row[key], "mark": finite_or_none(value)} for row in rows]
    mark = alt.Chart(alt.Data(values=data)).mark_tick(orient="vertical", thickness=2, size=18, color=GREY, opacity=1)
    return mark.encode(x="mark:Q", y=_position(alt, rows, key))


def _baseline_layers(alt: Any, summary: ResultSummary) -> list[Any]:
    """Return a dashed line at the value of the baseline; none without one."""
    if summary.baseline_value is None:
        return []
    rule = alt.Chart(alt.Data(values=[{"baseline": finite_or_none(summary.baseline_value)}]))
    return [rule.mark_rule(strokeDash=[4, 3], color=GREY, strokeWidth=2).encode(y="baseline:Q")]


def _describe_baseline(summary: ResultSummary) -> str:
    value = summary.baseline_value
    return "" if value is None else f" Grey: the baseline, {summary.baseline_name}, {format_number(value)}."


def _interval_row(key: str, name: str, value: float, interval: Interval | None, method: str) -> dict[str, Any]:
    """Return a value and its interval, as numbers and as text."""
    return {
        key: name,
        "estimate": finite_or_none(value),
        "low": None if interval is None else finite_or_none(interval.low),
        "high": None if interval is None else finite_or_none(interval.high),
        "value": round_by_width(value, interval),
        "interval": format_interval(interval),
        "method": method,
    }


def differences_chart(summary: ResultSummary) -> Any:
    """Draw a point and an interval for each paired difference, against a line at zero."""
    import altair as alt

    return apply_style(_differences_layers(alt, summary))


def lifts_chart(summary: ResultSummary) -> Any:
    """Draw a point and an interval for the lift of each policy over the baseline, best first."""
    import altair as alt

    lifts = {name: summary.lifts[name] for name in summary.estimates if name in summary.lifts}
    return apply_style(_signed_layers(alt, lifts, "policy", LIFT_TITLE, "Lifts over the baseline"))


def _differences_layers(alt: Any, summary: ResultSummary) -> Any:
    differences = {f"{each.first} minus {each.second}": each for each in summary.differences}
    return _signed_layers(alt, differences, "difference", DIFFERENCE_TITLE, "Paired differences")


def _signed_layers(alt: Any, differences: Mapping[str, Difference], key: str, title: str, what: str) -> Any:
    """Return differences by name against zero."""
    rows = []
    for name, difference in differences.items():
        interval = difference.interval
        sign = "unclear" if interval.low <= 0 <= interval.high else "clear"
        rows.append(_interval_row(key, name, difference.value, interval, interval.method) | {"sign": sign})
    colour = alt.Color("sign:N", scale=alt.Scale(domain=["clear", "unclear"], range=COLOURS[:2]), legend=None)
    layers = _interval_layers(alt, rows, key, title, colour)
    # filled if the interval excludes zero, else hollow: colour alone would not be visible to everyone
    fill = alt.condition("datum.sign == 'clear'", alt.value(COLOURS[0]), alt.value("transparent"))
    layers[1] = layers[1].mark_point(filled=False, size=90, opacity=1, strokeWidth=2).encode(fill=fill)
    return _set_size(alt.layer(_mark_layer(alt, rows, key, 0.0), *layers), rows, key, what)


def _interval_layers(alt: Any, rows: list[dict[str, Any]], key: str, title: str, colour: Any) -> list[Any]:
    """Return layers of interval lines (unless no row has one), points and names, in the order of the rows."""
    position = _position(alt, rows, key)
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=position, color=colour, tooltip=tooltip(alt, (key, "value", "interval", "method"))
    )
    points = base.mark_point(filled=True, size=90, opacity=1, strokeWidth=2).encode(x=_axis(alt, "estimate", title))
    # names above their lines, not beside them, so that a narrow screen keeps its width for the numbers
    names = alt.Chart(alt.Data(values=rows)).mark_text(align="left", dy=-14, fontSize=12, limit=WIDTH)
    names = names.encode(y=position, x=alt.value(0), text=f"{key}:N")
    if all(row["low"] is None or row["high"] is None for row in rows):
        return [points, names]
    return [base.mark_rule(strokeWidth=2.5).encode(x=_axis(alt, "low", title), x2="high:Q"), points, names]


def _position(alt: Any, rows: list[dict[str, Any]], key: str) -> Any:
    return alt.Y(f"{key}:N", title=None, scale=alt.Scale(domain=[row[key] for row in rows]), axis=None)


def _axis(alt: Any, field: str, title: str, *, vertical: bool = False) -> Any:
    """Return the axis of values; a horizontal one has no grid, which would cross the names above the lines."""
    channel = alt.Y if vertical else alt.X
    return channel(f"{field}:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6, grid=vertical))


def _set_size(chart: Any, rows: list[dict[str, Any]], key: str, title: str) -> Any:
    texts = "; ".join(f"{row[key]}: {row['value']}, interval {row['interval']}" for row in rows)
    description = f"{title} with their intervals. {texts}."
    return chart.properties(width=WIDTH, height=20 + 46 * len(rows), description=description)


def curves_chart(summary: ResultSummary) -> Any:
    """Draw learning curves with their bands; a click on the legend shows one policy only."""
    import altair as alt

    rows = curve_rows(summary)
    learners = list(dict.fromkeys(row["policy"] for row in rows))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("round:Q", title="round", axis=alt.Axis(tickMinStep=1, tickCount=8)),
        y=_axis(alt, "estimate", VALUE_TITLE, vertical=True),
        color=policy_colour(alt, summary, learners),
    )
    low = _axis(alt, "low", VALUE_TITLE, vertical=True)
    bands = base.mark_area().encode(y=low, y2="high:Q", opacity=visible_opacity(alt, 0.15, 0.02))
    lines = line_layers(alt, base, summary, learners, ("policy", "rounds", "value", "band"))
    texts = "; ".join(_describe_curve(name, [row for row in rows if row["policy"] == name]) for name in learners)
    description = f"Average reward by round, as each policy learns. {texts}.{_describe_baseline(summary)}"
    return finish_chart(alt, [*_baseline_layers(alt, summary), bands, *lines], 300, description)


def line_layers(
    alt: Any, base: Any, summary: ResultSummary, shown: Sequence[str], tooltip_fields: Sequence[str]
) -> list[Any]:
    """Return a dashed line per policy, and invisible points that carry the tooltips."""
    dashes = alt.StrokeDash("policy:N", scale=policy_scale(alt, summary, DASHES, shown), legend=legend(alt))
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dashes, opacity=visible_opacity(alt, 1, 0.15))
    points = base.mark_point(size=150, opacity=0).encode(tooltip=tooltip(alt, tooltip_fields))
    return [lines.add_params(legend_selection(alt)), points]


def curve_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row per point of a learning curve, as numbers and as text."""
    curves = {name: estimate.curve.to_dict() for name, estimate in summary.estimates.items() if estimate.curve}
    return [
        {
            "policy": name,
            "round": end,
            "estimate": finite_or_none(value),
            "low": finite_or_none(low),
            "high": finite_or_none(high),
            "rounds": f"up to {format_number(end)}",
            "value": format_number(value),
            "band": f"{format_number(low)} to {format_number(high)}",
        }
        for name, curve in curves.items()
        for end, value, low, high in zip(*(curve[key] for key in ("rounds", "value", "low", "high")), strict=True)
    ]


def _describe_curve(name: str, rows: Sequence[dict[str, Any]]) -> str:
    return f"{name}: from {rows[0]['value']} to {rows[-1]['value']} by round {format_number(rows[-1]['round'])}"


def plan_chart(plan: Plan) -> Any:
    """Draw power by the number of events, one line per difference, with the planned lengths marked."""
    import altair as alt

    labels = [_plan_label(plan, need) for need in plan.needs]
    base = alt.Chart(alt.Data(values=[row for need in plan.needs for row in _power_rows(plan, need)])).encode(
        x=alt.X("events:Q", scale=alt.Scale(type="log"), title="events in the log", axis=alt.Axis(format="~s")),
        y=alt.Y("power:Q", scale=alt.Scale(domain=[0, 1]), title="power", axis=alt.Axis(format="%")),
        color=alt.Color(
            "difference:N",
            scale=alt.Scale(domain=labels, range=[COLOURS[i % len(COLOURS)] for i in range(len(labels))]),
            legend=alt.Legend(title="difference", orient="top", columns=2, labelLimit=300),
        ),
        strokeDash=alt.StrokeDash("difference:N", scale=alt.Scale(domain=labels), legend=None),
    )
    points = base.transform_filter("datum.planned").mark_point(filled=True, size=90, opacity=1)
    points = points.encode(tooltip=[alt.Tooltip(f"{name}:N") for name in ("difference", "length", "chance")])
    level = alt.Chart(alt.Data(values=[{"power": plan.power}])).mark_rule(strokeDash=[2, 4], color=GREY)
    chart = alt.layer(level.encode(y="power:Q"), base.mark_line(strokeWidth=2), points)
    return chart.properties(width=WIDTH, height=PLAN_HEIGHT, description=str(plan)).configure_view(stroke=None)


def _plan_label(plan: Plan, need: Need) -> str:
    return f"{need.difference:g}" if len(plan.spreads) == 1 else f"{need.pair}: {need.difference:g}"


def _power_rows(plan: Plan, need: Need) -> list[dict[str, Any]]:
    lengths = {int(events) for events in np.geomspace(max(2, need.events / 16), 4 * need.events, PLAN_POINTS)}
    powers = {n: plan.power_at(n, need.difference, need.pair) for n in sorted(lengths | {need.events})}
    return [
        {
            "difference": _plan_label(plan, need),
            "events": events,
            "power": power,
            "planned": events == need.events,
            "length": f"{format_number(events)} events",
            "chance": format_percent(power),
        }
        for events, power in powers.items()
    ]


def policy_scale(alt: Any, summary: ResultSummary, steps: Sequence[Any], shown: Sequence[str] | None = None) -> Any:
    """Map policies to colours, dashes or shapes, the same in all charts; the legend has only those shown."""
    by_name = {name: steps[i % len(steps)] for i, name in enumerate(summary.estimates)}
    names = list(by_name) if shown is None else list(shown)
    return alt.Scale(domain=names, range=[by_name[name] for name in names])


def policy_colour(alt: Any, summary: ResultSummary, shown: Sequence[str], *, symbol: str = "stroke") -> Any:
    """Colour by policy, with a legend."""
    return alt.Color("policy:N", scale=policy_scale(alt, summary, COLOURS, shown), legend=legend(alt, symbol))


def legend(alt: Any, symbol: str = "stroke") -> Any:
    """Place names above the chart in two columns, which fit a narrow screen."""
    size = {"symbolType": "stroke", "symbolSize": 600} if symbol == "stroke" else {"symbolSize": 110}
    return alt.Legend(title=None, orient="top", columns=2, labelLimit=260, symbolOpacity=1, **size)


def legend_selection(alt: Any) -> Any:
    """Return a selection of policies by clicks on the legend."""
    return alt.selection_point(name="shown", fields=["policy"], bind="legend")


def visible_opacity(alt: Any, visible: float, other: float) -> Any:
    """Return the opacity of policies that legend and buttons select, and of the others."""
    test = {"and": [{"param": "shown"}, "indexof(hidden, datum.policy) < 0"]}
    return alt.OpacityValue(other, condition={"test": test, "value": visible})


def tooltip(alt: Any, fields: Sequence[str]) -> list[Any]:
    """Return tooltips of text fields under their own names."""
    return [alt.Tooltip(f"{field}:N", title=field) for field in fields]


def finite_or_none(value: float) -> float | None:
    """Return a number that JSON can hold, or None.

    >>> finite_or_none(0.5), finite_or_none(float("nan"))
    (0.5, None)
    """
    return value if math.isfinite(value) else None


def finish_chart(alt: Any, layers: Sequence[Any], height: int, description: str) -> Any:
    """Combine layers; set the names that the page's buttons hide, the size, the description, and the style."""
    chart = alt.layer(*layers).add_params(alt.param(name="hidden", value=[]))
    return apply_style(chart.properties(width=WIDTH, height=height, description=description))


def apply_style(chart: Any) -> Any:
    """Set fonts, and remove the box around the chart."""
    return (
        chart.configure(font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", gridOpacity=0.6)
        .configure_legend(labelFontSize=12)
    )


def render_svg(spec: dict[str, Any]) -> str:
    """Return the drawing of a Vega-Lite specification."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))
