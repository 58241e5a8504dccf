"""A plan as a chart: how the chance of telling a difference grows with the log."""

from __future__ import annotations

from typing import Any

import numpy as np

from backcast.planning import Need, Plan
from backcast.report.dressing import COLOURS
from backcast.report.words import figure, percent

__all__ = ["plan_chart"]

WIDTH, HEIGHT = 640, 300
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
    return chart.properties(width=WIDTH, height=HEIGHT, description=str(plan)).configure_view(stroke=None)


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
        "length": f"{figure(events)} events",
        "chance": percent(power),
    }
